"""Runs one peer. Started by measure.py.

    worker.py export MODEL[,MODEL..]                           writes the cases
    worker.py prepare PEER MODEL[,MODEL..]                     makes the artifacts
    worker.py libraries PEER                                   sizes of the runtime's stripped libraries
    worker.py host PEER THREADS                                imports the runtime, then obeys stdin:

'serve MODEL' forks a process that loads the model, infers, and answers with the first figures;
that process then obeys 'run SECONDS' (answers with latencies) until 'end'. So each measured model
has a process of its own, without paying for the import each time. Every answer is one JSON line.
"""
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
import traceback
from pathlib import Path

import numpy

import peers
from cases import ROOT, Case

answers = os.fdopen(os.dup(1), "w")       # peers may print on stdout: keep a private copy
os.dup2(2, 1)


def answer(**fields):
    answers.write(json.dumps(fields) + "\n")
    answers.flush()


def failure(error):
    if isinstance(error, peers.Unsupported):
        return str(error)
    traceback.print_exc()
    return f"{type(error).__name__}: {' '.join(str(error).split())[:300]}"


def resident(field="VmRSS"):
    """Megabytes, from the kernel's account of this process."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(field + ":"):
            return int(line.split()[1]) / 1000
    return 0.0


def export(models):
    import cases
    for model in models:
        cases.export(model)
        answer(model=model)


def prepare(peer, models):
    module = peers.get(peer)
    for model in models:
        folder, record = peers.place(peer, model)
        start = time.perf_counter()
        try:
            record.parent.mkdir(parents=True, exist_ok=True)
            record.write_text(json.dumps({"reason": "preparation crashed"}))
            artifact = module.prepare(Case(model), folder)
            fields = {"artifact": os.path.relpath(artifact, ROOT), "artifact_bytes": peers.size(artifact)}
        except Exception as error:
            fields = {"reason": failure(error)}
        fields["prepare_s"] = round(time.perf_counter() - start, 2)
        record.write_text(json.dumps(fields))
        answer(model=model, **fields)


def libraries(peer):
    """Bytes of each shared object that a deployment needs, after strip."""
    sizes = {}
    with tempfile.TemporaryDirectory() as folder:
        for path in peers.get(peer).libraries():
            copy = shutil.copy(path, folder)
            subprocess.run(["strip", "-s", copy], capture_output=True)
            sizes[path.name] = min(os.path.getsize(copy), path.stat().st_size)
    answer(libraries=sizes)


def host(peer, threads):
    start = time.perf_counter()
    module = peers.get(peer)
    module.import_runtime()
    answer(import_ms=(time.perf_counter() - start) * 1e3)
    while True:
        words = sys.stdin.readline().split()
        if not words or words[0] != "serve":
            return
        child = os.fork()
        if child == 0:
            try:
                serve(module, peer, words[1], threads)
            except Exception as error:
                answer(reason=failure(error))
            os._exit(0)                    # some runtimes hang or crash in their destructors
        status = os.waitpid(child, 0)[1]
        if os.WIFSIGNALED(status):
            answer(reason=f"killed by signal {os.WTERMSIG(status)}")


def serve(module, peer, model, threads):
    case = Case(model)
    _, record = peers.place(peer, model)
    artifact = ROOT / json.loads(record.read_text())["artifact"]
    answer(pid=os.getpid())
    before, start = resident(), time.perf_counter()
    session = module.load(artifact, case, threads)
    load_s, start = time.perf_counter() - start, time.perf_counter()
    session.run()
    first_s = time.perf_counter() - start
    for _ in range(2):
        session.run()
    peak = resident("VmHWM")
    absolute, relative = case.error(numpy.asarray(session.output()))
    answer(**{"load_ms": load_s * 1e3, "first_ms": first_s * 1e3, "peak_rss_mb": peak,
              "model_rss_mb": peak - before, **session.figures},
           max_abs_error=absolute, max_rel_error=relative)
    while True:
        words = sys.stdin.readline().split()
        if not words or words[0] != "run":
            return
        seconds = float(words[1])
        answer(times=session.times(seconds) if session.times else timed(session.run, seconds))


def timed(run, seconds):
    """Latencies in milliseconds of the runs that fit into a time slice, at least two."""
    clock, times = time.perf_counter, []
    end = clock() + seconds
    run()                                  # wakes caches and thread pools; not counted
    while len(times) < 2 or clock() < end:
        start = clock()
        run()
        times.append((clock() - start) * 1e3)
    return times


def main():
    command, *rest = sys.argv[1:]
    if command == "export":
        export(rest[0].split(","))
    elif command == "prepare":
        prepare(rest[0], rest[1].split(","))
    elif command == "libraries":
        libraries(rest[0])
    elif command == "host":
        host(rest[0], int(rest[1]))
    answers.flush()
    os._exit(0)


if __name__ == "__main__":
    main()
