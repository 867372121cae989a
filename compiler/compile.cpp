#include "compiler/compile.h"

#include <algorithm>
#include <set>

#include <fmt/format.h>

#include "compiler/codegen/program.h"
#include "compiler/fusion/device.h"
#include "compiler/fusion/fuse.h"
#include "compiler/graph/clean.h"
#include "compiler/graph/constants.h"
#include "compiler/graph/decompose.h"
#include "compiler/graph/limit_sizes.h"
#include "compiler/graph/require_sizes.h"
#include "compiler/graph/split_complex.h"
#include "compiler/graph/text.h"
#include "compiler/graph/verify.h"
#include "compiler/layout/choose.h"
#include "compiler/layout/patches.h"
#include "compiler/layout/precision.h"
#include "compiler/loops/address.h"
#include "compiler/loops/lower.h"
#include "compiler/loops/regions.h"
#include "compiler/loops/text.h"
#include "compiler/loops/verify.h"
#include "compiler/memory/fit.h"
#include "compiler/memory/in_place.h"
#include "compiler/package.h"
#include "compiler/run.h"
#include "compiler/support/error.h"
#include "compiler/support/hash.h"
#include "compiler/support/print.h"
#include "compiler/support/target.h"
#include "compiler/toolchain/toolchain.h"
#include "compiler/variants.h"
#include "formats/costs.h"
#include "formats/device_image.h"

namespace nacre {

namespace {

void report(const CompileOptions& options, const std::string& what, size_t done = 0, size_t total = 0) {
  if (options.progress) options.progress(what, done, total);
}

// The product of a layer. `of` names the entry and variant where there are several: `4-fused.decode.loops`.
void dump(const CompileOptions& options, const std::string& layer, const std::string& of, const std::string& ending, const std::function<std::string()>& text) {
  if (!options.dump) return;
  std::string name;
  for (char c : of) {
    const bool plain = std::isalnum(static_cast<unsigned char>(c)) != 0;
    if (plain || (!name.empty() && name.back() != '_')) name += plain ? c : '_';
  }
  while (name.ends_with('_')) name.pop_back();
  options.dump(layer + (name.empty() ? "" : "." + name) + ending, text());
}

HostTensor first_random_state() {
  std::byte* bytes = nullptr;
  HostTensor state = make_tensor(NACRE_i64, {2}, &bytes);
  reinterpret_cast<int64_t*>(bytes)[0] = kDefaultSeed;
  return state;
}

// One variant on its way, for one target: what remains is the compiler for its kernels and a place in the tables.
struct Form {
  VariantKind kind = VariantKind::special;
  std::string name;
  std::string label;  // in names of files
  Narrowing narrowing;
  LoopProgram program;  // laid out
  std::map<std::string, HostTensor> weights;
  bool automatic = false;
  std::vector<SharedInput> shared = {};  // inputs that may share memory
  const Target* target = nullptr;
  std::vector<KernelSource> kernels = {};  // of the groups
  std::vector<uint32_t> kernel_of = {};    // their numbers
  std::vector<OtherKernel> others = {};
  MemoryPlan plan = {};
};

struct EntryForms {
  std::string name;
  Graph graph;  // primitive, of the general variant
  EntryTables tables;
  std::vector<Form> forms;
};

// Those of one target. Groups whose code is the same share a kernel, within and among variants.
struct Kernels {
  std::vector<Source> sources;
  std::vector<std::string> names;
  std::map<std::string, uint32_t> known;  // by body
  std::string prefix;                     // of symbols

