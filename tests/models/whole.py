"""Exports whole models that other people wrote: architectures of torchvision, timm and transformers, with seeded random weights.

    python whole.py --out DIR [--names FILE ...] [--only timm/levit_128s,...] [--jobs 2] [--list]

A name is torchvision/NAME, timm/NAME or transformers/MODEL_TYPE; those of whole_models.txt are exported, and those of the
FILEs. Models of transformers are built from their configuration class with small sizes: the architecture is whole, only
width, depth and vocabulary shrink. The case folders are those of export.py, PACKAGE-NAME. What equal versions of these
scripts and of the packages wrote is left as it is.
"""
import argparse
import functools
import inspect
import os
import sys
from pathlib import Path

import torch

import export
import zoo

os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")  # it tells of every fast kernel that is not installed

HERE = Path(__file__).resolve().parent
SEED = 20261130
PACKAGES = ("torchvision", "timm", "transformers")

# What configuration classes call the same few sizes; each takes those that it knows.
SMALL = {
    "hidden_size": 64, "d_model": 64, "n_embd": 64, "dim": 64, "embed_dim": 64, "embedding_size": 64, "word_embed_proj_dim": 64,
    "num_hidden_layers": 2, "num_layers": 2, "n_layer": 2, "n_layers": 2,
    "encoder_layers": 2, "decoder_layers": 2, "num_decoder_layers": 2,
    "num_attention_heads": 4, "num_heads": 4, "n_head": 4, "n_heads": 4, "num_key_value_heads": 2,
    "encoder_attention_heads": 4, "decoder_attention_heads": 4, "head_dim": 16, "d_kv": 16, "rotary_dim": 8,
    "intermediate_size": 128, "ffn_dim": 128, "encoder_ffn_dim": 128, "decoder_ffn_dim": 128, "d_ff": 128, "n_inner": 128,
    "vocab_size": 512, "type_vocab_size": 2, "max_position_embeddings": 128, "n_positions": 128, "num_labels": 8,
    "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2, "decoder_start_token_id": 1,
    "num_experts": 4, "num_local_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 64, "state_size": 8,
    "image_size": 64, "num_mel_bins": 16, "max_source_positions": 64, "max_target_positions": 64,
    "use_cache": False, "attn_implementation": "sdpa",
}


class Wide(torch.nn.Module):
    """The float64 results of a model, none where it has an operator without float64: its float32 results then stand alone."""

    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, *inputs):
        try:
            return self.model(*inputs)
        except RuntimeError:
            return ()


class Whole(torch.nn.Module):
    """A model that takes its arguments in order; `names` are those that it takes by name, and then only tensors come out."""

    def __init__(self, model, names=()):
        super().__init__()
        self.model = model
        self.names = names

    def forward(self, *inputs):
        if not self.names:
            return self.model(*inputs)
        answer = self.model(**dict(zip(self.names, inputs)), return_dict=False)
        return [leaf for leaf in torch.utils._pytree.tree_leaves(answer) if isinstance(leaf, torch.Tensor)]

    def double(self):
        return Wide(super().double())


def of_transformers(model_type):
    import transformers
    make = transformers.CONFIG_MAPPING[model_type]
    defaults = make().to_dict()
    known = {*inspect.signature(make.__init__).parameters, *defaults}
    a_size_each_stage = {key for key, value in defaults.items() if isinstance(value, (list, tuple))}  # stay as they are
    config = make(**{key: value for key, value in SMALL.items() if key in known - a_size_each_stage})
    model = transformers.AutoModel.from_config(config)
    first = model.main_input_name
    if first == "pixel_values":
        size = getattr(config, "image_size", 128)
        height, width = (size, size) if isinstance(size, int) else size
        inputs = {first: torch.randn(1, getattr(config, "num_channels", 3), height, width)}
    elif first == "input_values":
        inputs = {first: torch.randn(1, 4000)}
    elif first == "input_features":
        inputs = {first: torch.randn(1, config.num_mel_bins, 2 * config.max_source_positions)}
    else:
        inputs = {first: torch.randint(3, 500, (1, 32))}
    if config.is_encoder_decoder:
        inputs["decoder_input_ids"] = torch.randint(3, 500, (1, 8))
    return Whole(model, tuple(inputs)), tuple(inputs.values())


def of_timm(name):
    import timm
    model = timm.create_model(name)
    return Whole(model), (torch.randn(1, *model.default_cfg["input_size"]),)


def of_torchvision(name):
    import torchvision
    options = {"weights": None}
    if "weights_backbone" in inspect.signature(torchvision.models.get_model_builder(name)).parameters:
        options["weights_backbone"] = None  # else they are downloaded
    return Whole(torchvision.models.get_model(name, **options)), (torch.randn(1, 3, 224, 224),)


def settle(module, inputs):
    """Weights that start as a constant, mostly 0 or 1, are varied: layers that are scaled by zero would hide every error. Then
    batch norms get statistics that fit."""
    with torch.no_grad():
        for weight in module.parameters():
            if weight.is_floating_point() and weight.numel() and torch.equal(weight, weight.flatten()[0].expand_as(weight)):
                weight.add_(torch.empty_like(weight).uniform_(-0.1, 0.1))
    zoo.calibrate_batch_norm(module, inputs)


def make(name):
    package, _, model = name.partition("/")
    torch.manual_seed(SEED)
    module, inputs = {"torchvision": of_torchvision, "timm": of_timm, "transformers": of_transformers}[package](model)
    settle(module.eval(), inputs)
    return export.Program(module.requires_grad_(False), {"set_0": [inputs]}, note=name)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, help="folder of the case folders")
    parser.add_argument("--names", nargs="*", default=[], type=Path, metavar="FILE", help="files of further names")
    parser.add_argument("--only", help="names, separated by commas; also ones that no file lists")
    parser.add_argument("--jobs", type=int, default=1, help="processes")
    parser.add_argument("--list", action="store_true", help="print the names and stop")
    options = parser.parse_args()
    files = [HERE / "whole_models.txt", *options.names]
    names = options.only.split(",") if options.only else list(dict.fromkeys(" ".join(f.read_text() for f in files).split()))
    unknown = [name for name in names if name.partition("/")[0] not in PACKAGES]
    if unknown:
        parser.error(f"{', '.join(unknown)}: a name is PACKAGE/NAME, of {', '.join(PACKAGES)}")
    if options.list:
        print("\n".join(names))
        return 0
    if not options.out:
        parser.error("--out is needed")
    key = export.version(False, [__file__], PACKAGES)
    cases = {name.replace("/", "-"): name for name in names}
    return export.write_cases([(options.out / case, case, functools.partial(make, name), False, key) for case, name in cases.items()],
                              options.jobs, most=8)


if __name__ == "__main__":
    sys.exit(main())
