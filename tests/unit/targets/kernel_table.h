// The kernels under test, compiled by Clang once for each instruction set: one table of functions a set.
#pragma once

#include <cstdint>

struct GemmCall {
  int64_t m, n, k;
  const float* a;
  int64_t lda, ska;
  const float* b;
  int64_t sbk, sbn;  // gemm_ab
  float* c;          // [m][n]
  const float* bias;
  float* scratch;
  int thread, threads;
};
struct ConvCall {
  int64_t batch, h, w, ic, oc, groups, kh, kw, stride_h, stride_w, pad_h, pad_w, dilation_h, dilation_w, oh, ow, sn, sh,
      sw, sc;
  const float* in;
  const float* weights;
  const float* bias;
  float* out;  // [batch][oh][ow][groups * oc]
  float* scratch;
  int thread, threads;
};
struct AttentionCall {
  int64_t batch, heads, s, t, d, e;
  const float *q, *k, *v;  // [batch][s][heads][d]
  const float* mask;       // [s][t] or null
  float scale;
  bool causal;
  float* out;  // [batch][s][heads][e]
  float* scratch;
  int thread, threads;
};
struct RecurrentCall {
  int64_t time, batch, hidden;
  const float *projected, *weights, *bias, *h0, *c0;
  float *y, *h, *c;
  bool reverse;
  int thread, threads;
  void (*sync)(void*);
  void* team;
};
struct FloatFunction {
  const char* name;
  void (*scalar)(const float* x, float* y, int64_t n);
  void (*vector)(const float* x, float* y, int64_t n);  // n is a multiple of 16
  void (*wide)(const double* x, double* y, int64_t n);
};
struct FloatFunction2 {
  const char* name;
  void (*scalar)(const float* a, const float* b, float* y, int64_t n);
  void (*vector)(const float* a, const float* b, float* y, int64_t n);
  void (*wide)(const double* a, const double* b, double* y, int64_t n);
};

struct KernelTable {
  int vector_floats, max_nv;
  int (*default_nv)(int64_t n);
  int64_t (*gemm_scratch)(int nv, int64_t m, int64_t n, int64_t k);
  int64_t (*gemm_ab_scratch)(int nv, int64_t m, int64_t n, int64_t k);
  int64_t (*conv_scratch)(const ConvCall&);
  int64_t (*conv_planar_scratch)(const ConvCall&);
  int64_t (*attention_scratch)(const AttentionCall&);
  void (*gemm)(int nv, const GemmCall&);        // run-time sizes
  void (*gemm_ab)(int nv, const GemmCall&);
  void (*gemm_constant)(int index, const GemmCall&);  // the index-th line of shapes.def
  void (*conv)(int nv, const ConvCall&);
  void (*conv_planar)(int nv, const ConvCall&);
  void (*conv_constant)(int index, const ConvCall&);
  void (*conv_planar_constant)(int index, const ConvCall&);
  void (*transposed_constant)(int index, const ConvCall&);
  int64_t (*winograd_scratch)(int out, int nv, const ConvCall&);  // out: 2 or 4
  void (*winograd)(int out, int nv, const ConvCall&);
  void (*depthwise)(const ConvCall&);
  void (*depthwise_constant)(int index, const ConvCall&);
  void (*attention)(const AttentionCall&);
  void (*attention_constant)(int index, const AttentionCall&);
  void (*lstm)(const RecurrentCall&);
  void (*gru)(const RecurrentCall&);
  float (*reduce_sum)(const float* x);  // of vector_floats elements
  float (*reduce_max)(const float* x);
  void (*transpose)(float* x);          // vector_floats squared
  void (*copy_part)(const float* from, float* to, int n);
};

struct FunctionTable {
  const FloatFunction* functions;    // ends with a null name
  const FloatFunction2* functions2;  // idem
  float (*minimum_number)(float, float);  // fminf, fmaxf
  float (*maximum_number)(float, float);
  float (*from_half)(uint16_t);  // null where the machine has instructions for them
  uint16_t (*to_half)(float);
};

extern "C" const KernelTable kernels_v2, kernels_v3, kernels_v4, kernels_wide;
extern "C" const FunctionTable functions_v2, functions_v3, functions_v4, functions_wide;
