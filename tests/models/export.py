"""Exports models to case folders: programs, inputs and what PyTorch answers.

    python export.py --out DIR [--only NAME,NAME] [--small] [--decomposed] [--jobs 2] [--list]

A case folder holds
    model.pt2                       the exported program, with its sample inputs inside; model.jit for TorchScript
    case.json                       name, and for each set the dtype, shape, stride and offset of inputs and outputs
    SET/input_I.npy                 tensor inputs in the order of the program's user inputs, in C order
    SET/output_I.npy                what PyTorch eager answers, flattened
    SET/output64_I.npy              the same computed in float64
    SET/after_input_I.npy           an input that the program mutates, after the run
    SET/after_buffer_NAME.npy       a buffer that the program mutates, after the run
Sets are called set_0, also_K (other sizes), sequence_K (runs in order on one instance, state carries on) and
refuse_K (sizes that the program does not promise: an error is the only right answer).

A case that an equal version of these scripts wrote is left as it is. --decomposed saves the programs after
run_decompositions(), in core ATen operators.
"""
import argparse
import copy
import functools
import hashlib
import importlib.metadata
import json
import multiprocessing
import os
import shutil
import sys
import time
import warnings
from dataclasses import dataclass, field
from pathlib import Path

import numpy
import torch
from torch.export import Dim
from torch.utils import _pytree as pytree

warnings.filterwarnings("ignore")

HERE = Path(__file__).resolve().parent
PRETRAINED = HERE.parent.parent / "examples" / "quickstart"
sys.path.append(str(PRETRAINED))

os.environ.setdefault("YOLO_CONFIG_DIR", str(Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "nacre"))

import numerics  # noqa: E402
import pretrained  # noqa: E402
import zoo  # noqa: E402


@dataclass
class Program:
    """A module and what it is run on: {label: the argument tuples that one instance sees in order}.
    `tolerance` (relative, absolute) stands in for the rule of comparison where that does not suit.
    `examples` are those that `nacre verify --example` takes for a TorchScript module."""
    module: torch.nn.Module
    sets: dict
    dynamic: tuple = None
    note: str = ""
    refuse: list = field(default_factory=list)
    examples: list = None
    tolerance: tuple = None


# ---------------------------------------------------------------- the models

class Counter(torch.nn.Module):
    """Keeps a sum and a count in buffers, and writes into its first input."""

    def __init__(self):
        super().__init__()
        self.register_buffer("total", torch.zeros(2, 3))
        self.register_buffer("calls", torch.zeros((), dtype=torch.int64))

    def forward(self, x, y):
        self.total.add_(y.sin())
        self.calls += 1
        x[:, 0].mul_(2)
        return self.total * x.sum(), self.calls * 10


def counter():
    def arguments(step):
        return (torch.arange(6.0).view(2, 3) - step, torch.linspace(-1, 1, 6).view(2, 3) * (step + 1))
    return Program(Counter(), {"set_0": [arguments(0)], "sequence": [arguments(step) for step in range(3)]})


def numerics_case(name):
    def make():
        torch.manual_seed(zoo.SEED)
        module, sets, dynamic = numerics.CASES[name]()
        return Program(module, sets, dynamic)
    return make


def zoo_case(name):
    def make():
        module, inputs = zoo.create(name)
        sets = {"set_0": [inputs]}
        if name == "llama_decode":
            steps = [(torch.tensor([[token]]), torch.tensor([position]))
                     for token, position in ((17, 128), (31999, 129), (4242, 130))]
            sets["sequence"] = steps
        return Program(module, sets)
    return make


def resized(tensor, sizes):
    """A tensor with other sizes {dimension: size}, made of its own elements; no two rows are alike."""
    for dim, size in sizes.items():
        old = tensor.shape[dim]
        tensor = tensor.index_select(dim, (torch.arange(size) * 5 + 3) % old)
        if tensor.is_floating_point():
            shape = [1] * tensor.dim()
            shape[dim] = size
            tensor = tensor * torch.linspace(0.7, 1.3, size).view(shape)
    return tensor


