"""Random programs: a list of statements over a pool of tensors, written as the source of a module.

Each statement is tried before it is taken, at every size of the program, on four sets of values: in the program's own dtypes,
in float64, and twice with other rounding errors than PyTorch's. It is taken if PyTorch can run it, integers and booleans come
out the same in all four, and the other rounding errors stay well within what `nacre verify` allows. So a discontinuous
function is applied where rounding cannot carry it over its edge, and a difference is a mistake and not bad luck.
"""
import math
import random
import re
import warnings
from dataclasses import dataclass, field, replace

import torch
import torch.nn.functional as F

warnings.filterwarnings("ignore")

FLOATS = {torch.float32, torch.float64, torch.float16, torch.bfloat16}
INTEGERS = {torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8}
SIZES = [1, 1, 2, 2, 3, 3, 4, 4, 5, 7, 8, 13, 15, 16, 17, 31, 32, 33, 64, 100, 257]
SETTINGS = [1, 2, 3, 5, 7, 8, 15, 16, 17, 31, 33, 64]  # of a dynamic dimension
MOST = 64
LARGEST = 20000  # elements of a tensor
STATEMENTS = [2, 4, 6, 8, 10, 12, 16]  # of a program
ROUNDING = 1.5  # units in the last place that another implementation of a function may be off
WITHIN = 0.6  # of the limit that `nacre verify` has

exact, rounds, sums = "exact", "rounds", "sums"  # what a statement does to floating-point numbers


class Retry(Exception):
    """No such operand, or none that fits."""


@dataclass
class Leaf:
    name: str
    kind: str  # argument, buffer, parameter
    text: str  # an expression over the names of sizes
    shape: list  # of integers and names of sizes


@dataclass
class Statement:
    text: str
    kind: str = exact
    writes: str = ""  # the tensor that it changes in place
    needs: tuple = ()  # conditions, as expressions

    def defines(self):
        found = re.match(r"\w+(?:, \w+)*(?= = )", self.text)
        return found[0].split(", ") if found else []

    def reads(self):
        return set(re.findall(r"\b[abpv]\d+\b", self.text)) - set(self.defines())


@dataclass
class Program:
    name: str
    leaves: list = field(default_factory=list)
    statements: list = field(default_factory=list)
    results: list = field(default_factory=list)
    sizes: list = field(default_factory=lambda: [{}])

    def used(self):
        names = set(self.results).union(*(s.reads() for s in self.statements))
        leaves = [leaf for leaf in self.leaves if leaf.name in names]
        return leaves if any(leaf.kind == "argument" for leaf in leaves) else leaves + [l for l in self.leaves if l.kind == "argument"][:1]

    def only(self, result):
        return replace(self, results=[result])

    def without_result(self, result):
        return replace(self, results=[r for r in self.results if r != result])

    def without(self, position):
        """Less a statement and all that needs what it defines."""
        gone, kept = set(self.statements[position].defines()), []
        for i, statement in enumerate(self.statements):
            if i != position and not gone & statement.reads():
                kept.append(statement)
            else:
                gone.update(statement.defines())
        kept_results = [r for r in self.results if r not in gone]
        return replace(self, statements=kept, results=kept_results or [leaf.name for leaf in self.leaves if leaf.kind == "argument"][:1])

    def fixed(self):
        """With the sizes of the first set, written as numbers."""
        def numbers(text):
            return re.sub(r"\b[nm]\b(?=[,)])", lambda found: str(self.sizes[0][found[0]]), text)
        leaves = [replace(l, text=numbers(l.text), shape=[self.sizes[0].get(s, s) for s in l.shape]) for l in self.leaves]
        return replace(self, leaves=leaves, sizes=[{}])

    def source(self, note=""):
        own = [leaf for leaf in self.used() if leaf.kind != "argument"]
        arguments = [leaf for leaf in self.used() if leaf.kind == "argument"]
        symbols = list(self.sizes[0])
        lines = [f'"""{note or self.name}"""', "import torch", "import torch.nn.functional as F", "", "",
                 "def seeded(number):", "    return torch.Generator().manual_seed(number)", "", "", "class Program(torch.nn.Module):"]
        if own:
            lines += ["    def __init__(self):", "        super().__init__()"]
            lines += [f"        self.{leaf.name} = torch.nn.Parameter({leaf.text}, requires_grad=False)" if leaf.kind == "parameter" else
                      f'        self.register_buffer("{leaf.name}", {leaf.text})' for leaf in own] + [""]
        lines += [f"    def forward({', '.join(['self', *(leaf.name for leaf in arguments)])}):"]
        lines += [f"        {leaf.name} = self.{leaf.name}" for leaf in own]
        lines += [f"        {s.text}" for s in self.statements]
        lines += [f"        return {', '.join(self.results)}{',' if len(self.results) == 1 else ''}", "", "",
                  f"def arguments({', '.join(symbols)}):",
                  f"    return ({', '.join(leaf.text for leaf in arguments)},)", "", "", f"SIZES = {self.sizes}"]
        if symbols:
            lines += [f'{s} = torch.export.Dim("{s}", min=1, max={MOST})' for s in symbols]
            lines += ["DYNAMIC = ({},)".format(", ".join(
                "{" + ", ".join(f"{d}: {s}" for d, s in enumerate(leaf.shape) if s in symbols) + "}" for leaf in arguments))]
        else:
            lines += ["DYNAMIC = None"]
        return "\n".join(lines) + "\n"


