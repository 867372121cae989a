// What the tests of the kernel library share: the instruction sets that it was built for, random data, packing, threads.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "tests/unit/targets/kernel_table.h"

namespace nacre::test {

struct Level {
  std::string name;
  const KernelTable* kernels;
  const FunctionTable* functions;
  bool fma = true;
  bool target = true;  // there is a Target of this name
};
// Those of x86-64-v2, v3, v4 that the machine of the build has, and wide vectors where it lacks AVX-512.
std::vector<Level> levels();

// Zeroed floats at a multiple of 64 bytes; `guard` floats behind the end hold NaN, which must not be read into results.
class Floats {
 public:
  explicit Floats(int64_t count);
  float* data() { return data_; }
  const float* data() const { return data_; }
  float& operator[](int64_t i) { return data_[i]; }
  float operator[](int64_t i) const { return data_[i]; }
  int64_t size() const { return count_; }
  // True if nothing wrote behind the end.
  bool intact() const;

 private:
  std::vector<float> storage_;
  float* data_;
  int64_t count_;
};

// Reproducible numbers in [-1, 1].
Floats random_floats(int64_t count, unsigned seed);

// [ceil(n / nr)][k][nr] with zeros beyond n; at(l, j) is the weight of row l, column j.
Floats pack_panels(int64_t n, int64_t k, int64_t nr, const std::function<float(int64_t, int64_t)>& at);

// Greatest |value - expected|.
double error(const Floats& value, const std::vector<double>& expected);

// A barrier for tests of kernels that wait for each other.
class Barrier {
 public:
  explicit Barrier(int threads) : threads_(threads) {}
  static void wait(void* barrier);

 private:
  int threads_;
  volatile int arrived_ = 0, round_ = 0;
};

// Runs f(thread) on `threads` threads at once.
void run_threads(int threads, const std::function<void(int)>& f);

}  // namespace nacre::test