def dynamic_case(name, symbols, *sizes, refuse=()):
    """A model of the zoo with dynamic dimensions: symbols maps a dimension's name to its Dim, sizes are the others to run."""
    def make():
        module, inputs = zoo.create(name)
        dims = [{d: s for d, s in per_input.items() if s in symbols} for per_input in zoo.MODELS[name].dynamic]

        def with_sizes(chosen):
            return tuple(resized(x, {d: chosen[s] for d, s in per_input.items()})
                         for x, per_input in zip(inputs, dims))
        first = with_sizes(sizes[0])
        sets = {"set_0": [first]}
        sets.update({f"also_{k}": [with_sizes(chosen)] for k, chosen in enumerate(sizes[1:])})
        return Program(module, sets, tuple({d: symbols[s] for d, s in per_input.items()} for per_input in dims),
                       refuse=[with_sizes(chosen) for chosen in refuse])
    return make


def batch(most=64):
    return {"batch": Dim("batch", min=1, max=most)}


def unet_sizes():
    module, _ = zoo.create("unet_small")
    height, width = 8 * Dim("height_8", min=2, max=128), 8 * Dim("width_8", min=2, max=128)
    noise = torch.Generator().manual_seed(5)

    def image(h, w):
        return (torch.randn(1, 3, h, w, generator=noise),)
    return Program(module, {"set_0": [image(64, 96)], "also_0": [image(128, 48)], "also_1": [image(256, 256)]},
                   ({2: height, 3: width},), refuse=[image(64, 100)])


def even_sizes():
    """The dynamic height and width of MTCNN's first network. Its pooling rounds up, and torch.export can tell
    what that gives for even sizes only; from 14 on, no output dimension is 1, which it would make special."""
    return {2: 2 * Dim("half_height", min=7, max=2048), 3: 2 * Dim("half_width", min=7, max=2048)}


def mtcnn_pnet():
    image = pretrained.photograph()

    def scaled(height, width):
        return (pretrained.scaled(image, height, width),)
    return Program(pretrained.mtcnn("PNet"),
                   {"set_0": [scaled(154, 154)], "also_0": [scaled(64, 96)], "also_1": [scaled(14, 22)],
                    "also_2": [scaled(308, 308)]},
                   (even_sizes(),), refuse=[scaled(153, 154), scaled(64, 97), scaled(12, 12)])


def mtcnn_crops(name, size):
    def make():
        return Program(pretrained.mtcnn(name),
                       {"set_0": [(pretrained.face_crops(size, 7),)], "also_0": [(pretrained.face_crops(size, 1),)],
                        "also_1": [(pretrained.face_crops(size, 20),)]},
                       ({0: Dim("faces", min=1, max=4096)},), refuse=[(pretrained.face_crops(size + 2, 2),)])
    return make


def minilm_pretrained():
    sentences = pretrained.SENTENCES
    batch_size, length = Dim("batch", min=1, max=1024), Dim("length", min=1, max=512)
    tokens, mask = pretrained.token_tensors(sentences[:1])
    return Program(pretrained.sentence_encoder(),
                   {"set_0": [pretrained.token_tensors(sentences)],
                    "also_0": [pretrained.token_tensors(sentences[:1])],
                    "also_1": [pretrained.token_tensors([sentences[k] for k in (3, 6, 11)])],
                    "also_2": [pretrained.token_tensors([" ".join(sentences)] * 2)]},
                   ({0: batch_size, 1: length}, {0: batch_size, 1: length}),
                   refuse=[(tokens, mask[:, :-1]), (tokens.repeat(1, 60), mask.repeat(1, 60))])


def crepe_tiny():
    return Program(pretrained.pitch_tracker(),
                   {"set_0": [(pretrained.tone_frames(16),)], "also_0": [(pretrained.tone_frames(1, 440.0),)],
                    "also_1": [(pretrained.tone_frames(50, 98.0),)]},
                   ({0: Dim("frames", min=1, max=4096)},), refuse=[(pretrained.tone_frames(2)[:, :1000],)])


