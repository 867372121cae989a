"""Tests of the nacre command: what it answers, and what it does with damaged, missing and foreign files.

    python run.py --tool build/bin/nacre [--only WORD] [--cases DIR]

Every function test_* is a test; it gets a Bench with the tool, scratch folders and compiled artifacts. An error must be
an exit status of 1 to 127 and a message on stderr: never a signal, a hang or a wrong answer.
"""
import argparse
import copy
import functools
import json
import os
import platform
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import xml.etree.ElementTree
import zipfile
from pathlib import Path

import numpy

import tally

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
EXPORT = ROOT / "tests" / "models" / "export.py"
INPUTS = ROOT / "tests" / "models" / "inputs.py"
CASES = ("floor", "counter", "ds_cnn", "resnet8", "resnet18", "autoencoder_dynamic", "mtcnn_pnet", "mtcnn_rnet", "minilm_pretrained")
TIMEOUT = 120


class Done:
    """A finished command."""

    def __init__(self, process, command):
        self.status, self.out, self.err = process.returncode, process.stdout, process.stderr
        self.command = " ".join(map(str, command))

    def __str__(self):
        return f"$ {self.command}\nstatus {self.status}\n{self.out[-1500:]}{self.err[-1500:]}"


class Bench:
    def __init__(self, tool, cases, scratch):
        self.tool, self.cases, self.scratch = tool, cases, scratch
        self.made = {}

    def nacre(self, *arguments, **options):
        command = [str(self.tool), *map(str, arguments)]
        try:
            process = subprocess.run(command, capture_output=True, text=True, errors="replace", timeout=TIMEOUT, **options)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"$ {' '.join(command)}\ntook more than {TIMEOUT} s")
        return Done(process, command)

    def works(self, *arguments, **options):
        done = self.nacre(*arguments, **options)
        assert done.status == 0, str(done)
        return done

    def refuses(self, *arguments, says=(), **options):
        """The command must end with an error and a message that has all the words."""
        done = self.nacre(*arguments, **options)
        assert 1 <= done.status <= 127, str(done)
        assert done.err.strip(), f"no message\n{done}"
        assert done.status != 5, f"an internal error\n{done}"
        for word in says:
            assert word in done.err, f"the message lacks '{word}'\n{done}"
        return done

    def case(self, name):
        assert name in CASES, f"add {name} to CASES"
        return self.cases / name

    def artifact(self, name):
        if name not in self.made:
            path = self.scratch / f"{name}.nacre"
            self.works("compile", self.case(name) / "model.pt2", "-o", path)
            self.made[name] = path
        return self.made[name]

    def folder(self):
        return Path(tempfile.mkdtemp(dir=self.scratch))


def near(got, want, atol=1e-5):
    numpy.testing.assert_allclose(got, want, rtol=1e-4, atol=atol)


def numbered(folder, kind):
    return [numpy.load(folder / f"{kind}_{i}.npy") for i in range(len(list(folder.glob(f"{kind}_[0-9]*.npy"))))]


# ---------------------------------------------------------------- what works

def test_compile_run_and_figures(bench):
    case = bench.case("mtcnn_rnet")
    folder = bench.folder()
    done = bench.works("compile", case / "model.pt2", "-o", folder / "model.nacre")
    for word in ("code", "weights", "arena", "state"):
        assert word in done.out + done.err, f"no figure for {word}\n{done}"
    for name in ("set_0", "also_0", "also_1"):
        out = bench.folder()
        bench.works("run", folder / "model.nacre", "--inputs", case / name, "--output-dir", out)
        for got, want in zip(numbered(out, "output"), numbered(case / name, "output"), strict=True):
            near(got, want)


def test_inputs_as_single_files_and_two_threads(bench):
    case, out = bench.case("minilm_pretrained"), bench.folder()
    bench.works("run", bench.artifact("minilm_pretrained"), "--input", case / "set_0" / "input_0.npy",
                "--input", case / "set_0" / "input_1.npy", "--output-dir", out, "--threads", 2)
    near(numpy.load(out / "output_0.npy"), numpy.load(case / "set_0" / "output_0.npy"))


def test_state_carries_from_call_to_call(bench):
    case, state = bench.case("counter"), bench.folder()
    for step in range(3):
        out = bench.folder()
        bench.works("run", bench.artifact("counter"), "--inputs", case / f"sequence_{step}", "--output-dir", out, "--state", state)
        for got, want in zip(numbered(out, "output"), numbered(case / f"sequence_{step}", "output"), strict=True):
            near(got, want)


def test_mutated_input_is_written_back(bench):
    case, out = bench.case("counter"), bench.folder()
    bench.works("run", bench.artifact("counter"), "--inputs", case / "set_0", "--output-dir", out)
    near(numpy.load(out / "after_input_0.npy"), numpy.load(case / "set_0" / "after_input_0.npy"))
    assert not (out / "after_input_1.npy").exists(), "an input that is only read was written"


def test_same_input_gives_the_same_bytes(bench):
    case, folder = bench.case("ds_cnn"), bench.folder()
    elsewhere = folder / "elsewhere"
    elsewhere.mkdir()
    shutil.copy(case / "model.pt2", elsewhere / "other_name.pt2")
    bench.works("compile", case / "model.pt2", "-o", folder / "a.nacre")
    bench.works("compile", elsewhere / "other_name.pt2", "-o", elsewhere / "b.nacre", cwd=elsewhere,
                env={**os.environ, "XDG_CACHE_HOME": str(folder / "cache")})  # compiled anew, not from the cache
    assert (folder / "a.nacre").read_bytes() == (elsewhere / "b.nacre").read_bytes()


def inputs_of(bench, artifact):
    """[(name, shape)] of the first entry, shapes as inspect writes them."""
    entry = json.loads(bench.works("inspect", artifact, "--json").out)["entries"][0]
    return [(tensor["name"], tensor["shape"]) for tensor in entry["inputs"]]


def test_variants_beside_the_general_one(bench):
    case, folder = bench.case("autoencoder_dynamic"), bench.folder()
    [(name, _)] = inputs_of(bench, bench.artifact("autoencoder_dynamic"))
    artifact, recorded = folder / "a.nacre", folder / "shapes.txt"
    done = bench.works("compile", case / "model.pt2", "-o", artifact, "--variant", f"{name}: [1, 640]",
                       "--variant", f"{name}: [2..32 by 8, _]", "--dump", folder / "dump")
    assert "3 variants" in done.out and "its own" in done.out, done
    assert any("640" in p.name for p in (folder / "dump").iterdir()), "no dump of the special variants"
    variants = json.loads(bench.works("inspect", artifact, "--json").out)["entries"][0]["variants"]
    assert [v["name"] for v in variants] == [f"{name}: [1, 640]", f"{name}: [2..32 by 8, _]", "general"]
    assert all(v["cost"]["code_bytes"] >= v["cost"]["own_code_bytes"] for v in variants), variants
    # Weights are there once: a variant has at most a few of its own.
    alone = bench.artifact("autoencoder_dynamic").stat().st_size
    assert artifact.stat().st_size < 1.5 * alone, (artifact.stat().st_size, alone)
    for set_name in ("set_0", "also_0", "also_1"):
        out = bench.folder()
        bench.works("run", artifact, "--inputs", case / set_name, "--output-dir", out,
                    env={**os.environ, "NACRE_RECORD_SHAPES": str(recorded)})
        for got, want in zip(numbered(out, "output"), numbered(case / set_name, "output"), strict=True):
            near(got, want, atol=2e-4)
    bench.refuses("run", artifact, "--inputs", case / "set_0", "--output-dir", bench.folder(),
                  env={**os.environ, "NACRE_RECORD_SHAPES": "/nowhere/shapes"}, says=("NACRE_RECORD_SHAPES", "/nowhere/shapes"))
    lines = recorded.read_text().splitlines()
    assert [line.split(": ")[0] for line in lines] == ["1 calls by variant 2", "1 calls by variant 0", "1 calls by variant 2"], lines
    # The recorded shapes as variants of their own.
    bench.works("compile", case / "model.pt2", "-o", artifact, "--shapes", recorded, "--most-variants", 2)
    variants = json.loads(bench.works("inspect", artifact, "--json").out)["entries"][0]["variants"]
    assert len(variants) == 3, [v["name"] for v in variants]
    bench.refuses("compile", case / "model.pt2", "-o", artifact, "--shapes", case / "case.json", says=("case.json:1",))
    damaged = folder / "damaged.txt"
    damaged.write_text(recorded.read_text() + "1 calls by variant 0: forward/x: [2x, 3]\n")
    line = len(recorded.read_text().splitlines()) + 1
    bench.refuses("compile", case / "model.pt2", "-o", artifact, "--shapes", damaged, says=(f"damaged.txt:{line}: ", "'forward/x: [2x, 3]' is no variant"))
    bench.refuses("compile", case / "model.pt2", "-o", artifact, "--variant", f"{name}: [65, 640]", says=("[1, 64]",))
    bench.refuses("compile", case / "model.pt2", "-o", artifact, "--variant", "other: [1, 640]", says=("other", name))


