#include "compiler/command/exporter.h"

#include "compiler/support/error.h"
#include "compiler/support/library.h"

namespace nacre {

const Frontend& frontend() {
  static const Frontend& loaded = []() -> const Frontend& {
    const auto get = reinterpret_cast<decltype(&nacre_frontend)>(
        load_symbol("libnacre_exporter.so", "nacre_frontend",
                    "reading PyTorch programs needs libtorch 2.15 (the PyPI package torch): build "
                    "nacre with it, or put its torch/lib folder into LD_LIBRARY_PATH"));
    const Frontend* found = get();
    if (!found || found->version != kFrontendVersion)
      fail(ErrorKind::environment, "libnacre_exporter.so is of another build of nacre");
    return *found;
  }();
  return loaded;
}

}  // namespace nacre
