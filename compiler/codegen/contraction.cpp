#include "compiler/codegen/contraction.h"

#include <algorithm>

#include "compiler/codegen/cpp.h"
#include "compiler/codegen/nest.h"
#include "compiler/fusion/cost.h"
#include "compiler/layout/winograd.h"
#include "compiler/loops/address.h"
#include "compiler/support/error.h"

namespace nacre {

namespace {

Facts facts_with(const LoopProgram& program, const std::vector<LoopVar>& loops) {
  Group group;
  group.outer = loops;
  return facts_in(program, group, Nest{});
}

// `C<56>{}` for a constant, an isize otherwise: a size or stride as the kernel library takes it.
std::string size(const Expr& e, const Facts& facts) {
  if (auto n = e.constant()) return fmt::format("C<{}>{{}}", *n);
  return fmt::format("isize({})", cpp(e, facts));
}

// Scratch of the kernel library's functions in bytes, at least; kernels of constant sizes assert it.
//   gemm     waiting sums, a block of A and a few rows cut along K, where K may be cut
//   gemm_ab  the panels that are packed together
Expr gemm_scratch(const Target& target, const Expr& m, const Expr& n, const Expr& k) {
  const int64_t block_floats = target.l2_bytes / 10, block_k = target.l1_bytes / 128;
  auto at_most = [](const Expr& e, int64_t limit) { return e.constant() && *e.constant() <= limit; };
  if (at_most(m, 24) || at_most(k, 2 * block_k) || at_most(m * k, block_floats) || at_most(n * k, block_floats)) return 0;
  return target.l2_bytes / 4 + 4 * block_floats + 4 * 14 * (block_k + 64);
}
Expr gemm_ab_scratch(const Target& target, const Expr& n, const Expr& k) {
  const int64_t nr = target.max_panel_vectors() * target.vector_floats(), block_floats = target.l2_bytes / 10;
  const Expr one = k * nr, all = ceildiv(n, nr) * nr * k;
  return 4 * max(one, min(all, block_floats + one));
}

// Rows of the image that are copied side by side for a band of the result, as planar_band() of the kernel library chooses them.
Expr planar_scratch(const Target& target, const std::vector<Expr>& sizes, int64_t copied_rows) {
  std::vector<int64_t> n;
  for (const Expr& e : sizes)
    if (const auto value = e.constant()) n.push_back(*value);
  const Expr &ic = sizes[0], &kh = sizes[1], &kw = sizes[2], &stride_w = sizes[4], &dilation_h = sizes[5], &dilation_w = sizes[6], &ow = sizes[8];
  const Expr row = ((ow - 1) * stride_w + (kw - 1) * dilation_w + 1) * ic;
  if (n.size() != sizes.size()) return 4 * (max(Expr(target.l2_bytes / 32), row * ((kh - 1) * dilation_h + 1)) + 48);
  const int64_t length = *row.constant(), reach = (n[1] - 1) * n[5], stride = n[3], height = n[7];
  const int64_t rows = target.l2_bytes / 32 / std::max<int64_t>(1, length);
  int64_t band = std::max<int64_t>(1, std::min<int64_t>(16, (rows - reach - 1) / std::max<int64_t>(1, stride) + 1));
  for (int64_t even = std::min(band, height); 2 * even > band; --even)
    if (height % even == 0) {
      band = even;
      break;
    }
  if (copied_rows > 0) band = copied_rows;
  return 4 * ((length * ((band - 1) * stride + reach + 1) + 15) / 16 * 16 + 16);
}

struct Emitter {
  inline static const Nest none{};  // the epilogue of a contraction that writes its results itself
  KernelContext& k;
  const Contraction& c;
  const Nest& epilogue;
  Facts facts;
  std::vector<LoopVar> kept;  // loops of the result

  explicit Emitter(KernelContext& context)
      : k(context), c(*context.group.contraction), epilogue(context.group.nests.empty() ? none : context.group.nests[0]), facts(facts_with(context.program, c.loops)) {
    kept.assign(c.loops.begin(), c.loops.end() - c.reduced);
  }

