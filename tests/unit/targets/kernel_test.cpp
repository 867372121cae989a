#include "tests/unit/targets/kernel_test.h"

#include <cmath>
#include <limits>
#include <random>
#include <thread>

namespace nacre::test {

namespace {
constexpr int64_t kGuard = 64;
}

std::vector<Level> levels() {
  std::vector<Level> result;
#ifdef NACRE_TEST_v2
  result.push_back({"x86-64-v2", &kernels_v2, &functions_v2, false});
#endif
#ifdef NACRE_TEST_v3
  result.push_back({"x86-64-v3", &kernels_v3, &functions_v3});
#endif
#ifdef NACRE_TEST_v4
  result.push_back({"x86-64-v4", &kernels_v4, &functions_v4});
#endif
#ifdef NACRE_TEST_wide
  result.push_back({"wide vectors", &kernels_wide, &functions_wide, true, false});
#endif
  return result;
}

Floats::Floats(int64_t count) : storage_(static_cast<size_t>(count + kGuard + 16), 0.f), count_(count) {
  auto address = reinterpret_cast<uintptr_t>(storage_.data());
  data_ = reinterpret_cast<float*>((address + 63) / 64 * 64);
  for (int64_t i = 0; i < kGuard - 16; ++i) data_[count + i] = std::numeric_limits<float>::quiet_NaN();
}
bool Floats::intact() const {
  for (int64_t i = 0; i < kGuard - 16; ++i)
    if (!std::isnan(data_[count_ + i])) return false;
  return true;
}

Floats random_floats(int64_t count, unsigned seed) {
  Floats result(count);
  std::mt19937 generator(seed);
  std::uniform_real_distribution<float> uniform(-1, 1);
  for (int64_t i = 0; i < count; ++i) result[i] = uniform(generator);
  return result;
}

Floats pack_panels(int64_t n, int64_t k, int64_t nr, const std::function<float(int64_t, int64_t)>& at) {
  const int64_t panels = (n + nr - 1) / nr;
  Floats result(panels * k * nr);
  for (int64_t j = 0; j < n; ++j)
    for (int64_t l = 0; l < k; ++l) result[(j / nr * k + l) * nr + j % nr] = at(l, j);
  return result;
}

double error(const Floats& value, const std::vector<double>& expected) {
  double worst = 0;
  for (size_t i = 0; i < expected.size(); ++i) {
    const double d = std::fabs(value[static_cast<int64_t>(i)] - expected[i]);
    worst = d <= worst ? worst : d;  // NaN stays
  }
  return worst;
}

void Barrier::wait(void* p) {
  auto* barrier = static_cast<Barrier*>(p);
  const int round = __atomic_load_n(&barrier->round_, __ATOMIC_ACQUIRE);
  if (__atomic_add_fetch(&barrier->arrived_, 1, __ATOMIC_ACQ_REL) == barrier->threads_) {
    __atomic_store_n(&barrier->arrived_, 0, __ATOMIC_RELEASE);
    __atomic_store_n(&barrier->round_, round + 1, __ATOMIC_RELEASE);
  } else {
    while (__atomic_load_n(&barrier->round_, __ATOMIC_ACQUIRE) == round) std::this_thread::yield();
  }
}

void run_threads(int threads, const std::function<void(int)>& f) {
  std::vector<std::thread> others;
  for (int i = 1; i < threads; ++i) others.emplace_back(f, i);
  f(0);
  for (std::thread& t : others) t.join();
}

}  // namespace nacre::test