# ---------------------------------------------------------------- the four sets of values

def seeded(number):
    return torch.Generator().manual_seed(number)


def wide_text(text):
    return re.sub(r"torch\.(float32|float16|bfloat16)\b", "torch.float64", text)


def perturbed(tensor, generator):
    noise = (torch.rand(tensor.shape, generator=generator, dtype=torch.float64) * 2 - 1) * ROUNDING * torch.finfo(tensor.dtype).eps
    return (tensor.double() * (1 + noise)).to(tensor.dtype)


def alike(own, wide, near):
    """Whether a value is one that can be compared."""
    if any(t.shape != own.shape or t.dtype != own.dtype for t in near) or wide.shape != own.shape or own.numel() > LARGEST:
        return False
    if own.dtype not in FLOATS:
        return own.dtype == wide.dtype and all(torch.equal(own, t) for t in (wide, *near))
    if wide.dtype != torch.float64:
        return False
    own64, near64 = own.double(), [t.double() for t in near]
    finite = wide.isfinite()
    for t in (own64, *near64):
        if not torch.equal(torch.where(finite, 0, wide).nan_to_num(7, 8, 9), torch.where(t.isfinite(), 0, t).nan_to_num(7, 8, 9)):
            return False
    if not finite.any():
        return True
    truth, own64 = wide[finite], own64[finite]
    magnitude = truth.abs().max().item()
    if magnitude > (1e3 if own.dtype == torch.float16 else 1e6):
        return False
    limit = 2 * (own64 - truth).abs().max().item() + 8 * torch.finfo(own.dtype).eps * magnitude
    return all((t[finite] - truth).abs().max().item() <= WITHIN * limit for t in near64)


