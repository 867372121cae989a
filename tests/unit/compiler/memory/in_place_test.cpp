#include "compiler/memory/in_place.h"

#include <gtest/gtest.h>

#include "compiler/loops/text.h"
#include "compiler/loops/verify.h"
#include "compiler/memory/lifetimes.h"
#include "compiler/memory/order.h"

namespace nacre {
namespace {

size_t places(const LoopProgram& program) { return lifetimes(program).size(); }

LoopProgram parsed(const std::string& buffers, const std::string& groups) {
  LoopProgram program = parse_loops("loops f {\n  buffer %x: f32[8, 4] input 0\n  buffer %out: f32[8, 4] output 0\n" + buffers + groups + "  input %x\n  output %out\n}\n");
  verify(program);
  return program;
}

std::string copy(const std::string& name, const std::string& from, const std::string& to) {
  return "  group " + name + "\n    nest i: 8, j: 4\n      v0 = load %" + from + "\n      v1 = neg v0\n      store %" + to + " = v1\n";
}

TEST(InPlace, AChainTakesOnePlace) {
  const LoopProgram program = parsed("  buffer %a: f32[8, 4] temporary\n  buffer %b: f32[8, 4] temporary\n",
                                     copy("g0", "x[i, j]", "a[i, j]") + copy("g1", "a[i, j]", "b[i, j]") + copy("g2", "b[i, j]", "out[i, j]"));
  EXPECT_EQ(places(program), 2u);
  const LoopProgram shared = write_in_place(program);
  verify(shared);
  EXPECT_EQ(places(shared), 1u);
}

TEST(InPlace, WhatIsReadElsewhereStays) {
  const std::string buffers = "  buffer %a: f32[8, 4] temporary\n  buffer %b: f32[8, 4] temporary\n";
  // By a later group.
  const LoopProgram later = parsed(buffers, copy("g0", "x[i, j]", "a[i, j]") + copy("g1", "a[i, j]", "b[i, j]") +
                                                "  group g2\n    nest i: 8, j: 4\n      v0 = load %a[i, j]\n      v1 = load %b[i, j]\n      v2 = add v0 v1\n      store %out[i, j] = v2\n");
  EXPECT_EQ(places(write_in_place(later)), 2u);
  // By another point: row 7 - i is overwritten before it is read.
  const LoopProgram flipped = parsed(buffers, copy("g0", "x[i, j]", "a[i, j]") + copy("g1", "a[7 - i, j]", "b[i, j]") + copy("g2", "b[i, j]", "out[i, j]"));
  EXPECT_EQ(places(write_in_place(flipped)), 2u);
}

TEST(InPlace, FewerRowsTakeThePlaceOfThoseTheyAreMadeOf) {
  const LoopProgram program = parsed("  buffer %a: f32[12, 4] temporary\n  buffer %b: f32[8, 4] temporary\n",
                                     "  group g0\n    nest i: 12, j: 4\n      v0 = index i64 i\n      v1 = cast f32 v0\n      store %a[i, j] = v1\n" +
                                         copy("g1", "a[i + 3, j]", "b[i, j]") + copy("g2", "b[i, j]", "out[i, j]"));
  const LoopProgram shared = write_in_place(program);
  verify(shared);
  EXPECT_EQ(places(shared), 1u);
  EXPECT_EQ(shared.groups[2].nests[0].code[0].at[0].str(), "i + 3");
}

TEST(Order, WhatEndsTheMostComesFirst) {
  // Two wide results, each made narrow by a second group: one after the other is enough.
  const std::string buffers = "  buffer %a: f32[8, 400] temporary\n  buffer %b: f32[8, 400] temporary\n  buffer %c: f32[8, 4] temporary\n  buffer %d: f32[8, 4] temporary\n";
  const auto widen = [](const std::string& name, const std::string& to) {
    return "  group " + name + "\n    nest i: 8, j: 400\n      v0 = load %x[i, 0]\n      store %" + to + "[i, j] = v0\n";
  };
  const LoopProgram program =
      parsed(buffers, widen("g0", "a") + widen("g1", "b") + copy("g2", "a[i, j]", "c[i, j]") + copy("g3", "b[i, j]", "d[i, j]") +
                          "  group g4\n    nest i: 8, j: 4\n      v0 = load %c[i, j]\n      v1 = load %d[i, j]\n      v2 = add v0 v1\n      store %out[i, j] = v2\n");
  const LoopProgram ordered = order_for_memory(program);
  verify(ordered);
  EXPECT_EQ(peak_of(lifetimes(program), {}).bytes, 2 * 8 * 400 * 4 + 128);
  EXPECT_EQ(peak_of(lifetimes(ordered), {}).bytes, 8 * 400 * 4 + 2 * 128);
}

}  // namespace
}  // namespace nacre