def test_several_programs_are_entries_of_one_artifact(bench):
    folder = bench.folder()
    artifact, state = folder / "both.nacre", bench.folder()
    bench.works("compile", "--entry", f"count={bench.case('counter') / 'model.pt2'}", "--entry",
                f"again={bench.case('counter') / 'model.pt2'}", bench.case("mtcnn_rnet") / "model.pt2", "-o", artifact)
    described = json.loads(bench.works("inspect", artifact, "--json").out)
    assert [e["name"] for e in described["entries"]] == ["model", "count", "again"], described["entries"]
    assert sorted(s["name"] for s in described["states"]) == ["calls", "total"], "state is shared by name"
    out = bench.folder()
    bench.works("run", artifact, "--entry", "model", "--inputs", bench.case("mtcnn_rnet") / "also_0", "--output-dir", out)
    for got, want in zip(numbered(out, "output"), numbered(bench.case("mtcnn_rnet") / "also_0", "output"), strict=True):
        near(got, want)
    # Each entry goes on where the other stopped.
    for step, entry in enumerate(("count", "again", "count")):
        here, out = bench.case("counter") / f"sequence_{step}", bench.folder()
        bench.works("run", artifact, "--entry", entry, "--inputs", here, "--output-dir", out, "--state", state)
        for got, want in zip(numbered(out, "output"), numbered(here, "output"), strict=True):
            near(got, want)
    bench.refuses("compile", bench.case("counter") / "model.pt2", bench.case("floor") / "model.pt2", "-o", artifact, says=("model",))


NARROWED = """
import sys, torch
sys.path.insert(0, sys.argv[2])
import narrowed

class Pinned(torch.nn.Module):
    def forward(self, x, y):
        z = (x + y).reshape(-1, 6)
        return z if x.shape[1] <= 10 else (x[:, :7] + torch.ones(4, 7), z)

size = torch.export.Dim.AUTO
program = narrowed.export(Pinned(), (torch.ones(4, 12), torch.ones(4, 12)), dynamic_shapes=({0: size, 1: size}, {0: size, 1: size}))
narrowed.save(program, sys.argv[1])
"""


def test_compile_tells_what_export_narrowed(bench):
    folder = bench.folder()
    (folder / "pinned.py").write_text(NARROWED)
    subprocess.run([sys.executable, folder / "pinned.py", folder / "a.pt2", ROOT / "exporter"], check=True, capture_output=True)
    lines = bench.works("compile", folder / "a.pt2", "-o", folder / "a.nacre").out.splitlines()
    told = [line.split(" narrowed ")[1] for line in lines if " narrowed " in line]
    assert "x.shape[1] == y.shape[1] by pinned.py:8 in forward: z = (x + y).reshape(-1, 6)" in told, told
    assert any(line.startswith("x.shape[1] > 10 by pinned.py:9 in forward: ") for line in told), told
    assert any(line.startswith("y.shape[0] == 4 by pinned.py:9 in forward: ") for line in told), told


def test_nested_inputs_and_outputs_have_paths(bench):
    folder = bench.folder()
    subprocess.run([sys.executable, INPUTS, "--out", folder, "--only", "nested"], check=True, capture_output=True)
    bench.works("compile", folder / "nested" / "model.pt2", "-o", folder / "a.nacre")
    entry = json.loads(bench.works("inspect", folder / "a.nacre", "--json").out)["entries"][0]
    paths = {t["name"]: t.get("path", t["name"]) for t in entry["inputs"]}
    assert paths == {"picture_pixels": "picture.pixels", "picture_mask": "picture.mask", "options_scales_0": "options['scales'][0]",
                     "options_scales_1": "options['scales'][1]", "options_bias": "options['bias']", "unused": "unused",
                     "more_0": "more_0", "more_1": "more_1"}, paths
    paths = [t["path"] for t in entry["outputs"]]
    assert paths == ["[0]['masked']", "[0]['again']", "[0]['scaled'][0][0]", "[0]['scaled'][0][1]", "[0]['given']",
                     "[1].pixels", "[1].mask"], paths
    text = bench.works("inspect", folder / "a.nacre").out
    assert "input 2 options_scales_0 at options['scales'][0]: f32[3]" in text, text
    assert "at [1].mask: f32[4, 3]" in text, text


def test_dump_has_a_file_for_every_layer(bench):
    folder = bench.folder()
    bench.works("compile", bench.case("resnet8") / "model.pt2", "-o", folder / "a.nacre", "--dump", folder / "dump")
    files = sorted(p.name for p in (folder / "dump").iterdir())
    for layer in ("captured", "functional", "primitive", "loop"):
        assert any(layer in name for name in files), f"no {layer} among {files}"
    text = "".join(p.read_text(errors="replace") for p in (folder / "dump").iterdir() if p.is_file())
    assert "zoo.py:" in text, "no Python lines in the dump"


def test_inspect_as_text_and_json(bench):
    artifact = bench.artifact("mtcnn_pnet")
    text = bench.works("inspect", artifact).out
    assert "multiple" in text or "even" in text or "2*" in text, f"the guards say nothing of even sizes\n{text[:3000]}"
    json.loads(bench.works("inspect", artifact, "--json").out)


def test_page_holds_the_artifact_and_its_layers(bench):
    artifact, page, layers = bench.artifact("mtcnn_pnet"), bench.folder() / "page.html", bench.folder()
    bench.works("compile", bench.case("mtcnn_pnet") / "model.pt2", "-o", layers / "again.nacre", "--dump", layers)
    bench.works("inspect", artifact, "--html", page, "--layers", layers, "--size", "s87=20")
    text = page.read_text()
    held = {name: json.loads(text.split(f'id="{name}">')[1].split("</script>")[0]) for name in ("artifact", "layers", "sizes")}
    assert held["sizes"] == {"s87": 20}, "the page does not begin with the size that was asked for"
    assert held["artifact"] == json.loads(bench.works("inspect", artifact, "--json").out)
    assert {layer["name"]: layer["text"] for layer in held["layers"]} == {
        path.name: path.read_text() for path in layers.iterdir() if path.name[0].isdigit()}
    assert "http" not in text.split("</style>")[0], "the page needs a network"
    bench.refuses("inspect", artifact, "--html", page, "--layers", bench.folder(), says=("holds no layers",))
    bench.refuses("inspect", artifact, "--layers", layers, says=("--html",))


def memory_of(bench, artifact):
    """Bytes of arena and scratch, from the commands."""
    variant = json.loads(bench.works("inspect", artifact, "--json").out)["entries"][0]["variants"][0]
    return variant["arena_bytes"] + max(c.get("scratch_bytes", 0) for c in variant["program"])


def test_limits_of_memory_and_flash(bench):
    case, folder = bench.case("ds_cnn"), bench.folder()
    assert memory_of(bench, bench.artifact("ds_cnn")) > 60000
    bench.works("compile", case / "model.pt2", "-o", folder / "small.nacre", "--memory-limit", "56K")
    assert memory_of(bench, folder / "small.nacre") <= 56 * 1024
    bench.works("run", folder / "small.nacre", "--inputs", case / "set_0", "--output-dir", folder / "got")
    near(numpy.load(folder / "got" / "output_0.npy"), numpy.load(case / "set_0" / "output_0.npy"))
    again = (case / "model.pt2", "-o", folder / "no.nacre")
    bench.refuses("compile", *again, "--memory-limit", 1000, says=(" bytes of memory (", "more than the limit of 1,000", "most lives in ", "container.py:259)"))
    bench.refuses("compile", *again, "--flash-limit", "90K", says=("more than the limit of 92,160", "weights (", "code of ", "weight "))
    bench.refuses("compile", *again, "--memory-limit", "64Q", says=("64Q", "64K or 2M"))
    bench.refuses("compile", *again, "--memory-limit", "", says=("--memory-limit", "64K or 2M"))
    assert not (folder / "no.nacre").exists()


