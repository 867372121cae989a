"""Measures models x peers x threads and writes one JSON file and one Markdown table.

    measure.py --out results.json                                   everything
    measure.py --models resnet50 --peers eager,nacre --threads 1    a part
    measure.py --prepare-only                                       only export and compile
    measure.py --report results.json                                only the table, from a results file

BENCH_BUILD names the folder for programs and artifacts, NACRE_BIN the nacre command (run.sh sets both).
Results are merged into an existing file: the lower of two measurements of the same thing stays,
so a second run repairs what a noisy neighbour spoilt.
"""
import argparse
import json
import os
import select
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import peers
import report
from cases import ROOT

HERE = Path(__file__).parent
PREPARE_TIMEOUT = 1800
ANSWER_TIMEOUT = 240


def environment(threads):
    count = str(threads)
    return {**os.environ, "OMP_NUM_THREADS": count, "MKL_NUM_THREADS": count, "OPENBLAS_NUM_THREADS": count,
            "BENCH_BUILD": str(ROOT), "CUDA_VISIBLE_DEVICES": "",
            "PYTHONDONTWRITEBYTECODE": "1"}


def pinned(threads):
    """Keep to as many processors as threads; the last ones, since interrupts prefer the first."""
    allowed = sorted(os.sched_getaffinity(0))[-threads:]

    def set_up():
        os.sched_setaffinity(0, allowed)
        os.setsid()
        try:                                              # other jobs on the machine should wait
            os.setpriority(os.PRIO_PROCESS, 0, -20)
            Path("/proc/self/autogroup").write_text("-20")
        except OSError:
            pass
    return set_up


def log_file(peer):
    ROOT.mkdir(parents=True, exist_ok=True)
    return open(ROOT / f"{peer}.log", "a")


# ---------------------------------------------------------------- export and prepare

def export(models):
    missing = [m for m in models if not (ROOT / m / "info.json").exists()]
    if missing:
        subprocess.run([sys.executable, "worker.py", "export", ",".join(missing)], cwd=HERE,
                       env=environment(os.cpu_count()), stdout=log_file("export"), stderr=subprocess.STDOUT)


def prepare(peer, models):
    """Make the artifacts that are missing, in one process; start again behind a model that crashes it."""
    if peer == "nacre":                                   # it changes all the time: never reuse
        for model in models:
            peers.place(peer, model)[1].unlink(missing_ok=True)

    def missing():
        return [m for m in models if (ROOT / m / "info.json").exists()
                and not peers.place(peer, m)[1].exists()]
    while todo := missing():
        print(f"prepare {peer} for {len(todo)} models", flush=True)
        try:
            subprocess.run([sys.executable, "worker.py", "prepare", peer, ",".join(todo)],
                           cwd=HERE, env=environment(os.cpu_count()),
                           stdout=log_file(peer), stderr=subprocess.STDOUT, timeout=PREPARE_TIMEOUT)
        except (subprocess.TimeoutExpired, FileNotFoundError) as error:
            print(f"prepare {peer}: {error}")
        if len(missing()) == len(todo):
            for model in todo:
                peers.place(peer, model)[1].write_text(
                    json.dumps({"reason": "this peer's environment does not work (see its log)"}))


# ---------------------------------------------------------------- measure

class Host:
    """A process with one peer's runtime loaded; it forks one process for each model."""

    def __init__(self, peer, threads):
        self.peer, self.pid = peer, None
        self.process = subprocess.Popen(
            [sys.executable, "worker.py", "host", peer, str(threads)], cwd=HERE, env=environment(threads),
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log_file(peer), preexec_fn=pinned(threads))
        self.buffer = b""
        self.import_ms = self.answer()["import_ms"]

    def send(self, line):
        self.process.stdin.write(line.encode() + b"\n")
        self.process.stdin.flush()

    def answer(self, timeout=ANSWER_TIMEOUT):
        end = time.monotonic() + timeout
        while b"\n" not in self.buffer:
            ready = select.select([self.process.stdout], [], [], max(0.0, end - time.monotonic()))[0]
            if not ready:
                if self.pid:
                    os.kill(self.pid, signal.SIGKILL)
                    self.pid = None
                    self.answer(10)                       # the host reports the kill
                return {"reason": f"no answer within {timeout} s"}
            data = os.read(self.process.stdout.fileno(), 1 << 16)
            if not data:
                return {"reason": "the host process died"}
            self.buffer += data
        line, self.buffer = self.buffer.split(b"\n", 1)
        return json.loads(line)

    def serve(self, model):
        self.send(f"serve {model}")
        answer = self.answer()
        if "pid" not in answer:
            return answer
        self.pid = answer["pid"]
        answer = self.answer()
        if "reason" in answer:
            self.pid = None
        else:
            os.kill(self.pid, signal.SIGSTOP)
        return answer

    def run(self, seconds):
        """One time slice; between slices the process is stopped, so that it cannot disturb others."""
        os.kill(self.pid, signal.SIGCONT)
        self.send(f"run {seconds}")
        answer = self.answer()
        if "times" in answer:
            os.kill(self.pid, signal.SIGSTOP)
            return answer["times"]
        self.pid = None
        return None

    def end(self):
        if self.pid:
            os.kill(self.pid, signal.SIGCONT)
            self.send("end")
            self.pid = None

    def close(self):
        self.end()
        self.process.stdin.close()
        try:
            self.process.wait(10)
        except subprocess.TimeoutExpired:
            self.process.kill()


