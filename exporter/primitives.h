// Each primitive of ops.def by the ATen operator that defines it: what everything after the
// primitive graph is compared with.
#pragma once

#include <vector>

#include "exporter/aten.h"

namespace nacre {

std::vector<c10::IValue> run_primitive(const Graph& graph, const Node& node,
                                       const aten::Environment& environment);

}  // namespace nacre
