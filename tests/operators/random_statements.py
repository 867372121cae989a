"""The statements of random programs: for each kind of operator, how its operands are chosen.

A function here takes a random_programs.Maker and gives a statement. What PyTorch leaves undefined must not be asked for: writing twice
to one element, casts out of range, the order of equal elements. What PyTorch refuses may be: such a statement is not taken.
"""
import torch

from random_programs import FLOATS, INTEGERS, Maker, Retry, Statement, exact, rounds, sums

TABLE = []  # (weight, function)


def weight(number):
    def add(function):
        TABLE.append((number, function))
        return function
    return add


def generate(name):
    """The program of a name: always the same."""
    attempt = name
    with torch.no_grad():
        while True:
            maker = Maker(attempt)
            program = maker.make(TABLE)
            program.name = name
            if program.statements and maker.runs.comparable(maker.live()):
                return program
            attempt += "'"


# ---------------------------------------------------------------- pointwise

FLOAT_FUNCTIONS = [
    "torch.exp({})", "torch.exp(-{}.abs())", "torch.sin({})", "torch.cos({})", "torch.tan({})", "torch.tanh({})", "torch.sigmoid({})", "torch.erf({})",
    "torch.erfc({})", "torch.log1p({}.abs())", "torch.log({}.abs() + 0.5)", "torch.log2({}.abs() + 1)", "torch.log10({}.abs() + 1)",
    "torch.sqrt({}.abs())", "torch.rsqrt({}.abs() + 0.5)", "torch.expm1({})", "torch.exp2({})", "torch.atan({})", "torch.asin({}.clamp(-1, 1))",
    "torch.acos({}.clamp(-1, 1))", "torch.sinh({})", "torch.cosh({})", "torch.asinh({})", "torch.acosh({}.abs() + 1)", "torch.atanh({}.clamp(-0.9, 0.9))",
    "torch.reciprocal({})", "torch.lgamma({})", "torch.digamma({}.abs() + 0.5)", "torch.erfinv({}.clamp(-0.9, 0.9))", "torch.sinc({})",
    "torch.logit({}, eps=0.1)", "torch.deg2rad({})", "torch.rad2deg({})", "torch.square({})", "torch.nn.functional.gelu({})",
    "F.gelu({}, approximate='tanh')", "F.silu({})", "F.softplus({})", "F.softplus({}, beta=2, threshold=3)", "F.elu({})", "F.elu({}, alpha=0.3)",
    "F.leaky_relu({}, 0.1)", "F.hardswish({})", "F.hardsigmoid({})", "F.mish({})", "F.selu({})", "F.celu({}, 0.7)", "F.logsigmoid({})", "F.softsign({})",
    "F.tanhshrink({})", "torch.special.entr({})", "torch.special.ndtr({})", "torch.i0({})", "torch.special.log_ndtr({})"]
EXACT_FUNCTIONS = [
    "torch.neg({})", "{}.abs()", "torch.sign({})", "torch.relu({})", "F.relu6({})", "F.hardtanh({})", "torch.positive({})", "{} * 1", "{}.clone()",
    "{}.contiguous()", "torch.zeros_like({})", "torch.ones_like({})", "torch.full_like({}, 3)", "F.threshold({}, 0.5, 2.0)", "F.softshrink({}, 0.25)",
    "F.hardshrink({})"]
STEPS = ["torch.floor({})", "torch.ceil({})", "torch.round({})", "torch.trunc({})", "torch.frac({})", "torch.isnan({})", "torch.isinf({})",
         "torch.isfinite({})", "torch.signbit({})", "torch.nan_to_num({}, 0.5, 10.0, -10.0)", "{}.bool()", "torch.logical_not({})", "torch.sgn({})",
         "torch.round({}, decimals=1)", "torch.isposinf({})"]


@weight(10)
def float_function(m):
    text = m.r.choice(FLOAT_FUNCTIONS)
    x = m.floating() if m.r.random() < 0.9 else m.pick()
    return m.value(text.format(x), rounds)


@weight(4)
def exact_function(m):
    return m.value(m.r.choice(EXACT_FUNCTIONS).format(m.pick()), rounds)


@weight(3)
def step(m):
    text = m.r.choice(STEPS)
    x = m.floating() if m.r.random() < 0.8 else m.pick()
    return m.value(text.format(x), rounds, [f"not {x}.isnan().any()"] if "signbit" in text else [])


