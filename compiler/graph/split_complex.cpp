#include "compiler/graph/split_complex.h"

#include <algorithm>
#include <functional>
#include <numbers>
#include <set>
#include <unordered_map>

#include "compiler/graph/decompose_tensor.h"
#include "compiler/graph/ops.h"
#include "compiler/graph/text.h"
#include "compiler/support/error.h"

namespace nacre {

namespace {

struct Pair {
  Tensor re, im;
  Tensor stored;                // the parts in a last dim, where the pair came from there
  ValueId original = kNoValue;  // the input that it is
};

// ---- Formulas.

Pair times(const Pair& a, const Pair& b) {
  return {a.re * b.re - a.im * b.im, a.re * b.im + a.im * b.re, {}};
}

// Smith's: divides by the larger part of b first, so that nothing overflows on the way.
Pair divided(const Pair& a, const Pair& b) {
  Tensor by_re = ge(abs(b.re), abs(b.im));
  Tensor larger = where(by_re, b.re, b.im), smaller = where(by_re, b.im, b.re);
  Tensor zero = eq(larger, 0) & eq(smaller, 0);
  Tensor ratio = where(zero, full_like(larger, 0), smaller / larger);
  Tensor scale = larger + smaller * ratio;
  Tensor first_re = where(by_re, a.re, a.im), second_re = where(by_re, a.im, a.re);
  Tensor first_im = where(by_re, a.im, -a.re), second_im = where(by_re, -a.re, a.im);
  Tensor divisor = where(zero, abs(scale), scale);
  return {(first_re + second_re * ratio) / divisor, (first_im + second_im * ratio) / divisor, {}};
}

Pair exponential(const Pair& z) {
  Tensor size = exp(z.re);
  // exp(x + 0i) is real, whatever size overflows to.
  Tensor flat = eq(z.im, 0);
  return {where(flat, size, size * cos(z.im)), where(flat, z.im, size * sin(z.im)), {}};
}

Pair logarithm(const Pair& z) { return {log(hypot(z.re, z.im)), atan2(z.im, z.re), {}}; }

Pair scaled(const Pair& z, double factor) { return {z.re * factor, z.im * factor, {}}; }

// The principal root: the sum under the real root never cancels.
Pair square_root(const Pair& z) {
  Tensor size = hypot(z.re, z.im);
  Tensor t = sqrt((size + abs(z.re)) * 0.5);
  Tensor other = where(eq(t, 0), full_like(t, 0), abs(z.im) / (t * 2.0));
  Tensor right = ge(z.re, 0);
  return {where(right, t, other), copysign(where(right, other, t), z.im), {}};
}

Pair one_over(const Pair& z) { return divided({full_like(z.re, 1), full_like(z.im, 0), {}}, z); }

Pair sine(const Pair& z) { return {sin(z.re) * cosh(z.im), cos(z.re) * sinh(z.im), {}}; }
Pair cosine(const Pair& z) { return {cos(z.re) * cosh(z.im), -(sin(z.re) * sinh(z.im)), {}}; }
Pair hyperbolic_sine(const Pair& z) { return {sinh(z.re) * cos(z.im), cosh(z.re) * sin(z.im), {}}; }
Pair hyperbolic_cosine(const Pair& z) {
  return {cosh(z.re) * cos(z.im), sinh(z.re) * sin(z.im), {}};
}
// With t = tanh x and u = tan y: ((t (1 + u^2)) + i (u (1 - t^2))) / (1 + t^2 u^2), without the infinities of tan.
Pair hyperbolic_tangent(const Pair& z) {
  Tensor t = tanh(z.re), s = sin(z.im), c = cos(z.im);
  Tensor below = c * c + t * t * s * s;
  return {t / below, s * c * (-(t * t) + 1) / below, {}};
}
Pair tangent(const Pair& z) {  // tan z = -i tanh(i z)
  Pair y = hyperbolic_tangent({-z.im, z.re, {}});
  return {y.im, -y.re, {}};
}

Pair sigmoid_of(const Pair& z) {
  Pair e = exponential({-z.re, -z.im, {}});
  return one_over({e.re + 1, e.im, {}});
}

Pair power(const Pair& z, const Pair& w) {
  Pair y = exponential(times(logarithm(z), w));
  Tensor base_zero = eq(z.re, 0) & eq(z.im, 0), power_zero = eq(w.re, 0) & eq(w.im, 0);
  Tensor re = where(base_zero, full_like(y.re, 0), y.re);
  Tensor im = where(base_zero, full_like(y.im, 0), y.im);
  return {where(power_zero, full_like(re, 1), re), where(power_zero, full_like(im, 0), im), {}};
}

using Unary = Pair (*)(const Pair&);
const std::unordered_map<std::string, Unary>& unary_formulas() {
  static const std::unordered_map<std::string, Unary> table = {
      {"neg", [](const Pair& z) { return Pair{-z.re, -z.im, {}}; }},
      {"reciprocal", one_over},
      {"exp", exponential},
      {"exp2", [](const Pair& z) { return exponential(scaled(z, std::numbers::ln2)); }},
      {"expm1", [](const Pair& z) {
         Pair y = exponential(z);
         return Pair{y.re - 1, y.im, {}};
       }},
      {"log", logarithm},
      {"log2", [](const Pair& z) { return scaled(logarithm(z), std::numbers::log2e); }},
      {"log10", [](const Pair& z) { return scaled(logarithm(z), std::numbers::log10e); }},
      {"log1p", [](const Pair& z) { return logarithm({z.re + 1, z.im, {}}); }},
      {"sqrt", square_root},
      {"rsqrt", [](const Pair& z) { return one_over(square_root(z)); }},
      {"sin", sine},
      {"cos", cosine},
      {"tan", tangent},
      {"sinh", hyperbolic_sine},
      {"cosh", hyperbolic_cosine},
      {"tanh", hyperbolic_tangent},
      {"sigmoid", sigmoid_of},
  };
  return table;
}

using Binary = Pair (*)(const Pair&, const Pair&);
const std::unordered_map<std::string, Binary>& binary_formulas() {
  static const std::unordered_map<std::string, Binary> table = {
      {"add", [](const Pair& a, const Pair& b) { return Pair{a.re + b.re, a.im + b.im, {}}; }},
      {"sub", [](const Pair& a, const Pair& b) { return Pair{a.re - b.re, a.im - b.im, {}}; }},
      {"mul", times},
      {"div", divided},
      {"pow", power},
  };
  return table;
}

// What acts on the two parts alike, each on its own.
bool acts_on_parts(const std::string& name) {
  static const std::set<std::string> more = {"sum", "cumsum", "index", "gather", "index_put"};
  return primitive_class(name) == PrimClass::view || more.contains(name);
}

class Splitter {
 public:
  explicit Splitter(const Graph& graph)
      : in_(graph), plain_(graph.values.size(), kNoValue), pairs_(graph.values.size()) {}

