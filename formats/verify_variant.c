// One variant: its guard row, expressions, buffers and program.
#include <string.h>

#include "formats/verify_parts.h"

// What the records of a row have said so far.
struct row {
  struct nacre_symbol_set bound;
  uint8_t rank[NACRE_MAX_INPUTS];  // 1 + rank; 0: no rank record yet
  uint8_t has_dtype[NACRE_MAX_INPUTS];
};

static const uint8_t kGuardStage[] = {
#define NACRE_GUARD(number, id, stage, text) [number] = stage,
#include "formats/guards.def"
#undef NACRE_GUARD
};
static const uint8_t kExprInputs[] = {
#define NACRE_EXPR(number, id, inputs, text) [number] = inputs,
#include "formats/exprs.def"
#undef NACRE_EXPR
};
static const int8_t kCommandOperands[] = {
#define NACRE_COMMAND(number, id, operands, text) [number] = operands,
#include "formats/commands.def"
#undef NACRE_COMMAND
};

bool nacre_check_nodes(struct nacre_checker* c, const struct nacre_node* nodes, uint32_t count,
                       uint32_t first, struct nacre_symbol_set* reads) {
  for (uint32_t i = 0; i < count; ++i) {
    const struct nacre_node* node = &nodes[i];
    uint64_t number = (uint64_t)first + i;
    uint32_t kind = node->kind & ~NACRE_EXPR_NUMBER;
    bool holds_number = node->kind != kind;
    if (kind >= sizeof kExprInputs || (holds_number && kExprInputs[kind] != 2))
      return nacre_newer(c, "node %d is of kind %d, which this runtime does not know",
                         (int64_t)number, node->kind);
    if (node->kind == NACRE_EXPR_symbol) {
      if (node->a >= c->counts.symbol_count)
        return nacre_bad(c, "node %d reads a symbol that is not there", (int64_t)number, 0);
      nacre_set_add(reads, node->a);
    }
    uint8_t inputs = kExprInputs[kind];
    if ((inputs >= 1 && node->a >= number) ||
        (inputs == 2 && !holds_number && (node->b < 0 || (uint64_t)node->b >= number)))
      return nacre_bad(c, "node %d reads a node that is not before it", (int64_t)number, 0);
  }
  return true;
}

static bool check_guard(struct nacre_checker* c, const struct nacre_guard* g, uint32_t number,
                        struct row* row, uint32_t entry, uint32_t input_count,
                        uint32_t node_count) {
  const char* kBad = "guard record %d is invalid";
  if (g->kind == NACRE_GUARD_features) return true;
  if (g->kind == NACRE_GUARD_node)
    return (g->ref >= 0 && g->ref < node_count) || nacre_bad(c, kBad, number, 0);
  if (g->input >= input_count)
    return nacre_bad(c, "guard record %d names an input that is not there", number, 0);
  if (g->kind == NACRE_GUARD_dtype) {
    row->has_dtype[g->input] = 1;
    return true;
  }
  if (g->kind == NACRE_GUARD_rank) {
    if (g->lo < 0 || g->lo > NACRE_MAX_RANK) return nacre_bad(c, kBad, number, 0);
    row->rank[g->input] = (uint8_t)(g->lo + 1);
    return true;
  }
  if (!row->rank[g->input] || !row->has_dtype[g->input])
    return nacre_bad(c, "guard record %d comes before the rank and dtype of its input", number, 0);
  uint32_t rank = row->rank[g->input] - 1u;
  struct nacre_tensor_view tensor;
  nacre_meta_input(c->meta, entry, g->input, &tensor);
  bool scalar = rank == 0 && tensor.flags & NACRE_TENSOR_SCALAR;
  bool good = false;
  switch (g->kind) {
    case NACRE_GUARD_bind:
      good = g->dim < rank && g->lo > 0 && g->hi > -NACRE_MAX_BYTES && g->hi < NACRE_MAX_BYTES;
      // fallthrough
    case NACRE_GUARD_bind_value:
      if (g->kind == NACRE_GUARD_bind_value) good = scalar;
      good = good && g->ref >= 0 && g->ref < c->counts.symbol_count;
      if (!good) break;
      if (nacre_set_has(&row->bound, (uint32_t)g->ref))
        return nacre_bad(c, "guard record %d binds a symbol again", number, 0);
      nacre_set_add(&row->bound, (uint32_t)g->ref);
      return true;
    case NACRE_GUARD_bind_stride:
    case NACRE_GUARD_bind_offset:
      good = g->ref >= 0 && g->ref < c->counts.symbol_count &&
             (g->kind == NACRE_GUARD_bind_offset || g->dim < rank);
      if (!good) break;
      if (nacre_set_has(&row->bound, (uint32_t)g->ref))
        return nacre_bad(c, "guard record %d binds a symbol again", number, 0);
      nacre_set_add(&row->bound, (uint32_t)g->ref);
      return true;
    case NACRE_GUARD_equal:
      good = g->dim < rank && g->lo >= 0;  // words about a size take a negative one for a node
      break;
    case NACRE_GUARD_range:
      good = g->dim < rank && g->lo <= g->hi;
      break;
    case NACRE_GUARD_multiple:
      good = g->dim < rank && g->lo > 0;
      break;
    case NACRE_GUARD_strides:
      good = g->lo >= NACRE_STRIDES_CONTIGUOUS && g->lo <= NACRE_STRIDES_CHANNELS_LAST;
      break;
    case NACRE_GUARD_alignment:
      good = g->lo > 0 && !(g->lo & (g->lo - 1));
      break;
    case NACRE_GUARD_disjoint:
      good = g->ref >= 0 && g->ref < input_count;
      break;
    case NACRE_GUARD_value_equal:
    case NACRE_GUARD_value_range:
      good = scalar;
      break;
    case NACRE_GUARD_equal_node:
      good = g->dim < rank && g->ref >= 0 && g->ref < node_count;
      break;
    default:
      break;
  }
  return good || nacre_bad(c, kBad, number, 0);
}