@weight(16)
def arithmetic(m):
    x = m.pick()
    y = m.operand(x)
    text = m.r.choice(["{x} + {y}", "{x} - {y}", "{x} * {y}", "{y} - {x}", "torch.add({x}, {y}, alpha=2)", "torch.sub({x}, {y}, alpha=3)",
                       "torch.maximum({x}, {t})", "torch.minimum({x}, {t})", "torch.fmax({x}, {t})", "torch.fmin({x}, {t})", "torch.rsub({x}, {y})"])
    if "{t}" in text:
        text = text.replace("{t}", m.operand(x, tensor=True))
    return m.value(text.format(x=x, y=y), rounds)


def divisor(m, x):
    """An operand that is nowhere zero; integers are not divided by zero, nor the least of them by -1."""
    if m.r.random() < 0.5:
        return m.scalar(m.t(x).dtype, nonzero=True), []
    y = m.operand(x, tensor=True)
    return y, [f"({y} != 0).all()"]


@weight(7)
def division(m):
    x = m.pick(lambda t: t.dtype != torch.bool)
    y, needs = divisor(m, x)
    if m.r.random() < 0.4 and needs:
        y, needs = f"torch.where({y} == 0, 3, {y})", []
    text = m.r.choice(["{x} / {y}", "{x} / {y}", "{x} // {y}", "torch.remainder({x}, {y})", "torch.fmod({x}, {y})", "torch.div({x}, {y}, rounding_mode='trunc')",
                       "torch.div({x}, {y}, rounding_mode='floor')", "{x} % {y}"])
    if m.t(x).dtype in FLOATS and m.r.random() < 0.2:
        needs = []
    return m.value(text.format(x=x, y=y), rounds, needs)


@weight(4)
def two_floats(m):
    x = m.floating()
    y = m.operand(x, FLOATS, tensor=True)
    text = m.r.choice(["torch.atan2({x}, {y})", "torch.hypot({x}, {y})", "torch.logaddexp({x}, {y})", "torch.copysign({x}, {y})", "torch.pow({x}.abs() + 0.25, {y})",
                       "torch.pow({x}, 2)", "torch.pow({x}, 3)", "torch.pow({x}.abs() + 0.5, -0.5)", "torch.lerp({x}, {y}, 0.3)", "torch.xlogy({x}, {y}.abs() + 0.5)",
                       "torch.ldexp({x}, {y}.floor())", "torch.heaviside({x}, {y})", "torch.pow(2, {x})", "torch.logaddexp2({x}, {y})",
                       "torch.special.xlog1py({x}, {y}.abs())", "torch.float_power({x}.abs() + 0.25, {y})"])
    needs = [f"not {y}.isnan().any()"] if "copysign" in text else []
    if "logaddexp2" in text:  # of -1 and -1 it is 0, or what a multiplication that PyTorch's compiler fused rounds otherwise
        needs = [f"not (torch.logaddexp2({x}, {y}).abs() < 1e-3).any()"]
    return m.value(text.format(x=x, y=y), rounds, needs)


@weight(4)
def three_operands(m):
    x = m.pick()
    y, z = m.operand(x, tensor=True), m.operand(x, tensor=True)
    text = m.r.choice(["torch.addcmul({x}, {y}, {z}, value=2)", "torch.addcdiv({x}, {y}, {z}.abs() + 1)", "torch.lerp({x}, {y}, {z})", "torch.clamp({x}, {y}, {z})",
                       "{x} * {y} + {z}", "torch.clamp({x}, max={y})"])
    return m.value(text.format(x=x, y=y, z=z), rounds)


@weight(5)
def comparison(m):
    x = m.pick()
    y = m.operand(x)
    if m.r.random() < 0.15:
        text = m.r.choice(["torch.logical_and", "torch.logical_or", "torch.logical_xor"])
        return m.value(f"{text}({x}, {m.operand(x, tensor=True)})")
    return m.value(f"{x} {m.r.choice(['<', '<=', '>', '>=', '==', '!='])} {y}")


@weight(6)
def where(m):
    x = m.pick()
    condition = m.operand(x, {torch.bool}, tensor=True)
    y = m.operand(x)
    if m.r.random() < 0.3:
        return m.value(f"{x}.masked_fill({condition}, {m.scalar(m.t(x).dtype)})")
    return m.value(f"torch.where({condition}, {x}, {y})" if m.r.random() < 0.5 else f"torch.where({condition}, {y}, {x})", rounds)


