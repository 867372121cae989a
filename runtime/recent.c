#include "runtime/recent.h"

#include <string.h>

// This file is compiled for speed, but for what runs once a session.
#define NACRE_ONCE __attribute__((cold))

// Places that one session has at most, more than an entry usually has rows; and, where rows are fewer, what all may take:
// with the rest, sessions stay well below 2 KiB.
static const uint32_t kPlaces = 16;
static const uint64_t kBytes = 800;

// Numbers that say everything about an entry's inputs: rank and dtype, then the sizes, of each.
static NACRE_ONCE uint32_t most_numbers(const nacre_model* model) {
  uint32_t most = 1;
  for (uint32_t i = 0; i < model->counts.entry_count; ++i) {
    uint32_t numbers = 1;
    for (uint32_t j = 0; j < model->entries[i].view.input_count; ++j) {
      struct nacre_tensor_view tensor;
      nacre_meta_input(model->container.meta, i, j, &tensor);
      numbers += 1 + tensor.rank;
    }
    if (numbers > most) most = numbers;
  }
  return most;
}

// Numbers of one place: its inputs' shapes, and what `enter` tells.
static NACRE_ONCE uint64_t values_of(const nacre_model* model, const struct nacre_recent* r) {
  const struct nacre_model_limits* most = &model->limits;
  return (uint64_t)r->capacity + model->counts.symbol_count +
         (uint64_t)r->nodes * (most->binds ? 2 : 1) +
         (uint64_t)most->outputs * (most->output_rank + 1) + most->inputs;
}

// With fixed shapes there are no more than the rows.
static NACRE_ONCE uint32_t places_for(const nacre_model* model, uint64_t bytes) {
  uint32_t rows = 0, places = 0;
  for (uint32_t i = 0; i < model->counts.entry_count; ++i)
    rows += model->entries[i].view.variant_count;
  if (model->counts.symbol_count) places = (uint32_t)(kBytes / bytes);
  if (places < rows) places = rows;
  return places < kPlaces ? places : kPlaces;
}

NACRE_ONCE void nacre_recent_lay_out(struct nacre_block* block, const nacre_model* model,
                                     nacre_session* s, bool profile) {
  struct nacre_recent* r = &s->recent;
  r->capacity = most_numbers(model);
  r->nodes = profile ? model->limits.profile_nodes : model->limits.nodes;
  r->value_count = values_of(model, r);
  r->count = places_for(model, sizeof *r->hashes + sizeof *r->places + sizeof *r->values * r->value_count);
  r->looked = nacre_block_take(block, r->capacity, sizeof *r->looked);
  r->hashes = nacre_block_take(block, r->count, sizeof *r->hashes);
  r->places = nacre_block_take(block, r->count, sizeof *r->places);
  r->values = nacre_block_take(block, r->count * r->value_count, sizeof *r->values);
}

static int64_t* values_at(const struct nacre_recent* r, uint32_t place) {
  return r->values + place * (size_t)r->value_count;
}

static __attribute__((noinline)) void enter(nacre_session* s, uint32_t place) {
  const struct nacre_model_limits* most = &s->model->limits;
  struct nacre_recent* r = &s->recent;
  r->at = place;
  s->symbols = values_at(r, place) + r->capacity;
  s->nodes = s->symbols + s->model->counts.symbol_count;
  s->planned = most->binds ? s->nodes + r->nodes : s->nodes;
  s->output_shapes = s->planned + r->nodes;
  s->output_sizes = s->output_shapes + (size_t)most->outputs * most->output_rank;
  s->input_sizes = s->output_sizes + most->outputs;
}

// What tells the call's shapes from others, in `looked`; false for what is not kept.
static bool look(struct nacre_recent* r, const struct nacre_model_entry* e, uint32_t entry,
                 const nacre_tensor* inputs) {
  if (!e->by_shapes) return false;
  uint64_t hash = 1;
  uint32_t count = 0;
  r->looked[count++] = entry;
  for (uint32_t i = 0; i < e->view.input_count; ++i) {
    const nacre_tensor* t = &inputs[i];
    // A row would not hold either.
    if (t->rank >= r->capacity - count || (t->rank && !t->shape)) return false;
    r->looked[count++] = (int64_t)((uint64_t)t->dtype << 32 | t->rank);
    for (uint32_t d = 0; d < t->rank; ++d) {
      r->looked[count++] = t->shape[d];
      hash = (hash << 7 | hash >> 57) ^ (uint64_t)t->shape[d];
    }
    uint64_t expected = 1;
    for (uint32_t d = t->strides ? t->rank : 0; d-- > 0; expected *= (uint64_t)t->shape[d])
      if (t->shape[d] != 1 && (uint64_t)t->strides[d] != expected) return false;
  }
  r->size = count * sizeof *r->looked;
  r->hash = hash ? hash : 1;  // 0: an empty place
  return true;
}

bool nacre_recent_find(nacre_session* s, uint32_t entry, const nacre_tensor* inputs,
                       bool* changed) {
  struct nacre_recent* r = &s->recent;
  r->hash = 0;
  if (!look(r, &s->model->entries[entry], entry, inputs)) return false;
  // From where the session is: shapes often stay the same, or come in turn.
  for (uint32_t i = 0, place = r->at; i < r->count; ++i) {
    if (r->hashes[place] != r->hash || memcmp(values_at(r, place), r->looked, r->size)) {
      if (++place == r->count) place = 0;
      continue;
    }
    if (place == r->at && s->bound) return true;
    enter(s, place);
    const struct nacre_recent_place* p = &r->places[place];
    uint32_t input_count = s->model->entries[entry].view.input_count;
    memset(s->dense, true, input_count * sizeof *s->dense);
    memset(s->staged, false, input_count * sizeof *s->staged);
    s->all_dense = true;
    s->staged_size = 0;
    s->entry = entry;
    s->variant = p->variant;
    s->arena_used = p->arena_used;
    s->scratch_size = p->scratch_size;
    s->bound = *changed = true;
    return true;
  }
  return false;
}

void nacre_recent_start(nacre_session* s) {
  struct nacre_recent* r = &s->recent;
  if (!r->hash && !r->hashes[r->at]) return;  // what is not kept stays in one place
  r->at = r->turn;
  r->turn = r->at + 1 < r->count ? r->at + 1 : 0;
  nacre_recent_leave(s);
}

void nacre_recent_keep(nacre_session* s) {
  struct nacre_recent* r = &s->recent;
  if (!r->hash) return;
  r->hashes[r->at] = r->hash;
  r->places[r->at] = (struct nacre_recent_place){s->variant, s->arena_used, s->scratch_size};
  memcpy(values_at(r, r->at), r->looked, r->size);
}

void nacre_recent_leave(nacre_session* s) {
  struct nacre_recent* r = &s->recent;
  r->hashes[r->at] = 0;
  s->bound = false;
  enter(s, r->at);
}
