#include "compiler/loops/interpret_nest.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <string_view>

#include "compiler/graph/text.h"
#include "compiler/loops/code.h"
#include "compiler/loops/interpret_half.h"
#include "compiler/loops/interpret_scalars.h"
#include "compiler/support/error.h"

namespace nacre::interpreting {
namespace {

constexpr int kLanes = 512;  // points evaluated at a time

// ---- Types.

template <class F>
auto with_type(nacre_dtype dtype, F f) {
  switch (dtype) {
    case NACRE_bool_: return f(bool{});
    case NACRE_u8: return f(uint8_t{});
    case NACRE_i8: return f(int8_t{});
    case NACRE_i16: return f(int16_t{});
    case NACRE_i32: return f(int32_t{});
    case NACRE_i64: return f(int64_t{});
    case NACRE_u16: return f(uint16_t{});
    case NACRE_u32: return f(uint32_t{});
    case NACRE_u64: return f(uint64_t{});
    case NACRE_f32: return f(float{});
    case NACRE_f64: return f(double{});
    default: fail(ErrorKind::unsupported, "the loop interpreter does not compute with {}", nacre_dtype_name(dtype));
  }
}

// A conversion as Tensor.to: float to integer truncates; what does not fit wraps, as ATen's on x86 does for most values.
template <class To, class From>
To converted(From v) {
  if constexpr (std::is_same_v<To, bool>) {
    return v != From(0);
  } else if constexpr (std::is_floating_point_v<From> && std::is_integral_v<To>) {
    if (!(v >= From(-9.2233720368547758e18) && v < From(9.2233720368547758e18)))
      return static_cast<To>(std::numeric_limits<int64_t>::min());
    return static_cast<To>(static_cast<int64_t>(v));
  } else {
    return static_cast<To>(v);
  }
}

// ---- Kernels of the primitives.

using Kernel = void (*)(int n, const void* a, const void* b, const void* c, void* out);

constexpr bool for_bool(std::string_view prim) {
  for (std::string_view p : {"logical_not", "bitwise_not", "bitwise_and", "bitwise_or", "bitwise_xor", "eq", "ne", "lt",
                             "le", "gt", "ge", "maximum", "minimum", "add", "mul", "isnan"})
    if (p == prim) return true;
  return false;
}

template <class T>
constexpr bool has_kernel(std::string_view prim) {
  if (prim == "where") return false;  // its own kernel: the first operand is bool
  if (std::is_same_v<T, bool>) return for_bool(prim);
  if (prim == "div" || prim == "reciprocal") return std::is_floating_point_v<T>;
  return true;
}

template <class T>
struct Kernels {
  static constexpr bool boolean = true, same = false;
#define NACRE_POINTWISE(name, arity, result, cost, expression)                                              \
  static Kernel kernel_##name() {                                                                     \
    using namespace scalar_ops;                                                                       \
    if constexpr (has_kernel<T>(#name)) {                                                             \
      if constexpr (requires([[maybe_unused]] T a, [[maybe_unused]] T b, [[maybe_unused]] T c) {      \
                      expression;                                                                     \
                    }) {                                                                              \
        return [](int n, const void* pa, const void* pb, const void* pc, void* out) {                 \
          using R = std::conditional_t<result, bool, T>;                                              \
          for (int i = 0; i < n; ++i) {                                                               \
            [[maybe_unused]] const T a = static_cast<const T*>(pa)[i];                                \
            [[maybe_unused]] const T b = arity > 1 ? static_cast<const T*>(pb)[i] : T(0);             \
            [[maybe_unused]] const T c = arity > 2 ? static_cast<const T*>(pc)[i] : T(0);             \
            static_cast<R*>(out)[i] = static_cast<R>(expression);                                     \
          }                                                                                           \
        };                                                                                            \
      }                                                                                               \
    }                                                                                                 \
    return nullptr;                                                                                   \
  }
#include "compiler/graph/ops.def"
#undef NACRE_POINTWISE

  static void where(int n, const void* pa, const void* pb, const void* pc, void* out) {
    for (int i = 0; i < n; ++i)
      static_cast<T*>(out)[i] = static_cast<const bool*>(pa)[i] ? static_cast<const T*>(pb)[i] : static_cast<const T*>(pc)[i];
  }