@weight(3)
def clamp(m):
    x = m.pick()
    return m.value(m.r.choice([f"{x}.clamp(-1, 2)", f"{x}.clamp(min=0)", f"{x}.clamp(max=1.5)", f"{x}.clamp(min=0.25)", f"{x}.clamp(3, 1)"]), rounds)


@weight(5)
def integers(m):
    x = m.pick(lambda t: t.dtype in INTEGERS or t.dtype == torch.bool)
    y = m.operand(x, INTEGERS | {torch.bool}, tensor=True)
    text = m.r.choice(["{x} & {y}", "{x} | {y}", "{x} ^ {y}", "~{x}", "{x} << ({y} & 7)", "{x} >> ({y} & 7)", "torch.gcd({x}, {y})", "torch.lcm({x}, {y})",
                       "torch.pow({x}, 2)", "{x} & 5", "{x} << 2", "{x} >> 1", "torch.pow({x}, {y} & 3)", "{x} * {x}", "torch.bitwise_not({x})"])
    if m.t(x).dtype == torch.bool and ("<<" in text or ">>" in text):
        raise Retry  # eager shifts conditions, torch.export does not
    return m.value(text.format(x=x, y=y))


@weight(7)
def cast(m):
    x, dtype = m.pick(), m.any_dtype()
    needs = []
    if m.t(x).dtype in FLOATS and dtype not in FLOATS | {torch.bool}:
        info = torch.iinfo(dtype)
        most = min(info.max, 2**24)
        needs = [f"{x}.isfinite().all() and ({x}.numel() == 0 or {max(info.min, -most)} <= {x}.amin() and {x}.amax() <= {most})"]
    return m.value(m.r.choice([f"{x}.to({dtype})", f"{x}.type({dtype})"]), rounds, needs)


# ---------------------------------------------------------------- reductions

@weight(9)
def reduce(m):
    x = m.pick()
    text = m.r.choice(["torch.sum({x}, {d}{k})", "torch.mean({x}, {d}{k})", "torch.amax({x}, {d}{k})", "torch.amin({x}, {d}{k})", "{x}.sum()", "{x}.mean()",
                       "{x}.amax()", "torch.var({x}, {d}{k})", "torch.std({x}, {d}, correction=0{k})", "torch.logsumexp({x}, {d}{k})",
                       "torch.any({x}, {one}{k})", "torch.all({x}, {one}{k})", "torch.prod({x}, {one}{k})", "torch.argmax({x}, {one}{k})",
                       "torch.argmin({x}, {one}{k})", "{x}.argmax()", "{x}.any()", "{x}.all()", "{x}.max()", "{x}.min()", "{x}.var()", "torch.linalg.vector_norm({x}, 2, {d}{k})",
                       "torch.linalg.vector_norm({x}, 1, {d}{k})", "torch.count_nonzero({x}, {d})", "torch.nansum({x}, {d}{k})", "{x}.sum({d}, dtype=torch.float32)",
                       "{x}.sum({d}, dtype=torch.int64)", "torch.max({x}, {one}{k}).values", "torch.min({x}, {one}{k}).values", "torch.median({x}, {one}{k}).values",
                       "torch.linalg.vector_norm({x}, float('inf'), {d}{k})", "{x}.sum({one})", "{x}.mean({one})", "torch.var_mean({x}, {d}{k})[0]"])
    if "{one}" in text and m.t(x).dim() == 0:
        raise Retry
    one = m.dim(x) if m.t(x).dim() else 0
    needs = [f"{x}.dtype not in (torch.float32, torch.float64, torch.float16, torch.bfloat16)"] if "int64" in text else []
    return m.value(text.format(x=x, d=m.dims(x), one=one, k=m.r.choice(["", "", ", keepdim=True"])), sums, needs)


@weight(5)
def along(m):
    x = m.ranked()
    d = m.dim(x)
    text = m.r.choice(["torch.cumsum({x}, {d})", "torch.cumprod({x}, {d})", "F.softmax({x}, {d})", "F.log_softmax({x}, {d})", "torch.cummax({x}, {d}).values",
                       "torch.cummin({x}, {d}).values", "torch.logcumsumexp({x}, {d})", "torch.diff({x}, dim={d})", "F.normalize({x}, dim={d})",
                       "F.softmin({x}, {d})", "torch.cumsum({x}, {d}, dtype=torch.float32)", "F.glu({x}, {d})", "torch.renorm({x}, 2, {d}, 1.0)"])
    return m.value(text.format(x=x, d=d), sums)


