#include "exporter/pt2.h"

#include <algorithm>
#include <functional>
#include <nlohmann/json.hpp>
#include <set>

#include "compiler/support/error.h"
#include "exporter/archive.h"
#include "exporter/functionalize.h"
#include "exporter/pt2_graph.h"
#include "exporter/symbols.h"
#include "exporter/sympy.h"
#include "exporter/tree.h"
#include "exporter/weights.h"

namespace nacre {
namespace {

using nlohmann::json;

constexpr int kSchemaMajor = 8;

HostTensor number_tensor(nacre_dtype dtype, const void* value, size_t size) {
  std::byte* bytes = nullptr;
  HostTensor t = make_tensor(dtype, {}, &bytes);
  std::copy_n(static_cast<const std::byte*>(value), size, bytes);
  return t;
}

HostTensor integer_tensor(int64_t value) { return number_tensor(NACRE_i64, &value, sizeof value); }
HostTensor floating_tensor(double value) {
  auto narrow = static_cast<float>(value);
  return number_tensor(NACRE_f32, &narrow, sizeof narrow);
}
HostTensor boolean_tensor(bool value) { return number_tensor(NACRE_bool_, &value, 1); }

class Loader {
 public:
  explicit Loader(const std::filesystem::path& path) : archive_(path), path_(path.string()) {}

  Program run() {
    std::string model = find_model();
    try {
      json file = json::parse(archive_.text("models/" + model + ".json"));
      read(file, model);
    } catch (const json::exception& error) {
      fail(ErrorKind::user, "{} is malformed: {}", path_, error.what());
    } catch (const std::bad_alloc&) {
      fail(ErrorKind::user, "{} is malformed: something in it has an absurd size", path_);
    }
    return std::move(program_);
  }

 private:
  std::string find_model();
  void read(const json& file, const std::string& model);
  void read_weight_files(const std::string& model);
  void read_inputs(const json& signature);
  void read_samples(const std::string& model);
  void read_call(const json& program);
  void read_guards(const json& program);
  void read_paths();
  void read_narrowed();
  void read_outputs(const json& signature);
  void share_memory();
  void finish_symbols(Graph& graph);
  void add_constant_input(const json& constant);

