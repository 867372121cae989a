// run_cases [--repeat N] [--profile] [--any] [--leave MIB] FOLDER...: runs packed cases (nacre verify --pack) on a GPU, compares, and says how long a call takes.
// --any: on the processor, too, where the artifact has a variant for it and the GPU's memory does not do; not timed then. --leave: of that memory, only so
// much is left to what follows.
//
// A folder has model.nacre (model.nacre.weights beside it with --pack-apart), cases.bin and cases.txt, whose lines are
//   set NAME                                       one call; `continues`: in the session of the one before
//   continues
//   input DTYPE RANK SIZES... OFFSET BYTES
//   output DTYPE RANK SIZES... OFFSET BYTES LIMIT  floating: the reference in float64, and the largest error that passes;
//                                                  otherwise LIMIT is -1 and the bytes have to be these
//   after INPUT OFFSET BYTES LIMIT                 what the call leaves in an input
#include <dlfcn.h>
#include <math.h>
#include <nacre/cuda.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "formats/dtype.h"
#include "runtime/cuda_driver.h"

enum { kMost = 256 };

struct expected {
  uint32_t dtype, input;
  size_t offset, bytes;
  double limit;
};
struct set {
  char name[64];
  bool continues;
  nacre_tensor inputs[kMost];
  size_t input_bytes[kMost];
  int64_t shapes[kMost][NACRE_MAX_RANK];
  struct expected outputs[kMost], after[kMost];
  uint32_t input_count, output_count, after_count;
};

static uint8_t* contents;

static void* read_file(const char* folder, const char* name, size_t* size) {
  char path[1024];
  snprintf(path, sizeof path, "%s/%s", folder, name);
  FILE* file = fopen(path, "rb");
  if (!file) return NULL;
  fseek(file, 0, SEEK_END);
  *size = (size_t)ftell(file);
  rewind(file);
  uint8_t* bytes = NULL;
  if (posix_memalign((void**)&bytes, 64, *size + 64) || fread(bytes, 1, *size, file) != *size) return NULL;
  bytes[*size] = 0;
  fclose(file);
  return bytes;
}

static uint32_t dtype_named(const char* name) {
  for (uint32_t i = 1; i < NACRE_DTYPE_COUNT; ++i)
    if (!strcmp(name, nacre_dtype_name(i))) return i;
  fprintf(stderr, "no dtype %s\n", name);
  exit(2);
}

// The next set, or false.
static bool next_set(char** at, struct set* set) {
  char *line, *save;
  bool any = false;
  memset(set, 0, sizeof *set);
  while (**at) {
    char* start = *at;
    if (any && !strncmp(start, "set ", 4)) return true;
    line = strsep(at, "\n");
    if (!*at) *at = line + strlen(line);
    char* word = strtok_r(line, " ", &save);
    if (!word) continue;
    if (!strcmp(word, "set")) {
      any = true;
      snprintf(set->name, sizeof set->name, "%s", strtok_r(NULL, " ", &save));
    } else if (!strcmp(word, "continues")) {
      set->continues = true;
    } else if (!strcmp(word, "after")) {
      struct expected* e = &set->after[set->after_count++];
      e->input = (uint32_t)atoi(strtok_r(NULL, " ", &save));
      e->dtype = set->inputs[e->input].dtype;
      e->offset = strtoull(strtok_r(NULL, " ", &save), NULL, 10);
      e->bytes = strtoull(strtok_r(NULL, " ", &save), NULL, 10);
      e->limit = atof(strtok_r(NULL, " ", &save));
    } else {
      bool input = !strcmp(word, "input");
      uint32_t dtype = dtype_named(strtok_r(NULL, " ", &save)), rank = (uint32_t)atoi(strtok_r(NULL, " ", &save));
      int64_t shape[NACRE_MAX_RANK];
      for (uint32_t d = 0; d < rank; ++d) shape[d] = atoll(strtok_r(NULL, " ", &save));
      size_t offset = strtoull(strtok_r(NULL, " ", &save), NULL, 10), bytes = strtoull(strtok_r(NULL, " ", &save), NULL, 10);
      if (input) {
        uint32_t i = set->input_count++;
        memcpy(set->shapes[i], shape, sizeof shape);
        uint8_t* copy = NULL;
        if (posix_memalign((void**)&copy, 64, bytes + 64)) exit(2);
        memcpy(copy, contents + offset, bytes);
        set->inputs[i] = (nacre_tensor){copy, set->shapes[i], NULL, rank, dtype};
        set->input_bytes[i] = bytes;
      } else {
        struct expected* e = &set->outputs[set->output_count++];
        *e = (struct expected){dtype, 0, offset, bytes, atof(strtok_r(NULL, " ", &save))};
      }
    }
  }
  return any;
}