@weight(4)
def normalize(m):
    x = m.floating(1)
    shape, dtype = m.shape_of(x), m.t(x).dtype
    kind = m.r.choice(["layer", "layer", "rms", "batch", "group"])
    if kind in ("layer", "rms"):
        last = m.r.randint(1, len(shape))
        sizes = f"{x}.shape[-{last}:]"
        affine = ""
        if m.r.random() < 0.6:
            affine = f", {m.leaf(shape[-last:], dtype)}"
            if kind == "layer":
                affine += f", {m.leaf(shape[-last:], dtype)}"
        return m.value(f"F.{kind}_norm({x}, {sizes}{affine})", sums)
    if len(shape) < 2:
        raise Retry
    channels = shape[1]
    if kind == "group":
        if not isinstance(channels, int):
            raise Retry
        return m.value(f"F.group_norm({x}, {m.r.choice([g for g in (1, 2, 3, 4) if channels % g == 0])})", sums)
    mean, deviation = m.leaf([channels], dtype), m.leaf([channels], dtype)
    return m.value(f"F.batch_norm({x}, {mean}, {deviation}.abs() + 0.5, training=False)", sums)


# ---------------------------------------------------------------- views

def view_text(m, x):
    r, shape = m.r, m.t(x).shape
    rank = len(shape)
    kind = r.choice(["transpose", "permute", "reshape", "flatten", "expand", "slice", "slice", "slice", "select", "unsqueeze", "squeeze", "flip", "narrow", "unfold",
                     "as_strided", "diagonal", "movedim", "unflatten", "index", "view_as", "roll", "tile", "chunk", "split", "unbind", "t", "broadcast_to"])
    if kind == "unsqueeze":
        return f"{x}.unsqueeze({r.randint(-rank - 1, rank)})"
    if kind == "squeeze":
        return r.choice([f"{x}.squeeze()", f"{x}.squeeze({m.dim(x)})"]) if rank else f"{x}.squeeze()"
    if kind == "flatten":
        return r.choice([f"{x}.flatten()", f"{x}.flatten(1)", f"{x}.flatten(0, 1)", f"{x}.reshape(-1)"])
    if kind == "expand":
        return f"{x}.expand({r.choice([2, 3])}, {', '.join(['-1'] * rank)})" if rank else f"{x}.expand(3)"
    if kind == "view_as":
        return f"{x}.reshape({m.pick(lambda t: t.numel() == m.t(x).numel())}.shape)"
    if rank == 0:
        raise Retry
    d = m.dim(x)
    size = shape[d]
    if kind == "broadcast_to":
        y = m.pick(lambda t: t.dim() >= rank and t.shape != shape)
        return f"{x}.expand_as({y})"
    if kind == "transpose":
        return f"{x}.transpose({d}, {m.dim(x)})"
    if kind == "permute":
        return f"{x}.permute({r.sample(range(rank), rank)})"
    if kind == "movedim":
        return f"{x}.movedim({d}, {m.dim(x)})"
    if kind == "flip":
        return f"{x}.flip({m.dims(x)})"
    if kind == "roll":
        return f"{x}.roll({r.choice([1, -1, 2, 5])}, {d})"
    if kind == "tile":
        return r.choice([f"{x}.repeat({', '.join(['2'] + ['1'] * (rank - 1))})", f"{x}.repeat_interleave(2, {d})", f"{x}.tile(2)"])
    if kind == "t":
        return f"{x}.mT"
    if kind == "reshape":
        numbers = list(shape)
        r.shuffle(numbers)
        numbers[r.randrange(rank)] = -1
        return r.choice([f"{x}.reshape({numbers})", f"{x}.reshape({x}.shape[0], -1)", f"{x}.reshape(-1, {x}.shape[-1])", f"{x}.reshape(1, -1, 1)"])
    if kind == "unflatten":
        factor = r.choice([f for f in (1, 2, 3, 4, 5, 8) if size % f == 0])
        return f"{x}.unflatten({d}, {r.choice([(factor, -1), (-1, factor)])})"
    if kind == "narrow":
        start = r.randint(0, size)
        return f"{x}.narrow({d}, {start}, {r.randint(0 if r.random() < 0.1 else min(1, size - start), size - start)})"
    if kind == "unfold":
        window = r.randint(1, min(size, 5)) if size else 1
        return f"{x}.unfold({d}, {window}, {r.randint(1, 3)})"
    if kind == "diagonal":
        return f"{x}.diagonal({r.choice([0, 0, 1, -1])})"
    if kind == "as_strided":
        if r.random() < 0.7:
            raise Retry
        rows, columns = r.randint(1, 4), r.randint(1, 5)
        return f"{x}.as_strided(({rows}, {columns}), ({r.randint(1, 4)}, {r.randint(1, 2)}), {r.randint(0, 2)})"
    if kind == "select":
        return f"{x}.select({d}, {r.randrange(-size, size) if size else 0})"
    if kind == "chunk":
        return f"{x}.chunk({r.choice([2, 3])}, {d})[{r.choice([0, 1, -1])}]"
    if kind == "split":
        return f"{x}.split({r.randint(1, max(1, size))}, {d})[{r.choice([0, 1, -1])}]"
    if kind == "unbind":
        return f"{x}.unbind({d})[{r.choice([0, -1])}]"
    parts = []
    for s in shape[:r.randint(1, rank)]:
        parts.append(r.choice([":", ":", "::2", "1:", ":-1", "::3", "1::2", "-2:", f":{r.randint(1, max(1, s))}", f"{r.randint(0, s)}:",
                               *(["0", "-1", "None"] if kind == "index" else [])]))
    if r.random() < 0.2:
        parts.insert(0, "...")
    return f"{x}[{', '.join(parts)}]"


