#include "compiler/loops/interpret_contraction.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstring>
#include <functional>
#include <limits>
#include <thread>

#include "compiler/graph/text.h"
#include "compiler/loops/code.h"
#include "compiler/support/error.h"

namespace nacre::interpreting {
namespace {

void parallel(int64_t count, const std::function<void(int64_t)>& work) {
  const unsigned threads = std::clamp(std::thread::hardware_concurrency(), 1u, 4u);
  std::atomic<int64_t> next{0};
  const auto loop = [&] {
    for (int64_t i; (i = next++) < count;) work(i);
  };
  std::vector<std::thread> others;
  for (unsigned t = 1; t < threads && static_cast<int64_t>(t) < count; ++t) others.emplace_back(loop);
  loop();
  for (std::thread& t : others) t.join();
}

// c[m][n] = sum over k of a(m, k) * b[k][n], for up to kTile columns: products are summed in T for kRun terms at a time, the
// runs in `Wide`.
constexpr int64_t kTile = 256, kRun = 16;
template <class T>
struct Widened {
  using type = T;
};
template <>
struct Widened<float> {
  using type = double;
};

#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__) && !defined(__SANITIZE_ADDRESS__) && \
    !defined(__SANITIZE_THREAD__)
#define NACRE_CLONES __attribute__((target_clones("avx2", "default")))
#else
#define NACRE_CLONES
#endif

#define NACRE_RUN(T)                                                                                              \
  NACRE_CLONES void run_of(int64_t rows, int64_t columns, int64_t terms, const T* a, int64_t a_row, int64_t a_term, \
                           const T* b, int64_t b_row, T* acc) {                                                   \
    for (int64_t r = 0; r < rows; ++r) std::fill_n(acc + r * kTile, columns, T(0));                               \
    for (int64_t k = 0; k < terms; ++k)                                                                           \
      for (int64_t r = 0; r < rows; ++r) {                                                                        \
        const T x = a[r * a_row + k * a_term];                                                                    \
        const T* __restrict y = b + k * b_row;                                                                    \
        T* __restrict z = acc + r * kTile;                                                                        \
        for (int64_t n = 0; n < columns; ++n) z[n] += x * y[n];                                                   \
      }                                                                                                           \
  }
NACRE_RUN(float)
NACRE_RUN(double)
NACRE_RUN(int64_t)
#undef NACRE_RUN

template <class T>
void product_tile(int64_t rows, int64_t columns, int64_t terms, const T* a, int64_t a_row, int64_t a_term, const T* b,
                  int64_t b_row, T* c, int64_t c_row) {
  using Wide = typename Widened<T>::type;
  constexpr int64_t kRows = 4;
  T acc[kRows * kTile];
  Wide total[kRows * kTile];
  for (int64_t r0 = 0; r0 < rows; r0 += kRows) {
    const int64_t nr = std::min(kRows, rows - r0);
    std::fill_n(total, kRows * kTile, Wide(0));
    for (int64_t k = 0; k < terms; k += kRun) {
      const int64_t nk = std::min(kRun, terms - k);
      run_of(nr, columns, nk, a + r0 * a_row + k * a_term, a_row, a_term, b + k * b_row, b_row, acc);
      for (int64_t r = 0; r < nr; ++r)
        for (int64_t n = 0; n < columns; ++n) total[r * kTile + n] += static_cast<Wide>(acc[r * kTile + n]);
    }
    for (int64_t r = 0; r < nr; ++r)
      for (int64_t n = 0; n < columns; ++n) c[(r0 + r) * c_row + n] = static_cast<T>(total[r * kTile + n]);
  }
}

template <class T>
class Contractor {
 public:
  Contractor(const Contraction& c, const Symbols& symbols, std::vector<Array>& arrays)
      : c_(c), symbols_(symbols), arrays_(arrays) {
    for (const LoopVar& loop : c.loops) sizes_.push_back(evaluated(loop.extent, symbols));
  }