static double element(const void* data, uint32_t dtype, size_t i) {
  if (dtype == NACRE_f64) return ((const double*)data)[i];
  if (dtype == NACRE_f32) return (double)((const float*)data)[i];
  uint16_t bits = ((const uint16_t*)data)[i];
  if (dtype == NACRE_bf16) {
    uint32_t wide = (uint32_t)bits << 16;
    float x;
    memcpy(&x, &wide, 4);
    return (double)x;
  }
  int exponent = bits >> 10 & 31, fraction = bits & 1023;
  double x = exponent == 31 ? (fraction ? NAN : INFINITY) : exponent ? ldexp(1024 + fraction, exponent - 25) : ldexp(fraction, -24);
  return bits >> 15 ? -x : x;
}

// The error over its limit, at most `*worst` if it is good; false: it is not.
static bool compare(const void* data, size_t size, const struct expected* e, double* worst, char* why, size_t room) {
  if (e->limit < 0) {
    if (size == e->bytes && !memcmp(data, contents + e->offset, size)) return true;
    size_t at = 0;
    while (at < size && at < e->bytes && ((const uint8_t*)data)[at] == contents[e->offset + at]) ++at;
    snprintf(why, room, "%zu bytes, %zu expected; differs at byte %zu", size, e->bytes, at);
    return false;
  }
  const double* reference = (const double*)(contents + e->offset);
  size_t count = e->bytes / 8;
  if (count * nacre_dtype_size_bytes(e->dtype) != size) {
    snprintf(why, room, "%zu bytes, %zu elements expected", size, count);
    return false;
  }
  for (size_t i = 0; i < count; ++i) {
    double x = element(data, e->dtype, i), y = reference[i];
    if ((x != x && y != y) || x == y) continue;
    double error = fabs(x - y);
    if (!(error <= e->limit)) {
      snprintf(why, room, "element %zu of %zu is %.9g, should be %.9g; limit %.3g", i, count, x, y, e->limit);
      return false;
    }
    if (error / e->limit > *worst) *worst = error / e->limit;
  }
  return true;
}

static double now_us(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec * 1e6 + (double)t.tv_nsec / 1e3;
}

static int by_value(const void* a, const void* b) { return (*(const double*)a > *(const double*)b) - (*(const double*)a < *(const double*)b); }

// Of calls whose tensors lie on the device, in microseconds; -1: they failed.
struct times {
  double call;    // the median, launch and wait included
  double host;    // of queued calls: how long nacre_run takes
  double queued;  // the time from one to the next when many follow each other
};

// Calls of a session that queues them.
static void time_queued(const nacre_model* model, const nacre_tensor* inputs, uint32_t input_count, const nacre_buffer* outputs,
                        uint32_t output_count, int repeat, struct times* times) {
  nacre_session* session;
  nacre_session_options options = {.cuda_queued = 1};
  double* took = calloc((size_t)repeat + 1, sizeof *took);
  if (!took || nacre_session_make(model, &options, NULL, 0, &session)) {
    free(took);
    return;
  }
  nacre_status status = NACRE_OK;
  for (int i = 0; i < 3 && !status; ++i) status = nacre_run(session, 0, inputs, input_count, outputs, output_count);
  if (!status) status = nacre_session_wait(session);
  double start = now_us();
  for (int i = 0; i < repeat && !status; ++i) {
    double begin = now_us();
    status = nacre_run(session, 0, inputs, input_count, outputs, output_count);
    took[i] = now_us() - begin;
  }
  if (!status) status = nacre_session_wait(session);
  if (!status) {
    times->queued = (now_us() - start) / repeat;
    // The queue of the driver has an end: the first calls tell what one costs.
    int few = repeat < 32 ? repeat : 32;
    qsort(took, (size_t)few, sizeof *took, by_value);
    times->host = took[few / 2];
  }
  free(took);
  nacre_session_destroy(session);
}