static bool check_row(struct nacre_checker* c, const struct nacre_variant_view* v, uint32_t entry,
                      uint32_t input_count, uint32_t node_count,
                      const struct nacre_symbol_set* reads) {
  struct row row;
  memset(&row, 0, sizeof row);
  uint8_t stage = 0;
  for (uint32_t i = 0; i < v->guard_count; ++i) {
    const struct nacre_guard* g = &v->guards[i];
    if (g->kind >= NACRE_GUARD_KINDS)
      return nacre_newer(c, "guard record %d is of kind %d, which this runtime does not know", i,
                         g->kind);
    if (kGuardStage[g->kind] < stage) return nacre_bad(c, "guard record %d is out of order", i, 0);
    stage = kGuardStage[g->kind];
    if (!check_guard(c, g, i, &row, entry, input_count, node_count)) return false;
  }
  for (uint32_t i = 0; i < input_count; ++i)
    if (!row.rank[i] || !row.has_dtype[i])
      return nacre_bad(c, "input %d has no guard for its rank and dtype", i, 0);
  // Others get their values while the program runs.
  for (uint32_t i = 0; i < v->command_count; ++i) {
    const struct nacre_command* command = &v->commands[i];
    if (command->kind != NACRE_COMMAND_bind || command->target >= c->counts.symbol_count) continue;
    if (nacre_set_has(&row.bound, command->target))
      return nacre_bad(c, "command %d binds a symbol that a guard has bound", i, 0);
  }
  for (uint32_t i = 0; i < v->command_count; ++i)
    if (v->commands[i].kind == NACRE_COMMAND_bind &&
        v->commands[i].target < c->counts.symbol_count)
      nacre_set_add(&row.bound, v->commands[i].target);
  for (uint32_t i = 0; i < c->counts.symbol_count; ++i)
    if (nacre_set_has(reads, i) && !nacre_set_has(&row.bound, i))
      return nacre_bad(c, "symbol %d is read, but nothing binds it", i, 0);
  return true;
}

