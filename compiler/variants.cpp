#include "compiler/variants.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <random>
#include <set>

#include <fmt/format.h>

#include "compiler/support/hash.h"
#include "compiler/toolchain/cache.h"

namespace nacre {

namespace {

using Values = std::map<std::string, int64_t>;

// Symbols that sizes of inputs consist of, in order.
std::vector<std::string> symbols_of_inputs(const Graph& graph) {
  std::set<std::string> found;
  for (const GraphInput& input : graph.inputs)
    if (input.kind == InputKind::user)
      for (const Expr& e : graph[input.value].shape)
        for (const std::string& s : e.symbols()) found.insert(s);
  return {found.begin(), found.end()};
}

// Sizes that every condition holds for: those of the sample first, then others at random.
std::optional<Values> find_values(const Graph& graph, const Narrowing& narrowing) {
  std::vector<Expr> conditions = narrowing.conditions;
  conditions.insert(conditions.end(), graph.assumptions.begin(), graph.assumptions.end());
  std::mt19937 random(1);
  for (int attempt = 0; attempt < 200; ++attempt) {
    Values values;
    for (const auto& [name, facts] : narrowing.symbols) {
      const int64_t least = std::max<int64_t>(facts.range.min, 0), most = std::min(facts.range.max, std::max<int64_t>(least, 64));
      int64_t value = facts.hint > 0 ? facts.hint : std::clamp<int64_t>(2, least, most);
      if (attempt > 0) value = std::uniform_int_distribution<int64_t>(least, most)(random);
      value -= value % facts.multiple;
      if (value < least) value += facts.multiple;
      values[name] = value;
    }
    for (const auto& [name, expr] : narrowing.values)
      if (const auto value = expr.evaluate(values)) values[name] = *value;
    if (std::all_of(conditions.begin(), conditions.end(), [&](const Expr& e) { return e.evaluate(values).value_or(0) != 0; })) return values;
  }
  return std::nullopt;
}

// Element [i, j, ...] is the sample's [i mod n, j mod m, ...].
HostTensor repeated(const HostTensor& sample, const std::vector<int64_t>& shape) {
  std::byte* bytes = nullptr;
  HostTensor result = make_tensor(sample.dtype, shape, &bytes);
  const size_t size = nacre_dtype_size_bytes(sample.dtype);
  if (sample.size_bytes == 0) return result;
  std::vector<int64_t> at(shape.size(), 0);
  for (int64_t i = 0; i < result.elements(); ++i) {
    int64_t from = 0;
    for (size_t d = 0; d < shape.size(); ++d) from = from * sample.shape[d] + at[d] % sample.shape[d];
    std::memcpy(bytes + static_cast<size_t>(i) * size, sample.data.get() + static_cast<size_t>(from) * size, size);
    for (size_t d = shape.size(); d-- > 0;) {
      if (++at[d] < shape[d]) break;
      at[d] = 0;
    }
  }
  return result;
}

// What a measurement depends on: the code of both variants, and the shapes.
std::string race_key(const formats::Artifact& artifact, uint32_t entry, size_t variant, size_t general, const std::vector<HostTensor>& inputs) {
  std::string key = "race 1";
  for (const formats::Image& image : artifact.images) {
    key += " " + image.target;
    key.append(reinterpret_cast<const char*>(image.bytes.data()), image.bytes.size());
  }
  const formats::Entry& e = artifact.entries[entry];
  for (const formats::Variant* v : {&e.variants[variant], &e.variants[general]})
    for (const formats::Command& c : v->commands) key += fmt::format(" {}:{}", c.target, fmt::join(c.operands, ","));
  for (const HostTensor& t : inputs) key += fmt::format(" {}", fmt::join(t.shape, "x"));
  return hash128_hex(key);
}

}  // namespace

namespace {

nacre_session_options session_options(bool profile) {
  nacre_session_options options{};
  options.profile = profile;
  return options;
}

}  // namespace

Racer::Racer(const formats::Artifact& artifact, uint32_t entry, const std::vector<HostTensor>& inputs, bool profile, uint32_t device, const Imports& imports)
    : bytes_(artifact_memory(artifact)), model_(RuntimeModel::open(bytes_, "a variant", imports, device)), session_(model_, session_options(profile)), call_(session_.prepare(entry, inputs)) {}

double Racer::run() {
  nacre_session_reset(session_.get());
  const auto start = std::chrono::steady_clock::now();
  session_.run(call_);
  return std::chrono::duration<double, std::nano>(std::chrono::steady_clock::now() - start).count();
}

std::vector<Candidate> propose_variants(const Graph& graph, const Target& target) {
  constexpr size_t kMostSymbols = 3;
  std::vector<std::string> symbols = symbols_of_inputs(graph);
  if (symbols.size() > kMostSymbols) symbols.resize(kMostSymbols);
  const int64_t vector = target.vector_floats();
  std::vector<Candidate> result;
  auto propose = [&](const std::map<std::string, DimRequest>& sizes) {
    Candidate c;
    for (const auto& [symbol, size] : sizes)
      c.name += (c.name.empty() ? "" : ", ") + symbol + (size.min == size.max ? fmt::format(" = {}", size.min) : fmt::format(" by {}", size.multiple));
    auto narrowing = narrow(graph, sizes);
    if (!narrowing) return;
    const bool known = std::any_of(result.begin(), result.end(), [&](const Candidate& other) { return other.name == c.name; });
    if (known) return;
    c.narrowing = std::move(*narrowing);
    result.push_back(std::move(c));
  };
  const DimRequest one{1, 1, 1, {}}, whole_vectors{0, kUnbounded, vector, {}};
  std::map<std::string, DimRequest> sample;
  for (const std::string& s : symbols)
    if (const int64_t hint = graph.symbols.at(s).hint; hint > 0) sample[s] = {hint, hint, 1, {}};
  if (!sample.empty()) propose(sample);
  for (const std::string& s : symbols) {
    propose({{s, one}});
    propose({{s, whole_vectors}});
    for (const std::string& other : symbols)
      if (other != s) propose({{s, one}, {other, whole_vectors}});
  }
  return result;
}

std::optional<std::vector<HostTensor>> fit_samples(const Program& program, const Narrowing& narrowing) {
  const std::optional<Values> values = find_values(program.graph, narrowing);
  if (!values) return std::nullopt;
  std::vector<HostTensor> inputs;
  for (const GraphInput& input : program.graph.inputs) {
    if (input.kind != InputKind::user) continue;
    if (inputs.size() == program.sample_inputs.size()) return std::nullopt;
    const HostTensor& sample = program.sample_inputs[inputs.size()];
    const Value& value = program.graph[input.value];
    if (value.kind != ValueKind::tensor) {
      inputs.push_back(sample);
      if (value.kind != ValueKind::integer || value.expr.constant()) continue;
      std::byte* bytes = nullptr;
      inputs.back() = make_tensor(NACRE_i64, {}, &bytes);
      const int64_t number = value.expr.evaluate(*values).value_or(0);
      std::memcpy(bytes, &number, sizeof number);
      continue;
    }
    std::vector<int64_t> shape;
    for (const Expr& e : value.shape) {
      const std::optional<int64_t> size = e.evaluate(*values);
      if (!size || *size < 0) return std::nullopt;
      shape.push_back(*size);
    }
    inputs.push_back(shape == sample.shape ? sample : repeated(sample, shape));
  }
  return inputs;
}

formats::Artifact variant_alone(const formats::Artifact& artifact, uint32_t entry, size_t variant) {
  formats::Artifact result = artifact;
  result.entries[entry].variants = {artifact.entries[entry].variants[variant]};
  return result;
}

double measure_gain(const formats::Artifact& artifact, uint32_t entry, size_t variant, size_t general, const std::vector<HostTensor>& inputs, bool use_cache) {
  const ObjectCache cache(use_cache ? ObjectCache::default_folder() : std::filesystem::path());
  const std::string key = race_key(artifact, entry, variant, general, inputs);
  if (const auto known = cache.find(key)) return std::stod(*known);
  Racer special(variant_alone(artifact, entry, variant), entry, inputs);
  Racer general_variant(variant_alone(artifact, entry, general), entry, inputs);
  // In turns, so that what else the machine does hits both alike; the least of many is the time that the work takes.
  double least[2] = {1e300, 1e300}, spent = 0;
  for (int round = 0; round < 200 && (round < 5 || spent < 1e9); ++round)
    for (int which = 0; which < 2; ++which) {
      const double time = (which ? general_variant : special).run();
      spent += time;
      if (round > 0) least[which] = std::min(least[which], time);
    }
  const double gain = least[1] / std::max(least[0], 1.0);
  cache.store(key, fmt::format("{:.4f}", gain));
  return gain;
}

}  // namespace nacre
