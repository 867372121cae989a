// The ELF loader: what it loads works, what it cannot load it refuses, and nothing crashes it.
#include <sys/mman.h>

#include <random>

#include "tests/unit/runtime/fixture.h"
extern "C" {
#include "runtime/image.h"
}

namespace nacre::test {
namespace {

TEST(Image, LoadsKernelsThatRun) {
  const std::vector<uint8_t> bytes = kernel_image();
  nacre_image image;
  ASSERT_EQ(nacre_image_load(&image, bytes.data(), bytes.size()), nullptr);
  float x[3] = {1, 2, 3}, y[3] = {};
  void* buffers[] = {x, y};
  const int64_t nodes[] = {0, 0, 3};
  nacre_kernel_args args = {};
  args.buffers = buffers;
  args.nodes = reinterpret_cast<const nacre_abi_i64*>(nodes);
  args.threads = 1;
  EXPECT_EQ(nacre_image_kernel(&image, kScale)(&args), 0);
  EXPECT_EQ(y[2], 6.0f);
  buffers[0] = y;
  EXPECT_EQ(nacre_image_kernel(&image, kClear)(&args), 0);  // by the C library's memset
  EXPECT_EQ(y[2], 0.0f);
  EXPECT_EQ(nacre_image_kernel(&image, kKernelCount), nullptr);
  nacre_image_unload(&image);
}

TEST(Image, CodeCannotBeWritten) {
  const std::vector<uint8_t> bytes = kernel_image();
  nacre_image image;
  ASSERT_EQ(nacre_image_load(&image, bytes.data(), bytes.size()), nullptr);
  nacre_kernel kernel = nacre_image_kernel(&image, kScale);
  uint8_t* code;
  std::memcpy(&code, &kernel, sizeof code);
  EXPECT_DEATH(*static_cast<volatile uint8_t*>(code) = 0, "");
  nacre_image_unload(&image);
}

TEST(Image, RefusesOtherMachines) {
  std::vector<uint8_t> bytes = kernel_image();
  bytes[18] = 3;  // i386
  bytes[19] = 0;
  nacre_image image;
  EXPECT_STREQ(nacre_image_load(&image, bytes.data(), bytes.size()),
               "its code image is for another machine");
  EXPECT_EQ(image.base, nullptr);
}

TEST(Image, RefusesAnImageWithoutATable) {
  std::vector<uint8_t> bytes = kernel_image();
  std::memset(bytes.data() + 24, 0, sizeof(void*));  // e_entry
  nacre_image image;
  EXPECT_STREQ(nacre_image_load(&image, bytes.data(), bytes.size()),
               "its code image has no table of kernels");
}

TEST(Image, SurvivesEveryDamage) {
  const std::vector<uint8_t> good = kernel_image();
  std::mt19937 random(1);
  int loaded = 0;
  for (int i = 0; i < 20000; ++i) {
    std::vector<uint8_t> bytes = good;
    const int flips = 1 + static_cast<int>(random() % 8);
    for (int f = 0; f < flips; ++f) {
      // Most damage goes where the structure is: headers, and the dynamic part.
      const std::size_t limit = random() % 4 ? 1200 : bytes.size();
      bytes[random() % std::min(limit, bytes.size())] = static_cast<uint8_t>(random());
    }
    if (i % 8 == 0) bytes.resize(random() % bytes.size());
    nacre_image image;
    if (nacre_image_load(&image, bytes.data(), bytes.size())) continue;
    ++loaded;
    EXPECT_NE(nacre_image_kernel(&image, 0), nullptr);
    nacre_image_unload(&image);
  }
  EXPECT_GT(loaded, 0);  // some flips hit nothing that matters
}

}  // namespace
}  // namespace nacre::test
