// What both dumps need: names of the format's numbers, and words. For dump*.cpp only.
#pragma once

#include <string>

#include "formats/costs.h"
#include "formats/verify.h"
#include "formats/words.h"
#include "formats/writer.h"

namespace nacre::formats {

// A verified file in both of its forms: structs to walk, views for words.
struct Dump {
  Artifact artifact;
  nacre_container container;
  std::vector<std::vector<VariantCost>> costs;  // by entry and variant
};

std::string format_version(const nacre_container& container);  // "1.0"
std::string command_name(nacre_command_kind kind);
std::string slot_name(const Slot& slot);                      // "input 0", "arena"
std::string size_words(const nacre_words& words, Size size, size_t limit = 63);  // n12 where the words are longer
// One step of an expression list, operands by number: "max(n3, 8)".
std::string node_words(const Artifact& artifact, uint32_t entry, uint32_t variant, uint32_t number);
std::string guard_words(const nacre_words& words, const Guard& guard);  // with the input's name
std::string features_words(uint64_t features);
std::string tensor_words(const nacre_words& words, const Tensor& tensor);  // f32[s0, 64]
std::string line_words(const Provenance& provenance);  // model.py:41 encoder.fc aten.linear

}  // namespace nacre::formats
