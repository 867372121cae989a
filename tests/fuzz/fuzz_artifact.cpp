// libFuzzer's entry.
#include <cstring>
#include <vector>

#include "tests/fuzz/artifact.h"

extern "C" std::size_t LLVMFuzzerMutate(uint8_t* data, std::size_t size, std::size_t most);

// libFuzzer tries nothing longer than 4096 bytes unless told to, which is shorter than any
// artifact.
extern "C" int LLVMFuzzerInitialize(int* count, char*** arguments) {
  static char most[] = "-max_len=65536";
  static std::vector<char*> all(*arguments, *arguments + *count);
  all.insert(all.begin() + 1, most);
  all.push_back(nullptr);
  *arguments = all.data();
  ++*count;
  return 0;
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, std::size_t size) {
  nacre::test::try_artifact(data, size);
  return 0;
}

// What is no artifact at all is replaced by one: nothing is learnt from more of that kind.
extern "C" std::size_t LLVMFuzzerCustomMutator(uint8_t* data, std::size_t size, std::size_t most,
                                               unsigned int seed) {
  const auto& seeds = nacre::test::seeds();
  // A flipped byte of the magic number is mended anyway.
  const auto& fresh = seeds[seed % seeds.size()];
  if ((size < 64 || std::memcmp(data, fresh.data(), 8)) && fresh.size() <= most) {
    std::memcpy(data, fresh.data(), fresh.size());
    size = fresh.size();
  }
  return LLVMFuzzerMutate(data, size, most);
}
