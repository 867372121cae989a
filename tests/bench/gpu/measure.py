"""Measures prepared artifacts beside PyTorch on this machine's GPU, all in one run, and writes a table.

    measure.py --artifacts FOLDER --out last_run.json [--models a,b] [--batches 1,8,32] [--precisions ...] [--anchors eager,compile,aoti]

Each model and precision is a process that gets its contenders ready beside others (--workers); whoever is ready takes the GPU alone,
the others stopped meanwhile. There contenders take turns: each is a callable that queues one call on one stream, and a call's time is that between
two events. Results are compared with the module in float64 by the rule of the README: PyTorch's own error in that precision, twice, and 8 units
of rounding. Results go into an existing file, in place of the same model, precision and batch.
"""
import argparse
import contextlib
import fcntl
import json
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import torch

import models
import prepare
import report

HERE = Path(__file__).resolve().parent
UNITS = {"fp32": 2.0**-23, "tf32": 2.0**-10, "fp16": 2.0**-10, "bf16": 2.0**-7}


# ---------------------------------------------------------------- taking turns

@contextlib.contextmanager
def alone(folder):
    """The GPU for this process alone: other workers wait, stopped."""
    with open(folder / "lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        others = [int(p.name) for p in (folder / "workers").iterdir() if int(p.name) != os.getpgrp()]
        try:
            for group in others:
                with contextlib.suppress(OSError):
                    os.killpg(group, signal.SIGSTOP)
            time.sleep(0.05)
            yield
        finally:
            for group in others:
                with contextlib.suppress(OSError):
                    os.killpg(group, signal.SIGCONT)


class Timer:
    def __init__(self, call):
        self.call = call
        call()
        call()
        torch.cuda.synchronize()
        start = time.perf_counter()
        for _ in range(3):
            call()
        torch.cuda.synchronize()
        self.each = (time.perf_counter() - start) / 3
        self.times, self.walls = [], []

    def turn(self, seconds):
        count = int(max(5, min(100, seconds / max(self.each, 1e-6))))
        events = [(torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)) for _ in range(count)]
        self.call()
        for begin, end in events:
            begin.record()
            self.call()
            end.record()
        torch.cuda.synchronize()
        self.times += [begin.elapsed_time(end) * 1e3 for begin, end in events]
        for _ in range(min(count, 20)):
            start = time.perf_counter()
            self.call()
            torch.cuda.synchronize()
            self.walls.append((time.perf_counter() - start) * 1e6)

    def result(self):
        return {"us": round(statistics.median(self.times), 2), "wall_us": round(statistics.median(self.walls), 2)}


def in_graph(call):
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for _ in range(3):
            call()
    torch.cuda.current_stream().wait_stream(stream)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        outputs = call()

    def replay():
        graph.replay()
        return outputs
    replay.graph = graph
    return replay


def kernel_count(call):
    from torch.profiler import ProfilerActivity, profile
    call()
    torch.cuda.synchronize()
    with profile(activities=[ProfilerActivity.CUDA]) as record:
        call()
        torch.cuda.synchronize()
    return sum(e.device_type == torch.autograd.DeviceType.CUDA and not e.name.startswith(("Memcpy", "Memset")) for e in record.events())


# ---------------------------------------------------------------- results

def tensors(result):
    return list(result) if isinstance(result, (tuple, list)) else [result]


def error(results, reference):
    """(largest error, magnitude), of each tensor; in numbers of the processor."""
    found = []
    for x, y in zip(tensors(results), tensors(reference)):
        found.append((float((x.double() - y).abs().max()), float(y.abs().max())))
    return found


def judged(results, own, reference, precision):
    """The largest error over its limit: at most 1 is good. Not a number where a result is none."""
    worst = 0.0
    for (mine, magnitude), (theirs, _) in zip(error(results, reference), error(own, reference)):
        limit = 2 * theirs + 8 * UNITS[precision] * magnitude
        ratio = mine / limit if limit else (0.0 if mine == 0 else float("inf"))
        worst = max(worst, ratio) if ratio == ratio else ratio
        if worst != worst:
            break
    return worst


# ---------------------------------------------------------------- contenders