def crepe_full():
    words = pretrained.speech("one two three")
    voiced = pretrained.normalized(words[4000:].unfold(0, 1024, 1600)[:4])
    return Program(pretrained.pitch_tracker("full"), {"set_0": [(voiced,)], "also_0": [(pretrained.tone_frames(1, 440.0),)]},
                   ({0: Dim("frames", min=1, max=4096)},))


def speaker_encoder():
    def partials(voice, text, count):
        mels = pretrained.mel_spectrogram(pretrained.speech(text, voice))
        return (mels.unfold(0, 160, 40).permute(0, 2, 1)[:count].contiguous(),)
    text = "The north wind and the sun were disputing which was the stronger."
    return Program(pretrained.SpeakerEncoder(), {"set_0": [partials("en", text, 3)], "also_0": [partials("en+f3", text, 1)]},
                   ({0: Dim("partials", min=1, max=64)},))


def voice_activity():
    """Frame by frame, with state: silence, then words. The answer is one number, of which PyTorch's own error may be nothing
    by luck: half a unit of the sixth digit stands in for it."""
    samples = torch.cat([torch.zeros(2048), pretrained.speech("Good morning, is anybody there?")])
    frames = [(frame[None].contiguous(), 16000) for frame in samples.unfold(0, 512, 512)[:40]]
    return Program(pretrained.voice_activity(), {"set_0": frames[:1], "sequence": frames}, examples=["f32[1,512]", "16000"],
                   tolerance=(1e-5, 5e-7))


# Of 100 MB and more; and a recurrent network that PyTorch's decomposition unrolls to some ten thousand operators.
LARGE = {"speaker_encoder", "resnet50", "resnet50_b8", "convnext_tiny", "vit_b_16", "swin_t", "llama_prefill", "llama_prefill_dynamic", "llama_decode"}


def cases():
    """{name: function that makes the Program}, the small ones first."""
    times = {"batch": Dim("batch", min=1, max=64), "time": Dim("time", min=2, max=512)}
    length = {"length": Dim("length", min=2, max=256)}
    found = {
        "counter": counter,
        **{name: numerics_case(name) for name in numerics.CASES},
        "mtcnn_pnet": mtcnn_pnet,
        "mtcnn_rnet": mtcnn_crops("RNet", 24),
        "mtcnn_onet": mtcnn_crops("ONet", 48),
        "crepe_tiny": crepe_tiny,
        "crepe_full": crepe_full,
        "speaker_encoder": speaker_encoder,
        "voice_activity": voice_activity,
        "minilm_pretrained": minilm_pretrained,
        "autoencoder_dynamic": dynamic_case("autoencoder", batch(), {"batch": 5}, {"batch": 1}, {"batch": 64}, refuse=[{"batch": 65}]),
        "ds_cnn_dynamic": dynamic_case("ds_cnn", batch(), {"batch": 3}, {"batch": 1}, {"batch": 9}),
        "resnet8_dynamic": dynamic_case("resnet8", batch(), {"batch": 4}, {"batch": 1}, {"batch": 7}),
        "gru_keyword_dynamic": dynamic_case("gru_keyword", {"batch": times["batch"]}, {"batch": 3}, {"batch": 1}, {"batch": 8}),
        "lstm_speech_dynamic": dynamic_case("lstm_speech", {"batch": times["batch"]}, {"batch": 2}, {"batch": 1}, {"batch": 5}),
        "minilm_dynamic": dynamic_case("minilm", length, {"length": 128}, {"length": 7}, {"length": 33}, refuse=[{"length": 257}]),
        "mobilenet_v2_dynamic": dynamic_case("mobilenet_v2", batch(), {"batch": 2}, {"batch": 1}, {"batch": 3}),
        "resnet18_dynamic": dynamic_case("resnet18", batch(), {"batch": 2}, {"batch": 1}, {"batch": 3}),
        "unet_small_sizes": unet_sizes,
        "llama_prefill_dynamic": dynamic_case("llama_prefill", length, {"length": 64}, {"length": 5}, {"length": 200}),
    }
    first = ["floor", "counter", "resnet8", "ds_cnn", "mtcnn_pnet", "mtcnn_rnet", "mtcnn_onet", "minilm_pretrained", "crepe_tiny",
             "resnet18", "autoencoder", "gru_keyword", "lstm_speech"]
    found.update({name: zoo_case(name) for name in zoo.MODELS})
    return {name: found[name] for name in dict.fromkeys([*first, *zoo.MODELS, *found])}