  static Kernel find(const std::string& prim) {
    if (prim == "where") return where;
#define NACRE_POINTWISE(name, arity, result, cost, expression) \
  if (prim == #name) return kernel_##name();
#include "compiler/graph/ops.def"
#undef NACRE_POINTWISE
    return nullptr;
  }
};

template <class To>
Kernel cast_kernel(nacre_dtype from) {
  return with_type(from, [](auto tag) -> Kernel {
    using From = decltype(tag);
    return [](int n, const void* a, const void*, const void*, void* out) {
      for (int i = 0; i < n; ++i) static_cast<To*>(out)[i] = converted<To>(static_cast<const From*>(a)[i]);
    };
  });
}

bool divides(const std::string& prim) {
  return prim == "div_trunc" || prim == "div_floor" || prim == "fmod" || prim == "remainder";
}

// ---- Index expressions over lanes.

struct Instruction {
  ExprOp op{};
  int a = 0, b = 0, c = 0, to = 0;
};

class Slots {
 public:
  int add() {
    slots_.push_back(std::make_unique<int64_t[]>(kLanes));
    return static_cast<int>(slots_.size()) - 1;
  }
  int64_t* operator[](int i) { return slots_[static_cast<size_t>(i)].get(); }
  void fill(int i, int64_t value) { std::fill_n((*this)[i], kLanes, value); }

  void run(const Instruction& in, int n) {
    const int64_t *a = (*this)[in.a], *b = (*this)[in.b], *c = (*this)[in.c];
    int64_t* to = (*this)[in.to];
    const auto each = [&](auto f) {
      for (int i = 0; i < n; ++i) to[i] = f(a[i], b[i]);
    };
    switch (in.op) {
      case ExprOp::add: return each([](int64_t x, int64_t y) { return x + y; });
      case ExprOp::mul: return each([](int64_t x, int64_t y) { return x * y; });
      case ExprOp::floordiv:
        return each([](int64_t x, int64_t y) {
          if (y == 0) return int64_t{0};
          const int64_t q = x / y;
          return q * y != x && (x < 0) != (y < 0) ? q - 1 : q;
        });
      case ExprOp::mod:
        return each([](int64_t x, int64_t y) {
          if (y == 0) return int64_t{0};
          const int64_t r = x % y;
          return r != 0 && (r < 0) != (y < 0) ? r + y : r;
        });
      case ExprOp::min: return each([](int64_t x, int64_t y) { return std::min(x, y); });
      case ExprOp::max: return each([](int64_t x, int64_t y) { return std::max(x, y); });
      case ExprOp::eq: return each([](int64_t x, int64_t y) { return int64_t{x == y}; });
      case ExprOp::ne: return each([](int64_t x, int64_t y) { return int64_t{x != y}; });
      case ExprOp::lt: return each([](int64_t x, int64_t y) { return int64_t{x < y}; });
      case ExprOp::le: return each([](int64_t x, int64_t y) { return int64_t{x <= y}; });
      case ExprOp::and_: return each([](int64_t x, int64_t y) { return int64_t{x && y}; });
      case ExprOp::or_: return each([](int64_t x, int64_t y) { return int64_t{x || y}; });
      case ExprOp::not_: return each([](int64_t x, int64_t) { return int64_t{!x}; });
      case ExprOp::select:
        for (int i = 0; i < n; ++i) to[i] = a[i] ? b[i] : c[i];
        return;
      case ExprOp::constant:
      case ExprOp::symbol:
        return;
    }
  }

 private:
  std::vector<std::unique_ptr<int64_t[]>> slots_;
};

// Compiles expressions; equal ones share a slot. What is compiled must run before its slot is read, in this order.
class Compiler {
 public:
  Compiler(Slots& slots, const std::map<std::string, int>& variables) : slots_(slots), variables_(variables) {}

  int compile(const Expr& e, std::vector<Instruction>& out) {
    if (auto known = known_.find(e); known != known_.end()) return known->second;
    const int slot = compile_new(e, out);
    known_.emplace(e, slot);
    return slot;
  }