@weight(16)
def view(m):
    return m.value(view_text(m, m.pick()))


@weight(3)
def several_views(m):
    x = m.ranked()
    d = m.dim(x)
    size = m.t(x).shape[d]
    text = m.r.choice([f"{x}.chunk(2, {d})", f"torch.tensor_split({x}, 2, {d})"] +
                      [f"{x}.split([{size - size // 3}, {size // 3}], {d})", f"torch.aminmax({x}, dim={d})", f"torch.frexp({x})"])
    return Statement(f"{m.new()}, {m.new()} = {text}", exact)


# ---------------------------------------------------------------- in place

def storable(m, x):
    """What may be written into x, and the conditions: it lies elsewhere and has a dtype that can be cast."""
    y = m.operand(x)
    return y, [*m.apart(x, y), f"torch.can_cast(torch.result_type({x}, {y}), {x}.dtype)"]


@weight(13)
def in_place(m):
    x = m.writable()
    dtype, r = m.t(x).dtype, m.r
    y, needs = storable(m, x)
    text = r.choice(["{x}.add_({y})", "{x}.mul_({y})", "{x}.sub_({y})", "{x}.copy_({t})", "{x}.fill_({s})", "{x}.zero_()", "{x}.masked_fill_({c}, {s})", "{x}.neg_()",
                     "{x}.clamp_(-1, 1)", "{x}.relu_()", "{x}.add_({y}, alpha=2)", "{x}.abs_()", "{x} += {y}", "{x} *= {y}"] +
                    (["{x}.div_({s})", "{x}.sigmoid_()", "{x}.exp_()", "{x}.tanh_()", "{x}.sin_()", "{x}.addcmul_({t}, {t})", "{x}.lerp_({f}, 0.25)", "{x}.sqrt_()", "{x}.floor_()"]
                     if dtype in FLOATS else ["{x}.bitwise_and_({x})", "{x}.logical_not_()", "{x}.remainder_({s})", "{x}.bitwise_xor_({s})"]))
    fields = {"x": x, "y": y, "s": m.scalar(dtype, nonzero=True)}
    if "{c}" in text:
        fields["c"] = m.operand(x, {torch.bool}, tensor=True)
        needs = m.apart(x, fields["c"])
    if "{t}" in text:
        fields["t"] = m.operand(x, {dtype}, tensor=True)
        needs = m.apart(x, fields["t"])
    if "{f}" in text:
        fields["f"] = m.same_shape(x)
        needs = m.apart(x, fields["f"])
    if "{y}" not in text and "{c}" not in text and "{t}" not in text and "{f}" not in text:
        needs = []
    return Statement(text.format(**fields), rounds, x, tuple(needs))


