// Random primitive graphs with inputs to run them on: for tests of lowering, fusion and what follows.
#pragma once

#include <algorithm>
#include <cstring>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "compiler/graph/builder.h"
#include "compiler/graph/graph.h"
#include "compiler/support/tensor.h"

namespace nacre::testing {

struct RandomProgram {
  Graph graph;
  std::map<std::string, HostTensor> weights;
  std::vector<HostTensor> inputs;
};

class RandomGraph {
 public:
  explicit RandomGraph(unsigned seed) : random_(seed), builder_(program_.graph) {
    program_.graph.level = Level::primitive;
    program_.graph.name = "random";
  }

  RandomProgram make(int steps) {
    Graph& g = program_.graph;
    Expr batch = pick(2) ? Expr::symbol("s0") : Expr(3);
    batch_ = 2 + pick(3);
    if (!batch.constant()) {
      SymbolFacts f;
      f.range = {2, 64};
      f.hint = batch_;
      g.symbols["s0"] = f;
    } else {
      batch_ = 3;
    }
    const std::vector<std::vector<Expr>> shapes = {{batch, 4, 6}, {batch, 4, 6}, {6, 5}, {batch, 4, 3, 5}, {1, 6}};
    for (size_t i = 0; i < shapes.size(); ++i) add_input("x" + std::to_string(i), shapes[i], InputKind::user);
    add_input("w0", {4, 6}, InputKind::parameter);
    add_input("w1", {8, 4, 3, 3}, InputKind::parameter);
    const ValueId state = add_input("cache", {4, 6}, InputKind::buffer);
    for (int i = 0; i < steps; ++i) step();
    const int outputs = 1 + pick(3);
    for (int i = 0; i < outputs; ++i) {
      const ValueId v = pool_[pool_.size() - 1 - static_cast<size_t>(pick(std::min<int>(6, static_cast<int>(pool_.size()))))];
      g.outputs.push_back({ValueRef{v}, OutputKind::user, ""});
    }
    if (pick(2)) {
      ValueId next = state;
      const int kind = pick(4);
      const ValueId row = find_shape({4, 6});
      if (kind == 0) next = builder_.add(builder_.mul(state, builder_.full_like(state, 0.9)), row);
      if (kind == 1) next = builder_.select_scatter_range(state, builder_.slice(row, 0, 1, 3), 0, 1);
      if (kind == 2) next = builder_.concat({builder_.slice(state, 0, 1, 4), builder_.slice(row, 0, 0, 1)}, 0);
      if (kind == 3) {
        const ValueId rows = builder_.iota(2, 1, 2, NACRE_i64);
        next = builder_.index_put(state, builder_.slice(row, 0, 0, 2), {rows}, pick(2) == 1);
      }
      if (next == state) next = builder_.tanh(state);
      g.outputs.push_back({ValueRef{next}, OutputKind::buffer_mutation, "cache"});
      if (pick(2)) g.outputs.push_back({ValueRef{builder_.mul(next, next)}, OutputKind::user, ""});
      if (pick(3) == 0) g.outputs.push_back({ValueRef{state}, OutputKind::user, ""});
    }
    return std::move(program_);
  }

 private:
  int pick(int n) { return std::uniform_int_distribution<int>(0, n - 1)(random_); }

  ValueId add_input(const std::string& name, std::vector<Expr> shape, InputKind kind) {
    Value v;
    v.name = name;
    v.dtype = NACRE_f32;
    v.shape = shape;
    const ValueId id = program_.graph.add_value(v);
    program_.graph.inputs.push_back({id, kind, name});
    std::vector<int64_t> sizes;
    for (const Expr& e : shape) sizes.push_back(e.constant() ? *e.constant() : batch_);
    std::byte* bytes = nullptr;
    HostTensor t = make_tensor(NACRE_f32, sizes, &bytes);
    std::uniform_real_distribution<float> real(-1.5f, 1.5f);
    for (int64_t i = 0; i < t.elements(); ++i) {
      const float f = real(random_);
      std::memcpy(bytes + i * 4, &f, 4);
    }
    if (kind == InputKind::user)
      program_.inputs.push_back(t);
    else
      program_.weights[name] = t;
    if (name != "cache" && name != "w1") pool_.push_back(id);
    return id;
  }

