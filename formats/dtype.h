// The scalar types: number in the file, name, size. Numbers are never reused.
#ifndef NACRE_FORMATS_DTYPE_H
#define NACRE_FORMATS_DTYPE_H

#include <stdint.h>

//      number  id       name in text  PyTorch's name   bytes  kind (b bool, u unsigned, i signed, f
//      float, c complex)
#define NACRE_DTYPES(X)                      \
  X(1, bool_, "bool", "bool", 1, 'b')        \
  X(2, u8, "u8", "uint8", 1, 'u')            \
  X(3, i8, "i8", "int8", 1, 'i')             \
  X(4, i16, "i16", "int16", 2, 'i')          \
  X(5, i32, "i32", "int32", 4, 'i')          \
  X(6, i64, "i64", "int64", 8, 'i')          \
  X(7, f16, "f16", "float16", 2, 'f')        \
  X(8, bf16, "bf16", "bfloat16", 2, 'f')     \
  X(9, f32, "f32", "float32", 4, 'f')        \
  X(10, f64, "f64", "float64", 8, 'f')       \
  X(11, c64, "c64", "complex64", 8, 'c')     \
  X(12, c128, "c128", "complex128", 16, 'c') \
  X(13, u16, "u16", "uint16", 2, 'u')        \
  X(14, u32, "u32", "uint32", 4, 'u')        \
  X(15, u64, "u64", "uint64", 8, 'u')

typedef enum nacre_dtype {
  NACRE_DTYPE_NONE = 0,
#define X(number, id, name, torch, bytes, kind) NACRE_##id = number,
  NACRE_DTYPES(X)
#undef X
      NACRE_DTYPE_COUNT
} nacre_dtype;

// 0 for a number that names no type.
static inline uint32_t nacre_dtype_size_bytes(uint32_t dtype) {
  static const uint8_t sizes[] = {0,
#define X(number, id, name, torch, bytes, kind) bytes,
                                  NACRE_DTYPES(X)
#undef X
  };
  return dtype < NACRE_DTYPE_COUNT ? sizes[dtype] : 0;
}

// Its kind as in the table, '?' for a number that names no type.
static inline char nacre_dtype_kind(uint32_t dtype) {
  static const char kinds[] = {'?',
#define X(number, id, name, torch, bytes, kind) kind,
                               NACRE_DTYPES(X)
#undef X
  };
  return dtype < NACRE_DTYPE_COUNT ? kinds[dtype] : '?';
}

// The name as textual IR and messages spell it; "?" for a number that names no type.
static inline const char* nacre_dtype_name(uint32_t dtype) {
  static const char names[][5] = {"?",
#define X(number, id, name, torch, bytes, kind) name,
                                  NACRE_DTYPES(X)
#undef X
  };
  return names[dtype < NACRE_DTYPE_COUNT ? dtype : 0];
}

#endif
