// Modules are defined as TorchScript source, saved, read back and traced; the captured graph must give what libtorch's
// own interpreter gives.
#include "tests/unit/exporter/torchscript_fixture.h"

namespace nacre {
namespace {

TEST_F(TorchScript, UnrollsLoopsAndTakesBranchesOnSizes) {
  jit::Module m = module(R"(
def forward(self, x, n: int):
    parts = [x]
    for i in range(n):
        if x.size(0) > 2 and i % 2 == 0:
            parts.append(parts[-1] + i)
        else:
            parts.append(parts[-1].mul(2.0))
    return torch.cat(parts, 1), x.size(0)
)");
  EXPECT_TRUE(is_torchscript(path_));
  const Program program = load({tensor({3, 4}), integer(3)});
  const auto result = m.forward({aten::borrow(tensor({3, 4}).tensor), int64_t{3}}).toTuple()->elements();
  ASSERT_EQ(program.graph.outputs.size(), 2u);
  EXPECT_TRUE(std::get<Expr>(program.graph.outputs[1].value).is(3));
  Program tensors_only = program;
  tensors_only.graph.outputs.pop_back();
  expect_same(tensors_only, {result[0].toTensor()});
}

TEST_F(TorchScript, TakesListsApart) {
  jit::Module m = module(R"(
def forward(self, x):
    rows, columns = x.shape
    a, b = x.split(2, 1)
    c, d, e = x.unbind()
    return a * rows + b * columns, c + d * e
)");
  const Program program = load({tensor({3, 4})});
  const auto result = m.forward({aten::borrow(tensor({3, 4}).tensor)}).toTuple()->elements();
  expect_same(program, {result[0].toTensor(), result[1].toTensor()});
  EXPECT_NE(refusal({tensor({2, 4})}).find("takes a list of 3 values apart, and this one has 2"), std::string::npos) << refusal({tensor({2, 4})});
}

TEST_F(TorchScript, FormatsText) {
  jit::Module m = module(R"(
def forward(self, x):
    name = "{}-{}".format(x.size(0), x.size(1)) + "%d%s" % (x.dim(), "a")
    print("of", name)
    return x * 2 if name == "3-42a" else x * len(name)
)");
  const Program program = load({tensor({3, 4})});
  expect_same(program, {m.forward({aten::borrow(tensor({3, 4}).tensor)}).toTensor()});
  EXPECT_EQ(program.graph.nodes.size(), 1u) << print(program.graph);
}

TEST_F(TorchScript, NamesWeightsAndPythonLines) {
  module("def forward(self, x):\n    return torch.linear(x, self.weight)\n");
  const Program program = load({tensor({2, 4})});
  ASSERT_EQ(program.graph.inputs.size(), 2u);
  EXPECT_EQ(program.graph.inputs[1].target, "weight");
  EXPECT_EQ(program.graph.inputs[1].kind, InputKind::parameter);
  ASSERT_EQ(program.graph.nodes.size(), 1u);
  EXPECT_EQ(program.graph.nodes[0].op, "aten.linear.default");
  EXPECT_EQ(program.graph.nodes[0].where.line, 2);
}

TEST_F(TorchScript, WritesToBuffersInPlace) {
  jit::Module m = module("def forward(self, x):\n    self.total[1:].add_(x.sum(0)[1:])\n    return self.total * 2\n");
  const Program program = load({tensor({2, 3})});
  const at::Tensor result = m.forward({aten::borrow(tensor({2, 3}).tensor)}).toTensor();
  expect_same(program, {result, m.attr("total").toTensor()});
  EXPECT_EQ(program.graph.outputs[1].kind, OutputKind::buffer_mutation);
  EXPECT_EQ(program.graph.outputs[1].target, "total");
}

TEST_F(TorchScript, TakesAParameterThatIsWrittenForState) {
  jit::Module m = module(R"(
def forward(self, x):
    self.weight.mul_(0.5)
    return x * self.weight if bool(self.weight.sum() > 20) else x - self.weight
)");
  const Program program = load({tensor({3, 4})});
  const at::Tensor result = m.forward({aten::borrow(tensor({3, 4}).tensor)}).toTensor();
  expect_same(program, {result, m.attr("weight").toTensor()});
  EXPECT_EQ(program.graph.outputs[1].kind, OutputKind::buffer_mutation);
  EXPECT_EQ(program.graph.inputs[1].kind, InputKind::buffer);
  EXPECT_EQ(program.graph.subgraphs.size(), 2u) << print(program.graph);
}

TEST_F(TorchScript, WritesToInputsInPlace) {
  module("def forward(self, x):\n    x.add_(1)\n    return x.clone()\n");
  const Program program = load({tensor({2, 3})});
  const at::Tensor x = aten::borrow(tensor({2, 3}).tensor).add(1);
  expect_same(program, {x, x});
  EXPECT_EQ(program.graph.outputs[1].kind, OutputKind::input_mutation);
}

constexpr const char* kRecurrent = R"(
def forward(self, x):
    if len(self.state) == 0:
        self.state = torch.zeros([2, 3])
    self.calls = 1
    self.state = torch.tanh(x + self.state)
    return self.state.sum(1)
)";

TEST_F(TorchScript, StartsStateThatIsEmptyAtFirstFromZeros) {
  jit::Module m = module(kRecurrent);
  const Program program = load({tensor({2, 3})});
  EXPECT_EQ(program.weights.at("state").shape, (std::vector<int64_t>{2, 3}));
  const at::Tensor result = m.forward({aten::borrow(tensor({2, 3}).tensor)}).toTensor();
  expect_same(program, {result, m.attr("state").toTensor()});
}

TEST_F(TorchScript, RefusesAFirstCallThatZerosDoNotStandFor) {
  std::string source = kRecurrent;
  source.replace(source.find("torch.zeros"), 11, "torch.ones");
  module(source);
  EXPECT_NE(refusal({tensor({2, 3})}).find("the first call of forward computes something else than later ones"), std::string::npos);
}

TEST_F(TorchScript, RefusesStateThatGrows) {
  module("def forward(self, x):\n    self.state = torch.cat([self.state, x])\n    return self.state.sum()\n");
  EXPECT_NE(refusal({tensor({3})}).find("the state `state` changes from call to call, from Float[3] to Float[6]"), std::string::npos)
      << refusal({tensor({3})});
}

TEST_F(TorchScript, TellsWhatTheModelRaises) {
  module("def forward(self, x):\n    assert x.dim() == 2, 'two dimensions please'\n    return x\n");
  const std::string text = refusal({tensor({3})});
  EXPECT_NE(text.find("two dimensions please"), std::string::npos) << text;
}

TEST_F(TorchScript, WantsTheRightExamples) {
  module("def forward(self, x, n: int):\n    return x + n\n");
  EXPECT_NE(refusal({tensor({3})}).find("every argument needs an example"), std::string::npos);
  EXPECT_NE(refusal({tensor({3}), tensor({1})}).find("forward"), std::string::npos);
  EXPECT_THROW(load({tensor({3}), integer(1)}, "backward"), Error);
  EXPECT_THROW(load({tensor({3}), integer(1)}, "encoder.forward"), Error);
}

}  // namespace
}  // namespace nacre