# ---------------------------------------------------------------- files

def tensors(tree):
    """Tensors and plain numbers in the program's order; None is left out."""
    return [v if isinstance(v, torch.Tensor) else torch.tensor(v) for v in pytree.tree_leaves(tree) if v is not None]


def wide(tensor):
    return tensor.to({torch.float32: torch.float64, torch.complex64: torch.complex128}.get(tensor.dtype, tensor.dtype), copy=True)


def widened(tree):
    return pytree.tree_map_only(torch.Tensor, wide, tree)


def widened_module(module):
    """In float64, if there is such a thing: scripts name dtypes in their code, and a number's bits are others. There nacre
    verify makes do without, or takes the captured graph's."""
    if isinstance(module, torch.jit.ScriptModule) or getattr(module, "reads_bits", False):
        return None
    return copy.deepcopy(module).double()._apply(wide)


def save_tensor(path, value):
    value = value.detach().resolve_conj().resolve_neg().contiguous()
    numpy.save(path, (value.view(torch.uint16) if value.dtype == torch.bfloat16 else value).numpy())


def save_tensors(folder, kind, values):
    for index, value in enumerate(values):
        save_tensor(folder / f"{kind}_{index}.npy", value)
    return [{"dtype": str(v.dtype).removeprefix("torch."), "shape": list(v.shape), "stride": list(v.stride()),
             "offset": v.storage_offset()} for v in values]


def write_set(folder, label, module, runs):
    """Writes the runs of one instance; returns their entries for case.json. What a run mutates shows in its values:
    the signature of a program names it only after functionalization."""
    entries = {}
    narrow = copy.deepcopy(module)
    double = widened_module(module)
    for step, args in enumerate(runs):
        name = label if len(runs) == 1 else f"{label}_{step}"
        here = folder / name
        here.mkdir()
        entry = entries[name] = {"refuse": False, "continues": step > 0, "eager": "answers"}
        entry["inputs"] = save_tensors(here, "input", tensors(args))
        own, own_wide = copy.deepcopy(args), widened(args)
        before = {name: buffer.clone() for name, buffer in narrow.named_buffers()}
        with torch.no_grad():
            entry["outputs"] = save_tensors(here, "output", tensors(narrow(*own)))
            if double:
                save_tensors(here, "output64", tensors(double(*own_wide)))
        for index, (old, new) in enumerate(zip(tensors(args), tensors(own))):
            if not torch.equal(old, new):
                save_tensor(here / f"after_input_{index}.npy", new)
        for buffer, new in narrow.named_buffers():
            if not torch.equal(before[buffer], new):
                save_tensor(here / f"after_buffer_{buffer}.npy", new)
    return entries


def write_refused(folder, index, module, args):
    name = f"refuse_{index}"
    (folder / name).mkdir()
    entry = {"refuse": True, "continues": False, "inputs": save_tensors(folder / name, "input", tensors(args))}
    try:
        with torch.no_grad():
            tensors(copy.deepcopy(module)(*copy.deepcopy(args)))
        entry.update(eager="answers", outputs=[])
    except Exception as error:  # what eager itself refuses is refused for its own reason
        entry["eager"] = type(error).__name__
    return {name: entry}


def version(decomposed, sources=(), packages=()):
    """Of what a case is made from; `sources`: further files, `packages`: further packages."""
    digest = hashlib.sha256(torch.__version__.encode())
    for path in (Path(__file__), PRETRAINED / "pretrained.py", HERE / "zoo.py", HERE / "numerics.py", *sources):
        digest.update(Path(path).read_bytes())
    digest.update(" ".join(importlib.metadata.version(package) for package in packages).encode())
    digest.update(b"decomposed" if decomposed else b"captured")
    return digest.hexdigest()[:16]