static bool check_slot(struct nacre_checker* c, const struct nacre_slot* slot, uint32_t number,
                       const struct nacre_entry_view* entry, const struct nacre_variant_view* v,
                       uint32_t node_count) {
  bool constant = slot->offset >= 0 && slot->size >= 0;
  bool good =
      nacre_size_valid(slot->offset, node_count) && nacre_size_valid(slot->size, node_count);
  uint64_t limit = (uint64_t)NACRE_MAX_BYTES * 2;
  struct nacre_weight_view weight;
  struct nacre_state_view state;
  switch (slot->kind) {
    case NACRE_SLOT_INPUT:
      good = good && slot->index < entry->input_count;
      break;
    case NACRE_SLOT_OUTPUT:
      good = good && slot->index < entry->output_count;
      break;
    case NACRE_SLOT_WEIGHT:
      good = good && constant && slot->index < c->counts.weight_count;
      if (!good) break;
      nacre_meta_weight(c->meta, slot->index, &weight);
      limit = weight.size;
      break;
    case NACRE_SLOT_STATE:
      good = good && constant && slot->index < c->counts.state_count;
      if (!good) break;
      nacre_meta_state(c->meta, slot->index, &state);
      limit = state.size;
      break;
    case NACRE_SLOT_ARENA:
      if (v->arena_size >= 0) limit = (uint64_t)v->arena_size;
      break;
    default:
      good = false;
  }
  if (good && constant) good = nacre_within((uint64_t)slot->offset, (uint64_t)slot->size, limit);
  return good || nacre_bad(c, "slot %d does not lie in its buffer", number, 0);
}

// A loop must have a way out: a branch between its head and the jump back that goes on behind it.
static bool has_exit(const struct nacre_variant_view* v, uint32_t head, uint32_t jump) {
  for (uint32_t i = head + 1; i < jump; ++i)
    if (v->commands[i].kind == NACRE_COMMAND_branch && v->commands[i].target > jump) return true;
  return false;
}

static bool check_target(struct nacre_checker* c, const struct nacre_variant_view* v,
                         const struct nacre_command* command, uint32_t number,
                         uint32_t node_count) {
  switch (command->kind) {
    case NACRE_COMMAND_call:
      return command->target < c->counts.kernel_count;
    case NACRE_COMMAND_import:
      return command->target < c->counts.import_count;
    case NACRE_COMMAND_branch:
      return command->target > number && command->target < v->command_count;
    case NACRE_COMMAND_jump:
      return command->target < v->command_count &&
             (command->target > number ||
              (v->commands[command->target].kind == NACRE_COMMAND_loop &&
               has_exit(v, command->target, number)));
    case NACRE_COMMAND_bind:
      return command->target < c->counts.symbol_count;
    case NACRE_COMMAND_check:
      return command->target < node_count;
    default:
      return true;
  }
}

static bool writable(struct nacre_checker* c, uint32_t entry, const struct nacre_slot* slot) {
  struct nacre_tensor_view tensor;
  if (slot->kind != NACRE_SLOT_INPUT) return slot->kind != NACRE_SLOT_WEIGHT;
  nacre_meta_input(c->meta, entry, slot->index, &tensor);
  return tensor.flags & NACRE_TENSOR_MUTATED;
}

// The application is told what the operands are: each has a description, and lies as it says.
static bool check_import(struct nacre_checker* c, uint32_t entry, uint32_t variant,
                         const struct nacre_variant_view* v, const struct nacre_command* command) {
  struct nacre_import_view import;
  nacre_meta_import(c->meta, command->target, &import);
  // Their shapes are for the run then.
  if (import.input_count > command->operand_count || v->spare_nodes) return false;
  for (uint32_t i = 0; i < command->operand_count; ++i) {
    uint32_t slot = v->operands[command->first_operand + i];
    struct nacre_tensor_view tensor;
    if (slot >= v->slot_tensor_count) return false;
    nacre_meta_slot_tensor(c->meta, entry, variant, slot, &tensor);
    if (tensor.layout_count) return false;
    if (i >= import.input_count && !writable(c, entry, &v->slots[slot])) return false;
  }
  return true;
}

// A copy may write to what is the call's own, a branch reads one byte, a bind an int64.
static bool check_operand_kinds(struct nacre_checker* c, uint32_t entry, uint32_t variant,
                                const struct nacre_variant_view* v,
                                const struct nacre_command* command) {
  if (command->kind == NACRE_COMMAND_import) return check_import(c, entry, variant, v, command);
  if (command->operand_count == 0) return true;  // there may be no list of operands at all
  const uint32_t* operands = v->operands + command->first_operand;
  if (command->kind == NACRE_COMMAND_copy) return writable(c, entry, &v->slots[operands[0]]);
  if (command->kind == NACRE_COMMAND_branch) return v->slots[operands[0]].size == 1;
  if (command->kind == NACRE_COMMAND_bind) return v->slots[operands[0]].size == 8;
  return true;
}

