// State between calls: initial values, and a file that holds it.
//
// The file: a header, then the bytes of every state, each at a multiple of 64 as in the session. The digest in the header is
// of what the states are (names, dtypes, shapes) and of their bytes, so that neither another model's file nor half a file is
// taken.
#include <string.h>

#include "formats/checksum.h"
#include "runtime/device.h"
#include "runtime/os.h"
#include "runtime/session.h"

struct header {
  char magic[8];
  uint64_t size;      // of the states
  uint64_t kinds;     // digest of what they are
  uint64_t contents;  // digest of their bytes
};
static const char kMagic[8] = "nacreST";

void* nacre_session_state(nacre_session* session, uint32_t state) {
  if (state >= session->model->counts.state_count) return NULL;
  nacre_cuda_state_to_host(session);
  return session->state + session->model->state_offsets[state];
}

// The compiler keeps seed and count of calls in a state of this name: int64, two elements.
nacre_status nacre_session_seed(nacre_session* session, uint64_t seed) {
  uint32_t state = 0;
  const nacre_status status = nacre_state_find(session->model, "random_state", &state);
  if (status) return status;
  if (nacre_state_size_bytes(session->model, state) != 2 * sizeof seed) return NACRE_NOT_FOUND;
  const uint64_t start[2] = {seed, 0};
  memcpy(nacre_session_state(session, state), start, sizeof start);
  return NACRE_OK;
}

void nacre_session_reset(nacre_session* session) {
  const nacre_model* model = session->model;
  nacre_cuda_state_to_host(session);
  for (uint32_t i = 0; i < model->counts.state_count; ++i) {
    struct nacre_state_view state;
    struct nacre_weight_view weight;
    uint8_t* bytes = session->state + model->state_offsets[i];
    nacre_meta_state(model->container.meta, i, &state);
    if (state.initial < 0) {
      memset(bytes, 0, (size_t)state.size);
    } else if (state.size) {
      nacre_meta_weight(model->container.meta, (uint32_t)state.initial, &weight);
      memcpy(bytes, model->container.data + weight.offset, (size_t)state.size);
    }
  }
}

// What the states are: a chain of digests over names, dtypes and shapes.
static uint64_t kinds_of(const nacre_model* model) {
  uint64_t kinds = 0;
  for (uint32_t i = 0; i < model->counts.state_count; ++i) {
    struct nacre_state_view state;
    nacre_meta_state(model->container.meta, i, &state);
    uint64_t parts[5] = {kinds, nacre_digest(state.name, strlen(state.name)), state.dtype,
                         nacre_digest(state.dims, state.rank * sizeof *state.dims), state.size};
    kinds = nacre_digest(parts, sizeof parts);
  }
  return kinds;
}

static struct header header_of(const nacre_model* model, const void* states) {
  struct header h = {{0}, model->state_bytes, kinds_of(model), 0};
  memcpy(h.magic, kMagic, sizeof kMagic);
  h.contents = nacre_digest(states, (size_t)model->state_bytes);
  return h;
}

static nacre_status refuse(nacre_session* s, nacre_status status, const char* path,
                           const char* why) {
  struct nacre_text text = nacre_session_say(s);
  nacre_text_add(&text, "%s: %s", path, why);
  return status;
}

nacre_status nacre_session_save(nacre_session* s, const char* path) {
  nacre_cuda_state_to_host(s);
  struct header h = header_of(s->model, s->state);
  s->failed = false;
  const char* why = nacre_os_write(path, &h, sizeof h, s->state, (size_t)s->model->state_bytes);
  return why ? refuse(s, NACRE_IO_ERROR, path, why) : NACRE_OK;
}

nacre_status nacre_session_load(nacre_session* s, const char* path) {
  size_t size;
  const char* why = "";
  s->failed = false;
  const uint8_t* bytes = nacre_os_map_file(path, &size, &why);
  if (!bytes) return refuse(s, NACRE_IO_ERROR, path, why);
  bool good = size == sizeof(struct header) + s->model->state_bytes;
  if (good) {
    struct header expected = header_of(s->model, bytes + sizeof expected);
    good = !memcmp(&expected, bytes, sizeof expected);
  }
  if (good) nacre_cuda_state_to_host(s);
  if (good) memcpy(s->state, bytes + sizeof(struct header), (size_t)s->model->state_bytes);
  nacre_os_unmap(bytes, size);
  return good ? NACRE_OK
              : refuse(s, NACRE_BAD_ARGUMENT, path, "not the state of this model, or damaged");
}
