// Arithmetic of doubles in integers, for processors that have none, beside this machine's.
#include "targets/kernel/support_arm.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <random>
#include <vector>

namespace {

std::vector<uint64_t> numbers(int count) {
  std::vector<uint64_t> all{
      0, 1, 0x000fffffffffffffull, 0x0010000000000000ull, 0x3ff0000000000000ull, 0x7fefffffffffffffull, nacre_arm::kInfinity, nacre_arm::kNan};
  std::mt19937_64 random(1);
  for (int i = 0; i < count; ++i) {
    uint64_t bits = random();
    if (i % 4 == 0) bits &= 0x000fffffffffffffull;                                                 // subnormal
    if (i % 4 == 1) bits = (bits & 0x800fffffffffffffull) | (0x3f8ull + (bits >> 52 & 15)) << 52;  // near 1
    if (i % 8 == 5) bits &= 0xfffffffff8000000ull;                                                 // ties
    all.push_back(bits);
  }
  for (size_t i = 0, n = 8; i < n; ++i) all.push_back(all[i] | nacre_arm::kSign);
  return all;
}

double real(uint64_t bits) { return std::bit_cast<double>(bits); }
bool same(uint64_t bits, double expected) { return std::isnan(expected) ? std::isnan(real(bits)) : bits == std::bit_cast<uint64_t>(expected); }

TEST(SupportArm, ArithmeticIsThatOfDoubles) {
  const std::vector<uint64_t> all = numbers(1500);
  for (size_t i = 0; i < all.size(); ++i)
    for (size_t j = i % 7; j < all.size(); j += 7) {
      const uint64_t a = all[i], b = all[j];
      ASSERT_TRUE(same(nacre_arm::add(a, b), real(a) + real(b)))
          << std::hexfloat << real(a) << " + " << real(b) << " = " << real(nacre_arm::add(a, b));
      ASSERT_TRUE(same(nacre_arm::multiply(a, b), real(a) * real(b)))
          << std::hexfloat << real(a) << " * " << real(b) << " = " << real(nacre_arm::multiply(a, b));
      ASSERT_TRUE(same(nacre_arm::quotient(a, b), real(a) / real(b)))
          << std::hexfloat << real(a) << " / " << real(b) << " = " << real(nacre_arm::quotient(a, b));
      const double x = real(a), y = real(b);
      ASSERT_EQ(nacre_arm::compare(a, b), std::isunordered(x, y) ? 2 : x < y ? -1 : x > y ? 1 : 0) << x << ", " << y;
    }
}

TEST(SupportArm, ConversionsAndRootsAreThoseOfDoubles) {
  using namespace nacre_arm;
  for (const uint64_t bits : numbers(200000)) {
    const double x = real(bits);
    const float narrow = std::bit_cast<float>(static_cast<uint32_t>(bits >> 32));
    ASSERT_TRUE(same(root(bits), std::sqrt(x))) << std::hexfloat << x;
    if (!std::isnan(x)) {
      ASSERT_EQ(as_float(of_double(bits)), std::bit_cast<uint32_t>(static_cast<float>(x))) << std::hexfloat << x;
      if (std::abs(x) < 0x1p63) {
        ASSERT_EQ(to_integer(of_double(bits), ~0ull >> 1, kSign), static_cast<uint64_t>(static_cast<int64_t>(x))) << x;
      }
    }
    if (!std::isnan(narrow)) {
      ASSERT_EQ(as_double(of_float(std::bit_cast<uint32_t>(narrow))), std::bit_cast<uint64_t>(static_cast<double>(narrow))) << narrow;
    }
    const auto integer = static_cast<int64_t>(bits);
    const Real whole = of_integer(static_cast<uint64_t>(integer < 0 ? -integer : integer), integer < 0);
    ASSERT_EQ(as_double(whole), std::bit_cast<uint64_t>(static_cast<double>(integer))) << integer;
    ASSERT_EQ(as_float(whole), std::bit_cast<uint32_t>(static_cast<float>(integer))) << integer;
    const uint64_t divisor = bits >> (bits & 63);
    if (divisor) {
      const FourWords both = divide(bits, divisor, false, false);
      ASSERT_EQ((uint64_t{both[1]} << 32 | both[0]), bits / divisor);
      ASSERT_EQ((uint64_t{both[3]} << 32 | both[2]), bits % divisor);
    }
  }
}

}  // namespace
