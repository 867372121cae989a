#include <cmath>
#include <limits>

#include "tests/unit/targets/kernel_test.h"

namespace nacre::test {
namespace {

TEST(Vec, Reductions) {
  for (const Level& level : levels()) {
    const int vl = level.kernels->vector_floats;
    Floats x(vl);
    for (int i = 0; i < vl; ++i) x[i] = static_cast<float>(i * i % 7 - 3);
    float sum = 0, greatest = -100;
    for (int i = 0; i < vl; ++i) {
      sum += x[i];
      greatest = std::max(greatest, x[i]);
    }
    EXPECT_EQ(level.kernels->reduce_sum(x.data()), sum);
    EXPECT_EQ(level.kernels->reduce_max(x.data()), greatest);
    for (int i = 0; i < vl; ++i) {
      Floats y = x;
      for (int j = 0; j < vl; ++j) y[j] = static_cast<float>(j);
      y[i] = std::numeric_limits<float>::quiet_NaN();
      EXPECT_TRUE(std::isnan(level.kernels->reduce_max(y.data()))) << "lane " << i;
    }
  }
}

TEST(Vec, Transpose) {
  for (const Level& level : levels()) {
    const int vl = level.kernels->vector_floats;
    Floats x(vl * vl);
    for (int i = 0; i < vl * vl; ++i) x[i] = static_cast<float>(i);
    level.kernels->transpose(x.data());
    for (int i = 0; i < vl; ++i)
      for (int j = 0; j < vl; ++j) EXPECT_EQ(x[i * vl + j], static_cast<float>(j * vl + i));
  }
}

TEST(Vec, PartsTouchNothingElse) {
  for (const Level& level : levels()) {
    const int vl = level.kernels->vector_floats;
    for (int n = 0; n <= vl; ++n) {
      Floats from(n), to(n);
      for (int i = 0; i < n; ++i) from[i] = static_cast<float>(i + 1);
      level.kernels->copy_part(from.data(), to.data(), n);
      for (int i = 0; i < n; ++i) EXPECT_EQ(to[i], from[i]);
      EXPECT_TRUE(to.intact());
    }
  }
}

}  // namespace
}  // namespace nacre::test
