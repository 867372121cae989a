// Programs in the form of torch.export's archive, written here by hand, and every way in which such
// a file can be damaged.
#include "exporter/pt2.h"

#include <gtest/gtest.h>
#include <zip.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <random>

#include "compiler/graph/text.h"
#include "compiler/graph/verify.h"
#include "compiler/support/error.h"
#include "compiler/support/file.h"
#include "exporter/eager.h"
#include "exporter/functionalize.h"

namespace nacre {
namespace {

using nlohmann::json;
using Records = std::map<std::string, std::string>;

json size(const json& value) {
  if (value.is_number()) return {{"as_int", value}};
  return {{"as_expr", {{"expr_str", value}, {"hint", {{"as_int", 4}}}}}};
}

json tensor(const std::vector<json>& sizes, const std::vector<json>& strides, int dtype = 7,
            int offset = 0) {
  json s = json::array(), t = json::array();
  for (const json& v : sizes) s.push_back(size(v));
  for (const json& v : strides) t.push_back(size(v));
  return {{"dtype", dtype},
          {"sizes", s},
          {"requires_grad", false},
          {"device", {{"type", "cpu"}, {"index", nullptr}}},
          {"strides", t},
          {"storage_offset", {{"as_int", offset}}},
          {"layout", 7}};
}

json named(const std::string& name) { return {{"as_tensor", {{"name", name}}}}; }

// forward(x: [s0, 3]): self.count.add_(1); return relu(x @ w.t()) + self.count, x.shape[0]; w is
// the second half of a storage.
Records program() {
  const json s0 = "Symbol('s0', positive=True, integer=True)";
  const std::string frame =
      "File \"/home/me/project/model.py\", line 12, in forward\n    return torch.relu(x)\n"
      "  File \"/venv/lib/python3.11/site-packages/torch/nn/functional.py\", line 99, in relu\n";
  auto node = [&](const std::string& target, const std::vector<json>& inputs,
                  const std::vector<json>& outputs) {
    return json{{"target", target},
                {"inputs", inputs},
                {"outputs", outputs},
                {"name", nullptr},
                {"is_hop_single_tensor_return", nullptr},
                {"metadata",
                 {{"stack_trace", frame},
                  {"nn_module_stack", "L__self__,,model.Net;L__self___fc,fc,torch.nn.Linear"}}}};
  };
  auto in = [](const std::string& name, const json& arg) {
    return json{{"name", name}, {"arg", arg}, {"kind", 1}};
  };
  json sym = {{"as_sym_int", {{"as_name", "sym_size_int"}}}};
  json graph = {
      {"inputs", {named("p_w"), named("b_count"), named("x")}},
      {"outputs", {named("add"), sym}},
      {"nodes",
       {node("torch.ops.aten.add_.Tensor",
             {in("self", named("b_count")), in("other", {{"as_int", 1}})}, {named("add_")}),
        node("torch.ops.aten.sym_size.int", {in("self", named("x")), in("dim", {{"as_int", 0}})},
             {sym}),
        node("torch.ops.aten.linear.default", {in("input", named("x")), in("weight", named("p_w"))},
             {named("linear")}),
        node("torch.ops.aten.relu.default", {in("self", named("linear"))}, {named("relu")}),
        node("torch.ops.aten.add.Tensor",
             {in("self", named("relu")), in("other", named("b_count"))}, {named("add")})}},
      {"tensor_values",
       {{"p_w", tensor({2, 3}, {3, 1}, 7, 6)},
        {"b_count", tensor({}, {})},
        {"x", tensor({s0, 3}, {3, 1})},
        {"add_", tensor({}, {})},
        {"linear", tensor({s0, 2}, {2, 1})},
        {"relu", tensor({s0, 2}, {2, 1})},
        {"add", tensor({s0, 2}, {2, 1})}}},
      {"sym_int_values", {{"sym_size_int", size(s0)}}},
      {"sym_bool_values", json::object()},
      {"sym_float_values", json::object()},
      {"custom_obj_values", json::object()},
      {"is_single_tensor_return", false}};
  json leaf = {{"type", nullptr}, {"context", nullptr}, {"children_spec", json::array()}};
  json spec = {
      1,
      {{"type", "builtins.tuple"},
       {"context", "null"},
       {"children_spec",
        {{{"type", "builtins.tuple"}, {"context", "null"}, {"children_spec", json::array({leaf})}},
         {{"type", "builtins.dict"}, {"context", "[]"}, {"children_spec", json::array()}}}}}};
  json results = {
      1,
      {{"type", "builtins.tuple"}, {"context", "null"}, {"children_spec", {leaf, leaf}}}};
  json signature = {
      {"input_specs",
       {{{"parameter", {{"arg", {{"name", "p_w"}}}, {"parameter_name", "fc.weight"}}}},
        {{"buffer",
          {{"arg", {{"name", "b_count"}}}, {"buffer_name", "count"}, {"persistent", true}}}},
        {{"user_input", {{"arg", named("x")}}}}}},
      {"output_specs",
       {{{"user_output", {{"arg", named("add")}}}}, {{"user_output", {{"arg", sym}}}}}}};
  json module = {{"graph", graph},
                 {"signature", signature},
                 {"metadata", json::object()},
                 {"treespec_namedtuple_fields", json::object()},
                 {"module_call_graph", json::array({{{"fqn", ""},
                                                     {"signature",
                                                      {{"inputs", json::array()},
                                                       {"outputs", json::array()},
                                                       {"in_spec", spec.dump()},
                                                       {"out_spec", results.dump()},
                                                       {"forward_arg_names", {"x"}}}}}})}};
  json file = {{"graph_module", module},
               {"opset_version", {{"aten", 10}}},
               {"range_constraints", {{"s0", {{"min_val", 2}, {"max_val", nullptr}}}}},
               {"schema_version", {{"major", 8}, {"minor", 20}}},
               {"guards_code", {"(L['x'].size()[0] % 2) == 0", "L['x'].size()[0] <= 64"}},
               {"torch_version", "2.15.0"},
               {"verifiers", {"TRAINING"}}};
  auto payload = [](const std::string& record, bool parameter, const json& meta) {
    return json{{"path_name", record},
                {"is_param", parameter},
                {"use_pickle", false},
                {"tensor_meta", meta}};
  };
  json weights = {{"config",
                   {{"fc.weight", payload("weight_0", true, tensor({2, 3}, {3, 1}, 7, 6))},
                    {"count", payload("weight_1", false, tensor({}, {}))}}}};
  std::string storage(48, '\0'), count(4, '\0');
  for (int i = 0; i < 12; ++i) {
    float v = static_cast<float>(i) - 8;
    std::memcpy(storage.data() + 4 * i, &v, 4);
  }
  return {{"models/model.json", file.dump()},
          {"data/weights/model_weights_config.json", weights.dump()},
          {"data/weights/weight_0", storage},
          {"data/weights/weight_1", count},
          {"data/constants/model_constants_config.json", R"({"config": {}})"},
          {"archive_format", "pt2"},
          {"archive_version", "0"},
          {"byteorder", "little"},
          {".data/version", "3\n"}};
}

class Pt2 : public ::testing::Test {
 protected:
  void SetUp() override {
    path_ = std::filesystem::temp_directory_path() /
            ("nacre_pt2_test_" + std::to_string(::getpid()) + ".pt2");
  }
  void TearDown() override { std::filesystem::remove(path_); }

