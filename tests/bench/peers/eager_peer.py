"""PyTorch eager: the baseline that users start from."""
import torch

import zoo
from . import Session, package_files


def import_runtime():
    pass


def prepare(case, folder):
    return case.pt2


def load(artifact, case, threads):
    torch.set_num_threads(threads)
    module, inputs = zoo.create(case.name)
    return torch_session(module, inputs)


def torch_session(module, inputs):
    last = [None]

    def run():
        with torch.inference_mode():
            last[0] = module(*inputs)

    def output():
        first = last[0][0] if isinstance(last[0], (tuple, list)) else last[0]
        return first.numpy()
    return Session(run, output)


def libraries():
    return package_files("torch", "lib/libtorch_cpu.so", "lib/libc10.so", "lib/libgomp*.so*", "lib/libtorch.so")
