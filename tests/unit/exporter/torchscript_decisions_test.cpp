// Decisions on data: the captured graph, and the functional one, must give what libtorch's own interpreter gives on inputs
// that take every course.
#include <ATen/ScalarOps.h>

#include "exporter/functionalize.h"
#include "exporter/value_tree.h"
#include "tests/unit/exporter/torchscript_fixture.h"

namespace nacre {
namespace {

class TorchScriptControl : public TorchScript {
 protected:
  // Traces with the first call; `state` are attributes that the module changes, in the order of the outputs.
  Program follows(const std::string& source, const std::vector<std::vector<Example>>& calls, const std::vector<std::string>& state = {}) {
    const jit::Module m = module(source);
    const Program traced = load(calls[0]);
    for (const std::vector<Example>& call : calls) {
      Program program = traced;
      program.sample_inputs.clear();
      const jit::Module fresh = m.deepcopy();
      std::vector<c10::IValue> arguments;
      for (const Example& e : call) {
        program.sample_inputs.push_back(e.tensor);
        arguments.emplace_back(aten::borrow(e.tensor).clone());
      }
      std::vector<at::Tensor> expected = numbers_too(fresh.get_method("forward")(arguments));
      for (const std::string& name : state) expected.push_back(fresh.attr(name).toTensor());
      expect_same(program, expected);
      program.graph = functionalize(traced.graph);
      verify(program.graph);
      expect_same(program, expected);
    }
    return traced;
  }
  void refuses(const std::string& source, const std::vector<Example>& examples, const std::string& words) {
    module(source);
    const std::string text = refusal(examples);
    EXPECT_NE(text.find(words), std::string::npos) << text;
  }
  static size_t count(const Graph& graph, const std::string& op) {
    size_t found = 0;
    for (const Node& node : graph.nodes) found += node.op == op;
    return found;
  }

 private:
  static std::vector<at::Tensor> numbers_too(const c10::IValue& value) {
    std::vector<at::Tensor> found;
    if (value.isTuple() || value.isList()) {
      for (const c10::IValue& item : items_of(value))
        for (const at::Tensor& t : numbers_too(item)) found.push_back(t);
    } else if (value.isTensor()) {
      found.push_back(value.toTensor());
    } else if (value.isScalar()) {
      found.push_back(c10::scalar_to_tensor(value.toScalar()));
    }
    return found;
  }
};

TEST_F(TorchScriptControl, BranchesCaptureTensorsAndWeights) {
  const Program program = follows(R"(
def forward(self, x):
    y = x.sin()
    if bool(x.sum() > 0):
        z, parts = torch.mv(self.weight, y), [y, x]
    else:
        z, parts = self.total - 1, [x, y * 2]
    return z.cos(), parts
)",
                                  {{vector({1, 2, 3, 4})}, {vector({-1, -2, -3, -4})}});
  ASSERT_EQ(count(program.graph, "higher_order.cond"), 1u) << print(program.graph);
}

TEST_F(TorchScriptControl, BranchesNestAndChain) {
  follows(R"(
def forward(self, x):
    if bool(x[0] > 3):
        if bool(x[1] > 0):
            y = x * 2
        else:
            y = x - self.weight[0]
    elif bool(x[0] > 1) and bool(x[1] > 0):
        y = x.exp()
    elif not bool(x[0] > 0) or float(x.sum()) < -2.5:
        y = x.abs()
    else:
        y = x
    return y + 1
)",
          {{vector({4, 1, 0, 0})},
           {vector({4, -1, 0, 0})},
           {vector({2, 1, 0, 0})},
           {vector({2, -1, 0, 0})},
           {vector({0.5, -9, 0, 0})},
           {vector({-1, 0, 0, 0})}});
}

TEST_F(TorchScriptControl, ReturnsEarly) {
  follows(R"(
def forward(self, x):
    if bool(x.sum() > 10):
        return x * 2
    y = x + 1
    if bool(y.max() < 0):
        return y.neg()
    return y.cumsum(0)
)",
          {{vector({8, 3})}, {vector({-8, -3})}, {vector({1, 2})}});
}