  void write(const Records& records) {
    std::filesystem::remove(path_);
    int error = 0;
    zip_t* archive = zip_open(path_.c_str(), ZIP_CREATE | ZIP_TRUNCATE, &error);
    ASSERT_NE(archive, nullptr);
    for (const auto& [name, bytes] : records) {
      zip_source_t* source = zip_source_buffer(archive, bytes.data(), bytes.size(), 0);
      zip_int64_t index = zip_file_add(archive, ("m/" + name).c_str(), source, 0);
      ASSERT_GE(index, 0);
      zip_set_file_compression(archive, static_cast<zip_uint64_t>(index), ZIP_CM_STORE, 0);
    }
    ASSERT_EQ(zip_close(archive), 0);
  }
  void write_raw(const std::string& bytes) {
    std::ofstream(path_, std::ios::binary)
        .write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  }
  // The kind and message of the error that loading ends with.
  std::pair<ErrorKind, std::string> error() {
    try {
      load_pt2(path_);
    } catch (const Error& e) {
      return {e.kind, e.what()};
    }
    return {ErrorKind::internal, "no error"};
  }
  std::pair<ErrorKind, std::string> error_of(const std::function<void(json&)>& edit) {
    Records records = program();
    json file = json::parse(records["models/model.json"]);
    edit(file);
    records["models/model.json"] = file.dump();
    write(records);
    return error();
  }