  std::vector<std::byte> run() {
    switch (c_.kind) {
      case ContractionKind::matmul: matmul(); break;
      case ContractionKind::conv:
      case ContractionKind::conv_transpose: conv(); break;
      case ContractionKind::attention: attention(); break;
      case ContractionKind::lstm:
      case ContractionKind::gru: recurrent(); break;
    }
    std::vector<std::byte> bytes(result_.size() * sizeof(T));
    if (!bytes.empty()) std::memcpy(bytes.data(), result_.data(), bytes.size());
    return bytes;
  }

 private:
  int64_t result_size() const {
    int64_t n = 1;
    for (size_t i = 0; i + static_cast<size_t>(c_.reduced) < sizes_.size(); ++i) n *= sizes_[i];
    return n;
  }

  std::vector<T> dense(const Operand& o, const std::vector<LoopVar>& loops) const {
    const Array& array = arrays_[static_cast<size_t>(o.buffer)];
    const std::vector<std::byte> bytes = gathered(array, o.at, loops, symbols_);
    const nacre_dtype type = compute_type(array.dtype);
    const size_t n = bytes.size() / nacre_dtype_size_bytes(type);
    std::vector<T> result(n);
    const auto convert = [&](const auto* from) {
      for (size_t i = 0; i < n; ++i) result[i] = static_cast<T>(from[i]);
    };
    switch (type) {
      case NACRE_f32: convert(reinterpret_cast<const float*>(bytes.data())); break;
      case NACRE_f64: convert(reinterpret_cast<const double*>(bytes.data())); break;
      case NACRE_i64: convert(reinterpret_cast<const int64_t*>(bytes.data())); break;
      case NACRE_i32: convert(reinterpret_cast<const int32_t*>(bytes.data())); break;
      case NACRE_i16: convert(reinterpret_cast<const int16_t*>(bytes.data())); break;
      case NACRE_i8: convert(reinterpret_cast<const int8_t*>(bytes.data())); break;
      case NACRE_u8: convert(reinterpret_cast<const uint8_t*>(bytes.data())); break;
      case NACRE_bool_: convert(reinterpret_cast<const bool*>(bytes.data())); break;
      default: fail(ErrorKind::unsupported, "a contraction of {}", nacre_dtype_name(type));
    }
    return result;
  }
  // The operand over batch loops (those it contains, or none at all) and two more.
  std::vector<T> batched(const Operand& o, size_t batch, const LoopVar& row, const LoopVar& column, int64_t* stride) const {
    std::vector<LoopVar> loops(c_.loops.begin(), c_.loops.begin() + static_cast<ptrdiff_t>(batch));
    bool uses = false;
    for (const Expr& e : o.at)
      for (const LoopVar& loop : loops) uses = uses || e.symbols().contains(loop.name);
    if (!uses) loops.clear();
    loops.push_back(row);
    loops.push_back(column);
    *stride = uses ? evaluated(row.extent, symbols_) * evaluated(column.extent, symbols_) : 0;
    return dense(o, loops);
  }

  void matmul() {
    const size_t batch = c_.loops.size() - 3;
    const LoopVar &m = c_.loops[batch], &n = c_.loops[batch + 1], &k = c_.loops[batch + 2];
    const int64_t rows = sizes_[batch], columns = sizes_[batch + 1], terms = sizes_[batch + 2];
    int64_t stride_a = 0, stride_b = 0;
    const std::vector<T> a = batched(c_.operands[0], batch, m, k, &stride_a);
    const std::vector<T> b = batched(c_.operands[1], batch, k, n, &stride_b);
    result_.assign(static_cast<size_t>(result_size()), T(0));
    if (result_.empty()) return;
    const int64_t batches = result_size() / (rows * columns), tiles = (columns + kTile - 1) / kTile;
    const int64_t blocks = (rows + 63) / 64;
    parallel(batches * tiles * blocks, [&](int64_t w) {
      const int64_t block = w % blocks * 64, tile = w / blocks % tiles * kTile, i = w / (blocks * tiles);
      product_tile<T>(std::min<int64_t>(64, rows - block), std::min(kTile, columns - tile), terms,
                      a.data() + i * stride_a + block * terms, terms, 1, b.data() + i * stride_b + tile, columns,
                      result_.data() + (i * rows + block) * columns + tile, columns);
    });
  }

