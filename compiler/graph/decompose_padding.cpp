// Padding. With a constant it is a primitive; the modes that repeat the input join slices of it.
#include "compiler/graph/decompose_call.h"
#include "compiler/support/error.h"

namespace nacre {

namespace {

// `pad` names the last dim first: (low, high) a dim.
struct Amounts {
  Shape low, high;  // by dim of x
};

Amounts read_amounts(Call& c, const Tensor& x, const char* name) {
  Shape given = c.sizes(name);
  auto rank = static_cast<size_t>(x.rank());
  if (given.size() % 2 != 0 || given.size() / 2 > rank)
    fail(ErrorKind::user, "{} amounts of padding for rank {}", given.size(), rank);
  Amounts a{Shape(rank, Expr(0)), Shape(rank, Expr(0))};
  for (size_t i = 0; i < given.size() / 2; i++) {
    a.low[rank - 1 - i] = given[2 * i];
    a.high[rank - 1 - i] = given[2 * i + 1];
  }
  return a;
}

enum class Mode { constant, reflect, replicate, circular };

// One dim of x padded by parts of itself. Negative amounts cut: the circular mode cuts first, the
// others repeat parts of the whole.
Tensor pad_dim_with_itself(const Tensor& whole, int64_t dim, const Expr& low_amount,
                           const Expr& high_amount, Mode mode) {
  const Facts& facts = whole.facts();
  auto positive = [&](const Expr& e) { return simplify(max(e, 0), facts); };
  auto negative = [&](const Expr& e) { return simplify(min(e, 0), facts); };
  auto cut = [&](const Tensor& t) {
    return pad_dim(t, dim, negative(low_amount), negative(high_amount), 0);
  };
  Tensor x = mode == Mode::circular ? cut(whole) : whole;
  Expr low = positive(low_amount), high = positive(high_amount), n = x.size(dim);
  auto part = [&](const Expr& start, const Expr& end) {
    return slice(x, dim, simplify(start, facts), simplify(end, facts));
  };
  auto repeated = [&](const Tensor& one, const Expr& times) {
    Shape shape = x.shape();
    shape[static_cast<size_t>(dim)] = times;
    return expand(one, shape);
  };
  std::vector<Tensor> parts;
  if (!low.is(0)) {
    if (mode == Mode::reflect) parts.push_back(flip(part(1, low + 1), {dim}));
    if (mode == Mode::replicate) parts.push_back(repeated(part(0, 1), low));
    if (mode == Mode::circular) parts.push_back(part(n - low, n));
  }
  parts.push_back(x);
  if (!high.is(0)) {
    if (mode == Mode::reflect) parts.push_back(flip(part(n - 1 - high, n - 1), {dim}));
    if (mode == Mode::replicate) parts.push_back(repeated(part(n - 1, n), high));
    if (mode == Mode::circular) parts.push_back(part(0, high));
  }
  Tensor joined = concat(parts, dim);
  return mode == Mode::circular ? joined : cut(joined);
}

Results pad_with_itself(Call& c, const char* name, Mode mode) {
  Tensor x = c.self();
  Amounts a = read_amounts(c, x, name);
  for (int64_t d = 0; d < x.rank(); d++) {
    auto i = static_cast<size_t>(d);
    if (!a.low[i].is(0) || !a.high[i].is(0))
      x = pad_dim_with_itself(x, d, a.low[i], a.high[i], mode);
  }
  return x;
}

Results pad_constant(Call& c, const Number& value) {
  Tensor x = c.self();
  Amounts a = read_amounts(c, x, "pad");
  return pad(x, a.low, a.high, value);
}

Results pad_any(Call& c) {
  std::string mode = c.text("mode", "constant");
  if (c.op().find("_pad_enum") != std::string::npos) {
    constexpr const char* kModes[] = {"constant", "reflect", "replicate", "circular"};
    mode = kModes[c.integer("mode") & 3];
  }
  if (mode == "constant") return pad_constant(c, c.number("value", Number(0)));
  if (mode == "reflect") return pad_with_itself(c, "pad", Mode::reflect);
  if (mode == "replicate") return pad_with_itself(c, "pad", Mode::replicate);
  if (mode == "circular") return pad_with_itself(c, "pad", Mode::circular);
  c.unsupported("the mode " + mode);
}

Results reflection(Call& c) { return pad_with_itself(c, "padding", Mode::reflect); }
Results replication(Call& c) { return pad_with_itself(c, "padding", Mode::replicate); }

constexpr Decomposition kTable[] = {
    {"constant_pad_nd.default",
     [](Call& c) { return pad_constant(c, c.number("value", Number(0))); }},
    {"pad.default", pad_any},
    {"_pad_enum.default", pad_any},
    {"_pad_circular.default", [](Call& c) { return pad_with_itself(c, "pad", Mode::circular); }},
    {"reflection_pad1d.default", reflection},
    {"reflection_pad2d.default", reflection},
    {"reflection_pad3d.default", reflection},
    {"replication_pad1d.default", replication},
    {"replication_pad2d.default", replication},
    {"replication_pad3d.default", replication},
};

}  // namespace

Decompositions padding_decompositions() { return kTable; }

}  // namespace nacre
