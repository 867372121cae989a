// libFuzzer's entry.
#include <cstring>

#include "tests/fuzz/artifact.h"

extern "C" std::size_t LLVMFuzzerMutate(uint8_t* data, std::size_t size, std::size_t most);

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, std::size_t size) {
  nacre::test::try_artifact(data, size);
  return 0;
}

// What is no artifact at all is replaced by one: nothing is learnt from more of that kind.
extern "C" std::size_t LLVMFuzzerCustomMutator(uint8_t* data, std::size_t size, std::size_t most,
                                               unsigned int seed) {
  const auto& seeds = nacre::test::seeds();
  const auto& fresh = seeds[seed % seeds.size()];
  if ((size < 64 || std::memcmp(data, fresh.data(), 8)) && fresh.size() <= most) {
    std::memcpy(data, fresh.data(), fresh.size());
    size = fresh.size();
  }
  return LLVMFuzzerMutate(data, size, most);
}