 private:
  int compile_new(const Expr& e, std::vector<Instruction>& out) {
    if (auto c = e.constant()) {
      const int slot = slots_.add();
      slots_.fill(slot, *c);
      return slot;
    }
    if (e.op() == ExprOp::symbol) {
      auto found = variables_.find(e.name());
      check(found != variables_.end(), "the value of {} is not known", e.name());
      return found->second;
    }
    std::vector<int> operands;
    for (const Expr& o : e.operands()) operands.push_back(compile(o, out));
    if (e.op() == ExprOp::select) {
      const int to = slots_.add();
      out.push_back({e.op(), operands[0], operands[1], operands[2], to});
      return to;
    }
    if (operands.size() == 1) {
      if (e.op() != ExprOp::not_) return operands[0];
      const int to = slots_.add();
      out.push_back({e.op(), operands[0], operands[0], operands[0], to});
      return to;
    }
    int result = operands[0];
    for (size_t i = 1; i < operands.size(); ++i) {
      const int to = slots_.add();
      out.push_back({e.op(), result, operands[i], 0, to});
      result = to;
    }
    return result;
  }

  Slots& slots_;
  const std::map<std::string, int>& variables_;
  std::unordered_map<Expr, int> known_;
};

// ---- Elements.

void load_elements(nacre_dtype stored, const std::byte* data, const int64_t* at, int n, void* out) {
  if (is_half(stored)) {
    const auto* from = reinterpret_cast<const uint16_t*>(data);
    for (int i = 0; i < n; ++i)
      static_cast<float*>(out)[i] = stored == NACRE_f16 ? from_f16(from[at[i]]) : from_bf16(from[at[i]]);
    return;
  }
  with_type(stored, [&](auto tag) {
    using T = decltype(tag);
    const auto* from = reinterpret_cast<const T*>(data);
    for (int i = 0; i < n; ++i) static_cast<T*>(out)[i] = from[at[i]];
  });
}

void round_half(bool f16, int n, float* values) {
  for (int i = 0; i < n; ++i) values[i] = f16 ? from_f16(to_f16(values[i])) : from_bf16(to_bf16(values[i]));
}

template <class T>
T combined(StoreMode mode, T old, T value) {
  switch (mode) {
    case StoreMode::assign: return value;
    case StoreMode::add: return static_cast<T>(old + value);
    case StoreMode::mul: return static_cast<T>(old * value);
    case StoreMode::amax: return scalar_ops::maximum(old, value);
    case StoreMode::amin: return scalar_ops::minimum(old, value);
  }
  return value;
}

void store_elements(nacre_dtype stored, StoreMode mode, std::byte* data, const int64_t* at, int n, const void* values) {
  if (is_half(stored)) {
    auto* to = reinterpret_cast<uint16_t*>(data);
    for (int i = 0; i < n; ++i) {
      const float old = stored == NACRE_f16 ? from_f16(to[at[i]]) : from_bf16(to[at[i]]);
      const float v = combined(mode, old, static_cast<const float*>(values)[i]);
      to[at[i]] = stored == NACRE_f16 ? to_f16(v) : to_bf16(v);
    }
    return;
  }
  with_type(stored, [&](auto tag) {
    using T = decltype(tag);
    auto* to = reinterpret_cast<T*>(data);
    for (int i = 0; i < n; ++i) to[at[i]] = combined(mode, to[at[i]], static_cast<const T*>(values)[i]);
  });
}

// ---- Reductions and scans: one accumulator a lane, in double (sums: in two) or int64.

enum class Fold { sum, prod, most, least, any, all, arg_most, arg_least };

Fold fold_of(const std::string& prim) {
  if (prim == "sum" || prim == "cumsum") return Fold::sum;
  if (prim == "prod" || prim == "cumprod") return Fold::prod;
  if (prim == "amax" || prim == "cummax") return Fold::most;
  if (prim == "amin" || prim == "cummin") return Fold::least;
  if (prim == "any") return Fold::any;
  if (prim == "all") return Fold::all;
  if (prim == "argmax") return Fold::arg_most;
  check(prim == "argmin", "no reduction {}", prim);
  return Fold::arg_least;
}

struct Accumulator {
  Fold fold{};
  bool real = false;
  std::vector<double> d = std::vector<double>(kLanes), low = std::vector<double>(kLanes);
  std::vector<int64_t> i = std::vector<int64_t>(kLanes), arg = std::vector<int64_t>(kLanes);

  void start() {
    const bool product = fold == Fold::prod || fold == Fold::all;
    const bool most = fold == Fold::most, least = fold == Fold::least;
    const double inf = std::numeric_limits<double>::infinity();
    std::fill(d.begin(), d.end(), product ? 1.0 : most ? -inf : least ? inf : 0.0);
    std::fill(low.begin(), low.end(), 0.0);
    std::fill(i.begin(), i.end(),
              product ? 1
              : most  ? std::numeric_limits<int64_t>::min()
              : least ? std::numeric_limits<int64_t>::max()
                      : 0);
    std::fill(arg.begin(), arg.end(), -1);
  }

