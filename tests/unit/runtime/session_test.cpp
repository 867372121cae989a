// Memory and state of sessions.
#include <dlfcn.h>
#include <malloc.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iterator>

#include "tests/unit/runtime/fixture.h"

// Counts what is allocated while it is on, by whatever way. Sanitizers bring their own allocator,
// which must stay.
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
#define NACRE_COUNTS_ALLOCATIONS 1
static std::atomic<bool> counting = false;
static std::atomic<int> allocations = 0;
extern "C" {
void* __libc_malloc(std::size_t);
void* __libc_calloc(std::size_t, std::size_t);
void* __libc_realloc(void*, std::size_t);
void* __libc_memalign(std::size_t, std::size_t);
void* malloc(std::size_t size) {
  if (counting) ++allocations;
  return __libc_malloc(size);
}
void* calloc(std::size_t count, std::size_t size) {
  if (counting) ++allocations;
  return __libc_calloc(count, size);
}
void* realloc(void* memory, std::size_t size) {
  if (counting) ++allocations;
  return __libc_realloc(memory, size);
}
int posix_memalign(void** result, std::size_t align, std::size_t size) {
  if (counting) ++allocations;
  *result = __libc_memalign(align, size);
  return *result ? 0 : 12;
}
void* aligned_alloc(std::size_t align, std::size_t size) {
  if (counting) ++allocations;
  return __libc_memalign(align, size);
}
}
#endif

