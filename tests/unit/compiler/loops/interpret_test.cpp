#include "compiler/loops/interpret.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "compiler/loops/text.h"
#include "compiler/loops/verify.h"
#include "compiler/support/error.h"

namespace nacre {
namespace {

template <class T>
HostTensor tensor(nacre_dtype dtype, std::vector<int64_t> shape, const std::vector<T>& values) {
  std::byte* bytes = nullptr;
  HostTensor t = make_tensor(dtype, std::move(shape), &bytes);
  std::memcpy(bytes, values.data(), t.size_bytes);
  return t;
}

HostTensor run(const char* text, const std::vector<HostTensor>& inputs) {
  const LoopProgram p = parse_loops(text);
  verify(p);
  return interpret(p, {}, inputs).at(0);
}

TEST(Interpret, SoftmaxOfRows) {
  const HostTensor y = run(R"(loops f {
  symbol s0: [1, 64]
  buffer %x: f32[s0, 3] input 0
  buffer %y: f32[s0, 3] output 0
  buffer %m: f32[] local
  buffer %e: f32[3] local
  buffer %s: f32[] local
  group softmax
    outer i0: s0
    nest | i1: 3
      v0 = load %x[i0, i1]
      v1 = reduce amax v0
      store %m[] = v1
    nest i1: 3
      v0 = load %x[i0, i1]
      v1 = load %m[]
      v2 = sub v0 v1
      v3 = exp v2
      store %e[i1] = v3
    nest | i1: 3
      v0 = load %e[i1]
      v1 = reduce sum v0
      store %s[] = v1
    nest i1: 3
      v0 = load %e[i1]
      v1 = load %s[]
      v2 = div v0 v1
      store %y[i0, i1] = v2
  input %x
  output %y
}
)",
                           {tensor<float>(NACRE_f32, {2, 3}, {0, 0, 0, 0, std::log(2.f), std::log(5.f)})});
  ASSERT_EQ(y.shape, (std::vector<int64_t>{2, 3}));
  const float expected[] = {1 / 3.f, 1 / 3.f, 1 / 3.f, 0.125f, 0.25f, 0.625f};
  for (int i = 0; i < 6; ++i) EXPECT_NEAR(y.as<float>()[i], expected[i], 1e-6f);
}

TEST(Interpret, LoadsUnderConditionsAndGathers) {
  const HostTensor y = run(R"(loops f {
  buffer %x: f32[3] input 0
  buffer %i: i64[2] input 1
  buffer %y: f32[2, 5] output 0
  group pad
    nest i0: 2, i1: 5
      v0 = load %i[i0]
      v1 = check_index v0 in 2
      v2 = constant -1 f32
      v3 = load %x[i1 + v1 - 1] when [1 <= i1 + v1, i1 + v1 < 4] else v2
      store %y[i0, i1] = v3
  input %x
  input %i
  output %y
}
)",
                           {tensor<float>(NACRE_f32, {3}, {10, 20, 30}), tensor<int64_t>(NACRE_i64, {2}, {0, -1})});
  const float expected[] = {-1, 10, 20, 30, -1, 10, 20, 30, -1, -1};
  for (int i = 0; i < 10; ++i) EXPECT_EQ(y.as<float>()[i], expected[i]) << i;
}

TEST(Interpret, AnIndexOutOfRangeIsAnErrorInData) {
  const char* text = R"(loops f {
  buffer %i: i64[1] input 0
  buffer %y: i64[1] output 0
  group index
    nest i0: 1
      v0 = load %i[i0]
      v1 = check_index v0 in 2  # aten.index.Tensor model.py:7 net
      store %y[i0] = v1
  input %i
  output %y
}
)";
  EXPECT_EQ(run(text, {tensor<int64_t>(NACRE_i64, {1}, {-2})}).as<int64_t>()[0], 0);
  try {
    run(text, {tensor<int64_t>(NACRE_i64, {1}, {2})});
    FAIL();
  } catch (const Error& e) {
    EXPECT_EQ(e.kind, ErrorKind::user);
    EXPECT_NE(std::string(e.what()).find("model.py:7"), std::string::npos) << e.what();
  }
}

TEST(Interpret, AnIndexBelowAnExtentIsNotNegative) {
  const char* text = R"(loops f {
  buffer %i: i64[1] input 0
  buffer %y: i64[1] output 0
  group gather
    nest i0: 1
      v0 = load %i[i0]
      v1 = check_index v0 below 2
      store %y[i0] = v1
  input %i
  output %y
}
)";
  EXPECT_EQ(run(text, {tensor<int64_t>(NACRE_i64, {1}, {1})}).as<int64_t>()[0], 1);
  EXPECT_THROW(run(text, {tensor<int64_t>(NACRE_i64, {1}, {-1})}), Error);
}