  // The columns of a tile of output pixels hold the inputs of each weight; a matrix product does the rest.
  void conv() {
    const bool transpose = c_.kind == ContractionKind::conv_transpose;
    const size_t dims = c_.stride.size();
    const auto values = [&](const std::vector<Expr>& e) {
      std::vector<int64_t> v;
      for (const Expr& x : e) v.push_back(evaluated(x, symbols_));
      return v;
    };
    const std::vector<int64_t> stride = values(c_.stride), padding = values(c_.padding), dilation = values(c_.dilation);
    std::vector<int64_t> xs, ws;
    for (const LoopVar& loop : c_.operand_loops[0]) xs.push_back(evaluated(loop.extent, symbols_));
    for (const LoopVar& loop : c_.operand_loops[1]) ws.push_back(evaluated(loop.extent, symbols_));
    const std::vector<T> x = dense(c_.operands[0], c_.operand_loops[0]), w = dense(c_.operands[1], c_.operand_loops[1]);
    const int64_t groups = evaluated(c_.groups, symbols_), images = sizes_[0], outputs = sizes_[1] / groups;
    const int64_t channels = xs[1] / groups;
    int64_t taps = 1, pixels = 1, in_pixels = 1;
    for (size_t d = 0; d < dims; ++d) {
      taps *= ws[d + 2];
      pixels *= sizes_[d + 2];
      in_pixels *= xs[d + 2];
    }
    result_.assign(static_cast<size_t>(result_size()), T(0));
    if (result_.empty()) return;
    const int64_t tiles = (pixels + kTile - 1) / kTile, terms = channels * taps;
    parallel(images * groups * tiles, [&](int64_t work) {
      const int64_t tile = work % tiles * kTile, g = work / tiles % groups, image = work / (tiles * groups);
      const int64_t n = std::min(kTile, pixels - tile);
      std::vector<T> columns(static_cast<size_t>(terms * n), T(0));
      std::vector<int64_t> from(static_cast<size_t>(n)), at(dims);
      for (int64_t tap = 0; tap < taps; ++tap) {
        for (int64_t p = 0; p < n; ++p) {
          int64_t rest = tile + p, tap_rest = tap;
          for (size_t d = dims; d-- > 0;) {
            const int64_t y = rest % sizes_[d + 2], k = tap_rest % ws[d + 2];
            rest /= sizes_[d + 2];
            tap_rest /= ws[d + 2];
            if (transpose) {
              const int64_t moved = y + padding[d] - k * dilation[d];
              at[d] = moved >= 0 && moved % stride[d] == 0 ? moved / stride[d] : -1;
            } else {
              at[d] = y * stride[d] - padding[d] + k * dilation[d];
            }
          }
          int64_t position = 0;
          for (size_t d = 0; d < dims && position >= 0; ++d)
            position = at[d] < 0 || at[d] >= xs[d + 2] ? -1 : position * xs[d + 2] + at[d];
          from[static_cast<size_t>(p)] = position;
        }
        for (int64_t ch = 0; ch < channels; ++ch) {
          const T* plane = x.data() + (image * xs[1] + g * channels + ch) * in_pixels;
          T* to = columns.data() + (ch * taps + tap) * n;
          for (int64_t p = 0; p < n; ++p)
            if (from[static_cast<size_t>(p)] >= 0) to[p] = plane[from[static_cast<size_t>(p)]];
        }
      }
      T* c = result_.data() + (image * sizes_[1] + g * outputs) * pixels + tile;
      if (!transpose) {
        product_tile<T>(outputs, n, terms, w.data() + g * outputs * terms, terms, 1, columns.data(), n, c, pixels);
        return;
      }
      // w[c][o][k] -> [o][c][k]
      std::vector<T> turned(static_cast<size_t>(outputs * terms));
      for (int64_t o = 0; o < outputs; ++o)
        for (int64_t ch = 0; ch < channels; ++ch)
          std::copy_n(w.data() + ((g * channels + ch) * outputs + o) * taps, taps,
                      turned.data() + (o * channels + ch) * taps);
      product_tile<T>(outputs, n, terms, turned.data(), terms, 1, columns.data(), n, c, pixels);
    });
  }

