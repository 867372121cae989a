// Matrix products and convolutions of a device: calls of the tile in nacre/cuda_gemm.h with operands and epilogue as lambdas.
#include <algorithm>

#include "compiler/codegen/cpp.h"
#include "compiler/codegen/device_rows.h"
#include "compiler/codegen/nest.h"
#include "compiler/loops/address.h"
#include "compiler/loops/code.h"
#include "compiler/support/dtype.h"
#include "compiler/support/error.h"

namespace nacre {

namespace {

constexpr int kThreads = 256;
constexpr int64_t kEnoughBlocks = 128;

class Product {
 public:
  explicit Product(KernelContext& k) : k_(k), c_(*k.group.contraction), epilogue_(k.group.nests[0]), facts_(k.program.symbols) {
    add_loop_facts(facts_, epilogue_.loops);
    add_loop_facts(facts_, c_.loops);
    for (const auto& loops : c_.operand_loops) add_loop_facts(facts_, loops);
  }

  KernelSource::Launch matmul() {
    const size_t batch = c_.loops.size() - 3;
    const LoopVar &m = c_.loops[batch], &n = c_.loops[batch + 1], &k = c_.loops[batch + 2];
    const std::vector<LoopVar> around(c_.loops.begin(), c_.loops.begin() + static_cast<std::ptrdiff_t>(batch));
    const Expr a = where(0), b = where(1);
    if (halves() && in_pieces(0, k.name, k.extent) && (in_pieces(1, k.name, k.extent) || in_pieces(1, n.name, n.extent))) {
      const bool b_along_k = in_pieces(1, k.name, k.extent);
      begin_half(points_of(around), m.extent, n.extent, k.extent, b_along_k);
      piece("batch", around, {m.name, k.name}, 0, a);
      piece("batch", around, {n.name, k.name}, 1, b);
      result("batch", around.size());
      return launch_;
    }
    begin(points_of(around), m.extent, n.extent, k.extent, is_along(a, k.name) || !is_along(a, m.name), is_along(b, k.name), !is_along(out(), epilogue_.loops.back().name));
    Writer& w = k_.out;
    w.open("[&]([[maybe_unused]] isize batch, [[maybe_unused]] isize {}, [[maybe_unused]] isize {}) {{", m.name, k.name);
    split("batch", around);
    w.line("return {};", element(0, a));
    w.close("},");
    w.open("[&]([[maybe_unused]] isize batch, [[maybe_unused]] isize {}, [[maybe_unused]] isize {}) {{", k.name, n.name);
    split("batch", around);
    w.line("return {};", element(1, b));
    w.close("},");
    result("batch", batch);
    return launch_;
  }

  bool attention_in_pieces() const {
    const LoopVar &e = c_.loops[3], &d = c_.loops[5];
    const auto depth = simplify(d.extent, facts_).constant();
    const bool same = halves() && k_.program[c_.operands[2].buffer].dtype == k_.program[c_.operands[0].buffer].dtype;
    return same && depth && *depth % 16 == 0 && *depth <= 128 && e.extent.is(*depth) && in_pieces(0, d.name, d.extent) && in_pieces(1, d.name, d.extent) &&
           in_pieces(2, e.name, e.extent);
  }

  KernelSource::Launch attention() {
    const LoopVar &b = c_.loops[0], &h = c_.loops[1], &s = c_.loops[2], &e = c_.loops[3], &t = c_.loops[4], &d = c_.loops[5];
    check(attention_in_pieces(), "{} does not fit tensor cores", k_.group.name);
    constexpr int kRows = 64;
    launch_.threads = 128;
    launch_.blocks = min(simplify(b.extent * h.extent * ceildiv(s.extent, kRows), facts_), Expr(int64_t{1} << 20));
    const std::vector<LoopVar> around{b, h};
    Writer& w = k_.out;
    const auto size = [&](const Expr& x) { return fmt::format("isize({})", text(x)); };
    w.line("attention_half<{}, {}, {}>({}, {}, {}, {:.9e}f,", text(d.extent), c_.causal, k_.program[c_.operands[0].buffer].dtype == NACRE_bf16, size(b.extent * h.extent),
           size(s.extent), size(t.extent), c_.scale);
    w.in();
    piece("batch", around, {s.name, d.name}, 0, where(0));
    piece("batch", around, {t.name, d.name}, 1, where(1));
    piece("batch", around, {t.name, e.name}, 2, where(2));
    const bool masked = c_.operands.size() > 3 && c_.operands[3].buffer >= 0;
    w.open("[&]([[maybe_unused]] isize batch, {}) {{", parameters({s.name, t.name}));
    if (masked) split("batch", around);
    w.line("return {};", masked ? element(3, where(3)) : "0.f");
    w.close("},");
    const auto& r = epilogue_.loops;
    w.open("[&]([[maybe_unused]] isize batch, {}, const float value) {{", parameters({r[2].name, r[3].name}));
    split("batch", {r[0], r[1]});
    NestEmitter(k_, epilogue_, {}).emit_scalar_epilogue();
    w.close("});");
    w.out();
    return launch_;
  }