def write_case(folder, name, make, decomposed, key):
    """Writes one case, unless one of this version is there; says what it did."""
    try:
        if json.loads((folder / "case.json").read_text())["version"] == key:
            return False
    except (OSError, ValueError, KeyError):
        pass
    program = make()
    module = program.module.eval()
    unfinished = folder.with_name(folder.name + ".unfinished")
    shutil.rmtree(unfinished, ignore_errors=True)
    unfinished.mkdir(parents=True)
    if program.examples:
        torch.jit.save(module, str(unfinished / "model.jit"))
    else:
        with torch.no_grad():
            exported = torch.export.export(copy.deepcopy(module), copy.deepcopy(program.sets["set_0"][0]),
                                           dynamic_shapes=program.dynamic)
        torch.export.save(exported.run_decompositions() if decomposed else exported, unfinished / "model.pt2")
    sets = {}
    for label, runs in program.sets.items():
        sets.update(write_set(unfinished, label, module, runs))
    for index, args in enumerate(program.refuse):
        sets.update(write_refused(unfinished, index, module, args))
    (unfinished / "case.json").write_text(json.dumps({
        "name": name, "source": "tests/models", "note": program.note, "expect": "value", "tol": program.tolerance, "alias": None,
        "version": key, **({"program": "model.jit", "examples": program.examples} if program.examples else {}),
        "sets": sets}, indent=1))
    shutil.rmtree(folder, ignore_errors=True)
    unfinished.rename(folder)
    return True


def write_job(job):
    """(name, seconds that it took, what went wrong); one model's failure leaves the others alone."""
    folder, name, make, decomposed, key = job
    torch.set_num_threads(1)
    start = time.perf_counter()
    try:
        written = write_case(folder, name, make, decomposed, key)
        return name, time.perf_counter() - start if written else 0, ""
    except Exception as error:
        return name, 0, f"{type(error).__name__}: {str(error).strip()[:2000]}"


def write_cases(jobs, processes, most=None):
    """Writes cases, (folder, name, make, decomposed, version) each, and tells of them; the exit status.

    most    how many a process writes before another takes its place, where the models' memory does not all come back
    """
    if len(jobs) == 1 or (processes == 1 and not most):
        return told(map(write_job, jobs))
    with multiprocessing.get_context("spawn").Pool(processes, maxtasksperchild=most) as pool:
        return told(pool.imap(write_job, jobs))


def told(answers):
    failed = 0
    for name, seconds, error in answers:
        if error:
            failed += 1
            print(f"{name}: {error}", file=sys.stderr, flush=True)
        elif seconds:
            print(f"exported {name} in {seconds:.1f} s", flush=True)
    return 1 if failed else 0


def make(name):
    return cases()[name]()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, help="folder of the case folders")
    parser.add_argument("--only", help="names, separated by commas")
    parser.add_argument("--decomposed", action="store_true", help="save after run_decompositions()")
    parser.add_argument("--small", action="store_true", help="leave out what is slow to export")
    parser.add_argument("--jobs", type=int, default=1, help="processes")
    parser.add_argument("--list", action="store_true", help="print the names and stop")
    options = parser.parse_args()
    chosen = cases()
    if options.only:
        names = options.only.split(",")
        unknown = [name for name in names if name not in chosen]
        if unknown:
            parser.error(f"no model {', '.join(unknown)}; there are: {', '.join(chosen)}")
        chosen = {name: chosen[name] for name in names}
    if options.small:
        chosen = {name: make for name, make in chosen.items() if name not in LARGE}
    if options.list:
        print("\n".join(chosen))
        return 0
    if not options.out:
        parser.error("--out is needed")
    key = version(options.decomposed)
    return write_cases([(options.out / name, name, functools.partial(make, name), options.decomposed, key) for name in chosen], options.jobs)


if __name__ == "__main__":
    sys.exit(main())