@weight(6)
def in_place_on_view(m):
    """A view of what is live, which a later statement can write to, or an assignment to it."""
    x = m.writable(lambda t: t.dim() > 0)
    text = view_text(m, x)
    if "[" not in text.removeprefix(x)[:1]:
        return m.value(text)
    y, needs = storable(m, x)
    if m.r.random() < 0.5 or not m.live().count(y):
        y, needs = m.scalar(m.t(x).dtype), []
    return Statement(f"{text} = {y}", rounds, x, tuple(needs))


@weight(4)
def indexed_write(m):
    """Into elements that are named once, or summed up in whatever order."""
    x = m.writable(lambda t: t.dim() > 0 and t.dtype != torch.bool)
    r, t = m.r, m.t(x)
    d = m.dim(x)
    shape = m.shape_of(x)
    count = r.choice([1, 2, 3, 5])
    some = list(shape)
    some[d] = count
    source, index = m.leaf(some, t.dtype), m.index([count], x, d)
    scalar = m.scalar(t.dtype)
    text = r.choice([f"{x}.index_add_({d}, {index}, {source})", f"{x}.index_fill_({d}, {index}, {scalar})", f"{x}[{index} % {x}.shape[0]] = {scalar}",
                     f"{x}.index_copy_({d}, torch.arange({count}), {source})", f"{x}.index_put_(({index} % {x}.shape[0],), torch.ones_like({x}[:1]), accumulate=True)",
                     f"{x}.scatter_add_({d}, {m.index(some, x, d)}, {source})", f"{x}[{m.operand(x, {torch.bool}, tensor=True)}] = {scalar}",
                     f"{x}[torch.arange({count})] = {scalar}", f"{x}.masked_fill_({m.operand(x, {torch.bool}, tensor=True)}, {scalar})"])
    return Statement(text, sums, x)


# ---------------------------------------------------------------- moving elements

@weight(5)
def join(m):
    x = m.pick()
    shape, r = m.t(x).shape, m.r
    if r.random() < 0.4:
        same = [m.same_shape(x) for _ in range(r.randint(1, 2))]
        return m.value(f"torch.stack([{', '.join([x, *same])}], {r.randint(-len(shape) - 1, len(shape))})")
    d = m.dim(x)
    d = d % len(shape)

    def fits(t):
        return t.dim() == len(shape) and t.shape[:d] == shape[:d] and t.shape[d + 1:] == shape[d + 1:]
    parts = [x, *(m.pick(fits) for _ in range(r.randint(0, 2)))]
    if len(parts) == 1 or r.random() < 0.5:
        sizes = m.shape_of(x)
        sizes[d] = r.choice([0, 1, 2, 3, 5, 16])
        parts.insert(r.randrange(len(parts) + 1), m.leaf(sizes))
    return m.value(f"torch.cat([{', '.join(parts)}], {d})")


@weight(6)
def gather(m):
    x = m.ranked()
    r, t, shape = m.r, m.t(x), m.shape_of(x)
    d = m.dim(x)
    count = r.choice([0, 1, 2, 3, 7, 16])
    kind = r.choice(["gather", "index_select", "index", "take_along_dim", "two", "embedding", "mask"])
    if kind == "mask":
        return m.value(f"torch.where({m.operand(x, {torch.bool}, tensor=True)}, {x}, 0)", rounds)
    if kind in ("gather", "take_along_dim"):
        some = list(shape)
        some[d] = count
        name = "gather" if kind == "gather" else "take_along_dim"
        return m.value(f"torch.{name}({x}, {'' if kind == 'gather' else m.index(some, x, d) + ', '}{d}{', ' + m.index(some, x, d) if kind == 'gather' else ''})")
    index = m.index([count], x, d)
    if kind == "index_select":
        return m.value(f"torch.index_select({x}, {d}, {index})")
    if kind == "embedding":
        if t.dim() != 2:
            raise Retry
        return m.value(f"F.embedding({m.index([count, 3], x, 0)}, {x})")
    if kind == "index":
        position = d % t.dim()
        back = r.choice(["", f" - {x}.shape[{position}]"])
        return m.value(f"{x}[{':, ' * position}{index}{back}]")
    if t.dim() < 2:
        raise Retry
    rows = [2, 1] if r.random() < 0.4 else [count]
    return m.value(f"{x}[{m.index(rows, x, 0)}, {m.index([count], x, 1)}]")