  // Pixels of the result by output channels, over input channels and taps; groups are batches.
  KernelSource::Launch conv(bool transposed) {
    const std::vector<LoopVar>&x = c_.operand_loops[0], &wt = c_.operand_loops[1], &e = epilogue_.loops;
    const size_t spatial = x.size() - 2;
    const Expr in = simplify(floordiv(x[1].extent, c_.groups), facts_), outs = simplify(floordiv(e[1].extent, c_.groups), facts_);
    // In names of their own, since those of operands and result may be the same.
    std::vector<LoopVar> pixels{e[0]}, places{{"image", e[0].extent}}, taps;
    for (size_t i = 0; i < spatial; ++i) {
      pixels.push_back(e[i + 2]);
      places.push_back({fmt::format("place{}", i), e[i + 2].extent});
      taps.push_back({fmt::format("tap{}", i), wt[i + 2].extent});
    }
    std::vector<LoopVar> terms{{"channel", in}};
    terms.insert(terms.end(), taps.begin(), taps.end());
    const Expr a = where(0), b = where(1);
    const bool half = halves() && !transposed && in_pieces(0, x[1].name, in) && in_pieces(1, wt[1].name, in);
    if (half) {
      terms.erase(terms.begin());
      terms.push_back({"channel", in});
      begin_half(c_.groups, points_of(pixels), outs, points_of(terms), true);
    } else {
      begin(c_.groups, points_of(pixels), outs, points_of(terms), is_along(a, x[1].name), is_along(b, wt.back().name), is_along(out(), e.back().name));
    }
    Writer& w = k_.out;
    w.open("[&]([[maybe_unused]] isize batch, isize pixel, isize term) -> {} {{", half ? pointer_type(0) : "float");
    split("pixel", places);
    split("term", terms);
    std::string inside;
    for (size_t i = 0; i < spatial; ++i) {
      const std::string y = fmt::format("from{}", i), extent = text(x[i + 2].extent);
      const std::string stride = text(c_.stride[i]), padding = text(c_.padding[i]), dilation = text(c_.dilation[i]);
      if (transposed) {
        w.line("const isize {} = {} + {} - {} * {};", y, places[i + 1].name, padding, taps[i].name, dilation);
        inside += fmt::format("{}{} >= 0 && {} % {} == 0 && {} / {} < {}", i ? " && " : "", y, y, stride, y, stride, extent);
      } else {
        w.line("const isize {} = {} * {} - {} + {} * {};", y, places[i + 1].name, stride, padding, taps[i].name, dilation);
        inside += fmt::format("{}{} >= 0 && {} < {}", i ? " && " : "", y, y, extent);
      }
    }
    w.line("if (!({})) return {};", inside, half ? "nullptr" : "0.f");
    std::vector<std::string> values{"image", fmt::format("batch * {} + channel", text(in))};
    for (size_t i = 0; i < spatial; ++i) values.push_back(transposed ? fmt::format("from{} / {}", i, text(c_.stride[i])) : fmt::format("from{}", i));
    std::vector<std::string> names;
    for (const LoopVar& loop : x) names.push_back(loop.name);
    w.line("return {};", fmt::format("[&]({}) {{ return {}; }}({})", parameters(names), half ? place(0, a) : element(0, a), fmt::format("{}", fmt::join(values, ", "))));
    w.close("},");
    w.open("[&]([[maybe_unused]] isize batch, {}) {{", half ? "isize column, isize term" : "isize term, isize column");
    split("term", terms);
    values = transposed ? std::vector<std::string>{fmt::format("batch * {} + channel", text(in)), "column"}
                        : std::vector<std::string>{fmt::format("batch * {} + column", text(outs)), "channel"};
    for (const LoopVar& tap : taps) values.push_back(tap.name);
    names.clear();
    for (const LoopVar& loop : wt) names.push_back(loop.name);
    w.line("return {};", fmt::format("[&]({}) {{ return {}; }}({})", parameters(names), half ? place(1, b) : element(1, b), fmt::format("{}", fmt::join(values, ", "))));
    w.close("},");
    w.open("[&]([[maybe_unused]] isize batch, isize pixel, isize column, const float value) {{");
    split("pixel", pixels);
    w.line("[[maybe_unused]] const isize {} = batch * {} + column;", e[1].name, text(outs));
    NestEmitter(k_, epilogue_, {}).emit_scalar_epilogue();
    w.close(half ? "}, launch);" : "});");
    w.out();
    return launch_;
  }