  Graph run() {
    out_.level = in_.level;
    out_.name = in_.name;
    out_.symbols = in_.symbols;
    out_.assumptions = in_.assumptions;
    out_.subgraphs = in_.subgraphs;
    for (const GraphInput& input : in_.inputs) {
      GraphInput mine = input;
      mine.value = out_.add_value(in_[input.value]);
      names_[mine.value] = in_[input.value].name;
      out_.inputs.push_back(mine);
      if (complex(input.value))
        pair_of(input.value).original = mine.value;
      else
        plain_[static_cast<size_t>(input.value)] = mine.value;
    }
    for (const Node& node : in_.nodes) {
      builder_.at(node.where);
      process(node);
    }
    for (const GraphOutput& output : in_.outputs) {
      GraphOutput mine = output;
      if (auto* v = std::get_if<ValueRef>(&mine.value); v && v->id != kNoValue) v->id = whole(v->id);
      out_.outputs.push_back(std::move(mine));
    }
    name_values();
    return std::move(out_);
  }

 private:
  bool complex(ValueId v) const {
    return in_[v].kind == ValueKind::tensor && is_complex(in_[v].dtype);
  }
  Pair& pair_of(ValueId v) { return pairs_[static_cast<size_t>(v)]; }

  const Pair& pair(ValueId v) {
    Pair& p = pair_of(v);
    if (p.re) return p;
    if (!p.stored) p.stored = view_as_real(Tensor(builder_, p.original));
    p.re = select(p.stored, -1, 0);
    p.im = select(p.stored, -1, 1);
    return p;
  }
  Tensor stored(ValueId v) {
    Pair& p = pair_of(v);
    if (!p.stored && p.original != kNoValue) p.stored = view_as_real(Tensor(builder_, p.original));
    if (!p.stored) p.stored = stack({p.re, p.im}, -1);
    return p.stored;
  }
  // The value in the new graph that has the same dtype as in the old.
  ValueId whole(ValueId v) {
    if (!complex(v)) return plain_[static_cast<size_t>(v)];
    Pair& p = pair_of(v);
    if (p.original != kNoValue) return p.original;
    p.original = view_as_complex(stored(v)).id();
    names_[p.original] = in_[v].name;
    return p.original;
  }

