// Modules that are defined as TorchScript source, saved, read back and traced.
#pragma once

#include <ATen/Functions.h>
#include <gtest/gtest.h>
#include <torch/csrc/jit/api/module.h>
#include <unistd.h>

#include <filesystem>
#include <string>
#include <vector>

#include "compiler/graph/text.h"
#include "compiler/graph/verify.h"
#include "compiler/support/error.h"
#include "exporter/aten.h"
#include "exporter/torchscript.h"
#include "tests/unit/exporter/expect_same.h"

namespace nacre {

namespace jit = torch::jit;
namespace fs = std::filesystem;

class TorchScript : public ::testing::Test {
 protected:
  ~TorchScript() override { fs::remove(path_); }

  // A module with a parameter `weight`, a buffer `total` and an attribute `state` that is empty at first.
  jit::Module module(const std::string& source) {
    jit::Module m("Model");
    m.register_parameter("weight", at::arange(12, at::kFloat).reshape({3, 4}), false);
    m.register_buffer("total", at::zeros({3}));
    m.register_attribute("state", c10::TensorType::get(), at::zeros({0}));
    m.register_attribute("calls", c10::IntType::get(), int64_t{0});
    m.define(source);
    m.save(path_.string());
    return m;
  }
  Program load(const std::vector<Example>& examples, const std::string& method = "forward") {
    Program program = load_torchscript(path_, method, examples);
    verify(program.graph);
    EXPECT_EQ(print(parse_graph(print(program.graph))), print(program.graph));
    return program;
  }
  std::string refusal(const std::vector<Example>& examples) {
    try {
      load(examples);
    } catch (const Error& error) {
      return error.what();
    }
    return "accepted";
  }

  static Example tensor(std::vector<int64_t> shape) {
    std::byte* bytes = nullptr;
    Example e;
    e.kind = Example::Kind::tensor;
    e.tensor = make_tensor(NACRE_f32, std::move(shape), &bytes);
    for (int64_t i = 0; i < e.tensor.elements(); ++i) reinterpret_cast<float*>(bytes)[i] = static_cast<float>(i % 7) - 2.5f;
    return e;
  }
  static Example vector(const std::vector<float>& values) {
    Example e = tensor({static_cast<int64_t>(values.size())});
    aten::borrow(e.tensor).copy_(at::tensor(values));
    return e;
  }
  static Example integer(int64_t value) {
    Example e;
    e.kind = Example::Kind::integer;
    e.integer = value;
    return e;
  }

  fs::path path_ = fs::temp_directory_path() / ("nacre_torchscript_" + std::to_string(::getpid()) + ".pt");
};

}  // namespace nacre