 private:
  std::string text(const Expr& e) const { return cpp(simplify(e, facts_), facts_); }
  static std::string parameters(const std::vector<std::string>& names) {
    std::string all;
    for (const std::string& name : names) all += (all.empty() ? "[[maybe_unused]] isize " : ", [[maybe_unused]] isize ") + name;
    return all;
  }

  Expr where(size_t operand) const {
    const Operand& o = c_.operands[operand];
    return simplify(address(k_.program[o.buffer], o.at, facts_) - k_.start(o.buffer), facts_);
  }
  Expr out() const {
    const Store& s = epilogue_.stores.at(0);
    return address(k_.program[s.buffer], s.at, facts_);
  }
  bool is_along(const Expr& address, const std::string& variable) const {
    const auto step = coefficient(address, variable, facts_);
    return step && step->is(1);
  }
  std::string element(size_t operand, const Expr& address) {
    const BufferId id = c_.operands[operand].buffer;
    const std::string read = fmt::format("{}[{}]", k_.pointer(id), cpp(address, facts_));
    return k_.program[id].dtype == NACRE_bf16 ? fmt::format("from_bfloat16({})", read) : fmt::format("static_cast<float>({})", read);
  }
  // Variables of several loops from one that counts their points.
  void split(const std::string& counter, const std::vector<LoopVar>& loops) {
    for (const auto& [name, value] : values_of(loops, counter, facts_)) k_.out.line("[[maybe_unused]] const isize {} = {};", name, value);
  }

  // Tensor cores take both operands as 16-bit floats of one kind.
  bool halves() const {
    const nacre_dtype a = k_.program[c_.operands[0].buffer].dtype, b = k_.program[c_.operands[1].buffer].dtype;
    return is_half(a) && a == b;
  }
  // Whether 8 elements along the variable always lie side by side, at a multiple of 16 bytes.
  bool in_pieces(size_t operand, const std::string& along, const Expr& extent) const {
    constexpr int64_t kPiece = 8;
    const BufferId id = c_.operands[operand].buffer;
    const BufferKind kind = k_.program[id].kind;
    if (kind == BufferKind::input || kind == BufferKind::output || k_.start(id) % kPiece != 0) return false;
    const auto whole = simplify(extent, facts_).constant();
    if (!whole || *whole % kPiece != 0) return false;
    Expr rest = where(operand);
    for (const std::string& name : rest.symbols()) {
      if (k_.program.symbols.contains(name)) return false;
      const auto step = coefficient(rest, name, facts_);
      if (!step || !step->constant()) return false;
      if (name == along ? *step->constant() != 1 : *step->constant() % kPiece != 0) return false;
      rest = without(rest, name, facts_);
    }
    const auto left = simplify(rest, facts_).constant();
    return left && *left % kPiece == 0;
  }
  std::string pointer_type(size_t operand) const { return fmt::format("const {}*", storage_type(k_.program[c_.operands[operand].buffer].dtype)); }
  std::string place(size_t operand, const Expr& address) { return fmt::format("{} + {}", k_.pointer(c_.operands[operand].buffer), cpp(address, facts_)); }
  void piece(const std::string& counter, const std::vector<LoopVar>& around, const std::vector<std::string>& names, size_t operand, const Expr& address) {
    k_.out.open("[&]([[maybe_unused]] isize {}, {}) -> {} {{", counter, parameters(names), pointer_type(operand));
    split(counter, around);
    k_.out.line("return {};", place(operand, address));
    k_.out.close("},");
  }
  // What becomes of an element of a matrix product, and the end of the call.
  void result(const std::string& counter, size_t around) {
    const auto& e = epilogue_.loops;
    k_.out.open("[&]([[maybe_unused]] isize {}, {}, const float value) {{", counter, parameters({e[around].name, e[around + 1].name}));
    split(counter, {e.begin(), e.begin() + static_cast<std::ptrdiff_t>(around)});
    NestEmitter(k_, epilogue_, {}).emit_scalar_epilogue();
    k_.out.close(launch_.threads == kThreads ? "});" : "}, launch);");
    k_.out.out();
  }