class Aoti:
    """A package that AOTInductor made, in a C++ process of its own (aoti_run.cpp): one turn a line."""

    def __init__(self, module, inputs, folder, runner):
        package = folder / "model.aoti.pt2"
        torch._inductor.aoti_compile_and_package(torch.export.export(module, inputs), package_path=str(package))
        torch.save([x.cpu() for x in inputs], folder / "inputs.pt", _use_new_zipfile_serialization=True)
        self.process = subprocess.Popen([runner, str(package), str(folder / "inputs.pt")], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        if not self.process.stdout.readline().startswith("ready"):
            raise RuntimeError("the package does not run")
        self.times, self.walls = [], []

    def turn(self, seconds):
        self.process.stdin.write(f"{seconds}\n")
        self.process.stdin.flush()
        answer = self.process.stdout.readline().split()
        self.times.append(float(answer[0]))
        self.walls.append(float(answer[1]))

    result = Timer.result


def fold_batch_norm(module):
    import torch.fx.experimental.optimization as optimization
    return optimization.fuse(module)


def set_precision(precision):
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = precision == "tf32"
    torch.backends.cudnn.benchmark = True


def on_device(name, batch, precision):
    module, inputs = models.create(name, batch, precision)
    module, inputs = module.cuda(), tuple(x.cuda() for x in inputs)
    if name in models.CONVOLUTIONAL and precision != "fp32":
        module = module.to(memory_format=torch.channels_last)
        inputs = tuple(x.contiguous(memory_format=torch.channels_last) for x in inputs)
    return module, inputs


def reference_of(name, batch, precision):
    # Of the weights that the program has: in 16 bits where it was exported in them.
    module, inputs = models.create(name, batch, models.exported_in(name, precision))
    module = module.cuda().double()
    with torch.no_grad():
        results = [x.detach() for x in tensors(module(*(x.cuda().double() if x.is_floating_point() else x.cuda() for x in inputs)))]
    return results


def nacre_session(artifact, name, batch, precision):
    import runtime
    model = runtime.Model(artifact / "model.nacre")
    _, inputs = models.create(name, batch, models.exported_in(name, precision))
    return runtime.Session(model, model.entry(f"b{batch}"), [x.cuda() for x in inputs])


def kernel_anchors(name, module, inputs):
    """What a kernel by itself is compared with beside PyTorch's: a copy of as many bytes."""
    if not name.startswith("gem"):
        other = torch.empty_like(inputs[0])
        return {"copy": in_graph(lambda: other.copy_(inputs[0]))}
    return {}


def measure_case(name, batch, precision, options):
    row = {"model": name, "precision": precision, "batch": batch, "contenders": {}}
    artifact = options.artifacts / f"{name}-{precision}"
    set_precision(precision)
    contenders, counts, results = {}, {}, {}

    def attempt(contender, make):
        try:
            contenders[contender] = make()
        except Exception as error:  # the others are measured all the same
            row["contenders"][contender] = {"reason": str(error).split("\n")[0][:200]}

    with torch.no_grad():
        module, inputs = on_device(name, batch, precision)
        own = [x.clone() for x in tensors(module(*inputs))]
        parts = sum(x.numel() * x.element_size() for x in [*module.parameters(), *[b for n, b in module.named_buffers() if n.endswith(("keys", "values"))]])
        row["weight_bytes"] = parts
        if "eager" in options.anchors:
            folded = fold_batch_norm(module) if name in models.CONVOLUTIONAL and name != "convnext_tiny" else module
            counts["eager"] = kernel_count(lambda: folded(*inputs))
            attempt("eager", lambda: in_graph(lambda: folded(*inputs)))
        if "compile" in options.anchors and name not in ("lstm", "gru"):  # which it leaves to cuDNN
            def compiled():
                call = torch.compile(module, dynamic=False)
                call(*inputs)
                torch.cuda.synchronize()
                counts["compile"] = kernel_count(lambda: call(*inputs))
                return in_graph(lambda: call(*inputs))
            attempt("compile", compiled)
        if "aoti" in options.anchors and options.aoti_runner and name in models.MODELS and name not in ("lstm", "gru"):
            folder = Path(tempfile.mkdtemp(dir=options.scratch))
            attempt("aoti", lambda: Aoti(module, inputs, folder, options.aoti_runner))
        if name in models.KERNELS:
            contenders.update(kernel_anchors(name, module, inputs))
        while (artifact / "holes.json").exists():  # carry.py unpacks beside
            time.sleep(0.2)
        if artifact.exists():
            attempt("nacre", lambda: nacre_session(artifact, name, batch, precision))
            counts["nacre"] = json.loads((artifact / "info.json").read_text())["kernels"].get(f"b{batch}")
        else:
            row["contenders"]["nacre"] = {"reason": "not prepared"}
        with alone(options.scratch):
            reference = reference_of(name, batch, precision)
            for contender in ("eager", "compile", "nacre"):
                if contender in contenders:
                    results[contender] = [x.clone() for x in tensors(contenders[contender]())]
            torch.cuda.synchronize()
            for contender, result in results.items():
                row.setdefault("of_limit", {})[contender] = round(judged(result, own, reference, precision), 3)
            del reference, results
            torch.cuda.empty_cache()
            timers = {contender: call if isinstance(call, Aoti) else Timer(call) for contender, call in contenders.items()}
            order = list(timers)
            for turn in range(options.rounds):
                for contender in order[turn % len(order):] + order[:turn % len(order)] if order else []:
                    timers[contender].turn(options.seconds)
            for contender, timer in timers.items():
                row["contenders"][contender] = timer.result()
                if counts.get(contender):
                    row["contenders"][contender]["kernels"] = counts[contender]
        for contender in contenders.values():
            if isinstance(contender, Aoti):
                contender.process.stdin.close()
    return row


def limits():
    """GB/s of copies and of reads, TFLOP/s of products: what the device does, by PyTorch."""
    found = {}
    with torch.no_grad():
        x = torch.ones(1 << 30, device="cuda")
        y = torch.empty_like(x)
        for what, call, work in (("copy_gbs", lambda: y.copy_(x), 8 << 30), ("read_gbs", lambda: x.sum(), 4 << 30)):
            timer = Timer(call)
            timer.turn(0.2)
            found[what] = round(work / timer.result()["us"] / 1e3, 1)
        del x, y
        for what, dtype in (("fp16_tflops", torch.float16), ("fp32_tflops", torch.float32)):
            set_precision("fp32")
            a, b = (torch.randn(8192, 8192, device="cuda", dtype=dtype) for _ in range(2))
            timer = Timer(lambda: a @ b)
            timer.turn(0.2)
            found[what] = round(2 * 8192**3 / timer.result()["us"] / 1e6, 1)
    return found


# ---------------------------------------------------------------- the run

def worker(options):
    name, precision, batches = options.worker.split(":")
    (options.scratch / "workers" / str(os.getpgrp())).touch()
    for batch in batches.split(","):
        try:
            # The default stream has no handle, and a session would take one of its own.
            with torch.cuda.stream(torch.cuda.Stream()):
                row = measure_case(name, int(batch), precision, options)
        except Exception as error:
            row = {"model": name, "precision": precision, "batch": int(batch), "contenders": {}, "reason": str(error).split("\n")[0][:200]}
        print(json.dumps(row), flush=True)
        torch._dynamo.reset()
        torch.cuda.empty_cache()
    (options.scratch / "workers" / str(os.getpgrp())).unlink()


def build_aoti_runner(scratch):
    """The program that runs a package, or None and why not."""
    from torch.utils import cpp_extension
    program = scratch / "aoti_run"
    paths = cpp_extension.include_paths(device_type="cuda")
    libraries = cpp_extension.library_paths(device_type="cuda")
    done = subprocess.run(["c++", "-std=c++20", "-O1", str(HERE / "aoti_run.cpp"), "-o", str(program), *[f"-I{p}" for p in paths], *[f"-L{p}" for p in libraries],
                           *[f"-Wl,-rpath,{p}" for p in libraries], "-ltorch", "-ltorch_cpu", "-Wl,--no-as-needed", "-ltorch_cuda", "-lc10", "-lc10_cuda", "-lcudart"],
                          capture_output=True, text=True)
    return (program, "") if done.returncode == 0 else (None, done.stderr.strip().split("\n")[-1])


def machine():
    device = torch.cuda.get_device_properties(0)
    driver = subprocess.run(["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"], capture_output=True, text=True).stdout.strip()
    return {"device": device.name, "multiprocessors": device.multi_processor_count, "memory_bytes": device.total_memory, "driver": driver,
            "torch": torch.__version__, "cuda": torch.version.cuda, "cudnn": torch.backends.cudnn.version()}


def merge(results, row):
    key = ("model", "precision", "batch")
    results["rows"] = [old for old in results["rows"] if any(old[k] != row[k] for k in key)] + [row]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    prepare.add_options(parser)
    parser.add_argument("--artifacts", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--anchors", type=lambda text: text.split(","), default=["eager", "compile", "aoti"])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=0.05, help="of a contender's turn")
    parser.add_argument("--workers", type=int, default=max(1, (os.cpu_count() or 2) // 2))
    parser.add_argument("--deadline", type=float, default=0, help="seconds after which no further case begins, and running ones are ended; default: none")
    parser.add_argument("--commit", default="", help="what the artifacts were made of, for the record")
    parser.add_argument("--worker", help=argparse.SUPPRESS)
    parser.add_argument("--scratch", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--aoti-runner", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.worker:
        return worker(options)
    if not torch.cuda.is_available():
        print("skipped: no GPU that this PyTorch can use")
        return 77

    began = time.monotonic()
    results = json.loads(options.out.read_text()) if options.out.exists() else {"rows": []}
    results.update(machine=machine(), date=time.strftime("%Y-%m-%d"), commit=options.commit)
    results["limits"] = limits()
    print(results["machine"], results["limits"], flush=True)
    torch.cuda.empty_cache()
    with tempfile.TemporaryDirectory() as scratch:
        scratch = Path(scratch)
        (scratch / "workers").mkdir()
        runner, why = build_aoti_runner(scratch) if "aoti" in options.anchors else (None, "")
        if why:
            print(f"no AOTInductor: {why}", flush=True)
        waiting = [(name, precision, batch) for name, precision, batches in prepare.cases(options) for batch in batches]
        running = {}
        environment = {**os.environ, "TORCHINDUCTOR_COMPILE_THREADS": "2", "OMP_NUM_THREADS": "2", "PYTHONUNBUFFERED": "1"}
        while waiting or running:
            late = options.deadline and time.monotonic() - began > options.deadline
            while waiting and not late and len(running) < options.workers:
                name, precision, batch = waiting.pop(0)
                command = [sys.executable, __file__, "--worker", f"{name}:{precision}:{batch}", "--scratch", scratch, "--artifacts", options.artifacts, "--out", options.out,
                           "--anchors", ",".join(options.anchors), "--rounds", str(options.rounds), "--seconds", str(options.seconds)]
                if runner:
                    command += ["--aoti-runner", runner]
                log = open(scratch / f"{name}-{precision}-{batch}.log", "w")
                running[(name, precision, batch)] = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, text=True, env=environment, start_new_session=True)
            if late and not running:
                print("not begun:", ", ".join(f"{n} {p} batch {b}" for n, p, b in waiting), flush=True)
                break
            for key, process in list(running.items()):
                if process.poll() is None:
                    if options.deadline and time.monotonic() - began > 1.15 * options.deadline:
                        with contextlib.suppress(OSError):
                            os.killpg(process.pid, signal.SIGKILL)
                    continue
                del running[key]
                (scratch / "workers" / str(process.pid)).unlink(missing_ok=True)
                for other in running.values() if process.returncode else []:  # which this one, if it ended alone, has left stopped
                    with contextlib.suppress(OSError):
                        os.killpg(other.pid, signal.SIGCONT)
                lines = [line for line in process.stdout.read().splitlines() if line.startswith("{")]
                if not lines:
                    last = (scratch / "{}-{}-{}.log".format(*key)).read_text().strip().split("\n")[-1][:200]
                    lines = [json.dumps({"model": key[0], "precision": key[1], "batch": key[2], "contenders": {}, "reason": f"ended with {process.returncode}: {last}"})]
                for line in lines:
                    row = {**json.loads(line), "commit": options.commit}
                    merge(results, row)
                    print(report.line(row), flush=True)
                options.out.write_text(json.dumps(results, indent=1))
                options.out.with_suffix(".md").write_text(report.markdown(results))
            time.sleep(0.1)
    print(f"{time.monotonic() - began:.0f} s; table: {options.out.with_suffix('.md')}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
