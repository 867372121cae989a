#include "compiler/frontend.h"

#include "exporter/eager.h"
#include "exporter/functionalize.h"
#include "exporter/overlap.h"
#include "exporter/pt2.h"
#include "exporter/torchscript.h"

extern "C" const nacre::Frontend* nacre_frontend() {
  static const nacre::Frontend frontend = {
      nacre::kFrontendVersion,
      [](const std::string& path) { return nacre::load_pt2(path); },
      [](const std::string& path) { return nacre::is_torchscript(path); },
      [](const std::string& path, const std::string& method, const std::vector<nacre::Example>& examples) {
        return nacre::load_torchscript(path, method, examples);
      },
      [](const nacre::Graph& captured) { return nacre::functionalize(captured); },
      [](const nacre::Graph& captured) { return nacre::overlapping(captured); },
      [](const nacre::Graph& graph, const std::map<std::string, nacre::HostTensor>& weights,
         const std::vector<nacre::HostTensor>& inputs, nacre::OracleType type) {
        return nacre::run_eager(graph, weights, inputs, type);
      },
      [](const nacre::Graph& graph, const std::map<std::string, nacre::HostTensor>& weights,
         const std::vector<nacre::HostTensor>& inputs, size_t most) {
        return nacre::body_calls(graph, weights, inputs, most);
      },
  };
  return &frontend;
}