  ValueId any() { return pool_[static_cast<size_t>(pick(static_cast<int>(pool_.size())))]; }
  // Recent values more often, so that chains come about.
  ValueId recent() {
    const int n = static_cast<int>(pool_.size());
    return pick(3) ? pool_[static_cast<size_t>(n - 1 - pick(std::min(n, 4)))] : any();
  }
  ValueId find_shape(const std::vector<Expr>& shape) {
    std::vector<ValueId> fits;
    for (ValueId v : pool_)
      if (builder_.shape(v) == shape && builder_.dtype(v) == NACRE_f32) fits.push_back(v);
    if (fits.empty()) return builder_.full(shape, 0.25, NACRE_f32);
    return fits[fits.size() - 1 - static_cast<size_t>(pick(std::min<int>(3, static_cast<int>(fits.size()))))];
  }
  ValueId with_rank(int least) {
    for (int i = 0; i < 20; ++i)
      if (ValueId v = recent(); builder_.rank(v) >= least) return v;
    return pool_[0];
  }
  int dim_of(ValueId v) { return pick(static_cast<int>(builder_.rank(v))); }
  bool small(ValueId v) {
    int64_t n = 1;
    for (const Expr& e : builder_.shape(v)) n *= e.evaluate({{"s0", batch_}}).value_or(1);
    return n <= 6000 && builder_.rank(v) <= 6;
  }
  void push(ValueId v) {
    if (small(v)) pool_.push_back(v);
  }
  ValueId keepdim(const char* name, ValueId x, std::vector<int64_t> dims) { return builder_.reduce(name, x, dims, true); }
  bool constant(ValueId v, int dim) { return builder_.shape(v)[static_cast<size_t>(dim)].constant().has_value(); }
  int64_t size(ValueId v, int dim) { return builder_.shape(v)[static_cast<size_t>(dim)].constant().value_or(batch_); }