  std::string sized(const Expr& e) const { return size(simplify(e, facts), facts); }
  std::string text(const Expr& e) const { return cpp(simplify(e, facts), facts); }

  Strided view(size_t operand, const std::vector<LoopVar>& all, const std::vector<std::string>& along) const {
    auto found = strided(k.program, c.operands[operand], all, along);
    check(found.has_value(), "operand {} of {} is not affine", operand, k.group.name);
    found->base = simplify(found->base - k.start(c.operands[operand].buffer), facts);
    return *found;
  }

  std::string at(size_t operand, const Expr& base) {
    const std::string p = k.pointer(c.operands[operand].buffer);
    const Expr b = simplify(base, facts);
    return b.is(0) ? p : fmt::format("{} + {}", p, text(b));
  }

  // How the epilogue takes the kernel's variables. By reference, they become values only late in the compiler's passes: after the
  // one that would find weights loaded twice, which counts where all registers are few.
  const char* capture() const { return k.target.registers == 4 ? "[=, &status]" : "[&]"; }

  // `names`: the variables of the lambda, which are those of the epilogue's loops.
  void lambda(const std::vector<std::string>& names, const std::string& vector, const char* end) {
    std::string parameters;
    for (const std::string& name : names) parameters += fmt::format("isize {}, ", name);
    k.out.open("{}{}({}vf value, int lanes) NACRE_LAMBDA {{", is_long() ? "long_epilogue(" : "", capture(), parameters);
    for (const std::string& name : names) k.out.line("(void){};", name);
    NestEmitter(k, epilogue, {}).emit_epilogue(vector);
    k.out.close(fmt::format("}}{}{}", is_long() ? ")" : "", end).c_str());
  }

  // Whether the kernel library shall keep the epilogue apart from the products.
  bool is_long() const { return k.target.registers >= 16 && c.kind != ContractionKind::attention && code_cost(epilogue.code) >= 20; }

  // Asks for scratch. Where the sizes are constant, the kernel checks at its own compile time that this covers what
  // `function` of the kernel library wants for them.
  void needs_scratch(const Expr& bytes, const std::string& function, const std::vector<Expr>& sizes) {
    k.kernel.scratch_bytes = simplify(bytes, facts);
    std::string arguments;
    for (const Expr& e : sizes) {
      const Expr s = simplify(e, facts);
      if (!s.constant()) return;
      arguments += (arguments.empty() ? "" : ", ") + std::to_string(*s.constant());
    }
    if (k.kernel.scratch_bytes.constant()) k.out.line("static_assert({}({}) * 4 <= {});", function, arguments, *k.kernel.scratch_bytes.constant());
  }

  // Whether the epilogue finds what belongs to pixel x of row y where it would find it for pixel y * width + x of a single row.
  bool rows_join(const std::string& y, const std::string& x, const Expr& width) const {
    const auto joins = [&](BufferId buffer, const std::vector<Expr>& at) {
      const auto found = strided(k.program, {buffer, at}, epilogue.loops, {y, x});
      return found && simplify(found->strides[0] - found->strides[1] * width, facts).is(0);
    };
    const auto names = [&](const Expr& e) { return e.symbols().contains(y) || e.symbols().contains(x); };
    for (const Scalar& s : epilogue.code) {
      if (names(s.expr) || std::any_of(s.when.begin(), s.when.end(), names)) return false;
      if (s.op == ScalarOp::load && !joins(s.buffer, s.at)) return false;
    }
    return std::all_of(epilogue.stores.begin(), epilogue.stores.end(), [&](const Store& s) { return joins(s.buffer, s.at); });
  }

