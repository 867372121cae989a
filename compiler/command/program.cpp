#include "compiler/command/program.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <string_view>

#include "compiler/command/exporter.h"
#include "compiler/command/inputs.h"
#include "compiler/graph/text.h"
#include "compiler/graph/verify.h"
#include "compiler/support/dtype.h"
#include "compiler/support/error.h"
#include "compiler/support/file.h"
#include "compiler/support/npy.h"

namespace nacre {
namespace {

std::string_view trimmed(std::string_view text) {
  while (!text.empty() && text.front() == ' ') text.remove_prefix(1);
  while (!text.empty() && text.back() == ' ') text.remove_suffix(1);
  return text;
}

// `a, (b, c), f32[1,2]` -> its parts outside brackets.
std::vector<std::string_view> parts_of(std::string_view text) {
  std::vector<std::string_view> parts;
  int depth = 0;
  std::size_t begin = 0;
  for (std::size_t i = 0; i <= text.size(); ++i) {
    if (i == text.size() || (text[i] == ',' && depth == 0)) {
      if (const std::string_view part = trimmed(text.substr(begin, i - begin)); !part.empty()) parts.push_back(part);
      begin = i + 1;
    } else {
      depth += text[i] == '(' || text[i] == '[';
      depth -= text[i] == ')' || text[i] == ']';
    }
  }
  return parts;
}

template <class Number>
bool parse_number(std::string_view text, Number& number) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  return error == std::errc{} && end == text.data() + text.size();
}

}  // namespace

Example parse_example(const std::string& given, unsigned seed) {
  const std::string_view text = trimmed(given);
  const auto bad = [&](std::string_view why) {
    fail(ErrorKind::user, "'{}' is no example of an argument ({}): write f32[1,3,224,224], FILE.npy, a number, true, false, none, or (a, b)", given,
         why);
  };
  Example example;
  using Kind = Example::Kind;
  if (text.empty()) bad("nothing");
  if (text == "none") return example;
  if (text == "true" || text == "false") {
    example.kind = Kind::boolean;
    example.integer = text == "true";
  } else if (parse_number(text, example.integer)) {
    example.kind = Kind::integer;
  } else if (parse_number(text, example.floating)) {
    example.kind = Kind::floating;
  } else if (text.front() == '(') {
    if (text.back() != ')') bad("no closing parenthesis");
    example.kind = Kind::sequence;
    for (std::string_view part : parts_of(text.substr(1, text.size() - 2)))
      example.items.push_back(parse_example(std::string(part), ++seed));
  } else if (text.ends_with(".npy")) {
    example.kind = Kind::tensor;
    example.tensor = read_npy(std::string(text));
  } else {
    const std::size_t bracket = text.find('[');
    if (bracket == std::string_view::npos || text.back() != ']') bad("no shape");
    const auto dtype = dtype_named(text.substr(0, bracket));
    if (!dtype) bad("unknown dtype");
    std::vector<std::int64_t> shape;
    for (std::string_view part : parts_of(text.substr(bracket + 1, text.size() - bracket - 2))) {
      shape.push_back(0);
      if (!parse_number(part, shape.back()) || shape.back() < 0) bad("a size is no number");
    }
    example.kind = Kind::tensor;
    example.tensor = random_tensor(*dtype, std::move(shape), seed);
  }
  return example;
}

void add_program_options(CLI::App& verb, ProgramOptions& options) {
  verb.add_option("--example", options.examples,
                  "TorchScript: an example of each argument, in order: f32[1,3,224,224], FILE.npy, a number, true, none, (a, b)")
      ->type_name("EXAMPLE")
      ->expected(1)
      ->take_all();
  verb.add_option("--method", options.method, "TorchScript: the method to take; default: forward")->type_name("[MODULE.]NAME");
}

namespace {

HostTensor read_as(const std::filesystem::path& path, nacre_dtype dtype) {
  HostTensor tensor = read_npy(path);
  if (tensor.dtype == NACRE_u16 && dtype == NACRE_bf16) tensor.dtype = dtype;
  return tensor;
}

Program load_text(const std::filesystem::path& path) {
  Program program;
  program.graph = parse_graph(read_file(path));
  const Graph& graph = program.graph;
  if (graph.level == Level::primitive)
    fail(ErrorKind::user, "{} is a primitive graph: only captured and functional graphs are programs", path.string());
  try {
    verify(graph);
  } catch (const Error& error) {
    fail(ErrorKind::user, "{}: {}", path.string(), error.what());
  }
  const std::filesystem::path folder = path.parent_path();
  std::size_t next = 0;
  for (const GraphInput& input : graph.inputs) {
    const bool user = input.kind == InputKind::user;
    const std::filesystem::path file =
        user ? folder / fmt::format("input_{}.npy", next++) : folder / "weights" / (weight_file(input.target) + ".npy");
    if (!std::filesystem::exists(file)) {
      if (user) continue;
      fail(ErrorKind::user, "{} has the weight {}, but there is no {}", path.string(), input.target, file.string());
    }
    HostTensor tensor = read_as(file, graph[input.value].dtype);
    if (user)
      program.sample_inputs.push_back(std::move(tensor));
    else
      program.weights[input.target] = std::move(tensor);
  }
  return program;
}

}  // namespace

std::string weight_file(std::string name) {
  std::replace(name.begin(), name.end(), '/', '_');
  return name;
}

Program load_program(const std::string& path, const ProgramOptions& options) {
  // A name that was mistyped is the user's mistake; the exporter cannot tell whose a path is.
  std::error_code code;
  if (std::filesystem::status(path, code).type() == std::filesystem::file_type::not_found)
    fail(ErrorKind::user, "cannot read {}: there is no such file", path);
  if (path.ends_with(".ir")) return load_text(path);
  if (!frontend().is_torchscript(path)) {
    if (!options.examples.empty())
      fail(ErrorKind::user, "{} is no TorchScript file: a .pt2 file holds its own examples, --example is for TorchScript", path);
    return frontend().load_pt2(path);
  }
  std::vector<Example> examples;
  for (const std::string& text : options.examples) examples.push_back(parse_example(text, static_cast<unsigned>(examples.size()) * 101 + 1));
  return frontend().load_torchscript(path, options.method, examples);
}

}  // namespace nacre