def test_memory_plan_as_text_and_drawing(bench):
    artifact, folder = bench.artifact("resnet8"), bench.folder()
    text = bench.works("inspect", artifact, "--memory").out
    assert re.search(r"^\* +65,536 +\d[\d,]* +[.#]+  relu f32\[1, 16, 32, 32\]  # zoo.py:\d+ aten.conv2d.default$", text, re.M), text
    bench.works("inspect", artifact, "--memory", folder / "plan.svg")
    drawing = xml.etree.ElementTree.parse(folder / "plan.svg").getroot()
    bars = [e for e in drawing.iter() if e.tag.endswith("rect") and e.get("class") == "buffer"]
    assert len(bars) > 5 and all(0 <= float(e.get("y")) <= float(drawing.get("height")) for e in bars)
    assert any("zoo.py:" in title.text for e in bars for title in e), "no Python lines in the drawing"
    # At other sizes, too, and one drawing for each variant.
    dynamic = bench.artifact("mtcnn_pnet")
    symbol = json.loads(bench.works("inspect", dynamic, "--json").out)["symbols"][0]["name"]
    small, large = (bench.works("inspect", dynamic, "--memory", "--size", f"{symbol}={n}").out for n in (16, 512))
    assert small != large
    bench.refuses("inspect", dynamic, "--memory", "--size", f"{symbol}=0", says=("NAME=NUMBER",))
    bench.refuses("inspect", dynamic, "--memory", folder / "plan.png", says=("*.svg",))


def test_bench_prints_its_figures(bench):
    case = bench.case("resnet8")
    numpy.savez(bench.scratch / "x.npz", numpy.load(case / "set_0" / "input_0.npy"))
    figures = json.loads(bench.works("bench", "--json", bench.artifact("resnet8"), "--threads", 2, "--seconds", 0.2,
                                     "--inputs", bench.scratch / "x.npz", "--output", bench.scratch / "y.npy").out)
    assert figures["load_ms"] > 0 and figures["first_ms"] > 0 and figures["peak_rss_mb"] > 0
    assert len(figures["times_ms"]) >= 2 and min(figures["times_ms"]) > 0
    near(numpy.load(bench.scratch / "y.npy"), numpy.load(case / "set_0" / "output_0.npy"))
    profile = bench.works("bench", bench.artifact("resnet8"), "--seconds", 0.2, "--profile").out
    assert "zoo.py:" in profile, f"no Python lines in the profile\n{profile}"


def test_targets_are_listed(bench):
    listed = bench.works("targets").out
    for target in "x86-64-v3", "x86-64-v4-amx", "aarch64", "cortex-a78ae", "neoverse-v1", "rv64gc", "rv64gcv":
        assert f"\n{target} " in listed, listed


def test_for_another_machine(bench):
    # Run there before it is written, where there is an emulator, and refused here.
    case, folder = bench.case("floor"), bench.folder()
    target, emulator = ("x86-64-v2", "qemu-x86_64") if platform.machine() == "aarch64" else ("cortex-a78ae", "qemu-aarch64")
    told = bench.works("compile", case / "model.pt2", "-o", folder / "a.nacre", "--target", target).out
    assert f"(under {emulator})" in told or f"not checked: this machine does not run {target}, and" in told, told
    bench.refuses("run", folder / "a.nacre", "--inputs", case / "set_0", "--output-dir", folder,
                  says=("no variant of entry", "compiled for", target))


def test_a_named_target_runs_here(bench):
    if "avx2" not in Path("/proc/cpuinfo").read_text():
        return
    case, folder = bench.case("resnet8"), bench.folder()
    bench.works("compile", case / "model.pt2", "-o", folder / "a.nacre", "--target", "x86-64-v3")
    bench.works("run", folder / "a.nacre", "--inputs", case / "set_0", "--output-dir", folder)
    near(numpy.load(folder / "output_0.npy"), numpy.load(case / "set_0" / "output_0.npy"))


def test_one_artifact_for_several_machines(bench):
    case, folder = bench.case("ds_cnn"), bench.folder()
    bench.works("compile", case / "model.pt2", "-o", folder / "a.nacre", "--target", "x86-64-v2,aarch64,x86-64-v4,x86-64-v3,rv64gc,aarch64")
    held = json.loads(bench.works("inspect", folder / "a.nacre", "--json").out)
    # Of each family, the first that fits is the most demanding.
    assert [v["name"] for v in held["entries"][0]["variants"]] == [
        f"general, {target}" for target in ("rv64gc", "aarch64", "x86-64-v4", "x86-64-v3", "x86-64-v2")], held["entries"][0]
    names = [w["name"] for w in held["weights"]]
    # Panels of 16 columns are those of AVX2 and NEON.
    assert sum(name.startswith("1.0.weight@taps16.") for name in names) == 1, names
    if platform.machine() == "x86_64":
        bench.works("run", folder / "a.nacre", "--inputs", case / "set_0", "--output-dir", folder)
        near(numpy.load(folder / "output_0.npy"), numpy.load(case / "set_0" / "output_0.npy"))
    bench.refuses("compile", case / "model.pt2", "-o", folder / "b.nacre", "--target", "x86-64-v3,abacus", says=("abacus", "rv64gcv"))
    bench.refuses("compile", case / "model.pt2", "-o", folder / "b.nacre", "--target", ",", says=("no target",))


def test_verify_reports_each_case(bench):
    good, folder = bench.case("floor"), bench.folder()
    wrong = folder / "wrong"
    shutil.copytree(good, wrong)
    for name in ("output_0.npy", "output64_0.npy"):
        output = numpy.load(wrong / "set_0" / name)
        output.flat[0] += 1e-4
        numpy.save(wrong / "set_0" / name, output)
    done = bench.nacre("verify", "--json", "--stage", "functional", wrong, good)
    assert done.status not in (0, 5) and done.status < 128, str(done)
    bad, fine = json.loads(done.out)
    assert set(bad) >= {"case", "passed", "stage", "reason", "max_error"}, str(done)
    assert not bad["passed"] and bad["reason"] and bad["stage"] == "functional", str(done)
    assert 0.9e-4 < bad["max_error"] < 1.1e-4, str(done)
    assert fine["passed"], str(done)
    bench.refuses("verify", "--target", "cuda-sm_90", "--pack", folder / "packs", good / "model.pt2", wrong / "model.pt2", says=("same folder", "floor/model.pt2", "wrong/model.pt2"))


def test_results_as_large_as_the_data_say(bench):
    folder = bench.folder()
    (folder / "kept.ir").write_text("""graph kept functional {
  symbol u0: [0, 6]
  symbol u1: [0, 4]
  input %x: f32[6] user "x"
  input %n: i64[] user "n"
  %p: i64[u0, 1] = aten.nonzero.default(%x)  # aten.nonzero.default kept.py:3
  %k: int(u1) = aten.item.default(%n)  # aten.item.default kept.py:4
  %z: f32[u1] = aten.full.default(size=[u1], fill_value=0.5, dtype=f32)  # aten.full.default kept.py:5
  output %p user
  output %z user
}
""")

    def run(x, n):
        numpy.save(folder / "input_0.npy", numpy.array(x, "float32"))
        numpy.save(folder / "input_1.npy", numpy.int64(n))
        return ("run", folder / "kept.nacre", "--inputs", folder, "--output-dir", folder)

    run([1, 0, 0, 2, 0, 3], 2)
    bench.works("compile", folder / "kept.ir", "-o", folder / "kept.nacre")
    for x, n, where in (([1, 0, 0, 2, 0, 3], 4, [0, 3, 5]), ([0] * 6, 0, []), ([1] * 6, 1, [0, 1, 2, 3, 4, 5])):
        bench.works(*run(x, n))
        numpy.testing.assert_array_equal(numpy.load(folder / "output_0.npy")[:, 0], where)
        near(numpy.load(folder / "output_1.npy"), numpy.full(n, 0.5, "float32"))
    bench.refuses(*run([0] * 6, 5), says=("u1 is 5", "at most 4", "kept.py:4"))
    assert "at most [6, 1]" in bench.works("inspect", folder / "kept.nacre").out
    bench.works("bench", folder / "kept.nacre", "--seconds", "0.1")


