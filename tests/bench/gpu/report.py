"""The table of a run of the GPU bench.   report.py last_run.json"""
import json
import math
import sys
from pathlib import Path

import models

ANCHORS = ("compile", "aoti", "eager")
TITLES = {"nacre": "nacre", "compile": "torch.compile in a graph", "aoti": "AOTInductor, C++", "eager": "eager in a graph"}
SINGLE = {"gemm_4096": 4, "gemv_4096": 16}


def us(row, contender):
    return row["contenders"].get(contender, {}).get("us")


def best_anchor(row):
    times = [us(row, a) for a in ANCHORS if us(row, a)]
    return min(times) if times else None


def line(row):
    if "reason" in row:
        return f"{row['model']} {row['precision']} batch {row['batch']}: {row['reason']}"
    parts = [f"{c} {r['us']} us" if "us" in r else f"{c} - ({r['reason']})" for c, r in row["contenders"].items()]
    return f"{row['model']} {row['precision']} batch {row['batch']}: {', '.join(parts)}; of the limit {row.get('of_limit')}"


def geometric_mean(values):
    return math.exp(sum(map(math.log, values)) / len(values)) if values else None


def cell(row, contender):
    time = us(row, contender)
    if not time:
        return "-"
    kernels = row["contenders"][contender].get("kernels")
    return f"{time:.0f}" + (f" ({kernels})" if kernels else "")


def commits(rows):
    """What nacre was made of, where the rows say it."""
    found = sorted({r["commit"] for r in rows if r.get("commit")})
    return f" (nacre at {', '.join(found)})" if found else ""


def section(rows, precision, batch):
    rows = [r for r in rows if r["precision"] == precision and r["batch"] == batch and r["model"] in models.MODELS]
    if not rows:
        return []
    rows.sort(key=lambda r: list(models.MODELS).index(r["model"]))
    lines = [f"### {precision}, batch {batch}{commits(rows)}", "", "| | nacre | " + " | ".join(TITLES[a] for a in ANCHORS) + " | times the best | error of limit |", "| --- " + "| ---: " * 6 + "|"]
    times, against = [], {a: [] for a in ANCHORS}
    for r in rows:
        mine, best = us(r, "nacre"), best_anchor(r)
        if mine and best:
            times.append(best / mine)
        for a in ANCHORS:
            if mine and us(r, a):
                against[a].append(us(r, a) / mine)
        ratio = f"{best / mine:.2f}" if mine and best else "-"
        error = r.get("of_limit", {}).get("nacre")
        note = "" if mine else f" {r.get('reason') or r['contenders'].get('nacre', {}).get('reason', '')}"
        lines.append(f"| {r['model']} | {cell(r, 'nacre')}{note} | " + " | ".join(cell(r, a) for a in ANCHORS) + f" | {ratio} | {'-' if error is None else error} |")
    means = [geometric_mean(against[a]) for a in ANCHORS]
    overall = geometric_mean(times)
    lines.append("| geometric mean of nacre's advantage | | " + " | ".join("-" if m is None else f"{m:.2f}" for m in means) + f" | {'-' if overall is None else f'{overall:.2f}'} | |")
    return lines + [""]


def single_kernels(results):
    rows = [r for r in results["rows"] if r["model"] in models.KERNELS]
    limits = results["limits"]
    lines = []
    for r in rows:
        each = {c: t / SINGLE.get(r["model"], 1) for c in ("nacre", "eager", "compile", "copy") if (t := us(r, c))}
        if "nacre" not in each:
            continue
        if r["model"].startswith("gemm"):
            rate, what, other = 2 * 4096**3 / each["nacre"] / 1e6, "TFLOP/s", min((each[c] for c in ("eager", "compile") if c in each), default=None)
            share = f"{other / each['nacre']:.0%} of cuBLAS ({other:.1f} us)" if other else ""
        elif r["model"].startswith("gemv"):
            rate, what = 2 * 4096**2 / each["nacre"] / 1e3, "GB/s"
            share = f"{rate / limits['read_gbs']:.0%} of the read bandwidth" + (f"; PyTorch {min(v for k, v in each.items() if k != 'nacre'):.1f} us" if len(each) > 1 else "")
        else:
            rate, what = 4 * 16384 * 4096 / each["nacre"] / 1e3, "GB/s"
            share = (f"{each['copy'] / each['nacre']:.0%} of a copy ({each['copy']:.1f} us)" if "copy" in each else "") + (f"; torch.compile {each['compile']:.1f} us" if "compile" in each else "")
        lines.append(f"| {r['model']} | {each['nacre']:.2f} | {rate:.0f} {what} | {share} | {r.get('of_limit', {}).get('nacre', '-')} |")
    for r in results["rows"]:
        if r["model"].endswith("decode") and us(r, "nacre"):
            rate = r["weight_bytes"] / us(r, "nacre") / 1e3
            lines.append(f"| {r['model']} | {us(r, 'nacre'):.0f} | {rate:.0f} GB/s | {rate / limits['read_gbs']:.0%} of the read bandwidth (weights and cache) | {r.get('of_limit', {}).get('nacre', '-')} |")
    return [f"### Kernels by themselves, and decoding{commits(rows)}", "", "| | us | rate | share | error of limit |", "| --- | ---: | ---: | --- | ---: |", *lines, ""] if lines else []


def markdown(results):
    m, limits = results["machine"], results["limits"]
    lines = [f"{results['date']}, {m['device']}, driver {m['driver']}, torch {m['torch']}" + ".",
             f"The device, by PyTorch: copies {limits['copy_gbs']} GB/s, reads {limits['read_gbs']} GB/s, fp16 {limits['fp16_tflops']} TFLOP/s, fp32 {limits['fp32_tflops']} TFLOP/s.", "",
             "GPU time of a call in microseconds, median of calls in turns; kernels in brackets. Errors as parts of the rule's limit.", ""]
    for precision in ("fp16", "bf16", "tf32", "fp32"):
        for batch in (1, 8, 32):
            lines += section(results["rows"], precision, batch)
    lines += single_kernels(results)
    unmeasured = [line(r) for r in results["rows"] if "reason" in r]
    if unmeasured:
        lines += ["Not measured:", "", *[f"- {text}" for text in unmeasured], ""]
    return "\n".join(lines)


if __name__ == "__main__":
    path = Path(sys.argv[1])
    path.with_suffix(".md").write_text(markdown(json.loads(path.read_text())))
