"""Exports every model of the zoo with the dynamic dimensions that it allows, and runs it at six sizes or more.

    python dynamic.py --out DIR [--only NAME,NAME] [--small] [--jobs 2] [--list]

One program, so one artifact, serves all sizes of a model: among them 1, a prime, and the largest. The folders are those
of export.py. The recurrent models keep their time: torch.export pins it, since it unrolls what is left of the loop.
"""
import argparse
import functools
import sys
from pathlib import Path

import torch
from torch.export import Dim

import export
import zoo


def dims(**sizes):
    return sizes


# name: (a {dimension: symbol} for each input, {symbol: (factor, least, most)}, the sizes to run)
#
# A dimension is factor * symbol. Image sizes are what the strides of the network divide.
BATCH = ({0: "batch"},)
IMAGE = ({0: "batch", 2: "height", 3: "width"},)


def batches(most):
    """Six batch sizes: 1, primes, the largest. Not 1 first: a sample of size 1 is what export takes for fixed."""
    return [dims(batch=b) for b in (3, 1, 2, 5, most - 1, most)]


def images(step, least, most, *sizes):
    """Batch, height and width: sizes are (batch, height, width) in steps."""
    return (IMAGE, {"batch": (1, 1, 4), "height": (step, least, most), "width": (step, least, most)},
            [dims(batch=b, height=h, width=w) for b, h, w in sizes])


def batched(most=8):
    return BATCH, {"batch": (1, 1, most)}, batches(most)


SQUARES = ((2, 7, 7), (1, 3, 5), (3, 4, 4), (1, 7, 2), (4, 2, 3), (1, 8, 8))

MODELS = {
    "floor": batched(64),
    "ds_cnn": batched(16),
    "resnet8": images(8, 2, 16, (3, 4, 4), (1, 2, 2), (2, 5, 3), (4, 7, 2), (1, 16, 16), (1, 3, 11)),
    "mobilenet_v1_025": images(32, 2, 8, *SQUARES),
    "autoencoder": batched(64),
    "gru_keyword": batched(16),
    "lstm_speech": batched(8),
    # The network halves the length three times, and the last half must not be 1, which export would take for fixed.
    "tcn_denoiser": (({0: "batch", 2: "length"},), {"batch": (1, 1, 4), "length": (1, 24, 16000)},
                     [dims(batch=b, length=n) for b, n in ((2, 1600), (1, 997), (3, 64), (4, 24), (1, 16000), (2, 4801))]),
    "shufflenet_v2": images(32, 2, 8, *SQUARES),
    "mobilenet_v2": images(32, 2, 8, *SQUARES),
    "mobilenet_v3_large": images(32, 2, 8, *SQUARES),
    "efficientnet_b0": images(32, 2, 8, *SQUARES),
    "resnet18": images(32, 2, 8, *SQUARES),
    "resnet50": images(32, 2, 8, *SQUARES),
    "resnet50_b8": batched(8),
    "convnext_tiny": images(32, 2, 8, *SQUARES),
    "vit_b_16": batched(7),
    "swin_t": batched(7),
    "lraspp_mobilenet_v3": images(32, 2, 10, (2, 5, 5), (1, 3, 5), (3, 4, 4), (1, 7, 2), (4, 2, 3), (1, 10, 10)),
    "unet_small": images(16, 2, 16, (2, 7, 7), (1, 3, 5), (3, 4, 4), (1, 11, 2), (4, 2, 3), (1, 16, 16)),
    "yolo11n": images(32, 2, 20, (2, 7, 7), (1, 3, 5), (3, 4, 4), (1, 11, 2), (4, 2, 3), (1, 20, 20)),
    "minilm": (({0: "batch", 1: "length"}, {0: "batch", 1: "length"}), {"batch": (1, 1, 8), "length": (1, 2, 128)},
               [dims(batch=b, length=n) for b, n in ((2, 64), (1, 7), (3, 31), (8, 16), (1, 128), (5, 2))]),
    "llama_prefill": (({0: "batch", 1: "length"},), {"batch": (1, 1, 4), "length": (1, 2, 128)},
                      [dims(batch=b, length=n) for b, n in ((2, 32), (1, 7), (3, 31), (4, 8), (1, 128), (2, 2))]),
}


def make(name):
    per_input, symbols, sizes = MODELS[name]
    module, inputs = zoo.create(name)
    declared = {symbol: Dim(symbol, min=least, max=most) for symbol, (_, least, most) in symbols.items()}

    def with_sizes(chosen):
        return tuple(export.resized(x, {d: symbols[s][0] * chosen[s] for d, s in which.items()})
                     for x, which in zip(inputs, per_input))
    sets = {"set_0": [with_sizes(sizes[0])]}
    sets.update({f"also_{k}": [with_sizes(chosen)] for k, chosen in enumerate(sizes[1:])})
    beyond = {s: most for s, (_, _, most) in symbols.items()}
    last = list(symbols)[-1]
    refused = with_sizes({**sizes[1], last: beyond[last] + 1})
    return export.Program(module, sets, tuple({d: symbols[s][0] * declared[s] for d, s in which.items()} for which in per_input),
                          refuse=[refused])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, help="folder of the case folders")
    parser.add_argument("--only", help="names, separated by commas")
    parser.add_argument("--small", action="store_true", help="leave out the models of 100 MB and more")
    parser.add_argument("--jobs", type=int, default=1, help="processes")
    parser.add_argument("--list", action="store_true", help="print the names and stop")
    options = parser.parse_args()
    names = options.only.split(",") if options.only else list(MODELS)
    unknown = [name for name in names if name not in MODELS]
    if unknown:
        parser.error(f"no model {', '.join(unknown)}; there are: {', '.join(MODELS)}")
    if options.small:
        names = [name for name in names if name not in export.LARGE]
    if options.list:
        print("\n".join(names))
        return 0
    if not options.out:
        parser.error("--out is needed")
    key = export.version(False, [__file__])
    return export.write_cases([(options.out / f"{name}_sizes", name, functools.partial(make, name), False, key) for name in names], options.jobs)


if __name__ == "__main__":
    sys.exit(main())
