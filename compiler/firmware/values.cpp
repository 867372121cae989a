#include "compiler/firmware/values.h"

#include <algorithm>

#include "compiler/firmware/signature.h"

namespace nacre {

std::optional<std::vector<int64_t>> node_values(const formats::Entry& entry, const std::vector<int64_t>& symbols) {
  std::vector<formats::Node> nodes = entry.nodes;
  const formats::Variant& v = only_variant(entry);
  nodes.insert(nodes.end(), v.nodes.begin(), v.nodes.end());
  std::vector<int64_t> values;
  for (const formats::Node& n : nodes) {
    if (n.kind == NACRE_EXPR_constant || n.kind == NACRE_EXPR_symbol) {
      values.push_back(n.kind == NACRE_EXPR_constant ? n.b : symbols.at(n.a));
      continue;
    }
    const int64_t a = values.at(n.a), b = n.kind == NACRE_EXPR_not_ ? 0 : values.at(static_cast<size_t>(n.b));
    const bool divides = n.kind == NACRE_EXPR_floor_div || n.kind == NACRE_EXPR_mod || n.kind == NACRE_EXPR_round_up;
    if (divides && (b == 0 || (a == INT64_MIN && b == -1))) return std::nullopt;
    const int64_t quotient = divides ? a / b - (a % b != 0 && (a % b < 0) != (b < 0)) : 0;
    int64_t result = 0;
    bool overflow = false;
    switch (n.kind) {
      case NACRE_EXPR_add: overflow = __builtin_add_overflow(a, b, &result); break;
      case NACRE_EXPR_sub: overflow = __builtin_sub_overflow(a, b, &result); break;
      case NACRE_EXPR_mul: overflow = __builtin_mul_overflow(a, b, &result); break;
      case NACRE_EXPR_floor_div: result = quotient; break;
      case NACRE_EXPR_mod: result = a - quotient * b; break;
      case NACRE_EXPR_round_up: result = a == quotient * b ? a : (quotient + 1) * b; break;
      case NACRE_EXPR_min: result = std::min(a, b); break;
      case NACRE_EXPR_max: result = std::max(a, b); break;
      case NACRE_EXPR_eq: result = a == b; break;
      case NACRE_EXPR_ne: result = a != b; break;
      case NACRE_EXPR_lt: result = a < b; break;
      case NACRE_EXPR_le: result = a <= b; break;
      case NACRE_EXPR_and_: result = a && b; break;
      case NACRE_EXPR_or_: result = a || b; break;
      case NACRE_EXPR_not_: result = !a; break;
      default: return std::nullopt;
    }
    if (overflow) return std::nullopt;
    values.push_back(result);
  }
  return values;
}

}  // namespace nacre
