#include "compiler/graph/text.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>

#include "compiler/support/error.h"

namespace nacre {
namespace {

ValueId tensor(Graph& g, const char* name, std::vector<Expr> shape, nacre_dtype dtype = NACRE_f32) {
  Value v;
  v.name = name;
  v.dtype = dtype;
  v.shape = std::move(shape);
  return g.add_value(std::move(v));
}

// Every argument of the node of `a` is the same in `b`.
void expect_same_arguments(const Node& a, const Node& b) {
  ASSERT_EQ(a.args.size(), b.args.size());
  for (size_t i = 0; i < a.args.size(); ++i) {
    EXPECT_EQ(a.args[i].first, b.args[i].first);
    const auto* x = std::get_if<double>(&a.args[i].second);
    if (x && std::isnan(*x))
      EXPECT_TRUE(std::isnan(std::get<double>(b.args[i].second)) &&
                  std::signbit(*x) == std::signbit(std::get<double>(b.args[i].second)));
    else
      EXPECT_EQ(a.args[i].second, b.args[i].second) << a.args[i].first;
  }
}

TEST(Text, RoundTripsInputsThatAreNumbers) {
  const std::string text =
      "graph forward captured {\n"
      "  symbol s0: [0, inf]\n"
      "  input %any: int(s0) user \"any\"\n"
      "  input %three: int(3) user \"three\"\n"
      "  input %x: float user \"x\"\n"
      "  input %tenth: float(0.1) user \"tenth\"\n"
      "  input %nothing: float(nan) user \"nothing\"\n"
      "  input %b: bool user \"b\"\n"
      "  input %yes: bool(true) user \"yes\"\n"
      "  input %no: bool(false) user \"no\"\n"
      "}\n";
  const Graph graph = parse_graph(text);
  EXPECT_EQ(print(graph), text);
  EXPECT_EQ(graph[3].number, 0.1);
  EXPECT_EQ(graph[6].number, 1);
  EXPECT_EQ(graph[7].number, 0);
  EXPECT_FALSE(graph[2].number || graph[5].number);
  EXPECT_THROW(parse_graph("graph f captured {\n input %x: float(3) user \"x\"\n}\n"), Error);
  EXPECT_THROW(parse_graph("graph f captured {\n input %x: bool(1) user \"x\"\n}\n"), Error);
}

TEST(Text, RoundTripsPathsOfInputsAndOutputs) {
  const std::string text =
      "graph forward captured {\n"
      "  input %x: f32[2] user \"options_a_0\" \"options['a'][0]\"\n"
      "  output %x user \"['logits']\"\n"
      "}\n";
  const Graph graph = parse_graph(text);
  EXPECT_EQ(graph.inputs[0].path, "options['a'][0]");
  EXPECT_EQ(graph.outputs[0].target, "['logits']");
  EXPECT_EQ(print(graph), text);
}

TEST(Text, RoundTripsEveryKindOfArgument) {
  Graph g;
  g.symbols["s0"] = {{2, 64}, 2, 8, std::nullopt};
  const ValueId x = tensor(g, "x", {Expr::symbol("s0"), 64});
  g.inputs.push_back({x, InputKind::user, "x"});
  Node node;
  node.op = "aten.everything.default";
  node.args = {
      {"self", ValueRef{x}},
      {"none", std::monostate()},
      {"tensors", std::vector<ValueRef>{{x}, {kNoValue}, {x}}},
      {"absent_first", std::vector<ValueRef>{{kNoValue}, {x}}},
      {"no_tensors", std::vector<ValueRef>{}},
      {"integer", Expr(-3)},
      {"size", parse_expr("8*s0 + 1")},
      {"symbol", Expr::symbol("s0")},
      {"undeclared", Expr::symbol("u7")},
      {"comparison", parse_expr("s0 <= 4")},
      {"equality", parse_expr("s0 == 4")},
      {"sizes", std::vector<Expr>{1, Expr::symbol("s0"), Expr::symbol("u7")}},
      {"no_sizes", std::vector<Expr>{}},
      {"whole_double", 1.0},
      {"tenth", 0.1},
      {"negative_zero", -0.0},
      {"smallest", std::numeric_limits<double>::denorm_min()},
      {"largest", -std::numeric_limits<double>::max()},
      {"infinity", std::numeric_limits<double>::infinity()},
      {"minus_infinity", -std::numeric_limits<double>::infinity()},
      {"nan", std::numeric_limits<double>::quiet_NaN()},
      {"minus_nan", -std::numeric_limits<double>::quiet_NaN()},
      {"doubles", std::vector<double>{1, 1e300, 0.5}},
      {"no_doubles", std::vector<double>{}},
      {"yes", true},
      {"no", false},
      {"flags", std::vector<bool>{true, false}},
      {"no_flags", std::vector<bool>{}},
      {"text", std::string("a \"quoted\" \\ line\nand # \x01 more, [(")},
      {"empty_text", std::string()},
      {"dtype", NACRE_bf16},
      {"format", Keyword{"contiguous_format"}},
      {"device", Keyword{"cuda:0"}},
      {"like_a_dtype", Keyword{"f32"}},
      {"like_a_symbol", Keyword{"s0"}},
      {"odd keyword", Keyword{"a b"}},
      {"subgraph", SubgraphRef{"body"}},
      {"odd_subgraph", SubgraphRef{"body of loop"}},
  };
  node.where = {"aten.everything.default", "encoder.fc", "model.py", 41};
  node.outputs = {tensor(g, "y", {}), kNoValue, tensor(g, "odd name: 1", {0, 3}, NACRE_i64)};
  g.nodes.push_back(node);
  const std::string text = print(g);
  const Graph back = parse_graph(text);
  ASSERT_EQ(back.nodes.size(), 1u);
  expect_same_arguments(g.nodes[0], back.nodes[0]);
  EXPECT_EQ(back.nodes[0].outputs[1], kNoValue);
  EXPECT_EQ(back[back.nodes[0].outputs[2]].name, "odd name: 1");
  EXPECT_EQ(back.nodes[0].where.module, "encoder.fc");
  EXPECT_EQ(back.nodes[0].where.file, "model.py");
  EXPECT_EQ(back.nodes[0].where.line, 41);
  EXPECT_EQ(print(back), text);
}

TEST(Text, RoundTripsRandomDoublesExactly) {
  std::mt19937_64 engine(3);
  for (int i = 0; i < 2000; ++i) {
    const uint64_t bits = engine();
    double v = 0;
    static_assert(sizeof v == sizeof bits);
    std::memcpy(&v, &bits, sizeof v);
    if (std::isnan(v)) continue;
    Graph g;
    Node node;
    node.op = "aten.f.default";
    node.args = {{"value", v}};
    g.nodes.push_back(node);
    EXPECT_EQ(std::get<double>(parse_graph(print(g)).nodes[0].args[0].second), v);
  }
}

constexpr const char* kWhole = R"(graph forward captured {
  symbol s0: [2, 64] multiple 2 hint 8
  symbol s1: [0, inf] below (s0 + 1)
  symbol u0: [-inf, 5]
  assume s0 + s1 <= 128
  subgraph body graph body captured {
    input %a: f32[4] user "a"
    %b: f32[4] = aten.neg.default(%a)
    output %b user
  }
  input %x: f32[s0, 64] strides [1, s0] offset (s1 + 2) user "x"
  input %n: int(s1) user "n"
  input %f: float user "f"
  input %t: bool user "t"
  input %w: f32[10, 64] parameter "fc.weight"
  input %m: bool[] buffer "mask"
  input %c: i64[2] constant "lifted 0"
  %y: f32[s0, 10] = aten.linear.default(input=%x, weight=%w, bias=none)  # aten.linear.default model.py:41 fc
  %z: f32[s0, 10], none = aten.pair.default(%y)  # aten.pair.default - fc
  %u: int(u0) = aten.item.default(%c)  # aten.item.default
  aten._assert.default(u0 <= 5, message="no")  # - model.py:7
  %l: f32[4] = cond(pred=%t, true_graph=@body, operands=[%y])
  output %z user
  output %n user
  output 8*s0 + 1 user
  output none user
  output 2.5 user
  output %m buffer_mutation "mask"
  output %y input_mutation "x"
}
)";