  // values[l] into lane l, or all of them into lane 0; `positions`: the reduced loop's values.
  template <class T>
  void take(int n, const T* values, const int64_t* positions, bool across) {
    if constexpr (std::is_floating_point_v<T>)
      take_into(d.data(), n, values, positions, across);
    else
      take_into(i.data(), n, values, positions, across);
  }

  template <class V, class T>
  void take_into(V* acc, int n, const T* values, const int64_t* positions, bool across) {
    const auto each = [&](auto f) {
      if (across)
        for (int l = 0; l < n; ++l) acc[0] = f(acc[0], static_cast<V>(values[l]));
      else
        for (int l = 0; l < n; ++l) acc[l] = f(acc[l], static_cast<V>(values[l]));
    };
    switch (fold) {
      case Fold::sum:
        for (int l = 0; l < n; ++l) add(across ? 0 : static_cast<size_t>(l), static_cast<V>(values[l]));
        return;
      case Fold::prod: return each([](V a, V v) { return a * v; });
      case Fold::most: return each([](V a, V v) { return a == a && (v != v || v > a) ? v : a; });
      case Fold::least: return each([](V a, V v) { return a == a && (v != v || v < a) ? v : a; });
      case Fold::any: return each([](V a, V v) { return a != V(0) || v != V(0) ? V(1) : V(0); });
      case Fold::all: return each([](V a, V v) { return a != V(0) && v != V(0) ? V(1) : V(0); });
      case Fold::arg_most:
      case Fold::arg_least:
        for (int l = 0; l < n; ++l) {
          const int k = across ? 0 : l;
          const auto v = static_cast<V>(values[l]);
          const bool better = acc[k] == acc[k] && (v != v || (fold == Fold::arg_most ? v > acc[k] : v < acc[k]));
          if (arg[static_cast<size_t>(k)] < 0 || better) acc[k] = v, arg[static_cast<size_t>(k)] = positions[l];
        }
    }
  }

  void add(size_t k, int64_t value) { i[k] += value; }
  // Knuth's two-sum: `low` has what rounding loses, so that a sum in float64 is as good as its terms.
  void add(size_t k, double value) {
    const double sum = d[k] + value, part = sum - d[k];
    low[k] += (d[k] - (sum - part)) + (value - part);
    d[k] = sum;
  }

  template <class T>
  void give(int n, T* out) const {
    for (int l = 0; l < n; ++l) {
      const auto k = static_cast<size_t>(l);
      const double whole = low[k] == 0 ? d[k] : d[k] + low[k];  // a greatest value may be -0
      out[l] = !real ? converted<T>(i[k]) : converted<T>(whole == whole ? whole : d[k]);  // of infinities, `low` is none
    }
  }
  void give_args(int n, int64_t* out) const { std::copy_n(arg.begin(), n, out); }
};

}  // namespace

int64_t evaluated(const Expr& e, const Symbols& symbols) {
  if (auto c = e.constant()) return *c;
  auto v = e.evaluate(symbols);
  if (!v) fail(ErrorKind::user, "the size expression {} has no value", e.str());
  return *v;
}

// ---- A nest.

struct NestRunner::Impl {
  struct Access {
    std::vector<int> at;  // slots
    std::vector<int64_t> strides, sizes;
    Array* array = nullptr;
  };
  struct Step {
    std::vector<Instruction> before;
    int scalar = -1;  // or
    int store = -1;
    Access access;
    std::vector<int> when;
    int expr = -1;
    Kernel kernel = nullptr;
  };

  const LoopProgram& program;
  const Group& group;
  const Nest nest;
  const Symbols& symbols;
  std::vector<Array>& arrays;
  Slots slots;
  std::map<std::string, int> variables;
  std::vector<int> loop_slots, outer_slots;
  std::vector<int64_t> extents;
  std::vector<std::unique_ptr<std::byte[]>> values;
  std::vector<int> as_index;  // the slot of a scalar that expressions use; -1
  std::vector<Step> under, after;
  std::map<int, Accumulator> accumulators;
  std::vector<int> reduces;
  bool scans = false;
  const Accumulated* accumulated = nullptr;
  int accumulated_at = -1;
  std::vector<Instruction> accumulated_before;
  std::vector<int64_t> positions = std::vector<int64_t>(kLanes);
  std::vector<std::byte> spare = std::vector<std::byte>(kLanes * 8);