  std::vector<uint32_t> add(const std::vector<KernelSource>& kernels) {
    std::vector<uint32_t> numbers;
    for (const KernelSource& kernel : kernels) {
      if (kernel.body.empty()) {  // of control flow, or an import
        numbers.push_back(0);
        continue;
      }
      auto [place, added] = known.try_emplace(kernel.body, static_cast<uint32_t>(sources.size()));
      if (added) {
        const std::string symbol = fmt::format("{}k{}_{}", prefix, sources.size(), kernel.name);
        sources.push_back({symbol, kernel.text(symbol)});
        if (kernel.launch)
          sources.back().launch = {static_cast<uint32_t>(kernel.launch->threads), static_cast<uint32_t>(kernel.buffers.size()),
                                   static_cast<uint32_t>(kernel.launch->shared_bytes), static_cast<uint32_t>(kernel.launch->cluster), static_cast<uint32_t>(kernel.launch->resident), kernel.launch->nodes,
                                   kernel.launch->maps};
        names.push_back(kernel.name);
      }
      numbers.push_back(place->second);
    }
    return numbers;
  }
};

// Packed weights by what they are made of: variants and entries whose packing agrees share them.
using PackedWeights = std::map<std::string, HostTensor>;

void pack_weights(const LaidOut& laid_out, std::map<std::string, HostTensor>& weights, PackedWeights& done, const CompileOptions& options) {
  std::vector<std::string> keys;
  bool all = true;
  for (const PackedWeight& packed : laid_out.packed) {
    const HostTensor& from = weights.at(packed.from);
    const std::string contents = hash128_hex({reinterpret_cast<const char*>(from.data.get()), from.size_bytes});
    keys.push_back(fmt::format("{} {} {} {}", packed.name.substr(packed.from.size()), static_cast<int>(from.dtype), fmt::join(from.shape, "x"), contents));
    all = all && done.contains(keys.back());
  }
  if (!all) {
    report(options, "pack weights");
    const std::vector<HostTensor> made = run_on_host(laid_out.packing, weights, options);
    for (size_t i = 0; i < made.size(); ++i) done.try_emplace(keys[i], made[i]);
  }
  for (size_t i = 0; i < keys.size(); ++i) weights[laid_out.packed[i].name] = done.at(keys[i]);
}

std::vector<KernelSource> emit_kernels(const LoopProgram& program, const Target& target, const SymbolNodes& nodes) {
  std::vector<KernelSource> kernels;
  for (const Group& group : program.groups) kernels.push_back(group.control ? KernelSource{} : emit_kernel(program, group, target, nodes));
  return kernels;
}

// The kernels of every choice that is open, the groups' own among them.
std::vector<OtherKernel> emit_candidates(const Form& form, const SymbolNodes& nodes) {
  std::vector<OtherKernel> others;
  Decisions& decisions = *form.target->decisions;
  for (size_t g = 0; g < form.kernels.size(); ++g) {
    const KernelSource& own = form.kernels[g];
    const auto open = decisions.open.find(own.question);
    if (own.question.empty() || open == decisions.open.end()) continue;
    const std::vector<std::string> choices = open->second;
    others.push_back({g, choices[0], own, 0});
    for (size_t i = 1; i < choices.size(); ++i) {
      decisions.trial = i;
      KernelSource kernel = emit_kernel(form.program, form.program.groups[g], *form.target, nodes);
      check(kernel.buffers == own.buffers && kernel.starts == own.starts, "{} has other operands with {}", own.name, choices[i]);
      others.push_back({g, choices[i], std::move(kernel), 0});
    }
    decisions.trial = 0;
  }
  return others;
}

// Into the limit of memory, or Error{user}.
void fit(Form& form, const CompileOptions& options) {
  report(options, "fit memory");
  FitOptions wanted;
  wanted.limit_bytes = *options.memory_limit;
  wanted.most_bands = options.most_bands;
  Fitted fitted = fit_memory(form.program, wanted, kernel_costs(*form.target));
  form.plan = plan_memory(fitted.program, true);
  const int64_t needs = fitted.needs.total();
  if (wanted.limit_bytes > 0 && needs > wanted.limit_bytes) {
    const std::string what = fmt::format("variant '{}' for {}", form.name, form.target->name);
    if (needs == kUnbounded) fail(ErrorKind::user, "{} has no upper limit of memory, and cannot be held to {} bytes", what, grouped(wanted.limit_bytes));
    fail(ErrorKind::user, "{} needs {} bytes of memory ({} of arena and {} of scratch), {} more than the limit of {}; {}", what, grouped(needs),
         grouped(fitted.needs.arena_bytes), grouped(fitted.needs.scratch_bytes), grouped(needs - wanted.limit_bytes), grouped(wanted.limit_bytes),
         blame(fitted.program, form.plan));
  }
  form.program = std::move(fitted.program);
}

// Fused loops -> laid out, with packed weights, places in memory and the text of kernels.
void finish_form(Form& form, const EntryTables& entry, PackedWeights& packed, const CompileOptions& options) {
  if (form.target->compute_capability) {
    form.program = fuse_for_device(std::move(form.program));
    choose_orders(form.program);
    take_patches(form.program, form.weights);
    lower_precision(form.program, form.weights, options.precision);
  }
  LaidOut laid_out = choose_layout(std::move(form.program), *form.target);
  pack_weights(laid_out, form.weights, packed, options);
  form.program = std::move(laid_out.program);
  const SymbolNodes nodes = symbol_nodes(entry, form.shared);
  if (options.memory_limit) {
    fit(form, options);
  } else {
    form.program = write_in_place(std::move(form.program));
    form.plan = plan_memory(form.program);
  }
  dump(options, "5-layout", form.label, ".loops", [&] { return print(form.program); });
  form.kernels = emit_kernels(form.program, *form.target, nodes);
  if (options.candidates && form.target->compute_capability) form.others = emit_candidates(form, nodes);
}

// Whether its code, as PTX, is what devices run that none of the targets is for.
bool is_lowest_device(const Target& target, const std::vector<const Target*>& targets) {
  return target.compute_capability && std::all_of(targets.begin(), targets.end(), [&](const Target* other) {
    return !other->compute_capability || other->compute_capability >= target.compute_capability;
  });
}

// In a GPU's row, what its variant takes of the device's memory at least: weights, state and, if it has a limit, the arena.
void want_memory(formats::Variant& variant, const formats::Artifact& artifact) {
  const auto aligned = [](uint64_t size) { return static_cast<int64_t>((size + 255) / 256 * 256); };
  const auto on_device = std::find_if(variant.commands.begin(), variant.commands.end(), [](const formats::Command& c) { return c.kind == NACRE_COMMAND_call; });
  if (on_device == variant.commands.end() || artifact.images.at(artifact.kernels.at(on_device->target).image).machine != NACRE_MACHINE_CUDA) return;
  int64_t bytes = variant.arena_size.is_constant() ? variant.arena_size.raw : variant.arena_bound;
  std::set<uint32_t> weights;
  for (const formats::Slot& slot : variant.slots)
    if (slot.kind == NACRE_SLOT_WEIGHT && weights.insert(slot.index).second) bytes += aligned(artifact.weights.at(slot.index).bytes.size());
  for (const formats::State& state : artifact.states) bytes += aligned(state.size_bytes);
  for (formats::Guard& guard : variant.guards)
    if (guard.kind == NACRE_GUARD_features) guard.hi = bytes;
}

// Forms -> an artifact. Puts the forms in the order of the guard table: one that takes some of another's shapes comes before it,
// and of those for the same shapes the one for the most demanding target. `tables` has what the entries have put there.
CompiledModel assemble(std::vector<EntryForms>& entries, Tables tables, const std::vector<const Target*>& targets, const CompileOptions& options) {
  std::vector<PackedImage> images;
  std::vector<Source> sources;
  std::vector<std::string> questions;
  uint32_t kernel_count = 0;
  for (const Target* target : targets) {
    Kernels kernels;
    if (!options.library.empty()) kernels.prefix = options.library + "_";
    for (EntryForms& entry : entries)
      for (Form& form : entry.forms)
        if (form.target == target) {
          form.kernel_of = kernels.add(form.kernels);
          for (OtherKernel& other : form.others) other.number = kernels.add({other.kernel})[0];
        }
    for (EntryForms& entry : entries)
      for (Form& form : entry.forms)
        if (form.target == target) {
          for (uint32_t& kernel : form.kernel_of) kernel += kernel_count;
          for (OtherKernel& other : form.others) other.number += kernel_count;
        }
    kernel_count += static_cast<uint32_t>(kernels.sources.size());
    questions.resize(kernel_count);
    for (const EntryForms& entry : entries)
      for (const Form& form : entry.forms)
        for (size_t i = 0; form.target == target && i < form.kernels.size(); ++i)
          if (!form.kernels[i].question.empty()) questions[form.kernel_of[i]] = form.kernels[i].question;
    dump(options, "6-kernels", targets.size() > 1 ? target->name : "", ".cpp", [&] {
      std::string text;
      for (const Source& source : kernels.sources) text += source.text + "\n";
      return text;
    });
    if (!options.library.empty()) {
      images.push_back({*target, {}, std::move(kernels.names)});
      sources = std::move(kernels.sources);
      continue;
    }
    ToolchainOptions toolchain;
    toolchain.threads = static_cast<int>(options.jobs);
    toolchain.use_cache = options.use_cache;
    toolchain.small_code = options.small_code;
    toolchain.ptx = is_lowest_device(*target, targets);
    toolchain.progress = [&](size_t done, size_t total) { report(options, "compile kernels", done, total); };
    images.push_back({*target, compile_image(kernels.sources, *target, toolchain), std::move(kernels.names)});
  }
  for (EntryForms& entry : entries)
    std::stable_sort(entry.forms.begin(), entry.forms.end(), [](const Form& a, const Form& b) { return a.narrowing.volume < b.narrowing.volume; });

  std::vector<formats::Entry> made;
  std::vector<std::vector<Narrowing>> narrowings;
  std::vector<std::vector<std::string>> arena_texts;
  std::vector<std::vector<VariantKind>> kinds;
  std::set<std::string> assumed;
  for (EntryForms& entry : entries) {
    for (const auto& [name, facts] : entry.graph.symbols)
      if (facts.assumed) assumed.insert(name);
    EntryTables common = entry.tables;
    narrowings.emplace_back();
    arena_texts.emplace_back();
    kinds.emplace_back();
    for (const Form& form : entry.forms) {
      kinds.back().push_back(form.kind);
      narrowings.back().push_back(form.narrowing);
      const std::string name = targets.size() == 1 ? form.name : form.name + ", " + form.target->name;
      MadeVariant variant = make_variant({name, form.program, form.kernels, form.kernel_of, form.weights, form.shared, form.others}, form.plan, entry.graph, common,
                                         tables, form.target->feature_bits);
      common.entry.variants.push_back(std::move(variant.variant));
      arena_texts.back().push_back(std::move(variant.arena_text));
    }
    made.push_back(std::move(common.entry));
  }
  CompiledModel result = package(std::move(tables), std::move(made), std::move(images), options.producer);
  for (formats::Entry& entry : result.artifact.entries)
    for (formats::Variant& variant : entry.variants) want_memory(variant, result.artifact);
  result.narrowings = std::move(narrowings);
  result.arena_texts = std::move(arena_texts);
  result.kinds = std::move(kinds);
  result.sources = std::move(sources);
  result.questions = std::move(questions);
  result.assumed_limits = {assumed.begin(), assumed.end()};
  return result;
}

bool has_input(const Graph& graph, const std::string& name) {
  return std::any_of(graph.inputs.begin(), graph.inputs.end(), [&](const GraphInput& input) {
    return input.kind == InputKind::user && (input.target.empty() ? graph[input.value].name : input.target) == name;
  });
}

bool concerns(const VariantRequest& request, const Method& method, bool alone) {
  if (!request.entry.empty()) return request.entry == method.name;
  return alone || std::all_of(request.inputs.begin(), request.inputs.end(), [&](const InputRequest& input) { return has_input(method.functional.graph, input.input); });
}

// Primitive and folded -> a form for each target that only lacks its place in the tables. Up to the layout they are one.
void add_forms(Program special, Form form, EntryForms& entry, PackedWeights& packed, const std::vector<const Target*>& targets, const CompileOptions& options) {
  dump(options, "3-folded", form.label, ".ir", [&] { return print(special.graph); });
  report(options, "fuse");
  form.program = to_loops(special.graph);
  // Guards of a variant also ask for what it has no use for any more.
  for (const auto& [name, facts] : special.graph.symbols) form.program.symbols.emplace(name, facts);
  for (size_t input : form.narrowing.channels_last) lie_channels_last(form.program, input);
  dump(options, "4-fused", form.label, ".loops", [&] { return print(form.program); });
  form.weights = std::move(special.weights);
  for (const Target* target : targets) {
    Form own = form;
    own.target = target;
    if (targets.size() > 1) own.label += "_" + target->name;
    finish_form(own, entry.tables, packed, options);
    entry.forms.push_back(std::move(own));
  }
}

EntryForms make_forms(const Method& method, bool alone, Tables& tables, PackedWeights& packed, const std::vector<const Target*>& targets, const CompileOptions& options) {
  const std::string of = alone ? "" : method.name;
  const std::vector<SharedInput> shared = method.overlap ? method.overlap->inputs : std::vector<SharedInput>{};
  dump(options, "1-functional", of, ".ir", [&] { return print(method.functional.graph); });
  report(options, "decompose");
  Program primitive = to_primitive(method.functional);
  dump(options, "2-primitive", of, ".ir", [&] { return print(primitive.graph); });
  primitive = fold(std::move(primitive), options);
  const LoopProgram general = lower(primitive.graph);
  // Symbols that nothing has a use for, such as one that export replaced by another, have no value.
  std::erase_if(primitive.graph.symbols, [&](const auto& symbol) { return !general.symbols.contains(symbol.first); });
  EntryForms entry{method.name, primitive.graph, make_entry(method.name, primitive.graph, general, shared, tables), {}};

  std::vector<Candidate> wanted{{"general", narrow(primitive.graph, VariantRequest{})}};
  wanted[0].narrowing.volume = 1e300;  // after all that are special, even if their rows are no narrower
  for (const VariantRequest& request : options.variants)
    if (concerns(request, method, alone)) wanted.push_back({request.name, narrow(primitive.graph, request)});
  const size_t requested = wanted.size();
  if (options.code_budget)
    for (Candidate& candidate : propose_variants(primitive.graph, *targets[0])) wanted.push_back(std::move(candidate));
  for (size_t i = 0; i < wanted.size(); ++i) {
    Form form{i == 0 ? VariantKind::general : VariantKind::special, wanted[i].name, i == 0 ? of : of + "_" + wanted[i].name, wanted[i].narrowing, {}, {},
              i >= requested};
    Program special = primitive;
    if (i > 0) {
      special.graph = clean(specialize(primitive.graph, form.narrowing));
      verify(special.graph);
      special = fold(std::move(special), options, form.name + ".");
    }
    add_forms(std::move(special), std::move(form), entry, packed, targets, options);
  }
  if (method.overlap) {  // the last row: where inputs share memory, no other holds
    Program sharing = method.functional;
    sharing.graph = method.overlap->graph;
    sharing = fold(to_primitive(sharing), options, "sharing.");
    Form form{VariantKind::sharing, "inputs that share memory", of + "_sharing", narrow(sharing.graph, VariantRequest{}), {}, {}, false, shared};
    form.narrowing.volume = 2e300;
    add_forms(std::move(sharing), std::move(form), entry, packed, targets, options);
  }
  return entry;
}

// Of the variants that nobody asked for, those stay that are clearly faster than the general one on shapes of theirs, the best
// gain for a byte of code first, as long as the budget lasts. Where the target is another machine, nothing can be measured, and
// the first ones stay. True if any went.
bool keep_what_pays(const std::vector<Method>& methods, std::vector<EntryForms>& entries, const CompiledModel& model, const CompileOptions& options) {
  constexpr double kLeastGain = 1.05;
  struct Judged {
    size_t entry, form;
    double worth;
    uint64_t bytes;
  };
  std::vector<Judged> good;
  const auto costs = formats::variant_costs(model.artifact);
  for (size_t e = 0; e < entries.size(); ++e)
    for (size_t f = 0; f < entries[e].forms.size(); ++f) {
      const Form& form = entries[e].forms[f];
      if (!form.automatic) continue;
      report(options, "measure variants");
      const uint64_t bytes = costs[e][f].own_code_bytes;
      double gain = kLeastGain;
      if (runs_here(*form.target) && model.artifact.imports.empty()) {
        const auto inputs = fit_samples(methods[e].functional, form.narrowing);
        const auto general = std::find_if(entries[e].forms.begin(), entries[e].forms.end(),
                                          [&](const Form& other) { return other.kind == VariantKind::general && other.target == form.target; });
        gain = inputs ? measure_gain(model.artifact, static_cast<uint32_t>(e), f, static_cast<size_t>(general - entries[e].forms.begin()), *inputs,
                                     options.use_cache)
                      : 0;
      }
      if (gain >= kLeastGain) good.push_back({e, f, (gain - 1) / static_cast<double>(std::max<uint64_t>(bytes, 1)), bytes});
    }
  std::stable_sort(good.begin(), good.end(), [](const Judged& a, const Judged& b) { return a.worth > b.worth; });
  std::set<std::pair<size_t, size_t>> stay;
  uint64_t left = options.code_budget;
  for (const Judged& j : good) {
    if (j.bytes > left) continue;
    left -= j.bytes;
    stay.insert({j.entry, j.form});
  }
  bool any = false;
  for (size_t e = 0; e < entries.size(); ++e)
    for (size_t f = entries[e].forms.size(); f-- > 0;) {
      if (!entries[e].forms[f].automatic || stay.contains({e, f})) continue;
      entries[e].forms.erase(entries[e].forms.begin() + static_cast<std::ptrdiff_t>(f));
      any = true;
    }
  return any;
}

}  // namespace

Program to_primitive(const Program& functional) {
  Program result = functional;
  result.graph = clean(split_complex(clean(decompose(functional.graph))));
  limit_sizes(result.graph);
  require_sizes(result.graph);
  verify(result.graph);
  for (const GraphInput& input : result.graph.inputs)
    if (input.target == kRandomState && !result.weights.contains(kRandomState)) result.weights[kRandomState] = first_random_state();
  return result;
}

LoopProgram to_lowered(const Graph& primitive) {
  LoopProgram lowered = lower(primitive);
  verify(lowered);
  return lowered;
}

LoopProgram to_fused(LoopProgram lowered) {
  LoopProgram fused = fuse(std::move(lowered));
  verify(fused);
  return fused;
}

CostOf kernel_costs(const Target& target) {
  return [&target](const LoopProgram& program) {
    const std::set<std::string> bound = bound_symbols(program);
    std::vector<GroupCost> costs;
    for (const Group& group : program.groups) {
      costs.emplace_back();
      if (group.control) continue;
      const KernelSource kernel = emit_kernel(program, group, target);
      costs.back().scratch_bytes = interval(capacity(kernel.scratch_bytes, bound, program.symbols), program.symbols).max;
      costs.back().flops = static_cast<double>(typical(kernel.flops, program.symbols));
    }
    return costs;
  };
}

LoopProgram to_loops(const Graph& primitive) { return to_fused(to_lowered(primitive)); }

Program fold(Program primitive, const CompileOptions& options, const std::string& prefix) {
  CompileOptions quiet = options;
  quiet.dump = nullptr;
  const Evaluate evaluate = [&](const Graph& constants, const std::map<std::string, HostTensor>& weights) {
    report(options, "compute constants");
    return run_on_host(to_loops(constants), weights, quiet);
  };
  Program result = fold_constants(std::move(primitive), evaluate, prefix);
  verify(result.graph);
  return result;
}

std::vector<HostTensor> run_on_host(const LoopProgram& program, const std::map<std::string, HostTensor>& weights, const CompileOptions& options) {
  CompileOptions quiet = options;
  quiet.dump = nullptr;
  quiet.progress = nullptr;
  quiet.memory_limit.reset();
  quiet.library.clear();
  // One level for all hosts that have it, so that constants do not depend on the machine.
  const Target* target = host_target();
  if (!target) fail(ErrorKind::environment, "this machine runs none of the targets, and constants are computed on it");
  PackedWeights packed;
  Form form{VariantKind::general, "general", "", {}, program, weights, false, {}, target};
  Tables tables;
  std::vector<EntryForms> entries;
  Graph nothing;
  nothing.symbols = program.symbols;
  entries.push_back({"constants", nothing, make_entry("constants", nothing, program, {}, tables), {}});
  finish_form(form, entries[0].tables, packed, quiet);
  entries[0].forms.push_back(std::move(form));
  const CompiledModel compiled = assemble(entries, std::move(tables), {target}, quiet);
  const AlignedBytes bytes = artifact_memory(compiled.artifact);
  const RuntimeModel model = RuntimeModel::open(bytes, "the program of constants");
  RuntimeSession session(model, {});
  RuntimeSession::Call call = session.prepare(0, {});
  session.run(call);
  return std::move(call.outputs);
}

CompiledModel compile(std::vector<Method> methods, const CompileOptions& options) {
  if (!options.library.empty())
    for (Method& method : methods) method.overlap.reset();  // a library's inputs lie apart
  std::vector<const Target*> targets = find_targets(options.target);
  std::vector<Target> with_decisions;
  if (options.decisions) {
    for (const Target* target : targets) {
      with_decisions.push_back(*target);
      with_decisions.back().decisions = options.decisions.get();
    }
    for (size_t i = 0; i < targets.size(); ++i) targets[i] = &with_decisions[i];
  }
  if (!options.library.empty()) {
    if (targets.size() > 1) fail(ErrorKind::user, "a static library is for one target");
    if (targets[0]->compute_capability) fail(ErrorKind::user, "a static library is for a processor, and {} is a GPU", targets[0]->name);
    if (!options.variants.empty() || options.code_budget) fail(ErrorKind::user, "a static library has one form of each entry, and takes no variants");
  } else {
    for (const Target* target : targets)
      if (target->firmware) fail(ErrorKind::user, "code for {} is linked into an image, and not loaded from an artifact: --emit static", target->name);
  }
  if (options.precision != Precision::fp32 && std::none_of(targets.begin(), targets.end(), [](const Target* t) { return t->compute_capability != 0; }))
    fail(ErrorKind::user, "a precision is for CUDA devices, and none of the targets is one");
  Tables tables;
  PackedWeights packed;
  std::vector<EntryForms> entries;
  for (const VariantRequest& request : options.variants)
    if (std::none_of(methods.begin(), methods.end(), [&](const Method& m) { return concerns(request, m, methods.size() == 1); }))
      fail(ErrorKind::user, "variant '{}' names an entry, or inputs, that none of the programs has", request.name);
  for (const Method& method : methods) entries.push_back(make_forms(method, methods.size() == 1, tables, packed, targets, options));
  CompiledModel model = assemble(entries, tables, targets, options);
  if (options.code_budget && keep_what_pays(methods, entries, model, options)) model = assemble(entries, tables, targets, options);
  return model;
}

CompiledModel compile(Program functional, const CompileOptions& options) {
  std::vector<Method> methods(1);
  methods[0].name = functional.graph.name.empty() ? "forward" : functional.graph.name;
  methods[0].functional = std::move(functional);
  return compile(std::move(methods), options);
}

}  // namespace nacre
