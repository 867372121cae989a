// Matrix products and convolutions of a device: calls of the tile in nacre/cuda_mma.h with operands and epilogue as lambdas.
#include <algorithm>

#include "compiler/codegen/cpp.h"
#include "compiler/codegen/device_rows.h"
#include "compiler/codegen/device_tiles.h"
#include "compiler/codegen/nest.h"
#include "compiler/fusion/cost.h"
#include "compiler/loops/address.h"
#include "compiler/loops/code.h"
#include "compiler/support/dtype.h"
#include "compiler/support/error.h"

namespace nacre {

namespace {

constexpr int64_t kPiece = 8;
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
    const bool along_n = !in_pieces(1, k.name) && in_pieces(1, n.name);
    const bool a_pieces = in_pieces(0, k.name), b_pieces = along_n || in_pieces(1, k.name);
    begin(points_of(around), m.extent, n.extent, k.extent, along_n, !a_pieces || !b_pieces, matrix_maps());
    if (tile_.resident) {
      bring_rows();
      result("batch", around.size());
      return launch_;
    }
    row("batch", around, m.name, k.name, 0, a, a_pieces);
    row("batch", around, n.name, k.name, 1, b, b_pieces);
    result("batch", around.size());
    return launch_;
  }

  bool attention_in_pieces() const {
    const LoopVar &e = c_.loops[3], &d = c_.loops[5];
    const auto depth = simplify(d.extent, facts_).constant();
    // Keys and values may be of a cache that is float32.
    const auto wide_or_half = [&](size_t i) {
      const nacre_dtype dtype = k_.program[c_.operands[i].buffer].dtype;
      return dtype == NACRE_f32 || dtype == k_.program[c_.operands[0].buffer].dtype;
    };
    return is_half(k_.program[c_.operands[0].buffer].dtype) && wide_or_half(1) && k_.program[c_.operands[1].buffer].dtype == k_.program[c_.operands[2].buffer].dtype && depth && *depth % 16 == 0 && *depth <= 128 && e.extent.is(*depth) && in_pieces(0, d.name) &&
           lie_together(1, d.name) && lie_together(2, e.name);
  }

