// One round of fuzzing an artifact, for libFuzzer and for the ordinary test.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace nacre::test {

// Opens the bytes as they are, and once more with digests that fit them, since a digest stops
// nearly every change. What opens is asked for all it tells, prepared with inputs that its
// description asks for, and never run: its code is native code.
void try_artifact(const uint8_t* bytes, std::size_t size);

// Artifacts to start from.
const std::vector<std::vector<uint8_t>>& seeds();

}  // namespace nacre::test