  void attention() {
    const int64_t batches = sizes_[0], heads = sizes_[1], rows = sizes_[2], width = sizes_[3], keys = sizes_[4],
                  depth = sizes_[5];
    const std::vector<LoopVar>& l = c_.loops;
    int64_t sq = 0, sk = 0, sv = 0, sm = 0;
    const std::vector<T> q = batched(c_.operands[0], 2, l[2], l[5], &sq);
    const std::vector<T> k = batched(c_.operands[1], 2, l[4], l[5], &sk);
    const std::vector<T> v = batched(c_.operands[2], 2, l[4], l[3], &sv);
    std::vector<T> mask;
    if (c_.operands[3].buffer >= 0) mask = batched(c_.operands[3], 2, l[2], l[4], &sm);
    result_.assign(static_cast<size_t>(result_size()), T(0));
    parallel(batches * heads, [&](int64_t i) {
      std::vector<double> score(static_cast<size_t>(keys)), out(static_cast<size_t>(width));
      for (int64_t s = 0; s < rows; ++s) {
        double most = -std::numeric_limits<double>::infinity();
        const int64_t visible = c_.causal ? std::min(keys, s + 1) : keys;
        for (int64_t t = 0; t < visible; ++t) {
          double dot = 0;
          const T *a = q.data() + i * sq + s * depth, *b = k.data() + i * sk + t * depth;
          for (int64_t d = 0; d < depth; ++d) dot += static_cast<double>(a[d]) * static_cast<double>(b[d]);
          dot *= c_.scale;
          if (!mask.empty()) dot += static_cast<double>(mask[static_cast<size_t>(i * sm + s * keys + t)]);
          score[static_cast<size_t>(t)] = dot;
          if (dot != dot || dot > most) most = dot;
        }
        std::fill(out.begin(), out.end(), 0.0);
        double sum = 0;
        if (most != -std::numeric_limits<double>::infinity())  // a row that sees nothing is 0, as in PyTorch
          for (int64_t t = 0; t < visible; ++t) {
            const double p = std::exp(score[static_cast<size_t>(t)] - most);
            sum += p;
            const T* row = v.data() + i * sv + t * width;
            for (int64_t e = 0; e < width; ++e) out[static_cast<size_t>(e)] += p * static_cast<double>(row[e]);
          }
        for (int64_t e = 0; e < width; ++e)
          result_[static_cast<size_t>((i * rows + s) * width + e)] =
              static_cast<T>(sum == 0 ? 0 : out[static_cast<size_t>(e)] / sum);
      }
    });
  }

