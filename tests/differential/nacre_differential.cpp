// Compares every level of the graph with PyTorch on cases that PyTorch wrote:
//   nacre_differential [--primitive] [--all] CASE_DIR...
//     --all        each argument is a folder of cases
//     --primitive  also decompose, and compare the primitive graph with the functional one
//
// For every set of a case, in order, with the state that the sets before it left:
//   captured    the captured graph, run by libtorch from here, gives PyTorch's results (outputs,
//   mutated inputs, buffers) bit
//               for bit. Where export took another path through a module than eager does (the fast
//               path of attention), where the program was decomposed before it was saved, and where
//               inputs have other strides than the export's, rounding may differ: then the rule of
//               compiler/command/compare.h decides, and the case says so in a note.
//   functional  gives what the captured graph gives, bit for bit, if all inputs are contiguous
//   primitive   by the rule of compiler/command/compare.h, with the functional graph in float64 as
//   the reference
// A set that must be refused must not be accepted by the symbols' facts and assumptions, or must
// end with an error.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "compiler/command/compare.h"
#include "compiler/frontend.h"
#include "compiler/graph/decompose.h"
#include "compiler/graph/text.h"
#include "compiler/graph/verify.h"
#include "compiler/support/error.h"
#include "compiler/support/file.h"
#include "compiler/support/npy.h"

namespace {

namespace fs = std::filesystem;
using namespace nacre;

struct Options {
  bool primitive = false;
  bool all = false;
};

// Why the program does not take these inputs; empty if it does.
std::string refused(const Graph& graph, const std::vector<HostTensor>& inputs) {
  std::map<std::string, int64_t> symbols;
  std::vector<std::pair<Expr, int64_t>> sizes;
  size_t next = 0;
  for (const GraphInput& input : graph.inputs) {
    if (input.kind != InputKind::user) continue;
    const Value& v = graph[input.value];
    const HostTensor& t = inputs.at(next++);
    if (v.kind == ValueKind::integer) {
      sizes.emplace_back(v.expr, t.dtype == NACRE_i64 ? *t.as<int64_t>() : *t.as<int32_t>());
      continue;
    }
    if (v.kind != ValueKind::tensor) continue;
    if (t.dtype != v.dtype)
      return fmt::format("{} has type {}", input.target, nacre_dtype_name(t.dtype));
    if (t.shape.size() != v.shape.size())
      return fmt::format("{} has rank {}", input.target, t.shape.size());
    for (size_t d = 0; d < t.shape.size(); ++d) sizes.emplace_back(v.shape[d], t.shape[d]);
  }
  for (const auto& [e, actual] : sizes)
    if (e.op() == ExprOp::symbol) symbols.emplace(e.name(), actual);
  for (const auto& [e, actual] : sizes) {  // 2*s
    if (e.op() == ExprOp::symbol || e.symbols().size() != 1 ||
        symbols.count(*e.symbols().begin()) != 0)
      continue;
    for (int64_t value = 0; value <= actual; ++value)
      if (e.evaluate({{*e.symbols().begin(), value}}) == actual)
        symbols[*e.symbols().begin()] = value;
    if (symbols.count(*e.symbols().begin()) == 0)
      return fmt::format("no symbol makes {} equal {}", e.str(), actual);
  }
  for (const auto& [e, actual] : sizes)
    if (e.evaluate(symbols) != actual) return fmt::format("{} is not {}", e.str(), actual);
  for (const auto& [name, value] : symbols) {
    const SymbolFacts& facts = graph.symbols.at(name);
    if (value < facts.range.min || value > facts.range.max)
      return fmt::format("{} = {} is out of its range", name, value);
    if (value % facts.multiple != 0)
      return fmt::format("{} = {} is no multiple of {}", name, value, facts.multiple);
  }
  for (const Expr& e : graph.assumptions) {
    bool known = true;
    for (const std::string& s : e.symbols()) known &= symbols.count(s) != 0;
    if (known && e.evaluate(symbols) != 1) return fmt::format("not {}", e.str());
  }
  return "";
}

bool same_bits(const HostTensor& a, const HostTensor& b) {
  if (a.dtype != b.dtype || a.shape != b.shape) return false;
  if (std::memcmp(a.data.get(), b.data.get(), a.size_bytes) == 0) return true;
  // NaN has many patterns, and -0 is 0 in no comparison that counts here.
  auto x = as_doubles(a), y = as_doubles(b);
  if (!x || !y) return false;
  for (size_t i = 0; i < x->size(); ++i) {
    bool both_nan = std::isnan((*x)[i]) && std::isnan((*y)[i]);
    if (!both_nan && ((*x)[i] != (*y)[i] || std::signbit((*x)[i]) != std::signbit((*y)[i])))
      return false;
  }
  return true;
}

std::string describe_shape(const HostTensor& t) {
  std::string text = nacre_dtype_name(t.dtype);
  text += "[";
  for (size_t i = 0; i < t.shape.size(); ++i) text += (i ? ", " : "") + std::to_string(t.shape[i]);
  return text + "]";
}

double largest_difference(const HostTensor& a, const HostTensor& b) {
  auto x = as_doubles(a), y = as_doubles(b);
  double largest = 0;
  if (x && y)
    for (size_t i = 0; i < std::min(x->size(), y->size()); ++i)
      largest = std::max(largest, std::abs((*x)[i] - (*y)[i]));
  return largest;
}

struct Case {
  fs::path folder;
  nlohmann::json info;
  bool random = false;
  std::vector<std::string> problems;
  std::vector<std::string> notes;

