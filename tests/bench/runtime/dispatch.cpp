// What it costs to find the variant for given inputs: 16 rows, 4 inputs of rank 4.
//
//   ninja -C build bench_dispatch && build/tests/bench_dispatch
#include <benchmark/benchmark.h>

#include <array>
#include <cstdlib>

#include "tests/unit/runtime/fixture.h"

namespace nacre::test {
namespace {

constexpr int kRows = 16, kInputs = 4, kRank = 4;

// forward(a, b, c, d), each f32[s, 3, h, w] with sizes of its own; the first 15 rows each take one size of a's first dimension.
fmt::Artifact many_rows() {
  fmt::Artifact a = parts();
  fmt::Entry e = empty_entry("forward");
  std::vector<fmt::Guard> binds;
  for (uint16_t i = 0; i < kInputs; ++i) {
    fmt::Tensor t{std::string(1, static_cast<char>('a' + i)), NACRE_f32, 0, {}, {}};
    for (uint16_t d = 0; d < kRank; ++d) {
      const auto symbol = static_cast<uint32_t>(a.symbols.size());
      a.symbols.push_back({"s" + std::to_string(symbol), 1, 1024, 1});
      e.nodes.push_back({NACRE_EXPR_symbol, symbol, 0});
      t.dims.push_back(Size::node(symbol));
      binds.push_back({NACRE_GUARD_bind, i, d, static_cast<int64_t>(symbol), 1, 0});
    }
    e.inputs.push_back(t);
  }
  e.variants.clear();
  for (int row = 0; row < kRows; ++row) {
    fmt::Variant v;
    v.name = "row " + std::to_string(row);
    v.guards.push_back({NACRE_GUARD_features, 0, 0, 62, 0, 0});
    for (uint16_t i = 0; i < kInputs; ++i)
      for (const fmt::Guard& g : typed(i, NACRE_f32, kRank)) v.guards.push_back(g);
    v.guards.insert(v.guards.end(), binds.begin(), binds.end());
    for (uint16_t i = 0; i < kInputs; ++i)
      for (uint16_t d = 0; d < kRank; ++d) {
        if (row + 1 < kRows && i == 0 && d == 0)
          v.guards.push_back({NACRE_GUARD_equal, 0, 0, 0, row + 1, 0});
        else
          v.guards.push_back({NACRE_GUARD_range, i, d, 0, 1, 1024});
      }
    v.commands = {end()};
    e.variants.push_back(v);
  }
  a.entries = {e};
  return a;
}

struct Inputs {
  explicit Inputs(int64_t first) {
    for (auto& shape : shapes) shape = {first, 3, 32, 32};
    for (std::size_t i = 0; i < kInputs; ++i)
      tensors[i] = {nullptr, shapes[i].data(), nullptr, kRank, NACRE_f32};
  }
  std::array<std::array<int64_t, kRank>, kInputs> shapes;
  std::array<nacre_tensor, kInputs> tensors;
};

void prepare(Opened& opened, const Inputs& inputs, benchmark::State& state) {
  if (nacre_session_prepare(opened.session, 0, inputs.tensors.data(), kInputs))
    state.SkipWithError(opened.message().c_str());
}

// The same shapes again.
void same_shapes(benchmark::State& state) {
  Opened opened(many_rows());
  const Inputs inputs(state.range(0));
  for (auto _ : state) prepare(opened, inputs, state);
}
BENCHMARK(same_shapes)->Arg(1)->Arg(1000);

// Two shapes in turn, which all rows but the last refuse.
void other_shapes_last_row(benchmark::State& state) {
  Opened opened(many_rows());
  const Inputs inputs[2] = {Inputs(100), Inputs(101)};
  std::size_t i = 0;
  for (auto _ : state) prepare(opened, inputs[i++ & 1], state);
}
BENCHMARK(other_shapes_last_row);

// Each row in turn.
void each_row_in_turn(benchmark::State& state) {
  Opened opened(many_rows());
  std::vector<Inputs> inputs;
  inputs.reserve(kRows);
  for (int row = 0; row < kRows; ++row) inputs.emplace_back(row + 1);
  for (auto& in : inputs)
    for (std::size_t i = 0; i < kInputs; ++i) in.tensors[i].shape = in.shapes[i].data();
  std::size_t i = 0;
  for (auto _ : state) prepare(opened, inputs[i++ % kRows], state);
}
BENCHMARK(each_row_in_turn);

// Shapes that did not run lately: all rows are tried, and the expressions evaluated.
void new_shapes_last_row(benchmark::State& state) {
  Opened opened(many_rows());
  Inputs inputs(100);
  int64_t turn = 0;
  for (auto _ : state) {
    inputs.shapes[0][0] = 100 + turn++ % 500;
    for (std::size_t i = 0; i < kInputs; ++i) inputs.tensors[i].shape = inputs.shapes[i].data();
    prepare(opened, inputs, state);
  }
}
BENCHMARK(new_shapes_last_row);

}  // namespace
}  // namespace nacre::test

BENCHMARK_MAIN();