static struct times time_there(const nacre_model* model, nacre_session* session, struct set* set, nacre_buffer* outputs, uint32_t output_count, int repeat) {
  const struct nacre_cuda_driver* d = nacre_cuda_driver();
  CUdevice device;
  CUcontext context;
  struct times result = {-1, -1, -1};
  if (!d || d->cuDeviceGet(&device, 0) || d->cuDevicePrimaryCtxRetain(&context, device)) return result;
  d->cuCtxPushCurrent(context);
  nacre_tensor inputs[kMost];
  nacre_buffer there[kMost];
  CUdeviceptr taken[2 * kMost];
  uint32_t count = 0;
  for (uint32_t i = 0; i < set->input_count; ++i) {
    inputs[i] = set->inputs[i];
    if (!inputs[i].rank) continue;  // may be a number that guards read
    CUdeviceptr p = 0;
    d->cuMemAlloc(&p, set->input_bytes[i] + 256);
    d->cuMemcpyHtoDAsync(p, inputs[i].data, set->input_bytes[i], NULL);
    inputs[i].data = (void*)(uintptr_t)p;
    taken[count++] = p;
  }
  for (uint32_t i = 0; i < output_count; ++i) {
    CUdeviceptr p = 0;
    d->cuMemAlloc(&p, outputs[i].size_bytes + 256);
    there[i] = (nacre_buffer){(void*)(uintptr_t)p, outputs[i].size_bytes};
    taken[count++] = p;
  }
  d->cuStreamSynchronize(NULL);
  double* times = calloc((size_t)repeat + 1, sizeof *times);
  for (int i = 0; i < repeat + 3; ++i) {
    double start = now_us();
    nacre_status status = nacre_run(session, 0, inputs, set->input_count, there, output_count);
    if (status) break;
    if (i >= 3) times[i - 3] = now_us() - start;
    if (i == repeat + 2) {
      qsort(times, (size_t)repeat, sizeof *times, by_value);
      result.call = times[repeat / 2];
    }
  }
  free(times);
  if (result.call >= 0) time_queued(model, inputs, set->input_count, there, output_count, repeat, &result);
  for (uint32_t i = 0; i < count; ++i) d->cuMemFree(taken[i]);
  CUcontext none;
  d->cuCtxPopCurrent(&none);
  d->cuDevicePrimaryCtxRelease(device);
  return result;
}

static void profile(const nacre_model* model, struct set* set, nacre_buffer* outputs, uint32_t output_count) {
  nacre_session* session;
  nacre_session_options options = {.profile = 1};
  if (nacre_session_make(model, &options, NULL, 0, &session)) return;
  for (int i = 0; i < 4; ++i) {
    if (i == 1) nacre_profile_clear(session);
    if (nacre_run(session, 0, set->inputs, set->input_count, outputs, output_count)) break;
  }
  nacre_profile_record record;
  for (uint32_t c = 0; c < 100000; ++c) {
    if (nacre_profile(session, c, &record)) break;
    if (!record.calls) continue;
    double us = (double)record.time_ns / (double)record.calls / 1e3;
    printf("    command %3u %9.1f us %8.1f GFLOP/s %8.1f GB/s\n", c, us, (double)record.flops / us / 1e3, (double)record.bytes / us / 1e3);
  }
  nacre_session_destroy(session);
}

// Takes the device's memory until `left` bytes are free. Whether it has been done.
static bool take_memory(size_t left) {
  const struct nacre_cuda_driver* d = nacre_cuda_driver();
  CUdevice device;
  CUcontext context, none;
  size_t all = 0;
  if (!d || d->cuDeviceGet(&device, 0) || d->cuDeviceTotalMem(&all, device) || d->cuDevicePrimaryCtxRetain(&context, device)) return false;
  d->cuCtxPushCurrent(context);
  // What can be had is found by halves; then `left` of it is given back.
  CUdeviceptr p = 0, room = 0;
  if (d->cuMemAlloc(&room, left)) return false;
  for (size_t size = all; size >= (size_t)1 << 20; size /= 2)
    while (!d->cuMemAlloc(&p, size)) continue;
  d->cuMemFree(room);
  d->cuCtxPopCurrent(&none);
  return true;
}