  void problem(std::string text) { problems.push_back(std::move(text)); }

  // `exact`: bit for bit; otherwise rounding may differ. `wide`: the result in float64, or null.
  void expect_same(const HostTensor& got, const HostTensor& wanted, const std::string& what,
                   bool exact, const HostTensor* wide = nullptr) {
    HostTensor want = wanted;
    if (got.dtype == NACRE_bf16 && want.dtype == NACRE_u16) want.dtype = NACRE_bf16;
    if (got.dtype != want.dtype || got.shape != want.shape) {
      problem(fmt::format("{}: {} instead of {}", what, describe_shape(got), describe_shape(want)));
    } else if (!random && !same_bits(got, want)) {
      double difference = largest_difference(got, want);
      bool close = !exact && difference > 0 && compare(got, want, wide).passed;
      if (close) {
        notes.push_back(fmt::format("{} differs by {:.2g}", what, difference));
      } else {
        problem(fmt::format("{}: differs by {:.2g}", what, difference));
      }
    }
  }
};

void run_set(Case& c, const std::string& name, const nlohmann::json& set, const Program& program,
             const Graph& functional, const Graph* primitive,
             std::map<std::string, HostTensor>& state) {
  const Frontend* frontend = nacre_frontend();
  const Graph& captured = program.graph;
  std::vector<HostTensor> inputs;
  size_t count = 0;
  for (const GraphInput& input : captured.inputs) count += input.kind == InputKind::user;
  for (size_t i = 0; i < count; ++i)
    inputs.push_back(read_npy(c.folder / name / fmt::format("input_{}.npy", i)));
  size_t next = 0;
  for (const GraphInput& input : captured.inputs) {  // bfloat16 is stored as its bits
    if (input.kind != InputKind::user) continue;
    HostTensor& t = inputs[next++];
    if (captured[input.value].dtype == NACRE_bf16 && t.dtype == NACRE_u16) t.dtype = NACRE_bf16;
  }
  bool refuse = set.at("refuse").get<bool>();
  std::string why = refused(captured, inputs);
  if (!why.empty()) {
    if (!refuse) c.notes.push_back(fmt::format("{} is refused: {}", name, why));
    return;
  }
  std::vector<HostTensor> captured_results, functional_results;
  try {
    captured_results = frontend->run_eager(captured, state, inputs, OracleType::own);
  } catch (const Error& error) {
    if (!refuse) c.problem(fmt::format("{}: captured: {}", name, error.what()));
    return;
  }
  if (refuse && set.at("eager") != "answers") {
    c.problem(fmt::format("{} must be refused", name));
    return;
  }
  bool contiguous =
      std::all_of(captured.inputs.begin(), captured.inputs.end(),
                  [&](const GraphInput& input) { return captured[input.value].strides.empty(); });

  auto what = [&](size_t i) {
    return fmt::format("{} {} {}", name,
                       captured.outputs[i].kind == OutputKind::user ? "output" : "mutation of",
                       captured.outputs[i].kind == OutputKind::user ? std::to_string(i)
                                                                    : captured.outputs[i].target);
  };
  size_t user = 0;
  std::map<std::string, HostTensor> after = state;
  for (size_t i = 0; i < captured.outputs.size(); ++i) {
    const GraphOutput& output = captured.outputs[i];
    const HostTensor& got = captured_results[i];
    if (output.kind == OutputKind::user) {
      if (got.dtype == NACRE_DTYPE_NONE) continue;
      fs::path path = c.folder / name / fmt::format("output_{}.npy", user++);
      if (!fs::exists(path)) {
        c.problem(fmt::format("{}: PyTorch has no output {}", name, user - 1));
        continue;
      }
      fs::path wide_path = c.folder / name / fmt::format("output64_{}.npy", user - 1);
      HostTensor wide;
      if (fs::exists(wide_path)) wide = read_npy(wide_path);
      c.expect_same(got, read_npy(path), fmt::format("{} captured output {}", name, user - 1),
                    false, wide.dtype == NACRE_f64 ? &wide : nullptr);
    } else if (output.kind == OutputKind::buffer_mutation) {
      after[output.target] = got;
      fs::path path = c.folder / name / fmt::format("after_buffer_{}.npy", output.target);
      if (fs::exists(path))
        c.expect_same(got, read_npy(path),
                      fmt::format("{} captured buffer {}", name, output.target), false);
    } else {
      size_t position = 0;
      for (const GraphInput& input : captured.inputs) {
        if (input.kind != InputKind::user) continue;
        if (input.target == output.target) break;
        ++position;
      }
      fs::path path = c.folder / name / fmt::format("after_input_{}.npy", position);
      if (fs::exists(path))
        c.expect_same(got, read_npy(path),
                      fmt::format("{} captured mutated input {}", name, position), false);
    }
  }
  if (fs::exists(c.folder / name / fmt::format("output_{}.npy", user)))
    c.problem(fmt::format("{}: PyTorch has more than {} outputs", name, user));
  // What is not listed as mutated must not have changed.
  size_t position = 0;
  for (const GraphInput& input : captured.inputs) {
    if (input.kind != InputKind::user) continue;
    bool listed =
        std::any_of(captured.outputs.begin(), captured.outputs.end(), [&](const GraphOutput& o) {
          return o.kind == OutputKind::input_mutation && o.target == input.target;
        });
    fs::path path = c.folder / name / fmt::format("after_input_{}.npy", position);
    if (!listed && fs::exists(path))
      c.expect_same(inputs[position], read_npy(path),
                    fmt::format("{} input {} after", name, position), true);
    ++position;
  }

  try {
    functional_results = frontend->run_eager(functional, state, inputs, OracleType::own);
    if (functional_results.size() != captured_results.size()) {
      c.problem(fmt::format("{}: the functional graph has {} outputs instead of {}", name,
                            functional_results.size(), captured_results.size()));
    } else {
      for (size_t i = 0; i < functional_results.size(); ++i)
        if (captured_results[i].dtype != NACRE_DTYPE_NONE ||
            functional_results[i].dtype != NACRE_DTYPE_NONE)
          c.expect_same(functional_results[i], captured_results[i], "functional " + what(i),
                        contiguous);
    }
  } catch (const Error& error) {
    c.problem(fmt::format("{}: functional: {}", name, error.what()));
  }

  if (primitive != nullptr && functional_results.size() == captured_results.size()) {
    try {
      std::vector<HostTensor> results = frontend->run_eager(*primitive, state, inputs, OracleType::own);
      std::vector<HostTensor> wide;
      try {
        wide = frontend->run_eager(functional, state, inputs, OracleType::wide);
      } catch (const Error&) {  // an operator without a float64 kernel
      }
      for (size_t i = 0; i < results.size(); ++i) {
        if (results[i].dtype == NACRE_DTYPE_NONE || c.random) continue;
        Comparison comparison = compare(results[i], functional_results[i],
                                        wide.size() == results.size() ? &wide[i] : nullptr);
        if (!comparison.passed)
          c.problem(fmt::format("primitive {}: {}", what(i), comparison.reason));
      }
    } catch (const Error& error) {
      c.problem(fmt::format("{}: primitive: {}", name, error.what()));
    }
  }
  state = std::move(after);
}

// 0 passed, 1 failed, 2 nothing to run.
int run_case(const fs::path& folder, const Options& options) {
  Case c;
  c.folder = folder;
  std::string name = folder.filename().string();
  try {
    c.info = nlohmann::json::parse(read_file(folder / "case.json"));
    if (c.info.contains("capture_error")) return 2;
    c.random = c.info.value("expect", "value") == "shape_only";
    const Frontend* frontend = nacre_frontend();
    Program program = frontend->load_pt2((folder / "model.pt2").string());
    verify(program.graph);
    Graph functional = frontend->functionalize(program.graph);
    verify(functional);
    for (const Graph* graph : {&std::as_const(program.graph), &std::as_const(functional)}) {
      std::string text = print(*graph);
      if (print(parse_graph(text)) != text)
        c.problem("the text of a graph does not read back as the same graph");
    }
    Graph primitive;
    if (options.primitive) {
      try {
        primitive = decompose(functional);
        verify(primitive);
      } catch (const Error& error) {
        std::string text = fmt::format("decompose: {}", error.what());
        if (error.kind == ErrorKind::unsupported) {
          c.notes.push_back(std::move(text));
        } else {
          c.problem(std::move(text));
        }
        primitive = {};
      }
    }
    const auto& sets = c.info.at("sets");
    std::map<std::string, HostTensor> state;
    std::vector<std::pair<std::string, const nlohmann::json*>>
        order;  // set_0, also_*, refuse_*, then sequences in order
    for (const auto& [set, data] : sets.items()) order.emplace_back(set, &data);
    std::stable_sort(order.begin(), order.end(), [](const auto& a, const auto& b) {
      auto key = [](const std::string& s) {
        return std::pair(s.starts_with("sequence"), s.size());
      };
      return key(a.first) < key(b.first);
    });
    for (const auto& [set, data] : order) {
      if (!data->at("continues").get<bool>()) state = program.weights;
      run_set(c, set, *data, program, functional,
              primitive.level == Level::primitive ? &primitive : nullptr, state);
    }
  } catch (const std::exception& error) {
    c.problem(error.what());
  }
  std::printf("%-52s %s\n", name.c_str(), c.problems.empty() ? "ok" : "FAILED");
  for (const std::string& text : c.problems) std::printf("    %s\n", text.c_str());
  for (const std::string& text : c.notes) std::printf("    (%s)\n", text.c_str());
  std::fflush(stdout);
  return c.problems.empty() ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  std::vector<fs::path> cases;
  for (int i = 1; i < argc; ++i) {
    std::string argument = argv[i];
    if (argument == "--primitive") {
      options.primitive = true;
    } else if (argument == "--all") {
      options.all = true;
    } else {
      cases.emplace_back(argument);
    }
  }
  if (options.all) {
    std::vector<fs::path> found;
    for (const fs::path& folder : cases)
      for (const auto& entry : fs::directory_iterator(folder))
        if (fs::exists(entry.path() / "case.json")) found.push_back(entry.path());
    std::sort(found.begin(), found.end());
    cases = found;
  }
  int failed = 0, passed = 0;
  for (const fs::path& folder : cases) {
    int status = run_case(folder, options);
    failed += status == 1;
    passed += status == 0;
  }
  std::printf("%d passed, %d failed\n", passed, failed);
  return failed == 0 && passed > 0 ? 0 : 1;
}
