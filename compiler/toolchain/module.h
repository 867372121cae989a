// The seam between the compiler and the part of it that holds Clang and lld. That part is a shared
// object of its own (libnacre_toolchain.so), loaded when the first kernel has to be compiled: a
// command that compiles nothing starts without LLVM, and LLVM's symbols stay apart from libtorch's.
#pragma once

#include <string>
#include <utility>
#include <vector>

namespace nacre {

struct CompileJob {
  std::string name;                // of the kernel; names the source file in diagnostics
  std::string text;                // C++
  std::vector<std::string> flags;  // of `clang -cc1`, without input and output
  // Every file that the source may include, by the name in its #include.
  std::vector<std::pair<std::string, std::string>> headers;
  // The header that many jobs of the same flags begin with, if it is worth while to parse it once
  // for all of them. The object is the same. Headers of one name must have one text in a process.
  std::string common = {};
};

struct LinkJob {
  std::vector<std::string> objects;  // ELF, in the order in which they are laid out
  std::vector<std::string> flags;    // of ld.lld, without inputs and output
  std::string script = {};           // a linker script
  bool image = true;                 // what is made is loaded anywhere: see link.h
};

// `bytes` is an ELF object or image; a failure has no bytes and says why in `error`.
struct ToolResult {
  std::string bytes;
  std::string error;
};

struct FunctionFacts {
  std::string name;
  long long frame_bytes = -1;      // of stack; -1: not recorded
  std::vector<std::string> calls;  // functions that it calls, or whose addresses it takes
};
struct ObjectFacts {
  std::vector<FunctionFacts> functions;
  std::vector<std::string> undefined;  // symbols
  long long code_bytes = 0, data_bytes = 0;
  std::string error;  // not empty: it is no object
};

// Functions of the module. Both may be called from several threads; links run one at a time.
struct ToolchainModule {
  int version;            // kToolchainVersion of the build
  const char* toolchain;  // name and version of the compiler, part of every cache key
  ToolResult (*compile)(const CompileJob& job);
  ToolResult (*link)(const LinkJob& job);
  ObjectFacts (*inspect)(const std::string& object, const std::string& mark);
};

inline constexpr int kToolchainVersion = 3;

}  // namespace nacre

extern "C" const nacre::ToolchainModule* nacre_toolchain_module();