TEST_F(TorchScriptControl, LoopsUntilTheDataSaySo) {
  const Program program = follows(R"(
def forward(self, x):
    y = torch.ones_like(x)
    error = 1.0
    rounds = 0
    while error > 1e-4 and rounds < 30:
        z = 0.5 * (y + x / y)
        error = float((z - y).abs().max())
        y = z
        rounds += 1
    return y, rounds
)",
                                  {{vector({2, 9})}, {vector({1, 1})}, {vector({1e6, 3})}});
  EXPECT_EQ(count(program.graph, "higher_order.while_loop"), 1u) << print(program.graph);
}

TEST_F(TorchScriptControl, LoopsAsOftenAsATensorSays) {
  follows(R"(
def forward(self, x, n):
    total = torch.zeros_like(x)
    for i in range(int(n)):
        total = total + x[i] * i
        if bool(total.sum() > 20):
            total = total - 30
            break
    steps = 0
    for i in range(1, int(n), 2):
        steps = steps + i
    return total, steps
)",
          {{vector({1, 2, 3}), vector({2})}, {vector({1, 2, 3}), vector({0})}, {vector({5, 9, 3}), vector({3})}});
}

TEST_F(TorchScriptControl, EndsALoopOfKnownLengthEarly) {
  follows(R"(
def forward(self, x):
    y = x
    for i in range(3):
        if bool(y.sum() > 10):
            break
        y = y * 2 + self.weight[i]
    return y
)",
          {{vector({1, 1, 1, 1})}, {vector({9, 9, 9, 9})}, {vector({-90, 1, 1, 1})}});
}

TEST_F(TorchScriptControl, ComputesWithNumbersFromTensors) {
  const Program program = follows(R"(
def forward(self, x):
    a = float(x[0]) / 3 - 1
    n = int(x[1]) // 2 + 7 % 4
    flag = a > 0 and n != 2
    y = x * a + n
    y = torch.clamp(y, -1.0, a * a + 1.0)
    return y.pow(2), torch.tensor([a, 1.0]), torch.full([2, 2], a), n, flag
)",
                                  {{vector({1, 2, 3})}, {vector({5.5, -3, 0})}, {vector({9, 100, -4})}});
  EXPECT_EQ(count(program.graph, "higher_order.cond"), 1u);
}

TEST_F(TorchScriptControl, KeepsStateThatABranchSets) {
  const std::string source = R"(
def forward(self, x):
    if bool(x.sum() > 0):
        self.total = self.total + x
    return self.total * 2
)";
  follows(source, {{vector({1, 2, 3})}, {vector({-1, -2, -3})}}, {"total"});
  follows(source, {{vector({-1, -2, -3})}, {vector({1, 2, 3})}}, {"total"});
}

TEST_F(TorchScriptControl, WritesToBuffersInABranch) {
  const std::string source = R"(
def forward(self, x):
    if bool(x.sum() > 0):
        self.total[1:].add_(x[1:])
    else:
        self.total.fill_(7)
    return self.total + x
)";
  follows(source, {{vector({1, 2, 3})}, {vector({-1, -2, -3})}}, {"total"});
  follows(source, {{vector({-1, -2, -3})}, {vector({1, 2, 3})}}, {"total"});
}

TEST_F(TorchScriptControl, WritesInALoop) {
  follows(R"(
def forward(self, x):
    y = x.clone()
    while bool(y.sum() < 20):
        y += x.abs() + 1
        self.total.mul_(0.5).add_(y)
    return y
)",
          {{vector({1, 2, 3})}, {vector({-1, -2, -3})}, {vector({30, 0, 0})}}, {"total"});
}

TEST_F(TorchScriptControl, SetsStateInALoop) {
  follows(R"(
def forward(self, x):
    while bool(x.sum() < 20):
        x = x * 2 + 1
        self.total = self.total + x
    return x
)",
          {{vector({1, 2, 3})}, {vector({0, -2, 3})}, {vector({30, 0, 0})}}, {"total"});
}

