// Fused programs compute what unfused ones do, on random graphs.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <cstring>

#include "compiler/fusion/fuse.h"
#include "compiler/graph/text.h"
#include "compiler/graph/verify.h"
#include "compiler/loops/interpret.h"
#include "compiler/loops/lower.h"
#include "compiler/loops/text.h"
#include "compiler/loops/verify.h"
#include "compiler/support/error.h"
#include "tests/unit/compiler/loops/random_graph.h"

namespace nacre {
namespace {

std::string difference(const HostTensor& a, const HostTensor& b) {
  if (a.dtype != b.dtype || a.shape != b.shape) return "shapes or types differ";
  for (int64_t i = 0; i < a.elements(); ++i) {
    if (a.dtype == NACRE_f32) {
      const float x = a.as<float>()[i], y = b.as<float>()[i];
      if (std::isnan(x)) return "an element that nothing stored: " + std::to_string(i);
      if (!(std::fabs(x - y) <= 1e-5f + 1e-4f * std::fabs(x)))
        return "element " + std::to_string(i) + ": " + std::to_string(x) + " became " + std::to_string(y);
    } else if (std::memcmp(a.as<std::byte>(), b.as<std::byte>(), a.size_bytes) != 0) {
      return "elements differ";
    }
  }
  return "";
}

void check_seed(unsigned seed) {
  const testing::RandomProgram random = testing::RandomGraph(seed).make(6 + static_cast<int>(seed % 12));
  std::string fused_text;
  try {
    verify(random.graph);
    const LoopProgram lowered = lower(random.graph);
    verify(lowered);
    ASSERT_EQ(print(parse_loops(print(lowered))), print(lowered));
    const LoopProgram fused = fuse(lowered);
    fused_text = print(fused);
    ASSERT_EQ(print(parse_loops(fused_text)), fused_text);
    verify(fused);
    EXPECT_LE(fused.groups.size(), lowered.groups.size());
    Mutated before, after;
    const auto expected = interpret(lowered, random.weights, random.inputs, &before);
    const auto actual = interpret(fused, random.weights, random.inputs, &after);
    ASSERT_EQ(expected.size(), actual.size());
    for (size_t i = 0; i < expected.size(); ++i)
      ASSERT_EQ(difference(expected[i], actual[i]), "") << "output " << i << " of seed " << seed << "\n"
                                                        << print(random.graph) << print(lowered) << fused_text;
    for (const auto& [name, state] : before.states)
      ASSERT_EQ(difference(state, after.states.at(name)), "") << "state of seed " << seed << "\n"
                                                              << print(random.graph) << print(lowered) << fused_text;
  } catch (const Error& e) {
    FAIL() << "seed " << seed << ": " << e.what() << "\n" << print(random.graph) << fused_text;
  }
}

TEST(Fuse, ComputesWhatTheUnfusedProgramDoes) {
  // NACRE_SEED tries one seed, NACRE_SEEDS that many.
  if (const char* seed = std::getenv("NACRE_SEED")) return check_seed(static_cast<unsigned>(std::atoi(seed)));
  const char* seeds = std::getenv("NACRE_SEEDS");
  const unsigned count = seeds ? static_cast<unsigned>(std::atoi(seeds)) : 400;
  for (unsigned seed = 1; seed <= count; ++seed) {
    check_seed(seed);
    if (HasFatalFailure()) return;
  }
}

}  // namespace
}  // namespace nacre
