"""torch.export that remembers which Python line narrowed what.

A dimension that was to be dynamic may come out as a number, as equal to another, or bounded, since the model's code only works
for that. torch.export keeps the outcome and forgets the line. `export` is torch.export.export, and `save` is torch.export.save
with the lines beside the program, from where `nacre compile` tells them:

    import narrowed
    program = narrowed.export(module, (x, y), dynamic_shapes=({0: Dim.AUTO}, {0: Dim.AUTO}))
    narrowed.save(program, "model.pt2")

    nacre compile model.pt2 -o model.nacre
      narrowed x.shape[0] == y.shape[0] by model.py:12 in forward: z = x + y
"""
import contextlib
import json
import linecache
import os
import sys
from pathlib import Path

import sympy
import torch
from torch.fx.experimental.symbolic_shapes import ShapeEnv
from torch.utils._sympy.functions import FloorDiv

FILE = "nacre_narrowed.json"
TORCH = os.path.dirname(torch.__file__) + os.sep


def user_frame():
    """The innermost frame outside PyTorch."""
    frame = sys._getframe(1)
    while frame and (frame.f_code.co_filename.startswith((TORCH, "<")) or frame.f_code.co_filename == __file__):
        frame = frame.f_back
    return frame


@contextlib.contextmanager
def recorded(conditions):
    """Appends (shape environment, condition, frame) for each condition on sizes that PyTorch takes for granted."""
    original = ShapeEnv._log_guard

    def log_guard(self, prefix, condition, *rest, **named):
        frame = user_frame()
        if frame:
            conditions.append((self, condition, (frame.f_code.co_filename, frame.f_lineno, frame.f_code.co_name)))
        return original(self, prefix, condition, *rest, **named)
    ShapeEnv._log_guard = log_guard
    try:
        yield
    finally:
        ShapeEnv._log_guard = original


def names(env):
    """{symbol: `x.shape[0]`}, as far as symbols are sizes of inputs."""
    found = {}
    for symbol, sources in env.var_to_sources.items():
        for source in sources:
            name = source.name() if callable(source.name) else source.name
            name = name.replace(".size()[", ".shape[")
            if name.startswith("L['") and "']" in name:
                name = name[3:].replace("']", "", 1)
            found.setdefault(symbol, name)
    return found


def export(*args, **kwargs):
    """torch.export.export; the program gets a list `narrowed` of conditions with the lines that need them."""
    conditions = []
    with recorded(conditions):
        program = torch.export.export(*args, **kwargs)
    program.narrowed = []
    by_line = {}
    for env, condition, place in conditions:
        known = names(env)
        if condition.free_symbols and condition.free_symbols <= set(known):
            told = by_line.setdefault(place, {})
            told.setdefault(in_words(condition, known), condition)
    for (file, line, function), told in by_line.items():
        # PyTorch notes every step of its reasoning. What pins a dimension is told: not that it is unlike some number, and
        # not what was divided on the way, unless the line has nothing plainer.
        plain = [text for text, condition in told.items() if not condition.has(FloorDiv) and not isinstance(condition, sympy.Ne)]
        for text in plain or [text for text, condition in told.items() if isinstance(condition, sympy.Eq)][:1]:
            program.narrowed.append({"condition": text, "file": file, "line": line, "function": function,
                                     "code": linecache.getline(file, line).strip()})
    return program


def in_words(condition, known):
    """As Python writes it, with the names of sizes for symbols."""
    def named(expression):
        return str(expression.subs({s: type(s)(known[s], integer=True) for s in expression.free_symbols}))
    if isinstance(condition, (sympy.Eq, sympy.Ne)):
        return f" {'==' if isinstance(condition, sympy.Eq) else '!='} ".join(map(named, condition.args))
    return named(condition)


def save(program, path, **kwargs):
    """torch.export.save, with what `export` found out."""
    extra = dict(kwargs.pop("extra_files", None) or {})
    extra[FILE] = json.dumps(getattr(program, "narrowed", []))
    torch.export.save(program, Path(path), extra_files=extra, **kwargs)
