#include <fmt/format.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "compiler/graph/decompose_library.h"
#include "compiler/graph/ops.h"
#include "compiler/support/error.h"

namespace nacre {

namespace {

std::string json_text(const std::string& text) { return nlohmann::json(text).dump(-1, ' ', true, nlohmann::json::error_handler_t::replace); }

// Infinity and NaN as Python and strtod have them.
std::string json_number(double d) {
  if (std::isnan(d)) return "NaN";
  if (std::isinf(d)) return d < 0 ? "-Infinity" : "Infinity";
  return fmt::format("{}", d);
}

template <class List, class Text>
std::string json_list(const List& list, Text text) {
  std::string result;
  for (const auto& element : list) result += (result.empty() ? "" : ",") + text(element);
  return "[" + result + "]";
}

class ImportCall {
 public:
  ImportCall(Call& call, const Graph& functional) : call_(call), functional_(functional) {}

  Results run() {
    std::string arguments;
    for (const auto& [name, argument] : call_.node().args) {
      const std::string text = value(name, argument);
      if (!text.empty()) arguments += fmt::format("{}{}:{}", arguments.empty() ? "" : ",", json_text(name), text);
    }
    Graph& graph = call_.builder().graph();
    Node made;
    made.op = "prim.import";
    made.where = call_.builder().at();
    made.args = {{"inputs", inputs_}, {"function", library_function(call_.op())}, {"arguments", "{" + arguments + "}"}};
    std::vector<Tensor> results;
    for (ValueId v : call_.node().outputs) {
      if (v == kNoValue) {
        results.emplace_back();
        continue;
      }
      made.outputs.push_back(graph.add_value(result_type(functional_[v])));
      results.emplace_back(call_.builder(), made.outputs.back());
    }
    graph.nodes.push_back(std::move(made));
    return results;
  }

 private:
  Value result_type(const Value& v) const {
    if (v.kind != ValueKind::tensor) call_.unsupported("a result that is no tensor");
    if (is_complex(v.dtype)) call_.unsupported("complex numbers");
    Value type;
    type.name = v.name;
    type.dtype = v.dtype;
    for (const Expr& e : v.shape) {
      if (!call_.is_bound(e)) call_.unsupported("a result whose size only the data tell");
      type.shape.push_back(simplify(e, call_.facts()));
    }
    return type;
  }

  size_t add(const Tensor& t) {
    if (is_complex(t.dtype())) call_.unsupported("complex numbers");
    inputs_.push_back({t.id()});
    return inputs_.size() - 1;
  }

  std::string at_run_time(const Tensor& number) { return json_text(fmt::format("input {}", add(number))); }

  std::string integer(const Expr& e) {
    const Expr known = simplify(e, call_.facts());
    if (const auto constant = known.constant()) return std::to_string(*constant);
    return at_run_time(call_.full({}, known, NACRE_i64));
  }

  // Nothing for a tensor: its place among the inputs says what it is.
  std::string value(const std::string& name, const Argument& argument) {
    struct Visitor {
      ImportCall& self;
      const std::string& name;

      std::string operator()(std::monostate) const { return "null"; }
      std::string operator()(ValueRef ref) const {
        if (ref.id == kNoValue) return "null";
        const Tensor t = self.call_.operands(name).at(0);
        if (self.functional_[ref.id].kind != ValueKind::tensor) return self.at_run_time(t);
        self.add(t);
        return "";
      }
      std::string operator()(const std::vector<ValueRef>& refs) const {
        const std::vector<Tensor> given = self.call_.operands(name);
        size_t next = 0;
        return json_list(refs, [&](ValueRef ref) -> std::string {
          if (ref.id == kNoValue) return "null";
          const Tensor& t = given.at(next++);
          return self.functional_[ref.id].kind == ValueKind::tensor ? std::to_string(self.add(t)) : self.at_run_time(t);
        });
      }
      std::string operator()(const Expr& e) const { return self.integer(e); }
      std::string operator()(const std::vector<Expr>& list) const {
        return json_list(list, [&](const Expr& e) { return self.integer(e); });
      }
      std::string operator()(double d) const { return json_number(d); }
      std::string operator()(const std::vector<double>& list) const { return json_list(list, json_number); }
      std::string operator()(bool b) const { return b ? "true" : "false"; }
      std::string operator()(const std::vector<bool>& list) const {
        return json_list(list, [](bool b) -> std::string { return b ? "true" : "false"; });
      }
      std::string operator()(const std::string& text) const { return json_text(text); }
      std::string operator()(nacre_dtype dtype) const { return json_text(nacre_dtype_name(dtype)); }
      std::string operator()(const Keyword& keyword) const { return json_text(keyword.text); }
      std::string operator()(const SubgraphRef&) const { self.call_.unsupported("a graph as an argument"); }
      std::string operator()(const std::complex<double>& z) const {
        return fmt::format("[{},{}]", json_number(z.real()), json_number(z.imag()));
      }
    };
    return std::visit(Visitor{*this, name}, argument);
  }

  Call& call_;
  const Graph& functional_;
  std::vector<ValueRef> inputs_;
};

}  // namespace

Results import_of_library(Call& call, const Graph& functional) { return ImportCall(call, functional).run(); }

}  // namespace nacre
