// The operators of model.py, as an application has them.
#include <nacre/dtype.h>
#include <nacre/nacre.h>
#include <stdlib.h>
#include <string.h>

static int64_t elements(const nacre_tensor* t) {
  int64_t count = 1;
  for (uint32_t d = 0; d < t->rank; ++d) count *= t->shape[d];
  return count;
}

static double number(const nacre_import_call* call, const char* name, double otherwise) {
  const char* text = nacre_import_argument(call, name);
  return text ? strtod(text, NULL) : otherwise;
}

static int32_t scale(void* user, const nacre_import_call* call) {
  const nacre_tensor *x = &call->inputs[0], *y = &call->outputs[0];
  const double by = number(call, "factor", 0) * number(call, "times", 1);
  (void)user;
  for (int64_t i = 0; i < elements(x); ++i) {
    if (x->dtype == NACRE_f32)
      ((float*)y->data)[i] = ((const float*)x->data)[i] * (float)by;
    else if (x->dtype == NACRE_i64)
      ((int64_t*)y->data)[i] = (int64_t)((double)((const int64_t*)x->data)[i] * by);
    else
      return 1;
  }
  return 0;
}

// {"parts":[0,1],"rows":"input 2","fill":-0.5}
static int32_t join(void* user, const nacre_import_call* call) {
  const nacre_tensor *joined = &call->outputs[0], *sums = &call->outputs[1];
  const char* rows_at = nacre_import_argument(call, "rows");
  const int64_t rows = *(const int64_t*)call->inputs[atoi(rows_at + strlen("\"input "))].data;
  (void)user;
  if (call->input_count != 3 || strncmp(nacre_import_argument(call, "parts"), "[0,1]", 5) || rows != joined->shape[0]) return 2;
  for (int64_t row = 0; row < rows; ++row) {
    float *to = (float*)joined->data + row * joined->shape[1], *const begin = to;
    for (int part = 0; part < 2; ++part) {
      const nacre_tensor* x = &call->inputs[part];
      for (int64_t i = 0; i < x->shape[1]; ++i) *to++ = ((const float*)x->data)[row * x->shape[1] + i];
    }
    *to++ = (float)number(call, "fill", 0);
    float sum = 0;
    for (const float* at = begin; at < to; ++at) sum += *at;
    ((float*)sums->data)[row] = sum;
  }
  return 0;
}

static int32_t shift(void* user, const nacre_import_call* call) {
  (void)user;
  for (int64_t i = 0; i < elements(&call->inputs[0]); ++i)
    ((float*)call->outputs[0].data)[i] = ((const float*)call->inputs[0].data)[i] + (float)number(call, "by", 0);
  return 0;
}

static int32_t refuse(void* user, const nacre_import_call* call) {
  (void)user, (void)call;
  return 42;
}

const nacre_import* nacre_imports(size_t* count) {
  static nacre_import imports[] = {{"mylib::scale", scale, NULL}, {"mylib::join", join, NULL}, {"mylib::shift", shift, NULL}};
  if (getenv("REFUSE")) imports[0].function = refuse;
  *count = sizeof imports / sizeof *imports;
  return imports;
}