def test_operators_of_torch_library_are_imports(bench):
    """Of tests/command/library: the application computes them, here from a library that is compiled now."""
    folder, library = bench.folder(), bench.folder() / "functions.so"
    headers = library.parent / "nacre"
    headers.mkdir()
    shutil.copy(ROOT / "runtime" / "include" / "nacre" / "nacre.h", headers)
    shutil.copy(ROOT / "formats" / "dtype.h", headers)
    subprocess.run(["cc", "-std=c11", "-O1", "-Wall", "-Werror", "-shared", "-fPIC", "-I", headers.parent,
                    HERE / "library" / "functions.c", "-o", library], check=True)
    subprocess.run([sys.executable, HERE / "library" / "model.py", folder / "cases"], check=True, capture_output=True)
    case, artifact = folder / "cases" / "scaled", folder / "scaled.nacre"

    done = bench.works("compile", case / "model.pt2", "-o", artifact)
    assert "not checked: only the application can compute mylib::join, mylib::scale" in done.out, str(done)
    run = ("run", artifact, "--inputs", case / "set_64", "--output-dir", folder)
    says = ("mylib::scale", "(f32[s", ", 3]) -> f32[", '{"factor":2.5,"times":3}', "model.py:", "nacre_open_options", "--import")
    bench.refuses(*run, says=says)
    bench.works(*run, "--import", library)
    for got, want in zip(numbered(folder, "output"), numbered(case / "set_64", "output"), strict=True):
        near(got, want)
    bench.refuses(*run, "--import", library, env={**os.environ, "REFUSE": "1"}, says=("'mylib::scale' returned 42", "model.py:"))
    done = bench.works("verify", case, "--import", library)
    assert "the artifact alone: only the application can compute" in done.out, str(done)
    bench.works("verify", case, "--import", library, "--stage", "artifact", "--variant", "x: [1, 4]", "--threads", 2)
    done = bench.works("compile", case / "model.pt2", "-o", artifact, "--import", library)
    assert "runs; not compared with PyTorch" in done.out, str(done)
    bench.works("bench", artifact, "--import", library, "--seconds", 0, "--profile")
    text = bench.works("inspect", artifact).out
    assert 'import 0 mylib::scale, 1 inputs, with {"factor":2.5,"times":3}' in text, text
    imports = json.loads(bench.works("inspect", artifact, "--json").out)["imports"]
    assert [i["name"] for i in imports] == ["mylib::scale", "mylib::scale", "mylib::join"], imports

    bench.works("verify", folder / "cases" / "changed", "--import", library)
    bench.refuses("compile", folder / "cases" / "in_place" / "model.pt2", "-o", artifact, says=("mylib.shift", "run_decompositions()"))
    done = bench.works("compile", folder / "cases" / "decomposed" / "model.pt2", "-o", artifact)
    assert "not checked" not in done.out, str(done)
    bench.works("verify", folder / "cases" / "decomposed")

    bench.refuses(*run, "--import", folder / "none.so", says=("none.so",))
    bench.refuses(*run, "--import", bench.tool, says=(bench.tool.name,))


def test_bisect_writes_the_smallest_part_that_fails(bench):
    folder = bench.folder()
    (folder / "chain.ir").write_text("""graph chain functional {
  symbol s0: [1, 8]
  input %x: f32[s0, 4] user "x"
  %a: f32[s0, 4] = aten.sin.default(%x)
  %b: f32[s0, 4] = aten.abs.default(%a)
  %c: f32[s0, 4] = aten.polygamma.default(n=1, self=%b)  # polygamma of no primitives
  %d: f32[s0, 4] = aten.add.Tensor(%c, other=%a)
  output %d user
}
""")
    numpy.save(folder / "input_0.npy", numpy.linspace(0.1, 3, 12, dtype="float32").reshape(3, 4))
    done = bench.nacre("verify", "--bisect", folder / "parts", folder / "chain.ir")
    assert done.status == 1 and "1 of 4 nodes" in done.out, str(done)
    part = folder / "parts" / "chain" / "chain.ir"
    text = part.read_text()
    assert "aten.polygamma" in text and "aten.sin" not in text and "f32[3, 4]" in text, text
    b = numpy.load(part.parent / "input_0.npy")
    near(b, numpy.abs(numpy.sin(numpy.load(folder / "input_0.npy"))))
    again = bench.nacre("verify", part)
    assert again.status == 1 and "stage primitive" in again.out and "aten.polygamma" in again.out, str(again)


def test_bisect_looks_into_bodies(bench):
    folder = bench.folder()
    (folder / "loop.ir").write_text("""graph loop functional {
  subgraph go_on graph go_on functional {
    input %i: i64[] user "i"
    input %v: f32[4] user "v"
    %more: bool[] = aten.lt.Scalar(%i, other=3)
    output %more user
  }
  subgraph step graph step functional {
    subgraph hard graph hard functional {
      input %v: f32[4] user "v"
      %a: f32[4] = aten.abs.default(%v)
      %y: f32[4] = aten.polygamma.default(n=1, self=%a)  # polygamma of no primitives
      output %y user
    }
    subgraph wave graph wave functional {
      input %v: f32[4] user "v"
      %y: f32[4] = aten.sin.default(%v)
      output %y user
    }
    input %i: i64[] user "i"
    input %v: f32[4] user "v"
    %j: i64[] = aten.add.Scalar(%i, other=1)
    %p: bool[] = aten.gt.Scalar(%i, other=1)
    %w: f32[4] = higher_order.cond(predicate=%p, true_graph=@hard, false_graph=@wave, operands=[%v])
    output %j user
    output %w user
  }
  input %start: i64[] user "start"
  input %x: f32[4] user "x"
  %i: i64[], %y: f32[4] = higher_order.while_loop(cond_graph=@go_on, body_graph=@step, carried_inputs=[%start, %x], additional_inputs=tensors[])
  output %y user
}
""")
    numpy.save(folder / "input_0.npy", numpy.int64(0))
    numpy.save(folder / "input_1.npy", numpy.linspace(0.5, 2, 4, dtype="float32"))
    done = bench.nacre("verify", "--bisect", folder / "parts", folder / "loop.ir")
    assert done.status == 1, str(done)
    text = (folder / "parts" / "loop" / "loop.ir").read_text()
    assert "aten.polygamma" in text and "higher_order" not in text and "aten.abs" not in text, text
    twice = numpy.sin(numpy.sin(numpy.linspace(0.5, 2, 4, dtype="float32")))
    near(numpy.load(folder / "parts" / "loop" / "input_0.npy"), numpy.abs(twice))


def test_an_artifact_without_code_for_a_gpu_refuses_one(bench):
    artifact = bench.artifact("floor")
    for verb in (("bench", artifact, "--seconds", 0), ("run", artifact, "--output-dir", bench.folder() / "out")):
        bench.refuses(*verb, "--device", "cuda", says=("it cannot run on a GPU", "no code for one"))
    bench.works("bench", artifact, "--seconds", 0, "--device", "cpu")
    bench.refuses("bench", artifact, "--device", "gpu", says=("--device", "cuda"))


def test_precisions_have_limits_of_their_own(bench):
    """The largest error that passes grows as digits go: packed for a device, with PyTorch's own error in that precision."""
    limits = {}
    for precision in ("fp32", "tf32", "bf16"):
        packs = bench.folder()
        bench.works("verify", bench.case("resnet8"), "--target", "cuda-sm_87", "--precision", precision, "--pack", packs)
        limits[precision] = [float(line.split()[-1]) for line in (packs / "resnet8" / "cases.txt").read_text().splitlines() if line.startswith("output")]
    for exact, rounded, half in zip(*limits.values()):
        assert 50 * exact < rounded < half, limits
    bench.refuses("compile", bench.case("resnet8") / "model.pt2", "-o", bench.folder() / "x.nacre", "--precision", "tf32", says=("a precision is for CUDA devices",))


