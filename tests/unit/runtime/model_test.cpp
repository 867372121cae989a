// Opening: from memory, from files, for this processor or not.
#include <algorithm>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <nacre/nacre.hpp>

#include "formats/features.h"
#include "tests/unit/runtime/fixture.h"

namespace nacre::test {
namespace {

struct Failure {
  nacre_status status;
  std::string message;
};

Failure open_memory(std::span<const uint8_t> bytes, nacre_open_options options = {}) {
  Aligned aligned(bytes);
  nacre_error error = {};
  nacre_model* model = nullptr;
  const nacre_status status =
      nacre_model_open_memory(aligned.data(), aligned.size(), &options, &model, &error);
  EXPECT_EQ(model != nullptr, status == NACRE_OK);
  EXPECT_EQ(error.status, status);
  nacre_model_close(model);
  return {status, error.message};
}

Failure open_file(const std::string& path) {
  nacre_error error = {};
  nacre_model* model = nullptr;
  const nacre_status status = nacre_model_open(path.c_str(), nullptr, &model, &error);
  EXPECT_EQ(model != nullptr, status == NACRE_OK);
  nacre_model_close(model);
  return {status, error.message};
}

TEST(Model, OpensFromMemory) {
  EXPECT_EQ(open_memory(fmt::artifact_bytes(scale_artifact())).status, NACRE_OK);
}

TEST(Model, RefusesMemoryThatIsNotAligned) {
  Aligned bytes(fmt::artifact_bytes(scale_artifact()));
  nacre_model* model = nullptr;
  EXPECT_EQ(nacre_model_open_memory(bytes.data() + 8, bytes.size() - 8, nullptr, &model, nullptr),
            NACRE_BAD_ARGUMENT);
  EXPECT_EQ(nacre_model_open_memory(nullptr, 0, nullptr, &model, nullptr), NACRE_BAD_ARGUMENT);
  EXPECT_EQ(model, nullptr);
}

TEST(Model, OpensFilesAndSaysWhatIsWrongWithOthers) {
  const auto folder =
      std::filesystem::temp_directory_path() / ("nacre_model_" + std::to_string(getpid()));
  std::filesystem::create_directories(folder);
  const std::string path = folder / "a.nacre";
  write_file(scale_artifact(), path);
  EXPECT_EQ(open_file(path).status, NACRE_OK);

  const auto size = std::filesystem::file_size(path);
  std::filesystem::resize_file(path, size - 100);
  EXPECT_EQ(open_file(path).status, NACRE_BAD_ARTIFACT);
  EXPECT_EQ(open_file(path).message,
            path + ": the file is truncated or has grown: " + std::to_string(size - 100) +
                " bytes, and its header says " + std::to_string(size));
  std::filesystem::resize_file(path, 0);
  EXPECT_EQ(open_file(path).message, "cannot read " + path + ": it is empty");
  std::ofstream(path) << "some text of no interest";
  EXPECT_EQ(open_file(path).message, path + ": not a nacre artifact");
  EXPECT_EQ(open_file(folder).message, "cannot read " + folder.string() + ": not a file");
  const Failure missing = open_file(folder / "missing");
  EXPECT_EQ(missing.status, NACRE_IO_ERROR);
  EXPECT_EQ(missing.message,
            "cannot read " + (folder / "missing").string() + ": No such file or directory");
  std::filesystem::remove_all(folder);
}

TEST(Model, WeightsApartAreForAnotherLibraryOrBehindTheArtifactInMemory) {
  fmt::Artifact a = scale_artifact();
  const std::vector<uint8_t> weight(64, 3);
  a.weights = {{"w", NACRE_u8, {64}, weight}};
  std::vector<uint8_t> artifact, weights;
  fmt::write_artifact(a, [&](std::span<const uint8_t> part) { artifact.insert(artifact.end(), part.begin(), part.end()); },
                      [&](std::span<const uint8_t> part) { weights.insert(weights.end(), part.begin(), part.end()); });
  const std::string path = std::filesystem::temp_directory_path() / ("nacre_apart_" + std::to_string(getpid()));
  std::ofstream(path, std::ios::binary).write(reinterpret_cast<const char*>(artifact.data()), static_cast<std::streamsize>(artifact.size()));
  EXPECT_EQ(open_file(path).status, NACRE_IO_ERROR);
  EXPECT_EQ(open_file(path).message, path + ": its weights are in another file (see nacre.h)");
  std::filesystem::remove(path);
  artifact.insert(artifact.end(), weights.begin(), weights.end() - sizeof(nacre_weights_end));
  Aligned both(artifact);
  nacre_open_options options{};
  options.verify_data = 1;
  nacre_model* model = nullptr;
  EXPECT_EQ(nacre_model_open_memory(both.data(), both.size(), &options, &model, nullptr), NACRE_OK);
  nacre_model_close(model);
}

// As large as resnet18. Weights are not read, so that the time hardly depends on their size.
TEST(Model, OpensLargeFilesAtOnce) {
  const std::vector<uint8_t> weights(std::size_t{47} << 20, 7);
  fmt::Artifact a = scale_artifact();
  a.weights = {{"w", NACRE_u8, {static_cast<int64_t>(weights.size())}, weights}};
  const std::string path =
      std::filesystem::temp_directory_path() / ("nacre_large_" + std::to_string(getpid()));
  write_file(a, path);
  double least_ms = 1e9;
  for (int i = 0; i < 20; ++i) {
    const auto start = std::chrono::steady_clock::now();
    nacre_model* model = nullptr;
    ASSERT_EQ(nacre_model_open(path.c_str(), nullptr, &model, nullptr), NACRE_OK);
    nacre_session* session = nullptr;
    ASSERT_EQ(nacre_session_make(model, nullptr, nullptr, 0, &session), NACRE_OK);
    const std::chrono::duration<double, std::milli> time = std::chrono::steady_clock::now() - start;
    least_ms = std::min(least_ms, time.count());
    nacre_session_destroy(session);
    nacre_model_close(model);
  }
  std::filesystem::remove(path);
  RecordProperty("open_ms", std::to_string(least_ms));
  EXPECT_LT(least_ms, 5.0);
}

TEST(Model, RefusesNullsAndPipes) {
  Aligned bytes(fmt::artifact_bytes(scale_artifact()));
  nacre_model* model = nullptr;
  nacre_error error = {};
  EXPECT_EQ(nacre_model_open(nullptr, nullptr, &model, &error), NACRE_BAD_ARGUMENT);
  EXPECT_STREQ(error.message, "the path is NULL");
  EXPECT_EQ(nacre_model_open_memory(nullptr, 100, nullptr, &model, nullptr), NACRE_BAD_ARGUMENT);
  EXPECT_EQ(nacre_model_open_memory(bytes.data(), bytes.size(), nullptr, nullptr, nullptr),
            NACRE_BAD_ARGUMENT);
  nacre_open_options options = {};
  options.import_count = 1;
  EXPECT_EQ(nacre_model_open_memory(bytes.data(), bytes.size(), &options, &model, nullptr),
            NACRE_BAD_ARGUMENT);
  const std::string pipe = ::testing::TempDir() + "nacre-pipe-" + std::to_string(::getpid());
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  EXPECT_EQ(nacre_model_open(pipe.c_str(), nullptr, &model, &error), NACRE_IO_ERROR);
  ::unlink(pipe.c_str());
  EXPECT_EQ(model, nullptr);
  nacre_model_close(nullptr);
}

TEST(Model, ChecksWeightsWhenAsked) {
  static const uint8_t bytes[4] = {1, 2, 3, 4};
  fmt::Artifact a = scale_artifact();
  a.weights = {{"w", NACRE_u8, {4}, bytes}};
  std::vector<uint8_t> file = fmt::artifact_bytes(a);
  nacre_open_options verify = {};
  verify.verify_data = 1;
  EXPECT_EQ(open_memory(file, verify).status, NACRE_OK);
  file.back() ^= 1;
  EXPECT_EQ(open_memory(file).status, NACRE_OK);
  EXPECT_EQ(open_memory(file, verify).status, NACRE_BAD_ARTIFACT);
}

TEST(Model, SaysThatItHasNoCodeForThisProcessor) {
  fmt::Artifact a = scale_artifact();
  a.images[0].machine = 999;
  const Failure f = open_memory(fmt::artifact_bytes(a));
  EXPECT_EQ(f.status, NACRE_UNSUPPORTED_DEVICE);
  EXPECT_EQ(f.message,
            "no variant of entry 'forward' runs on this processor; the artifact was compiled for "
            "test-target");
  a.images[0].machine = NACRE_MACHINE;
  a.images[0].features = uint64_t{1} << NACRE_FEATURE_arm_mve;  // of no processor that has an operating system
  EXPECT_EQ(open_memory(fmt::artifact_bytes(a)).message,
            "no variant of entry 'forward' runs on this processor; the artifact was compiled for "
            "test-target (which wants MVE (Helium))");
}

TEST(Model, TakesTheLowerVariantWithoutTheFeature) {
  const uint64_t feature =
      1;  // every x86-64 processor of this century; elsewhere it is absent anyway
  fmt::Artifact a = scale_artifact();
  a.images.push_back(a.images[0]);
  a.images[0].features = feature;
  a.kernels.push_back({"scale for all", 1, kScale, 0, {}});
  fmt::Variant all = a.entries[0].variants[0];
  for (auto& command : all.commands) {
    if (command.kind == NACRE_COMMAND_call) command.target = kKernelCount;
  }
  a.entries[0].variants.push_back(all);
  nacre_open_options hide = {};
  hide.hide_features = feature;
  Opened opened(a, {}, hide);
  const std::vector<int64_t> shape = {4, 4};
  std::vector<float> x(16, 1.0f), y(16);
  const nacre_tensor in = tensor(x.data(), shape, NACRE_f32);
  const nacre_buffer out = {y.data(), y.size() * 4};
  ASSERT_EQ(nacre_run(opened.session, 0, &in, 1, &out, 1), NACRE_OK);
  EXPECT_EQ(nacre_session_variant(opened.session), 1u);
  EXPECT_EQ(y[15], 4.0f);
  const std::vector<int64_t> odd = {3, 4};
  const nacre_tensor wrong = tensor(x.data(), odd, NACRE_f32);
  EXPECT_EQ(nacre_session_prepare(opened.session, 0, &wrong, 1), NACRE_GUARD_MISS);
  EXPECT_EQ(opened.message(),
            "input 'x' dimension 0 is 3; variant 0 is for another processor; variant 1 wants a "
            "multiple of 2 in [2, 64]");
}

TEST(Model, RefusesADamagedImage) {
  fmt::Artifact a = scale_artifact();
  a.images[0].bytes.resize(100);
  const Failure f = open_memory(fmt::artifact_bytes(a));
  EXPECT_EQ(f.status, NACRE_BAD_ARTIFACT);
  EXPECT_EQ(f.message, "its code image reaches out of its bounds (image 'test-target')");
}

TEST(Model, RefusesAKernelThatTheImageLacks) {
  fmt::Artifact a = scale_artifact();
  a.kernels[3].index = 99;
  EXPECT_EQ(open_memory(fmt::artifact_bytes(a)).message, "kernel 'count' is not in its code image");
}

TEST(Model, WantsItsImports) {
  fmt::Artifact a = scale_artifact();
  a.imports = {{"mylib::scale", R"({"by":3})", 1}};
  EXPECT_EQ(open_memory(fmt::artifact_bytes(a)).status, NACRE_MISSING_IMPORT);
  EXPECT_EQ(open_memory(fmt::artifact_bytes(a)).message,
            "the model needs the application's function 'mylib::scale', which the imports of "
            "nacre_open_options do not have");
  fmt::Variant& v = a.entries[0].variants[0];
  v.commands[1].kind = NACRE_COMMAND_import;
  v.commands[1].target = 0;
  const fmt::Tensor t = {"t", NACRE_f32, 0, {Size::node(4), Size::constant(4)}, {}};
  v.slot_tensors = {t, t, t};
  EXPECT_EQ(open_memory(fmt::artifact_bytes(a)).message,
            "the model needs the application's function 'mylib::scale', which the imports of "
            "nacre_open_options do not have: (f32[s0 * 2, 4]) -> f32[s0 * 2, 4] with {\"by\":3}, for "
            "aten.mul.Tensor (model.py:41, block.first)");
}

TEST(Model, TellsOfItsEntries) {
  Opened opened(scale_artifact());
  EXPECT_EQ(nacre_entry_count(opened.model), 1u);
  EXPECT_STREQ(nacre_entry_name(opened.model, 0), "forward");
  uint32_t entry = 7;
  EXPECT_EQ(nacre_entry_find(opened.model, "forward", &entry), NACRE_OK);
  EXPECT_EQ(entry, 0u);
  EXPECT_EQ(nacre_entry_find(opened.model, "backward", &entry), NACRE_NOT_FOUND);
  nacre_tensor_info info;
  ASSERT_EQ(nacre_input_info(opened.model, 0, 0, &info), NACRE_OK);
  EXPECT_STREQ(info.name, "x");
  EXPECT_EQ(info.dtype, static_cast<uint32_t>(NACRE_f32));
  EXPECT_EQ(info.element_size, 4u);
  EXPECT_EQ(info.rank, 2u);
  EXPECT_FALSE(info.mutated);
  EXPECT_STREQ(info.path, "");
  EXPECT_EQ(nacre_input_info(opened.model, 0, 1, &info), NACRE_NOT_FOUND);
  EXPECT_EQ(nacre_output_info(opened.model, 1, 0, &info), NACRE_NOT_FOUND);
  fmt::Artifact nested = scale_artifact();
  nested.entries[0].inputs[0].path = "batch['x'][0]";
  nested.entries[0].outputs[0].path = ".logits";
  Opened other(nested);
  ASSERT_EQ(nacre_input_info(other.model, 0, 0, &info), NACRE_OK);
  EXPECT_STREQ(info.path, "batch['x'][0]");
  ASSERT_EQ(nacre_output_info(other.model, 0, 0, &info), NACRE_OK);
  EXPECT_STREQ(info.path, ".logits");
}

TEST(Model, HasAFaceInCpp) {
  Aligned bytes(fmt::artifact_bytes(scale_artifact()));
  Model model(bytes.data(), bytes.size());
  Session session(model);
  const std::vector<int64_t> shape = {3, 4};
  const nacre_tensor in = tensor(nullptr, shape, NACRE_f32);
  try {
    session.prepare(0, &in, 1);
    FAIL();
  } catch (const RuntimeError& error) {
    EXPECT_EQ(error.status(), NACRE_GUARD_MISS);
  }
  EXPECT_THROW(Model("/nonexistent"), RuntimeError);
}

}  // namespace
}  // namespace nacre::test
