// Commands: calls, copies, branches, loops, imports, errors in the data.
#include <atomic>
#include <cstdlib>

#include "formats/kernel_abi.h"
#include "tests/unit/runtime/fixture.h"

namespace nacre::test {
namespace {

Size bytes(int64_t n) { return Size::constant(n); }

struct Outcome {
  nacre_status status;
  std::string message;
};

template <typename In, typename Out>
Outcome run(Opened& opened, std::vector<In>& in, std::vector<Out>& out, nacre_dtype dtype) {
  const std::vector<int64_t> shape = {static_cast<int64_t>(in.size())};
  const nacre_tensor input = tensor(in.data(), shape, dtype);
  const nacre_buffer output = {out.data(), out.size() * sizeof(Out)};
  const nacre_status status = nacre_run(opened.session, 0, &input, 1, &output, 1);
  return {status, opened.message()};
}

nacre_session_options threads(uint32_t count) {
  nacre_session_options options = {};
  options.threads = count;
  return options;
}

TEST(Program, RunsForEachShapeAndThreadCount) {
  for (const uint32_t count : {1u, 2u, 3u, 7u}) {
    Opened opened(scale_artifact(), threads(count));
    for (const int64_t rows : {2, 64, 2, 10, 10}) {
      const std::vector<int64_t> shape = {rows, 4};
      std::vector<float> x(static_cast<std::size_t>(rows) * 4), y(x.size());
      for (std::size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(i);
      const nacre_tensor in = tensor(x.data(), shape, NACRE_f32);
      const nacre_buffer out = {y.data(), y.size() * 4};
      ASSERT_EQ(nacre_run(opened.session, 0, &in, 1, &out, 1), NACRE_OK) << opened.message();
      for (std::size_t i = 0; i < x.size(); ++i) ASSERT_EQ(y[i], 4 * x[i]);
    }
  }
}

// sum(x: f32[100]) in two phases, with `most` threads at most.
fmt::Artifact sum_artifact(uint32_t most) {
  fmt::Artifact a = parts();
  fmt::Entry e = empty_entry("sum");
  e.inputs = {{"x", NACRE_f32, 0, {Size::constant(100)}, {}}};
  e.outputs = {{"y", NACRE_f32, 0, {Size::constant(1)}, {}}};
  fmt::Variant& v = e.variants[0];
  v.guards = typed(0, NACRE_f32, 1);
  v.guards.push_back({NACRE_GUARD_equal, 0, 0, 0, 100, 0});
  v.nodes = constant_count(100);
  v.slots = {slot(NACRE_SLOT_INPUT, 0, {}, bytes(400)), slot(NACRE_SLOT_ARENA, 0, {}, bytes(1024)),
             slot(NACRE_SLOT_OUTPUT, 0, {}, bytes(4))};
  v.arena_size = bytes(1024);
  fmt::Command c = call(kSum, {0, 1, 2}, NACRE_COMMAND_TEAM);
  c.threads = most;
  v.commands = {c, c, c, end()};
  a.entries = {e};
  return a;
}

TEST(Program, KernelsMeetAtTheirOwnBarriers) {
  for (const uint32_t count : {1u, 2u, 4u, 5u}) {
    for (const uint32_t most : {0u, 1u, 3u}) {
      Opened opened(sum_artifact(most), threads(count));
      std::vector<float> x(100, 1.0f), y(1);
      for (int i = 0; i < 200; ++i) {
        x[static_cast<std::size_t>(i) % 100] += 1.0f;
        ASSERT_EQ(run(opened, x, y, NACRE_f32).status, NACRE_OK);
        ASSERT_EQ(y[0], 101.0f + static_cast<float>(i));
      }
    }
  }
}

TEST(Program, GivesEachThreadItsScratch) {
  fmt::Artifact a = parts();
  fmt::Entry e = empty_entry("mark");
  e.outputs = {{"y", NACRE_u8, 0, {Size::constant(8)}, {}}};
  fmt::Variant& v = e.variants[0];
  v.slots = {slot(NACRE_SLOT_OUTPUT, 0, {}, bytes(8))};
  v.commands = {call(kMark, {0}, NACRE_COMMAND_TEAM), end()};
  v.commands[0].scratch = bytes(64);
  a.entries = {e};
  Opened opened(a, threads(5));
  std::vector<uint8_t> y(8);
  const nacre_buffer out = {y.data(), 8};
  ASSERT_EQ(nacre_run(opened.session, 0, nullptr, 0, &out, 1), NACRE_OK) << opened.message();
  EXPECT_EQ(y, (std::vector<uint8_t>{6, 6, 6, 6, 6, 0, 0, 0}));
  nacre_memory_info memory;
  nacre_session_memory(opened.session, &memory);
  EXPECT_EQ(memory.used_bytes, 5u * 64);
}

// forward(index: i64[8]) -> f32[8], from a table of 4 weights.
fmt::Artifact gather_artifact() {
  static const float table[4] = {10, 11, 12, 13};
  fmt::Artifact a = parts();
  a.weights = {{"table", NACRE_f32, {4}, {reinterpret_cast<const uint8_t*>(table), sizeof table}}};
  fmt::Entry e = empty_entry("gather");
  e.inputs = {{"index", NACRE_i64, 0, {Size::constant(8)}, {}}};
  e.outputs = {{"y", NACRE_f32, 0, {Size::constant(8)}, {}}};
  fmt::Variant& v = e.variants[0];
  v.guards = typed(0, NACRE_i64, 1);
  v.guards.push_back({NACRE_GUARD_equal, 0, 0, 0, 8, 0});
  v.nodes = constant_count(8);
  v.slots = {slot(NACRE_SLOT_WEIGHT, 0, {}, bytes(16)), slot(NACRE_SLOT_INPUT, 0, {}, bytes(64)),
             slot(NACRE_SLOT_OUTPUT, 0, {}, bytes(32)), slot(NACRE_SLOT_ARENA, 0, {}, bytes(32))};
  v.arena_size = bytes(64);
  v.commands = {call(kGather, {0, 1, 3}, 0), call(kScale, {3, 2}), call(kScale, {2, 3}), end()};
  a.entries = {e};
  return a;
}

TEST(Program, ReadsWeightsInPlace) {
  Opened opened(gather_artifact());
  std::vector<int64_t> index = {0, 1, 2, 3, 3, 2, 1, 0};
  std::vector<float> y(8);
  ASSERT_EQ(run(opened, index, y, NACRE_i64).status, NACRE_OK) << opened.message();
  EXPECT_EQ(y, (std::vector<float>{20, 22, 24, 26, 26, 24, 22, 20}));
}

TEST(Program, DataErrorNamesTheOperatorAndItsLine) {
  for (const uint32_t count : {1u, 2u, 3u}) {
    Opened opened(gather_artifact(), threads(count));
    std::vector<int64_t> index = {0, 1, 2, 3, 3, 2, 1, 0};
    std::vector<float> y(8);
    for (int i = 0; i < 100; ++i) {
      const std::size_t at = static_cast<std::size_t>(i) % 8;
      const int64_t good = index[at];
      index[at] = 4;
      const Outcome bad = run(opened, index, y, NACRE_i64);
      EXPECT_EQ(bad.status, NACRE_DATA_ERROR);
      EXPECT_EQ(bad.message, "index out of range in aten.index.Tensor (model.py:42, block.second)");
      index[at] = good;
      EXPECT_EQ(run(opened, index, y, NACRE_i64).status, NACRE_OK);
      EXPECT_EQ(y[0], 20.0f);
    }
  }
}

TEST(Program, ReportsTheFirstOfSeveralErrors) {
  fmt::Artifact a = gather_artifact();
  // A later command fails, too, for what the first left.
  a.entries[0].variants[0].commands.insert(a.entries[0].variants[0].commands.begin() + 1,
                                           call(kGather, {0, 1, 3}, 0));
  a.entries[0].variants[0].commands[1].provenances = {0};
  Opened opened(a, threads(2));
  std::vector<int64_t> index(8, 9);
  std::vector<float> y(8);
  for (int i = 0; i < 50; ++i) {
    EXPECT_EQ(run(opened, index, y, NACRE_i64).message,
              "index out of range in aten.index.Tensor (model.py:42, block.second)");
  }
}

// y = a / b
TEST(Program, DivisionByZeroIsADataError) {
  fmt::Artifact a = parts();
  fmt::Entry e = empty_entry("divide");
  e.inputs = {{"a", NACRE_i64, 0, {}, {}}, {"b", NACRE_i64, 0, {}, {}}};
  e.outputs = {{"y", NACRE_i64, 0, {}, {}}};
  fmt::Variant& v = e.variants[0];
  v.guards = typed(0, NACRE_i64, 0);
  for (const auto& guard : typed(1, NACRE_i64, 0)) v.guards.push_back(guard);
  v.slots = {slot(NACRE_SLOT_INPUT, 0, {}, bytes(8)), slot(NACRE_SLOT_INPUT, 1, {}, bytes(8)),
             slot(NACRE_SLOT_OUTPUT, 0, {}, bytes(8))};
  v.commands = {call(kDivide, {0, 1, 2}), end()};
  v.commands[0].threads = 1;
  v.commands[0].provenances.clear();  // then the kernel's are named
  a.entries = {e};
  Opened opened(a, threads(2));
  int64_t x = 7, d = 2, y = 0;
  nacre_tensor in[2] = {tensor(&x, {}, NACRE_i64), tensor(&d, {}, NACRE_i64)};
  const nacre_buffer out = {&y, 8};
  ASSERT_EQ(nacre_run(opened.session, 0, in, 2, &out, 1), NACRE_OK);
  EXPECT_EQ(y, 3);
  d = 0;
  EXPECT_EQ(nacre_run(opened.session, 0, in, 2, &out, 1), NACRE_DATA_ERROR);
  EXPECT_EQ(opened.message(),
            "integer division by zero in aten.mul.Tensor (model.py:41, block.first)");
}

// A counter in the arena runs up to the input: loop: less; branch; count; jump.
TEST(Program, Loops) {
  fmt::Artifact a = parts();
  fmt::Entry e = empty_entry("loop");
  e.inputs = {{"limit", NACRE_i64, 0, {Size::constant(1)}, {}}};
  e.outputs = {{"y", NACRE_i64, 0, {Size::constant(1)}, {}}};
  static const uint8_t zero[8] = {};
  a.weights = {{"zero", NACRE_i64, {1}, zero}};
  fmt::Variant& v = e.variants[0];
  v.guards = typed(0, NACRE_i64, 1);
  v.guards.push_back({NACRE_GUARD_equal, 0, 0, 0, 1, 0});
  v.slots = {slot(NACRE_SLOT_INPUT, 0, {}, bytes(8)), slot(NACRE_SLOT_OUTPUT, 0, {}, bytes(8)),
             slot(NACRE_SLOT_ARENA, 0, bytes(0), bytes(8)),
             slot(NACRE_SLOT_ARENA, 0, bytes(64), bytes(1)),
             slot(NACRE_SLOT_WEIGHT, 0, {}, bytes(8))};
  v.arena_size = bytes(128);
  fmt::Command copy, loop, branch, jump, less = call(kLess, {2, 0, 3}),
                                         count = call(kCount, {2, 1});
  less.threads = count.threads = 1;
  copy.kind = NACRE_COMMAND_copy;
  copy.operands = {2, 4};
  loop.kind = NACRE_COMMAND_loop;
  branch.kind = NACRE_COMMAND_branch;
  branch.flags = NACRE_COMMAND_BARRIER;
  branch.operands = {3};
  branch.target = 6;
  jump.kind = NACRE_COMMAND_jump;
  jump.target = 1;
  v.commands = {copy, loop, less, branch, count, jump, end()};
  a.entries = {e};
  for (const uint32_t n : {1u, 2u, 3u}) {
    Opened opened(a, threads(n));
    std::vector<int64_t> limit = {500}, y = {-1};
    ASSERT_EQ(run(opened, limit, y, NACRE_i64).status, NACRE_OK) << opened.message();
    EXPECT_EQ(y[0], 500);
  }
}

// y = 2 * the first 4*u0 numbers of a weight, u0 the value of the input, which must lie in [0, 8], and below 7.
fmt::Artifact bound_artifact() {
  static const std::vector<float> ones(32, 1.0f);
  fmt::Artifact a = parts();
  a.symbols = {{"u0", 0, 8, 1}};
  a.weights = {{"ones", NACRE_f32, {32}, {reinterpret_cast<const uint8_t*>(ones.data()), 128}}};
  fmt::Entry e = empty_entry("bound");
  e.inputs = {{"n", NACRE_i64, 0, {Size::constant(1)}, {}}};
  e.outputs = {{"y", NACRE_f32, 0, {Size::node(0), Size::constant(4)}, {}}};
  e.outputs[0].bounds = {Size::constant(8), Size::constant(4)};
  fmt::Variant& v = e.variants[0];
  v.guards = typed(0, NACRE_i64, 1);
  v.guards.push_back({NACRE_GUARD_equal, 0, 0, 0, 1, 0});
  v.nodes = {{NACRE_EXPR_symbol, 0, 0}, {NACRE_EXPR_constant, 0, 4}, {NACRE_EXPR_mul, 0, 1},
             {NACRE_EXPR_constant, 0, 7}, {NACRE_EXPR_lt, 0, 3}};
  e.nodes = v.nodes;
  v.nodes.clear();
  v.slots = {slot(NACRE_SLOT_INPUT, 0, {}, bytes(8)), slot(NACRE_SLOT_WEIGHT, 0, {}, bytes(128)),
             slot(NACRE_SLOT_OUTPUT, 0, {}, bytes(128))};
  fmt::Command bind, check;
  bind.kind = NACRE_COMMAND_bind;
  bind.operands = {0};
  check.kind = NACRE_COMMAND_check;
  check.target = 4;
  check.flags = NACRE_COMMAND_BARRIER;
  bind.provenances = check.provenances = {0};
  v.commands = {bind, check, call(kScale, {1, 2}), end()};
  a.entries = {e};
  return a;
}

TEST(Program, BindsASymbolToWhatTheDataSay) {
  for (const uint32_t threads_used : {1u, 3u}) {
    Opened opened(bound_artifact(), threads(threads_used));
    std::vector<int64_t> n = {3};
    for (const int64_t rows : {3, 0, 6, 3}) {
      n[0] = rows;
      const std::vector<int64_t> shape = {1};
      const nacre_tensor in = tensor(n.data(), shape, NACRE_i64);
      ASSERT_EQ(nacre_session_prepare(opened.session, 0, &in, 1), NACRE_OK);
      EXPECT_EQ(nacre_output_shape(opened.session, 0)[0], 8);
      EXPECT_EQ(nacre_output_size_bytes(opened.session, 0), 128u);
      std::vector<float> y(32, -1.0f);
      ASSERT_EQ(run(opened, n, y, NACRE_i64).status, NACRE_OK) << opened.message();
      EXPECT_EQ(nacre_output_shape(opened.session, 0)[0], rows);
      EXPECT_EQ(nacre_output_size_bytes(opened.session, 0), 128u);
      for (std::size_t i = 0; i < y.size(); ++i)
        ASSERT_EQ(y[i], i < static_cast<std::size_t>(rows) * 4 ? 2.0f : -1.0f);
    }
  }
}

// Memory is planned before the run. A hostile artifact whose slots grow with what the data say gets no more of it.
TEST(Program, KeepsSlotsWhereTheyWerePlanned) {
  fmt::Artifact a = bound_artifact();
  fmt::Variant& v = a.entries[0].variants[0];
  // Node 2 is 4*u0: 4 before the run, then 32, as size and as offset.
  v.slots = {slot(NACRE_SLOT_INPUT, 0, {}, bytes(8)), slot(NACRE_SLOT_WEIGHT, 0, {}, bytes(128)),
             slot(NACRE_SLOT_OUTPUT, 0, Size::node(2), Size::node(2))};
  a.entries[0].outputs[0].bounds.clear();
  a.entries[0].outputs[0].dims = {Size::constant(2), Size::constant(1)};
  fmt::Command copy;
  copy.kind = NACRE_COMMAND_copy;
  copy.operands = {2, 1};
  copy.flags = NACRE_COMMAND_BARRIER;
  v.commands = {v.commands[0], copy, end()};
  Opened opened(a);
  std::vector<int64_t> n = {8};
  std::vector<float> y(32, -1.0f);
  const std::vector<int64_t> shape = {1};
  const nacre_tensor in = tensor(n.data(), shape, NACRE_i64);
  const nacre_buffer out = {y.data(), 8};
  for (int i = 0; i < 2; ++i) {
    ASSERT_EQ(nacre_run(opened.session, 0, &in, 1, &out, 1), NACRE_OK) << opened.message();
    EXPECT_EQ(y[0], -1.0f);
    EXPECT_EQ(y[1], 1.0f);
    for (std::size_t j = 2; j < y.size(); ++j) ASSERT_EQ(y[j], -1.0f);
  }
}

TEST(Program, SaysWhatASymbolMustBe) {
  for (const uint32_t threads_used : {1u, 3u}) {
    Opened opened(bound_artifact(), threads(threads_used));
    std::vector<int64_t> n = {9};
    std::vector<float> y(32);
    EXPECT_EQ(run(opened, n, y, NACRE_i64).status, NACRE_DATA_ERROR);
    EXPECT_EQ(opened.message(), "u0 is 9, and must be at most 8 in aten.mul.Tensor (model.py:41, block.first)");
    n[0] = -1;
    EXPECT_EQ(run(opened, n, y, NACRE_i64).status, NACRE_DATA_ERROR);
    EXPECT_EQ(opened.message(), "u0 is -1, and must be at least 0 in aten.mul.Tensor (model.py:41, block.first)");
    n[0] = 7;
    EXPECT_EQ(run(opened, n, y, NACRE_i64).status, NACRE_DATA_ERROR);
    EXPECT_EQ(opened.message(), "assertion failed: u0 < 7 in aten.mul.Tensor (model.py:41, block.first)");
    n[0] = 2;
    EXPECT_EQ(run(opened, n, y, NACRE_i64).status, NACRE_OK);
    EXPECT_EQ(y[7], 2.0f);
  }
}

TEST(Program, CopiesInPartsAndWritesBackToMutatedInputs) {
  for (const int64_t size : {0, 1, 63, 64, 65, 4096, 100001}) {
    fmt::Artifact a = parts();
    fmt::Entry e = empty_entry("copy");
    e.inputs = {{"x", NACRE_u8, NACRE_TENSOR_MUTATED, {Size::constant(size)}, {}}};
    e.outputs = {{"y", NACRE_u8, 0, {Size::constant(size)}, {}}};
    std::vector<uint8_t> ones(static_cast<std::size_t>(size), 1);
    a.weights = {{"ones", NACRE_u8, {size}, ones}};
    fmt::Variant& v = e.variants[0];
    v.guards = typed(0, NACRE_u8, 1);
    v.guards.push_back({NACRE_GUARD_equal, 0, 0, 0, size, 0});
    v.slots = {slot(NACRE_SLOT_INPUT, 0, {}, bytes(size)),
               slot(NACRE_SLOT_OUTPUT, 0, {}, bytes(size)),
               slot(NACRE_SLOT_WEIGHT, 0, {}, bytes(size))};
    fmt::Command out, back;
    out.kind = back.kind = NACRE_COMMAND_copy;
    out.operands = {1, 0};
    back.operands = {0, 2};
    back.flags = NACRE_COMMAND_BARRIER;
    v.commands = {out, back, end()};
    a.entries = {e};
    for (const uint32_t n : {1u, 2u, 3u}) {
      Opened opened(a, threads(n));
      std::vector<uint8_t> x(static_cast<std::size_t>(size)), y(x.size());
      for (std::size_t i = 0; i < x.size(); ++i) x[i] = static_cast<uint8_t>(i * 31);
      const std::vector<uint8_t> before = x;
      ASSERT_EQ(run(opened, x, y, NACRE_u8).status, NACRE_OK) << opened.message();
      EXPECT_EQ(y, before);
      EXPECT_EQ(x, ones);
    }
  }
}

// The second command of the scale artifact is an import, which the application is told all about.
fmt::Artifact import_artifact() {
  fmt::Artifact a = scale_artifact();
  a.imports = {{"mylib::scale", R"({"by":3,"text":"a \"by\": b"})", 1}};
  fmt::Variant& v = a.entries[0].variants[0];
  v.commands[1].kind = NACRE_COMMAND_import;
  v.commands[1].target = 0;
  const std::vector<Size> dims = {Size::node(4), Size::constant(4)};
  v.slot_tensors = {{"x", NACRE_f32, 0, dims, {}}, {"t", NACRE_f32, 0, dims, {}}, {"y", NACRE_f32, 0, dims, {}}};
  return a;
}

struct Seen {
  std::atomic<int> calls = 0;
  std::vector<int64_t> shapes;
  std::string name, text;
};

int32_t scale(void* user, const nacre_import_call* call) {
  auto* seen = static_cast<Seen*>(user);
  ++seen->calls;
  seen->name = call->name;
  seen->text = nacre_import_argument(call, "text");
  if (call->input_count != 1 || call->output_count != 1 || nacre_import_argument(call, "b") != nullptr) return 1;
  int64_t count = 1;
  seen->shapes.clear();
  for (const nacre_tensor* t : {&call->inputs[0], &call->outputs[0]}) {
    if (t->dtype != NACRE_f32 || t->strides != nullptr) return 2;
    count = 1;
    for (uint32_t d = 0; d < t->rank; ++d) {
      seen->shapes.push_back(t->shape[d]);
      count *= t->shape[d];
    }
  }
  const auto* x = static_cast<const float*>(call->inputs[0].data);
  auto* y = static_cast<float*>(call->outputs[0].data);
  const auto by = static_cast<float>(std::strtod(nacre_import_argument(call, "by"), nullptr));
  if (x[0] < 0) return 7;
  for (int64_t i = 0; i < count; ++i) y[i] = by * x[i];
  return 0;
}

nacre_open_options with(const nacre_import& import) {
  nacre_open_options open = {};
  open.imports = &import;
  open.import_count = 1;
  return open;
}

TEST(Program, CallsTheApplicationOnOneThread) {
  Seen seen;
  const nacre_import import = {"mylib::scale", scale, &seen};
  Opened opened(import_artifact(), threads(3), with(import));
  for (const int64_t rows : {2, 6}) {
    const std::vector<int64_t> shape = {rows, 4};
    std::vector<float> x(static_cast<std::size_t>(rows) * 4, 1.0f), y(x.size());
    const nacre_tensor in = tensor(x.data(), shape, NACRE_f32);
    const nacre_buffer out = {y.data(), y.size() * 4};
    seen.calls = 0;
    ASSERT_EQ(nacre_run(opened.session, 0, &in, 1, &out, 1), NACRE_OK) << opened.message();
    EXPECT_EQ(y.back(), 6.0f);
    EXPECT_EQ(seen.calls, 1);
    EXPECT_EQ(seen.shapes, (std::vector<int64_t>{rows, 4, rows, 4}));
    EXPECT_EQ(seen.name, "mylib::scale");
    EXPECT_EQ(seen.text, R"("a \"by\": b"})");
    x[0] = -1;
    EXPECT_EQ(nacre_run(opened.session, 0, &in, 1, &out, 1), NACRE_DATA_ERROR);
    EXPECT_EQ(opened.message(), "the application's function 'mylib::scale' returned 7 in aten.mul.Tensor (model.py:41, block.first)");
  }
}

TEST(Program, RefusesShapesThatAreLargerThanTheirMemory) {
  fmt::Artifact a = import_artifact();
  a.entries[0].variants[0].slot_tensors[2].dims[1] = Size::constant(5);
  Seen seen;
  const nacre_import import = {"mylib::scale", scale, &seen};
  Opened opened(a, threads(1), with(import));
  std::vector<float> x(8, 1.0f), y(8);
  const std::vector<int64_t> shape = {2, 4};
  const nacre_tensor in = tensor(x.data(), shape, NACRE_f32);
  const nacre_buffer out = {y.data(), 32};
  EXPECT_EQ(nacre_run(opened.session, 0, &in, 1, &out, 1), NACRE_DATA_ERROR);
  EXPECT_EQ(seen.calls, 0);
}

TEST(Program, KeepsTimesWhenAsked) {
  nacre_session_options options = threads(2);
  options.profile = 1;
  fmt::Artifact a = scale_artifact();
  a.entries[0].variants[0].commands[0].flops = Size::node(2);
  Opened opened(a, options);
  const std::vector<int64_t> shape = {2, 4};
  std::vector<float> x(8, 1.0f), y(8);
  const nacre_tensor in = tensor(x.data(), shape, NACRE_f32);
  const nacre_buffer out = {y.data(), 32};
  for (int i = 0; i < 5; ++i) ASSERT_EQ(nacre_run(opened.session, 0, &in, 1, &out, 1), NACRE_OK);
  nacre_profile_record record;
  ASSERT_EQ(nacre_profile(opened.session, 0, &record), NACRE_OK);
  EXPECT_EQ(record.calls, 5u);
  EXPECT_GT(record.time_ns, 0u);
  EXPECT_EQ(record.flops, 8);
  ASSERT_EQ(nacre_profile(opened.session, 1, &record), NACRE_OK);
  EXPECT_EQ(record.calls, 5u);
  EXPECT_EQ(nacre_profile(opened.session, 3, &record), NACRE_NOT_FOUND);
  nacre_profile_clear(opened.session);
  ASSERT_EQ(nacre_profile(opened.session, 0, &record), NACRE_OK);
  EXPECT_EQ(record.calls, 0u);
}

}  // namespace
}  // namespace nacre::test
