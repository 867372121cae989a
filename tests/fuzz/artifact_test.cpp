// The fuzz target for a short while without libFuzzer, and on what it once found.
#include "tests/fuzz/artifact.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>

namespace nacre::test {
namespace {

TEST(Artifact, SurvivesRandomDamage) {
  const unsigned seed = 1;
  SCOPED_TRACE(seed);
  std::mt19937 random(seed);
  for (int i = 0; i < 4000; ++i) {
    std::vector<uint8_t> bytes = seeds()[random() % seeds().size()];
    // Most of the damage goes to the front, where the structure is.
    const std::size_t front =
        std::min<std::size_t>(bytes.size(), random() % 2 ? 4096 : bytes.size());
    for (unsigned f = 0; f < 1 + random() % 4; ++f) {
      const std::size_t at = random() % front;
      switch (random() % 3) {
        case 0:
          bytes[at] = static_cast<uint8_t>(random());
          break;
        case 1:
          bytes[at] = static_cast<uint8_t>(bytes[at] + (random() % 2 ? 1 : 255));
          break;
        default:
          bytes[at] = random() % 2 ? 0xff : 0;
      }
    }
    if (i % 16 == 0) bytes.resize(random() % bytes.size());
    try_artifact(bytes.data(), bytes.size());
  }
}

TEST(Artifact, SurvivesWhatFuzzingFound) {
  try_artifact(nullptr, 0);
  for (const auto& file : std::filesystem::directory_iterator(NACRE_FUZZ_CORPUS)) {
    SCOPED_TRACE(file.path());
    std::ifstream in(file.path(), std::ios::binary);
    const std::vector<uint8_t> bytes{std::istreambuf_iterator<char>(in),
                                     std::istreambuf_iterator<char>()};
    try_artifact(bytes.data(), bytes.size());
  }
}

}  // namespace
}  // namespace nacre::test