TEST(Text, PrintsAWholeGraphAsItWasRead) {
  const Graph g = parse_graph(kWhole);
  EXPECT_EQ(print(g), kWhole);
  EXPECT_EQ(g.level, Level::captured);
  EXPECT_EQ(g[g.inputs[0].value].strides.size(), 2u);
  EXPECT_EQ(g.symbols.at("s0").multiple, 2);
  EXPECT_EQ(g.symbols.at("s1").below, parse_expr("s0 + 1"));
  EXPECT_EQ(g.subgraphs.at("body").nodes.size(), 1u);
  EXPECT_EQ(g.outputs[5].kind, OutputKind::buffer_mutation);
}

TEST(Text, OmitsTheNamesOfAPrimitivesOperands) {
  constexpr const char* text = R"(graph forward primitive {
  input %x: f32[2, 3] user "x"
  input %w: f32[3, 4] parameter "w"
  %m: f32[2, 4] = prim.matmul(%x, %w)
  %s: f32[2, 4] = prim.add(%m, %m)
  %j: f32[4, 4] = prim.concat([%s, %m], dim=0)
  %p: f32[4, 4] = prim.permute(%j, dims=[1, 0])
  output %p user
}
)";
  const Graph g = parse_graph(text);
  EXPECT_EQ(print(g), text);
  EXPECT_EQ(g.nodes[1].args[1].first, "b");
  EXPECT_EQ(print(g, g.nodes[0]), "%m: f32[2, 4] = prim.matmul(%x, %w)");
}

