// What a traced program gives, against what was traced.
#pragma once

#include <ATen/core/Tensor.h>
#include <gtest/gtest.h>

#include <cstring>
#include <vector>

#include "compiler/graph/text.h"
#include "exporter/aten.h"
#include "exporter/eager.h"

namespace nacre {

// Graph outputs (results, then state) on the program's sample inputs, to the bit.
inline void expect_same(const Program& program, const std::vector<at::Tensor>& expected) {
  const std::vector<HostTensor> got = run_eager(program.graph, program.weights, program.sample_inputs, OracleType::own);
  ASSERT_EQ(got.size(), expected.size()) << print(program.graph);
  for (size_t i = 0; i < got.size(); ++i) {
    const HostTensor want = aten::to_host(expected[i]);
    EXPECT_EQ(got[i].shape, want.shape) << i;
    ASSERT_EQ(got[i].size_bytes, want.size_bytes) << i;
    EXPECT_EQ(std::memcmp(got[i].data.get(), want.data.get(), want.size_bytes), 0) << "output " << i << "\n" << print(program.graph);
  }
}

}  // namespace nacre