  std::filesystem::path path_;
};

TEST_F(Pt2, ReadsGraphSymbolsWeightsAndProvenance) {
  write(program());
  Program p = load_pt2(path_);
  verify(p.graph);
  const Graph& g = p.graph;
  ASSERT_EQ(g.nodes.size(), 4u) << print(g);  // the size of x is an expression
  EXPECT_EQ(g.nodes[2].op, "aten.relu.default");
  EXPECT_EQ(g.nodes[2].where.file, "model.py");
  EXPECT_EQ(g.nodes[2].where.line, 12);
  EXPECT_EQ(g.nodes[2].where.module, "fc");
  const SymbolFacts& s0 = g.symbols.at("s0");
  EXPECT_EQ(s0.range.min, 0);  // as PyTorch, which lets sizes "from 2 on" be 0 and 1
  EXPECT_EQ(s0.range.max, 64);
  EXPECT_EQ(s0.multiple, 2);
  EXPECT_EQ(s0.hint, 4);
  ASSERT_EQ(g.outputs.size(), 3u);
  EXPECT_EQ(std::get<Expr>(g.outputs[1].value), Expr::symbol("s0"));
  EXPECT_EQ(g.outputs[2].kind, OutputKind::buffer_mutation);
  EXPECT_EQ(g.outputs[2].target, "count");
  const HostTensor& w = p.weights.at("fc.weight");
  EXPECT_EQ(w.shape, (std::vector<int64_t>{2, 3}));
  EXPECT_EQ(w.as<float>()[0], -2);  // the storage's seventh number
  EXPECT_TRUE(p.sample_inputs.empty());
}

TEST_F(Pt2, RunsWhatItRead) {
  write(program());
  Program p = load_pt2(path_);
  std::byte* bytes = nullptr;
  HostTensor x = make_tensor(NACRE_f32, {2, 3}, &bytes);
  for (int i = 0; i < 6; ++i) reinterpret_cast<float*>(bytes)[i] = static_cast<float>(i);
  auto results = run_eager(p.graph, p.weights, {x}, OracleType::own);
  // [0 1 2] . [-2 -1 0] = -1, . [1 2 3] = 8; [3 4 5] . = -10, 26; relu, and the counter's 1 is
  // added.
  EXPECT_EQ(results[0].as<float>()[0], 1);
  EXPECT_EQ(results[0].as<float>()[1], 9);
  EXPECT_EQ(results[0].as<float>()[2], 1);
  EXPECT_EQ(results[0].as<float>()[3], 27);
  EXPECT_EQ(results[1].as<int64_t>()[0], 2);
  EXPECT_EQ(results[2].as<float>()[0], 1);
  EXPECT_EQ(p.weights.at("count").as<float>()[0], 0);  // a run leaves the program as it was
}

TEST_F(Pt2, RefusesWhatIsNoArchive) {
  write_raw("");
  EXPECT_EQ(error().first, ErrorKind::user);
  write_raw("PK");
  EXPECT_EQ(error().first, ErrorKind::user);
  write_raw("this is text");
  EXPECT_EQ(error().first, ErrorKind::user);
  path_ = std::filesystem::temp_directory_path();
  EXPECT_EQ(error().first, ErrorKind::environment);
  path_ = "/nonexistent/model.pt2";
  EXPECT_EQ(error().first, ErrorKind::environment);
}

TEST_F(Pt2, NamesTheRecordThatIsMissing) {
  for (const char* record :
       {"models/model.json", "data/weights/model_weights_config.json", "data/weights/weight_0",
        "data/constants/model_constants_config.json"}) {
    Records records = program();
    records.erase(record);
    write(records);
    auto [kind, text] = error();
    EXPECT_EQ(kind, ErrorKind::user) << record;
    EXPECT_NE(text.find(record), std::string::npos) << text;
  }
}

TEST_F(Pt2, RefusesAnotherVersionOfTheSchema) {
  auto [kind, text] = error_of([](json& file) { file["schema_version"]["major"] = 9; });
  EXPECT_EQ(kind, ErrorKind::user);
  EXPECT_NE(text.find("version 9"), std::string::npos) << text;
}

TEST_F(Pt2, RefusesWeightsThatReachBeyondTheirRecord) {
  Records records = program();
  records["data/weights/weight_0"].resize(40);
  write(records);
  EXPECT_EQ(error().first, ErrorKind::user);
  records = program();
  json config = json::parse(records["data/weights/model_weights_config.json"]);
  config["config"]["fc.weight"]["tensor_meta"]["storage_offset"]["as_int"] =
      std::numeric_limits<int64_t>::max() - 3;
  records["data/weights/model_weights_config.json"] = config.dump();
  write(records);
  EXPECT_EQ(error().first, ErrorKind::user);
}

TEST_F(Pt2, RefusesGraphsThatMakeNoSense) {
  using Edit = std::function<void(json&)>;
  auto graph = [](json& file) -> json& { return file["graph_module"]["graph"]; };
  const Edit edits[] = {
      [&](json& f) { graph(f).erase("nodes"); },
      [&](json& f) { graph(f)["nodes"][3]["inputs"][0]["arg"]["as_tensor"]["name"] = "nothing"; },
      [&](json& f) { std::swap(graph(f)["nodes"][2], graph(f)["nodes"][3]); },
      [&](json& f) {
        graph(f)["tensor_values"]["relu"]["sizes"][0] = {{"as_int", -4}};
      },
      [&](json& f) {
        graph(f)["tensor_values"]["p_w"]["storage_offset"] = {{"as_int", int64_t{1} << 40}};
      },
      [&](json& f) { graph(f)["tensor_values"]["relu"]["dtype"] = 99; },
      [&](json& f) { graph(f)["tensor_values"]["relu"]["strides"] = json::array(); },
      [&](json& f) { graph(f)["tensor_values"].erase("linear"); },
      [&](json& f) {
        graph(f)["tensor_values"]["x"]["sizes"][0]["as_expr"]["expr_str"] = "Mul(Symbol('s0'";
      },
      [&](json& f) {
        graph(f)["tensor_values"]["p_w"]["sizes"][0] = {{"as_int", 5}};
      },
      [&](json& f) { graph(f)["nodes"] = "none"; },
      [&](json& f) {
        f["graph_module"]["signature"]["output_specs"][0]["user_output"]["arg"]["as_tensor"]
         ["name"] = "gone";
      },
      [&](json& f) {
        f["range_constraints"]["s0"]["min_val"] = 100, f["range_constraints"]["s0"]["max_val"] = 3;
      },
      [&](json& f) { f.erase("schema_version"); },
  };
  int number = 0;
  for (const Edit& edit : edits) {
    auto [kind, text] = error_of(edit);
    EXPECT_EQ(kind, ErrorKind::user) << number << ": " << text;
    ++number;
  }
}

TEST_F(Pt2, SaysWhichOperatorItDoesNotHave) {
  auto [kind, text] = error_of([](json& f) {
    f["graph_module"]["graph"]["nodes"][3]["target"] = "torch.ops.aten.frob.default";
  });
  EXPECT_EQ(kind, ErrorKind::unsupported);
  EXPECT_NE(text.find("model.py:12"), std::string::npos) << text;
  EXPECT_NE(text.find("aten.frob.default"), std::string::npos) << text;
}

TEST_F(Pt2, SaysWhatHelpsAgainstAFunctionThatIsNoOperator) {
  auto [kind, text] = error_of([](json& f) {
    f["graph_module"]["graph"]["nodes"][3]["target"] = "torch._functorch.predispatch._add_batch_dim";
  });
  EXPECT_EQ(kind, ErrorKind::unsupported);
  EXPECT_NE(text.find("_add_batch_dim: call run_decompositions()"), std::string::npos) << text;
}

TEST_F(Pt2, LeavesOperatorsOfTorchLibraryToTheApplication) {
  error_of([](json& f) {
    f["graph_module"]["graph"]["nodes"][3]["target"] = "torch.ops.mine.frob.default";
  });
  const Graph graph = functionalize(load_pt2(path_).graph);
  const auto frob = std::find_if(graph.nodes.begin(), graph.nodes.end(), [](const Node& node) {
    return node.op == "library.mine.frob.default";
  });
  ASSERT_NE(frob, graph.nodes.end());
  EXPECT_EQ(frob->where.op, "mine.frob.default");
  EXPECT_EQ(frob->where.line, 12);
}

TEST_F(Pt2, RefusesWhatHasNoResult) {
  auto [kind, text] = error_of([](json& f) {
    json& nodes = f["graph_module"]["graph"]["nodes"];
    json silent = nodes[3];
    silent["target"] = "torch.ops.mine.frob_.default";
    silent["outputs"] = json::array();
    nodes.insert(nodes.begin() + 4, silent);
  });
  EXPECT_EQ(kind, ErrorKind::unsupported);
  EXPECT_NE(text.find("run_decompositions()"), std::string::npos) << text;
}

TEST_F(Pt2, NeverCrashesOnTruncatedOrFlippedFiles) {
  write(program());
  const std::string whole = read_file(path_);
  for (size_t length = 0; length < whole.size(); length += 311) {
    write_raw(whole.substr(0, length));
    EXPECT_EQ(error().first, ErrorKind::user) << length;
  }
  std::mt19937 random(7);
  for (int i = 0; i < 100; ++i) {
    std::string damaged = whole;
    for (int k = 0; k < 3; ++k)
      damaged[random() % damaged.size()] ^= static_cast<char>(1u << (random() % 8));
    write_raw(damaged);
    EXPECT_NE(
        error().first,
        ErrorKind::environment);  // an error of the user, or none where the flip does not matter
  }
}

}  // namespace
}  // namespace nacre
