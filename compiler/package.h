// Code, tables, entries -> an artifact as formats/writer takes it.
#pragma once

#include <string>
#include <vector>

#include "compiler/codegen/tables.h"
#include "compiler/compile.h"
#include "compiler/toolchain/toolchain.h"
#include "targets/target.h"

namespace nacre {

CompiledModel package(Tables tables, std::vector<formats::Entry> entries, CodeImage image, const std::vector<std::string>& kernel_names,
                      const Target& target, const std::string& producer);

}  // namespace nacre