def measure_model(model, hosts, threads, options):
    """Rows for one model and thread count; the peers take turns, so that noise hits all alike."""
    rows, sessions = {}, {}
    for peer, host in hosts.items():
        record = json.loads(peers.place(peer, model)[1].read_text())
        row = rows[peer] = {"model": model, "peer": peer, "threads": threads}
        row.update({k: record[k] for k in ("artifact_bytes", "prepare_s", "reason") if k in record})
        if "reason" in record:
            continue
        row.update(host.serve(model))
        if "reason" not in row:
            row["import_ms"], sessions[peer] = host.import_ms, []
    for turn in range(options.rounds):
        order = list(sessions)
        for peer in order[turn % len(order):] + order[:turn % len(order)] if order else []:
            times = hosts[peer].run(options.seconds)
            if times is None:
                rows[peer]["reason"] = "crashed while measured"
                del sessions[peer]
            else:
                sessions[peer] += times
    for peer, times in sessions.items():
        hosts[peer].end()
        rows[peer].update(min_ms=min(times), median_ms=statistics.median(times), runs=len(times))
    return list(rows.values())


LOWER = ("min_ms", "median_ms", "load_ms", "first_ms", "import_ms")


def merge(results, rows):
    """Replace or improve the results of the same model, peer and threads."""
    def key(row):
        return row["model"], row["peer"], row["threads"]
    known = {key(row): row for row in results["rows"]}
    for row in rows:
        old = known.get(key(row))
        if old and "min_ms" in old:
            if "min_ms" not in row:
                continue
            row = {**row, **{k: min(row[k], old[k]) for k in LOWER}, "runs": row["runs"] + old["runs"]}
        known[key(row)] = row
    results["rows"] = list(known.values())


def limits():
    """Peak arithmetic and bandwidth, from limits.c."""
    with tempfile.TemporaryDirectory() as folder:
        program = f"{folder}/limits"
        subprocess.run(["cc", "-O3", "-march=native", "-pthread", HERE / "limits.c", "-o", program], check=True)
        return {str(n): json.loads(subprocess.run([program, str(n)], capture_output=True, text=True, check=True,
                                                  preexec_fn=pinned(n)).stdout)
                for n in (1, 2) if n <= len(os.sched_getaffinity(0))}


def machine():
    fields = dict(line.split(":", 1) for line in Path("/proc/cpuinfo").read_text().split("\n\n")[0].splitlines()
                  if ":" in line)
    fields = {k.strip(): v.strip() for k, v in fields.items()}
    interesting = ("avx2", "fma", "avx512f", "avx512_vnni", "avx_vnni", "avx512_bf16", "avx512_fp16", "amx_tile",
                   "amx_int8", "amx_bf16", "neon", "asimd")
    return {"cpu": fields.get("model name", ""), "cpus": os.cpu_count(),
            "family_model_stepping": [fields.get(k) for k in ("cpu family", "model", "stepping")],
            "flags": [f for f in interesting if f in (fields.get("flags") or fields.get("Features") or "").split()],
            "kernel": os.uname().release}


def better_limits(old, new):
    for n, values in new.items():
        for k in ("gflops", "triad_gbs", "read_gbs"):
            values[k] = max(values[k], old.get(n, {}).get(k, 0.0))
    return new


def save(results, out):
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_text(json.dumps(results, indent=1))
    out.with_suffix(".md").write_text(report.markdown(results))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", help="comma-separated; default: all")
    parser.add_argument("--peers", help="comma-separated; default: all that are installed")
    parser.add_argument("--threads", default="1,2")
    parser.add_argument("--rounds", type=int, default=6)
    parser.add_argument("--seconds", type=float, default=0.4, help="time slice of a peer in a round")
    parser.add_argument("--out", type=Path, default=Path("results.json"))
    parser.add_argument("--prepare-only", action="store_true")
    parser.add_argument("--skip-prepare", action="store_true", help="measure what is there")
    parser.add_argument("--report", type=Path, help="write the table of this results file and stop")
    options = parser.parse_args()
    if options.report:
        options.report.with_suffix(".md").write_text(report.markdown(json.loads(options.report.read_text())))
        return
    names = options.models.split(",") if options.models else report.MODEL_ORDER
    chosen = options.peers.split(",") if options.peers else [p for p in peers.ALL if peers.installed(p)]
    counts = [int(n) for n in options.threads.split(",")]

    if not options.skip_prepare:
        export(names)
        for peer in chosen:
            prepare(peer, names)
    if options.prepare_only:
        return

    results = json.loads(options.out.read_text()) if options.out.exists() else {"rows": [], "libraries": {}}
    results["machine"] = machine()
    results["limits"] = better_limits(results.get("limits", {}), limits())
    results["models"] = {**results.get("models", {}), **{
        m: json.loads((ROOT / m / "info.json").read_text()) for m in names if (ROOT / m / "info.json").exists()}}
    for peer in chosen:
        if peer in results["libraries"]:
            continue
        done = subprocess.run([sys.executable, "worker.py", "libraries", peer], cwd=HERE, env=environment(1),
                              capture_output=True, text=True)
        if done.returncode == 0 and done.stdout:
            results["libraries"][peer] = json.loads(done.stdout.splitlines()[-1])["libraries"]
    for threads in counts:
        hosts = {}
        for model in names:
            usable = {}
            for peer in chosen:
                record = peers.place(peer, model)[1]
                if not record.exists():
                    continue
                if peer not in hosts and "artifact" in json.loads(record.read_text()):
                    hosts[peer] = Host(peer, threads)
                usable[peer] = hosts.get(peer)
            rows = measure_model(model, usable, threads, options)
            merge(results, rows)
            save(results, options.out)
            print(f"{model} x{threads}: " + ", ".join(
                f"{r['peer']} {r['min_ms']:.3f}" if "min_ms" in r else f"{r['peer']} -" for r in rows), flush=True)
        for host in hosts.values():
            host.close()


if __name__ == "__main__":
    sys.exit(main())
