#include "compiler/command/imports.h"

#include <dlfcn.h>

#include <filesystem>
#include <set>

#include "compiler/graph/ops.h"
#include "compiler/support/error.h"
#include "compiler/support/print.h"

namespace nacre {
namespace {

void collect(const Graph& graph, std::set<std::string>& functions) {
  for (const Node& node : graph.nodes)
    if (is_library_operator(node.op)) functions.insert(library_function(node.op));
  for (const auto& [name, sub] : graph.subgraphs) collect(sub, functions);
}

}  // namespace

void add_import_option(CLI::App& verb, std::vector<std::string>& libraries) {
  verb.add_option("--import", libraries,
                  "a library with functions for operators of torch.library: it exports "
                  "`const nacre_import* nacre_imports(size_t* count)`; once for each")
      ->type_name("LIBRARY.so")
      ->allow_extra_args(false);
}

Imports load_imports(const std::vector<std::string>& libraries) {
  Imports all;
  for (const std::string& path : libraries) {
    void* library = ::dlopen(std::filesystem::absolute(path).c_str(), RTLD_NOW | RTLD_LOCAL);
    if (!library) fail(ErrorKind::user, "cannot load {}: {}", path, ::dlerror());
    using Get = const nacre_import* (*)(std::size_t*);
    const auto get = reinterpret_cast<Get>(::dlsym(library, "nacre_imports"));
    if (!get) fail(ErrorKind::user, "{} does not export `const nacre_import* nacre_imports(size_t* count)`", path);
    std::size_t count = 0;
    const nacre_import* imports = get(&count);
    if (imports) all.insert(all.end(), imports, imports + count);
  }
  return all;
}

std::string library_functions(const Graph& graph) {
  std::set<std::string> functions;
  collect(graph, functions);
  return joined(functions);
}

}  // namespace nacre
