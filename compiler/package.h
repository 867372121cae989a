// Code, tables, entries -> an artifact as formats/writer takes it.
#pragma once

#include <string>
#include <vector>

#include "compiler/codegen/tables.h"
#include "compiler/compile.h"
#include "compiler/toolchain/toolchain.h"
#include "targets/target.h"

namespace nacre {

// The kernels of one target. Those of all images are numbered one after the other.
struct PackedImage {
  const Target& target;
  CodeImage image;
  std::vector<std::string> kernel_names;
};

CompiledModel package(Tables tables, std::vector<formats::Entry> entries, std::vector<PackedImage> images, const std::string& producer);

}  // namespace nacre