int main(int argc, char** argv) {
  uint32_t on = NACRE_DEVICE_CUDA;
  int repeat = 0, good = 0, all = 0, sets_good = 0, sets_all = 0;
  bool show_profile = false;
  for (int a = 1; a < argc; ++a) {
    if (!strcmp(argv[a], "--repeat")) {
      repeat = atoi(argv[++a]);
      continue;
    }
    if (!strcmp(argv[a], "--profile")) {
      show_profile = true;
      continue;
    }
    if (!strcmp(argv[a], "--any")) {
      on = NACRE_DEVICE_ANY;
      continue;
    }
    if (!strcmp(argv[a], "--leave")) {
      if (!take_memory((size_t)atoll(argv[++a]) << 20)) return fprintf(stderr, "the device's memory cannot be taken\n"), 2;
      continue;
    }
    const char* folder = argv[a];
    const char* name = strrchr(folder, '/') ? strrchr(folder, '/') + 1 : folder;
    char path[1024];
    size_t text_size, size;
    snprintf(path, sizeof path, "%s/model.nacre", folder);
    char* text = read_file(folder, "cases.txt", &text_size);
    contents = read_file(folder, "cases.bin", &size);
    ++all;
    if (!text || !contents) {
      printf("FAIL %s: cannot be read\n", name);
      continue;
    }
    nacre_model* model = NULL;
    nacre_session* session = NULL;
    nacre_error error;
    nacre_open_options open_options = {.device = on};
    double opened = now_us();
    nacre_status status = nacre_model_open(path, &open_options, &model, &error);
    if (!status) status = nacre_session_make(model, NULL, NULL, 0, &session);
    opened = now_us() - opened;
    if (status) {
      printf("FAIL %s: %s\n", name, model ? nacre_status_text(status) : error.message);
      nacre_model_close(model);
      continue;
    }
    static struct set set;
    char* at = text;
    bool passed = true, profiled = false;
    double worst = 0, first_us = -1;
    struct times there = {-1, -1, -1};
    while (next_set(&at, &set)) {
      char why[256] = "";
      ++sets_all;
      if (!set.continues) nacre_session_reset(session);
      nacre_buffer outputs[kMost];
      memset(outputs, 0, sizeof outputs);
      uint32_t output_count = nacre_output_count(model, 0);
      status = nacre_session_prepare(session, 0, set.inputs, set.input_count);
      for (uint32_t i = 0; i < output_count && !status; ++i) {
        outputs[i].size_bytes = nacre_output_size_bytes(session, i);
        if (posix_memalign(&outputs[i].data, 64, outputs[i].size_bytes + 64)) return 2;
        memset(outputs[i].data, 0xee, outputs[i].size_bytes);
      }
      double start = now_us();
      if (!status) status = nacre_run(session, 0, set.inputs, set.input_count, outputs, output_count);
      if (first_us < 0) first_us = now_us() - start;
      bool set_good = !status;
      if (status) snprintf(why, sizeof why, "%s", nacre_session_message(session));
      for (uint32_t i = 0; i < set.output_count && set_good; ++i) {
        const int64_t* shape = nacre_output_shape(session, i);
        nacre_tensor_info info;
        nacre_output_info(model, 0, i, &info);
        size_t bytes_now = info.element_size;
        for (uint32_t d = 0; d < info.rank; ++d) bytes_now *= (size_t)shape[d];
        set_good = compare(outputs[i].data, bytes_now, &set.outputs[i], &worst, why, sizeof why);
      }
      for (uint32_t i = 0; i < set.after_count && set_good; ++i)
        set_good = compare(set.inputs[set.after[i].input].data, set.input_bytes[set.after[i].input], &set.after[i], &worst, why, sizeof why);
      if (!set_good) printf("  %s %s: %s\n", name, set.name, why);
      sets_good += set_good;
      passed = passed && set_good;
      if (repeat && on == NACRE_DEVICE_CUDA && there.call < 0 && !status) there = time_there(model, session, &set, outputs, output_count, repeat);
      if (show_profile && !profiled && !status) {
        profiled = true;
        profile(model, &set, outputs, output_count);
      }
      for (uint32_t i = 0; i < output_count; ++i) free(outputs[i].data);
      for (uint32_t i = 0; i < set.input_count; ++i) free(set.inputs[i].data);
      if (status == NACRE_DEVICE_LOST) break;
    }
    good += passed;
    if (!passed || repeat)
      printf("%s %s: variant %u, worst %.2f of the limit; open %.0f us, first call %.0f us, call %.1f us, queued %.1f us (host %.1f us)\n", passed ? "good" : "FAIL", name, nacre_session_variant(session), worst, opened,
             first_us, there.call, there.queued, there.host);
    nacre_session_destroy(session);
    nacre_model_close(model);
    free(text);
    free(contents);
    fflush(stdout);
  }
  printf("%d of %d cases, %d of %d calls\n", good, all, sets_good, sets_all);
  return good == all ? 0 : 1;
}
