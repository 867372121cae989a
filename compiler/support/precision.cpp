#include "compiler/support/precision.h"

#include "compiler/support/error.h"

namespace nacre {

Precision precision_named(const std::string& name) {
  if (name == "fp32") return Precision::fp32;
  if (name == "tf32") return Precision::tf32;
  if (name == "fp16") return Precision::fp16;
  if (name == "bf16") return Precision::bf16;
  fail(ErrorKind::user, "no precision '{}'; there are fp32, tf32, fp16, bf16", name);
}

}  // namespace nacre