  enum class Part { re, im };

  Argument part_of(const Argument& argument, Part part) {
    auto one = [&](ValueRef v) {
      if (v.id == kNoValue) return v;
      if (!complex(v.id)) return ValueRef{plain_[static_cast<size_t>(v.id)]};
      const Pair& p = pair(v.id);
      return ValueRef{part == Part::re ? p.re.id() : p.im.id()};
    };
    if (auto* v = std::get_if<ValueRef>(&argument)) return one(*v);
    if (auto* list = std::get_if<std::vector<ValueRef>>(&argument)) {
      std::vector<ValueRef> refs;
      for (ValueRef v : *list) refs.push_back(one(v));
      return refs;
    }
    return argument;
  }

  // The same primitive on one part of every complex operand.
  Tensor on_part(const Node& node, Part part) {
    Builder::Args args;
    for (const auto& [name, argument] : node.args) {
      const bool fills = node.op == "prim.pad" && name == "value";
      args.emplace_back(name, fills && part == Part::im ? Argument(0.0) : part_of(argument, part));
    }
    return {builder_, builder_.make_one(node.op, std::move(args))};
  }

  void process(const Node& node) {
    bool any = false;
    for (const auto& [name, argument] : node.args)
      for_each_value(argument, [&](ValueId v) { any |= complex(v); });
    for (ValueId v : node.outputs) any |= v != kNoValue && complex(v);
    if (!any) return keep(node);

    if (primitive_class(node.op) == PrimClass::control)
      fail_at(ErrorKind::unsupported, where_text(node.where), "complex numbers that go through a branch or loop");
    const std::string name = node.op.substr(5);
    check(node.outputs.size() == 1 && node.outputs[0] != kNoValue, "{} of complex numbers with {} results", node.op, node.outputs.size());
    const ValueId y = node.outputs[0];
    std::vector<ValueId> operands;
    for (const auto& [key, argument] : node.args) for_each_value(argument, [&](ValueId v) { operands.push_back(v); });
    auto is = [&](Pair p) { pair_of(y) = std::move(p); };
    auto is_plain = [&](const Tensor& t) { plain_[static_cast<size_t>(y)] = t.id(); };
    auto real_operand = [&](size_t i) { return Tensor(builder_, plain_[static_cast<size_t>(operands.at(i))]); };

    if (name == "real") return is_plain(pair(operands.at(0)).re);
    if (name == "imag") return is_plain(pair(operands.at(0)).im);
    if (name == "complex") return is({real_operand(0), real_operand(1), {}});
    if (name == "view_as_real") return is_plain(stored(operands.at(0)));
    if (name == "view_as_complex") {
      const Tensor parts = real_operand(0);
      return is({select(parts, -1, 0), select(parts, -1, 1), parts});
    }
    if (auto f = unary_formulas().find(name); f != unary_formulas().end()) return is(f->second(pair(operands.at(0))));
    if (auto f = binary_formulas().find(name); f != binary_formulas().end()) {
      const Pair &a = pair(operands.at(0)), &b = pair(operands.at(1));
      return is(f->second(a, b));
    }
    if (name == "eq" || name == "ne") {
      const Pair &a = pair(operands.at(0)), &b = pair(operands.at(1));
      return is_plain(name == "eq" ? eq(a.re, b.re) & eq(a.im, b.im) : ne(a.re, b.re) | ne(a.im, b.im));
    }
    if (name == "isnan") {
      const Pair& z = pair(operands.at(0));
      return is_plain(isnan(z.re) | isnan(z.im));
    }
    if (name == "where") {
      const Tensor condition = real_operand(0);
      const Pair &a = pair(operands.at(1)), &b = pair(operands.at(2));
      return is({where(condition, a.re, b.re), where(condition, a.im, b.im), {}});
    }
    if (name == "prod" || name == "cumprod") return is(product_along(node, pair(operands.at(0)), name == "prod"));
    if (name == "matmul" || name == "conv" || name == "conv_transpose") return is(bilinear(node));
    const Argument* reduce = node.find("reduce");
    const bool adds = reduce && (*reduce == Argument(std::string("none")) || *reduce == Argument(std::string("add")));
    if (acts_on_parts(name) || (name == "scatter" && adds))
      return is({on_part(node, Part::re), on_part(node, Part::im), {}});
    fail_at(ErrorKind::unsupported, where_text(node.where), "{} on complex numbers", node.where.op.empty() ? node.op : node.where.op);
  }