class Runs:
    """A program's values so far. Names lead to tensors in `own[i]`, `wide[i]` and `near[i]`, of the i-th sizes."""

    def __init__(self, program):
        self.program = program
        self.reset()

    def reset(self):
        base = {"torch": torch, "F": F, "seeded": seeded}
        count = len(self.program.sizes)
        self.own, self.wide = [dict(base) for _ in range(count)], [dict(base) for _ in range(count)]
        self.near = [[dict(base), dict(base)] for _ in range(count)]
        for leaf in self.program.leaves:
            self.add(leaf)
        for number, statement in enumerate(self.program.statements):
            if not self.run(statement, number):
                return False
        return True

    def add(self, leaf):
        for i, sizes in enumerate(self.program.sizes):
            value = eval(leaf.text, {"torch": torch, "seeded": seeded, **sizes})
            self.own[i][leaf.name] = value
            self.wide[i][leaf.name] = value.double() if value.dtype in FLOATS - {torch.float64} else value.clone()
            for near in self.near[i]:
                near[leaf.name] = value.clone()

    def run(self, statement, number):
        """Whether the statement may stand; if not, what it defined must be forgotten."""
        code, wide_code = compile(statement.text, "program", "exec"), compile(wide_text(statement.text), "program", "exec")
        touched = [*statement.defines(), *([statement.writes] if statement.writes else [])]
        try:
            for i in range(len(self.program.sizes)):
                own, wide = self.own[i], self.wide[i]
                if not all(eval(text, own) for text in statement.needs):
                    return False
                exec(code, own)
                torch.set_default_dtype(torch.float64)
                try:
                    exec(wide_code, wide)
                finally:
                    torch.set_default_dtype(torch.float32)
                for which, near in enumerate(self.near[i]):
                    noise = seeded(1000 * number + 10 * i + which)
                    disturbed = near
                    if statement.kind == sums and not statement.writes:
                        disturbed = dict(near)
                        for name in sorted(statement.reads()):
                            if near[name].dtype in FLOATS:
                                disturbed[name] = perturbed(near[name], noise)
                        exec(code, disturbed)
                    exec(code, near)
                    if statement.kind != exact:
                        for name in touched:
                            self.disturb(own[name], wide[name], near[name], disturbed[name], noise)
                if not all(alike(own[name], wide[name], [near[name] for near in self.near[i]]) for name in touched):
                    return False
        except Retry:
            raise
        except Exception:  # PyTorch does not take these operands
            return False
        return True

    @staticmethod
    def disturb(own, wide, near, other, noise):
        """Other rounding errors where there are any: not where the result is exact."""
        if own.dtype not in FLOATS or own.shape != near.shape or own.shape != wide.shape:
            return
        is_exact = (own.double() == wide) & (near == own) | ~near.isfinite()
        near.copy_(torch.where(is_exact, near, perturbed(other, noise)))

    def forget(self, statement):
        if statement.writes:
            self.reset()
            return
        for spaces in zip(self.own, self.wide, *zip(*self.near)):
            for space in spaces:
                for name in statement.defines():
                    space.pop(name, None)

    def comparable(self, names):
        return all(alike(own[n], wide[n], [near[n] for near in nears])
                   for own, wide, nears in zip(self.own, self.wide, self.near) for n in names)


# ---------------------------------------------------------------- making one