  Impl(const LoopProgram& p, const Group& g, const Nest& n, const Symbols& s, std::vector<Array>& a)
      : program(p), group(g), nest(n), symbols(s), arrays(a) {
    for (const auto& [name, value] : symbols) slots.fill(variables[name] = slots.add(), value);
    for (const LoopVar& loop : group.outer) outer_slots.push_back(variables[loop.name] = slots.add());
    for (const LoopVar& loop : nest.loops) {
      loop_slots.push_back(variables[loop.name] = slots.add());
      extents.push_back(std::max<int64_t>(0, evaluated(loop.extent, symbols)));
    }
    as_index.assign(nest.code.size(), -1);
    for (size_t i = 0; i < nest.code.size(); ++i) {
      values.push_back(std::make_unique<std::byte[]>(kLanes * 8));
      const Scalar& s2 = nest.code[i];
      for_each_expr(s2, [&](const Expr& e) { note_symbols(e); });
      if (s2.op == ScalarOp::constant)
        with_type(s2.dtype, [&](auto tag) {
          using T = decltype(tag);
          std::fill_n(reinterpret_cast<T*>(values[i].get()), kLanes, converted<T>(s2.number));
        });
      if (s2.op == ScalarOp::scan) scans = true;
      if (s2.op == ScalarOp::reduce) reduces.push_back(static_cast<int>(i));
      if (s2.op == ScalarOp::scan || s2.op == ScalarOp::reduce) {
        Accumulator& acc = accumulators[static_cast<int>(i)];
        acc.fold = fold_of(s2.prim);
        acc.real = kind_of(nest.code[static_cast<size_t>(s2.operands[0])].dtype) == 'f';
      }
    }
    for (const Store& store : nest.stores)
      for (const Expr& e : store.at) note_symbols(e);

    const std::vector<bool> early = under_reduction(nest);
    Compiler early_compiler(slots, variables), late_compiler(slots, variables);
    for (size_t i = 0; i < nest.code.size(); ++i) {
      const ScalarOp op = nest.code[i].op;
      if (op == ScalarOp::constant && as_index[i] < 0) continue;
      if (op == ScalarOp::reduce) {
        Step step;
        step.scalar = static_cast<int>(i);
        after.push_back(std::move(step));
      } else if (early[i]) {
        under.push_back(scalar_step(static_cast<int>(i), early_compiler));
      } else {
        after.push_back(scalar_step(static_cast<int>(i), late_compiler));
      }
    }
    for (size_t i = 0; i < nest.stores.size(); ++i) {
      Step step;
      step.store = static_cast<int>(i);
      step.access = access(nest.stores[i].buffer, nest.stores[i].at, late_compiler, step.before);
      after.push_back(std::move(step));
    }
    if (group.contraction) {
      Expr linear = 0;
      for (const LoopVar& loop : nest.loops) linear = linear * loop.extent + Expr::symbol(loop.name);
      accumulated_at = Compiler(slots, variables).compile(linear, accumulated_before);
    }
  }

  void note_symbols(const Expr& e) {
    if (e.constant()) return;
    for (const std::string& s : e.symbols()) {
      auto i = scalar_of_symbol(s);
      if (!i || static_cast<size_t>(*i) >= as_index.size() || as_index[static_cast<size_t>(*i)] >= 0) continue;
      as_index[static_cast<size_t>(*i)] = variables[s] = slots.add();
    }
  }

  Access access(BufferId buffer, const std::vector<Expr>& at, Compiler& compiler, std::vector<Instruction>& before) {
    Access a;
    a.array = &arrays[static_cast<size_t>(buffer)];
    int64_t stride = 1;
    a.strides.resize(at.size());
    a.sizes = a.array->shape;
    for (size_t i = at.size(); i-- > 0;) {
      a.strides[i] = stride;
      stride *= a.sizes[i];
    }
    for (const Expr& e : at) a.at.push_back(compiler.compile(e, before));
    return a;
  }

