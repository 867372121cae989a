#include "compiler/toolchain/module.h"

#include <clang/Basic/Version.h>

#include "compiler/toolchain/clang.h"
#include "compiler/toolchain/inspect.h"
#include "compiler/toolchain/link.h"

extern "C" const nacre::ToolchainModule* nacre_toolchain_module() {
  static const std::string version = clang::getClangFullVersion();
  static const nacre::ToolchainModule module{nacre::kToolchainVersion, version.c_str(),
                                             nacre::clang_compile, nacre::lld_link, nacre::inspect_object};
  return &module;
}
