#include "exporter/overlap.h"

#include <algorithm>
#include <map>
#include <set>

#include "exporter/functionalize.h"
#include "exporter/views.h"

namespace nacre {
namespace {

class Sharing {
 public:
  explicit Sharing(const Graph& captured) : graph_(captured) {}

  std::optional<OverlapGraph> run() {
    find_groups();
    if (shared_.empty() || addresses_memory()) return std::nullopt;
    std::vector<Node> body = std::move(graph_.nodes);
    graph_.nodes.clear();
    std::set<int> groups;
    for (const SharedInput& s : shared_) groups.insert(s.group);
    for (const int group : groups) join(group);
    for (Node& node : body) {
      for (auto& [name, argument] : node.args) rename(argument);
      graph_.nodes.push_back(std::move(node));
    }
    for (GraphOutput& output : graph_.outputs) rename(output.value);
    for (const ValueId written : written_) write_back(written);
    return OverlapGraph{std::move(graph_), std::move(shared_)};
  }

 private:
  // Tensors of a dtype of which one at least is written to.
  void find_groups() {
    std::set<size_t> written;
    for (const size_t i : written_inputs(graph_)) written.insert(i);
    std::set<std::string> targets;  // that a graph without in-place operators gives new contents
    for (const GraphOutput& output : graph_.outputs)
      if (output.kind == OutputKind::input_mutation) targets.insert(output.target);
    std::map<nacre_dtype, std::vector<SharedInput>> by_dtype;
    std::set<nacre_dtype> wanted;
    size_t position = 0;
    for (size_t i = 0; i < graph_.inputs.size(); ++i) {
      const GraphInput& input = graph_.inputs[i];
      if (input.kind != InputKind::user) continue;
      const size_t number = position++;
      const Value& v = graph_[input.value];
      if (v.kind != ValueKind::tensor) continue;
      SharedInput s;
      s.input = number;
      s.group = static_cast<int>(v.dtype);
      by_dtype[v.dtype].push_back(s);
      values_[number] = input.value;
      if (written.count(i)) written_.push_back(input.value);
      if (written.count(i) || targets.count(input.target)) wanted.insert(v.dtype);
    }
    for (const nacre_dtype dtype : wanted)
      if (by_dtype[dtype].size() > 1)
        shared_.insert(shared_.end(), by_dtype[dtype].begin(), by_dtype[dtype].end());
    std::sort(shared_.begin(), shared_.end(),
              [](const SharedInput& a, const SharedInput& b) { return a.input < b.input; });
    std::erase_if(written_, [&](ValueId v) {
      return std::none_of(shared_.begin(), shared_.end(),
                          [&](const SharedInput& s) { return values_.at(s.input) == v; });
    });
  }

  // Operators that count from the beginning of an input's memory would count from another's.
  bool addresses_memory() const {
    return std::any_of(graph_.nodes.begin(), graph_.nodes.end(),
                       [](const Node& node) { return base_name(node.op).starts_with("as_strided"); });
  }

  Expr new_symbol(const std::string& name) {
    std::string unique = name;
    for (int i = 1; graph_.symbols.count(unique); ++i) unique = name + "_" + std::to_string(i);
    SymbolFacts facts;
    facts.range = {0, kUnbounded};
    graph_.symbols[unique] = facts;
    return Expr::symbol(unique);
  }

  ValueId emit(std::string op, std::vector<std::pair<std::string, Argument>> args, Value result) {
    Node node;
    node.op = std::move(op);
    node.where.op = node.op;
    node.args = std::move(args);
    node.outputs = {graph_.add_value(std::move(result))};
    graph_.nodes.push_back(std::move(node));
    return graph_.nodes.back().outputs[0];
  }

  // One base for the inputs of a group, and views of it in their place.
  void join(int group) {
    std::vector<std::pair<ValueId, std::vector<std::pair<std::string, Argument>>>> views;
    Expr extent = 1;
    for (SharedInput& s : shared_) {
      if (s.group != group) continue;
      const Value v = graph_[values_.at(s.input)];
      const Expr offset = new_symbol("offset_" + v.name);
      s.offset = offset.name();
      std::vector<Expr> strides;
      Expr last = offset;
      for (size_t d = 0; d < v.shape.size(); ++d) {
        strides.push_back(new_symbol("stride_" + v.name + "_" + std::to_string(d)));
        s.strides.push_back(strides.back().name());
        last = last + (v.shape[d] - 1) * strides.back();
      }
      extent = max(extent, last + 1);
      views.emplace_back(values_.at(s.input), std::vector<std::pair<std::string, Argument>>{
                                                  {"size", v.shape}, {"stride", strides}, {"storage_offset", offset}});
    }
    Value base;
    base.name = "base";
    base.dtype = static_cast<nacre_dtype>(group);
    base.shape = {extent};
    ValueId now = emit("aten.zeros.default", {{"size", base.shape}, {"dtype", base.dtype}}, base);
    for (const auto& [value, args] : views) {
      std::vector<std::pair<std::string, Argument>> all = {{"self", ValueRef{now}}, {"src", ValueRef{value}}};
      all.insert(all.end(), args.begin(), args.end());
      now = emit("aten.as_strided_scatter.default", std::move(all), base);
    }
    for (const auto& [value, args] : views) {
      std::vector<std::pair<std::string, Argument>> all = {{"self", ValueRef{now}}};
      all.insert(all.end(), args.begin(), args.end());
      Value view = graph_[value];
      view.strides.clear();
      view.offset = std::get<Expr>(args.back().second);
      renamed_[value] = emit("aten.as_strided.default", std::move(all), std::move(view));
    }
  }

  void write_back(ValueId input) {
    Value v = graph_[input];
    emit("aten.copy_.default", {{"self", ValueRef{input}}, {"src", ValueRef{renamed_.at(input)}}}, std::move(v));
  }

  void rename(Argument& argument) const {
    const auto one = [&](ValueRef& ref) {
      if (const auto found = renamed_.find(ref.id); found != renamed_.end()) ref.id = found->second;
    };
    if (auto* ref = std::get_if<ValueRef>(&argument)) one(*ref);
    if (auto* list = std::get_if<std::vector<ValueRef>>(&argument))
      for (ValueRef& ref : *list) one(ref);
  }

  Graph graph_;
  std::vector<SharedInput> shared_;
  std::map<size_t, ValueId> values_;  // by position among the user inputs
  std::vector<ValueId> written_;
  std::map<ValueId, ValueId> renamed_;
};

}  // namespace

std::optional<OverlapGraph> overlapping(const Graph& captured) { return Sharing(captured).run(); }

}  // namespace nacre