TEST(Interpret, ConvolutionOfGroupsWithPaddingAndStride) {
  // y[o, p] = sum over k of x[o, 2*p - 1 + k] * w[o, 0, k]
  const HostTensor y = run(R"(loops f {
  buffer %x: f32[1, 2, 4] input 0
  buffer %w: f32[2, 1, 3] input 1
  buffer %y: f32[1, 2, 2] output 0
  group conv
    conv f32 stride [2] padding [1] dilation [1] output_padding [0] groups 2
      loops n: 1, o: 2, y0: 2
      operand %x[0, x1, x2] over x0: 1, x1: 2, x2: 4
      operand %w[w0, 0, w2] over w0: 2, w1: 1, w2: 3
    nest n: 1, o: 2, y0: 2
      v0 = accumulator 0 f32
      store %y[0, o, y0] = v0
  input %x
  input %w
  output %y
}
)",
                           {tensor<float>(NACRE_f32, {1, 2, 4}, {1, 2, 3, 4, 5, 6, 7, 8}),
                            tensor<float>(NACRE_f32, {2, 1, 3}, {1, 10, 100, 1, 0, -1})});
  const float expected[] = {210, 432, -6, -2};
  for (int i = 0; i < 4; ++i) EXPECT_EQ(y.as<float>()[i], expected[i]) << i;
}

TEST(Interpret, ScansAlongTheLastLoop) {
  const HostTensor y = run(R"(loops f {
  buffer %x: f32[2, 3] input 0
  buffer %y: f32[2, 3] output 0
  group cumsum
    nest i1: 3, i0: 2
      v0 = load %x[i0, i1]
      v1 = scan cumsum v0
      store %y[i0, i1] = v1
  input %x
  output %y
}
)",
                           {tensor<float>(NACRE_f32, {2, 3}, {1, 2, 3, 4, 5, 6})});
  const float expected[] = {1, 2, 3, 5, 7, 9};
  for (int i = 0; i < 6; ++i) EXPECT_EQ(y.as<float>()[i], expected[i]);
}

TEST(Interpret, AReductionKeepsTheSignOfZero) {
  const HostTensor y = run(R"(loops f {
  buffer %x: f32[3, 2] input 0
  buffer %y: f32[3] output 0
  group amax
    nest i0: 3 | i1: 2
      v0 = load %x[i0, i1]
      v1 = reduce amax v0
      store %y[i0] = v1
  input %x
  output %y
}
)",
                           {tensor<float>(NACRE_f32, {3, 2}, {-0.f, -1, 0, -1, -2, -1})});
  EXPECT_TRUE(y.as<float>()[0] == 0 && std::signbit(y.as<float>()[0]));
  EXPECT_TRUE(y.as<float>()[1] == 0 && !std::signbit(y.as<float>()[1]));
  EXPECT_EQ(y.as<float>()[2], -1);
}

TEST(VerifyLoops, RefusesWhatIsWrong) {
  const auto broken = [](const std::string& nest) {
    return "loops f {\n  buffer %x: f32[4] input 0\n  buffer %t: f32[4] temporary\n  buffer %y: f32[4] output 0\n"
           "  group g\n" + nest + "  input %x\n  output %y\n}\n";
  };
  const auto refused = [&](const std::string& nest) {
    const LoopProgram p = parse_loops(broken(nest));
    EXPECT_THROW(verify(p), Error) << nest;
  };
  verify(parse_loops(broken("    nest i0: 4\n      v0 = load %x[i0]\n      store %y[i0] = v0\n")));
  refused("    nest i0: 4\n      v0 = load %t[i0]\n      store %y[i0] = v0\n");                           // never written
  refused("    nest i0: 4\n      v0 = load %x[i1]\n      store %y[i0] = v0\n");                           // no such loop
  refused("    nest i0: 4\n      v0 = load %x[i0 + 4]\n      store %y[i0] = v0\n");                       // out of range
  refused("    nest i0: 4\n      v0 = load %x[i0]\n      store %x[i0] = v0\n      store %y[i0] = v0\n");  // an input
  refused("    nest i0: 4, i0: 4\n      v0 = load %x[i0]\n      store %y[i0] = v0\n");                    // two loops
  refused("    nest i0: 4 | i1: 2\n      v0 = load %x[i0]\n      v1 = reduce sum v0\n      store %y[i1] = v1\n");
  refused("    nest i0: 4 | i1: 2\n      v0 = load %x[i0]\n      v1 = reduce sum v0\n      v2 = add v0 v1\n      store %y[i0] = v2\n");
}

TEST(LoopsText, NamesTheLineOfAMistake) {
  try {
    parse_loops("loops f {\n  buffer %x: f32[4] input 0\n  group g\n    nest i0: 4\n      v0 = frobnicate\n}\n");
    FAIL();
  } catch (const Error& e) {
    EXPECT_EQ(e.kind, ErrorKind::user);
    EXPECT_NE(std::string(e.what()).find("line 5"), std::string::npos) << e.what();
  }
}

}  // namespace
}  // namespace nacre