  void step() {
    Builder& b = builder_;
    switch (pick(26)) {
      case 0:
      case 1: {
        const char* names[] = {"tanh", "sigmoid", "neg", "abs", "exp", "sin"};
        const ValueId x = recent();
        const char* name = names[pick(6)];
        push(b.pointwise(name, {std::string(name) == "exp" ? b.tanh(x) : x}));
        break;
      }
      case 2:
      case 3:
      case 4: {
        const char* names[] = {"add", "sub", "mul", "maximum", "minimum"};
        const ValueId x = recent();
        const ValueId y = pick(2) ? find_shape(b.shape(x)) : b.full_like(x, 0.5);
        push(b.tanh(b.pointwise(names[pick(5)], {x, y})));
        break;
      }
      case 5: {  // a row against a tensor
        const ValueId x = with_rank(2);
        const ValueId r = keepdim(pick(2) ? "sum" : "amax", x, {dim_of(x)});
        push(b.tanh(b.sub(x, b.broadcast_to(r, b.shape(x)))));
        break;
      }
      case 6: {
        const ValueId x = with_rank(2);
        std::vector<int64_t> dims;
        for (int64_t i = 0; i < b.rank(x); ++i) dims.push_back(i);
        std::shuffle(dims.begin(), dims.end(), random_);
        push(b.permute(x, dims));
        break;
      }
      case 7: {  // merge two dims
        const ValueId x = with_rank(2);
        const int d = pick(static_cast<int>(b.rank(x)) - 1);
        std::vector<Expr> shape = b.shape(x);
        shape[static_cast<size_t>(d)] = shape[static_cast<size_t>(d)] * shape[static_cast<size_t>(d) + 1];
        shape.erase(shape.begin() + d + 1);
        push(b.reshape(x, shape));
        break;
      }
      case 8: {  // split a dim
        const ValueId x = with_rank(1);
        const int d = dim_of(x);
        const Expr& n = b.shape(x)[static_cast<size_t>(d)];
        for (int64_t f : {2, 3}) {
          if (!is_multiple(n, f, program_.graph.symbols)) continue;
          std::vector<Expr> shape = b.shape(x);
          shape[static_cast<size_t>(d)] = floordiv(n, f);
          shape.insert(shape.begin() + d + 1, f);
          push(b.reshape(x, shape));
          break;
        }
        break;
      }
      case 9: {
        const ValueId x = with_rank(1);
        const int d = dim_of(x);
        if (!constant(x, d) || size(x, d) < 3) break;
        push(b.slice(x, d, 1, size(x, d) - pick(2), 1 + pick(2)));
        break;
      }
      case 10: {
        const ValueId x = with_rank(1);
        push(b.flip(x, {dim_of(x)}));
        break;
      }
      case 11: {
        const ValueId x = with_rank(1);
        std::vector<Expr> low(b.shape(x).size(), Expr(0)), high = low;
        const size_t d = static_cast<size_t>(dim_of(x));
        low[d] = pick(3);
        high[d] = pick(3);
        push(b.pad(x, low, high, pick(2) ? 0 : 0.5));
        break;
      }
      case 12: {  // pooling
        const ValueId x = with_rank(1);
        const int d = dim_of(x);
        if (!constant(x, d) || size(x, d) < 3) break;
        const ValueId w = b.window(x, d, 2 + pick(2), 1 + pick(2));
        push(b.reduce(pick(2) ? "amax" : "sum", w, {b.rank(w) - 1}));
        break;
      }
      case 13: {
        const ValueId x = with_rank(1), y = find_shape(b.shape(x));
        const int d = dim_of(x);
        if (constant(x, d) && size(x, d) >= 3 && pick(2)) {  // a roll, or two neighbours
          const ValueId low = b.slice(x, d, 0, 2), high = b.slice(x, d, 2, size(x, d));
          push(pick(2) ? b.concat({high, low}, d) : b.concat({low, high, b.tanh(y)}, d));
          break;
        }
        push(b.concat({x, b.tanh(y), x}, d));
        break;
      }
      case 14: {
        const ValueId x = with_rank(1);
        const int d = dim_of(x);
        if (!constant(x, d) || size(x, d) < 3) break;
        push(b.select_scatter_range(x, b.neg(b.slice(x, d, 0, 2)), d, 1));
        break;
      }
      case 15: {  // softmax
        const ValueId x = with_rank(1);
        const int d = dim_of(x);
        const ValueId e = b.exp(b.sub(x, b.broadcast_to(keepdim("amax", x, {d}), b.shape(x))));
        push(b.div(e, b.broadcast_to(keepdim("sum", e, {d}), b.shape(x))));
        break;
      }
      case 16: {  // layer norm, perhaps over several dims
        const ValueId x = with_rank(2);
        std::vector<int64_t> dims = {b.rank(x) - 1};
        if (b.rank(x) > 2 && pick(2)) dims.insert(dims.begin(), b.rank(x) - 2);
        const ValueId m = b.tanh(keepdim("sum", x, dims));
        const ValueId c = b.sub(x, b.broadcast_to(m, b.shape(x)));
        const ValueId v = keepdim("sum", b.mul(c, c), dims);
        const ValueId r = b.rsqrt(b.add(v, b.full_like(v, 1)));
        push(b.mul(c, b.broadcast_to(r, b.shape(x))));
        break;
      }
      case 17: {  // group norm
        const ValueId x = with_rank(2);
        if (b.rank(x) < 2 || !constant(x, 1) || size(x, 1) % 2) break;
        std::vector<Expr> shape = b.shape(x);
        shape[1] = size(x, 1) / 2;
        shape.insert(shape.begin() + 1, 2);
        const ValueId y = b.reshape(x, shape);
        std::vector<int64_t> dims;
        for (int64_t i = 2; i < b.rank(y); ++i) dims.push_back(i);
        const ValueId m = b.tanh(keepdim("sum", y, dims));
        push(b.reshape(b.sub(y, b.broadcast_to(m, shape)), b.shape(x)));
        break;
      }
      case 18: {
        const ValueId x = with_rank(1);
        push(b.tanh(b.scan(pick(2) ? "cumsum" : "cummax", x, dim_of(x))));
        break;
      }
      case 19: {  // embedding of a permuted dim
        const ValueId x = with_rank(1);
        const int d = dim_of(x);
        if (!constant(x, d)) break;
        const ValueId i = b.flip(b.iota(size(x, d), -1, -1, NACRE_i64), {0});
        std::vector<ValueId> indices(static_cast<size_t>(d), kNoValue);
        indices.push_back(i);
        push(b.index(x, indices));
        break;
      }
      case 20: {
        const ValueId x = with_rank(1);
        const ValueId order = b.sort(x, b.rank(x) - 1, pick(2) == 1).second;
        push(b.gather(x, order, b.rank(x) - 1));
        break;
      }
      case 21:
      case 22: {
        const ValueId x = with_rank(2);
        const Expr k = b.shape(x).back();
        if (!k.constant()) break;
        ValueId w = b.full({k, 5}, 0.1, NACRE_f32);
        if (k.is(6)) w = b.tanh(find_shape({6, 5}));
        std::vector<Expr> rows = b.shape(x);
        Expr m = 1;
        for (size_t i = 0; i + 1 < rows.size(); ++i) m = m * rows[i];
        ValueId a = b.reshape(x, {m, k});
        if (pick(2)) a = b.mul(a, b.full_like(a, 0.5));
        ValueId y = b.matmul(a, w);
        rows.back() = 5;
        y = b.reshape(y, rows);
        if (pick(2)) y = b.tanh(y);
        push(y);
        break;
      }
      case 23: {  // convolution of what has four channels and an image
        for (ValueId v : pool_) {
          if (b.rank(v) != 4 || !b.shape(v)[1].is(4) || !constant(v, 2) || !constant(v, 3)) continue;
          if (size(v, 2) < 2 || size(v, 3) < 2 || pick(2)) continue;
          ValueId x = v;
          if (pick(2)) x = b.pad(x, {0, 0, 1, 1}, {0, 0, 1, 1}, 0);
          const ValueId y = b.conv(x, program_.graph.inputs[6].value, {1, 1}, {1, 1}, {1, 1}, 1);
          push(b.tanh(b.mul(y, b.full_like(y, 0.2))));
          break;
        }
        break;
      }
      case 24: {
        const ValueId x = with_rank(3);
        if (b.rank(x) != 3) break;
        std::vector<Expr> shape = b.shape(x);
        shape.insert(shape.begin() + 1, 1);
        const ValueId q = b.reshape(x, shape);
        push(b.attention(q, b.tanh(q), q, kNoValue, 0.5, pick(2) == 1));
        const ValueId back = b.permute(pool_.back(), {0, 2, 1, 3});
        if (b.rank(pool_.back()) == 4) push(b.reshape(back, b.shape(x)));
        break;
      }
      case 25: {
        const ValueId x = recent();
        const ValueId c = b.gt(x, b.full_like(x, 0));
        push(b.where(c, x, b.cast(b.cast(b.mul(x, b.full_like(x, 3)), NACRE_i32), NACRE_f32)));
        break;
      }
    }
  }

  std::mt19937 random_;
  RandomProgram program_;
  Builder builder_;
  std::vector<ValueId> pool_;
  int64_t batch_ = 3;
};

}  // namespace nacre::testing