def test_weights_in_a_file_of_their_own(bench):
    case, folder = bench.case("resnet8"), bench.folder()
    whole, apart, weights = folder / "whole.nacre", folder / "apart.nacre", folder / "apart.nacre.weights"
    bench.works("compile", case / "model.pt2", "-o", whole)
    bench.works("compile", case / "model.pt2", "-o", apart, "--weights", weights)
    assert apart.stat().st_size < whole.stat().st_size - 250_000 and weights.stat().st_size > 250_000
    out = bench.folder()
    for name in (whole, apart):
        bench.works("run", name, "--inputs", case / "set_0", "--output-dir", out / name.stem)
    assert (out / "whole" / "output_0.npy").read_bytes() == (out / "apart" / "output_0.npy").read_bytes()
    sizes = [json.loads(bench.works("inspect", "--json", name).out)["weights"] for name in (whole, apart)]
    assert sizes[0] == sizes[1]
    moved = weights.rename(folder / "moved")
    for verb in (("run", "--inputs", case / "set_0", "--output-dir", out / "none"), ("bench", "--seconds", 0)):
        bench.refuses(verb[0], apart, *verb[1:], says=("apart.nacre.weights", "No such file"))
        bench.works(verb[0], apart, "--weights", moved, *verb[1:])
    bench.refuses("inspect", apart, says=("apart.nacre.weights",))
    bench.works("inspect", apart, "--weights", moved)
    bench.refuses("bench", apart, "--weights", whole, "--seconds", 0, says=("whole.nacre", "another model"))
    bench.refuses("inspect", apart, "--weights", whole, says=("whole.nacre is not it",))
    bench.refuses("compile", bench.case("floor") / "model.pt2", "-o", folder / "f.nacre", "--weights", folder / "f.w", says=("no weights",))
    bench.refuses("compile", case / "model.pt2", "-o", folder / "f.nacre", "--weights", folder / "f.nacre", says=("at once",))
    assert not (folder / "f.nacre").exists() and not (folder / "f.w").exists()


def test_what_was_measured_is_kept_and_used(bench):
    case, folder = bench.case("ds_cnn"), bench.folder()
    tuned, again, plain, file = folder / "tuned.nacre", folder / "again.nacre", folder / "plain.nacre", folder / "ds_cnn.tuning"
    done = bench.works("compile", case / "model.pt2", "-o", tuned, "--tune", "--tuning", file)
    assert "tuned" in done.out, str(done)
    lines = file.read_text().splitlines()
    assert lines and all(": " in line and " = " in line and "# us: " in line for line in lines), lines
    measured = file.read_bytes()
    bench.works("compile", case / "model.pt2", "-o", again, "--tuning", file)
    assert again.read_bytes() == tuned.read_bytes()
    # Nothing is left to be measured, and decisions of other programs stay.
    file.write_bytes(measured + b"x86-64-v2: matmul 1x2x3 = panel 1  # by hand\n")
    done = bench.works("compile", case / "model.pt2", "-o", again, "--tune", "--tuning", file)
    assert "0 of 0 shapes" in done.out and "x86-64-v2: matmul 1x2x3 = panel 1  # by hand\n" in file.read_text(), str(done)
    # Other decisions, other kernels; the same results.
    file.write_text(re.sub(r" = panel (\d)", lambda found: f" = panel {'2' if found[1] == '1' else '1'}", measured.decode()))
    bench.works("compile", case / "model.pt2", "-o", plain, "--tuning", file)
    assert plain.read_bytes() != tuned.read_bytes()
    bench.works("verify", case, "--stage", "artifact", "--tuning", file)
    other = folder / "other.nacre"
    file.write_text("x86-64-v3: matmul 1x2x3\n")
    for verb in (("compile", case / "model.pt2", "-o", other), ("verify", case)):
        bench.refuses(*verb, "--tuning", file, says=(f"{file}:1: ", "TARGET: WHAT = CHOICE"))
    bench.refuses("compile", case / "model.pt2", "-o", other, "--tuning", folder / "none", says=("none", "No such file"))
    bench.refuses("compile", case / "model.pt2", "-o", other, "--tune", "--tuning", folder / "no" / "none", says=("none", "no folder"))
    foreign = "cortex-a78ae" if platform.machine() == "x86_64" else "x86-64-v3"
    bench.refuses("compile", case / "model.pt2", "-o", other, "--tune", "--target", foreign, says=(foreign, "--tuning FILE"))
    assert not other.exists()


def test_choices_for_a_device_are_in_the_artifact(bench):
    case, folder = bench.case("mtcnn_rnet"), bench.folder()
    plain, tunable, decided = folder / "plain.nacre", folder / "tunable.nacre", folder / "decided.nacre"
    flags = ("--target", "cuda-sm_90", "--precision", "fp16", "--no-check")
    done = bench.nacre("compile", case / "model.pt2", "-o", plain, *flags)
    if done.status and "libnvrtc.so" in done.err:
        print("    skipped: no libnvrtc.so here")
        return
    done = bench.works("compile", case / "model.pt2", "-o", tunable, *flags, "--tune")
    assert "nacre bench --tune measures them on the device" in done.out, str(done)
    sizes = [json.loads(bench.works("inspect", "--json", name).out)["section_bytes"] for name in (plain, tunable)]
    assert "choices" not in sizes[0] and sizes[1]["choices"] > 0 and sizes[1]["code"] > 2 * sizes[0]["code"], sizes
    # What is decided leaves nothing to be measured; its kernels are others.
    choices = {}
    for question, choice in re.findall(rb" (cuda-sm_90: [^\n=]*) = ([^\n]*)", tunable.read_bytes()):
        choices.setdefault(question, []).append(choice)
    assert choices and all(len(set(found)) > 1 for found in choices.values()), choices
    file = folder / "device.tuning"
    file.write_bytes(b"".join(question + b" = " + found[1] + b"\n" for question, found in choices.items()))
    done = bench.works("compile", case / "model.pt2", "-o", decided, *flags, "--tune", "--tuning", file)
    assert "nacre bench --tune" not in done.out and decided.read_bytes() != plain.read_bytes(), str(done)
    bench.refuses("bench", "--tune", tunable, says=("cuda-sm_90",))
    bench.refuses("bench", "--tune", bench.artifact("floor"), says=("no kernels to choose from", "nacre compile --tune"))


def test_the_gpu_bench_prepares_and_carries(bench):
    """What a machine with a GPU measures is compiled on one without, and taken there without the weights that it makes again."""
    scripts, packs, there, archive = ROOT / "tests" / "bench" / "gpu", bench.folder(), bench.folder(), bench.folder() / "packs.tar.xz"

    def script(name, *arguments):
        done = subprocess.run([sys.executable, "-B", scripts / name, *map(str, arguments)], capture_output=True, text=True, timeout=TIMEOUT,
                              env={**os.environ, "NACRE_BIN": str(bench.tool)})
        assert done.returncode == 0, done.stdout + done.stderr
    script("prepare.py", "--models", "lstm", "--precisions", "fp16", "--batches", "1,8", "--out", packs)
    info = json.loads((packs / "lstm-fp16" / "info.json").read_text())
    assert set(info["kernels"]) == {"b1", "b8"} and info["kernels"]["b1"] > 0, info
    script("carry.py", "pack", packs, archive)
    assert archive.stat().st_size < (packs / "lstm-fp16" / "model.nacre").stat().st_size / 10
    script("carry.py", "unpack", archive, there)
    assert (there / "lstm-fp16" / "model.nacre").read_bytes() == (packs / "lstm-fp16" / "model.nacre").read_bytes()
    assert not (there / "lstm-fp16" / "holes.json").exists()


# ---------------------------------------------------------------- inputs outside the guards

def run_with(bench, name, *arrays, says):
    folder = bench.folder()
    for index, array in enumerate(arrays):
        numpy.save(folder / f"input_{index}.npy", array)
    out = folder / "out"
    bench.refuses("run", bench.artifact(name), "--inputs", folder, "--output-dir", out, says=says)
    assert not out.exists() or not list(out.glob("output_*")), "outputs were written"