TEST(Text, SkipsCommentsAndEmptyLines) {
  const Graph g = parse_graph(
      "# RUN: nacre lower %s\n\n// another\ngraph f primitive {\n"
      "  # CHECK: %y: f32[2] = prim.neg(%x\n  input %x: f32[2] user \"x\"   # of the user\n}\n# "
      "end\n");
  EXPECT_EQ(g.inputs.size(), 1u);
}

TEST(Text, NamesLineAndColumnOfAnError) {
  const std::pair<const char*, const char*> cases[] = {
      {"", "line 0"},
      {"graph f nothing {\n}\n", "line 1, column 9"},
      {"graph f primitive {\n", "does not end"},
      {"graph f primitive {\n  %y: f32[2] = prim.neg(%x)\n}\n",
       "line 2, column 25: %x is not defined"},
      {"graph f primitive {\n  input %x: g32[2] user\n}\n",
       "line 2, column 13: no scalar type 'g32'"},
      {"graph f primitive {\n  input %x: f32[2 user\n}\n", "no ']'"},
      {"graph f primitive {\n  input %x: f32[2] users\n}\n", "KIND"},
      {"graph f primitive {\n  input %x: f32[2+] user\n}\n", "line 2, column 17"},
      {"graph f primitive {\n  input %x: f32[] user\n  input %x: f32[] user\n}\n", "defined twice"},
      {"graph f primitive {\n  %y: f32[] = prim.neg(%y)\n}\n", "%y is not defined"},
      {"graph f primitive {\n  prim.full([2], 1.0)\n}\n", "needs a name"},
      {"graph f primitive {\n  x\n}\n", "OPERATOR(ARGUMENTS)"},
      {"graph f primitive {\n  f(a=\"x)\n}\n", "line 2"},
      {"graph f primitive {\n}\nmore\n", "line 3"},
  };
  for (const auto& [text, expected] : cases) {
    try {
      (void)parse_graph(text);
      FAIL() << text;
    } catch (const Error& e) {
      EXPECT_EQ(e.kind, ErrorKind::user) << text;
      EXPECT_NE(e.message.find(expected), std::string::npos) << e.message;
    }
  }
}

// Whatever a file holds, reading it ends with a graph or with Error{user}.
TEST(Text, SurvivesDamagedText) {
  std::mt19937 engine(11);
  const std::string whole = kWhole;
  const std::string alphabet = "%[](){}\",:=#@ \n\\x0s9.-e";
  for (int round = 0; round < 4000; ++round) {
    std::string text = whole;
    for (int edits = 1 + static_cast<int>(engine() % 4); edits > 0; --edits) {
      const size_t at = engine() % text.size();
      switch (engine() % 3) {
        case 0:
          text.erase(at, 1 + engine() % 8);
          break;
        case 1:
          text.insert(at, 1, alphabet[engine() % alphabet.size()]);
          break;
        default:
          text[at] = alphabet[engine() % alphabet.size()];
      }
      if (text.empty()) text = "g";
    }
    try {
      const Graph g = parse_graph(text);
      EXPECT_EQ(print(parse_graph(print(g))), print(g));
    } catch (const Error& e) {
      EXPECT_NE(e.kind, ErrorKind::internal) << e.message << "\n" << text;
    }
  }
}

TEST(Text, SaysWhereANodeCameFrom) {
  EXPECT_EQ(where_text({"aten.linear.default", "encoder.fc", "model.py", 41}),
            "model.py:41, encoder.fc (aten.linear.default)");
  EXPECT_EQ(where_text({"aten.linear.default", "", "", 0}), "aten.linear.default");
  EXPECT_EQ(where_text({"", "fc", "", 0}), "fc");
}

}  // namespace
}  // namespace nacre
