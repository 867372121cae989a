// What the compiler asks of scalar types beyond their size and name.
#pragma once

#include <optional>
#include <string_view>

#include "formats/dtype.h"

namespace nacre {

// b bool, u unsigned, i signed, f floating, c complex
inline char kind_of(nacre_dtype dtype) { return nacre_dtype_kind(dtype); }
inline bool is_floating(nacre_dtype dtype) { return kind_of(dtype) == 'f'; }
inline bool is_complex(nacre_dtype dtype) { return kind_of(dtype) == 'c'; }
inline nacre_dtype complex_of(nacre_dtype floating) { return floating == NACRE_f64 ? NACRE_c128 : NACRE_c64; }
// Of its parts; another type is its own.
inline nacre_dtype real_of(nacre_dtype complex) {
  return complex == NACRE_c128 ? NACRE_f64 : complex == NACRE_c64 ? NACRE_f32 : complex;
}
inline bool is_integer(nacre_dtype dtype) { return kind_of(dtype) == 'i' || kind_of(dtype) == 'u'; }
inline bool is_integer_or_bool(nacre_dtype dtype) {
  return is_integer(dtype) || kind_of(dtype) == 'b';
}
inline bool is_half(nacre_dtype dtype) { return dtype == NACRE_f16 || dtype == NACRE_bf16; }

// The type in which elements are computed with: float32 for the 16-bit floats, as ATen does.
inline nacre_dtype compute_type(nacre_dtype stored) { return is_half(stored) ? NACRE_f32 : stored; }

// `f32`
inline std::optional<nacre_dtype> dtype_named(std::string_view name) {
  for (uint32_t d = 1; d < NACRE_DTYPE_COUNT; ++d)
    if (name == nacre_dtype_name(d)) return static_cast<nacre_dtype>(d);
  return std::nullopt;
}

}  // namespace nacre
