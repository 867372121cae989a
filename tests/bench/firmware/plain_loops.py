"""Writes a network as the C that one writes by hand without thinking of speed: a function with nested loops for each layer.

It is what the compiled network is compared with. In its favour, batch norms are folded into the weights, ReLUs and padding
are part of the layers before and after them, and sizes are constants. Data lie as in PyTorch (channels, rows, columns).
Whether a tap of a convolution lies within the image is asked at each tap, as TensorFlow Lite Micro's reference kernels do.
"""
import operator

import numpy
import torch

CONVOLUTION = """
static __attribute__((noinline)) void {name}(const float* restrict x, float* restrict y) {{  // {note}
  for (int o = 0; o < {outputs}; ++o)
    for (int row = 0; row < {out_rows}; ++row)
      for (int column = 0; column < {out_columns}; ++column) {{
        float sum = {name}_bias[o];
        for (int i = 0; i < {inputs}; ++i)
          for (int r = 0; r < {kernel_rows}; ++r) {{
            const int from_row = row * {stride_rows} + r - {pad_rows};
            if (from_row < 0 || from_row >= {in_rows}) continue;
            for (int c = 0; c < {kernel_columns}; ++c) {{
              const int from_column = column * {stride_columns} + c - {pad_columns};
              if (from_column < 0 || from_column >= {in_columns}) continue;
              sum += x[((o / {outputs_per_group} * {inputs} + i) * {in_rows} + from_row) * {in_columns} + from_column] *
                     {name}_weight[((o * {inputs} + i) * {kernel_rows} + r) * {kernel_columns} + c];
            }}
          }}
        y[(o * {out_rows} + row) * {out_columns} + column] = {result};
      }}
}}
"""

DENSE = """
static __attribute__((noinline)) void {name}(const float* restrict x, float* restrict y) {{  // {note}
  for (int o = 0; o < {outputs}; ++o) {{
    float sum = {name}_bias[o];
    for (int i = 0; i < {inputs}; ++i) sum += x[i] * {name}_weight[o * {inputs} + i];
    y[o] = {result};
  }}
}}
"""

MEAN = """
static __attribute__((noinline)) void {name}(const float* restrict x, float* restrict y) {{  // {note}
  for (int o = 0; o < {outputs}; ++o) {{
    float sum = 0;
    for (int i = 0; i < {size}; ++i) sum += x[o * {size} + i];
    y[o] = sum / {size};
  }}
}}
"""

ADD = """
static __attribute__((noinline)) void {name}(const float* restrict x, const float* restrict z, float* restrict y) {{  // {note}
  for (int i = 0; i < {size}; ++i) {{
    const float sum = x[i] + z[i];
    y[i] = {result};
  }}
}}
"""

SOFTMAX = """
static __attribute__((noinline)) void {name}(const float* restrict x, float* restrict y) {{  // {note}
  float largest = x[0], total = 0;
  for (int i = 1; i < {size}; ++i) largest = x[i] > largest ? x[i] : largest;
  for (int i = 0; i < {size}; ++i) total += y[i] = exponential(x[i] - largest);
  for (int i = 0; i < {size}; ++i) y[i] /= total;
}}
"""

EXPONENTIAL = """
static float exponential(float x) {  // of x <= 0: 2^n times a polynomial of the rest
  if (x < -87) return 0;
  const int n = (int)(x * 1.44269504f - 0.5f);
  const float r = (x - (float)n * 0.693145752f) - (float)n * 1.42860677e-6f;
  const union { int bits; float value; } power = {.bits = (n + 127) << 23};
  return power.value * (1 + r * (1 + r * (0.5f + r * (0.166666657f + r * (0.0416665240f + r * (0.00836080058f + r * 0.00139335233f))))));
}
"""


class Layer:
    """One C function: its name, what it reads and the graph node whose value it writes."""

    def __init__(self, name, note, template, reads, node, **sizes):
        self.name, self.note, self.template, self.reads, self.node, self.sizes = name, note, template, reads, node, sizes
        self.weight = self.bias = None
        self.relu = False

    def text(self):
        arrays = "".join(f"static const float {self.name}_{kind}[{values.size}] = {{{numbers(values)}}};\n"
                         for kind, values in (("weight", self.weight), ("bias", self.bias)) if values is not None)
        result = "sum > 0 ? sum : 0" if self.relu else "sum"
        return arrays + self.template.format(name=self.name, note=self.note, result=result, **self.sizes)


def numbers(values):
    return ",".join(float(v).hex() + "f" for v in numpy.asarray(values, dtype=numpy.float32).flat)


def size(node):
    return node.meta["val"].numel()