  Step scalar_step(int i, Compiler& compiler) {
    const Scalar& s = nest.code[static_cast<size_t>(i)];
    Step step;
    step.scalar = i;
    for (const Expr& e : s.when) step.when.push_back(compiler.compile(e, step.before));
    if (s.op == ScalarOp::load) step.access = access(s.buffer, s.at, compiler, step.before);
    if (s.op == ScalarOp::index || s.op == ScalarOp::check_index) step.expr = compiler.compile(s.expr, step.before);
    if (s.op == ScalarOp::pointwise) {
      const nacre_dtype type = s.prim == "where" ? s.dtype : nest.code[static_cast<size_t>(s.operands.back())].dtype;
      step.kernel = with_type(type, [&](auto tag) { return Kernels<decltype(tag)>::find(s.prim); });
      if (!step.kernel)
        fail_at(ErrorKind::unsupported, where_text(s.where), "prim.{} of {}", s.prim, nacre_dtype_name(type));
    }
    if (s.op == ScalarOp::cast) {
      const nacre_dtype from = nest.code[static_cast<size_t>(s.operands[0])].dtype;
      step.kernel = with_type(s.dtype, [&](auto tag) { return cast_kernel<decltype(tag)>(from); });
    }
    return step;
  }

  void* value(int i) { return values[static_cast<size_t>(i)].get(); }

  // Element positions of the lanes for which `active` holds (all, if it is empty).
  const int64_t* address(const Access& a, int n, const bool* active, const Provenance& where) {
    int64_t* pos = positions.data();
    std::fill_n(pos, n, 0);
    for (size_t d = 0; d < a.at.size(); ++d) {
      const int64_t* index = slots[a.at[d]];
      const int64_t stride = a.strides[d], size = a.sizes[d];
      bool inside = true;
      for (int l = 0; l < n; ++l) {
        inside &= index[l] >= 0 && index[l] < size;
        pos[l] += index[l] * stride;
      }
      if (inside) continue;
      for (int l = 0; l < n; ++l) {
        if (active && !active[l]) continue;
        check(index[l] >= 0 && index[l] < size, "group {}: index {} of dim {} of %{} (size {}){}{}", group.name, index[l], d,
              a.array->name, size, where.op.empty() ? "" : " in ", where.op);
      }
    }
    return pos;
  }

  void run_step(Step& step, int n) {
    for (const Instruction& in : step.before) slots.run(in, n);
    if (step.store >= 0) {
      const Store& s = nest.stores[static_cast<size_t>(step.store)];
      const int64_t* pos = address(step.access, n, nullptr, {});
      store_elements(step.access.array->dtype, s.mode, step.access.array->data.get(), pos, n, value(s.value));
      return;
    }
    const int i = step.scalar;
    const Scalar& s = nest.code[static_cast<size_t>(i)];
    const auto operand = [&](size_t k) -> void* { return k < s.operands.size() ? value(s.operands[k]) : nullptr; };
    switch (s.op) {
      case ScalarOp::constant:
        break;
      case ScalarOp::index: {
        const int64_t* e = slots[step.expr];
        with_type(s.dtype, [&](auto tag) {
          using T = decltype(tag);
          for (int l = 0; l < n; ++l) static_cast<T*>(value(i))[l] = converted<T>(e[l]);
        });
        break;
      }
      case ScalarOp::load:
        load(step, s, i, n);
        break;
      case ScalarOp::pointwise:
        if (divides(s.prim) && kind_of(s.dtype) != 'f')
          with_type(s.dtype, [&](auto tag) {
            using T = decltype(tag);
            const T* divisor = static_cast<const T*>(operand(1));
            if (std::find(divisor, divisor + n, T(0)) != divisor + n)
              fail_at(ErrorKind::user, where_text(s.where), "integer division by zero");
          });
        step.kernel(n, operand(0), operand(1), operand(2), value(i));
        break;
      case ScalarOp::cast:
        step.kernel(n, operand(0), nullptr, nullptr, value(i));
        if (!s.prim.empty()) round_half(s.prim == "f16", n, static_cast<float*>(value(i)));
        break;
      case ScalarOp::check_index: {
        const auto* in = static_cast<const int64_t*>(operand(0));
        auto* out = static_cast<int64_t*>(value(i));
        const int64_t* size = slots[step.expr];
        for (int l = 0; l < n; ++l) {
          if (in[l] < (s.prim == "below" ? 0 : -size[l]) || in[l] >= size[l])
            fail_at(ErrorKind::user, where_text(s.where), "index {} is out of range for a dimension of size {}", in[l], size[l]);
          out[l] = in[l] < 0 ? in[l] + size[l] : in[l];
        }
        break;
      }
      case ScalarOp::reduce: {
        const Accumulator& acc = accumulators.at(i);
        if (s.prim.starts_with("arg"))
          acc.give_args(n, static_cast<int64_t*>(value(i)));
        else
          with_type(s.dtype, [&](auto tag) { acc.give(n, static_cast<decltype(tag)*>(value(i))); });
        break;
      }
      case ScalarOp::scan: {
        Accumulator& acc = accumulators.at(i);
        with_type(s.dtype, [&](auto tag) {
          using T = decltype(tag);
          acc.take(n, static_cast<const T*>(operand(0)), slots[loop_slots.back()], false);
          acc.give(n, static_cast<T*>(value(i)));
        });
        break;
      }
      case ScalarOp::accumulator: {
        for (const Instruction& in : accumulated_before) slots.run(in, n);
        with_type(accumulated->dtype, [&](auto from) {
          using From = decltype(from);
          const auto* data = reinterpret_cast<const From*>(accumulated->data);
          const int64_t* at = slots[accumulated_at];
          with_type(s.dtype, [&](auto to) {
            using To = decltype(to);
            for (int l = 0; l < n; ++l) static_cast<To*>(value(i))[l] = converted<To>(data[at[l]]);
          });
        });
        break;
      }
    }
    if (as_index[static_cast<size_t>(i)] >= 0)
      with_type(s.dtype, [&](auto tag) {
        using T = decltype(tag);
        int64_t* to = slots[as_index[static_cast<size_t>(i)]];
        for (int l = 0; l < n; ++l) to[l] = converted<int64_t>(static_cast<const T*>(value(i))[l]);
      });
  }

