// The memory plan of a variant as a picture: its buffers over time, as text and as SVG.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "formats/writer.h"

namespace nacre {

// What lies in the arena, in the caller's inputs and outputs, or in scratch, from command `first` to command `last`.
struct MemoryBar {
  std::string space;  // `arena`, `output 0`, `scratch`
  std::string name, shape;
  std::string where;  // `model.py:12 aten.relu.default`: the operator whose command touches it first
  std::int64_t offset = 0, bytes = 0;
  formats::Size offset_size, bytes_size;  // where they follow other sizes
  int first = 0, last = 0;
};

struct MemoryPicture {
  std::string title;
  std::vector<MemoryBar> bars;        // in the order of their first commands
  std::vector<std::string> commands;  // what each calls
  std::int64_t arena = 0, scratch = 0, inputs = 0, outputs = 0;
  std::vector<std::int64_t> live;     // of each command: bytes of the arena that are in use
};

// Sizes of symbols that are not named: 64, or the nearest that they allow.
using SymbolSizes = std::map<std::string, std::int64_t>;
MemoryPicture memory_picture(const formats::Artifact& artifact, std::size_t entry, std::size_t variant, const SymbolSizes& sizes);

// A line for each buffer, with a bar over the commands; what lives at the peak is marked.
std::string memory_text(const MemoryPicture& picture);

// Commands from left to right, addresses upwards: a whole SVG document, which needs nothing else. Bars and their labels carry
// expressions of other sizes, by which a page can move them.
std::string memory_svg(const MemoryPicture& picture);

}  // namespace nacre
