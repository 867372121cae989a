// Which variant is chosen, and what a miss says.
#include <array>
#include <cmath>

#include "tests/unit/runtime/fixture.h"

namespace nacre::test {
namespace {

struct Prepared {
  nacre_status status;
  std::string message;
};

Prepared prepare(Opened& opened, const nacre_tensor& input) {
  const nacre_status status = nacre_session_prepare(opened.session, 0, &input, 1);
  return {status, opened.message()};
}

Prepared prepare(Opened& opened, const std::vector<int64_t>& shape, nacre_dtype dtype = NACRE_f32) {
  return prepare(opened, tensor(nullptr, shape, dtype));
}

TEST(Guard, GivesTheOutputsShape) {
  Opened opened(scale_artifact());
  ASSERT_EQ(prepare(opened, {12, 4}).status, NACRE_OK);
  EXPECT_EQ(nacre_output_shape(opened.session, 0)[0], 12);
  EXPECT_EQ(nacre_output_shape(opened.session, 0)[1], 4);
  EXPECT_EQ(nacre_output_size_bytes(opened.session, 0), 12u * 4 * 4);
  ASSERT_EQ(prepare(opened, {2, 4}).status, NACRE_OK);
  EXPECT_EQ(nacre_output_shape(opened.session, 0)[0], 2);
}

TEST(Guard, MissNamesInputDimensionValueAndWhatWasWanted) {
  Opened opened(scale_artifact());
  Prepared p = prepare(opened, {37, 4});
  EXPECT_EQ(p.status, NACRE_GUARD_MISS);
  EXPECT_EQ(p.message, "input 'x' dimension 0 is 37; variant 0 wants a multiple of 2 in [2, 64]");
  EXPECT_EQ(prepare(opened, {66, 4}).message,
            "input 'x' dimension 0 is 66; variant 0 wants a multiple of 2 in [2, 64]");
  EXPECT_EQ(prepare(opened, {4, 5}).message, "input 'x' dimension 1 is 5; variant 0 wants 4");
  EXPECT_EQ(prepare(opened, {4}).message, "input 'x' has rank 1; variant 0 wants rank 2");
  EXPECT_EQ(prepare(opened, {4, 4}, NACRE_f64).message,
            "input 'x' has dtype f64; variant 0 wants dtype f32");
  EXPECT_EQ(nacre_output_shape(opened.session, 0), nullptr);
  EXPECT_EQ(prepare(opened, {4, 4}).status, NACRE_OK);
  EXPECT_EQ(opened.message(), "");
}

TEST(Guard, BadArgumentsAreNotMisses) {
  Opened opened(scale_artifact());
  EXPECT_EQ(prepare(opened, {-2, 4}).status, NACRE_BAD_ARGUMENT);
  EXPECT_EQ(prepare(opened, std::vector<int64_t>(17, 1)).status, NACRE_BAD_ARGUMENT);
  EXPECT_EQ(prepare(opened, {4, 4}, static_cast<nacre_dtype>(31)).status, NACRE_BAD_ARGUMENT);
  EXPECT_EQ(prepare(opened, {INT64_MAX, 4}).status, NACRE_BAD_ARGUMENT);
  EXPECT_EQ(nacre_session_prepare(opened.session, 0, nullptr, 0), NACRE_BAD_ARGUMENT);
  EXPECT_EQ(opened.message(), "'forward' takes 1 inputs, not 0");
  EXPECT_EQ(nacre_session_prepare(opened.session, 9, nullptr, 0), NACRE_NOT_FOUND);
}

// forward() with variants before the general one.
fmt::Artifact special_first(std::vector<fmt::Guard> more) {
  fmt::Artifact a = scale_artifact();
  fmt::Variant special = a.entries[0].variants[0];
  special.name = "special";
  special.guards.insert(special.guards.end(), more.begin(), more.end());
  a.entries[0].variants.insert(a.entries[0].variants.begin(), special);
  return a;
}

TEST(Guard, TakesTheFirstRowThatHoldsWhateverRanBefore) {
  Opened opened(special_first({{NACRE_GUARD_equal, 0, 0, 0, 8, 0}}));
  for (int i = 0; i < 2; ++i) {
    ASSERT_EQ(prepare(opened, {8, 4}).status, NACRE_OK);
    EXPECT_EQ(nacre_session_variant(opened.session), 0u);
    ASSERT_EQ(prepare(opened, {8, 4}).status, NACRE_OK);
    EXPECT_EQ(nacre_session_variant(opened.session), 0u);
    ASSERT_EQ(prepare(opened, {10, 4}).status, NACRE_OK);
    EXPECT_EQ(nacre_session_variant(opened.session), 1u);
  }
}

// Rows that begin alike are looked at together; the answers must be those of each row alone.
TEST(Guard, AgreesWithEachRowAlone) {
  fmt::Artifact a = scale_artifact();
  fmt::Entry& e = a.entries[0];
  const fmt::Variant general = e.variants[0];
  const std::vector<std::vector<fmt::Guard>> rows = {
      {{NACRE_GUARD_equal, 0, 0, 0, 6, 0}, {NACRE_GUARD_equal, 0, 1, 0, 5, 0}},
      {{NACRE_GUARD_equal, 0, 0, 0, 6, 0}, {NACRE_GUARD_multiple, 0, 1, 0, 2, 0}},
      {{NACRE_GUARD_equal, 0, 0, 0, 8, 0}},
      {{NACRE_GUARD_range, 0, 0, 0, 20, 30}, {NACRE_GUARD_multiple, 0, 0, 0, 8, 0}},
      {{NACRE_GUARD_range, 0, 0, 0, 20, 30}}};
  for (std::size_t i = rows.size(); i-- > 0;) {
    fmt::Variant v = general;
    v.guards.insert(v.guards.end(), rows[i].begin(), rows[i].end());
    e.variants.insert(e.variants.begin(), v);
  }
  // A row that differs early from the one before it.
  e.variants[1].guards[0].lo = NACRE_f64;
  Opened all(a);
  for (int64_t rows_of_x = 0; rows_of_x < 40; ++rows_of_x)
    for (const int64_t columns : {4, 5})
      for (const nacre_dtype dtype : {NACRE_f32, NACRE_f64}) {
        const bool good = prepare(all, {rows_of_x, columns}, dtype).status == NACRE_OK;
        uint32_t first = UINT32_MAX;
        for (uint32_t i = 0; i < e.variants.size() && first == UINT32_MAX; ++i) {
          fmt::Artifact one = a;
          one.entries[0].variants = {e.variants[i]};
          Opened alone(one);
          if (prepare(alone, {rows_of_x, columns}, dtype).status == NACRE_OK) first = i;
        }
        ASSERT_EQ(good, first != UINT32_MAX) << rows_of_x << " " << columns;
        if (good) {
          ASSERT_EQ(nacre_session_variant(all.session), first) << rows_of_x << " " << columns;
        }
      }
}

TEST(Guard, MissTellsOfEachVariant) {
  Opened opened(special_first({{NACRE_GUARD_equal, 0, 0, 0, 8, 0}}));
  EXPECT_EQ(
      prepare(opened, {9, 4}).message,
      "input 'x' dimension 0 is 9; variant 0 wants 8; variant 1 wants a multiple of 2 in [2, 64]");
  EXPECT_EQ(prepare(opened, {10, 5}).message,
            "input 'x' dimension 1 is 5; variant 0 wants 4; variant 1 wants 4");
}

TEST(Guard, ChecksNodes) {
  // s0 in [1, 3], and dimension 1 = the value of node 3 + 2 = 4, said as nodes.
  fmt::Artifact a = scale_artifact();
  fmt::Variant& v = a.entries[0].variants[0];
  v.nodes.push_back({NACRE_EXPR_add, 3, 3});  // 7: 4
  v.nodes.push_back({NACRE_EXPR_constant, 0, 3});
  v.nodes.push_back({NACRE_EXPR_le, 0, 8});  // 9: s0 <= 3
  v.guards.erase(v.guards.begin() + 4);
  v.guards.push_back({NACRE_GUARD_equal_node, 0, 1, 7, 0, 0});
  v.guards.push_back({NACRE_GUARD_node, 0, 0, 9, 0, 0});
  Opened opened(a);
  EXPECT_EQ(prepare(opened, {6, 4}).status, NACRE_OK);
  EXPECT_EQ(prepare(opened, {6, 3}).message, "input 'x' dimension 1 is 3; variant 0 wants 2 + 2 = 4");
  EXPECT_EQ(prepare(opened, {8, 4}).message,
            "these sizes do not fit together; variant 0 wants s0 <= 3");
}

TEST(Guard, OverflowInAnExpressionIsAMiss) {
  fmt::Artifact a = scale_artifact();
  fmt::Variant& v = a.entries[0].variants[0];
  v.nodes.push_back({NACRE_EXPR_constant, 0, INT64_MAX});
  v.nodes.push_back({NACRE_EXPR_mul, 0, 7});
  Opened opened(a);
  EXPECT_EQ(prepare(opened, {2, 4}).status, NACRE_OK);
  EXPECT_EQ(prepare(opened, {4, 4}).message,
            "variant 0 cannot compute with sizes as large as these");
}

TEST(Guard, AcceptsChannelsLastWhereARowWantsIt) {
  fmt::Artifact a = parts();
  fmt::Entry e = empty_entry("forward");
  e.inputs = {{"x",
               NACRE_f32,
               0,
               {Size::constant(2), Size::constant(3), Size::constant(4), Size::constant(5)},
               {0, 2, 3, 1}}};
  e.variants[0].guards = typed(0, NACRE_f32, 4);
  e.variants[0].guards.push_back({NACRE_GUARD_strides, 0, 0, 0, NACRE_STRIDES_CHANNELS_LAST, 0});
  e.variants[0].commands = {end()};
  a.entries = {e};
  Opened opened(a);
  const std::array<int64_t, 4> shape = {2, 3, 4, 5}, last = {60, 1, 15, 3}, first = {60, 20, 5, 1};
  nacre_tensor t = {nullptr, shape.data(), last.data(), 4, NACRE_f32};
  EXPECT_EQ(prepare(opened, t).status, NACRE_OK);
  t.strides = first.data();
  EXPECT_EQ(prepare(opened, t).message,
            "input 'x' has other strides; variant 0 wants channels-last strides");
  t.strides = nullptr;
  EXPECT_EQ(prepare(opened, t).status, NACRE_GUARD_MISS);
}

// forward(n) on a scalar.
fmt::Artifact scalar_artifact(nacre_dtype dtype, std::vector<fmt::Guard> more) {
  fmt::Artifact a = parts();
  a.symbols = {{"n", 0, 100, 1}};
  fmt::Entry e = empty_entry("forward");
  e.inputs = {{"n", dtype, NACRE_TENSOR_SCALAR, {}, {}}};
  e.variants[0].guards = typed(0, dtype, 0);
  e.variants[0].guards.insert(e.variants[0].guards.end(), more.begin(), more.end());
  e.variants[0].commands = {end()};
  a.entries = {e};
  return a;
}

TEST(Guard, ReadsScalars) {
  fmt::Artifact a = scalar_artifact(NACRE_i64, {{NACRE_GUARD_bind_value, 0, 0, 0, 0, 0},
                                                {NACRE_GUARD_value_range, 0, 0, 0, 1, 9}});
  a.entries[0].nodes = {{NACRE_EXPR_symbol, 0, 0}};
  a.entries[0].outputs = {{"y", NACRE_u8, 0, {Size::node(0)}, {}}};
  Opened opened(a);
  int64_t n = 5;
  EXPECT_EQ(prepare(opened, tensor(&n, {}, NACRE_i64)).status, NACRE_OK);
  EXPECT_EQ(nacre_output_shape(opened.session, 0)[0], 5);
  n = 10;
  EXPECT_EQ(prepare(opened, tensor(&n, {}, NACRE_i64)).message,
            "input 'n' is 10; variant 0 wants a value in [1, 9]");
  EXPECT_EQ(prepare(opened, tensor(nullptr, {}, NACRE_i64)).status, NACRE_GUARD_MISS);
}

TEST(Guard, ReadsFloatingPointScalars) {
  const double half = 0.5, two = 2.0;
  int64_t lo, hi;
  std::memcpy(&lo, &half, 8);
  std::memcpy(&hi, &two, 8);
  Opened opened(scalar_artifact(NACRE_f64, {{NACRE_GUARD_value_range, 0, 0, 0, lo, hi}}));
  double value = 1.0;
  EXPECT_EQ(prepare(opened, tensor(&value, {}, NACRE_f64)).status, NACRE_OK);
  value = NAN;
  EXPECT_EQ(prepare(opened, tensor(&value, {}, NACRE_f64)).message,
            "input 'n' has another value; variant 0 wants a value in [0.500, 2]");
}

TEST(Guard, WantsMemoryApartAndAligned) {
  fmt::Artifact a = parts();
  fmt::Entry e = empty_entry("forward");
  e.inputs = {{"a", NACRE_u8, 0, {Size::constant(8)}, {}},
              {"b", NACRE_u8, 0, {Size::constant(8)}, {}}};
  auto& guards = e.variants[0].guards;
  guards = typed(0, NACRE_u8, 1);
  for (const auto& guard : typed(1, NACRE_u8, 1)) guards.push_back(guard);
  guards.push_back({NACRE_GUARD_disjoint, 0, 0, 1, 0, 0});
  guards.push_back({NACRE_GUARD_alignment, 0, 0, 0, 16, 0});
  e.variants[0].commands = {end()};
  a.entries = {e};
  Opened opened(a);
  alignas(64) uint8_t memory[64];
  const std::vector<int64_t> shape = {8};
  nacre_tensor both[2] = {tensor(memory, shape, NACRE_u8), tensor(memory + 8, shape, NACRE_u8)};
  EXPECT_EQ(nacre_session_prepare(opened.session, 0, both, 2), NACRE_OK);
  both[1].data = memory + 7;
  EXPECT_EQ(nacre_session_prepare(opened.session, 0, both, 2), NACRE_GUARD_MISS);
  EXPECT_EQ(opened.message(),
            "input 'a' overlaps another; variant 0 wants memory apart from input 'b'");
  both[0].data = memory + 24;
  EXPECT_EQ(nacre_session_prepare(opened.session, 0, both, 2), NACRE_GUARD_MISS);
  EXPECT_EQ(opened.message(),
            "input 'a' is not aligned; variant 0 wants an address that is a multiple of 16");
}

TEST(Guard, RangesOfInputsAreTheWidestOfAllVariants) {
  Opened opened(special_first({{NACRE_GUARD_equal, 0, 0, 0, 8, 0}}));
  nacre_dim dim;
  ASSERT_EQ(nacre_input_dim(opened.model, 0, 0, 0, &dim), NACRE_OK);
  EXPECT_EQ(dim.size, -1);
  EXPECT_EQ(dim.min, 2);
  EXPECT_EQ(dim.max, 64);
  EXPECT_EQ(dim.multiple, 2);
  ASSERT_EQ(nacre_input_dim(opened.model, 0, 0, 1, &dim), NACRE_OK);
  EXPECT_EQ(dim.size, 4);
  EXPECT_EQ(nacre_input_dim(opened.model, 0, 0, 2, &dim), NACRE_NOT_FOUND);
  ASSERT_EQ(nacre_output_dim(opened.model, 0, 0, 1, &dim), NACRE_OK);
  EXPECT_EQ(dim.size, 4);
}

}  // namespace
}  // namespace nacre::test