  // Where tiles are few, several blocks share the terms of each.
  void begin_half(const Expr& batches, const Expr& m, const Expr& n, const Expr& k, bool b_along_k) {
    constexpr int kDepth = 32, kLeastSteps = 4, kMostSplits = 16, kCounters = 4096;
    const auto count = [&](const Expr& e) { return std::max<int64_t>(1, typical(simplify(e, facts_), k_.program.symbols)); };
    const auto blocks = [&](int64_t rows, int64_t columns) { return count(batches) * ((count(m) + rows - 1) / rows) * ((count(n) + columns - 1) / columns); };
    const int rows = count(m) <= 32 ? 32 : blocks(128, 64) >= 2 * kEnoughBlocks ? 128 : 64, columns = count(n) <= 32 && rows == 64 ? 32 : 64;
    const int64_t tiles = blocks(rows, columns), steps = (count(k) + kDepth - 1) / kDepth;
    int64_t splits = tiles >= kEnoughBlocks ? 1 : std::min({(2 * kEnoughBlocks + tiles - 1) / tiles, steps / kLeastSteps, int64_t{kMostSplits}});
    const Expr all = simplify(batches * ceildiv(m, rows) * ceildiv(n, columns), facts_);
    if (!all.constant() || *all.constant() > kCounters) splits = 1;
    splits = std::max<int64_t>(1, splits);
    launch_.threads = 128;
    launch_.blocks = splits == 1 ? min(all, Expr(int64_t{1} << 20)) : simplify(all * splits, facts_);
    if (splits > 1) k_.kernel.scratch_bytes = int64_t{rows} * columns * 4;
    const auto size = [&](const Expr& e) { return fmt::format("isize({})", text(e)); };
    k_.out.line("gemm_half<HalfTile<{}, {}, {}, {}>>({}, {}, {}, {}, {},", rows, columns, b_along_k, k_.program[c_.operands[0].buffer].dtype == NACRE_bf16,
                size(batches), size(m), size(n), size(k), splits);
    k_.out.in();
  }

  // The tile that leaves no multiprocessor without work, or else the smallest.
  void begin(const Expr& batches, const Expr& m, const Expr& n, const Expr& k, bool a_along_k, bool b_along_k, bool out_along_m) {
    const auto count = [&](const Expr& e) { return std::max<int64_t>(1, typical(simplify(e, facts_), k_.program.symbols)); };
    const auto blocks = [&](int64_t rows, int64_t columns) { return count(batches) * ((count(m) + rows - 1) / rows) * ((count(n) + columns - 1) / columns); };
    int rows = 32, columns = 32;
    if (blocks(64, 64) >= kEnoughBlocks) rows = columns = 64;
    if (blocks(128, 64) >= 2 * kEnoughBlocks) rows = 128;
    launch_.threads = kThreads;
    launch_.blocks = min(simplify(batches * ceildiv(m, rows) * ceildiv(n, columns), facts_), Expr(int64_t{1} << 20));
    const auto size = [&](const Expr& e) { return fmt::format("isize({})", text(e)); };
    k_.out.line("gemm<Tile<{}, {}, {}, {}, {}>>({}, {}, {}, {},", rows, columns, a_along_k, b_along_k, out_along_m, size(batches), size(m), size(n), size(k));
    k_.out.in();
  }

  KernelContext& k_;
  const Contraction& c_;
  const Nest& epilogue_;
  Facts facts_;
  KernelSource::Launch launch_;
};

}  // namespace

KernelSource::Launch emit_device_product(KernelContext& k) {
  Product product(k);
  switch (k.group.contraction->kind) {
    case ContractionKind::matmul: return product.matmul();
    case ContractionKind::conv: return product.conv(false);
    case ContractionKind::conv_transpose: return product.conv(true);
    case ContractionKind::attention: return product.attention();
    default: fail(ErrorKind::internal, "{} is no product", k.group.name);
  }
}

bool attention_fits(const LoopProgram& program, const Group& group, const Target& target) {
  KernelContext context{program, group, target, {}, {}, {}, {}};
  return group.nests[0].reduced == 0 && Product(context).attention_in_pieces();
}

}  // namespace nacre