  void load(Step& step, const Scalar& s, int i, int n) {
    if (step.when.empty()) {
      load_elements(step.access.array->dtype, step.access.array->data.get(), address(step.access, n, nullptr, s.where), n,
                    value(i));
      return;
    }
    bool active[kLanes];
    std::fill_n(active, n, true);
    for (int w : step.when)
      for (int l = 0; l < n; ++l) active[l] = active[l] && slots[w][l] != 0;
    address(step.access, n, active, s.where);
    // The lanes in question side by side, and back.
    int count = 0;
    int lanes[kLanes];
    for (int l = 0; l < n; ++l)
      if (active[l]) {
        positions[static_cast<size_t>(count)] = positions[static_cast<size_t>(l)];
        lanes[count++] = l;
      }
    load_elements(step.access.array->dtype, step.access.array->data.get(), positions.data(), count, spare.data());
    const size_t size = nacre_dtype_size_bytes(s.dtype);
    std::memcpy(value(i), value(s.operands[0]), static_cast<size_t>(n) * size);
    for (int k = 0; k < count; ++k)
      std::memcpy(static_cast<std::byte*>(value(i)) + static_cast<size_t>(lanes[k]) * size,
                  spare.data() + static_cast<size_t>(k) * size, size);
  }

  // ---- Points.

  static int64_t points(const std::vector<int64_t>& sizes, size_t first, size_t last) {
    int64_t n = 1;
    for (size_t i = first; i < last; ++i) n *= sizes[i];
    return n;
  }

  // Loops [first, last) take their values of the points from `begin` on, a lane each.
  void spread(size_t first, size_t last, int64_t begin, int n) {
    std::vector<int64_t> index(last - first);
    int64_t rest = begin;
    for (size_t i = last; i-- > first;) {
      index[i - first] = rest % extents[i];
      rest /= extents[i];
    }
    for (int l = 0; l < n; ++l) {
      for (size_t i = first; i < last; ++i) slots[loop_slots[i]][l] = index[i - first];
      for (size_t i = last; i-- > first;) {
        if (++index[i - first] < extents[i]) break;
        index[i - first] = 0;
      }
    }
  }
  // Loops [first, last) take the values of one point, in `n` lanes.
  void fix(size_t first, size_t last, int64_t point, int n) {
    for (size_t i = last; i-- > first;) {
      std::fill_n(slots[loop_slots[i]], n, point % extents[i]);
      point /= extents[i];
    }
  }

  void run_after(int n) {
    for (Step& step : after) run_step(step, n);
  }