def test_wrong_dimension(bench):
    run_with(bench, "floor", numpy.zeros((1, 17), "float32"), says=("17", "16"))


def test_odd_size_explains_itself(bench):
    run_with(bench, "mtcnn_pnet", numpy.zeros((1, 3, 153, 154), "float32"), says=("153", "2"))


def test_size_out_of_range(bench):
    run_with(bench, "autoencoder_dynamic", numpy.zeros((65, 640), "float32"), says=("65", "64"))


def test_sizes_that_disagree(bench):
    run_with(bench, "minilm_pretrained", numpy.zeros((2, 9), "int64"), numpy.ones((2, 8), "int64"), says=("8", "9"))


def test_wrong_dtype(bench):
    run_with(bench, "floor", numpy.zeros((1, 16), "float64"), says=("f64", "f32"))


def test_wrong_rank(bench):
    run_with(bench, "floor", numpy.zeros(16, "float32"), says=("rank",))


class Numbers:
    """A program among whose inputs are numbers that torch.export takes as given, and one that must agree with a size."""

    SCRIPT = """
import sys, torch
from torch.export import Dim

class Numbers(torch.nn.Module):
    def forward(self, x, count: int, scale: float, flag: bool, rows: int):
        return (x * scale + count if flag else x).view(rows, -1)

program = torch.export.export(Numbers(), (torch.ones(4, 3), 3, 0.1, True, 4),
                              dynamic_shapes=({0: Dim.DYNAMIC}, None, None, None, Dim.DYNAMIC))
torch.export.save(program, sys.argv[1])
"""

    def __init__(self, bench):
        self.bench, self.folder = bench, bench.folder()
        program, self.artifact = self.folder / "numbers.pt2", self.folder / "numbers.nacre"
        subprocess.run([sys.executable, "-c", self.SCRIPT, program], check=True)
        bench.works("compile", program, "-o", self.artifact)

    def call(self, x, count=3, scale=0.1, flag=True, rows=None, says=None):
        rows = len(x) if rows is None else rows
        arrays = (x, numpy.int64(count), numpy.float32(scale), numpy.bool_(flag), numpy.int64(rows))
        for index, array in enumerate(arrays):
            numpy.save(self.folder / f"input_{index}.npy", array)
        line = ("run", self.artifact, "--inputs", self.folder, "--output-dir", self.folder)
        if says is not None:
            return self.bench.refuses(*line, says=says)
        self.bench.works(*line)
        return numpy.load(self.folder / "output_0.npy")


def test_numbers_that_export_took_as_given(bench):
    numbers, x = Numbers(bench), numpy.arange(15, dtype="float32").reshape(5, 3)
    near(numbers.call(x), x * numpy.float32(0.1) + 3)
    numbers.call(x, count=4, says=("count", "4", "3"))
    numbers.call(x, scale=0.2, says=("scale", "0.1"))
    numbers.call(x, flag=False, says=("flag", "0", "1"))
    numbers.call(x, rows=4, says=("rows", "do not fit together"))


def test_seeds_of_random_numbers(bench):
    script = """
import sys, torch

class Noise(torch.nn.Module):
    def forward(self, x):
        return x + torch.randn_like(x)

torch.export.save(torch.export.export(Noise(), (torch.zeros(64),)), sys.argv[1])
"""
    folder, state = bench.folder(), bench.folder()
    program, artifact = folder / "noise.pt2", folder / "noise.nacre"
    subprocess.run([sys.executable, "-c", script, program], check=True)
    assert "random numbers" in bench.works("compile", program, "-o", artifact).out
    numpy.save(folder / "input_0.npy", numpy.zeros(64, "float32"))

    def noise(*options):
        bench.works("run", artifact, "--inputs", folder, "--output-dir", folder, *options)
        return numpy.load(folder / "output_0.npy").tolist()

    assert noise() == noise() != noise("--seed", 1)
    assert noise("--seed", 1) == noise("--seed", 1) != noise("--seed", 2)
    first, second = noise("--state", state), noise("--state", state)
    assert first == noise() != second


def test_too_few_and_too_many_inputs(bench):
    run_with(bench, "minilm_pretrained", numpy.zeros((2, 8), "int64"), says=("input",))
    x = numpy.zeros((1, 16), "float32")
    numpy.save(bench.scratch / "x.npy", x)
    bench.refuses("run", bench.artifact("floor"), "--input", bench.scratch / "x.npy", "--input", bench.scratch / "x.npy",
                  "--output-dir", bench.folder(), says=("input",))


def test_index_out_of_range_names_operator_and_line(bench):
    tokens = numpy.full((1, 6), 40000, "int64")
    run_with(bench, "minilm_pretrained", tokens, numpy.ones_like(tokens), says=("embedding", ".py:"))


# ---------------------------------------------------------------- damaged and foreign files

def damaged_arrays(folder):
    good = folder / "good.npy"
    numpy.save(good, numpy.zeros((1, 16), "float32"))
    data = good.read_bytes()
    yield b""
    yield data[:5]
    yield data[:40]
    yield data[:-1]
    yield b"\x93NUMPY\x09\x00" + data[8:]
    yield data.replace(b"<f4", b"|O8")
    yield data.replace(b"(1, 16)", b"(-1,16)")
    yield data.replace(b"(1, 16), }", b"(9**99,), }")
    yield data.replace(b"(1, 16), }            ", b"(1, 1600000000000), }")
    yield b"not an array at all" * 10


def test_damaged_arrays(bench):
    folder = bench.folder()
    for index, data in enumerate(damaged_arrays(folder)):
        path = folder / f"bad_{index}.npy"
        path.write_bytes(data)
        bench.refuses("run", bench.artifact("floor"), "--input", path, "--output-dir", folder / "out")


def test_missing_and_unreadable_paths(bench):
    folder = bench.folder()
    artifact, program = bench.artifact("floor"), bench.case("floor") / "model.pt2"
    for verb in (["inspect"], ["bench"], ["run", "--output-dir", folder]):
        bench.refuses(verb[0], folder / "nowhere.nacre", *verb[1:], says=("nowhere.nacre",))
        bench.refuses(verb[0], folder, *verb[1:])
    bench.refuses("compile", folder / "nowhere.pt2", "-o", folder / "a.nacre", says=("nowhere.pt2",))
    bench.refuses("compile", folder, "-o", folder / "a.nacre")
    bench.refuses("compile", program, "-o", folder / "no" / "such" / "folder" / "a.nacre", says=("a.nacre",))
    bench.refuses("compile", program, "-o", folder)
    done = bench.nacre("verify", folder / "nowhere")
    assert done.status == 1 and "nowhere" in done.out + done.err, str(done)
    bench.refuses("run", artifact, "--input", folder / "nowhere.npy", "--output-dir", folder, says=("nowhere.npy",))
    if os.geteuid() != 0:
        hidden = folder / "hidden.nacre"
        shutil.copy(artifact, hidden)
        hidden.chmod(0)
        bench.refuses("inspect", hidden, says=("hidden.nacre",))
    assert not (folder / "a.nacre").exists()


def test_command_line_mistakes(bench):
    for line in ([], ["dance"], ["compile"], ["inspect", "a", "--no-such-option"], ["bench", bench.artifact("floor"), "--threads", "0"],
                 ["compile", bench.case("floor") / "model.pt2", "-o", bench.scratch / "a.nacre", "--target", "abacus"]):
        bench.refuses(*line)


def test_full_disk(bench):
    if not os.path.exists("/dev/full"):
        return
    program = bench.case("floor") / "model.pt2"
    bench.refuses("compile", program, "-o", "/dev/full")
    with open("/dev/full", "w") as full:
        done = subprocess.run([bench.tool, "inspect", bench.artifact("floor")], stdout=full, stderr=subprocess.PIPE, text=True)
        assert 1 <= done.returncode <= 127 and done.stderr.strip(), f"status {done.returncode}: {done.stderr}"
    # a limit on file sizes stands for a disk that fills up while a file is written
    folder = bench.folder()
    big = bench.case("resnet8") / "model.pt2"
    limited = ["bash", "-c", 'trap "" XFSZ; ulimit -f 8; exec "$0" compile "$1" -o "$2" --no-check', str(bench.tool), str(big), str(folder / "a.nacre")]
    done = subprocess.run(limited, capture_output=True, text=True, timeout=TIMEOUT)
    assert 1 <= done.returncode <= 127 and done.stderr.strip(), f"status {done.returncode}: {done.stderr}"
    assert not (folder / "a.nacre").exists(), "half an artifact was left"