  KernelSource::Launch attention() {
    const LoopVar &b = c_.loops[0], &h = c_.loops[1], &s = c_.loops[2], &e = c_.loops[3], &t = c_.loops[4], &d = c_.loops[5];
    check(attention_in_pieces(), "{} does not fit tensor cores", k_.group.name);
    // As many rows a block as leave no multiprocessor without work.
    const auto blocks = [&](int down) { return simplify(b.extent * h.extent * ceildiv(s.extent, 16 * down), facts_); };
    const auto enough = [&](int down) { return typical(blocks(down), k_.program.symbols) >= kEnoughBlocks; };
    const int down = enough(4) ? 4 : typical(simplify(s.extent, facts_), k_.program.symbols) <= 16 ? 1 : 2, across = 4 / down;
    const int depth = static_cast<int>(*simplify(d.extent, facts_).constant()), keys = depth > 64 || down == 1 ? 32 : 64;
    // Few rows that see many keys, such as those of a cache: several blocks share the keys.
    int splits = 1;
    if (k_.target.compute_capability >= 90 && !c_.causal)
      while (splits < 8 && typical(blocks(down), k_.program.symbols) * splits < kEnoughBlocks && typical(simplify(t.extent, facts_), k_.program.symbols) >= 2 * splits * across * keys) splits *= 2;
    launch_.threads = 128;
    launch_.cluster = splits;
    launch_.blocks = splits == 1 ? min(blocks(down), Expr(int64_t{1} << 20)) : simplify(max(blocks(down), Expr(1)) * splits, facts_);
    // Two stages of keys and values, and the rows; results take the place of the stages.
    launch_.shared_bytes = 16 + 16 * down * (depth + 8) * 2 + std::max(2 * 2 * across * keys * (depth + 8) * 2, across * 16 * down * (depth + 8) * 4);
    const bool pieces = NestEmitter(k_, epilogue_, {}).fits_in_pieces(epilogue_.loops[3].name);
    const std::vector<LoopVar> around{b, h};
    Writer& w = k_.out;
    const auto size = [&](const Expr& x) { return fmt::format("isize({})", text(x)); };
    w.line("attention_half<{}, {}, {}, {}, {}, {}, {}, {}>({}, {}, {}, {:.9e}f, {},", depth, c_.causal, bfloat(), down, across, keys, splits, pieces ? 8 : 1, size(b.extent * h.extent), size(s.extent), size(t.extent), c_.scale, c_.written_out ? "__builtin_nanf(\"\")" : "0.f");
    w.in();
    piece("batch", around, {s.name, d.name}, 0, where(0));
    piece("batch", around, {t.name, d.name}, 1, where(1));
    piece("batch", around, {t.name, e.name}, 2, where(2));
    std::string added;
    for (size_t i = 3; i < c_.operands.size(); ++i)
      if (c_.operands[i].buffer >= 0) added += (added.empty() ? "" : " + ") + element(i, where(i));
    w.open("[&]([[maybe_unused]] isize batch, {}) {{", parameters({s.name, t.name}));
    if (!added.empty()) split("batch", around);
    w.line("return {};", added.empty() ? "0.f" : added);
    w.close("},");
    const auto& r = epilogue_.loops;
    w.open("[&]([[maybe_unused]] isize batch, {}{}) {{", parameters({r[2].name, pieces ? "first" : r[3].name}), pieces ? "" : ", const float value");
    split("batch", {r[0], r[1]});
    if (pieces)
      NestEmitter(k_, epilogue_, {}).emit_epilogue_in_pieces(r[3].name);
    else
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
    std::vector<LoopVar> pixels{e[0]}, places{{"image", e[0].extent}}, taps, terms;
    for (size_t i = 0; i < spatial; ++i) {
      pixels.push_back(e[i + 2]);
      places.push_back({fmt::format("place{}", i), e[i + 2].extent});
      taps.push_back({fmt::format("tap{}", i), wt[i + 2].extent});
      if (!taps[i].extent.is(1)) terms.push_back(taps[i]);
    }
    terms.push_back({"channel", in});
    const Expr a = where(0), b = where(1);
    const bool a_pieces = !transposed && piece_steps(in) && in_pieces(0, x[1].name), b_pieces = piece_steps(in) && in_pieces(1, wt[transposed ? 0 : 1].name);
    begin(c_.groups, points_of(pixels), outs, points_of(terms), false, !a_pieces || !b_pieces, transposed ? std::nullopt : pixel_maps());
    Writer& w = k_.out;
    if (tile_.resident) {
      launch_.maps[0].pixels ? bring_pixels() : bring_rows();
      pixel_result(pixels, outs);
      return launch_;
    }
    const auto split_terms = [&] {
      split("term", terms);
      for (const LoopVar& tap : taps)
        if (tap.extent.is(1)) w.line("[[maybe_unused]] constexpr isize {} = 0;", tap.name);
    };

    // The image: where the taps of a pixel begin, and then each of them.
    const std::string a_type = a_pieces ? pointer_type(0) : "float";
    w.open("[&]([[maybe_unused]] isize batch, isize pixel) {{");
    split("pixel", places);
    for (size_t i = 0; i < spatial; ++i)
      w.line("const isize from{} = {};", i, transposed ? fmt::format("{} + {}", places[i + 1].name, text(c_.padding[i])) : fmt::format("{} * {} - {}", places[i + 1].name, text(c_.stride[i]), text(c_.padding[i])));
    const auto steps = steps_of(a, x);
    const bool stepwise = !transposed && steps;
    if (stepwise) {
      std::string start = k_.pointer(c_.operands[0].buffer) + fmt::format(" + {} + image * {} + batch * {}", text(steps->back()), text((*steps)[0]), text(simplify(in * (*steps)[1], facts_)));
      for (size_t i = 0; i < spatial; ++i) start += fmt::format(" + from{} * {}", i, text((*steps)[i + 2]));
      w.line("const auto* const row = {};", start);
    }
    w.open("return [=]([[maybe_unused]] isize term) -> {} {{", a_type);
    split_terms();
    std::string inside;
    for (size_t i = 0; i < spatial; ++i) {
      const Expr stride = c_.stride[i], extent = x[i + 2].extent;
      const std::string at = fmt::format("at{}", i);
      w.line("[[maybe_unused]] const isize {} = from{} {} {} * {};", at, i, transposed ? "-" : "+", taps[i].name, text(c_.dilation[i]));
      if (transposed)
        inside += fmt::format("{}{} >= 0 && {} % {} == 0 && {} / {} < {}", inside.empty() ? "" : " && ", at, at, text(stride), at, text(stride), text(extent));
      else if (!stays_inside(i))
        inside += fmt::format("{}{} >= 0 && {} < {}", inside.empty() ? "" : " && ", at, at, text(extent));
    }
    if (!inside.empty()) w.line("if (!({})) return {};", inside, a_pieces ? "nullptr" : "0.f");
    if (stepwise) {
      std::string there = fmt::format("channel * {}", text((*steps)[1]));
      for (size_t i = 0; i < spatial; ++i)
        if (!taps[i].extent.is(1)) there += fmt::format(" + {} * {}", taps[i].name, text(simplify(c_.dilation[i] * (*steps)[i + 2], facts_)));
      w.line("return {};", a_pieces ? fmt::format("row + ({})", there) : as_float(0, fmt::format("row[{}]", there)));
    } else {
      std::vector<std::string> values{"image", fmt::format("batch * {} + channel", text(in))};
      for (size_t i = 0; i < spatial; ++i) values.push_back(transposed ? fmt::format("at{} / {}", i, text(c_.stride[i])) : fmt::format("at{}", i));
      w.line("return {};", called(x, a_pieces ? place(0, a) : element(0, a), values));
    }
    w.close("};");
    w.close("},");

    // The filters.
    const std::string b_type = b_pieces ? pointer_type(1) : "float";
    w.open("[&]([[maybe_unused]] isize batch, isize column) {{");
    w.open("return [=]([[maybe_unused]] isize term) -> {} {{", b_type);
    if (const auto filter = steps_of(b, wt); !transposed && filter && in_one_row(*filter, wt, in)) {
      const std::string at = fmt::format("{} + (batch * {} + column) * {} + term", text(filter->back()), text(outs), text((*filter)[0]));
      w.line("return {};", b_pieces ? fmt::format("{} + ({})", k_.pointer(c_.operands[1].buffer), at) : as_float(1, fmt::format("{}[{}]", k_.pointer(c_.operands[1].buffer), at)));
    } else {
      split_terms();
      std::vector<std::string> values = transposed ? std::vector<std::string>{fmt::format("batch * {} + channel", text(in)), "column"}
                                                   : std::vector<std::string>{fmt::format("batch * {} + column", text(outs)), "channel"};
      for (const LoopVar& tap : taps) values.push_back(tap.name);
      w.line("return {};", called(wt, b_pieces ? place(1, b) : element(1, b), values));
    }
    w.close("};");
    w.close("},");

    pixel_result(pixels, outs);
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

  // Tensor cores take both operands as 16-bit floats of one kind: what is float32 still, such as an input, is rounded on its way.
  Factors factors() const {
    if (k_.program[c_.operands[0].buffer].dtype != NACRE_f32 || k_.program[c_.operands[1].buffer].dtype != NACRE_f32) return Factors::half;
    return c_.tf32 ? Factors::tf32 : Factors::exact;
  }
  bool bfloat() const { return k_.program[c_.operands[0].buffer].dtype == NACRE_bf16 || k_.program[c_.operands[1].buffer].dtype == NACRE_bf16; }
  // Whether 8 elements along the variable, from a multiple of 8 on, always lie side by side, at a multiple of 16 bytes; and are
  // what tensor cores take.
  bool in_pieces(size_t operand, const std::string& along) const { return (is_half(k_.program[c_.operands[operand].buffer].dtype) || factors() != Factors::half) && lie_together(operand, along); }
  bool lie_together(size_t operand, const std::string& along) const {
    const BufferId id = c_.operands[operand].buffer;
    if (k_.start(id) % kPiece != 0) return false;
    const std::vector<LoopVar>& loops = operand < c_.operand_loops.size() ? c_.operand_loops[operand] : c_.loops;
    const auto own = std::find_if(loops.begin(), loops.end(), [&](const LoopVar& loop) { return loop.name == along; });
    return own != loops.end() && piece_steps(own->extent) && lies_in_pieces(where(operand), along);
  }
  bool piece_steps(const Expr& extent) const {
    const auto whole = simplify(extent, facts_).constant();
    return whole && *whole % kPiece == 0;
  }
  // The steps of an address along each loop, and where it begins.
  std::optional<std::vector<Expr>> steps_of(const Expr& address, const std::vector<LoopVar>& loops) const {
    std::vector<Expr> steps;
    Expr rest = address;
    for (const LoopVar& loop : loops) {
      const auto step = coefficient(rest, loop.name, facts_);
      if (!step) return std::nullopt;
      steps.push_back(simplify(*step, facts_));
      rest = without(rest, loop.name, facts_);
    }
    for (const Expr& step : steps)
      for (const LoopVar& loop : loops)
        if (step.symbols().contains(loop.name)) return std::nullopt;
    steps.push_back(simplify(rest, facts_));
    return steps;
  }
  // Whether a filter's taps and channels, these the fastest, lie one after the other.
  bool in_one_row(const std::vector<Expr>& steps, const std::vector<LoopVar>& filter, const Expr& channels) const {
    Expr step = channels;
    if (!steps[1].is(1) && !channels.is(1)) return false;
    for (size_t i = filter.size(); i-- > 2;) {
      if (!filter[i].extent.is(1) && simplify(steps[i] - step, facts_) != Expr(0)) return false;
      step = step * filter[i].extent;
    }
    return true;
  }
  bool stays_inside(size_t i) const {
    const auto number = [&](const Expr& e) { return simplify(e, facts_).constant(); };
    const auto padding = number(c_.padding[i]), stride = number(c_.stride[i]), dilation = number(c_.dilation[i]), extent = number(c_.operand_loops[0][i + 2].extent),
               taps = number(c_.operand_loops[1][i + 2].extent), results = number(epilogue_.loops[i + 2].extent);
    return padding && stride && dilation && extent && taps && results && *padding == 0 && (*results - 1) * *stride + (*taps - 1) * *dilation < *extent;
  }
  std::string pointer_type(size_t operand) const { return fmt::format("const {}*", storage_type(k_.program[c_.operands[operand].buffer].dtype)); }
  std::string place(size_t operand, const Expr& address) { return fmt::format("{} + {}", k_.pointer(c_.operands[operand].buffer), cpp(address, facts_)); }
  std::string as_float(size_t operand, const std::string& read) const {
    return k_.program[c_.operands[operand].buffer].dtype == NACRE_bf16 ? fmt::format("from_bfloat16({})", read) : fmt::format("static_cast<float>({})", read);
  }
  std::string called(const std::vector<LoopVar>& loops, const std::string& body, const std::vector<std::string>& values) const {
    std::vector<std::string> names;
    for (const LoopVar& loop : loops) names.push_back(loop.name);
    return fmt::format("[&]({}) {{ return {}; }}({})", parameters(names), body, fmt::join(values, ", "));
  }
  void piece(const std::string& counter, const std::vector<LoopVar>& around, const std::vector<std::string>& names, size_t operand, const Expr& address) {
    k_.out.open("[&]([[maybe_unused]] isize {}, {}) -> {} {{", counter, parameters(names), pointer_type(operand));
    split(counter, around);
    k_.out.line("return {};", place(operand, address));
    k_.out.close("},");
  }
  // A row of an operand, as a function of its terms: addresses of pieces, or elements.
  void row(const std::string& counter, const std::vector<LoopVar>& around, const std::string& outer, const std::string& inner, size_t operand, const Expr& address, bool pieces) {
    Writer& w = k_.out;
    w.open("[&]([[maybe_unused]] isize {}, {}) {{", counter, parameters({outer}));
    split(counter, around);
    const auto step = coefficient(address, inner, facts_);
    if (step && !step->symbols().contains(outer)) {
      w.line("const auto* const row = {};", place(operand, without(address, inner, facts_)));
      const std::string at = step->is(1) ? inner : fmt::format("{} * {}", inner, text(*step));
      w.line("return [=]([[maybe_unused]] isize {}) -> {} {{ return {}; }};", inner, pieces ? pointer_type(operand) : "float",
             pieces ? "row + " + at : as_float(operand, fmt::format("row[{}]", at)));
    } else {
      w.line("return [=]([[maybe_unused]] isize {}) -> {} {{ return {}; }};", inner, pieces ? pointer_type(operand) : "float", pieces ? place(operand, address) : element(operand, address));
    }
    w.close("},");
  }
  // What becomes of an element of a convolution, and the end of the call.
  void pixel_result(const std::vector<LoopVar>& pixels, const Expr& outs) {
    Writer& w = k_.out;
    const auto& e = epilogue_.loops;
    const bool pieces = piece_steps(outs) && NestEmitter(k_, epilogue_, {}).fits_in_pieces(e[1].name);
    w.open("[&]([[maybe_unused]] isize batch, isize pixel, isize column{}) {{", pieces ? "" : ", const float value");
    split("pixel", pixels);
    if (pieces) {
      w.line("const isize first = batch * {} + column;", text(outs));
      NestEmitter(k_, epilogue_, {}).emit_epilogue_in_pieces(e[1].name);
    } else {
      w.line("[[maybe_unused]] const isize {} = batch * {} + column;", e[1].name, text(outs));
      NestEmitter(k_, epilogue_, {}).emit_scalar_epilogue();
    }
    end_call();
  }

  void end_call() {
    k_.out.close(tile_.resident ? "});" : "}, launch);");
    k_.out.out();
  }

  // What becomes of an element of a matrix product, and the end of the call.
  void result(const std::string& counter, size_t around) {
    const auto& e = epilogue_.loops;
    const bool pieces = piece_steps(e[around + 1].extent) && NestEmitter(k_, epilogue_, {}).fits_in_pieces(e[around + 1].name);
    k_.out.open("[&]([[maybe_unused]] isize {}, {}{}) {{", counter, pieces ? parameters({e[around].name, "first"}) : parameters({e[around].name, e[around + 1].name}), pieces ? "" : ", const float value");
    split(counter, {e.begin(), e.begin() + static_cast<std::ptrdiff_t>(around)});
    if (pieces)
      NestEmitter(k_, epilogue_, {}).emit_epilogue_in_pieces(e[around + 1].name);
    else
      NestEmitter(k_, epilogue_, {}).emit_scalar_epilogue();
    end_call();
  }

  // Tensor maps of both operands, but for how much is read at once. Their sizes and steps are numbers.
  using Maps = std::optional<std::vector<nacre_device_map>>;

  std::optional<int64_t> number(const Expr& e) const { return simplify(e, facts_).constant(); }

  // 16-bit floats of one kind, results 8 at a time.
  bool can_be_mapped(const std::string& across, const Expr& outs) const {
    const auto columns = number(outs);
    return k_.target.compute_capability == 90 && is_half(k_.program[c_.operands[0].buffer].dtype) && k_.program[c_.operands[0].buffer].dtype == k_.program[c_.operands[1].buffer].dtype && columns && *columns % 32 == 0 &&
           NestEmitter(k_, epilogue_, {}).fits_in_pieces(across);
  }

  // The numbers of steps_of.
  std::optional<std::vector<int64_t>> numbers_of(const Expr& address, const std::vector<LoopVar>& loops) const {
    const auto steps = steps_of(address, loops);
    if (!steps) return std::nullopt;
    std::vector<int64_t> all;
    for (const Expr& step : *steps) {
      const auto value = number(step);
      if (!value) return std::nullopt;
      all.push_back(*value);
    }
    return all;
  }

  // Dimensions of so many elements, so many apart; nothing where the copy engine does not take them.
  static std::optional<nacre_device_map> map_of(int64_t start, const std::vector<std::pair<int64_t, int64_t>>& dimensions) {
    nacre_device_map map{};
    map.start = static_cast<uint64_t>(2 * start);
    map.rank = static_cast<uint32_t>(dimensions.size());
    if (start < 0 || start % kPiece != 0 || dimensions[0].second != 1) return std::nullopt;
    for (size_t d = 0; d < dimensions.size(); ++d) {
      const auto& [size, step] = dimensions[d];
      if (size < 1 || size > INT32_MAX || step < 1 || (d > 0 && step % kPiece != 0)) return std::nullopt;
      map.sizes[d] = static_cast<uint32_t>(size);
      map.steps[d] = map.box[d] = 1;
      if (d > 0) map.strides[d - 1] = static_cast<uint64_t>(2 * step);
    }
    map.box[0] = 64;
    return map;
  }

  // Columns of a product as bring_columns wants them.
  static std::optional<nacre_device_map> column_map(int64_t start, int64_t columns, int64_t step, int64_t terms) {
    auto map = map_of(start, {{terms, 1}, {2, step}, {4, 8 * step}, {4, 2 * step}, {columns / 32, 32 * step}});
    if (map) map->box[1] = 2, map->box[2] = map->box[3] = 4;
    return map;
  }

  static Maps both(const std::optional<nacre_device_map>& a, const std::optional<nacre_device_map>& b) { return a && b ? Maps({*a, *b}) : std::nullopt; }

  Maps matrix_maps() const {
    const size_t around = c_.loops.size() - 3;
    if (!can_be_mapped(epilogue_.loops.back().name, c_.loops[around + 1].extent)) return std::nullopt;
    const auto a = numbers_of(where(0), c_.loops), b = numbers_of(where(1), c_.loops);
    std::vector<int64_t> sizes;
    for (const LoopVar& loop : c_.loops) sizes.push_back(number(loop.extent).value_or(0));
    if (!a || !b || std::find(sizes.begin(), sizes.end(), 0) != sizes.end() || (*a)[around + 1] != 0 || (*b)[around] != 0) return std::nullopt;
    const int64_t m = sizes[around], n = sizes[around + 1], k = sizes[around + 2], down = (*a)[around];
    std::pair<int64_t, int64_t> batch{1, m * down};
    for (size_t i = 0; i < around; ++i) {
      if (sizes[i] == 1) continue;
      if (batch.first > 1 || (*b)[i] != 0) return std::nullopt;
      batch = {sizes[i], (*a)[i]};
    }
    return both(map_of(a->back(), {{k, (*a)[around + 2]}, {m, down}, batch}), (*b)[around + 2] == 1 ? column_map(b->back(), n, (*b)[around + 1], k) : std::nullopt);
  }

  Maps pixel_maps() const {
    const auto &image = c_.operand_loops[0], &filter = c_.operand_loops[1], &e = epilogue_.loops;
    if (image.size() != 4 || !Expr(c_.groups).is(1) || !can_be_mapped(e[1].name, e[1].extent)) return std::nullopt;
    const auto a = numbers_of(where(0), image), b = numbers_of(where(1), filter);
    const auto filter_steps = steps_of(where(1), filter);
    std::vector<int64_t> sizes, taps, stride, padding, dilation, out;
    const auto all = [&](std::vector<int64_t>& to, const Expr& x) { to.push_back(number(x).value_or(-1)); };
    for (const LoopVar& loop : image) all(sizes, loop.extent);
    for (size_t i = 0; i < 2; ++i) {
      all(taps, filter[i + 2].extent);
      all(stride, c_.stride[i]);
      all(padding, c_.padding[i]);
      all(dilation, c_.dilation[i]);
      all(out, e[i + 2].extent);
    }
    for (const auto& some : {sizes, taps, stride, padding, dilation, out})
      if (std::find(some.begin(), some.end(), -1) != some.end()) return std::nullopt;
    const int64_t images = sizes[0], channels = sizes[1], outs = *number(e[1].extent), terms = channels * taps[0] * taps[1];
    if (!a || !b || !filter_steps || !in_one_row(*filter_steps, filter, channels)) return std::nullopt;
    const auto columns = column_map(b->back(), outs, (*b)[0], terms);
    const std::pair<int64_t, int64_t> down{sizes[2], (*a)[2]}, across{sizes[3], (*a)[3]};
    // Images of pixels one after the other are a matrix.
    if (terms == channels && stride[0] == 1 && stride[1] == 1 && padding[0] == 0 && padding[1] == 0 && down.second == across.first * across.second && (images == 1 || (*a)[0] == down.first * down.second))
      return both(map_of(a->back(), {{channels, (*a)[1]}, {images * down.first * across.first, across.second}, {1, images * down.first * down.second}}), columns);
    if (channels % 64 != 0) return std::nullopt;
    auto pixels = map_of(a->back(), {{channels, (*a)[1]}, across, down, {images, images == 1 ? down.first * down.second : (*a)[0]}});
    if (!pixels) return std::nullopt;
    pixels->pixels = 1;
    for (size_t i = 0; i < 2; ++i) {  // width first
      const size_t d = 1 - i;
      const int64_t last = padding[d] - (taps[d] - 1) * dilation[d];
      if (padding[d] > 128 || last < -128 || last > 127 || (taps[d] - 1) * dilation[d] > 255 || stride[d] > 8) return std::nullopt;
      pixels->lower[i] = static_cast<int32_t>(-padding[d]);
      pixels->upper[i] = static_cast<int32_t>(last);
      pixels->steps[i + 1] = static_cast<uint32_t>(stride[d]);
    }
    return both(pixels, columns);
  }

  void bring_rows() {
    k_.out.open("[&]([[maybe_unused]] isize batch, isize row) {{");
    k_.out.line("return [=, &map0](int step, uint32_t to, uint32_t barrier) {{ bring_matrix(map0, to, barrier, step * 64, row, {}); }};", launch_.maps[0].sizes[2] == 1 ? "0" : "batch");
    k_.out.close("},");
    k_.out.line("map1,");
  }

  void bring_pixels() {
    Writer& w = k_.out;
    const auto &e = epilogue_.loops, &filter = c_.operand_loops[1];
    const int64_t parts = static_cast<int64_t>(launch_.maps[0].sizes[0]) / 64;
    w.open("[&]([[maybe_unused]] isize batch, isize pixel) {{");
    split("pixel", {{"image", e[0].extent}, {"down", e[2].extent}, {"across", e[3].extent}});
    w.line("const int x = across * {} - {}, y = down * {} - {};", text(c_.stride[1]), text(c_.padding[1]), text(c_.stride[0]), text(c_.padding[0]));
    w.open("return [=, &map0](int step, uint32_t to, uint32_t barrier) {{");
    w.line("[[maybe_unused]] const int part = step % {0}, tap = step / {0};", parts);
    w.line("nk::bring_pixels(map0, to, barrier, part * 64, x, y, image, tap % {0} * {1}, tap / {0} * {2});", text(filter[3].extent), text(c_.dilation[1]), text(c_.dilation[0]));
    w.close("};");
    w.close("},");
    w.line("map1,");
  }

  void begin(const Expr& batches, const Expr& m, const Expr& n, const Expr& k, bool along_n, bool elements, const Maps& maps) {
    const auto count = [&](const Expr& e) { return std::max<int64_t>(1, typical(simplify(e, facts_), k_.program.symbols)); };
    const Expr all = simplify(batches * m * n, facts_);
    const double reads = static_cast<double>(std::count_if(epilogue_.code.begin(), epilogue_.code.end(), [&](const Scalar& s) {
      return s.op == ScalarOp::load && s.buffer >= 0 && typical(simplify(elements_of(k_.program[s.buffer]), facts_), k_.program.symbols) >= count(all);
    }));
    const HalfProduct product{count(batches), count(m), count(n), count(k) * (factors() == Factors::half ? 1 : 2), code_cost(epilogue_.code), reads, along_n, elements, all.constant().has_value(), maps.has_value(), factors()};
    tile_ = choose_half_tile(product, k_.target);
    k_.kernel.question = k_.target.name + ": " + question_of(product);
    const Expr tiles = simplify(batches * ceildiv(m, tile_.rows) * ceildiv(n, tile_.columns), facts_);
    if (tile_.resident) {
      begin_mapped(batches, m, n, k, tiles, *maps);
      return;
    }
    launch_.threads = 32 * tile_.warps_m * tile_.warps_n;
    // Whole clusters, where there is nothing to compute, too.
    launch_.blocks = tile_.splits == 1 ? min(tiles, Expr(int64_t{1} << 20)) : simplify(max(tiles, Expr(1)) * tile_.splits, facts_);
    launch_.shared_bytes = tile_.shared_bytes;
    const bool clusters = k_.target.compute_capability >= 90;
    if (clusters) launch_.cluster = tile_.splits;
    if (tile_.splits > 1 && !clusters) k_.kernel.scratch_bytes = int64_t{tile_.rows} * tile_.columns * 4;
    launch_.awaits = true;
    const auto& e = epilogue_.loops;
    const bool conv = c_.kind != ContractionKind::matmul;
    const std::string across = conv ? e[1].name : e.back().name, down = conv ? e.back().name : e[e.size() - 2].name;
    const bool pieces = piece_steps(n) && NestEmitter(k_, epilogue_, {}).fits_in_pieces(across);
    const auto size = [&](const Expr& x) { return fmt::format("isize({})", text(x)); };
    k_.out.line("gemm_half<HalfTile<{}, {}, {}, {}, {}, {}, {}, {}, {}, {}{}>>({}, {}, {}, {},", tile_.rows, tile_.columns, tile_.warps_m, tile_.warps_n, tile_.stages, tile_.splits,
                pieces ? 8 : is_along(out(), down) ? 0 : 1, along_n, bfloat(), k_.program[c_.operands[1].buffer].kind == BufferKind::weight,
                factors() == Factors::half ? "" : factors() == Factors::tf32 ? ", Factors::tf32" : ", Factors::exact",
                size(batches), size(m), size(n), size(k));
    k_.out.in();
  }

  void begin_mapped(const Expr& batches, const Expr& m, const Expr& n, const Expr& k, const Expr& tiles, const std::vector<nacre_device_map>& maps) {
    launch_.maps = maps;
    for (size_t i = 0; i < 2; ++i) {
      const BufferId id = c_.operands[i].buffer;
      k_.pointer(id);
      launch_.maps[i].operand = static_cast<uint32_t>(std::find(k_.kernel.buffers.begin(), k_.kernel.buffers.end(), id) - k_.kernel.buffers.begin());
    }
    launch_.maps[0].box[1] = static_cast<uint32_t>(tile_.rows);
    launch_.maps[1].box[4] = static_cast<uint32_t>(tile_.columns / 32);
    launch_.threads = 32 * tile_.warps_m + 32;
    launch_.blocks = tile_.splits > 1 ? simplify(tiles * tile_.splits, facts_) : min(tiles, Expr(multiprocessors_of(k_.target) * tile_.resident));
    launch_.shared_bytes = tile_.shared_bytes;
    launch_.cluster = tile_.splits;
    launch_.resident = tile_.resident;
    launch_.awaits = true;
    const auto size = [&](const Expr& x) { return fmt::format("isize({})", text(x)); };
    k_.out.line("gemm_mapped<MappedTile<{}, {}, {}, {}, {}, {}>>({}, {}, {}, {},", tile_.warps_m / 4, tile_.columns, tile_.stages, tile_.splits, bfloat(),
                k_.program[c_.operands[1].buffer].kind == BufferKind::weight, size(batches), size(m), size(n), text(ceildiv(k, 64)));
    k_.out.in();
  }

  KernelContext& k_;
  const Contraction& c_;
  const Nest& epilogue_;
  Facts facts_;
  KernelSource::Launch launch_;
  HalfTileChoice tile_;
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