TEST_F(TorchScriptControl, LoopsNestAndSwapVariables) {
  follows(R"(
def forward(self, x):
    first, second, start = x, x, x
    while bool((first + second).sum() < 30):
        if bool(first.sum() < 8):
            while bool(first.min() < 2):
                first = first + start.abs() + 0.5
        else:
            second = second + self.total + 1
        first, second = second * 1.5 + 1, first
    return (first, second), start
)",
          {{vector({1, 2, 3})}, {vector({-1, -2, -3})}, {vector({30, 0, 0})}});
}

TEST_F(TorchScriptControl, WritesAfterABranch) {
  follows(R"(
def forward(self, x):
    y = x.exp()
    if bool(x.sum() > 0):
        y = y * 2
    y += x
    if bool(y.sum() > 10):
        y.mul_(0.5)
    return y
)",
          {{vector({1, 2, 3})}, {vector({-1, -2, -3})}, {vector({0.5, 0, 0})}});
}

TEST_F(TorchScriptControl, AssertsWhatTheModelRaises) {
  const jit::Module m = module(R"(
def forward(self, x):
    assert bool(x.min() > 0), "only above zero"
    if bool(x.max() > 1):
        assert bool(x.max() < 9), "too much"
    return x.log()
)");
  Program program = load({vector({1, 2, 3})});
  expect_same(program, {aten::borrow(vector({1, 2, 3}).tensor).log()});
  const auto error = [&](const std::vector<float>& values) -> std::string {
    try {
      run_eager(functionalize(program.graph), program.weights, {vector(values).tensor}, OracleType::own);
    } catch (const Error& e) {
      return e.what();
    }
    return "none";
  };
  EXPECT_NE(error({1, -2, 3}).find("only above zero"), std::string::npos) << error({1, -2, 3});
  EXPECT_NE(error({1, 2, 30}).find("too much"), std::string::npos) << error({1, 2, 30});
  EXPECT_EQ(error({1, 2, 3}), "none");
  const std::string text = refusal({vector({-1, 2, 3})});
  EXPECT_NE(text.find("the model raises AssertionError: only above zero"), std::string::npos) << text;
}

TEST_F(TorchScriptControl, TheOtherBranchLeavesNoTrace) {
  follows(R"(
def forward(self, x):
    y = x * 2
    if bool(x.sum() > 100):
        y.zero_()
        self.total = y
    z = y + 1
    if x.size(0) == 3:
        z = z * y
    return z
)",
          {{vector({1, 2, 3})}, {vector({100, 2, 3})}}, {"total"});
}

TEST_F(TorchScriptControl, RefusesWhatHasNoGraph) {
  const std::string head = "def forward(self, x):\n";
  const Example x = vector({1, 2, 3});
  refuses(head + "    if bool(x.sum() > 0):\n        return x[1:]\n    return x\n", {x}, "Float[2] and Float[3]");
  refuses(head + "    y: Optional[Tensor] = None\n    if bool(x.sum() > 0):\n        y = x\n    if y is None:\n        return x\n    return y * 2\n",
          {x}, "values that are no results of one graph");
  refuses(head + "    parts = [x]\n    if bool(x.sum() > 0):\n        parts.append(x)\n    return torch.cat(parts)\n", {x},
          "changes a list or dictionary from outside");
  refuses(head + "    while bool(x.sum() < 100):\n        x = torch.cat([x, x])\n    return x\n", {x},
          "a variable that changes from Float[3] to Float[6]");
  refuses(head + "    return torch.zeros([int(x[0])])\n", {x}, "takes `size` of aten.zeros.default from the values of a tensor");
  refuses(head + "    if torch.allclose(x, x):\n        return x\n    return -x\n", {x},
          "the model decides by the value of a tensor (aten.allclose.default)");
  refuses(head + "    if bool(x.sum() > 0):\n        self.calls = 3\n    return x\n", {x},
          "the attribute `calls` becomes a number that depends on the values");
  refuses(head + "    y = x\n    if bool(x.sum() > 0):\n        y = x * 2\n    y.add_(1)\n    return y\n", {x},
          "writes in place to what a decision on data");
  refuses(head + "    x[int(x[0])].fill_(1.0)\n    return x\n", {x}, "a part of a tensor whose index depends on data");
}

}  // namespace
}  // namespace nacre
