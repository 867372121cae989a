#include "exporter/functor.h"

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/grad_mode.h>
#include <c10/core/impl/LocalDispatchKeySet.h>

#include <algorithm>

#include "compiler/support/error.h"
#include "exporter/aten.h"
#include "exporter/recorder.h"
#include "exporter/value_tree.h"

namespace nacre {
namespace {

using c10::IValue;

// A key that no tensor has and that comes before autograd: while it is included, every call of this thread reaches the
// fallback first. libtorch keeps it for modes that its own build does not register.
constexpr c10::DispatchKey kKey = c10::DispatchKey::TESTING_ONLY_GenericMode;

thread_local Recorder* recording = nullptr;

struct Recording {
  explicit Recording(Recorder& recorder) { recording = &recorder; }
  ~Recording() { recording = nullptr; }
  Recording(const Recording&) = delete;
  Recording& operator=(const Recording&) = delete;
};

std::string node_name(const c10::FunctionSchema& schema) {
  std::string name = schema.name();
  name.replace(name.find("::"), 2, ".");
  return name + "." + (schema.overload_name().empty() ? "default" : schema.overload_name());
}

void observe(const c10::OperatorHandle& op, c10::DispatchKeySet, torch::jit::Stack* stack) {
  const c10::impl::ExcludeDispatchKeyGuard below(kKey);  // what an operator calls is its own affair
  if (recording == nullptr) return op.callBoxed(stack);
  const c10::FunctionSchema& schema = op.schema();
  const std::vector<IValue> arguments(stack->end() - static_cast<std::ptrdiff_t>(schema.arguments().size()), stack->end());
  // A constant may be filled by code that is no operator (at::tensor), so it counts as what it is where it meets the rest.
  if (is_about_metadata(schema.name()) || (!aten::is_random(op) && recording->is_apart(arguments))) return op.callBoxed(stack);
  for (size_t i = 0; i < arguments.size(); ++i)
    if (const auto* alias = schema.arguments()[i].alias_info(); alias && alias->isWrite() && !recording->may_write(arguments[i]))
      fail(ErrorKind::unsupported, "{} writes through a view that was made before the functor began: make the view inside", node_name(schema));
  recording->read(arguments);
  op.callBoxed(stack);
  const std::vector<IValue> results(stack->end() - static_cast<std::ptrdiff_t>(schema.returns().size()), stack->end());

  Provenance where;
  where.op = node_name(schema);
  if (recording->has_effect(schema, results)) return recording->record(op, std::move(where), arguments, results);
  const bool gives_numbers = std::any_of(results.begin(), results.end(), [](const IValue& v) { return v.isScalar() || v.isBool(); });
  const bool dynamic = std::any_of(arguments.begin(), arguments.end(), [&](const IValue& v) { return recording->depends_on_inputs(v); });
  if (gives_numbers && dynamic)
    fail(ErrorKind::unsupported,
         "the functor decides by the value of a tensor ({}), which depends on its inputs: compute with tensors (at::where), or write the "
         "model in Python and export it with torch.cond",
         where.op);
}

// Gives buffers the values back that they had, however the functor ends.
class Restoring {
 public:
  explicit Restoring(const FunctorTensors& owned) {
    for (const auto& [path, tensor] : owned.buffers) saved_.emplace_back(tensor, tensor.clone());
  }
  Restoring(const Restoring&) = delete;
  Restoring& operator=(const Restoring&) = delete;
  ~Restoring() {
    for (auto& [tensor, value] : saved_) tensor.copy_(value);
  }

 private:
  std::vector<std::pair<at::Tensor, at::Tensor>> saved_;
};

}  // namespace

Program trace(const std::string& name, const Functor& functor, const std::vector<at::Tensor>& examples, const FunctorTensors& owned) {
  Program program;
  program.graph.name = name;
  Recorder recorder(program);
  std::vector<at::Tensor> inputs;
  const at::NoGradGuard no_gradients;
  // Copies: the functor may write to its inputs, and one example may be given twice.
  for (size_t i = 0; i < examples.size(); ++i) {
    inputs.push_back(examples[i].detach().clone());
    recorder.add_input(inputs.back(), aten::to_host(examples[i]), "arg" + std::to_string(i));
  }
  for (const auto& [path, tensor] : owned.parameters) recorder.own(tensor, path, InputKind::parameter);
  for (const auto& [path, tensor] : owned.buffers) recorder.own(tensor, path, InputKind::buffer);
  const Restoring restoring(owned);

  const c10::RegistrationHandleRAII fallback =
      c10::Dispatcher::singleton().registerFallback(kKey, c10::KernelFunction::makeFromBoxedFunction<&observe>(), "nacre");
  std::vector<at::Tensor> results;
  try {
    const c10::impl::IncludeDispatchKeyGuard mode(kKey);
    const Recording active(recorder);
    results = functor(inputs);
  } catch (const c10::Error& error) {
    fail(ErrorKind::user, "the functor `{}` fails on its examples: {}", name, aten::first_line(error.what_without_backtrace()));
  }
  for (const at::Tensor& result : results) recorder.add_output(result);
  recorder.add_writes();
  return program;
}

}  // namespace nacre