  void matmul();
  void conv(bool transposed);
  void attention();
  void recurrent();
};

void Emitter::matmul() {
  const size_t rank = kept.size();
  const LoopVar m = kept[rank - 2], n = kept[rank - 1], kk = c.loops.back();
  const std::vector<LoopVar> batch(kept.begin(), kept.end() - 2);
  const std::string em = epilogue.loops[rank - 2].name, en = epilogue.loops[rank - 1].name;
  const Strided a = view(0, c.loops, {m.name, kk.name});
  const bool packed = c.form == ContractionForm::packed;
  const Strided b = packed ? Strided{} : view(1, c.loops, {kk.name, n.name});
  const std::string b_text = packed ? k.pointer(c.operands[1].buffer) : "";

  Expr batches = 1;
  for (const LoopVar& loop : batch) batches = batches * loop.extent;
  const bool batched = !batches.is(1);
  std::string thread = "thread", threads = "threads";
  if (batched) {
    // Whole products for each thread where there are enough of them; else all threads work on each.
    const bool by_batch = !batches.constant() || *batches.constant() >= 4;
    if (by_batch) {
      k.out.line("const Range range = split({}, thread, threads);", text(batches));
      thread = "0", threads = "1";
    }
    k.out.open("for (isize flat = {}; flat < {}; ++flat) {{", by_batch ? "range.begin" : "0", by_batch ? "range.end" : text(batches));
    Expr step = 1;
    std::vector<std::string> lines;
    for (size_t i = batch.size(); i-- > 0;) {
      const std::string value = i == 0 ? fmt::format("flat / {}", text(step)) : fmt::format("flat / {} % {}", text(step), text(batch[i].extent));
      lines.push_back(fmt::format("[[maybe_unused]] const isize {} = {};", batch[i].name, value));
      if (epilogue.loops[i].name != batch[i].name)
        lines.push_back(fmt::format("[[maybe_unused]] const isize {} = {};", epilogue.loops[i].name, value));
      step = step * batch[i].extent;
    }
    for (const std::string& line : lines) k.out.line("{}", line);
  } else {
    for (size_t i = 0; i < batch.size(); ++i) {
      k.out.line("[[maybe_unused]] const isize {} = 0;", batch[i].name);
      if (epilogue.loops[i].name != batch[i].name) k.out.line("[[maybe_unused]] const isize {} = 0;", epilogue.loops[i].name);
    }
  }
  if (packed) {
    needs_scratch(gemm_scratch(k.target, m.extent, n.extent, kk.extent), fmt::format("gemm_scratch<{}>", c.panel_vectors), {m.extent, n.extent, kk.extent});
    k.out.line("gemm<{}>({}, {}, {}, {}, {}, {}, {}, scratch, {}, {},", c.panel_vectors, sized(m.extent), sized(n.extent), sized(kk.extent),
               at(0, a.base), sized(a.strides[0]), sized(a.strides[1]), b_text, thread, threads);
  } else {
    const std::vector<int> panels = panels_for(n.extent.constant().value_or(1 << 20), k.target);
    const size_t chosen = k.target.choose(tile_question(c), panel_choices(panels));
    const std::string nv_text = n.extent.constant() && chosen == 0 ? fmt::format("default_nv({})", *n.extent.constant()) : std::to_string(panels[chosen]);
    needs_scratch(gemm_ab_scratch(k.target, n.extent, kk.extent), fmt::format("gemm_ab_scratch<{}>", nv_text), {m.extent, n.extent, kk.extent});
    k.out.line("gemm_ab<{}>({}, {}, {}, {}, {}, {}, {}, {}, {}, scratch, {}, {},", nv_text, sized(m.extent), sized(n.extent),
               sized(kk.extent), at(0, a.base), sized(a.strides[0]), sized(a.strides[1]), at(1, b.base), sized(b.strides[0]),
               sized(b.strides[1]), thread, threads);
  }
  k.out.in();
  lambda({em, en}, en, ");");
  k.out.out();
  if (batched) k.out.close();
}

void Emitter::conv(bool transposed) {
  const std::vector<LoopVar>& xs = c.operand_loops[0];  // n, c, spatial...
  const size_t spatial = xs.size() - 2;
  check(spatial == 1 || spatial == 2, "a convolution of {} dimensions has no tile", spatial);
  std::vector<std::string> along;
  for (const LoopVar& loop : xs) along.push_back(loop.name);
  const Strided x = view(0, xs, along);
  const bool flat = spatial == 1;
  auto dim = [&](const std::vector<Expr>& v, size_t i, Expr missing) {  // i: 0 height, 1 width
    if (flat) return i == 0 ? missing : v[0];
    return v[i];
  };
  auto extent = [&](const std::vector<LoopVar>& loops, size_t first, size_t i) { return flat ? (i == 0 ? Expr(1) : loops[first].extent) : loops[first + i].extent; };
  const Expr groups = c.groups;
  const Expr ic = floordiv(xs[1].extent, groups), oc = floordiv(kept[1].extent, groups);
  const std::vector<LoopVar>& ws = c.operand_loops[1];
  const Expr sh = flat ? Expr(0) : x.strides[2], sw = flat ? x.strides[2] : x.strides[3];

  std::string fields = fmt::format(".batch = {}, .h = {}, .w = {}, ", sized(xs[0].extent), sized(extent(xs, 2, 0)), sized(extent(xs, 2, 1)));
  if (c.form == ContractionForm::depthwise)
    fields += fmt::format(".c = {}, ", sized(xs[1].extent));
  else
    fields += fmt::format(".ic = {}, .oc = {}, .groups = {}, ", sized(ic), sized(oc), sized(groups));
  fields += fmt::format(".kh = {}, .kw = {}, .stride_h = {}, .stride_w = {}, .pad_h = {}, .pad_w = {}, .dilation_h = {}, .dilation_w = {}, ",
                        sized(extent(ws, 2, 0)), sized(extent(ws, 2, 1)), sized(dim(c.stride, 0, 1)), sized(dim(c.stride, 1, 1)),
                        sized(dim(c.padding, 0, 0)), sized(dim(c.padding, 1, 0)), sized(dim(c.dilation, 0, 1)), sized(dim(c.dilation, 1, 1)));
  fields += fmt::format(".oh = {}, .ow = {}, .sn = {}, .sh = {}, .sw = {}", sized(extent(kept, 2, 0)), sized(extent(kept, 2, 1)), sized(x.strides[0]),
                        sized(sh), sized(sw));

  // The lambda's variables, in the library's order.
  const std::string n = epilogue.loops[0].name, o = epilogue.loops[1].name, last = epilogue.loops.back().name;
  const std::string first = flat ? "height" : epilogue.loops[2].name;
  const std::string in = at(0, x.base), weights = k.pointer(c.operands[1].buffer);
  switch (c.form) {
    case ContractionForm::depthwise:
      k.out.line("depthwise(Depthwise{{{}}}, {}, {}, thread, threads,", fields, in, weights);
      break;
    case ContractionForm::planar: {
      std::vector<Expr> sizes{ic,
                              extent(ws, 2, 0), extent(ws, 2, 1), dim(c.stride, 0, 1), dim(c.stride, 1, 1), dim(c.dilation, 0, 1), dim(c.dilation, 1, 1),
                              extent(kept, 2, 0), extent(kept, 2, 1)};
      for (Expr& e : sizes) e = simplify(e, facts);
      const Expr bytes = planar_scratch(k.target, sizes, c.copied_rows);
      if (c.copied_rows > 0) sizes.push_back(c.copied_rows);
      needs_scratch(bytes, "conv_planar_scratch", sizes);
      k.out.line("conv_planar<{}, {}>(Conv{{{}}}, {}, {}, {}, scratch, thread, threads,", c.panel_vectors, c.copied_rows, fields, text(x.strides[1]), in, weights);
      break;
    }
    default: {
      k.kernel.scratch_bytes = simplify(4 * (ceildiv(ic, 16) * 16), facts);
      const bool pointwise = !transposed && groups.is(1) && ws.size() >= 3 && extent(ws, 2, 0).is(1) && extent(ws, 2, 1).is(1) &&
                             dim(c.stride, 0, 1).is(1) && dim(c.stride, 1, 1).is(1) && dim(c.padding, 0, 0).is(0) && dim(c.padding, 1, 0).is(0);
      const Expr pixels = extent(kept, 2, 0) * extent(kept, 2, 1);
      const bool one_stride = simplify(sh - sw * extent(xs, 2, 1), facts).is(0) || flat || extent(xs, 2, 0).is(1);
      const bool one_batch = xs[0].extent.is(1) || simplify(x.strides[0] - sw * extent(xs, 2, 0) * extent(xs, 2, 1), facts).is(0);
      // Of images of one pixel, the rows are the images. gemm sums few rows in several parts, and so as exactly as PyTorch does.
      const bool images = simplify(pixels, facts).is(1);
      if (pointwise && (images || (one_stride && one_batch))) {
        // A matrix product over all pixels of all images.
        needs_scratch(gemm_scratch(k.target, xs[0].extent * pixels, oc, ic), fmt::format("gemm_scratch<{}>", c.panel_vectors), {xs[0].extent * pixels, oc, ic});
        k.out.line("gemm<{}>({}, {}, {}, {}, {}, {}, {}, scratch, thread, threads,", c.panel_vectors, sized(xs[0].extent * pixels), sized(oc), sized(ic), in,
                   sized(images ? x.strides[0] : sw), sized(x.strides[1]), weights);
        k.out.in();
        k.out.open("{}{}(isize pixel, isize {}, vf value, int lanes) NACRE_LAMBDA {{", is_long() ? "long_epilogue(" : "", capture(), o);
        // A division is many instructions: rows are counted only where they have to be.
        const bool joined = !flat && xs[0].extent.is(1) && rows_join(first, last, extent(kept, 2, 1));
        if (joined) {
          k.out.line("[[maybe_unused]] const isize {} = 0, {} = 0, {} = pixel;", n, first, last);
        } else {
          k.out.line("[[maybe_unused]] const isize {} = pixel / {};", n, text(pixels));
          if (!flat) k.out.line("[[maybe_unused]] const isize {} = pixel / {} % {};", first, text(extent(kept, 2, 1)), text(extent(kept, 2, 0)));
          k.out.line("[[maybe_unused]] const isize {} = pixel % {};", last, text(extent(kept, 2, 1)));
        }
        NestEmitter(k, epilogue, {}).emit_epilogue(o);
        k.out.close(is_long() ? "}));" : "});");
        k.out.out();
        return;
      }
      if (c.winograd) {
        const int m = c.winograd;
        const Expr channels = simplify(ic, facts), tiles = simplify(xs[0].extent * ceildiv(extent(kept, 2, 0), m) * ceildiv(extent(kept, 2, 1), m), facts);
        needs_scratch(winograd_scratch(k.target, m, c.panel_vectors, *channels.constant(), tiles), fmt::format("winograd_scratch<{}, Winograd{}>", c.panel_vectors, m), {channels, tiles});
        k.out.line("conv_winograd<{}, Winograd{}>(Conv{{{}}}, {}, {}, scratch, thread, threads,", c.panel_vectors, m, fields, in, weights);
        break;
      }
      k.out.line("{}<{}>(Conv{{{}}}, {}, {}, scratch, thread, threads,", transposed ? "conv_transposed" : "conv", c.panel_vectors, fields, in, weights);
    }
  }
  k.out.in();
  lambda({n, first, last, o}, o, ");");
  k.out.out();
}

void Emitter::attention() {
  const LoopVar b = c.loops[0], h = c.loops[1], s = c.loops[2], e = c.loops[3], t = c.loops[4], d = c.loops[5];
  const Strided q = view(0, c.loops, {s.name, d.name}), key = view(1, c.loops, {t.name, d.name}), value = view(2, c.loops, {t.name, e.name});
  const int64_t nr = k.target.attention_vectors() * k.target.vector_floats(), rows = 6;
  const Expr padded_t = ceildiv(t.extent, nr) * nr;
  Expr floats = rows * (padded_t + 16);
  if (!(s.extent.constant() && *s.extent.constant() <= 4)) floats = floats + padded_t * d.extent + t.extent * (ceildiv(e.extent, nr) * nr);
  needs_scratch(4 * floats, "attention_scratch", {s.extent, t.extent, d.extent, e.extent});

  k.out.line("attention(Attention{{.batch = {}, .heads = {}, .s = {}, .t = {}, .d = {}, .e = {}, .q_s = {}, .k_t = {}, .v_t = {}}},", sized(b.extent), sized(h.extent),
             sized(s.extent), sized(t.extent), sized(d.extent), sized(e.extent), sized(q.strides[0]), sized(key.strides[0]), sized(value.strides[0]));
  k.out.in();
  const std::string heads = fmt::format("[&]([[maybe_unused]] isize {}, [[maybe_unused]] isize {}) NACRE_LAMBDA", b.name, h.name);
  k.out.line("{} {{ return static_cast<const float*>({}); }},", heads, at(0, q.base));
  k.out.line("{} {{ return static_cast<const float*>({}); }},", heads, at(1, key.base));
  k.out.line("{} {{ return static_cast<const float*>({}); }},", heads, at(2, value.base));
  std::string bias = "NoBias{}";
  if (c.operands.size() > 3 && c.operands[3].buffer >= 0) {
    const Strided mask = view(3, c.loops, {s.name, t.name});
    const std::string from = at(3, mask.base + mask.strides[0] * Expr::symbol(s.name) + mask.strides[1] * Expr::symbol(t.name));
    const std::string element = mask.strides[1].is(1)   ? fmt::format("load({}, lanes)", from)
                                : mask.strides[1].is(0) ? fmt::format("splat(*({}))", from)
                                                        : fmt::format("load_strided({}, {}, lanes)", from, text(mask.strides[1]));
    bias = fmt::format("[&]([[maybe_unused]] isize {}, [[maybe_unused]] isize {}, [[maybe_unused]] isize {}, [[maybe_unused]] isize {}, [[maybe_unused]] int lanes) NACRE_LAMBDA {{ return {}; }}",
                       b.name, h.name, s.name, t.name, element);
  }
  k.out.line("{}f, C<{}>{{}}, {},", fmt::format("{:.9e}", c.scale), c.causal ? 1 : 0, bias);
  k.out.line("scratch, thread, threads,");
  lambda({epilogue.loops[0].name, epilogue.loops[1].name, epilogue.loops[2].name, epilogue.loops[3].name}, epilogue.loops[3].name, ");");
  k.out.out();
}

void Emitter::recurrent() {
  const bool lstm = c.kind == ContractionKind::lstm;
  const Expr time = c.loops[0].extent, batch = c.loops[1].extent, hidden = c.loops[2].extent;
  auto row = [&](size_t i) { return view(i, c.operand_loops[i], {c.operand_loops[i][0].name, c.operand_loops[i].back().name}); };
  const Strided h0 = row(1), c0 = lstm ? row(2) : Strided{{}, {Expr(0)}};
  const std::vector<Expr> y = strides_of(k.program[c.results[0]]);
  const size_t w_hh = lstm ? 4 : 3;
  // A step of a small layer is shorter than the barrier after it.
  k.kernel.serial = hidden.constant() && *hidden.constant() < 64;
  k.kernel.team = !k.kernel.serial;
  k.out.line("{}(Recurrent{{.time = {}, .batch = {}, .hidden = {}, .y_t = {}, .y_b = {}, .h_b = {}, .c_b = {}}},", lstm ? "lstm" : "gru", sized(time), sized(batch),
             sized(hidden), sized(y[0]), sized(y[1]), sized(h0.strides[0]), sized(c0.strides[0]));
  k.out.in();
  const std::string weights = fmt::format("{}, {},", k.pointer(c.operands[0].buffer), k.pointer(c.operands[w_hh].buffer));
  if (lstm) {
    k.out.line("{} {}, {},", weights, at(1, h0.base), at(2, c0.base));
    k.out.line("{}, {}, {},", k.pointer(c.results[0]), k.pointer(c.results[1]), k.pointer(c.results[2]));
  } else {
    const size_t b_hh = 5;
    const bool biased = b_hh < c.operands.size() && c.operands[b_hh].buffer >= 0;
    k.out.line("{} {}, {},", weights, biased ? at(b_hh, view(b_hh, c.operand_loops[b_hh], {c.operand_loops[b_hh][0].name}).base) : "static_cast<const float*>(nullptr)", at(1, h0.base));
    k.out.line("{}, {},", k.pointer(c.results[0]), k.pointer(c.results[1]));
  }
  k.out.line("C<{}>{{}}, thread, threads, [&]() NACRE_LAMBDA {{ {} }});", c.reverse ? 1 : 0, k.kernel.team ? "args->sync(args);" : "");
  k.out.out();
}

}  // namespace

std::string tile_question(const Contraction& c) {
  const auto sizes = [](const auto& list, const auto& extent) {
    std::string text;
    for (const auto& e : list) text += (text.empty() ? "" : "x") + (extent(e).constant() ? std::to_string(*extent(e).constant()) : "*");
    return text;
  };
  const auto loops = [&](const std::vector<LoopVar>& list) { return sizes(list, [](const LoopVar& loop) { return loop.extent; }); };
  const auto numbers = [&](const std::vector<Expr>& list) { return sizes(list, [](const Expr& e) { return e; }); };
  if (c.kind == ContractionKind::matmul) return fmt::format("matmul {}{}", loops(c.loops), c.form == ContractionForm::direct ? " of two activations" : "");
  return fmt::format("{} {} by {} to {}, stride {}, padding {}, dilation {}, groups {}{}", c.kind == ContractionKind::conv ? "conv" : "conv_transpose", loops(c.operand_loops[0]),
                     loops(c.operand_loops[1]), loops(c.loops), numbers(c.stride), numbers(c.padding), numbers(c.dilation), numbers({c.groups}),
                     c.form == ContractionForm::planar ? ", planar" : "");
}

std::vector<int> panels_for(int64_t columns, const Target& target) {
  const auto padded = [&](int vectors) {
    const int64_t width = int64_t{vectors} * target.vector_floats();
    return (columns + width - 1) / width * width;
  };
  std::vector<int> panels{target.panel_vectors(columns)};
  for (int vectors = target.max_panel_vectors(); vectors > 0; --vectors)
    if (vectors != panels[0] && 2 * padded(vectors) < 3 * padded(panels[0])) panels.push_back(vectors);
  return panels;
}

std::vector<std::string> panel_choices(const std::vector<int>& panels) {
  std::vector<std::string> choices;
  for (int vectors : panels) choices.push_back(fmt::format("panel {}", vectors));
  return choices;
}

bool epilogue_fits(const LoopProgram& program, const Group& group, const Target& target) {
  KernelContext context{program, group, target, {}, {}, {}, {}};
  const Nest& nest = group.nests[0];
  const bool conv = group.contraction->kind == ContractionKind::conv || group.contraction->kind == ContractionKind::conv_transpose;
  const std::string vector = conv ? nest.loops[1].name : nest.loops.back().name;
  return NestEmitter(context, nest, {}).epilogue_fits(vector);
}

void emit_contraction(KernelContext& context) {
  Emitter e(context);
  const bool has_panels = e.c.panel_vectors > 0 || (e.c.kind == ContractionKind::matmul && e.c.form == ContractionForm::direct);
  if (has_panels) context.kernel.question = context.target.name + ": " + tile_question(e.c);
  switch (e.c.kind) {
    case ContractionKind::matmul: e.matmul(); break;
    case ContractionKind::conv: e.conv(false); break;
    case ContractionKind::conv_transpose: e.conv(true); break;
    case ContractionKind::attention: e.attention(); break;
    case ContractionKind::lstm:
    case ContractionKind::gru: e.recurrent(); break;
  }
}

}  // namespace nacre