@weight(4)
def scatter(m):
    x = m.ranked()
    r, t, shape = m.r, m.t(x), m.shape_of(x)
    d = m.dim(x)
    some = list(shape)
    count = r.choice([1, 2, 3, 7])
    some[d] = count
    source, index, line = m.leaf(some, t.dtype), m.index(some, x, d), m.index([count], x, d)
    rule = r.choice(["sum", "prod", "mean", "amax", "amin"])
    own = r.choice(["", ", include_self=False"])
    return m.value(r.choice([
        f"torch.scatter_reduce({x}, {d}, {index}, {source}, '{rule}'{own})", f"torch.scatter_add({x}, {d}, {index}, {source})", f"torch.index_add({x}, {d}, {line}, {source})",
        f"torch.scatter({x}, {d}, {index}, {m.scalar(t.dtype)})", f"torch.index_reduce({x}, {d}, {line}, {source}, '{rule.replace('sum', 'prod')}'{own})",
        f"torch.scatter({x}, {d}, torch.argsort({x}, {d}, stable=True), {x})", f"torch.slice_scatter({x}, {source}, {d}, 0, {count})",
        f"torch.select_scatter({x}, {x}.select({d}, 0) * 2, {d}, -1)", f"torch.index_copy({x}, {d}, torch.arange({count}), {source})",
        f"{x}.index_put(({line} % {x}.shape[0],), {x}[:1] * 2, accumulate=True)"]), sums)


@weight(4)
def order(m):
    x = m.ranked()
    d = m.dim(x)
    size = m.t(x).shape[d]
    k = m.r.randint(1, max(1, min(size, 5)))
    distinct = [f"{x}.unique().numel() == {x}.numel()"]
    text, needs = m.r.choice([
        (f"torch.sort({x}, dim={d}, stable=True).values", []), (f"torch.sort({x}, dim={d}, stable=True, descending=True).values", []),
        (f"torch.sort({x}, stable=True, dim={d}).indices", []), (f"torch.argsort({x}, dim={d}, stable=True, descending=True)", []),
        (f"torch.topk({x}, {k}, dim={d}).values", []), (f"torch.topk({x}, {k}, dim={d}, largest=False).values", []), (f"torch.topk({x}, {k}, dim={d}).indices", distinct),
        (f"torch.sort({x}, dim={d}).indices", distinct), (f"torch.kthvalue({x}, {k}, {d}).values", []), (f"torch.msort({x})", []),
        (f"torch.searchsorted({x}.flatten().sort().values, {x})", [f"not {x}.isnan().any()"]), (f"torch.bucketize({x}, torch.tensor([-1.0, 0.0, 0.5, 2.0]))", [])])
    return m.value(text, exact, needs)


@weight(5)
def pad(m):
    x = m.ranked()
    r, rank = m.r, m.t(x).dim()
    amounts = [r.choice([0, 1, 2, 3, -1]) for _ in range(2 * r.randint(1, rank))]
    mode = r.choice(["constant"] * 4 + ["reflect", "replicate", "circular"])
    if mode != "constant":
        amounts = [abs(a) for a in amounts]
    value = f", value={m.scalar(m.t(x).dtype)}" if mode == "constant" else ""
    return m.value(r.choice([f"F.pad({x}, {amounts}, '{mode}'{value})"] * 4 + [f"torch.tril({x})", f"torch.triu({x}, 1)", f"torch.diag_embed({x})", f"torch.rot90({x})"]))


@weight(2)
def made(m):
    x = m.ranked()
    d = m.dim(x)
    dtype = m.any_dtype()
    return m.value(m.r.choice([f"torch.arange({x}.shape[{d}], dtype={dtype})", f"torch.full(({x}.shape[{d}], 2), 3, dtype={dtype})", f"torch.ones({x}.shape, dtype={dtype})",
                               f"torch.linspace(-1, 1, {x}.shape[{d}], dtype=torch.float32)", f"torch.eye({x}.shape[{d}], dtype={dtype})", f"{x}.new_zeros(3, {x}.shape[{d}])",
                               f"torch.arange(0, 2 * {x}.shape[{d}], 2)", f"{x}.new_full((2, 2), 1)", f"torch.zeros_like({x}, dtype={dtype})"]), rounds)


# ---------------------------------------------------------------- contractions and windows