class Maker:
    def __init__(self, name):
        self.r = r = random.Random(name)
        self.program = Program(name)
        if r.random() < 0.25:
            symbols = ["n", "m"][:r.choice([1, 1, 2])]
            samples = r.sample([s for s in SETTINGS if s > 1], len(symbols))  # 0 and 1 are special to torch.export, and so are equal sizes
            self.program.sizes = [dict(zip(symbols, samples))]
            for least in (1, 1, 2):
                self.program.sizes.append({s: r.choice([k for k in SETTINGS if k >= least]) for s in symbols})
        self.dynamic = bool(self.program.sizes[0])
        self.dtype = r.choice([torch.float32] * 5 + [torch.float64, torch.float16, torch.bfloat16, torch.int64, torch.int32])
        self.special = r.random() < 0.08  # infinities and NaN among the inputs
        self.runs = Runs(self.program)
        self.count = 0

    def make(self, table):
        """`table`: (weight, function from a Maker to a statement)."""
        r = self.r
        weights = [weight for weight, _ in table]
        for _ in range(r.randint(1, 3)):
            self.leaf(self.shape())
        wanted = r.choice(STATEMENTS)
        for _ in range(20 * wanted):
            if len(self.program.statements) >= wanted:
                break
            try:
                made = r.choices(table, weights)[0][1](self)
            except Retry:
                continue
            self.take(made)
        self.choose_results()
        return self.program

    def take(self, statement):
        if self.runs.run(statement, len(self.program.statements)):
            self.program.statements.append(statement)
            return True
        self.runs.forget(statement)
        return False

    def choose_results(self):
        r, statements = self.r, self.program.statements
        defined = [n for s in statements for n in s.defines()]
        read = set().union(*(s.reads() for s in statements))
        results = [n for n in defined if n not in read][-6:] or defined[-1:]
        written = {s.writes for s in statements if s.writes}
        results += [n for n in sorted(written) if n not in results and n.startswith("v")][:2]
        if defined and r.random() < 0.3:
            results.append(r.choice(defined))
        if r.random() < 0.15:
            results.append(r.choice(self.program.leaves).name)
        self.program.results = results or [self.program.leaves[0].name]

    # ------------------------------------------------------------ operands

    def t(self, name):
        return self.runs.own[0][name]

    def live(self):
        return [n for n in self.runs.own[0] if isinstance(self.runs.own[0][n], torch.Tensor)]

    def pick(self, condition=lambda t: True):
        # Where a size is 1, squeeze() leaves fewer dimensions: such a value is only returned.
        names = [n for n in self.live() if condition(self.t(n)) and len({own[n].dim() for own in self.runs.own}) == 1]
        if not names:
            raise Retry
        return self.r.choices(names, [(1 + i) * (3 if n.startswith("v") else 1) for i, n in enumerate(names)])[0]  # rather what is new, and computed

    def floating(self, least=0, most=9):
        return self.pick(lambda t: t.dtype in FLOATS and least <= t.dim() <= most)

    def ranked(self, least=1, most=9):
        return self.pick(lambda t: least <= t.dim() <= most)

    def new(self):
        self.count += 1
        return f"v{self.count}"

    def value(self, text, kind=exact, needs=()):
        return Statement(f"{self.new()} = {text}", kind, "", tuple(needs))

    def dim(self, name):
        rank = self.t(name).dim()
        if rank == 0:
            raise Retry
        return self.r.randrange(-rank, rank)

    def dims(self, name):
        rank = self.t(name).dim()
        chosen = sorted(self.r.sample(range(rank), self.r.randint(min(rank, 1), rank)))
        return [d - rank if self.r.random() < 0.3 else d for d in chosen]

    def any_dtype(self):
        return self.r.choice([self.dtype] * 4 + [torch.float32] * 3 + [torch.float64, torch.float16, torch.bfloat16, torch.int64, torch.int64,
                                                                       torch.int32, torch.int16, torch.int8, torch.uint8, torch.bool])

    def shape(self, rank=None):
        r = self.r
        rank = r.choice([0, 1, 1, 2, 2, 2, 3, 3, 3, 4, 4, 5]) if rank is None else rank
        if self.dynamic:
            rank = max(rank, 1)
        most = r.choice([300, 2000, 2000, LARGEST // 2])
        shape = []
        for _ in range(rank):
            fit = [s for s in SIZES if s * math.prod(shape) <= most]
            shape.append(0 if r.random() < 0.015 else r.choice(fit))
        r.shuffle(shape)
        if self.dynamic:
            for symbol in self.program.sizes[0]:
                if r.random() < 0.8:
                    shape[r.randrange(rank)] = symbol
            shape = [s if isinstance(s, str) else min(s, 17) for s in shape]
        return shape

    def size_text(self, name, dim):
        """The size of a dimension as a leaf can have it: a number, the name of a size, or 1."""
        sizes = [own[name].shape[dim] for own in self.runs.own]
        for symbol in self.program.sizes[0]:
            if sizes == [s[symbol] for s in self.program.sizes]:
                return symbol
        return sizes[0] if len(set(sizes)) == 1 else 1

    def shape_of(self, name):
        return [self.size_text(name, d) for d in range(self.t(name).dim())]

    def leaf(self, shape, dtype=None, values=None):
        """The name of a new input, buffer or parameter."""
        r, dtype = self.r, dtype or self.any_dtype()
        text, number = ", ".join(str(s) for s in shape) + ("," if len(shape) == 1 else ""), r.randrange(10**6)
        transposed = len(shape) > 1 and r.random() < 0.1
        if transposed:
            text = ", ".join(str(s) for s in (*shape[:-2], shape[-1], shape[-2]))
        text, tail = f"({text}), generator=seeded({number})", f".to({dtype})"
        if values:
            made = f"torch.randint({values[0]}, {values[1]}, {text}){tail}"
        elif dtype == torch.bool:
            made = f"torch.randint(0, 2, {text}){tail}"
        elif dtype in INTEGERS:
            most = r.choice([4, 10, 100, 127])
            made = f"torch.randint({0 if dtype == torch.uint8 else -most}, {most + 1}, {text}){tail}"
        elif self.special and r.random() < 0.5:
            inf = 'float("inf")'
            made = f'torch.tensor([0.0, -0.0, 1.0, -2.5, {inf}, -{inf}, float("nan"), 0.5])[torch.randint(0, 8, {text})]{tail}'
        else:
            made = r.choice([f"(torch.randint(-16, 17, {text}) / 4){tail}", f"torch.randn({text}){tail}", f"torch.randn({text}){tail}",
                             f"torch.rand({text}){tail}"])
        if transposed:
            made += ".transpose(-1, -2)"
        static = not any(isinstance(s, str) for s in shape)
        kind = r.choices(["argument", "buffer", "parameter"], [70, 15, 15 if dtype in FLOATS else 0])[0] if static and self.program.leaves else "argument"
        leaf = Leaf(f"{kind[0]}{len(self.program.leaves)}", kind, made, list(shape))
        self.program.leaves.append(leaf)
        self.runs.add(leaf)
        return leaf.name

    def scalar(self, dtype, nonzero=False):
        r = self.r
        if dtype in FLOATS and r.random() < 0.8:
            number = r.choice([0.5, 2.0, -1.5, 0.25, 3.0, 0.1, -0.7, 1.0])
        elif dtype == torch.uint8:
            number = r.choice([1, 2, 3, 7])
        else:
            number = r.choice([1, 2, 3, -1, -3, 7])
        return str(number if nonzero or r.random() < 0.95 else 0)

    def operand(self, x, dtypes=None, tensor=False):
        """Something that broadcasts with x."""
        r, shape = self.r, self.t(x).shape
        choice = r.random()
        if choice < 0.25 and not tensor:
            return self.scalar(self.t(x).dtype)
        if choice < 0.7:
            def fits(t):
                try:
                    return (dtypes is None or t.dtype in dtypes) and math.prod(torch.broadcast_shapes(t.shape, shape)) <= LARGEST
                except RuntimeError:
                    return False
            return self.pick(fits)
        sizes = [1 if r.random() < 0.25 else s for s in self.shape_of(x)]
        sizes = sizes[r.choice([0, 0, 0, 1]):] if r.random() < 0.8 else [r.choice([2, 3]), *sizes]
        if dtypes is None:
            return self.leaf(sizes, self.t(x).dtype if r.random() < 0.6 else None)
        return self.leaf(sizes, self.t(x).dtype if self.t(x).dtype in dtypes else r.choice(sorted(dtypes, key=str)))

    def same_shape(self, x, dtype=None):
        """A tensor of x's shape."""
        shape, dtype = self.t(x).shape, dtype or self.t(x).dtype
        if self.r.random() < 0.5:
            try:
                return self.pick(lambda t: t.shape == shape and t.dtype == dtype)
            except Retry:
                pass
        return self.leaf(self.shape_of(x), dtype)

    def index(self, shape, x, dim):
        """An index tensor into a dimension of x, whatever its size."""
        below = min(own[x].shape[dim] for own in self.runs.own)
        if below == 0:
            raise Retry
        return self.leaf(shape, torch.int64, (0, below))

    def writable(self, condition=lambda t: True):
        frozen = {self.t(leaf.name).untyped_storage().data_ptr() for leaf in self.program.leaves if leaf.kind == "parameter"}
        return self.pick(lambda t: condition(t) and t.numel() > 0 and torch._debug_has_internal_overlap(t) == 0 and
                         t.untyped_storage().data_ptr() not in frozen)

    def apart(self, x, y):
        """The condition that y is x, or lies in other memory."""
        if y not in self.live():
            return []
        return [f"{x} is {y} or {x}.untyped_storage().data_ptr() != {y}.untyped_storage().data_ptr()"]


def valid(program):
    """Whether a program cut down still means something."""
    with torch.no_grad():
        try:
            runs = Runs(program)
            return runs.reset() and runs.comparable(program.results)
        except Exception:
            return False
