#include "exporter/torchscript.h"

#include <fmt/ranges.h>

#include <ATen/Functions.h>
#include <ATen/core/grad_mode.h>
#include <torch/csrc/jit/serialization/import.h>

#include <algorithm>
#include <set>

#include "compiler/support/error.h"
#include "exporter/archive.h"
#include "exporter/aten.h"
#include "exporter/torchscript_tracer.h"
#include "exporter/value_tree.h"

namespace nacre {
namespace {

namespace jit = torch::jit;
using c10::IValue;

jit::Module submodule(const jit::Module& module, const std::string& path) {
  jit::Module at = module;
  for (size_t begin = 0; begin < path.size();) {
    const size_t end = std::min(path.find('.', begin), path.size());
    const std::string name = path.substr(begin, end - begin);
    if (!at.hasattr(name) || !at.attr(name).isModule()) fail(ErrorKind::user, "the module has no submodule `{}` (of {})", name, path);
    at = at.attr(name).toModule();
    begin = end + 1;
  }
  return at;
}

std::string methods_of(const jit::Module& module) {
  std::vector<std::string> names;
  for (const jit::Method& m : module.get_methods()) names.push_back(m.name());
  return fmt::format("{}", fmt::join(names, ", "));
}

// Everything that a call gives and changes, tensors by their bits.
std::vector<at::Tensor> observe(const jit::Module& root, const std::string& owner, const std::string& name,
                                const std::vector<Attribute>& attributes, const std::vector<Example>& examples, int seed,
                                const std::function<IValue(const Attribute&)>& start) {
  const at::NoGradGuard no_gradients;
  jit::Module copy = root.deepcopy();
  const auto holder = [&](const Attribute& a) {
    const size_t dot = a.path.rfind('.');
    return submodule(copy, dot == std::string::npos ? "" : a.path.substr(0, dot));
  };
  for (const Attribute& a : attributes)
    if (IValue value = start(a); !value.isNone()) holder(a)._ivalue()->setSlot(a.slot, std::move(value));
  jit::Module module = submodule(copy, owner);
  const jit::Method method = module.get_method(name);
  std::vector<IValue> arguments;
  for (size_t i = 0; i < examples.size(); ++i) {
    IValue value = as_ivalue(examples[i], method.function().getSchema().arguments()[i + 1].type());
    if (seed > 0)
      value = map_tensors(value, [&](const at::Tensor& t) {
        return t.is_floating_point() ? at::add(at::mul(t, 1.0 / (seed + 1)), 0.125 * seed) : t;
      });
    arguments.push_back(std::move(value));
  }
  std::vector<at::Tensor> seen = tensors_of(method(std::move(arguments)));
  for (const Attribute& a : attributes)
    for (const at::Tensor& t : tensors_of(holder(a)._ivalue()->getSlot(a.slot))) seen.push_back(t);
  return seen;
}

IValue zeros_like(const IValue& value) {
  return map_tensors(value, [](const at::Tensor& t) { return at::zeros_like(t); });
}

bool settled(const std::vector<Attribute>& attributes) {
  return std::all_of(attributes.begin(), attributes.end(), [](const Attribute& a) { return structure(a.before) == structure(a.after); });
}

}  // namespace

bool is_torchscript(const std::filesystem::path& path) {
  try {
    const std::vector<std::string> names = Archive(path).names();
    return std::any_of(names.begin(), names.end(), [](const std::string& n) { return n.starts_with("code/"); });
  } catch (const Error&) {
    return false;
  }
}

Program load_torchscript(const std::filesystem::path& path, const std::string& method_path, const std::vector<Example>& examples) {
  jit::Module root;
  try {
    root = jit::load(path.string(), c10::Device(c10::kCPU));
    root.eval();
  } catch (const std::exception& error) {
    fail(ErrorKind::user, "{} is damaged, or no file of torch.jit.save ({})", path.string(), aten::first_line(error.what()));
  }
  const size_t dot = method_path.rfind('.');
  const std::string owner = dot == std::string::npos ? "" : method_path.substr(0, dot);
  const std::string name = dot == std::string::npos ? method_path : method_path.substr(dot + 1);
  const jit::Module module = submodule(root, owner);
  const auto method = module.find_method(name);
  if (!method) fail(ErrorKind::user, "{} has no method `{}`; it has: {}", path.string(), method_path, methods_of(module));
  const auto& parameters = method->function().getSchema().arguments();
  size_t needed = 0;
  for (size_t i = 1; i < parameters.size(); ++i) needed += !parameters[i].default_value();
  if (examples.size() < needed || examples.size() + 1 > parameters.size())
    fail(ErrorKind::user, "TorchScript has no shapes, so every argument needs an example (--example): {} are given for {}", examples.size(),
         fmt::format("{}", c10::toString(method->function().getSchema())));

  std::set<std::string> written;  // parameters that the method writes to: state, on which no decision is taken
  const auto trace = [&](const std::map<std::string, IValue>& state, std::vector<Attribute>& attributes) {
    Program traced;
    traced.graph.name = name;
    const jit::Module copy = root.deepcopy();  // a call writes to buffers
    TorchScriptTracer tracer(copy, state, written, traced);
    try {
      tracer.run(submodule(copy, owner).get_method(name), examples);
    } catch (const c10::Error& error) {
      fail(ErrorKind::user, "{}: {}", path.string(), aten::first_line(error.what_without_backtrace()));
    }
    attributes = tracer.attributes();
    return traced;
  };
  std::vector<Attribute> first, later;
  Program program = trace({}, first);
  for (const auto& parameter : root.named_parameters())
    for (const GraphOutput& output : program.graph.outputs)
      if (output.kind == OutputKind::buffer_mutation && output.target == parameter.name) written.insert(parameter.name);
  if (!written.empty()) program = trace({}, first);
  if (settled(first)) return program;

  std::map<std::string, IValue> zeros;
  for (const Attribute& a : first) zeros[a.path] = zeros_like(a.after);
  program = trace(zeros, later);
  for (const Attribute& a : later)
    if (structure(a.before) != structure(a.after))
      fail(ErrorKind::unsupported, "the state `{}` changes from call to call, from {} to {}: a program has fixed shapes", a.path,
           structure(a.before), structure(a.after));
  for (int seed = 0; seed < 4; ++seed) {
    const auto fresh = observe(root, owner, name, first, examples, seed, [](const Attribute&) { return IValue(); });
    const auto from_zeros = observe(root, owner, name, first, examples, seed, [](const Attribute& a) { return zeros_like(a.after); });
    bool same = fresh.size() == from_zeros.size();
    for (size_t i = 0; same && i < fresh.size(); ++i) same = at::equal(fresh[i], from_zeros[i]);
    if (!same)
      fail(ErrorKind::unsupported,
           "the first call of {} computes something else than later ones, and not the same as they do from zeros (state `{}` changes from {} "
           "to {}): name a method whose state is an argument",
           method_path, first[0].path, structure(first[0].before), structure(first[0].after));
  }
  return program;
}

}  // namespace nacre
