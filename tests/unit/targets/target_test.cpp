#include "targets/target.h"

#include <string>

#include "targets/kernel_sources.h"
#include "tests/unit/targets/kernel_test.h"

namespace nacre::test {
namespace {

TEST(Target, NativeIsOneThatThisMachineRuns) {
  const Target* native = target_named("native");
  ASSERT_NE(native, nullptr);
  EXPECT_EQ(native->feature_bits & ~host_features(), 0u);
  EXPECT_TRUE(runs_here(*native));
  EXPECT_TRUE(runs_here(*host_target()));
  // Another machine may want no feature that this one lacks.
  Target foreign = *native;
  foreign.machine = 0;
  EXPECT_FALSE(runs_here(foreign));
  EXPECT_EQ(target_named("no such machine"), nullptr);
}

TEST(Target, PanelsAreThoseOfTheKernelLibrary) {
  for (const Level& level : levels()) {
    if (!level.target) continue;
    const Target& target = *target_named(level.name);
    EXPECT_EQ(target.vector_floats(), level.kernels->vector_floats);
    EXPECT_EQ(target.max_panel_vectors(), level.kernels->max_nv);
    for (int64_t n = 1; n <= 2100; ++n)
      ASSERT_EQ(target.panel_vectors(n), level.kernels->default_nv(n)) << level.name << ", " << n << " columns";
  }
}

TEST(Target, KernelSourcesAreComplete) {
  bool gemm = false;
  for (const KernelHeader& header : kernel_headers()) {
    const std::string text = header.text;
    EXPECT_NE(text.find("#endif"), std::string::npos) << header.name;
    if (std::string(header.name) == "nacre/gemm.h") gemm = text.find("void gemm_ab(") != std::string::npos;
    // Every header that a header includes is there, too.
    for (size_t at = text.find("#include \"nacre/"); at != std::string::npos; at = text.find("#include \"nacre/", at + 1)) {
      const size_t begin = at + 10, end = text.find('"', begin);
      const std::string name = text.substr(begin, end - begin);
      bool found = false;
      for (const KernelHeader& other : kernel_headers()) found |= name == other.name;
      EXPECT_TRUE(found) << header.name << " includes " << name;
    }
  }
  EXPECT_TRUE(gemm);
}

}  // namespace
}  // namespace nacre::test
