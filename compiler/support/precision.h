// What a device keeps between kernels, and how it multiplies matrices.
#pragma once

#include <string>

#include "formats/dtype.h"

namespace nacre {

enum class Precision : uint8_t {
  fp32,  // float32 throughout
  tf32,  // float32, but factors of products have 11 bits
  fp16,
  bf16,
};

// "fp32", ...; Error{user} for another name.
Precision precision_named(const std::string& name);

// Of temporaries and matrices of weights.
inline nacre_dtype stored_in(Precision precision) {
  return precision == Precision::fp16 ? NACRE_f16 : precision == Precision::bf16 ? NACRE_bf16 : NACRE_f32;
}

}  // namespace nacre