  Archive archive_;
  std::string path_;
  const json* file_graph_ = nullptr;
  Program program_;
  SymbolTable symbols_;
  Names names_;
  std::set<std::string> defined_;
  std::map<std::string, Weight> weights_;
  // The user's arguments in the order of the program's tree of them: which of graph.inputs, or -1.
  std::vector<int> arguments_;
  // How they and the results are nested, and what the positional arguments are called.
  struct CallTree {
    json takes, gives;
    std::vector<std::string> names;
  };
  std::optional<CallTree> call_;
};

std::string Loader::find_model() {
  if (archive_.has("archive_format") && archive_.text("archive_format") != "pt2")
    fail(ErrorKind::user, "{} is an archive of PyTorch, but none of torch.export.save", path_);
  std::vector<std::string> models;
  for (const std::string& name : archive_.names())
    if (name.starts_with("models/") && name.ends_with(".json"))
      models.push_back(name.substr(7, name.size() - 12));
  if (models.empty())
    fail(ErrorKind::user,
         "{} has no models/model.json: a program saved with torch.export.save has one", path_);
  if (std::find(models.begin(), models.end(), "model") != models.end()) return "model";
  if (models.size() > 1)
    fail(ErrorKind::unsupported, "{} holds {} programs: save one of them by itself", path_,
         models.size());
  return models[0];
}

void Loader::read(const json& file, const std::string& model) {
  int major = file.at("schema_version").at("major").get<int>();
  if (major != kSchemaMajor) {
    fail(ErrorKind::user,
         "{} has version {} of the export schema, and only {} is understood: save it with PyTorch "
         "2.15",
         path_, major, kSchemaMajor);
  }
  const json& module = file.at("graph_module");
  const json& graph = module.at("graph");
  const json& signature = module.at("signature");
  file_graph_ = &graph;
  program_.graph.level = Level::captured;
  program_.graph.name = "forward";

  symbols_.read_ranges(file.at("range_constraints"));
  read_weight_files(model);
  read_inputs(signature);
  read_call(file);
  read_guards(file);
  for (GraphInput& input : program_.graph.inputs) {  // what the guards make equal
    Value& v = program_.graph[input.value];
    for (Expr& e : v.shape) e = symbols_.canonical(e);
    for (Expr& e : v.strides) e = symbols_.canonical(e);
  }
  read_nodes(graph, program_.graph, names_, symbols_, defined_);
  read_outputs(signature);
  share_memory();
  for (auto& input : program_.graph.inputs)
    if (input.kind != InputKind::user)
      program_.weights[input.target] = weights_.at(input.target).tensor;
  read_samples(model);
  read_paths();
  read_narrowed();
  finish_symbols(program_.graph);
  for (size_t i : written_inputs(program_.graph)) {
    const GraphInput& input = program_.graph.inputs[i];
    OutputKind kind =
        input.kind == InputKind::user ? OutputKind::input_mutation : OutputKind::buffer_mutation;
    bool told = false;
    for (const GraphOutput& output : program_.graph.outputs)
      told |= output.kind == kind && output.target == input.target;
    if (!told) program_.graph.outputs.push_back({ValueRef{input.value}, kind, input.target});
  }
  // A parameter or constant that the program writes is state like a buffer.
  for (const GraphOutput& output : program_.graph.outputs)
    for (GraphInput& input : program_.graph.inputs)
      if (output.kind == OutputKind::buffer_mutation && input.kind != InputKind::user && input.target == output.target) input.kind = InputKind::buffer;
  std::stable_sort(program_.graph.outputs.begin(), program_.graph.outputs.end(),
                   [](const GraphOutput& a, const GraphOutput& b) { return a.kind < b.kind; });
}

void Loader::read_weight_files(const std::string& model) {
  if (archive_.has("data/weights/" + model + ".pt"))
    fail(ErrorKind::user, "{} has its weights in an older form: save it with PyTorch 2.15", path_);
  read_weights(archive_,
               json::parse(archive_.text("data/weights/" + model + "_weights_config.json")),
               "data/weights/", weights_);
  std::string constants = "data/constants/" + model + "_constants_config.json";
  read_weights(archive_, json::parse(archive_.text(constants)), "data/constants/", weights_);
}

void Loader::add_constant_input(const json& constant) {
  std::string name = constant.at("name").get<std::string>();
  const json& value = constant.at("value");
  Value v;
  v.name = name;
  if (value.contains("as_int") || value.contains("as_float") || value.contains("as_bool")) {
    const Argument given = read_argument(value, names_);
    names_[name] = given;
    if (const Expr* n = std::get_if<Expr>(&given)) {
      v.kind = ValueKind::integer;
      v.dtype = NACRE_i64;
      v.expr = *n;
    } else if (const double* d = std::get_if<double>(&given)) {
      v.kind = ValueKind::floating;
      v.dtype = NACRE_f32;
      v.number = *d;
    } else {
      v.kind = ValueKind::boolean;
      v.dtype = NACRE_bool_;
      v.number = std::get<bool>(given);
    }
  } else {
    arguments_.push_back(-1);  // None or a string
    return;
  }
  Graph& graph = program_.graph;
  arguments_.push_back(static_cast<int>(graph.inputs.size()));
  graph.inputs.push_back({graph.add_value(std::move(v)), InputKind::user, name});
}

void Loader::read_inputs(const json& signature) {
  Graph& graph = program_.graph;
  auto add = [&](const std::string& name, InputKind kind, const std::string& target) {
    Value v = read_input_value(*file_graph_, name, symbols_);
    if (kind != InputKind::user) {
      auto weight = weights_.find(target);
      if (weight == weights_.end()) fail(ErrorKind::user, "{} has no data for `{}`", path_, target);
      bool fits = v.kind == ValueKind::tensor && v.dtype == weight->second.tensor.dtype &&
                  v.shape.size() == weight->second.tensor.shape.size();
      for (size_t i = 0; fits && i < v.shape.size(); ++i)
        fits = v.shape[i].is(weight->second.tensor.shape[i]);
      if (!fits)
        fail(ErrorKind::user,
             "the data of `{}` does not have the shape and type that the graph says", target);
      std::vector<int64_t> strides = weight->second.strides;
      for (size_t i = 0; i < v.strides.size(); ++i) strides[i] = v.strides[i].constant().value_or(-1);
      if (!weight->second.storage_holds(strides, v.offset.constant().value_or(-1)))
        fail(ErrorKind::user, "the graph places `{}` outside its data of {} bytes", target,
             weight->second.storage_bytes);
    }
    for (const Expr& e : v.shape) defined_.merge(e.symbols());
    if (v.kind == ValueKind::integer) defined_.merge(v.expr.symbols());
    ValueId id = graph.add_value(std::move(v));
    names_[name] = ValueRef{id};
    graph.inputs.push_back({id, kind, target});
  };
  for (const json& spec : signature.at("input_specs")) {
    if (auto user = spec.find("user_input"); user != spec.end()) {
      const json& arg = user->at("arg");
      if (auto t = arg.find("as_tensor"); t != arg.end()) {
        std::string name = t->at("name").get<std::string>();
        arguments_.push_back(static_cast<int>(graph.inputs.size()));
        add(name, InputKind::user, name);
      } else if (auto n = arg.find("as_sym_int"); n != arg.end()) {
        std::string name = n->at("as_name").get<std::string>();
        arguments_.push_back(static_cast<int>(graph.inputs.size()));
        add(name, InputKind::user, name);
        names_[name] = graph[graph.inputs.back().value].expr;  // a number like a size
      } else if (auto f = arg.find("as_sym_float"); f != arg.end()) {
        std::string name = f->at("as_name").get<std::string>();
        arguments_.push_back(static_cast<int>(graph.inputs.size()));
        add(name, InputKind::user, name);
      } else {
        fail(ErrorKind::unsupported, "{} takes an argument that is neither a tensor nor a number",
             path_);
      }
    } else if (auto parameter = spec.find("parameter"); parameter != spec.end()) {
      add(parameter->at("arg").at("name").get<std::string>(), InputKind::parameter,
          parameter->at("parameter_name").get<std::string>());
    } else if (auto buffer = spec.find("buffer"); buffer != spec.end()) {
      add(buffer->at("arg").at("name").get<std::string>(), InputKind::buffer,
          buffer->at("buffer_name").get<std::string>());
    } else if (auto constant = spec.find("tensor_constant"); constant != spec.end()) {
      add(constant->at("arg").at("name").get<std::string>(), InputKind::constant,
          constant->at("tensor_constant_name").get<std::string>());
    } else if (auto given = spec.find("constant_input"); given != spec.end()) {
      add_constant_input(*given);
    } else if (auto token = spec.find("token"); token != spec.end()) {
      names_[token->at("arg").at("name").get<std::string>()] = Argument();  // holds nothing
    } else {
      fail(ErrorKind::unsupported, "{} takes objects that are no tensors", path_);
    }
  }
}

void Loader::read_call(const json& program) {
  const json& calls = program.at("graph_module").at("module_call_graph");
  if (calls.empty() || calls[0].at("signature").is_null()) return;
  const json& signature = calls[0].at("signature");
  const auto tree = [&](const char* spec) { return json::parse(signature.at(spec).get<std::string>()).at(1); };
  call_ = {tree("in_spec"), tree("out_spec"), {}};
  if (auto names = signature.find("forward_arg_names");
      names != signature.end() && names->is_array())
    call_->names = names->get<std::vector<std::string>>();
}

// Names of sizes and numbers in guards: `L['x'].size()[0]`, `L['n']`.
void Loader::read_guards(const json& program) {
  auto guards = program.find("guards_code");
  if (guards == program.end() || guards->empty()) return;
  std::map<std::string, Expr> meanings;
  const Graph& graph = program_.graph;
  if (call_) {
    const std::vector<std::string>& given = call_->names;
    size_t next = 0;
    auto leaf = [&](const std::string& source, const PickledObject*) {
      if (next >= arguments_.size())
        fail(ErrorKind::user, "the program is malformed: it has more arguments than inputs");
      const int input = arguments_[next++];
      std::vector<std::string> sources;
      // `[0][2]...` is the third positional argument, `[1]['k']...` a named one.
      if (const auto place = positional(source)) {
        const auto& [index, rest] = *place;
        if (index < given.size()) {
          const std::string& name = given[index];
          sources.push_back("L['" + name + "']" + rest);
          // Export numbers the tensors of a star argument: `tensors_1` is `L['tensors'][1]` in
          // guards.
          size_t bar = name.rfind('_');
          if (bar != std::string::npos && bar + 1 < name.size() &&
              name.find_first_not_of("0123456789", bar + 1) == std::string::npos)
            sources.push_back(
                fmt::format("L['{}'][{}]{}", name.substr(0, bar), name.substr(bar + 1), rest));
        }
        sources.push_back(fmt::format("L['args'][{}]{}", index, rest));
        // A star argument holds what comes after the named ones.
        for (size_t named = 0; named <= index; ++named) {
          std::string star = named < given.size() ? given[named]
                             : given.empty()      ? "args"
                                                  : given.back();
          sources.push_back(fmt::format("L['{}'][{}]{}", star, index - named, rest));
        }
      } else if (source.starts_with("[1]")) {
        sources.push_back("L" + source.substr(3));
        sources.push_back("L['kwargs']" + source.substr(3));
      }
      if (input < 0) return;
      const Value& v = graph[graph.inputs[static_cast<size_t>(input)].value];
      for (const std::string& s : sources) {
        if (v.kind == ValueKind::integer) meanings.emplace(s, v.expr);
        if (v.kind != ValueKind::tensor) continue;
        Expr step(1);
        std::vector<Expr> strides = v.strides;
        if (strides.empty()) {
          strides.resize(v.shape.size());
          for (size_t d = v.shape.size(); d-- > 0; step *= v.shape[d]) strides[d] = step;
        }
        for (size_t d = 0; d < v.shape.size(); ++d) {
          meanings.emplace(fmt::format("{}.size()[{}]", s, d), v.shape[d]);
          meanings.emplace(fmt::format("{}.stride()[{}]", s, d), strides[d]);
        }
        meanings.emplace(s + ".storage_offset()", v.offset);
      }
    };
    walk_tree(call_->takes, nullptr, leaf);
  }
  auto meaning = [&](std::string_view source) -> std::optional<Expr> {
    auto found = meanings.find(std::string(source));
    return found == meanings.end() ? std::nullopt : std::optional(found->second);
  };
  for (const json& guard : *guards) {
    std::string text = guard.get<std::string>();
    auto condition = parse_guard(text, meaning);
    if (!condition)
      fail(ErrorKind::unsupported, "{} assumes `{}`, which is no condition on integers here", path_,
           text);
    symbols_.assume(*condition);
  }
}

void Loader::read_outputs(const json& signature) {
  Graph& graph = program_.graph;
  for (const json& spec : signature.at("output_specs")) {
    const std::string kind = spec.begin().key();
    const json& body = spec.begin().value();
    if (kind == "user_output") {
      graph.outputs.push_back({read_argument(body.at("arg"), names_), OutputKind::user, ""});
    } else if (kind == "loss_output") {
      graph.outputs.push_back({read_argument(json::object({{"as_tensor", body.at("arg")}}), names_),
                               OutputKind::user, ""});
    } else if (kind == "buffer_mutation" || kind == "parameter_mutation") {
      graph.outputs.push_back({read_argument(json::object({{"as_tensor", body.at("arg")}}), names_),
                               OutputKind::buffer_mutation,
                               body.at(kind == "buffer_mutation" ? "buffer_name" : "parameter_name")
                                   .get<std::string>()});
    } else if (kind == "user_input_mutation") {
      graph.outputs.push_back({read_argument(json::object({{"as_tensor", body.at("arg")}}), names_),
                               OutputKind::input_mutation,
                               body.at("user_input_name").get<std::string>()});
    } else if (kind != "token") {
      fail(ErrorKind::unsupported, "{} returns a {}: only programs for inference are supported",
           path_, kind);
    }
  }
}

// Weights that are the same memory are one input. Weights that overlap are copies unless one of
// them is written to: then all are views of the one that is the whole of their storage.
void Loader::share_memory() {
  Graph& graph = program_.graph;
  std::map<std::string, std::vector<size_t>> by_record;  // inputs
  for (size_t i = 0; i < graph.inputs.size(); ++i)
    if (graph.inputs[i].kind != InputKind::user)
      by_record[weights_.at(graph.inputs[i].target).record].push_back(i);

  std::map<ValueId, ValueId> same;
  std::vector<bool> dropped(graph.inputs.size(), false);
  std::map<std::string, std::string> renamed;  // mutation targets
  for (auto& [record, members] : by_record) {
    std::vector<size_t> distinct;
    for (size_t i : members) {
      auto equal = std::find_if(distinct.begin(), distinct.end(), [&](size_t j) {
        return weights_.at(graph.inputs[j].target).same_memory(weights_.at(graph.inputs[i].target));
      });
      if (equal == distinct.end()) {
        distinct.push_back(i);
        continue;
      }
      same[graph.inputs[i].value] = graph.inputs[*equal].value;
      renamed[graph.inputs[i].target] = graph.inputs[*equal].target;
      if (graph.inputs[i].kind == InputKind::buffer) graph.inputs[*equal].kind = InputKind::buffer;
      dropped[i] = true;
    }
    members = distinct;
  }
  auto rename = [&](Argument& a) {
    auto one = [&](ValueRef& v) {
      auto found = same.find(v.id);
      if (found != same.end()) v.id = found->second;
    };
    if (auto* v = std::get_if<ValueRef>(&a)) one(*v);
    if (auto* many = std::get_if<std::vector<ValueRef>>(&a))
      for (ValueRef& v : *many) one(v);
  };
  if (!same.empty()) {
    for (Node& node : graph.nodes)
      for (auto& [name, value] : node.args) rename(value);
    for (GraphOutput& output : graph.outputs) {
      rename(output.value);
      if (auto found = renamed.find(output.target);
          output.kind == OutputKind::buffer_mutation && found != renamed.end())
        output.target = found->second;
    }
  }

  finish_symbols(graph);
  std::vector<size_t> written = written_inputs(graph);
  std::vector<Node> views;
  for (const auto& [record, members] : by_record) {
    if (members.size() < 2) continue;
    bool any = std::any_of(members.begin(), members.end(), [&](size_t i) {
      return std::find(written.begin(), written.end(), i) != written.end();
    });
    if (!any) continue;
    auto whole = std::find_if(members.begin(), members.end(), [&](size_t i) {
      return weights_.at(graph.inputs[i].target).complete();
    });
    if (whole == members.end())
      fail(ErrorKind::unsupported, "`{}` and `{}` share memory and the program writes to it",
           graph.inputs[members[0]].target, graph.inputs[members[1]].target);
    for (size_t i : members) {
      if (i == *whole) continue;
      const Weight& w = weights_.at(graph.inputs[i].target);
      if (w.tensor.dtype != weights_.at(graph.inputs[*whole].target).tensor.dtype)
        fail(ErrorKind::unsupported,
             "`{}` shares memory with a tensor of another type and the program writes to it",
             graph.inputs[i].target);
      Node view;
      view.op = "aten.as_strided.default";
      view.where.op = view.op;
      std::vector<Expr> strides(w.strides.begin(), w.strides.end());
      view.args = {{"self", ValueRef{graph.inputs[*whole].value}},
                   {"size", graph[graph.inputs[i].value].shape},
                   {"stride", strides},
                   {"storage_offset", Expr(w.offset)}};
      view.outputs = {graph.inputs[i].value};
      views.push_back(std::move(view));
      dropped[i] = true;
      graph.inputs[*whole].kind = InputKind::buffer;
    }
  }
  graph.nodes.insert(graph.nodes.begin(), std::make_move_iterator(views.begin()),
                     std::make_move_iterator(views.end()));

  std::vector<GraphInput> inputs;
  std::vector<int> position(graph.inputs.size(), -1);
  for (size_t i = 0; i < graph.inputs.size(); ++i) {
    if (dropped[i]) continue;
    position[i] = static_cast<int>(inputs.size());
    inputs.push_back(graph.inputs[i]);
  }
  for (int& input : arguments_)
    if (input >= 0) input = position[static_cast<size_t>(input)];
  graph.inputs = std::move(inputs);
  if (same.empty()) return;
  // The values of the dropped inputs vanish from the table.
  std::vector<ValueId> renumbered(graph.values.size(), kNoValue);
  std::vector<Value> values;
  for (size_t v = 0; v < renumbered.size(); ++v) {
    if (same.count(static_cast<ValueId>(v)) != 0) continue;
    renumbered[v] = static_cast<ValueId>(values.size());
    values.push_back(std::move(graph.values[v]));
  }
  graph.values = std::move(values);
  auto renumber = [&](ValueId& id) {
    if (id != kNoValue) id = renumbered[static_cast<size_t>(id)];
  };
  auto renumber_argument = [&](Argument& a) {
    if (auto* v = std::get_if<ValueRef>(&a)) renumber(v->id);
    if (auto* many = std::get_if<std::vector<ValueRef>>(&a))
      for (ValueRef& v : *many) renumber(v.id);
  };
  for (GraphInput& input : graph.inputs) renumber(input.value);
  for (Node& node : graph.nodes) {
    for (auto& [name, value] : node.args) renumber_argument(value);
    for (ValueId& id : node.outputs) renumber(id);
  }
  for (GraphOutput& output : graph.outputs) renumber_argument(output.value);
}

void Loader::read_samples(const std::string& model) {
  Graph& graph = program_.graph;
  std::optional<PickledObject> samples;
  std::string record = "data/sample_inputs/" + model + ".pt";
  if (archive_.has(record)) {
    std::string bytes = archive_.text(record);
    if (!bytes.empty()) samples = read_pickle(bytes);
  }
  if (!call_) return;
  std::vector<HostTensor> tensors;
  bool complete = samples.has_value();
  size_t next = 0;
  auto leaf = [&](const std::string&, const PickledObject* object) {
    if (next >= arguments_.size())
      fail(ErrorKind::user, "the program is malformed: it has more arguments than inputs");
    const int input = arguments_[next++];
    if (input < 0) return;
    const Value& v = graph[graph.inputs[static_cast<size_t>(input)].value];
    using Kind = PickledObject::Kind;
    HostTensor tensor;
    if (v.kind == ValueKind::tensor) {
      if (object == nullptr || object->kind != Kind::tensor) {
        complete = false;
      } else {
        tensor = object->tensor;
        if (tensor.dtype != v.dtype || tensor.shape.size() != v.shape.size()) {
          complete = false;
          tensor = {};
        }
        for (size_t d = 0; d < tensor.shape.size(); ++d)
          if (v.shape[d].op() == ExprOp::symbol)
            symbols_.facts[v.shape[d].name()].hint = tensor.shape[d];
      }
    } else if (v.kind == ValueKind::integer) {
      int64_t value = v.expr.constant().value_or(0);
      if (object != nullptr && object->kind == Kind::integer) value = object->integer;
      if (object == nullptr && !v.expr.constant()) complete = false;
      if (v.expr.op() == ExprOp::symbol && complete) symbols_.facts[v.expr.name()].hint = value;
      tensor = integer_tensor(value);
    } else if (v.kind == ValueKind::floating) {
      double value = v.number.value_or(0);
      if (object != nullptr && object->kind == Kind::floating) value = object->floating;
      if (object == nullptr && !v.number) complete = false;
      tensor = floating_tensor(value);
    } else {
      tensor = boolean_tensor(v.number.value_or(0) != 0);
    }
    tensors.push_back(std::move(tensor));
  };
  walk_tree(call_->takes, samples ? &*samples : nullptr, leaf);
  if (complete) program_.sample_inputs = std::move(tensors);
}

// What exporter/narrowed.py put beside the program.
void Loader::read_narrowed() {
  const std::string record = "extra/nacre_narrowed.json";
  if (!archive_.has(record)) return;
  for (const json& entry : json::parse(archive_.text(record)))
    program_.narrowed.push_back(fmt::format(
        "{} by {}:{} in {}: {}", entry.at("condition").get<std::string>(),
        std::filesystem::path(entry.at("file").get<std::string>()).filename().string(),
        entry.at("line").get<int>(), entry.at("function").get<std::string>(),
        entry.at("code").get<std::string>()));
}

// Where inputs and outputs lie in what the module takes and gives.
void Loader::read_paths() {
  if (!call_) return;
  Graph& graph = program_.graph;
  size_t next = 0;
  walk_tree(call_->takes, nullptr, [&](const std::string& source, const PickledObject*) {
    const int number = next < arguments_.size() ? arguments_[next++] : -1;
    if (number < 0) return;
    GraphInput& input = graph.inputs[static_cast<size_t>(number)];
    const std::string path = argument_path(source, call_->names);
    if (path != input.target) input.path = path;
  });
  next = 0;
  walk_tree(call_->gives, nullptr, [&](const std::string& source, const PickledObject*) {
    while (next < graph.outputs.size() && graph.outputs[next].kind != OutputKind::user) ++next;
    if (next < graph.outputs.size()) graph.outputs[next++].target = source;
  });
}

// Every graph knows the symbols that it uses.
void Loader::finish_symbols(Graph& graph) {
  graph.symbols = symbols_.facts;
  if (&graph == &program_.graph) graph.assumptions = symbols_.assumptions;
  for (auto& [name, sub] : graph.subgraphs) finish_symbols(sub);
}

}  // namespace

Program load_pt2(const std::filesystem::path& path) { return Loader(path).run(); }

}  // namespace nacre
