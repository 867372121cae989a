"""The Markdown table of a results file."""
import statistics

MODEL_ORDER = ["floor", "ds_cnn", "resnet8", "mobilenet_v1_025", "autoencoder", "gru_keyword", "lstm_speech",
               "tcn_denoiser", "shufflenet_v2", "mobilenet_v2", "mobilenet_v3_large", "efficientnet_b0", "resnet18",
               "resnet50", "resnet50_b8", "convnext_tiny", "vit_b_16", "swin_t", "lraspp_mobilenet_v3",
               "unet_small", "yolo11n", "minilm", "llama_prefill", "llama_decode"]
PEER_ORDER = ["nacre", "eager", "onnxruntime", "openvino"]
# above this relative error a result is not of the float32 class and takes no part in the comparison
TOLERANCE = 2e-3


def number(value):
    return f"{value:.4f}" if value < 0.01 else f"{value:.3f}" if value < 1 else f"{value:.2f}" if value < 100 else f"{value:.0f}"


def table(head, rows):
    lines = ["| " + " | ".join(head) + " |", "|" + "|".join([" --- "] + [" ---: "] * (len(head) - 1)) + "|"]
    return "\n".join(lines + ["| " + " | ".join(row) + " |" for row in rows]) + "\n"


def sound(row):
    return "min_ms" in row and row["max_rel_error"] <= TOLERANCE


CACHED = 32e6      # bytes of weights that may stay in cache from one inference to the next


def ideal_ms(info, limits):
    """What the hardware allows: the larger of arithmetic time and the time to read large weights once."""
    arithmetic = info["flops"] / limits["gflops"] / 1e6
    return max(arithmetic, info["weight_bytes"] / limits["read_gbs"] / 1e6) if info["weight_bytes"] > CACHED \
        else arithmetic


def best(rows):
    """The fastest sound row."""
    return min(filter(sound, rows), key=lambda r: r["min_ms"], default=None)


def speed_up(rows):
    """How many times faster nacre is than eager, or None."""
    mine = {r["peer"]: r for r in rows}
    if all(p in mine and sound(mine[p]) for p in ("nacre", "eager")):
        return mine["eager"]["min_ms"] / mine["nacre"]["min_ms"]
    return None


def pick(results, **wanted):
    return [r for r in results["rows"] if all(r[k] == v for k, v in wanted.items())]


def markdown(results):
    rows = results["rows"]
    models = [m for m in MODEL_ORDER if any(r["model"] == m for r in rows)]
    names = [p for p in PEER_ORDER if any(r["peer"] == p and "min_ms" in r for r in rows)]
    machine, limits = results["machine"], results["limits"]
    text = ["# Inference latency beside the peers\n",
            f"CPU: {machine['cpu']} ({machine['cpus']} cores; {', '.join(machine['flags'])}), "
            f"kernel {machine['kernel']}.\n",
            table(["threads", "peak GFLOP/s", "triad GB/s", "read GB/s"],
                  [[n, f"{v['gflops']:.0f}", f"{v['triad_gbs']:.1f}", f"{v['read_gbs']:.1f}"]
                   for n, v in limits.items()])]
    for threads in sorted({r["threads"] for r in rows}):
        text.append(f"## {threads} thread{'s' if threads > 1 else ''}: minimum latency, ms\n")
        text.append(latency_table(results, pick(results, threads=threads), models, names, limits[str(threads)]))
        ratios = [x for m in models if (x := speed_up(pick(results, threads=threads, model=m)))]
        if ratios:
            text.append(f"nacre over PyTorch eager: geometric mean {statistics.geometric_mean(ratios):.2f} over "
                        f"{len(ratios)} models, smallest {min(ratios):.2f}, largest {max(ratios):.2f}.\n")
    text.append("`n (!)` computes something else than float32 does (error above tolerance) and is not compared. "
                "`-` cannot run it: see below. Best in bold. Speed-up: eager over nacre. Ideal: the larger of FLOPs over "
                "peak and, above 32 MB, weight bytes over read bandwidth; the fraction is ideal over nacre.\n")
    text.append("## Runtime\n")
    text.append(runtime_table(results, names))
    for title, key, scale in (("Load time, ms (open artifact to ready), 1 thread", "load_ms", 1),
                              ("First inference, ms, 1 thread", "first_ms", 1),
                              ("Memory added by the model, MB (peak resident less that after import), 1 thread",
                               "model_rss_mb", 1),
                              ("Artifact, MB", "artifact_bytes", 1e6)):
        text.append(f"## {title}\n")
        text.append(cells(results, models, names, key, scale))
    text.append("## Largest error relative to float64, 1 thread\n")
    text.append(cells(results, models, names, "max_rel_error", 1, "{:.0e}"))
    if results.get("notes"):
        text.append("## Notes\n")
        text.append("\n".join(f"- {note}" for note in results["notes"]) + "\n")
    text.append("## What failed\n")
    failures = sorted({(r["peer"], r["model"], r["reason"]) for r in rows if "reason" in r})
    text.append("\n".join(f"- {p}, {m}: {' '.join(reason.split())}" for p, m, reason in failures) or "nothing")
    return "\n".join(text) + "\n"


def latency_table(results, rows, models, names, limits):
    names = [p for p in names if any(r["peer"] == p for r in rows)]
    lines = []
    for model in models:
        mine = {r["peer"]: r for r in rows if r["model"] == model}
        if not mine:
            continue
        winner = best(mine.values())
        line = [model]
        for peer in names:
            row = mine.get(peer)
            if row is None or "min_ms" not in row:
                line.append("-")
                continue
            text = number(row["min_ms"]) + ("" if sound(row) else " (!)")
            line.append(f"**{text}**" if row is winner else text)
        ideal = ideal_ms(results["models"][model], limits)
        ratio, own = speed_up(mine.values()), mine.get("nacre", {}).get("min_ms")
        lines.append(line + [f"{ratio:.2f}" if ratio else "", number(ideal), f"{100 * ideal / own:.0f} %" if own else ""])
    return table(["model"] + names + ["speed-up", "ideal", "fraction"], lines)


def runtime_table(results, names):
    lines = []
    for peer in names:
        sizes = results["libraries"].get(peer, {})
        imports = [r["import_ms"] for r in results["rows"] if r["peer"] == peer and "import_ms" in r]
        lines.append([peer, f"{sum(sizes.values()) / 1e6:.1f}", f"{min(imports, default=0):.0f}",
                      ", ".join(sizes) or "-"])
    return table(["peer", "stripped libraries, MB", "import, ms", "which"], lines)


def cells(results, models, names, key, scale, form=None):
    lines = []
    for model in models:
        found = {r["peer"]: r[key] for r in pick(results, model=model, threads=1)
                 if key in r}
        lines.append([model] + [(form.format(found[p]) if form else number(found[p] / scale)) if p in found else "-"
                                for p in names])
    return table(["model"] + names, lines)