def test_truncated_artifacts(bench):
    data = bench.artifact("resnet8").read_bytes()
    path = bench.folder() / "cut.nacre"
    for size in sorted({0, 1, 7, 8, 63, 64, 65, 200, len(data) // 4, len(data) // 2, len(data) - 65, len(data) - 1}):
        path.write_bytes(data[:size])
        bench.refuses("inspect", path, says=("cut.nacre",))
        bench.refuses("run", path, "--inputs", bench.case("resnet8") / "set_0", "--output-dir", path.parent)


def test_flipped_bits_never_crash(bench):
    """Outside the weights and the padding, every flipped bit is found; nowhere does one crash the runtime."""
    data = bench.artifact("floor").read_bytes()
    path = bench.folder() / "flipped.nacre"
    dice = random.Random(20261129)
    places = list(range(0, 64, 3)) + [dice.randrange(len(data)) for _ in range(60)]
    for place in places:
        flipped = bytearray(data)
        flipped[place] ^= 1 << dice.randrange(8)
        path.write_bytes(flipped)
        done = bench.nacre("run", path, "--inputs", bench.case("floor") / "set_0", "--output-dir", path.parent)
        assert 0 <= done.status <= 127 and done.status != 5, f"byte {place}\n{done}"
        assert place >= 56 or done.status != 0, f"byte {place} of the header changed and nobody noticed\n{done}"


def test_foreign_files(bench):
    folder = bench.folder()
    foreign = {"text.nacre": b"hello", "zeros.nacre": bytes(100000), "noise.nacre": random.Random(1).randbytes(100000),
               "tool.nacre": bench.tool.read_bytes()[:200000], "program.nacre": (bench.case("floor") / "model.pt2").read_bytes()}
    for name, data in foreign.items():
        (folder / name).write_bytes(data)
        bench.refuses("inspect", folder / name, says=(name,))
    for name in ("text.nacre", "zeros.nacre", "noise.nacre"):
        (folder / "model.pt2").write_bytes(foreign[name])
        bench.refuses("compile", folder / "model.pt2", "-o", folder / "a.nacre", says=("model.pt2",))
    bench.refuses("compile", bench.artifact("floor"), "-o", folder / "a.nacre")


def test_truncated_programs(bench):
    data = (bench.case("resnet8") / "model.pt2").read_bytes()
    path = bench.folder() / "cut.pt2"
    for size in sorted({1, 100, len(data) // 2, len(data) - 30, len(data) - 1}):
        path.write_bytes(data[:size])
        bench.refuses("compile", path, "-o", path.with_suffix(".nacre"))


def test_programs_with_missing_parts(bench):
    source, folder = bench.case("ds_cnn") / "model.pt2", bench.folder()
    with zipfile.ZipFile(source) as archive:
        parts = [(info, archive.read(info)) for info in archive.infolist()]
    weights = 0
    for missing, _ in parts:
        name = missing.filename.split("/", 1)[1]
        is_weight = name.startswith("data/weights/weight_")
        weights += is_weight
        if is_weight and weights > 3:
            continue
        path = folder / "part.pt2"
        with zipfile.ZipFile(path, "w", zipfile.ZIP_STORED) as archive:
            for info, data in parts:
                if info is not missing:
                    archive.writestr(copy.copy(info), data)
        done = bench.nacre("compile", path, "-o", folder / "a.nacre", "--no-check")
        assert 0 <= done.status <= 127 and done.status != 5, f"without {name}\n{done}"
        if name.startswith("models/") or name.startswith("data/weights"):
            assert done.status != 0, f"compiled without {name}\n{done}"


def test_programs_with_a_damaged_graph(bench):
    source, folder = bench.case("floor") / "model.pt2", bench.folder()
    with zipfile.ZipFile(source) as archive:
        parts = [(info, archive.read(info)) for info in archive.infolist()]

    def changed(change):
        path = folder / "graph.pt2"
        with zipfile.ZipFile(path, "w", zipfile.ZIP_STORED) as archive:
            for info, data in parts:
                archive.writestr(copy.copy(info), change(data) if info.filename.endswith("models/model.json") else data)
        return path

    def edited(edit):
        def change(data):
            tree = json.loads(data)
            edit(tree)
            return json.dumps(tree).encode()
        return change

    def unknown_operator(tree):
        tree["graph_module"]["graph"]["nodes"][0]["target"] = "torch.ops.aten.does_not_exist.default"

    def unknown_value(tree):
        tree["graph_module"]["graph"]["nodes"][0]["inputs"][0]["arg"] = {"as_tensor": {"name": "nobody"}}

    def newer_schema(tree):
        tree["schema_version"]["major"] = 9999

    def bad_dtype(tree):
        next(iter(tree["graph_module"]["graph"]["tensor_values"].values()))["dtype"] = 99

    for change, says in ((lambda d: d[:len(d) // 2], ()), (lambda d: b"", ()), (lambda d: b"{}", ()), (lambda d: b"null", ()),
                         (lambda d: b"[" * 200000, ()), (edited(unknown_operator), ("does_not_exist",)),
                         (edited(unknown_value), ("nobody",)), (edited(newer_schema), ("9999",)), (edited(bad_dtype), ())):
        bench.refuses("compile", changed(change), "-o", folder / "a.nacre", says=says)


def test_a_program_is_not_overwritten(bench):
    folder = bench.folder()
    shutil.copy(bench.case("floor") / "model.pt2", folder / "model.pt2")
    before = (folder / "model.pt2").read_bytes()
    (folder / "link.pt2").symlink_to("model.pt2")
    for program, artifact in (("model.pt2", "model.pt2"), ("link.pt2", "model.pt2"), ("model.pt2", "link.pt2")):
        bench.refuses("compile", folder / program, "-o", folder / artifact, says=("over",))
    assert (folder / "model.pt2").read_bytes() == before
    done = bench.refuses("compile", folder / "model.pt2", "-o", "", says=("name",))
    assert done.status == 1, str(done)
    done = bench.refuses("compile", folder / "nowhere.pt2", "-o", folder / "a.nacre")
    assert done.status == 1, f"a path that is not there is the user's mistake\n{done}"


def test_names_of_all_kinds(bench):
    folder = bench.folder() / "blank and\nline end é"
    folder.mkdir()
    shutil.copy(bench.case("floor") / "model.pt2", folder / "a model ü.pt2")
    bench.works("compile", "a model ü.pt2", "-o", "an artifact ü.nacre", cwd=folder)
    bench.works("run", "./an artifact ü.nacre", "--inputs", bench.case("floor") / "set_0", "--output-dir", "out ü", cwd=folder)
    near(numpy.load(folder / "out ü" / "output_0.npy"), numpy.load(bench.case("floor") / "set_0" / "output_0.npy"))


def test_pipes_are_not_waited_for(bench):
    pipe = bench.folder() / "pipe"
    os.mkfifo(pipe)
    bench.refuses("compile", pipe, "-o", bench.scratch / "a.nacre", says=("pipe",))
    bench.refuses("bench", pipe, says=("pipe",))
    bench.refuses("run", pipe, "--output-dir", bench.scratch / "out", says=("pipe",))


def test_arrays_of_other_orders_and_ranks(bench):
    folder = bench.folder()
    case = bench.case("counter")
    for index in range(2):
        array = numpy.load(case / "set_0" / f"input_{index}.npy")
        numpy.save(folder / f"input_{index}.npy", numpy.asfortranarray(array.astype(">f4")))
    bench.works("run", bench.artifact("counter"), "--inputs", folder, "--output-dir", folder / "out")
    near(numpy.load(folder / "out" / "output_0.npy"), numpy.load(case / "set_0" / "output_0.npy"))
    numpy.save(folder / "deep.npy", numpy.zeros((1,) * 32, "float32"))
    bench.refuses("run", bench.artifact("floor"), "--input", folder / "deep.npy", "--output-dir", folder / "out", says=("rank 32",))


def test_damaged_state(bench):
    case, folder = bench.case("counter"), bench.folder()
    good = folder / "good"

    def run(state):
        return ("run", bench.artifact("counter"), "--inputs", case / "sequence_0", "--output-dir", folder / "out", "--state", state)
    bench.works(*run(good))
    names = sorted(path.name for path in good.iterdir())
    assert len(names) == 2, names

    def damage(kind, change):
        state = folder / kind
        shutil.copytree(good, state)
        change(state)
        before = {path.name: path.read_bytes() for path in state.iterdir()}
        bench.refuses(*run(state))
        assert {path.name: path.read_bytes() for path in state.iterdir()} == before, f"{kind}: the state was changed"
    damage("missing", lambda state: (state / names[0]).unlink())
    damage("short", lambda state: (state / names[0]).write_bytes((state / names[0]).read_bytes()[:-1]))
    damage("dtype", lambda state: numpy.save(state / "total.npy", numpy.zeros((2, 3), "int32")))
    damage("shape", lambda state: numpy.save(state / "total.npy", numpy.zeros((3, 2), "float32")))


def test_records_that_expand_without_end(bench):
    source, folder = bench.case("floor") / "model.pt2", bench.folder()
    with zipfile.ZipFile(source) as archive, zipfile.ZipFile(folder / "bomb.pt2", "w") as bomb, \
            zipfile.ZipFile(folder / "packed.pt2", "w") as packed:
        for info in archive.infolist():
            data = archive.read(info)
            packed.writestr(info.filename, data, zipfile.ZIP_DEFLATED)
            large = info.filename.endswith("models/model.json")
            bomb.writestr(info.filename, data + b" " * (1 << 26) * large, zipfile.ZIP_DEFLATED)
    bench.refuses("compile", folder / "bomb.pt2", "-o", folder / "a.nacre", says=("model.json", "times"))
    bench.works("compile", folder / "packed.pt2", "-o", folder / "a.nacre")


# ---------------------------------------------------------------- the cache, and others at work at the same time

def test_two_at_once_with_one_new_cache(bench):
    folder, program = bench.folder(), bench.case("ds_cnn") / "model.pt2"
    environment = {**os.environ, "XDG_CACHE_HOME": str(folder / "cache")}
    both = [subprocess.Popen([bench.tool, "compile", program, "-o", folder / name, "--quiet"], env=environment,
                             stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) for name in ("a.nacre", "b.nacre")]
    for process in both:
        _, err = process.communicate(timeout=TIMEOUT)
        assert process.returncode == 0, err
    assert (folder / "a.nacre").read_bytes() == (folder / "b.nacre").read_bytes()
    assert not list(folder.glob(".nacre-*")) and not list((folder / "cache").rglob(".nacre-*")), "a temporary file was left"


def test_damaged_missing_and_locked_caches(bench):
    folder, program = bench.folder(), bench.case("floor") / "model.pt2"
    cache = folder / "cache"
    plain = {name: value for name, value in os.environ.items() if name not in ("HOME", "XDG_CACHE_HOME")}

    def compiled(**environment):
        bench.works("compile", program, "-o", folder / "a.nacre", env={**plain, **environment})
        return (folder / "a.nacre").read_bytes()
    want = compiled(XDG_CACHE_HOME=str(cache))
    objects = [path for path in cache.rglob("*") if path.is_file()]
    assert objects
    for damage in (lambda data: b"", lambda data: data[:len(data) // 2], lambda data: bytes(len(data)), lambda data: data + b"x",
                   lambda data: data[:-100] + bytes(100)):
        for path in objects:
            path.write_bytes(damage(path.read_bytes()))
        assert compiled(XDG_CACHE_HOME=str(cache)) == want
    for path in objects:
        path.unlink()
        path.mkdir()
    assert compiled(XDG_CACHE_HOME=str(cache)) == want
    assert compiled() == want, "without a home"
    for nonsense in ("/proc/no/such", "/dev/null", "not/absolute", ""):
        assert compiled(XDG_CACHE_HOME=nonsense, HOME="/proc/no/such") == want


def test_what_is_killed_leaves_nothing_behind(bench):
    folder, program = bench.folder(), bench.case("resnet18") / "model.pt2"
    want = bench.artifact("resnet18").read_bytes()  # and every object is in the cache
    start = time.perf_counter()
    bench.works("compile", program, "-o", folder / "a.nacre", "--no-check")
    took = time.perf_counter() - start
    for part in (0.5, 0.8, 0.9, 0.95, 1.0):
        (folder / "a.nacre").unlink(missing_ok=True)
        process = subprocess.Popen([bench.tool, "compile", program, "-o", folder / "a.nacre", "--no-check", "--quiet"],
                                   stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        time.sleep(took * part)
        process.send_signal(signal.SIGINT)
        process.wait(timeout=TIMEOUT)
        left = sorted(path.name for path in folder.iterdir())
        assert left in ([], ["a.nacre"]), f"killed after {part} of its time, it left {left}"
        assert not left or (folder / "a.nacre").read_bytes() == want


def test_few_files_may_be_open(bench):
    """Models have more kernels than a process may have files."""
    folder = bench.folder()
    limited = ["bash", "-c", 'ulimit -n 20; exec "$0" compile "$1" -o "$2" --no-check', str(bench.tool),
               str(bench.case("resnet18") / "model.pt2"), str(folder / "a.nacre")]
    done = subprocess.run(limited, capture_output=True, text=True, timeout=TIMEOUT)
    assert done.returncode == 0, done.stderr


# ---------------------------------------------------------------- textual IR

def test_damaged_ir(bench):
    folder = bench.folder()
    good = ("graph forward primitive {\n  input %x: f32[2, 3] user \"x\"\n  %y: f32[3, 2] = prim.permute(%x, dims=[1, 0])\n"
            "  output %y user\n}\n")
    (folder / "a.ir").write_text(good)
    bench.works("lower", folder / "a.ir", "--from", "primitive", "--to", "source")
    for old, new, says in (("[3, 2]", "[3, 4]", "permute"), ("dims=[1, 0]", "dims=[1, 7]", "permute"), ("dims=[1, 0]", "sizes=[1]", "dims"),
                           ("f32[2, 3]", "f32[-2, 3]", "size"), ("prim.permute", "prim.nothing", "nothing"), ("%x, dims", "%z, dims", "line 3"),
                           ("}", "", "line"), ("[1, 0]", "[99999999999999999999, 0]", "line 3")):
        (folder / "a.ir").write_text(good.replace(old, new, 1))
        bench.refuses("lower", folder / "a.ir", "--from", "primitive", "--to", "source", says=(says,))


# ---------------------------------------------------------------- figures, shown and not judged: machines are noisy

def test_resnet18_opening_time_is_told(bench):
    artifact = bench.artifact("resnet18")
    times = [json.loads(bench.works("bench", "--json", artifact, "--seconds", 0).out)["load_ms"] for _ in range(5)]
    print(f"    opened, session made: {min(times):.2f} ms (wanted on a quiet machine: 5)")
    assert min(times) > 0


def test_resnet18_compiles_again_to_the_same_bytes(bench):
    artifact, program = bench.artifact("resnet18"), bench.case("resnet18") / "model.pt2"
    before = artifact.read_bytes()
    start = time.perf_counter()
    bench.works("compile", program, "-o", artifact)
    print(f"    compiled again: {time.perf_counter() - start:.2f} s (wanted on a quiet machine: 3)")
    assert artifact.read_bytes() == before


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tool", type=Path, required=True)
    parser.add_argument("--cases", type=Path, help="folder of exported models (default: in the scratch folder)")
    parser.add_argument("--only", default="", help="a part of the tests' names")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="nacre-command-") as scratch:
        bench = Bench(options.tool.resolve(), options.cases or Path(scratch) / "cases", Path(scratch))
        subprocess.run([sys.executable, EXPORT, "--out", bench.cases, "--only", ",".join(CASES)], check=True)
        return tally.run_all("command", {name: functools.partial(test, bench) for name, test in tally.tests_of(globals()).items()
                                         if options.only in name})


if __name__ == "__main__":
    sys.exit(main())
