#include "compiler/command/program.h"

#include <gtest/gtest.h>

#include "compiler/support/error.h"

namespace nacre {
namespace {

using Kind = Example::Kind;

TEST(Example, ReadsTensorsNumbersAndTuples) {
  const Example tensor = parse_example("f32[1, 3,5]", 1);
  EXPECT_EQ(tensor.kind, Kind::tensor);
  EXPECT_EQ(tensor.tensor.dtype, NACRE_f32);
  EXPECT_EQ(tensor.tensor.shape, (std::vector<int64_t>{1, 3, 5}));
  EXPECT_NE(tensor.tensor.as<float>()[0], tensor.tensor.as<float>()[1]);
  EXPECT_EQ(parse_example("i64[]", 1).tensor.elements(), 1);
  EXPECT_EQ(parse_example("16000", 1).integer, 16000);
  EXPECT_EQ(parse_example("-0.5", 1).floating, -0.5);
  EXPECT_EQ(parse_example("true", 1).kind, Kind::boolean);
  EXPECT_EQ(parse_example("none", 1).kind, Kind::none);
  const Example pair = parse_example("(f32[2,1,128], (none, 3))", 1);
  ASSERT_EQ(pair.items.size(), 2u);
  EXPECT_EQ(pair.items[0].tensor.shape.size(), 3u);
  EXPECT_EQ(pair.items[1].items[1].integer, 3);
}

TEST(Example, RefusesWhatIsNone) {
  for (const char* text : {"", "f31[2]", "f32[2", "f32[a]", "f32[-1]", "(f32[1]", "hello", "1,2"})
    EXPECT_THROW(parse_example(text, 1), Error) << text;
}

}  // namespace
}  // namespace nacre
