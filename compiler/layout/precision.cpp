#include "compiler/layout/precision.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>
#include <set>

#include "compiler/loops/code.h"
#include "compiler/loops/interpret_half.h"
#include "compiler/support/dtype.h"
#include "compiler/support/error.h"

namespace nacre {

namespace {

struct Uses {
  std::set<BufferId> contracted, convolved;  // operands; second operands of convolutions
  std::set<BufferId> exact;                  // what stays float32
  std::set<BufferId> read;                   // by other than products
};

Uses uses_of(const LoopProgram& program) {
  Uses uses;
  for (const Group& group : program.groups) {
    if (group.contraction) {
      const Contraction& c = *group.contraction;
      const bool conv = c.kind == ContractionKind::conv;
      for (size_t i = 0; i < c.operands.size(); ++i) {
        if (c.operands[i].buffer < 0) continue;
        if (is_recurrent(c.kind))
          uses.exact.insert(c.operands[i].buffer);
        else
          uses.contracted.insert(c.operands[i].buffer);
        if (conv && i == 1) uses.convolved.insert(c.operands[i].buffer);
        if (i > 2) uses.read.insert(c.operands[i].buffer);  // a mask
      }
      for (BufferId id : c.results) uses.exact.insert(id);
    }
    if (group.rows)
      for (const auto* list : {&group.rows->inputs, &group.rows->outputs})
        for (BufferId id : *list) uses.exact.insert(id);
  }
  for (const Group& group : program.groups)
    for (const Nest& nest : group.nests) {
      bool turns = false;
      for (const Scalar& s : nest.code) turns = turns || s.prim == "sin" || s.prim == "cos";
      for (const Scalar& s : nest.code) {
        if (s.op != ScalarOp::load) continue;
        uses.read.insert(s.buffer);
        if (turns) uses.exact.insert(s.buffer);
      }
      for (const Store& s : nest.stores) {
        if (nest.reduced > 0 && !uses.contracted.contains(s.buffer)) uses.exact.insert(s.buffer);
        if (s.mode != StoreMode::assign) uses.exact.insert(s.buffer);
      }
    }
  return uses;
}

// To the nearest number of 11 bits.
float in_11_bits(float x) {
  if (!std::isfinite(x)) return x;
  uint32_t bits;
  std::memcpy(&bits, &x, sizeof bits);
  bits = (bits + 0x1000) & ~0x1fffu;
  std::memcpy(&x, &bits, sizeof x);
  return x;
}

// The tensor's elements as floats of another type, or of 11 bits, in the order of the dims that is given.
HostTensor narrowed(const HostTensor& from, nacre_dtype to, const std::vector<int>& order, bool tf32 = false) {
  std::byte* bytes = nullptr;
  HostTensor result = make_tensor(to, from.shape, &bytes);
  const auto* source = reinterpret_cast<const float*>(from.data.get());
  auto* halves = reinterpret_cast<uint16_t*>(bytes);
  auto* floats = reinterpret_cast<float*>(bytes);
  const size_t rank = from.shape.size();
  std::vector<int64_t> strides(rank, 1), at(rank, 0);
  for (size_t d = rank; d-- > 1;) strides[d - 1] = strides[d] * from.shape[d];
  const int64_t count = std::accumulate(from.shape.begin(), from.shape.end(), int64_t{1}, std::multiplies<>());
  int64_t offset = 0;
  for (int64_t i = 0; i < count; ++i) {
    if (to == NACRE_f32)
      floats[i] = tf32 ? in_11_bits(source[offset]) : source[offset];
    else
      halves[i] = to == NACRE_f16 ? interpreting::to_f16(source[offset]) : interpreting::to_bf16(source[offset]);
    for (size_t n = rank; n-- > 0;) {
      const auto d = static_cast<size_t>(order[n]);
      offset += strides[d];
      if (++at[d] < from.shape[d]) break;
      offset -= strides[d] * from.shape[d];
      at[d] = 0;
    }
  }
  return result;
}

// Whether 16 bits hold every element as it is, as those of a model in half precision that were widened.
bool is_exact_in(const HostTensor& tensor, nacre_dtype to) {
  if (tensor.dtype != NACRE_f32) return false;
  const auto* elements = reinterpret_cast<const float*>(tensor.data.get());
  return std::all_of(elements, elements + tensor.size_bytes / sizeof(float), [&](float x) {
    return to == NACRE_f16 ? interpreting::from_f16(interpreting::to_f16(x)) == x : interpreting::from_bf16(interpreting::to_bf16(x)) == x;
  });
}

}  // namespace

void lower_precision(LoopProgram& program, std::map<std::string, HostTensor>& weights, Precision precision) {
  const nacre_dtype to = stored_in(precision);
  if (precision == Precision::tf32)
    for (Group& group : program.groups)
      if (group.contraction) group.contraction->tf32 = true;
  const Uses uses = uses_of(program);
  for (size_t i = 0; i < program.buffers.size(); ++i) {
    Buffer& b = program.buffers[i];
    const auto id = static_cast<BufferId>(i);
    if (b.dtype != NACRE_f32 || b.complex || uses.exact.contains(id)) continue;
    if (b.kind == BufferKind::temporary) {
      b.dtype = to;
    } else if (b.kind == BufferKind::weight && uses.contracted.contains(id) && b.shape.size() >= 2 && b.order.empty()) {
      std::vector<int> order(b.shape.size());
      std::iota(order.begin(), order.end(), 0);
      if (uses.convolved.contains(id) && order.size() > 2) {
        order.erase(order.begin() + 1);
        order.push_back(1);
        // One filter a channel: the channels side by side.
        if (b.shape[1].is(1)) std::rotate(order.begin(), order.begin() + 1, order.end());
        b.order = order;
      }
      const HostTensor& whole = weights.at(b.target);
      if (whole.dtype != NACRE_f32) {
        b.order.clear();
        continue;
      }
      // Tensor cores would cut or round it as often as they read it.
      const bool tf32 = precision == Precision::tf32 && !uses.read.contains(id);
      if (to == NACRE_f32 && b.order.empty() && !tf32) continue;
      const std::string name = b.target + "." + (tf32 ? "tf32" : nacre_dtype_name(to)) + (b.order.empty() ? "" : b.shape[1].is(1) ? ".first" : ".last");
      if (!weights.contains(name)) weights.emplace(name, narrowed(whole, to, order, tf32));
      b.target = name;
      b.dtype = to;
    } else if (to != NACRE_f32 && b.kind == BufferKind::weight && !uses.contracted.contains(id) && b.order.empty() && is_exact_in(weights.at(b.target), to)) {
      std::vector<int> order(b.shape.size());
      std::iota(order.begin(), order.end(), 0);
      const std::string name = b.target + "." + nacre_dtype_name(to);
      if (!weights.contains(name)) weights.emplace(name, narrowed(weights.at(b.target), to, order));
      b.target = name;
      b.dtype = to;
    }
  }
}

}  // namespace nacre
