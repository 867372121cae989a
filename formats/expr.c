#include "formats/expr.h"

bool nacre_expr_evaluate(const struct nacre_node* nodes, uint32_t count, uint32_t first,
                         const int64_t* symbols, int64_t* values) {
  for (uint32_t i = 0; i < count; ++i) {
    const struct nacre_node* node = &nodes[i];
    int64_t* result = &values[first + i];
    if (node->kind == NACRE_EXPR_constant) {
      *result = node->b;
      continue;
    }
    if (node->kind == NACRE_EXPR_symbol) {
      *result = symbols[node->a];
      continue;
    }
    // not_ has no second operand; what is taken instead is not used.
    uint32_t kind = node->kind & ~NACRE_EXPR_NUMBER;
    int64_t a = values[node->a], b = node->b;
    if (node->kind == kind && kind != NACRE_EXPR_not_) b = values[b];
    switch (kind) {
      case NACRE_EXPR_add:
        if (__builtin_add_overflow(a, b, result)) return false;
        break;
      case NACRE_EXPR_sub:
        if (__builtin_sub_overflow(a, b, result)) return false;
        break;
      case NACRE_EXPR_mul:
        if (__builtin_mul_overflow(a, b, result)) return false;
        break;
      case NACRE_EXPR_floor_div:
      case NACRE_EXPR_mod: {
        if (b == 0 || (a == INT64_MIN && b == -1)) return false;
        int64_t quotient = a / b, rest = a % b;
        if (rest && (rest < 0) != (b < 0)) {
          --quotient;
          rest += b;
        }
        *result = kind == NACRE_EXPR_mod ? rest : quotient;
        break;
      }
      case NACRE_EXPR_min:
        *result = a < b ? a : b;
        break;
      case NACRE_EXPR_max:
        *result = a > b ? a : b;
        break;
      case NACRE_EXPR_eq:
        *result = a == b;
        break;
      case NACRE_EXPR_ne:
        *result = a != b;
        break;
      case NACRE_EXPR_lt:
        *result = a < b;
        break;
      case NACRE_EXPR_le:
        *result = a <= b;
        break;
      case NACRE_EXPR_and_:
        *result = a && b;
        break;
      case NACRE_EXPR_or_:
        *result = a || b;
        break;
      case NACRE_EXPR_not_:
        *result = !a;
        break;
      case NACRE_EXPR_round_up: {
        if (b <= 0) return false;
        int64_t rest = a % b;
        if (rest < 0) rest += b;
        if (__builtin_add_overflow(a, rest ? b - rest : 0, result)) return false;
        break;
      }
      default:
        return false;
    }
  }
  return true;
}