  void run() {
    const size_t rank = nest.loops.size(), kept = rank - static_cast<size_t>(nest.reduced);
    if (scans) return run_scans(rank);
    const int64_t outside = points(extents, 0, kept), inside = points(extents, kept, rank);
    if (nest.reduced == 0) {
      for (int64_t p = 0; p < outside; p += kLanes) {
        const int n = static_cast<int>(std::min<int64_t>(kLanes, outside - p));
        spread(0, rank, p, n);
        run_after(n);
      }
      return;
    }
    if (outside >= 32 || outside >= inside) {
      for (int64_t p = 0; p < outside; p += kLanes) {
        const int n = static_cast<int>(std::min<int64_t>(kLanes, outside - p));
        spread(0, kept, p, n);
        for (auto& [i, acc] : accumulators) acc.start();
        for (int64_t q = 0; q < inside; ++q) {
          fix(kept, rank, q, n);
          for (Step& step : under) run_step(step, n);
          for (int i : reduces) reduce(i, n, false);
        }
        run_after(n);
      }
      return;
    }
    for (int64_t p = 0; p < outside; ++p) {
      fix(0, kept, p, static_cast<int>(std::min<int64_t>(kLanes, inside > 0 ? inside : 1)));
      for (auto& [i, acc] : accumulators) acc.start();
      for (int64_t q = 0; q < inside; q += kLanes) {
        const int n = static_cast<int>(std::min<int64_t>(kLanes, inside - q));
        spread(kept, rank, q, n);
        for (Step& step : under) run_step(step, n);
        for (int i : reduces) reduce(i, n, true);
      }
      run_after(1);
    }
  }

  void reduce(int i, int n, bool across) {
    const Scalar& s = nest.code[static_cast<size_t>(i)];
    const int operand = s.operands[0];
    Accumulator& acc = accumulators.at(i);
    const int64_t* position = slots[loop_slots.back()];
    with_type(nest.code[static_cast<size_t>(operand)].dtype, [&](auto tag) {
      using T = decltype(tag);
      acc.take(n, static_cast<const T*>(value(operand)), position, across);
    });
  }

  void run_scans(size_t rank) {
    const int64_t outside = points(extents, 0, rank - 1);
    for (int64_t p = 0; p < outside; p += kLanes) {
      const int n = static_cast<int>(std::min<int64_t>(kLanes, outside - p));
      spread(0, rank - 1, p, n);
      for (auto& [i, acc] : accumulators) acc.start();
      for (int64_t t = 0; t < extents.back(); ++t) {
        fix(rank - 1, rank, t, n);
        run_after(n);
      }
    }
  }
};

NestRunner::NestRunner(const LoopProgram& program, const Group& group, const Nest& nest, const Symbols& symbols,
                       std::vector<Array>& arrays)
    : impl_(std::make_unique<Impl>(program, group, nest, symbols, arrays)) {}
NestRunner::~NestRunner() = default;

void NestRunner::run(const std::vector<int64_t>& outer, const Accumulated* accumulated) {
  for (size_t i = 0; i < outer.size(); ++i) impl_->slots.fill(impl_->outer_slots[i], outer[i]);
  impl_->accumulated = accumulated;
  impl_->run();
}

std::vector<std::byte> gathered(const Array& array, const std::vector<Expr>& at, const std::vector<LoopVar>& loops,
                                const Symbols& symbols) {
  // A program of one nest that copies the elements to a dense array.
  LoopProgram program;
  Buffer from, to;
  from.name = array.name;
  from.dtype = array.dtype;
  from.shape.assign(array.shape.begin(), array.shape.end());
  to.name = "gathered";
  to.dtype = compute_type(array.dtype);
  Nest nest;
  Array dense;
  dense.dtype = to.dtype;
  for (const LoopVar& loop : loops) {
    dense.shape.push_back(evaluated(loop.extent, symbols));
    nest.loops.push_back({loop.name, Expr(dense.shape.back())});
  }
  std::vector<std::byte> bytes(static_cast<size_t>(dense.elements()) * nacre_dtype_size_bytes(dense.dtype));
  dense.data = std::shared_ptr<std::byte>(bytes.data(), [](std::byte*) {});
  to.shape.assign(dense.shape.begin(), dense.shape.end());
  program.buffers = {from, to};
  CodeBuilder code(nest.code);
  Store store;
  store.value = code.load(0, array.dtype, at);
  store.buffer = 1;
  for (const LoopVar& loop : loops) store.at.push_back(Expr::symbol(loop.name));
  nest.stores.push_back(std::move(store));
  Group group;
  group.name = "operand";
  std::vector<Array> arrays = {array, dense};
  NestRunner(program, group, nest, symbols, arrays).run({}, nullptr);
  return bytes;
}

}  // namespace nacre::interpreting
