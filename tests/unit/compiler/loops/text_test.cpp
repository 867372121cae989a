#include "compiler/loops/text.h"

#include <gtest/gtest.h>

#include "compiler/support/error.h"

namespace nacre {
namespace {

TEST(LoopsText, RoundTripsWhatNeedsQuotesAndCare) {
  const std::string text =
      "loops f {\n"
      "  symbol s0: [1, inf] multiple 2 below (8*s1 + 1)\n"
      "  symbol s1: [-inf, 64] hint 8\n"
      "  buffer %x: f32[4] weight \"a \\\"b\\\"\\n\"\n"
      "  buffer %y: f32[4] output 0\n"
      "  group g\n"
      "    nest i0: 4\n"
      "      v0 = load %x[i0]  # aten.add.Tensor \"my model.py\":3 \"block 1\"\n"
      "      v1 = constant -nan f32\n"
      "      v2 = constant 0.1 f32  # - - block\n"
      "      v3 = maximum v0 v1\n"
      "      v4 = maximum v3 v2\n"
      "      store %y[i0] = v4\n"
      "  output %y\n"
      "}\n";
  EXPECT_EQ(print(parse_loops(text)), text);
}

TEST(LoopsText, NamesLineAndColumn) {
  try {
    parse_loops("loops f {\n\n  symbol s0: [1, x]\n}\n");
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.message, "loop program, line 3, column 18: expected an integer, not 'x'");
  }
}

}  // namespace
}  // namespace nacre
