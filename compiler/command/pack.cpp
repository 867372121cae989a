#include "compiler/command/pack.h"

#include <fmt/format.h>

#include <cmath>

#include "compiler/command/compare.h"
#include "compiler/command/stages.h"
#include "compiler/support/error.h"
#include "compiler/support/dtype.h"
#include "compiler/support/file.h"

namespace nacre {
namespace {

class Pack {
 public:
  explicit Pack(Precision precision) : precision_(precision) {}

  void line(const std::string& text) { text_ += text + "\n"; }

  // Complex results are compared by their parts.
  std::string described(const HostTensor& tensor, bool is_result) const {
    std::string text = fmt::format("{} {}", nacre_dtype_name(is_result ? real_of(tensor.dtype) : tensor.dtype), tensor.shape.size());
    for (const std::int64_t size : tensor.shape) text += fmt::format(" {}", size);
    return text;
  }

  // Where the bytes are.
  std::string put(const void* data, std::size_t size) {
    const std::size_t at = bytes_.size();
    bytes_.append(static_cast<const char*>(data), size);
    bytes_.append((64 - size % 64) % 64, '\0');
    return fmt::format("{} {}", at, size);
  }

  // What a result has to be near to, and how near.
  // `lowered`: PyTorch's result in the precision, or null.
  std::string expected(const HostTensor& own, const HostTensor* reference, const HostTensor* lowered) {
    const auto values = as_doubles(own);
    if (!values) return put(own.data.get(), own.size_bytes) + " -1";
    const Comparison rule = compare(own, own, reference);
    std::vector<double> best = *values;
    if (const auto wide = reference ? as_doubles(*reference) : std::nullopt; wide && wide->size() == best.size())
      for (std::size_t i = 0; i < best.size(); ++i)
        if (std::isfinite(best[i]) && std::isfinite((*wide)[i])) best[i] = (*wide)[i];
    double limit = rule.limit;
    if (lowered && lowered->shape == own.shape) {
      const Comparison theirs = compare(*lowered, *lowered, reference ? reference : &own);
      limit = std::max(limit, theirs.limit);
      if (precision_ == Precision::tf32 && lowered->dtype == NACRE_f32) limit = std::max(limit, 2 * theirs.own_error + 8 * 0x1p-10 * theirs.magnitude);
    } else if (precision_ != Precision::fp32) {
      limit = std::max(limit, 24 * (precision_ == Precision::bf16 ? 0x1p-7 : 0x1p-10) * rule.magnitude);
    }
    return fmt::format("{} {}", put(best.data(), best.size() * sizeof(double)), limit);
  }

  const std::string& text() const { return text_; }
  const std::string& bytes() const { return bytes_; }

 private:
  Precision precision_;
  std::string text_, bytes_;
};

// Whether the inputs lie as they come, one element after the other.
bool all_dense(const CaseSet& set) {
  for (std::size_t i = 0; i < set.places.size(); ++i) {
    std::int64_t step = 1;
    if (set.places[i].offset) return false;
    for (std::size_t d = set.inputs[i].shape.size(); d-- > 0;) {
      const std::int64_t size = set.inputs[i].shape[d];
      if (size != 1 && set.places[i].strides[d] != step) return false;
      step *= std::max<std::int64_t>(size, 1);
    }
  }
  return true;
}

}  // namespace

void pack_case(const Case& the_case, const Program& captured, const formats::Artifact& artifact, const PackLimits& limits,
               const std::filesystem::path& folder) {
  std::filesystem::create_directories(folder);
  Pack pack(limits.precision);
  std::unique_ptr<Runner> eager;
  if (limits.precision != Precision::fp32 && !limits.bound && !the_case.shape_only)
    eager = make_graph_runner(captured, limits.precision == Precision::fp16   ? OracleType::float16
                                        : limits.precision == Precision::bf16 ? OracleType::bfloat16
                                                                              : OracleType::tf32);
  for (const CaseSet& set : the_case.sets) {
    if (set.refuse || !set.shared.empty() || !all_dense(set)) continue;
    pack.line("set " + set.name.substr(0, set.name.find(' ')));
    if (set.continues) pack.line("continues");
    for (const HostTensor& input : set.inputs) pack.line(fmt::format("input {} {}", pack.described(input, false), pack.put(input.data.get(), input.size_bytes)));
    if (the_case.shape_only) continue;
    CallResult lowered;
    if (eager && !set.continues) eager->reset();
    try {
      if (eager) lowered = eager->call(set.inputs);
    } catch (const Error& error) {
      if (error.kind == ErrorKind::internal) throw;
      eager.reset();
    }
    for (std::size_t i = 0; i < set.outputs.size(); ++i)
      pack.line(fmt::format("output {} {}", pack.described(set.outputs[i], true), pack.expected(set.outputs[i], set.output64(i), i < lowered.outputs.size() ? &lowered.outputs[i] : nullptr)));
    for (const auto& [input, after] : set.after_inputs)
      pack.line(fmt::format("after {} {}", input, pack.expected(after, found_in(set.after_inputs64, input), found_in(lowered.after_inputs, input))));
  }
  if (limits.apart && !artifact.weights.empty()) {
    write_file(folder / "model.nacre.weights", [&](const Sink& weights) {
      write_file(folder / "model.nacre", [&](const Sink& sink) { formats::write_artifact(artifact, sink, weights); });
    });
  } else {
    write_file(folder / "model.nacre", [&](const Sink& sink) { formats::write_artifact(artifact, sink); });
    std::filesystem::remove(folder / "model.nacre.weights");
  }
  write_file(folder / "cases.txt", pack.text());
  write_file(folder / "cases.bin", pack.bytes());
}

}  // namespace nacre