@weight(5)
def product(m):
    x = m.ranked(1, 4)
    shape, dtype, r = m.shape_of(x), m.t(x).dtype, m.r
    n = r.choice([1, 2, 5, 8, 16, 17, 33])
    if len(shape) == 1:
        return m.value(r.choice([f"torch.dot({x}, {m.same_shape(x)})", f"{m.leaf([n, shape[0]], dtype)} @ {x}", f"torch.outer({x}, {m.leaf([n], dtype)})"]), sums)
    weights = m.leaf([n, shape[-1]], dtype)
    choices = [f"F.linear({x}, {weights})", f"F.linear({x}, {weights}, {m.leaf([n], dtype)})", f"{x} @ {weights}.t()", f"torch.matmul({x}, {m.leaf([shape[-1]], dtype)})",
               f"torch.matmul({x}, {x}.mT)", f"torch.einsum('...ij,kj->...ik', {x}, {weights})", f"torch.tensordot({x}, {weights}.t(), 1)"]
    if len(shape) == 2:
        choices += [f"torch.addmm({m.leaf([n], dtype)}, {x}, {weights}.t(), beta=0.5)", f"torch.mv({x}, {m.leaf([shape[-1]], dtype)})"]
    if len(shape) == 3:
        choices += [f"torch.bmm({x}, {m.leaf([shape[0], shape[2], n], dtype)})", f"torch.baddbmm({m.leaf([n], dtype)}, {x}, {m.leaf([shape[0], shape[2], n], dtype)})"]
    if len(shape) == 4 and r.random() < 0.1:
        key, values = m.same_shape(x), m.same_shape(x)
        # PyTorch's fused attention loses a score that is NaN where keys do not fill a vector, and says 0.
        return m.value(f"F.scaled_dot_product_attention({x}, {key}, {values})", sums, [f"not ({x} @ {key}.mT).isnan().any()"])
    return m.value(r.choice(choices), sums)


@weight(5)
def window(m):
    x = m.floating(2, 4)
    r, shape, t = m.r, m.shape_of(x), m.t(x)
    rank = len(shape)
    if rank == 2:
        x, shape = f"{x}.unsqueeze(0)", [1, *shape]
    space = len(shape) - 2
    kind = r.choice(["conv", "conv", "transposed", "max", "avg", "adaptive", "interpolate", "unfold"])
    kernel, stride = r.randint(1, 3), r.randint(1, 2)
    padding, dilation = r.randint(0, kernel // 2), r.choice([1, 1, 2])
    if kind in ("conv", "transposed"):
        channels = shape[1]
        if not isinstance(channels, int) or channels == 0 or channels > 33:
            raise Retry
        groups = r.choice([1, 1, channels])
        out = groups * r.randint(1, max(1, 8 // groups))
        # What is no number times the zeros around and between the inputs: some of PyTorch's kernels multiply by them, others not.
        finite = "{}.isfinite().all()"
        if kind == "conv":
            weights = m.leaf([out, channels // groups, *[kernel] * space], t.dtype)
            bias = m.leaf([out], t.dtype) if r.random() < 0.5 else "None"
            return m.value(f"F.conv{space}d({x}, {weights}, {bias}, stride={stride}, padding={padding}, dilation={dilation}, groups={groups})", sums, [finite.format(weights)])
        weights = m.leaf([channels, out // groups, *[kernel] * space], t.dtype)
        return m.value(f"F.conv_transpose{space}d({x}, {weights}, stride={stride}, padding={padding}, groups={groups})", sums, [finite.format(weights)])
    if kind == "max":
        return m.value(f"F.max_pool{space}d({x}, {kernel}, {stride}, {padding}, ceil_mode={r.random() < 0.3})")
    if kind == "avg":
        return m.value(f"F.avg_pool{space}d({x}, {kernel}, {stride}, {padding}, ceil_mode={r.random() < 0.3}, count_include_pad={r.random() < 0.5})", sums)
    if kind == "adaptive":
        return m.value(f"F.adaptive_{r.choice(['avg', 'max'])}_pool{space}d({x}, {r.choice([1, 2, 3])})", sums)
    if kind == "unfold":
        return m.value(f"F.unfold({x}, {kernel}, padding={padding}, stride={stride})") if space == 2 else m.value(f"F.pixel_shuffle({x}, 2)")
    mode = r.choice(["nearest", "linear" if space == 1 else "bilinear"])
    corners = "" if mode == "nearest" else f", align_corners={r.random() < 0.5}"
    return m.value(f"F.interpolate({x}, scale_factor=2, mode='{mode}'{corners})", sums)