def pair(value):
    return (value, value) if isinstance(value, int) else tuple(value) * (2 // len(value))


def layers_of(program):
    """The layers of an exported program in order, and (node, layer) of the values that need memory."""
    signature = program.graph_signature
    held = {**signature.inputs_to_parameters, **signature.inputs_to_buffers}

    def constant(node):
        return None if node is None else program.state_dict[held[node.name]].double().numpy()

    layers, value, padding = [], {}, {}     # value: which node's memory holds what a node computes

    def add(node, kind, template, reads, **sizes):
        layer = Layer(f"layer_{len(layers)}", f"{kind} {node.name}", template, [value[r] for r in reads], node, **sizes)
        layers.append(layer)
        value[node] = node
        return layer

    def last(node):
        assert layers[-1].node is value[node], f"{node} is not computed by the last layer"
        return layers[-1]

    for node in program.graph.nodes:
        if node.op == "placeholder" and node.name in signature.user_inputs:
            value[node] = node
        if node.op != "call_function":
            continue
        kind, arguments = node.target.__name__.split(".")[0], list(node.args)
        if kind == "pad":
            value[node] = value[arguments[0]]
            left, _, top, _ = arguments[1]
            padding[node] = (top, left)
        elif kind == "conv2d":
            x, weight, bias, stride, pad, dilation, groups = (*arguments, *[None, 1, 0, 1, 1][len(arguments) - 2:])
            assert pair(dilation) == (1, 1)
            weight, bias = constant(weight), constant(bias)
            source = value[x]
            before, pad = padding.get(x, (0, 0)), pair(pad)
            layer = add(node, "convolution", CONVOLUTION, [x], outputs=weight.shape[0], inputs=weight.shape[1],
                        outputs_per_group=weight.shape[0] // groups, kernel_rows=weight.shape[2], kernel_columns=weight.shape[3],
                        in_rows=source.meta["val"].shape[2], in_columns=source.meta["val"].shape[3],
                        out_rows=node.meta["val"].shape[2], out_columns=node.meta["val"].shape[3],
                        stride_rows=pair(stride)[0], stride_columns=pair(stride)[1],
                        pad_rows=before[0] + pad[0], pad_columns=before[1] + pad[1])
            layer.weight, layer.bias = weight, numpy.zeros(weight.shape[0]) if bias is None else bias
        elif kind == "linear":
            layer = add(node, "dense", DENSE, arguments[:1], outputs=size(node), inputs=size(arguments[0]))
            layer.weight, layer.bias = constant(arguments[1]), constant(arguments[2])
        elif kind == "batch_norm":
            layer = last(arguments[0])
            gamma, beta, mean, variance = map(constant, arguments[1:5])
            scale = gamma / numpy.sqrt(variance + arguments[7])
            layer.weight = layer.weight * scale.reshape(-1, *[1] * (layer.weight.ndim - 1))
            layer.bias = (layer.bias - mean) * scale + beta
            value[node] = value[arguments[0]]
        elif kind == "relu":
            last(arguments[0]).relu = True
            value[node] = value[arguments[0]]
        elif kind in ("adaptive_avg_pool2d", "mean"):
            add(node, "mean", MEAN, arguments[:1], outputs=size(node), size=size(arguments[0]) // size(node))
        elif kind == "add":
            add(node, "sum", ADD, arguments[:2], size=size(node))
        elif kind == "softmax":
            add(node, "softmax", SOFTMAX, arguments[:1], size=size(node))
        elif kind == "flatten" or node.target is operator.getitem:
            value[node] = value[arguments[0]]
        else:
            raise SystemExit(f"plain_loops.py knows no {node.target}")
    return layers


def places(layers, result):
    """Which of a few buffers each layer's value lies in, and how many elements those hold."""
    last_use = {}
    for step, layer in enumerate(layers):
        for read in layer.reads:
            last_use[read] = step
    buffers, place = [], {}
    for step, layer in enumerate(layers):
        if layer.node is not result:
            busy = {place[node] for node, end in last_use.items() if node in place and end >= step}
            free = next((b for b in range(len(buffers)) if b not in busy), len(buffers))
            if free == len(buffers):
                buffers.append(0)
            buffers[free] = max(buffers[free], size(layer.node))
            place[layer.node] = free
    return place, buffers


def write(program, folder, name="network"):
    """Writes NAME.c and NAME.h, with the interface that `nacre compile --emit static` gives a network."""
    layers = layers_of(program)
    result = layers[-1].node
    place, buffers = places(layers, result)
    inputs = [n for n in program.graph.nodes if n.name in program.graph_signature.user_inputs]
    offsets = numpy.cumsum([0, *buffers]).tolist()

    def memory(node):
        if node is result:
            return "output"
        return node.name if node in inputs else f"memory + {offsets[place[node]]}"

    calls = "".join(f"  {layer.name}({', '.join(memory(n) for n in [*layer.reads, layer.node])});\n" for layer in layers)
    upper = name.upper()
    signature = f"int {name}_run(void* arena, const float* {inputs[0].name}, float* output)"
    (folder / f"{name}.h").write_text(f"""#pragma once
#define {upper}_ALIGNMENT 8
#define {upper}_ARENA_BYTES {4 * offsets[-1]}
#define {upper}_STATE_BYTES 0
#define {upper}_STACK_BYTES 1024  // a guess
{signature};
""")
    (folder / f"{name}.c").write_text(f'#include "{name}.h"\n{EXPONENTIAL}' + "".join(layer.text() for layer in layers) + f"""
{signature} {{
  float* memory = arena;
{calls}  return 0;
}}
""")
    return layers