  void recurrent() {
    const bool lstm = c_.kind == ContractionKind::lstm;
    const size_t first = lstm ? 3 : 2;
    const int64_t steps = sizes_[0], batches = sizes_[1], units = sizes_[2], gates = lstm ? 4 : 3;
    const auto operand = [&](size_t i) {
      return c_.operands[i].buffer < 0 ? std::vector<T>() : dense(c_.operands[i], c_.operand_loops[i]);
    };
    const std::vector<T> x = operand(0), w_ih = operand(first), w_hh = operand(first + 1), b_ih = operand(first + 2),
                         b_hh = operand(first + 3);
    std::vector<T> h = operand(1), cell = lstm ? operand(2) : std::vector<T>();
    const int64_t inputs = static_cast<int64_t>(w_ih.size()) / std::max<int64_t>(1, gates * units);
    std::vector<T> y(static_cast<size_t>(steps * batches * units));
    const auto sigmoid = [](double a) { return 1 / (1 + std::exp(-a)); };
    std::vector<double> gi(static_cast<size_t>(gates * units)), gh(static_cast<size_t>(gates * units));
    for (int64_t step = 0; step < steps; ++step) {
      const int64_t t = c_.reverse ? steps - 1 - step : step;
      for (int64_t b = 0; b < batches; ++b) {
        const T *row = x.data() + (t * batches + b) * inputs, *old = h.data() + b * units;
        for (int64_t g = 0; g < gates * units; ++g) {
          const auto k = static_cast<size_t>(g);
          gi[k] = b_ih.empty() ? 0 : static_cast<double>(b_ih[k]);
          gh[k] = b_hh.empty() ? 0 : static_cast<double>(b_hh[k]);
          for (int64_t i = 0; i < inputs; ++i) gi[k] += static_cast<double>(w_ih[static_cast<size_t>(g * inputs + i)]) * static_cast<double>(row[i]);
          for (int64_t i = 0; i < units; ++i) gh[k] += static_cast<double>(w_hh[static_cast<size_t>(g * units + i)]) * static_cast<double>(old[i]);
        }
        for (int64_t u = 0; u < units; ++u) {
          const auto gate = [&](int64_t g) { return static_cast<size_t>(g * units + u); };
          T& hidden = h[static_cast<size_t>(b * units + u)];
          if (lstm) {
            T& state = cell[static_cast<size_t>(b * units + u)];
            const double in = sigmoid(gi[gate(0)] + gh[gate(0)]), forget = sigmoid(gi[gate(1)] + gh[gate(1)]);
            const double next = std::tanh(gi[gate(2)] + gh[gate(2)]), out = sigmoid(gi[gate(3)] + gh[gate(3)]);
            state = static_cast<T>(forget * static_cast<double>(state) + in * next);
            hidden = static_cast<T>(out * std::tanh(static_cast<double>(state)));
          } else {
            const double reset = sigmoid(gi[gate(0)] + gh[gate(0)]), update = sigmoid(gi[gate(1)] + gh[gate(1)]);
            const double next = std::tanh(gi[gate(2)] + reset * gh[gate(2)]);
            hidden = static_cast<T>((1 - update) * next + update * static_cast<double>(hidden));
          }
          y[static_cast<size_t>((t * batches + b) * units + u)] = hidden;
        }
      }
    }
    write(c_.results[0], y);
    write(c_.results[1], h);
    if (lstm) write(c_.results[2], cell);
  }

  void write(BufferId to, const std::vector<T>& values) {
    Array& array = arrays_[static_cast<size_t>(to)];
    const nacre_dtype wanted = sizeof(T) == 4 ? NACRE_f32 : NACRE_f64;
    if (array.dtype != wanted) fail(ErrorKind::unsupported, "a recurrent layer of {}", nacre_dtype_name(array.dtype));
    if (!values.empty()) std::memcpy(array.data.get(), values.data(), values.size() * sizeof(T));
  }

  const Contraction& c_;
  const Symbols& symbols_;
  std::vector<Array>& arrays_;
  std::vector<int64_t> sizes_;
  std::vector<T> result_;
};

}  // namespace

ContractionResult contract(const Contraction& contraction, const Symbols& symbols, std::vector<Array>& arrays) {
  switch (kind_of(contraction.dtype)) {
    case 'f':
      if (contraction.dtype == NACRE_f64) return {NACRE_f64, Contractor<double>(contraction, symbols, arrays).run()};
      return {NACRE_f32, Contractor<float>(contraction, symbols, arrays).run()};
    case 'i':
    case 'u':
      if (contraction.kind != ContractionKind::attention && contraction.kind != ContractionKind::lstm &&
          contraction.kind != ContractionKind::gru)
        return {NACRE_i64, Contractor<int64_t>(contraction, symbols, arrays).run()};
      [[fallthrough]];
    default:
      fail_at(ErrorKind::unsupported, where_text(contraction.where), "a contraction of {}", nacre_dtype_name(contraction.dtype));
  }
}

}  // namespace nacre::interpreting
