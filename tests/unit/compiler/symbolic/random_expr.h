// Random expressions that know their value without the class under test: each is built together
// with a function that computes it.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <random>
#include <string>

#include "compiler/symbolic/expr.h"

namespace nacre {

class RandomExpr {
 public:
  using Values = std::map<std::string, int64_t>;
  using Function = std::function<std::optional<int64_t>(const Values&)>;
  struct Result {
    Expr expr;
    Function value;
  };

  explicit RandomExpr(uint64_t seed) : engine_(seed) {}

  int64_t uniform(int64_t low, int64_t high) {
    return std::uniform_int_distribution<int64_t>(low, high)(engine_);
  }

  Values values(int64_t low = -20, int64_t high = 20) {
    Values v;
    for (const char* name : {"a", "b", "c", "d"}) v[name] = uniform(low, high);
    return v;
  }

  Result next(int depth) {
    if (depth == 0 || uniform(0, 5) == 0) return leaf();
    switch (uniform(0, 13)) {
      case 0:
      case 1:
      case 2:
        return binary(ExprOp::add, depth, [](int64_t x, int64_t y) { return x + y; });
      case 3:
      case 4: {
        const Result a = next(depth - 1);
        const int64_t k = uniform(-9, 9);
        return {a.expr * Expr(k), [a, k](const Values& v) -> std::optional<int64_t> {
                  const auto x = a.value(v);
                  if (!x) return std::nullopt;
                  return *x * k;
                }};
      }
      case 5:
        return binary(ExprOp::mul, depth, [](int64_t x, int64_t y) -> std::optional<int64_t> {
          int64_t r = 0;
          if (__builtin_mul_overflow(x, y, &r) || r > (int64_t{1} << 40) || r < -(int64_t{1} << 40))
            return std::nullopt;
          return r;
        });
      case 6:
      case 7:
        return divided(ExprOp::floordiv, depth, floordiv_of);
      case 8:
      case 9:
        return divided(ExprOp::mod, depth, [](int64_t x, int64_t y) -> std::optional<int64_t> {
          const auto q = floordiv_of(x, y);
          if (!q) return std::nullopt;
          return x - *q * y;
        });
      case 10:
        return binary(ExprOp::min, depth, [](int64_t x, int64_t y) { return x < y ? x : y; });
      case 11:
        return binary(ExprOp::max, depth, [](int64_t x, int64_t y) { return x > y ? x : y; });
      case 12: {
        const ExprOp ops[] = {ExprOp::lt, ExprOp::le, ExprOp::eq, ExprOp::ne};
        const ExprOp op = ops[uniform(0, 3)];
        return binary(op, depth, [op](int64_t x, int64_t y) -> int64_t {
          return op == ExprOp::lt   ? x < y
                 : op == ExprOp::le ? x <= y
                 : op == ExprOp::eq ? x == y
                                    : x != y;
        });
      }
      default: {
        const Result c = next(depth - 1), x = next(depth - 1), y = next(depth - 1);
        return {Expr::make(ExprOp::select, {c.expr, x.expr, y.expr}),
                [c, x, y](const Values& v) -> std::optional<int64_t> {
                  const auto chosen = c.value(v), first = x.value(v), second = y.value(v);
                  if (!chosen || !first || !second) return std::nullopt;
                  return *chosen != 0 ? first : second;
                }};
      }
    }
  }

 private:
  static std::optional<int64_t> floordiv_of(int64_t x, int64_t y) {
    if (y == 0) return std::nullopt;
    int64_t q = x / y;
    if (q * y != x && (x < 0) != (y < 0)) --q;
    return q;
  }

  Result leaf() {
    if (uniform(0, 2) == 0) {
      const int64_t k = uniform(-12, 12);
      return {k, [k](const Values&) { return k; }};
    }
    const std::string name(1, static_cast<char>('a' + uniform(0, 3)));
    return {Expr::symbol(name), [name](const Values& v) { return v.at(name); }};
  }

  template <class Compute>
  Result combined(ExprOp op, Result a, Result b, Compute compute) {
    return {Expr::make(op, {a.expr, b.expr}),
            [a, b, compute](const Values& v) -> std::optional<int64_t> {
              const auto x = a.value(v), y = b.value(v);
              if (!x || !y) return std::nullopt;
              return compute(*x, *y);
            }};
  }
  template <class Compute>
  Result binary(ExprOp op, int depth, Compute compute) {
    Result a = next(depth - 1);
    return combined(op, a, next(depth - 1), compute);
  }
  // Mostly by a number, as in sizes and indices.
  template <class Compute>
  Result divided(ExprOp op, int depth, Compute compute) {
    Result a = next(depth - 1);
    if (uniform(0, 3) == 0) return combined(op, a, next(depth - 1), compute);
    int64_t k = uniform(-12, 12);
    if (k == 0) k = 8;
    return combined(op, a, Result{k, [k](const Values&) { return k; }}, compute);
  }

  std::mt19937_64 engine_;
};

}  // namespace nacre
