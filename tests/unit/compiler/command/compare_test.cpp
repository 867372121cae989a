#include "compiler/command/compare.h"
#include "compiler/command/own_error.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>

namespace nacre {
namespace {

template <typename T>
HostTensor tensor(nacre_dtype dtype, const std::vector<T>& values) {
  std::byte* bytes = nullptr;
  const HostTensor made = make_tensor(dtype, {static_cast<std::int64_t>(values.size())}, &bytes);
  std::memcpy(bytes, values.data(), made.size_bytes);
  return made;
}
HostTensor f32(const std::vector<float>& values) { return tensor(NACRE_f32, values); }
HostTensor f64(const std::vector<double>& values) { return tensor(NACRE_f64, values); }

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kInfinity = std::numeric_limits<float>::infinity();

TEST(Compare, AllowsTwiceTheOwnErrorAndEightUnits) {
  const double truth = 1.0;
  const double unit = 0x1p-23;
  const HostTensor reference = f64({truth, 2.0});
  const HostTensor torch = f32({static_cast<float>(truth + 4 * unit), 2.0f});
  // The limit: 2 * 4 units + 8 units at magnitude 2 = 24 units.
  const Comparison good =
      compare(f32({static_cast<float>(truth - 24 * unit), 2.0f}), torch, &reference);
  EXPECT_TRUE(good.passed) << good.reason;
  EXPECT_DOUBLE_EQ(good.limit, 24 * unit);
  EXPECT_DOUBLE_EQ(good.error, 24 * unit);
  const Comparison bad =
      compare(f32({static_cast<float>(truth - 25 * unit), 2.0f}), torch, &reference);
  EXPECT_FALSE(bad.passed);
  EXPECT_NE(bad.reason.find("element [0] of f32[2]"), std::string::npos) << bad.reason;
}

TEST(Compare, TakesPyTorchAsReferenceWhereThereIsNoOther) {
  EXPECT_TRUE(compare(f32({1.0f + 0x1p-21f}), f32({1}), nullptr).passed);
  EXPECT_FALSE(compare(f32({1.0f + 0x1p-19f}), f32({1}), nullptr).passed);
}

TEST(Compare, WantsTheSameNanAndInfinities) {
  const HostTensor torch = f32({kNan, kInfinity, 1});
  EXPECT_TRUE(compare(f32({kNan, kInfinity, 1}), torch, nullptr).passed);
  EXPECT_FALSE(compare(f32({1, kInfinity, 1}), torch, nullptr).passed);
  EXPECT_FALSE(compare(f32({kNan, -kInfinity, 1}), torch, nullptr).passed);
  EXPECT_FALSE(compare(f32({kNan, kInfinity, kNan}), torch, nullptr).passed);
  EXPECT_FALSE(compare(f32({kNan, 3e38f, 1}), torch, nullptr).passed);
}

TEST(Compare, OverflowOfTheDtypeIsNoErrorWherePyTorchOverflows) {
  const HostTensor reference = f64({1e39, 1});
  EXPECT_TRUE(compare(f32({kInfinity, 1}), f32({kInfinity, 1}), &reference).passed);
}

TEST(Compare, IntegersAndBooleansAreExact) {
  const HostTensor torch = tensor<std::int64_t>(NACRE_i64, {1, 2, 3});
  EXPECT_TRUE(compare(tensor<std::int64_t>(NACRE_i64, {1, 2, 3}), torch, nullptr).passed);
  const Comparison bad = compare(tensor<std::int64_t>(NACRE_i64, {1, 2, 4}), torch, nullptr);
  EXPECT_FALSE(bad.passed);
  EXPECT_NE(bad.reason.find("1 of 3 elements"), std::string::npos) << bad.reason;
  EXPECT_NE(bad.reason.find("[2]"), std::string::npos) << bad.reason;
}

TEST(Compare, NamesDifferentShapesAndDtypes) {
  const Comparison bad = compare(f32({1, 2}), f64({1, 2}), nullptr);
  EXPECT_FALSE(bad.passed);
  EXPECT_EQ(bad.reason, "it is f32[2], PyTorch's is f64[2]");
  EXPECT_FALSE(compare(f32({1}), f32({1, 2}), nullptr).passed);
}

TEST(Compare, ReadsHalvesExactly) {
  // 1, 1 + 2^-10, the largest, the smallest subnormal, -2.
  const std::vector<std::uint16_t> halves{0x3C00, 0x3C01, 0x7BFF, 0x0001, 0xC000};
  const std::optional<std::vector<double>> values = as_doubles(tensor(NACRE_f16, halves));
  ASSERT_TRUE(values);
  EXPECT_EQ(*values, (std::vector<double>{1, 1 + 0x1p-10, 65504, 0x1p-24, -2}));
  const std::vector<std::uint16_t> brains{0x3F80, 0x3F81, 0xC000};
  EXPECT_EQ(*as_doubles(tensor(NACRE_bf16, brains)), (std::vector<double>{1, 1 + 0x1p-7, -2}));
  EXPECT_FALSE(as_doubles(tensor<std::int32_t>(NACRE_i32, {1})));
}

TEST(Compare, UnitsFollowTheDtype) {
  const HostTensor reference = f64({1});
  const HostTensor one = tensor<std::uint16_t>(NACRE_f16, {0x3C00});
  EXPECT_DOUBLE_EQ(compare(one, one, &reference).limit, 8 * 0x1p-10);
  const HostTensor brain = tensor<std::uint16_t>(NACRE_bf16, {0x3F80});
  EXPECT_DOUBLE_EQ(compare(brain, brain, &reference).limit, 8 * 0x1p-7);
}

TEST(Compare, ComplexIsTwoNumbers) {
  const HostTensor torch = tensor<float>(NACRE_f32, {1, 2});
  HostTensor complex = torch;
  complex.dtype = NACRE_c64;
  complex.shape = {1};
  EXPECT_TRUE(compare(complex, complex, nullptr).passed);
  HostTensor other = tensor<float>(NACRE_f32, {1, 3});
  other.dtype = NACRE_c64;
  other.shape = {1};
  const Comparison bad = compare(other, complex, nullptr);
  EXPECT_FALSE(bad.passed);
  EXPECT_NE(bad.reason.find("element [0]"), std::string::npos) << bad.reason;
}

TEST(Compare, EmptyTensorsAgree) { EXPECT_TRUE(compare(f32({}), f32({}), nullptr).passed); }

TEST(Merge, KeepsTheOneFarthestBeyondItsLimit) {
  Comparison worst;
  merge(worst, compare(f32({1.0f + 0x1p-22f}), f32({1}), nullptr));
  EXPECT_GT(worst.error, 0);
  const Comparison bad = compare(f32({2}), f32({1}), nullptr);
  merge(worst, bad);
  EXPECT_FALSE(worst.passed);
  merge(worst, compare(f32({1}), f32({1}), nullptr));
  EXPECT_FALSE(worst.passed);
  merge(worst, compare(f32({kNan}), f32({1}), nullptr));
  EXPECT_TRUE(std::isinf(worst.error));
}

TEST(Compare, TakesWhatIsKnownOfTheOwnErrorBesideTheReference) {
  const HostTensor expected = f64({1.0, 3.0}), ours = f64({1.0, 3.0 + 0x1p-47});
  EXPECT_FALSE(compare(ours, expected, nullptr).passed);
  EXPECT_TRUE(compare(ours, expected, nullptr, 0x1p-48).passed);
}

TEST(Compare, SaysThatNeighboursCountToo) {
  const Comparison result = compare(f32({2}), f32({1}), nullptr, 0.25, true);
  EXPECT_FALSE(result.passed);
  EXPECT_NE(result.reason.find("PyTorch's own 0.25, on these and values next to them"), std::string::npos) << result.reason;
}

TEST(OwnError, IsTheLargestDifferenceFromTheReference) {
  const HostTensor narrow = f32({1.0, 3.0 + 0x1p-20});
  EXPECT_EQ(largest_error(narrow, f64({1.0, 3.0})), 0x1p-20);
  EXPECT_EQ(largest_error(narrow, f64({1.0})), 0) << "results of other shapes";
}

}  // namespace
}  // namespace nacre
