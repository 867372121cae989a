// Recurrent networks: one prim.lstm or prim.gru a layer and direction, in float32 with constant
// weights. All others, plain RNNs and LSTMs with a projection among them, are a loop over the steps.
#include <functional>

#include "compiler/graph/constants.h"
#include "compiler/graph/decompose_loops.h"
#include "compiler/graph/decompose_random.h"
#include "compiler/support/error.h"

namespace nacre {

namespace {

struct Weights {
  Tensor w_ih, w_hh, b_ih, b_hh, w_hr;  // biases and projection may be absent
};

struct Network {
  Tensor x;  // [T, B, I]
  int64_t layers, directions;
  bool batch_first;
  double dropout;                // between layers
  std::vector<Weights> weights;  // by layer, then direction
};

Network read_network(Call& c, bool projected) {
  Network n;
  n.x = c.tensor("input");
  n.layers = c.integer("num_layers");
  n.directions = c.flag("bidirectional", false) ? 2 : 1;
  n.batch_first = c.flag("batch_first", false);
  n.dropout = c.flag("train", false) ? c.real("dropout", 0) : 0;
  if (n.batch_first) n.x = transpose(n.x, 0, 1);
  bool biased = c.flag("has_biases", true);
  std::vector<Tensor> params = c.tensors("params");
  size_t each = (biased ? 4u : 2u) + (projected ? 1u : 0u);
  size_t count = static_cast<size_t>(n.layers * n.directions);
  if (params.size() != each * count) c.unsupported("an unexpected number of weights");
  for (size_t i = 0; i < count; i++) {
    const Tensor* p = &params[i * each];
    Weights w{p[0], p[1], {}, {}, {}};
    if (biased) {
      w.b_ih = p[2];
      w.b_hh = p[3];
    }
    if (projected) w.w_hr = p[each - 1];
    n.weights.push_back(w);
  }
  return n;
}

ValueId id_of(const Tensor& t) { return t ? t.id() : kNoValue; }

struct LayerResult {
  Tensor y, h, c;
};
using Layer = std::function<LayerResult(const Tensor& x, const Weights& w, const Tensor& h,
                                        const Tensor& c, bool reverse)>;

// Layers over directions: the outputs of both directions are joined and feed the next layer.
Results run(Call& call, const Network& n, const Tensor& h0, const Tensor& c0, const Layer& layer) {
  Tensor x = n.x;
  std::vector<Tensor> h, c;
  std::optional<Draws> draws;
  for (int64_t l = 0; l < n.layers; l++) {
    std::vector<Tensor> outputs;
    for (int64_t d = 0; d < n.directions; d++) {
      int64_t i = l * n.directions + d;
      Tensor c_start = c0 ? select(c0, 0, i) : Tensor();
      LayerResult r =
          layer(x, n.weights[static_cast<size_t>(i)], select(h0, 0, i), c_start, d == 1);
      outputs.push_back(r.y);
      h.push_back(r.h);
      if (r.c) c.push_back(r.c);
    }
    x = concat(outputs, -1);
    if (n.dropout == 0 || l + 1 == n.layers) continue;
    if (!draws) draws.emplace(call);
    x = dropped(*draws, x, n.dropout);
  }
  std::vector<Tensor> results{n.batch_first ? transpose(x, 0, 1) : x, stack(h, 0)};
  if (!c.empty()) results.push_back(stack(c, 0));
  return results;
}

// ---- A loop over the steps. What the input gives to the gates is one product for all of them.

using Cell = std::function<std::pair<Tensor, Tensor>(const Tensor& gates_in, const Weights& w,
                                                     const Tensor& h, const Tensor& c)>;

LayerResult stepped(Call& call, const Tensor& x, const Weights& w, const Tensor& h0, const Tensor& c0, bool reverse, const Cell& cell) {
  const Expr steps = x.size(0);
  Tensors carried{h0}, operands{linear(x, w.w_ih, w.b_ih)};
  if (c0) carried.push_back(c0);
  for (const Tensor& t : {w.w_hh, w.b_hh, w.w_hr})
    if (t) operands.push_back(t);
  Tensors made = for_each_step(call, steps, carried, operands, [&](const Expr& step, const Tensors& now, const Tensors& others) -> Tensors {
    Weights inner;
    size_t next = 1;
    inner.w_hh = others[next++];
    if (w.b_hh) inner.b_hh = others[next++];
    if (w.w_hr) inner.w_hr = others[next++];
    Tensor gates = select(others[0], 0, reverse ? steps - 1 - step : step);
    auto [h, c] = cell(gates, inner, now[0], c0 ? now[1] : Tensor());
    return c0 ? Tensors{h, c, h} : Tensors{h, h};
  });
  return {reverse ? flip(made.back(), {0}) : made.back(), made[0], c0 ? made[1] : Tensor()};
}

// Has its kernel: the weights are packed at compile time. `constant`: of the graph's values.
bool has_primitive(const std::vector<bool>& constant, const Tensor& x, const Weights& w) {
  if (x.dtype() != NACRE_f32 || w.w_hr) return false;
  return constant[static_cast<size_t>(w.w_ih.id())] && constant[static_cast<size_t>(w.w_hh.id())];
}

// ---- Single cells.

std::pair<Tensor, Tensor> lstm_gates(const Tensor& gates, const Tensor& c) {
  Expr width = c.size(-1);
  auto gate = [&](int64_t i) { return narrow(gates, -1, width * Expr(i), width); };
  Tensor next = sigmoid(gate(1)) * c + sigmoid(gate(0)) * tanh(gate(2));
  return {sigmoid(gate(3)) * tanh(next), next};
}

Tensor gru_gates(const Tensor& from_input, const Tensor& from_state, const Tensor& h) {
  Expr width = h.size(-1);
  auto gate = [&](const Tensor& t, int64_t i) { return narrow(t, -1, width * Expr(i), width); };
  Tensor reset = sigmoid(gate(from_input, 0) + gate(from_state, 0));
  Tensor update = sigmoid(gate(from_input, 1) + gate(from_state, 1));
  Tensor fresh = tanh(gate(from_input, 2) + reset * gate(from_state, 2));
  return fresh + update * (h - fresh);
}

Results lstm(Call& call) {
  std::vector<Tensor> hx = call.tensors("hx");
  if (hx.size() != 2) call.unsupported("a state of other than two tensors");
  bool projected = hx[0].size(-1) != hx[1].size(-1);
  Network n = read_network(call, projected);
  const std::vector<bool> constant = constant_values(call.builder().graph());
  Layer layer = [&](const Tensor& x, const Weights& w, const Tensor& h, const Tensor& c,
                    bool reverse) -> LayerResult {
    if (!has_primitive(constant, x, w))
      return stepped(
          call, x, w, h, c, reverse,
          [](const Tensor& gates, const Weights& v, const Tensor& state, const Tensor& cell) {
            auto [out, next] = lstm_gates(gates + linear(state, v.w_hh, v.b_hh), cell);
            return std::pair(v.w_hr ? linear(out, v.w_hr, {}) : out, next);
          });
    Builder& b = call.builder();
    Builder::Recurrent r = b.lstm(x.id(), h.id(), c.id(), w.w_ih.id(), w.w_hh.id(), id_of(w.b_ih),
                                  id_of(w.b_hh), reverse);
    return {Tensor(b, r.y), Tensor(b, r.h), Tensor(b, r.c)};
  };
  return run(call, n, hx[0], hx[1], layer);
}

Results gru(Call& call) {
  Network n = read_network(call, false);
  const std::vector<bool> constant = constant_values(call.builder().graph());
  Layer layer = [&](const Tensor& x, const Weights& w, const Tensor& h, const Tensor&,
                    bool reverse) -> LayerResult {
    if (!has_primitive(constant, x, w))
      return stepped(
          call, x, w, h, {}, reverse,
          [](const Tensor& gates, const Weights& v, const Tensor& state, const Tensor&) {
            return std::pair(gru_gates(gates, linear(state, v.w_hh, v.b_hh), state), Tensor());
          });
    Builder& b = call.builder();
    Builder::Recurrent r =
        b.gru(x.id(), h.id(), w.w_ih.id(), w.w_hh.id(), id_of(w.b_ih), id_of(w.b_hh), reverse);
    return {Tensor(b, r.y), Tensor(b, r.h), {}};
  };
  return run(call, n, call.tensor("hx"), {}, layer);
}

Tensor activated(const Tensor& x, bool relu) { return relu ? maximum(x, 0) : tanh(x); }

Results rnn(Call& call, bool relu) {
  Network n = read_network(call, false);
  Layer layer = [&](const Tensor& x, const Weights& w, const Tensor& h, const Tensor&,
                    bool reverse) {
    return stepped(call, x, w, h, {}, reverse,
                    [&](const Tensor& gates, const Weights& v, const Tensor& state, const Tensor&) {
                      return std::pair(activated(gates + linear(state, v.w_hh, v.b_hh), relu),
                                       Tensor());
                    });
  };
  return run(call, n, call.tensor("hx"), {}, layer);
}

Results lstm_cell(Call& call) {
  std::vector<Tensor> hx = call.tensors("hx");
  Tensor gates = linear(call.tensor("input"), call.tensor("w_ih"), call.optional("b_ih")) +
                 linear(hx.at(0), call.tensor("w_hh"), call.optional("b_hh"));
  auto [h, c] = lstm_gates(gates, hx.at(1));
  return {h, c};
}

Results gru_cell(Call& call) {
  Tensor h = call.tensor("hx");
  return gru_gates(linear(call.tensor("input"), call.tensor("w_ih"), call.optional("b_ih")),
                   linear(h, call.tensor("w_hh"), call.optional("b_hh")), h);
}

Results rnn_cell(Call& call, bool relu) {
  Tensor h = call.tensor("hx");
  Tensor y = linear(call.tensor("input"), call.tensor("w_ih"), call.optional("b_ih")) +
             linear(h, call.tensor("w_hh"), call.optional("b_hh"));
  return activated(y, relu);
}

constexpr Decomposition kTable[] = {
    {"lstm.input", lstm},
    {"gru.input", gru},
    {"rnn_tanh.input", [](Call& c) { return rnn(c, false); }},
    {"rnn_relu.input", [](Call& c) { return rnn(c, true); }},
    {"lstm_cell.default", lstm_cell},
    {"gru_cell.default", gru_cell},
    {"rnn_tanh_cell.default", [](Call& c) { return rnn_cell(c, false); }},
    {"rnn_relu_cell.default", [](Call& c) { return rnn_cell(c, true); }},
};

}  // namespace

Decompositions recurrent_decompositions() { return kTable; }

}  // namespace nacre