  void keep(const Node& node) {
    Node mine = node;
    for (auto& [name, argument] : mine.args) argument = part_of(argument, Part::re);
    for (ValueId& v : mine.outputs) {
      if (v == kNoValue) continue;
      const ValueId old = v;
      v = out_.add_value(in_[old]);
      names_[v] = in_[old].name;
      plain_[static_cast<size_t>(old)] = v;
    }
    out_.nodes.push_back(std::move(mine));
  }

  // (a + bi)(c + di) for a product of any kind.
  Pair bilinear(const Node& node) {
    auto product_of = [&](Part first, Part second) {
      Builder::Args args;
      size_t operand = 0;
      for (const auto& [name, argument] : node.args)
        args.emplace_back(name, part_of(argument, operand++ == 0 ? first : second));
      return Tensor(builder_, builder_.make_one(node.op, std::move(args)));
    };
    Tensor re = product_of(Part::re, Part::re) - product_of(Part::im, Part::im);
    return {re, product_of(Part::re, Part::im) + product_of(Part::im, Part::re), {}};
  }

  static Pair each(const Pair& z, const std::function<Tensor(const Tensor&, int)>& f) {
    return {f(z.re, 1), f(z.im, 0), {}};
  }

  // Of all elements, or of those up to each: as a tree over the last dim, 1 where there is none.
  Pair product_along(const Node& node, const Pair& z, bool all) {
    const int64_t rank = z.re.rank();
    Dims dims;
    if (all)
      for (const Expr& e : std::get<std::vector<Expr>>(*node.find("dims"))) dims.push_back(*e.constant());
    else
      dims.push_back(*std::get<Expr>(*node.find("dim")).constant());
    Dims order;
    for (int64_t d = 0; d < rank; ++d)
      if (std::find(dims.begin(), dims.end(), d) == dims.end()) order.push_back(d);
    const auto kept = static_cast<int64_t>(order.size());
    order.insert(order.end(), dims.begin(), dims.end());
    Pair x = each(z, [&](const Tensor& t, int) { return flatten(permute(t, order), kept, -1); });
    const auto size = x.re.size(-1).constant();
    if (!size)
      fail_at(ErrorKind::unsupported, where_text(node.where), "{} of complex numbers, as many as inputs say", node.op);
    if (all) {
      int64_t n = 1;
      while (n < *size) n *= 2;
      x = each(x, [&](const Tensor& t, int one) { return pad_dim(t, -1, 0, n - *size, one); });
      for (; n > 1; n /= 2) {
        auto half = [&](int64_t start) {
          return each(x, [&](const Tensor& t, int) { return narrow(t, -1, start, n / 2); });
        };
        x = times(half(0), half(n / 2));
      }
      return each(x, [&](const Tensor& t, int) { return squeeze(t, {-1}); });
    }
    for (int64_t shift = 1; shift < *size; shift *= 2)
      x = times(x, each(x, [&](const Tensor& t, int one) {
        return pad_dim(narrow(t, -1, 0, *size - shift), -1, shift, 0, one);
      }));
    return each(x, [&](const Tensor& t, int) { return move_dim(t, -1, dims[0]); });
  }

  // Values of the old graph keep their names; the new ones are numbered.
  void name_values() {
    std::set<std::string> taken;
    for (const auto& [v, name] : names_) taken.insert(name);
    int counter = 0;
    for (size_t v = 0; v < out_.values.size(); ++v) {
      if (auto known = names_.find(static_cast<ValueId>(v)); known != names_.end()) {
        out_.values[v].name = known->second;
        continue;
      }
      std::string name;
      do name = "p" + std::to_string(counter++);
      while (!taken.insert(name).second);
      out_.values[v].name = name;
    }
  }

  const Graph& in_;
  Graph out_;
  Builder builder_{out_};
  std::vector<ValueId> plain_;
  std::vector<Pair> pairs_;
  std::map<ValueId, std::string> names_;
};

}  // namespace

Graph split_complex(Graph primitive) {
  const auto is_one = [](const Value& v) { return v.kind == ValueKind::tensor && is_complex(v.dtype); };
  const auto has_any = [&](const Graph& g) { return std::any_of(g.values.begin(), g.values.end(), is_one); };
  for (const auto& [name, body] : primitive.subgraphs)
    if (has_any(body)) fail(ErrorKind::unsupported, "complex numbers in a branch or loop ({} of {})", name, primitive.name);
  return has_any(primitive) ? Splitter(primitive).run() : std::move(primitive);
}

}  // namespace nacre
