// Kernels, tables, weights -> an artifact as formats/writer takes it.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "compiler/codegen/program.h"
#include "compiler/compile.h"
#include "compiler/toolchain/toolchain.h"
#include "targets/target.h"

namespace nacre {

CompiledModel package(ProgramTables tables, CodeImage image, const std::vector<std::string>& kernel_names,
                      const std::map<std::string, HostTensor>& weights, const Target& target, const std::string& producer);

}  // namespace nacre