static bool check_command(struct nacre_checker* c, uint32_t entry, uint32_t variant,
                          const struct nacre_variant_view* v, uint32_t number,
                          uint32_t node_count) {
  const struct nacre_command* command = &v->commands[number];
  if (command->kind >= sizeof kCommandOperands)
    return nacre_newer(c, "command %d is of kind %d, which this runtime does not know", number,
                       command->kind);
  if (command->flags & ~(NACRE_COMMAND_BARRIER | NACRE_COMMAND_TEAM))
    return nacre_bad(c, "command %d has unknown flags", number, 0);
  if (!nacre_within(command->first_operand, command->operand_count, v->operand_count) ||
      !nacre_within(command->first_provenance, command->provenance_count, v->provenance_count))
    return nacre_bad(c, "command %d has operands that are not there", number, 0);
  if (kCommandOperands[command->kind] >= 0 &&
      command->operand_count != (uint32_t)kCommandOperands[command->kind])
    return nacre_bad(c, "command %d has the wrong number of operands", number, 0);
  if (!nacre_size_valid(command->scratch, node_count) ||
      !nacre_size_valid(command->flops, node_count + v->spare_nodes) ||
      !nacre_size_valid(command->bytes, node_count + v->spare_nodes))
    return nacre_bad(c, "command %d has an invalid size", number, 0);
  if (!check_target(c, v, command, number, node_count))
    return nacre_bad(c, "command %d has a target that is not there", number, 0);
  return check_operand_kinds(c, entry, variant, v, command) ||
         nacre_bad(c, "command %d has operands of the wrong kind", number, 0);
}

bool nacre_check_variant(struct nacre_checker* c, uint32_t entry,
                         const struct nacre_entry_view* view, uint32_t variant,
                         const struct nacre_symbol_set* entry_reads) {
  struct nacre_variant_view v;
  struct nacre_symbol_set reads = *entry_reads;
  nacre_meta_variant(c->meta, entry, variant, &v);
  if (!nacre_aligned(v.guards, v.guard_count) || !nacre_aligned(v.nodes, v.node_count) ||
      !nacre_aligned(v.slots, v.slot_count) || !nacre_aligned(v.commands, v.command_count))
    return nacre_bad(c, "its tables are out of place", 0, 0);
  if (v.node_count > 1u << 24 || v.spare_nodes > v.node_count)
    return nacre_bad(c, "too many nodes", 0, 0);
  uint32_t node_count = view->node_count + v.node_count - v.spare_nodes;  // what a run may look at
  if (!nacre_check_nodes(c, v.nodes, v.node_count, view->node_count, &reads)) return false;
  if (!check_row(c, &v, entry, view->input_count, node_count, &reads)) return false;

  if (!nacre_size_valid(v.arena_size, node_count) || v.arena_bound < 0 ||
      v.arena_bound > NACRE_MAX_BYTES || v.scratch_bound < 0 || v.scratch_bound > NACRE_MAX_BYTES)
    return nacre_bad(c, "the arena's size is invalid", 0, 0);
  if (v.slot_tensor_count && v.slot_tensor_count != v.slot_count)
    return nacre_bad(c, "%d descriptions for %d slots", v.slot_tensor_count, v.slot_count);
  for (uint32_t i = 0; i < v.slot_count; ++i)
    if (!check_slot(c, &v.slots[i], i, view, &v, node_count)) return false;
  for (uint32_t i = 0; i < v.slot_tensor_count; ++i) {
    struct nacre_tensor_view tensor;
    nacre_meta_slot_tensor(c->meta, entry, variant, i, &tensor);
    if (!nacre_check_tensor(c, &tensor, node_count + v.spare_nodes, "the description of slot", i))
      return false;
  }

  for (uint32_t i = 0; i < v.operand_count; ++i)
    if (v.operands[i] >= v.slot_count)
      return nacre_bad(c, "operand %d is a slot that is not there", i, 0);
  for (uint32_t i = 0; i < v.provenance_count; ++i)
    if (v.provenances[i] >= c->counts.provenance_count)
      return nacre_bad(c, "origin %d is not there", i, 0);
  if (!v.command_count || (v.commands[v.command_count - 1].kind != NACRE_COMMAND_end &&
                           v.commands[v.command_count - 1].kind != NACRE_COMMAND_jump))
    return nacre_bad(c, "the program does not end", 0, 0);
  for (uint32_t i = 0; i < v.command_count; ++i)
    if (!check_command(c, entry, variant, &v, i, node_count)) return false;
  return true;
}
