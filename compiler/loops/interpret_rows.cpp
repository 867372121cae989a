#include "compiler/loops/interpret_rows.h"

#include <algorithm>
#include <complex>
#include <cstring>
#include <numeric>

#include "compiler/graph/text.h"
#include "compiler/loops/interpret_half.h"
#include "compiler/support/error.h"

namespace nacre::interpreting {
namespace {

// Stable, NaN the largest. `key`: what an element counts as.
template <class T, class Key>
void sort_rows(const Array& in, bool descending, T* to, int64_t* indices, const Key& key) {
  const auto* from = reinterpret_cast<const T*>(in.data.get());
  const int64_t n = in.shape.empty() ? 1 : in.shape.back(), rows = n ? in.elements() / n : 0;
  std::vector<int64_t> order(static_cast<size_t>(n));
  for (int64_t r = 0; r < rows; ++r) {
    const T* row = from + r * n;
    std::iota(order.begin(), order.end(), 0);
    const auto less = [&](int64_t a, int64_t b) {
      const auto x = key(row[a]), y = key(row[b]);
      if (descending) return x > y || (x != x && y == y);
      return x < y || (y != y && x == x);
    };
    std::stable_sort(order.begin(), order.end(), less);
    for (int64_t i = 0; i < n; ++i) {
      to[r * n + i] = row[order[static_cast<size_t>(i)]];
      indices[r * n + i] = order[static_cast<size_t>(i)];
    }
  }
}

void sort(const RowWork& work, std::vector<Array>& arrays) {
  const Array& in = arrays[static_cast<size_t>(work.inputs[0])];
  std::byte* values = arrays[static_cast<size_t>(work.outputs[0])].data.get();
  auto* indices = reinterpret_cast<int64_t*>(arrays[static_cast<size_t>(work.outputs[1])].data.get());
  const auto as = [&](auto tag) {
    using T = decltype(tag);
    sort_rows(in, work.descending, reinterpret_cast<T*>(values), indices, [](T x) { return x; });
  };
  const auto as_half = [&](float (*key)(uint16_t)) {
    sort_rows(in, work.descending, reinterpret_cast<uint16_t*>(values), indices, key);
  };
  switch (in.dtype) {
    case NACRE_f32: return as(float{});
    case NACRE_f64: return as(double{});
    case NACRE_f16: return as_half(from_f16);
    case NACRE_bf16: return as_half(from_bf16);
    case NACRE_i64: return as(int64_t{});
    case NACRE_i32: return as(int32_t{});
    case NACRE_i16: return as(int16_t{});
    case NACRE_i8: return as(int8_t{});
    case NACRE_u8:
    case NACRE_bool_: return as(uint8_t{});
    default: fail(ErrorKind::unsupported, "the loop interpreter does not sort {}", nacre_dtype_name(in.dtype));
  }
}

// By its definition, in double.
template <class T>
void fourier(const RowWork& work, int64_t n, std::vector<Array>& arrays) {
  const auto data = [&](BufferId b) { return b < 0 ? nullptr : reinterpret_cast<T*>(arrays[static_cast<size_t>(b)].data.get()); };
  const Array& in = arrays[static_cast<size_t>(work.inputs[0])];
  const Array& out = arrays[static_cast<size_t>(work.outputs[0])];
  const int64_t from_size = in.shape.back(), to_size = out.shape.back();
  const int64_t rows = from_size ? in.elements() / from_size : 0;
  const T *re = data(work.inputs[0]), *im = data(work.inputs[1]), *cosines = data(work.inputs[2]), *sines = data(work.inputs[3]);
  T *to_re = data(work.outputs[0]), *to_im = data(work.outputs[1]);
  std::vector<std::complex<double>> row(static_cast<size_t>(n));
  for (int64_t r = 0; r < rows; ++r) {
    for (int64_t i = 0; i < n; ++i) {
      // Half a spectrum stands for a whole one: its mirror image has the opposite imaginary parts.
      const bool mirrored = i >= from_size;
      const int64_t at = r * from_size + (mirrored ? n - i : i);
      const double imaginary = im ? static_cast<double>(im[at]) : 0;
      row[static_cast<size_t>(i)] = {static_cast<double>(re[at]), mirrored ? -imaginary : imaginary};
    }
    if (!to_im) {  // half the spectrum of a real signal: these two have no imaginary part, whatever is given
      row[0].imag(0);
      if (n % 2 == 0) row[static_cast<size_t>(n / 2)].imag(0);
    }
    for (int64_t k = 0; k < to_size; ++k) {
      std::complex<double> sum = 0;
      for (int64_t i = 0; i < n; ++i) {
        const int64_t turn = i * k % n;
        const double sine = static_cast<double>(sines[turn]);
        sum += row[static_cast<size_t>(i)] * std::complex<double>(static_cast<double>(cosines[turn]), work.inverse ? sine : -sine);
      }
      to_re[r * to_size + k] = static_cast<T>(sum.real());
      if (to_im) to_im[r * to_size + k] = static_cast<T>(sum.imag());
    }
  }
}

}  // namespace

void run_rows(const RowWork& work, const Symbols& symbols, std::vector<Array>& arrays) {
  switch (work.kind) {
    case RowKind::sort: return sort(work, arrays);
    case RowKind::import:
      fail_at(ErrorKind::unsupported, where_text(work.where), "only the application can compute {}", work.function);
    case RowKind::fft: {
      const Array& in = arrays[static_cast<size_t>(work.inputs[0])];
      const int64_t n = evaluated(work.length, symbols);
      return in.dtype == NACRE_f64 ? fourier<double>(work, n, arrays) : fourier<float>(work, n, arrays);
    }
    case RowKind::bitcast: {
      const Array& in = arrays[static_cast<size_t>(work.inputs[0])];
      const Array& out = arrays[static_cast<size_t>(work.outputs[0])];
      const size_t bytes = static_cast<size_t>(in.elements()) * nacre_dtype_size_bytes(in.dtype);
      check(bytes == static_cast<size_t>(out.elements()) * nacre_dtype_size_bytes(out.dtype), "{} and {} differ in size", in.name, out.name);
      if (bytes) std::memcpy(out.data.get(), in.data.get(), bytes);
      return;
    }
  }
}

}  // namespace nacre::interpreting
