// What the runtime does with a GPU, on a stand-in for its driver (cuda_driver_stub.cpp).
#include <dlfcn.h>
#include <nacre/cuda.h>

#include <cstddef>
#include <cstdio>
#include <fstream>

#include "formats/device_image.h"
#include "runtime/cuda_driver.h"
#include "tests/unit/runtime/cuda_driver_stub.h"
#include "tests/unit/runtime/fixture.h"

namespace nacre::test {
namespace {

// The stand-in's functions. It is the library that the runtime opens.
template <class F>
F* stub_function(const char* name) {
  static void* library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  void* function = library ? dlsym(library, name) : nullptr;
  if (!function) ADD_FAILURE() << "libcuda.so.1 is not the stand-in";
  return reinterpret_cast<F*>(function);
}
nacre_cuda_stub_figures& figures() { return *stub_function<decltype(nacre_cuda_stub)>("nacre_cuda_stub")(); }
void fail(const char* function, int result) { stub_function<decltype(nacre_cuda_stub_fail)>("nacre_cuda_stub_fail")(function, result); }
void* there(void* host) {
  const uint64_t address = stub_function<decltype(nacre_cuda_stub_address)>("nacre_cuda_stub_address")(host);
  return reinterpret_cast<void*>(static_cast<uintptr_t>(address));
}

// An image for compute capability 9.0 whose kernels have a cubin of four bytes and read node 2.
std::vector<uint8_t> device_image(uint32_t kernels, uint32_t capability = 90, const std::vector<nacre_device_map>& maps = {}) {
  nacre_device_image head{NACRE_DEVICE_IMAGE_MAGIC, NACRE_DEVICE_ABI, capability, kernels, 1, static_cast<uint32_t>(maps.size())};
  const std::size_t map_bytes = maps.size() * sizeof(nacre_device_map);
  std::vector<uint8_t> bytes(sizeof head + kernels * sizeof(nacre_device_kernel) + map_bytes + 4 + 4);
  std::memcpy(bytes.data(), &head, sizeof head);
  for (uint32_t i = 0; i < kernels; ++i) {
    nacre_device_kernel kernel{};
    kernel.cubin = bytes.size() - 4;
    kernel.cubin_size = 4;
    kernel.threads = 128;
    kernel.operands = 2;
    kernel.node_count = 1;
    kernel.map_count = head.map_count;
    std::memcpy(bytes.data() + sizeof head + i * sizeof kernel, &kernel, sizeof kernel);
  }
  if (map_bytes) std::memcpy(bytes.data() + bytes.size() - 8 - map_bytes, maps.data(), map_bytes);
  const uint32_t node = 2;
  std::memcpy(bytes.data() + bytes.size() - 8, &node, 4);
  return bytes;
}

// forward(x: f32[2*s0, 4]) -> 4 * x on the device alone.
fmt::Artifact device_artifact(const char* kernel = "scale") {
  fmt::Artifact a = scale_artifact();
  a.images = {{"cuda-sm_90", NACRE_MACHINE_CUDA, 0, device_image(1)}};
  a.kernels = {{kernel, 0, 0, 0, {0, 1}}};
  return a;
}

struct Call {
  explicit Call(int64_t rows, float value = 1) : shape{rows, 4}, x(static_cast<std::size_t>(rows) * 4, value), y(x.size()) {
    in = tensor(x.data(), shape, NACRE_f32);
    out = {y.data(), y.size() * 4};
  }
  nacre_status run(nacre_session* session) { return nacre_run(session, 0, &in, 1, &out, 1); }
  void move_to_device() {
    in.data = there(in.data);
    out.data = there(out.data);
  }
  std::vector<int64_t> shape;
  std::vector<float> x, y;
  nacre_tensor in;
  nacre_buffer out;
};

TEST(Cuda, TheStandInHasWhatTheRuntimeAsksFor) {
  void* library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  ASSERT_NE(library, nullptr);
#define X(name, symbol, parameters) EXPECT_NE(dlsym(library, #symbol), nullptr) << #symbol;
  NACRE_CUDA_FUNCTIONS(X)
  NACRE_CUDA_NEWER_FUNCTIONS(X)
#undef X
}

TEST(Cuda, CopiesWhatLiesInTheHostsMemory) {
  Opened opened(device_artifact());
  const auto before = figures();
  Call call(2, 3);
  ASSERT_EQ(call.run(opened.session), NACRE_OK) << opened.message();
  EXPECT_EQ(call.y, std::vector<float>(8, 12.f));
  EXPECT_EQ(figures().copied_in - before.copied_in, 32u);
  EXPECT_EQ(figures().copied_out - before.copied_out, 32u);
}

TEST(Cuda, UsesTheDevicesMemoryWhereItLies) {
  Opened opened(device_artifact());
  Call call(2, 3);
  call.move_to_device();
  const auto before = figures();
  ASSERT_EQ(call.run(opened.session), NACRE_OK) << opened.message();
  EXPECT_EQ(call.y, std::vector<float>(8, 12.f));
  EXPECT_EQ(figures().copied_in, before.copied_in);
  EXPECT_EQ(figures().copied_out, before.copied_out);
}

TEST(Cuda, CopiesOnTheDeviceWhatLiesBesideMultiplesOf16Bytes) {
  Opened opened(device_artifact());
  Call call(2, 3);
  std::vector<float> room(16, 3.f), result(16, 0.f);
  call.in.data = there(room.data() + 1);
  call.out.data = there(result.data() + 3);
  const auto before = figures();
  ASSERT_EQ(call.run(opened.session), NACRE_OK) << opened.message();
  EXPECT_EQ(std::vector<float>(result.begin() + 3, result.begin() + 11), std::vector<float>(8, 12.f));
  EXPECT_EQ(result[2], 0.f);
  EXPECT_EQ(result[11], 0.f);
  EXPECT_EQ(figures().copied_in, before.copied_in);
  EXPECT_EQ(figures().copied_out, before.copied_out);
}

TEST(Cuda, OneGraphServesAllShapesAndPlaces) {
  Opened opened(device_artifact());
  Call small(2), large(16), elsewhere(16);
  elsewhere.move_to_device();
  const int graphs = figures().graphs;
  for (Call* call : {&small, &large, &elsewhere, &small, &large}) {
    std::fill(call->y.begin(), call->y.end(), 0.f);
    ASSERT_EQ(call->run(opened.session), NACRE_OK) << opened.message();
    EXPECT_EQ(call->y, std::vector<float>(call->y.size(), 4.f));
  }
  EXPECT_EQ(figures().graphs - graphs, 1);
}

// Both kernels are for 9.0, and wait for each other themselves.
TEST(Cuda, AKernelMayBeginBeforeTheOneBeforeItIsDone) {
  Opened opened(device_artifact());
  Call call(2);
  const int early = figures().early;
  ASSERT_EQ(call.run(opened.session), NACRE_OK) << opened.message();
  EXPECT_EQ(figures().early - early, 1);
}

TEST(Cuda, OnlyKernelsThatSeeAnotherPlaceAreTold) {
  Opened opened(device_artifact());
  Call first(4), second(4, 5);
  first.move_to_device();
  second.out = first.out;  // as two images that are computed in turn
  second.in.data = there(second.in.data);
  ASSERT_EQ(first.run(opened.session), NACRE_OK) << opened.message();
  const int before = figures().told;
  ASSERT_EQ(second.run(opened.session), NACRE_OK) << opened.message();
  EXPECT_EQ(figures().told - before, 1);
  EXPECT_EQ(first.y, std::vector<float>(16, 20.f));
  ASSERT_EQ(second.run(opened.session), NACRE_OK) << opened.message();
  EXPECT_EQ(figures().told - before, 1);
}

// A kernel that reads its first operand by a map.
fmt::Artifact mapped_artifact(uint32_t operand = 0) {
  nacre_device_map map{};
  map.rank = 3;
  map.operand = operand;
  map.sizes[0] = map.sizes[1] = map.sizes[2] = 1;
  fmt::Artifact a = device_artifact("by_map");
  a.images[0].bytes = device_image(1, 90, {map});
  return a;
}

TEST(Cuda, MapsAreOfWhereOperandsLie) {
  Opened opened(mapped_artifact());
  Call small(2), large(16), elsewhere(16);
  elsewhere.move_to_device();
  for (Call* call : {&small, &large, &elsewhere, &small, &large}) {
    std::fill(call->y.begin(), call->y.end(), 0.f);
    ASSERT_EQ(call->run(opened.session), NACRE_OK) << opened.message();
    EXPECT_EQ(call->y, std::vector<float>(call->y.size(), 4.f));
  }
  const int before = figures().encoded;
  ASSERT_EQ(large.run(opened.session), NACRE_OK) << opened.message();
  EXPECT_EQ(figures().encoded, before) << "nothing has moved";
}

TEST(Cuda, AMapThatTheDriverRefusesIsAnErrorOfTheDevice) {
  Opened opened(mapped_artifact());
  Call call(2);
  fail("cuTensorMapEncodeTiled", 1);
  EXPECT_EQ(call.run(opened.session), NACRE_DEVICE_LOST);
  EXPECT_NE(opened.message().find("no graph of the program"), std::string::npos) << opened.message();
}

TEST(Cuda, AMapOfNoOperandIsADamagedArtifact) {
  nacre_error error = {};
  nacre_model* model = nullptr;
  Aligned bytes(fmt::artifact_bytes(mapped_artifact(2)));
  EXPECT_EQ(nacre_model_open_memory(bytes.data(), bytes.size(), nullptr, &model, &error), NACRE_BAD_ARTIFACT);
  EXPECT_NE(std::string(error.message).find("is damaged"), std::string::npos) << error.message;
}

TEST(Cuda, QueuesCallsOnTheCallersStream) {
  void* stream = stub_function<decltype(nacre_cuda_stub_stream)>("nacre_cuda_stub_stream")();
  {
    nacre_session_options options = {};
    options.cuda_stream = stream;
    options.cuda_queued = 1;
    Opened opened(device_artifact(), options);
    Call first(2, 1), second(2, 2);
    first.move_to_device();
    second.move_to_device();
    const auto before = figures();
    ASSERT_EQ(first.run(opened.session), NACRE_OK) << opened.message();
    ASSERT_EQ(second.run(opened.session), NACRE_OK) << opened.message();
    EXPECT_EQ(first.y, std::vector<float>(8)) << "it waited";
    EXPECT_EQ(figures().waits, before.waits);
    EXPECT_EQ(figures().asked, before.asked);
    EXPECT_EQ(nacre_session_wait(opened.session), NACRE_OK);
    EXPECT_EQ(first.y, std::vector<float>(8, 4.f));
    EXPECT_EQ(second.y, std::vector<float>(8, 8.f));
  }
  stub_function<decltype(nacre_cuda_stub_free_stream)>("nacre_cuda_stub_free_stream")(stream);
}

TEST(Cuda, InputsThatAreNotDenseAreCopiedByTheHostOnly) {
  for (const int queued : {0, 1}) {
    nacre_session_options options = {};
    options.cuda_queued = queued;
    Opened opened(device_artifact(), options);
    Call call(2);
    for (int i = 0; i < 8; ++i) call.x[static_cast<std::size_t>(i)] = static_cast<float>(i);
    const std::vector<int64_t> strides{1, 2};
    call.in.strides = strides.data();
    if (!queued) {
      ASSERT_EQ(call.run(opened.session), NACRE_OK) << opened.message();
      EXPECT_EQ(call.y, (std::vector<float>{0, 8, 16, 24, 4, 12, 20, 28}));
    }
    call.move_to_device();
    EXPECT_EQ(call.run(opened.session), NACRE_BAD_ARGUMENT);
    EXPECT_NE(opened.message().find("'x' lies on the device, and not dense"), std::string::npos) << opened.message();
  }
}

TEST(Cuda, ErrorsInTheDataAreToldWithTheirPlace) {
  for (const int queued : {0, 1}) {
    nacre_session_options options = {};
    options.cuda_queued = queued;
    Opened opened(device_artifact("divide"), options);
    Call call(2);
    call.move_to_device();
    nacre_status status = call.run(opened.session);
    if (queued) {
      EXPECT_EQ(status, NACRE_OK);
      status = nacre_session_wait(opened.session);
    }
    EXPECT_EQ(status, NACRE_DATA_ERROR);
    EXPECT_NE(opened.message().find("model.py"), std::string::npos) << opened.message();
    EXPECT_EQ(nacre_session_wait(opened.session), NACRE_OK) << "told twice";
  }
}

TEST(Cuda, ALostDeviceClosesTheSessionAndNothingElse) {
  const int blocks = figures().blocks;
  {
    Opened opened(device_artifact("crash")), other(device_artifact());
    Call call(2);
    EXPECT_EQ(call.run(opened.session), NACRE_DEVICE_LOST);
    EXPECT_NE(opened.message().find("illegal memory access"), std::string::npos) << opened.message();
    EXPECT_EQ(call.run(opened.session), NACRE_DEVICE_LOST);
    EXPECT_EQ(call.run(other.session), NACRE_OK) << other.message();
  }
  EXPECT_EQ(figures().blocks, blocks) << "memory of the device was not given back";
}

// Each function of the driver that a call uses, failing once: an error, nothing lost, no crash.
TEST(Cuda, EveryFunctionMayFail) {
  const int blocks = figures().blocks;
  for (const char* function : {"cuMemAlloc", "cuMemHostAlloc", "cuStreamCreate", "cuEventCreate", "cuMemsetD8Async", "cuModuleLoadData",
                               "cuMemcpyHtoDAsync", "cuMemcpyDtoHAsync", "cuStreamSynchronize", "cuGraphCreate", "cuGraphAddKernelNode",
                               "cuGraphAddDependencies", "cuGraphInstantiate", "cuGraphLaunch"})
    for (const int result : {2, 700}) {
      fail(function, result);
      const std::vector<uint8_t> file = fmt::artifact_bytes(device_artifact());
      Aligned bytes(file);
      nacre_model* model = nullptr;
      nacre_session* session = nullptr;
      nacre_error error = {};
      nacre_status status = nacre_model_open_memory(bytes.data(), bytes.size(), nullptr, &model, &error);
      if (!status) status = nacre_session_make(model, nullptr, nullptr, 0, &session);
      Call call(2);
      if (!status) status = call.run(session);
      EXPECT_TRUE(status == NACRE_OUT_OF_MEMORY || status == NACRE_DEVICE_LOST || status == NACRE_UNSUPPORTED_DEVICE)
          << function << " gives " << result << ": " << nacre_status_text(status);
      nacre_session_destroy(session);
      nacre_model_close(model);
      fail("", 0);
      EXPECT_EQ(figures().blocks, blocks) << function;
    }
}

// What memory was given back for must not run as it was laid out before.
TEST(Cuda, ACallThatMemoryWasMissingForRunsLater) {
  Opened opened(device_artifact());
  Call first(16, 1), second(16, 2);
  first.move_to_device();
  ASSERT_EQ(first.run(opened.session), NACRE_OK) << opened.message();
  fail("cuMemAlloc", 2);  // for copies on the device
  EXPECT_EQ(second.run(opened.session), NACRE_OUT_OF_MEMORY);
  ASSERT_EQ(second.run(opened.session), NACRE_OK) << opened.message();
  EXPECT_EQ(second.y, std::vector<float>(64, 8.f));
}

// An artifact and its weights as two files; the weight is `first`, `first` + 1, ...
struct Apart {
  explicit Apart(float first, std::size_t count = 100) {
    for (std::size_t i = 0; i < count; ++i) weight.push_back(first + static_cast<float>(i));
    const std::size_t size = count * sizeof(float);
    fmt::Artifact a = device_artifact();
    a.weights = {{"w", NACRE_f32, {static_cast<int64_t>(count)}, {reinterpret_cast<const uint8_t*>(weight.data()), size}}};
    a.states = {{"s", NACRE_f32, {static_cast<int64_t>(count)}, size, 0}};
    a.entries[0].variants[0].slots.push_back(slot(NACRE_SLOT_WEIGHT, 0, Size(0), Size(static_cast<int64_t>(size))));
    fmt::write_artifact(a, [&](std::span<const uint8_t> part) { artifact.insert(artifact.end(), part.begin(), part.end()); },
                        [&](std::span<const uint8_t> part) { weights.insert(weights.end(), part.begin(), part.end()); });
  }
  static void put(const std::string& path, const std::vector<uint8_t>& bytes) {
    std::ofstream(path, std::ios::binary).write(reinterpret_cast<const char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
  }
  std::vector<float> weight;
  std::vector<uint8_t> artifact, weights;
};

TEST(Cuda, WeightsOfAnotherFileAreUploadedOnce) {
  const std::string path = testing::TempDir() + "apart.nacre", elsewhere = testing::TempDir() + "elsewhere";
  const Apart apart(1);
  Apart::put(path, apart.artifact);
  for (const bool beside : {true, false}) {
    std::remove((path + ".weights").c_str());
    std::remove(elsewhere.c_str());
    Apart::put(beside ? path + ".weights" : elsewhere, apart.weights);
    nacre_open_options options{};
    options.verify_data = 1;
    if (!beside) options.weights = elsewhere.c_str();
    nacre_model* model = nullptr;
    nacre_error error{};
    const auto before = figures();
    ASSERT_EQ(nacre_model_open(path.c_str(), &options, &model, &error), NACRE_OK) << error.message;
    EXPECT_EQ(figures().copied_in - before.copied_in, 400u);
    for (int i = 0; i < 2; ++i) {
      nacre_session* session = nullptr;
      ASSERT_EQ(nacre_session_make(model, nullptr, nullptr, 0, &session), NACRE_OK);
      EXPECT_EQ(std::memcmp(nacre_session_state(session, 0), apart.weight.data(), 400), 0);
      nacre_session_destroy(session);
    }
    EXPECT_EQ(figures().copied_in - before.copied_in, 400u);
    nacre_model_close(model);
  }
}

TEST(Cuda, WeightsOfAnotherModelAreRefused) {
  const std::string path = testing::TempDir() + "apart.nacre", weights = path + ".weights";
  const Apart apart(1), other(2), shorter(1, 50);
  Apart::put(path, apart.artifact);
  const auto opens = [&](const std::string& word) {
    nacre_model* model = nullptr;
    nacre_error error{};
    const nacre_status status = nacre_model_open(path.c_str(), nullptr, &model, &error);
    if (!status) nacre_model_close(model);
    EXPECT_NE(std::string(error.message).find(word), std::string::npos) << error.message;
    return status;
  };
  std::remove(weights.c_str());
  EXPECT_EQ(opens("No such file"), NACRE_IO_ERROR);
  for (const std::vector<uint8_t>& wrong : {other.weights, shorter.weights, std::vector<uint8_t>(), std::vector<uint8_t>(apart.weights.begin(), apart.weights.end() - 1), apart.artifact}) {
    std::remove(weights.c_str());
    Apart::put(weights, wrong);
    EXPECT_EQ(opens("of another model, or damaged"), NACRE_IO_ERROR);
  }
  std::remove(weights.c_str());
  Apart::put(weights, apart.weights);
  EXPECT_EQ(opens(""), NACRE_OK);
  // The end is right, and a weight is not: found when asked for.
  std::vector<uint8_t> changed = apart.weights;
  changed[7] ^= 1;
  Apart::put(weights, changed);
  EXPECT_EQ(opens(""), NACRE_OK);
  nacre_open_options options{};
  options.verify_data = 1;
  nacre_model* model = nullptr;
  nacre_error error{};
  EXPECT_EQ(nacre_model_open(path.c_str(), &options, &model, &error), NACRE_BAD_ARTIFACT);
  // Sizes that a header makes up lead nowhere.
  for (const uint64_t size : {uint64_t{0}, uint64_t{65536}, uint64_t{65537}, uint64_t{1} << 40, ~uint64_t{0}, ~uint64_t{0} - 63}) {
    std::vector<uint8_t> lies = apart.artifact;
    std::memcpy(lies.data() + offsetof(nacre_file_header, file_size), &size, sizeof size);
    Apart::put(path, lies);
    EXPECT_EQ(opens(path), NACRE_IO_ERROR);
  }
}

TEST(Cuda, WhereOnlyADeviceIsAskedForAProcessorDoesNotDo) {
  nacre_open_options options = {};
  options.device = NACRE_DEVICE_CUDA;
  nacre_error error = {};
  nacre_model* model = nullptr;
  Aligned on_processor(fmt::artifact_bytes(scale_artifact()));
  EXPECT_EQ(nacre_model_open_memory(on_processor.data(), on_processor.size(), &options, &model, &error), NACRE_UNSUPPORTED_DEVICE);
  EXPECT_NE(std::string(error.message).find("no code for one"), std::string::npos) << error.message;
  fmt::Artifact later = device_artifact();
  later.images[0].bytes = device_image(1, 110);
  Aligned bytes(fmt::artifact_bytes(later));
  EXPECT_EQ(nacre_model_open_memory(bytes.data(), bytes.size(), &options, &model, &error), NACRE_UNSUPPORTED_DEVICE);
  EXPECT_NE(std::string(error.message).find("other generations"), std::string::npos) << error.message;
}

// The general row runs on a processor, the one for the device comes first.
// For the device and, behind it, for the processor.
fmt::Artifact mixed_artifact() {
  fmt::Artifact a = scale_artifact();
  a.images.push_back({"cuda-sm_90", NACRE_MACHINE_CUDA, 0, device_image(1)});
  a.kernels.push_back({"scale", 1, 0, 0, {0, 1}});
  const auto number = static_cast<uint32_t>(a.kernels.size()) - 1;
  fmt::Variant device = a.entries[0].variants[0];
  for (fmt::Command& command : device.commands)
    if (command.kind == NACRE_COMMAND_call) command.target = number;
  a.entries[0].variants.insert(a.entries[0].variants.begin(), device);
  return a;
}

// The row of the first variant, which is for the device, wants so much.
fmt::Artifact wanting(fmt::Artifact a, int64_t bytes) {
  std::vector<fmt::Guard>& row = a.entries[0].variants[0].guards;
  std::erase_if(row, [](const fmt::Guard& g) { return g.kind == NACRE_GUARD_features; });
  row.insert(row.begin(), {NACRE_GUARD_features, 0, 0, 0, 0, bytes});
  return a;
}

TEST(Cuda, ADeviceWithTooLittleMemoryIsLeftToAProcessor) {
  const std::size_t memory = figures().memory;
  figures().memory = 1000;
  for (const auto& [wanted, variant] : {std::pair{1000, 0u}, {1001, 1u}}) {
    Opened opened(wanting(mixed_artifact(), wanted));
    Call call(2);
    ASSERT_EQ(call.run(opened.session), NACRE_OK) << opened.message();
    EXPECT_EQ(nacre_session_variant(opened.session), variant);
    EXPECT_EQ(call.y, std::vector<float>(8, 4.f));
  }
  const auto refused = [](const fmt::Artifact& artifact, const nacre_open_options& options) {
    Aligned bytes(fmt::artifact_bytes(artifact));
    nacre_model* model = nullptr;
    nacre_error error{};
    EXPECT_EQ(nacre_model_open_memory(bytes.data(), bytes.size(), &options, &model, &error), NACRE_UNSUPPORTED_DEVICE);
    return std::string(error.message);
  };
  nacre_open_options options{};
  EXPECT_NE(refused(wanting(device_artifact(), 1001), options).find("variant 0 wants 1001 bytes of the GPU's memory, which has 1000"), std::string::npos);
  options.device = NACRE_DEVICE_CUDA;
  EXPECT_NE(refused(wanting(mixed_artifact(), 1001), options).find("variant 0 wants 1001 bytes"), std::string::npos);
  figures().memory = memory;
}

TEST(Cuda, MemoryThatOthersHaveIsLeftToThem) {
  // Weights are uploaded; the device is large enough, and full.
  const std::vector<uint8_t> weight(64, 3);
  for (const bool mixed : {true, false}) {
    fmt::Artifact a = mixed ? mixed_artifact() : device_artifact();
    a.weights = {{"w", NACRE_u8, {64}, weight}};
    a.entries[0].variants[0].slots.push_back(slot(NACRE_SLOT_WEIGHT, 0, Size(0), Size(64)));
    fail("cuMemAlloc", CU_OUT_OF_MEMORY);
    if (!mixed) {
      Aligned bytes(fmt::artifact_bytes(a));
      nacre_model* model = nullptr;
      nacre_error error{};
      EXPECT_EQ(nacre_model_open_memory(bytes.data(), bytes.size(), nullptr, &model, &error), NACRE_OUT_OF_MEMORY);
      EXPECT_NE(std::string(error.message).find("its memory does not take the weights"), std::string::npos) << error.message;
      continue;
    }
    Opened opened(a);
    Call call(2);
    ASSERT_EQ(call.run(opened.session), NACRE_OK) << opened.message();
    EXPECT_EQ(nacre_session_variant(opened.session), 1u);
    EXPECT_EQ(call.y, std::vector<float>(8, 4.f));
  }
}

TEST(Cuda, TheDeviceIsChosenUnlessItIsNotWanted) {
  const fmt::Artifact a = mixed_artifact();
  const std::pair<uint32_t, uint32_t> chosen[] = {{NACRE_DEVICE_ANY, 0}, {NACRE_DEVICE_CUDA, 0}, {NACRE_DEVICE_CPU, 1}};
  for (const auto& [wanted, variant] : chosen) {
    nacre_open_options options = {};
    options.device = wanted;
    Opened opened(a, {}, options);
    Call call(2);
    ASSERT_EQ(call.run(opened.session), NACRE_OK) << opened.message();
    EXPECT_EQ(nacre_session_variant(opened.session), variant);
    EXPECT_EQ(call.y, std::vector<float>(8, 4.f));
  }
}

TEST(Cuda, ProfilesByTheDevicesClock) {
  nacre_session_options options = {};
  options.profile = 1;
  Opened opened(device_artifact(), options);
  Call call(2);
  ASSERT_EQ(call.run(opened.session), NACRE_OK) << opened.message();
  nacre_profile_record record;
  ASSERT_EQ(nacre_profile(opened.session, 0, &record), NACRE_OK);
  EXPECT_EQ(record.calls, 1u);
  EXPECT_EQ(record.time_ns, 500000u);
}

}  // namespace
}  // namespace nacre::test
