#include "compiler/memory/plan.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>

#include "compiler/graph/text.h"
#include "compiler/loops/lower.h"
#include "compiler/loops/text.h"
#include "compiler/memory/fit.h"

namespace nacre {
namespace {

using Sizes = std::map<std::string, int64_t>;

struct Range {
  int64_t begin, end;
};

// Where the buffers of a plan lie for given sizes, as the runtime computes it.
std::vector<Range> ranges(const MemoryPlan& plan, const Sizes& sizes) {
  std::vector<Range> result;
  for (const Placement& p : plan.placements) {
    int64_t offset = p.offset;
    for (const size_t below : p.below) offset = std::max(offset, result.at(below).end);
    result.push_back({offset, offset + p.size_bytes.evaluate(sizes).value()});
  }
  return result;
}

int64_t arena(const MemoryPlan& plan, const Sizes& sizes) {
  int64_t size = 0;
  for (const Range& r : ranges(plan, sizes)) size = std::max(size, r.end);
  return size;
}

void expect_apart(const MemoryPlan& plan, const Sizes& sizes) {
  const std::vector<Range> all = ranges(plan, sizes);
  for (size_t a = 0; a < all.size(); ++a)
    for (size_t b = 0; b < a; ++b) {
      const Placement &p = plan.placements[a], &q = plan.placements[b];
      if (p.first > q.last || q.first > p.last) continue;
      EXPECT_TRUE(all[a].end <= all[b].begin || all[b].end <= all[a].begin)
          << a << " and " << b << " live at the same time";
    }
}

// A chain of layers, each as large as the last; `size` is a dimension.
LoopProgram chain(const std::string& size, int layers) {
  std::string text = "graph forward primitive {\n  symbol s0: [1, 64]\n";
  text += fmt::format("  input %v0: f32[{}, 16] user \"x\"\n", size);
  for (int i = 1; i <= layers; ++i)
    text += fmt::format("  %v{}: f32[{}, 16] = prim.neg(%v{})\n", i, size, i - 1);
  return lower(parse_graph(text + fmt::format("  output %v{} user\n}}\n", layers)));
}

TEST(Plan, AChainOfLayersTakesTurnsBetweenTwoPlaces) {
  const MemoryPlan fixed = plan_memory(chain("40", 41));
  EXPECT_TRUE(fixed.constant);
  EXPECT_EQ(fixed.size_bytes, 2 * 40 * 64);
  const MemoryPlan plan = plan_memory(chain("s0", 41));
  EXPECT_FALSE(plan.constant);
  for (const int64_t s0 : {1, 7, 64}) EXPECT_EQ(arena(plan, {{"s0", s0}}), 2 * s0 * 64);
}

TEST(Plan, AnOutputThatIsNotWrittenYetHoldsTemporaries) {
  const LoopProgram program = parse_loops(R"(loops f {
  buffer %x: f32[16] input 0
  buffer %a: f32[16] temporary
  buffer %b: f32[32] temporary
  buffer %y: f32[48] output 0
  group g0
    nest i: 16
      v0 = load %x[i]
      store %a[i] = v0
  group g1
    nest i: 32
      v0 = load %a[i floordiv 2]
      store %b[i] = v0
  group g2
    nest i: 48
      v0 = load %b[i floordiv 2]
      store %y[i] = v0
  input %x
  output %y
}
)");
  EXPECT_EQ(plan_memory(program).size_bytes, 192);
  const MemoryPlan plan = plan_memory(program, true);
  EXPECT_EQ(plan.size_bytes, 128);  // %b is read while %y is written
  ASSERT_EQ(plan.placements.size(), 2u);
  EXPECT_EQ(plan.placements[0].inside, 3);
  EXPECT_EQ(plan.placements[1].inside, -1);
}

TEST(Fit, NamesWhatIsInTheWay) {
  const LoopProgram program = parse_loops(R"(loops f {
  buffer %x: f32[64] input 0
  buffer %a: f32[64] temporary
  buffer %y: f32[] output 0
  group g0
    nest i: 64
      v0 = load %x[63 - i]
      v1 = neg v0  # aten.flip.default model.py:5 top
      store %a[i] = v1
  group g1
    nest | i: 64
      v0 = load %a[i]
      v1 = reduce sum v0
      store %y[] = v1
  input %x
  output %y
}
)");
  const CostOf cost_of = [](const LoopProgram& p) { return std::vector<GroupCost>(p.groups.size(), GroupCost{100, 1}); };
  const Fitted whole = fit_memory(program, {400, 64}, cost_of);
  EXPECT_EQ(whole.needs.total(), 256 + 128);
  EXPECT_EQ(whole.program.groups.size(), 2u);
  // In parts, down to two elements each, with the parts' sums beside them.
  const Fitted least = fit_memory(program, {0, 64}, cost_of);
  EXPECT_LT(least.needs.total(), 256 + 128);
  EXPECT_GT(least.program.groups.size(), 4u);
  const Fitted no_bands = fit_memory(program, {1, 1}, cost_of);
  EXPECT_EQ(no_bands.needs.arena_bytes, 256);
  const std::string text = blame(no_bands.program, plan_memory(no_bands.program, true));
  EXPECT_NE(text.find("256 bytes a: f32[64] aten.flip.default (model.py:5)"), std::string::npos) << text;
}

// Sums of earlier values, old and new; `m` and `n` are dimensions.
LoopProgram random_sums(unsigned seed, const std::string& m, const std::string& n) {
  std::mt19937 random(seed);
  const auto pick = [&](size_t count) { return static_cast<size_t>(random()) % count; };
  const std::vector<std::string> shapes = {m + ", 16", n + ", 48", m + ", " + n, "7, 32"};
  std::string text = "graph forward primitive {\n  symbol s0: [0, 64]\n  symbol s1: [0, 64]\n";
  std::vector<std::vector<int>> values;  // by shape
  int next = 0;
  for (const std::string& shape : shapes) {
    text += fmt::format("  input %v{}: f32[{}] user \"x{}\"\n", next, shape, next);
    values.push_back({next++});
  }
  for (int i = 0; i < 40; ++i) {
    const size_t shape = pick(shapes.size());
    std::vector<int>& known = values[shape];
    text += fmt::format("  %v{}: f32[{}] = prim.add(%v{}, %v{})\n", next, shapes[shape],
                        known[pick(known.size())], known.back());
    known.push_back(next++);
  }
  for (const std::vector<int>& known : values) text += fmt::format("  output %v{} user\n", known.back());
  return lower(parse_graph(text + "}\n"));
}

TEST(Plan, WhatLivesAtTheSameTimeLiesApartForAllSizes) {
  for (unsigned seed = 0; seed < 30; ++seed) {
    const MemoryPlan plan = plan_memory(random_sums(seed, "s0", "s1"));
    for (const int64_t s0 : {0, 1, 3, 16, 64})
      for (const int64_t s1 : {0, 1, 16, 64}) expect_apart(plan, {{"s0", s0}, {"s1", s1}});
    // For the sizes that are taken for typical, as small as with constant ones.
    const MemoryPlan fixed = plan_memory(random_sums(seed, "16", "16"));
    ASSERT_TRUE(fixed.constant);
    EXPECT_LE(arena(plan, {{"s0", 16}, {"s1", 16}}), fixed.size_bytes) << "seed " << seed;
  }
}

}  // namespace
}  // namespace nacre