namespace nacre::test {
namespace {

struct Call {
  explicit Call(int64_t rows)
      : shape{rows, 4}, x(static_cast<std::size_t>(rows) * 4, 1.0f), y(x.size()) {
    in = tensor(x.data(), shape, NACRE_f32);
    out = {y.data(), y.size() * 4};
  }
  nacre_status run(nacre_session* session) { return nacre_run(session, 0, &in, 1, &out, 1); }
  std::vector<int64_t> shape;
  std::vector<float> x, y;
  nacre_tensor in;
  nacre_buffer out;
};

// Without limits on its symbol.
fmt::Artifact unlimited() {
  fmt::Artifact a = scale_artifact();
  a.symbols[0].max = INT64_MAX;
  a.entries[0].variants[0].guards[2].hi = INT64_MAX;
  a.entries[0].variants[0].arena_bound = 0;
  return a;
}

// What the runtime itself takes beside arena, scratch and state, printed beside what was recorded (with addresses of 64 bits
// and one thread). Fixed shapes: the same for a program of one call and one of many.
TEST(Session, IsSmallWhateverTheProgram) {
  for (const std::size_t calls : {1, 500}) {
    fmt::Artifact a = scale_artifact();
    fmt::Variant& v = a.entries[0].variants[0];
    v.guards = typed(0, NACRE_f32, 2);
    v.guards.push_back({NACRE_GUARD_equal, 0, 0, 0, 4, 0});
    v.guards.push_back({NACRE_GUARD_equal, 0, 1, 0, 4, 0});
    a.symbols.clear();
    a.entries[0].inputs[0].dims = a.entries[0].outputs[0].dims = {Size::constant(4), Size::constant(4)};
    a.entries[0].nodes = constant_count(16);
    v.nodes.clear();
    v.slots = {slot(NACRE_SLOT_INPUT, 0, {}, Size::constant(64)), slot(NACRE_SLOT_OUTPUT, 0, {}, Size::constant(64))};
    v.arena_size = Size::constant(64);
    v.commands.assign(calls, call(kScale, {0, 1}));
    v.commands.push_back(end());
    const Opened opened(a);
    nacre_memory_info info;
    nacre_session_memory(opened.session, &info);
    std::printf("a session, %zu commands: %zu bytes beside its arena, recorded %d\n", calls, info.session_bytes, 896);
    EXPECT_LE(info.session_bytes, 2048u);
  }
  // Sizes that are known at the call alone: the values of their expressions, and of recent shapes as many as there is room for.
  // Expressions that only a profile looks at take no room.
  for (const uint32_t expressions : {1, 40, 80, 120}) {
    fmt::Artifact a = scale_artifact();
    fmt::Variant& v = a.entries[0].variants[0];
    const auto node = static_cast<uint32_t>(a.entries[0].nodes.size() + v.nodes.size());
    for (uint32_t i = 0; i < expressions; ++i) v.nodes.push_back({NACRE_EXPR_add, node + i - 1, 0});
    for (uint32_t i = 0; i < 500; ++i) v.nodes.push_back({NACRE_EXPR_add, node + expressions + i - 1, 0});
    v.spare_nodes = 500;
    const Opened opened(a);
    nacre_memory_info info;
    nacre_session_memory(opened.session, &info);
    std::printf("a session with dynamic shapes, %u expressions: %zu bytes beside its arena\n", expressions, info.session_bytes);
    EXPECT_LE(info.session_bytes, 2048u);
  }
}

// Values that only profiles need are computed for a session that profiles, and for no other.
TEST(Session, KnowsWhatOnlyProfilesNeed) {
  fmt::Artifact a = scale_artifact();
  fmt::Variant& v = a.entries[0].variants[0];
  const auto node = static_cast<uint32_t>(a.entries[0].nodes.size() + v.nodes.size());
  v.nodes.push_back({NACRE_EXPR_add, 0, 0});
  v.spare_nodes = 1;
  v.commands[0].flops = Size::node(node);
  nacre_session_options options = {};
  options.profile = 1;
  const Opened opened(a, options);
  Call call(4);
  ASSERT_EQ(call.run(opened.session), NACRE_OK) << opened.message();
  nacre_profile_record record;
  ASSERT_EQ(nacre_profile(opened.session, 0, &record), NACRE_OK);
  EXPECT_EQ(record.flops, 4);
}

// With addresses of 32 bits, 4 GiB and a few bytes must not become a few bytes.
TEST(Session, RefusesMemoryThatAddressesDoNotReach) {
  if (sizeof(void*) > 4) GTEST_SKIP() << "addresses of 64 bits reach all that an artifact may ask for";
  const int64_t large = (int64_t{1} << 32) + 64;
  fmt::Artifact arena = scale_artifact(), scratch = arena, state = arena;
  arena.entries[0].variants[0].arena_size = Size::constant(large);
  scratch.entries[0].variants[0].commands[0].scratch = Size::constant(large);
  for (const fmt::Artifact& artifact : {arena, scratch}) {
    const Opened opened(artifact);
    Call call(2);
    EXPECT_EQ(call.run(opened.session), NACRE_BAD_ARTIFACT);
    EXPECT_EQ(opened.message(), "the sizes in the artifact do not fit these inputs");
  }
  state.states = {{"s", NACRE_u8, {large}, static_cast<uint64_t>(large), -1}};
  Aligned bytes(fmt::artifact_bytes(state));
  nacre_model* model = nullptr;
  nacre_session* session = nullptr;
  ASSERT_EQ(nacre_model_open_memory(bytes.data(), bytes.size(), nullptr, &model, nullptr), NACRE_OK);
  EXPECT_EQ(nacre_session_size_bytes(model, nullptr), SIZE_MAX);
  EXPECT_EQ(nacre_session_make(model, nullptr, nullptr, 0, &session), NACRE_OUT_OF_MEMORY);
  nacre_model_close(model);
}

#ifdef NACRE_COUNTS_ALLOCATIONS
TEST(Session, DoesNotAllocateDuringRuns) {
  for (const uint32_t threads : {1u, 2u}) {
    nacre_session_options options = {};
    options.threads = threads;
    options.profile = 1;
    Opened opened(scale_artifact(), options);
    Call small(2), large(64), odd(7);
    allocations = 0;
    counting = true;
    nacre_status status = NACRE_OK, miss = NACRE_OK;
    for (int i = 0; i < 100 && !status; ++i) {
      status = (i % 2 ? small : large).run(opened.session);
      miss = odd.run(opened.session);
    }
    counting = false;
    EXPECT_EQ(status, NACRE_OK);
    EXPECT_EQ(miss, NACRE_GUARD_MISS);
    EXPECT_EQ(allocations, 0);
  }
}

TEST(Session, AllocatesOnceForALargerArenaUnlessReserved) {
  Opened opened(unlimited());
  Call call(1000), larger(2000);
  allocations = 0;
  counting = true;
  EXPECT_EQ(call.run(opened.session), NACRE_OK);
  EXPECT_EQ(allocations, 1);
  EXPECT_EQ(call.run(opened.session), NACRE_OK);
  EXPECT_EQ(allocations, 1);
  EXPECT_EQ(nacre_session_reserve(opened.session, 0, &larger.in, 1), NACRE_OK);
  EXPECT_EQ(allocations, 2);
  EXPECT_EQ(larger.run(opened.session), NACRE_OK);
  EXPECT_EQ(call.run(opened.session), NACRE_OK);
  EXPECT_EQ(larger.run(opened.session), NACRE_OK);
  counting = false;
  EXPECT_EQ(allocations, 2);
  EXPECT_EQ(larger.y.back(), 4.0f);
}

TEST(Session, RunsThroughAThousandShapesWithoutAllocating) {
  nacre_session_options options = {};
  options.record_shapes = 2000;
  Opened opened(unlimited(), options);
  Call call(2000);
  ASSERT_EQ(nacre_session_reserve(opened.session, 0, &call.in, 1), NACRE_OK);
  allocations = 0;
  counting = true;
  int failures = 0;
  for (int64_t rows = 2000; rows >= 2; rows -= 2) {
    call.shape[0] = rows;
    failures += call.run(opened.session) != NACRE_OK;
  }
  counting = false;
  EXPECT_EQ(failures, 0);
  EXPECT_EQ(allocations, 0);
  nacre_shape_record record;
  char inputs[64];
  ASSERT_EQ(nacre_session_shapes(opened.session, 999, &record, inputs, sizeof inputs), NACRE_OK);
  EXPECT_STREQ(inputs, "x: [2, 4]");
  EXPECT_EQ(nacre_session_shapes(opened.session, 1000, &record, nullptr, 0), NACRE_NOT_FOUND);
}
#endif

TEST(Session, FixedMemorySaysWhatItNeeds) {
  nacre_session_options options = {};
  options.fixed_memory = 1;
  options.arena_bytes = 1024;
  Opened opened(unlimited(), options);
  Call fits(64), larger(66);
  EXPECT_EQ(fits.run(opened.session), NACRE_OK);
  EXPECT_EQ(larger.run(opened.session), NACRE_OUT_OF_MEMORY);
  EXPECT_EQ(opened.message(),
            "these shapes need an arena of 1088 bytes, and this session's has 1024");
  EXPECT_EQ(larger.y[0], 0.0f);
  EXPECT_EQ(fits.run(opened.session), NACRE_OK);
}

// What failed is said in the arena, which the next call works with, and which holds a message even where no buffer needs it.
TEST(Session, SaysWhatFailedUntilTheNextCall) {
  fmt::Artifact small = scale_artifact();
  fmt::Variant& v = small.entries[0].variants[0];
  v.slots.erase(v.slots.begin() + 1);
  v.commands = {call(kScale, {0, 1}, 0), end()};
  v.arena_size = Size::constant(0);
  v.arena_bound = 0;
  const std::pair<fmt::Artifact, float> cases[] = {{scale_artifact(), 4.0f}, {unlimited(), 4.0f}, {small, 2.0f}};
  for (const auto& [artifact, factor] : cases) {
    Opened opened(artifact);
    nacre_memory_info info;
    nacre_session_memory(opened.session, &info);
    EXPECT_GE(info.arena_bytes, 384u);
    Call good(64), odd(7);
    EXPECT_EQ(opened.message(), "");
    for (int i = 0; i < 3; ++i) {
      EXPECT_EQ(odd.run(opened.session), NACRE_GUARD_MISS);
      EXPECT_NE(opened.message().find("input 'x' dimension 0 is 7"), std::string::npos) << opened.message();
      ASSERT_EQ(good.run(opened.session), NACRE_OK);
      EXPECT_EQ(opened.message(), "");
      EXPECT_EQ(good.y[255], good.x[255] * factor);
      EXPECT_EQ(nacre_session_load(opened.session, "/no/such/file"), NACRE_IO_ERROR);
      EXPECT_NE(opened.message().find("/no/such/file"), std::string::npos) << opened.message();
    }
  }
}

TEST(Session, LivesInTheCallersMemory) {
  Aligned bytes(fmt::artifact_bytes(scale_artifact()));
  nacre_model* model = nullptr;
  ASSERT_EQ(nacre_model_open_memory(bytes.data(), bytes.size(), nullptr, &model, nullptr),
            NACRE_OK);
  const std::size_t size = nacre_session_size_bytes(model, nullptr);
  Aligned memory(std::vector<uint8_t>(size + 64, 0xee));
  nacre_session* session = nullptr;
  EXPECT_EQ(nacre_session_make(model, nullptr, memory.data(), size - 1, &session),
            NACRE_OUT_OF_MEMORY);
  EXPECT_EQ(nacre_session_make(model, nullptr, memory.data() + 8, size, &session),
            NACRE_BAD_ARGUMENT);
  ASSERT_EQ(nacre_session_make(model, nullptr, memory.data(), size, &session), NACRE_OK);
  Call call(64);
  EXPECT_EQ(call.run(session), NACRE_OK);
  EXPECT_EQ(call.y[255], 4.0f);
  for (std::size_t i = size; i < size + 64; ++i) EXPECT_EQ(memory.data()[i], 0xee);
  nacre_session_destroy(session);
  nacre_model_close(model);
}

TEST(Session, ChecksBuffersBeforeItTouchesThem) {
  Opened opened(scale_artifact());
  Call call(4);
  ASSERT_EQ(call.run(opened.session), NACRE_OK);
  call.out.size_bytes = 63;
  EXPECT_EQ(call.run(opened.session), NACRE_BAD_ARGUMENT);
  EXPECT_EQ(opened.message(), "output 0 needs 64 bytes and has 63");
  call.out.size_bytes = 64;
  call.in.data = nullptr;
  EXPECT_EQ(call.run(opened.session), NACRE_BAD_ARGUMENT);
  EXPECT_EQ(opened.message(), "input 0 has no data");
  call.in.data = reinterpret_cast<uint8_t*>(call.x.data()) + 1;
  EXPECT_EQ(call.run(opened.session), NACRE_BAD_ARGUMENT);
  EXPECT_EQ(opened.message(), "input 0 is not aligned for its elements");
  call.in.data = call.x.data();
  EXPECT_EQ(nacre_run(opened.session, 0, &call.in, 1, nullptr, 0), NACRE_BAD_ARGUMENT);
  EXPECT_EQ(opened.message(), "'forward' gives 1 outputs, not 0");
  EXPECT_EQ(call.run(opened.session), NACRE_OK);
}

TEST(Session, RefusesNullWhereSomethingIsNeeded) {
  Opened opened(scale_artifact());
  Call call(4);
  nacre_session* session = nullptr;
  EXPECT_EQ(nacre_session_make(nullptr, nullptr, nullptr, 0, &session), NACRE_BAD_ARGUMENT);
  EXPECT_EQ(nacre_session_make(opened.model, nullptr, nullptr, 0, nullptr), NACRE_BAD_ARGUMENT);
  const nacre_executor nobody = {};
  nacre_session_options options = {};
  options.executor = &nobody;
  EXPECT_EQ(nacre_session_make(opened.model, &options, nullptr, 0, &session), NACRE_BAD_ARGUMENT);
  EXPECT_EQ(session, nullptr);
  EXPECT_EQ(call.run(nullptr), NACRE_BAD_ARGUMENT);
  EXPECT_EQ(nacre_session_prepare(nullptr, 0, &call.in, 1), NACRE_BAD_ARGUMENT);
  EXPECT_EQ(nacre_session_reserve(nullptr, 0, &call.in, 1), NACRE_BAD_ARGUMENT);
  EXPECT_EQ(nacre_run(opened.session, 0, nullptr, 1, &call.out, 1), NACRE_BAD_ARGUMENT);
  EXPECT_EQ(nacre_run(opened.session, 0, &call.in, 1, nullptr, 1), NACRE_BAD_ARGUMENT);
  EXPECT_EQ(nacre_run(opened.session, 7, &call.in, 1, &call.out, 1), NACRE_NOT_FOUND);
  call.in.shape = nullptr;
  EXPECT_EQ(call.run(opened.session), NACRE_BAD_ARGUMENT);
  call.in.shape = call.shape.data();
  EXPECT_EQ(call.run(opened.session), NACRE_OK);
  nacre_session_destroy(nullptr);
}

TEST(Session, RefusesAnArenaLargerThanTheAddressSpace) {
  Opened opened(scale_artifact());
  for (const std::size_t bytes :
       {SIZE_MAX, SIZE_MAX - 64, SIZE_MAX - 128, SIZE_MAX - 4096, SIZE_MAX / 2 + 1}) {
    nacre_session_options options = {};
    options.arena_bytes = bytes;
    EXPECT_GE(nacre_session_size_bytes(opened.model, &options), bytes);
    nacre_session* session = nullptr;
    EXPECT_EQ(nacre_session_make(opened.model, &options, nullptr, 0, &session),
              NACRE_OUT_OF_MEMORY);
    Aligned memory(std::vector<uint8_t>(1 << 16));
    EXPECT_EQ(nacre_session_make(opened.model, &options, memory.data(), memory.size(), &session),
              NACRE_OUT_OF_MEMORY);
  }
}

TEST(Session, MissLeavesOutputsAlone) {
  Opened opened(scale_artifact());
  Call call(4);
  call.shape[0] = 3;
  call.y.assign(call.y.size(), -1.0f);
  EXPECT_EQ(call.run(opened.session), NACRE_GUARD_MISS);
  for (const float value : call.y) EXPECT_EQ(value, -1.0f);
}

TEST(Session, FollowsBuffersThatMove) {
  Opened opened(scale_artifact());
  Call first(8), second(8);
  second.x.assign(32, 5.0f);
  for (int i = 0; i < 4; ++i) {
    ASSERT_EQ(first.run(opened.session), NACRE_OK);
    ASSERT_EQ(second.run(opened.session), NACRE_OK);
    EXPECT_EQ(first.y[31], 4.0f);
    EXPECT_EQ(second.y[31], 20.0f);
    first.y.assign(32, 0.0f);
    second.y.assign(32, 0.0f);
  }
}

// The elements of x as [rows, 4] with other strides.
struct Strided {
  Strided(std::vector<float>& memory, std::vector<int64_t> shape_of_x, std::vector<int64_t> strides)
      : shape(std::move(shape_of_x)), steps(std::move(strides)) {
    in = tensor(memory.data(), shape, NACRE_f32);
    in.strides = steps.data();
  }
  std::vector<int64_t> shape, steps;
  nacre_tensor in;
};

TEST(Session, CopiesInputsWithOtherStrides) {
  nacre_session_options options = {};
  options.profile = 1;
  options.threads = 2;
  Opened opened(scale_artifact(), options);
  std::vector<float> memory(64);
  for (std::size_t i = 0; i < memory.size(); ++i) memory[i] = static_cast<float>(i);
  std::vector<float> y(16);
  const nacre_buffer out = {y.data(), y.size() * 4};
  nacre_profile_record record;
  for (const std::vector<int64_t>& steps :
       std::vector<std::vector<int64_t>>{{1, 4}, {8, 1}, {8, 2}, {0, 1}, {4, 1}, {1, 0}}) {
    Strided x(memory, {4, 4}, steps);
    ASSERT_EQ(nacre_run(opened.session, 0, &x.in, 1, &out, 1), NACRE_OK) << opened.message();
    for (int64_t r = 0; r < 4; ++r)
      for (int64_t c = 0; c < 4; ++c)
        EXPECT_EQ(y[static_cast<std::size_t>(r * 4 + c)],
                  4.0f * static_cast<float>(r * steps[0] + c * steps[1]));
    // What is contiguous is not copied.
    if (steps[0] == 4) continue;
    ASSERT_EQ(nacre_profile(opened.session, NACRE_PROFILE_INPUTS, &record), NACRE_OK);
    EXPECT_EQ(record.bytes, 2 * 64);
  }
  EXPECT_EQ(record.calls, 5u);
  nacre_profile_clear(opened.session);
  EXPECT_EQ(nacre_profile(opened.session, NACRE_PROFILE_INPUTS, &record), NACRE_NOT_FOUND);
}

// More shapes than are kept, in an order in which some come again soon and some late.
TEST(Session, KnowsShapesThatComeAgain) {
  Opened opened(unlimited());
  std::vector<float> memory(128, 1.0f);
  std::vector<float> y(64);
  const nacre_buffer out = {y.data(), y.size() * 4};
  std::vector<Call> calls;
  for (int64_t rows = 2; rows <= 48; rows += 2) calls.emplace_back(rows);
  for (std::size_t turn = 0; turn < 600; ++turn) {
    Call& call = calls[turn * turn / 7 % (turn % 3 ? 5 : calls.size())];
    call.in.shape = call.shape.data();
    call.x.assign(call.x.size(), static_cast<float>(turn));
    ASSERT_EQ(call.run(opened.session), NACRE_OK) << opened.message();
    ASSERT_EQ(call.y.back(), 4.0f * static_cast<float>(turn));
    EXPECT_EQ(nacre_output_shape(opened.session, 0)[0], call.shape[0]);
    EXPECT_EQ(nacre_output_size_bytes(opened.session, 0), call.y.size() * 4);
    if (turn % 5 == 1) {  // the same sizes, but read with other strides
      Strided x(memory, {4, 4}, {8, 2});
      ASSERT_EQ(nacre_run(opened.session, 0, &x.in, 1, &out, 1), NACRE_OK);
      EXPECT_EQ(y[15], 4.0f);
      memory.assign(memory.size(), 1.0f);
    }
    if (turn % 11 == 1) {  // a miss leaves what is known
      Call odd(3);
      EXPECT_EQ(odd.run(opened.session), NACRE_GUARD_MISS);
    }
  }
}

// As scale_artifact(), and x becomes 4 * x, too.
fmt::Artifact scales_in_place() {
  fmt::Artifact a = scale_artifact();
  a.entries[0].inputs[0].flags = NACRE_TENSOR_MUTATED;
  fmt::Variant& v = a.entries[0].variants[0];
  fmt::Command copy = call(0, {0, 2});
  copy.kind = NACRE_COMMAND_copy;
  v.commands.insert(v.commands.end() - 1, copy);
  return a;
}

TEST(Session, CopiesBackWhatACallWroteIntoAnInput) {
  Opened opened(scales_in_place());
  std::vector<float> memory(16), y(8);
  for (std::size_t i = 0; i < memory.size(); ++i) memory[i] = static_cast<float>(i);
  const nacre_buffer out = {y.data(), y.size() * 4};
  Strided x(memory, {2, 4}, {1, 3});
  ASSERT_EQ(nacre_run(opened.session, 0, &x.in, 1, &out, 1), NACRE_OK) << opened.message();
  for (std::size_t i = 0; i < memory.size(); ++i) {
    const bool written = i < 11 && i % 3 < 2;  // r + 3 * c
    EXPECT_EQ(memory[i], (written ? 4.0f : 1.0f) * static_cast<float>(i)) << i;
  }
  Strided repeated(memory, {2, 4}, {0, 1});
  EXPECT_EQ(nacre_run(opened.session, 0, &repeated.in, 1, &out, 1), NACRE_BAD_ARGUMENT);
  EXPECT_EQ(opened.message(), "input 0 is written into, and several of its elements are one");
  Call dense(2);
  ASSERT_EQ(dense.run(opened.session), NACRE_OK);
  EXPECT_EQ(dense.x[0], 4.0f);
}

TEST(Session, CountsTheShapesThatRan) {
  const std::string path = testing::TempDir() + "nacre_shapes_test.txt";
  std::remove(path.c_str());
  nacre_session_options options = {};
  options.record_shapes = 2;
  Opened opened(scale_artifact(), options);
  Call small(2), large(64), lost(8);
  for (Call* call : {&small, &large, &large, &lost, &small, &large})
    ASSERT_EQ(call->run(opened.session), NACRE_OK);
  nacre_shape_record record;
  char inputs[64];
  ASSERT_EQ(nacre_session_shapes(opened.session, 1, &record, inputs, sizeof inputs), NACRE_OK);
  EXPECT_EQ(record.calls, 3u);
  EXPECT_EQ(record.entry, 0u);
  EXPECT_EQ(record.variant, 0u);
  EXPECT_STREQ(inputs, "x: [64, 4]");
  EXPECT_EQ(nacre_session_shapes(opened.session, 1, &record, inputs, 5), NACRE_BAD_ARGUMENT);
  EXPECT_EQ(nacre_session_shapes(opened.session, 2, &record, nullptr, 0), NACRE_NOT_FOUND);
  ASSERT_EQ(nacre_session_write_shapes(opened.session, path.c_str()), NACRE_OK);
  std::ifstream file(path);
  std::string line;
  ASSERT_TRUE(std::getline(file, line));
  EXPECT_EQ(line, "2 calls by variant 0: forward/x: [2, 4]");
  EXPECT_EQ(nacre_session_write_shapes(opened.session, "/nowhere/at/all"), NACRE_IO_ERROR);
  // The session is as it was.
  EXPECT_EQ(large.run(opened.session), NACRE_OK);
  EXPECT_EQ(large.y.back(), 4.0f);
  std::remove(path.c_str());
}

TEST(Session, AddsShapesToTheFileThatTheEnvironmentNames) {
  const std::string path = testing::TempDir() + "nacre_shapes_of_environment.txt";
  std::remove(path.c_str());
  ASSERT_EQ(setenv("NACRE_RECORD_SHAPES", path.c_str(), 1), 0);
  for (int i = 0; i < 2; ++i) {
    Opened opened(scale_artifact());
    Call call(6);
    ASSERT_EQ(call.run(opened.session), NACRE_OK);
  }
  unsetenv("NACRE_RECORD_SHAPES");
  std::ifstream file(path);
  std::string text{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  EXPECT_EQ(text,
            "1 calls by variant 0: forward/x: [6, 4]\n1 calls by variant 0: forward/x: [6, 4]\n");
  std::remove(path.c_str());
}

// count() -> i64: a state that starts at 40.
fmt::Artifact counter() {
  static const int64_t start = 40;
  fmt::Artifact a = parts();
  a.weights = {{"start", NACRE_i64, {1}, {reinterpret_cast<const uint8_t*>(&start), 8}}};
  a.states = {{"other", NACRE_u8, {3}, 3, -1}, {"counter", NACRE_i64, {1}, 8, 0}};
  fmt::Entry e = empty_entry("count");
  e.outputs = {{"y", NACRE_i64, 0, {}, {}}};
  fmt::Variant& v = e.variants[0];
  v.slots = {slot(NACRE_SLOT_STATE, 1, {}, Size::constant(8)),
             slot(NACRE_SLOT_OUTPUT, 0, {}, Size::constant(8))};
  v.commands = {call(kCount, {0, 1}), end()};
  v.commands[0].threads = 1;
  a.entries = {e};
  return a;
}

TEST(Session, KeepsState) {
  Opened opened(counter());
  int64_t y = 0;
  const nacre_buffer out = {&y, 8};
  const auto next = [&](nacre_session* session) {
    EXPECT_EQ(nacre_run(session, 0, nullptr, 0, &out, 1), NACRE_OK);
    return y;
  };
  EXPECT_EQ(next(opened.session), 41);
  EXPECT_EQ(next(opened.session), 42);
  // Another session has its own.
  nacre_session* other = nullptr;
  ASSERT_EQ(nacre_session_make(opened.model, nullptr, nullptr, 0, &other), NACRE_OK);
  EXPECT_EQ(next(other), 41);
  nacre_session_destroy(other);

  uint32_t state = 9;
  ASSERT_EQ(nacre_state_find(opened.model, "counter", &state), NACRE_OK);
  EXPECT_EQ(state, 1u);
  EXPECT_EQ(nacre_state_find(opened.model, "none", &state), NACRE_NOT_FOUND);
  nacre_tensor_info info;
  int64_t shape[16];
  ASSERT_EQ(nacre_state_info(opened.model, 1, &info, shape), NACRE_OK);
  EXPECT_EQ(info.dtype, static_cast<uint32_t>(NACRE_i64));
  EXPECT_EQ(shape[0], 1);
  ASSERT_EQ(nacre_state_size_bytes(opened.model, 1), 8u);
  int64_t* value = static_cast<int64_t*>(nacre_session_state(opened.session, 1));
  EXPECT_EQ(*value, 42);
  *value = 100;
  EXPECT_EQ(next(opened.session), 101);
  nacre_session_reset(opened.session);
  EXPECT_EQ(next(opened.session), 41);
  EXPECT_EQ(nacre_session_state(opened.session, 2), nullptr);
}

TEST(Session, SavesAndLoadsState) {
  const std::string path = testing::TempDir() + "nacre_state_test.bin";
  Opened opened(counter()), other(counter());
  int64_t y = 0;
  const nacre_buffer out = {&y, 8};
  for (int i = 0; i < 3; ++i) ASSERT_EQ(nacre_run(opened.session, 0, nullptr, 0, &out, 1), NACRE_OK);
  static_cast<uint8_t*>(nacre_session_state(opened.session, 0))[2] = 7;
  ASSERT_EQ(nacre_session_save(opened.session, path.c_str()), NACRE_OK);
  ASSERT_EQ(nacre_session_load(other.session, path.c_str()), NACRE_OK);
  ASSERT_EQ(nacre_run(other.session, 0, nullptr, 0, &out, 1), NACRE_OK);
  EXPECT_EQ(y, 44);
  EXPECT_EQ(static_cast<uint8_t*>(nacre_session_state(other.session, 0))[2], 7);

  // A damaged file, half of one, another model's, none.
  std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
  file.seekp(-1, std::ios::end);
  file.put(1);
  file.close();
  EXPECT_EQ(nacre_session_load(other.session, path.c_str()), NACRE_BAD_ARGUMENT);
  EXPECT_EQ(other.message(), path + ": not the state of this model, or damaged");
  fmt::Artifact renamed = counter();
  renamed.states[1].name = "another";
  Opened stranger(renamed);
  ASSERT_EQ(nacre_session_save(opened.session, path.c_str()), NACRE_OK);
  EXPECT_EQ(nacre_session_load(stranger.session, path.c_str()), NACRE_BAD_ARGUMENT);
  EXPECT_EQ(nacre_session_load(other.session, "/nowhere/at/all"), NACRE_IO_ERROR);
  EXPECT_EQ(nacre_session_save(other.session, "/nowhere/at/all"), NACRE_IO_ERROR);
  ASSERT_EQ(nacre_run(other.session, 0, nullptr, 0, &out, 1), NACRE_OK);
  EXPECT_EQ(y, 45);
  std::remove(path.c_str());
}

}  // namespace
}  // namespace nacre::test
