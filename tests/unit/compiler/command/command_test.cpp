// The `nacre` command as a process: exit status, messages, and what lies on the disk afterwards.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "compiler/support/file.h"
#include "compiler/support/npy.h"
#include "tests/unit/compiler/scale_artifact.h"

namespace nacre {
namespace {

namespace fs = std::filesystem;

HostTensor values(std::vector<std::int64_t> shape, float each) {
  std::byte* bytes = nullptr;
  const HostTensor made = make_tensor(NACRE_f32, std::move(shape), &bytes);
  std::fill_n(reinterpret_cast<float*>(bytes), made.elements(), each);
  return made;
}

class Command : public ::testing::Test {
 protected:
  struct Done {
    int status = -1;  // of a signal: 128 and more
    std::string out;
    std::string error;
  };

  Command() {
    std::string name = (fs::temp_directory_path() / "nacre-command-XXXXXX").string();
    folder_ = ::mkdtemp(name.data());
    write_file(folder_ / "scale.nacre", artifact());
    write_npy(folder_ / "good.npy", values({5}, 1.5f));
    write_npy(folder_ / "long.npy", values({1001}, 1));
    write_npy(folder_ / "negative.npy", values({5}, -1000));
    write_npy(folder_ / "matrix.npy", values({5, 2}, 1));
  }
  ~Command() override { fs::remove_all(folder_); }

  static std::string artifact() {
    static const AlignedBytes bytes = scale_artifact(find_target("native"));
    return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
  }

  Done nacre(const std::string& words, const std::string& out = "out") {
    write_file(folder_ / "out", "");
    const std::string line =
        fmt::format("cd '{}' && '{}' {} >{} 2>error", folder_.string(), NACRE_TOOL, words, out);
    const int status = std::system(line.c_str());
    Done done;
    done.status = WIFEXITED(status) ? WEXITSTATUS(status) : 255;
    done.out = read_file(folder_ / "out");
    done.error = read_file(folder_ / "error");
    return done;
  }

  fs::path folder_;
};

TEST_F(Command, RunWritesTheOutputs) {
  const Done done = nacre("run scale.nacre --input good.npy --output-dir got");
  EXPECT_EQ(done.status, 0) << done.error;
  const HostTensor output = read_npy(folder_ / "got" / "output_0.npy");
  EXPECT_EQ(output.shape, std::vector<std::int64_t>{5});
  EXPECT_EQ(output.as<float>()[4], 9.0f);
  EXPECT_FALSE(fs::exists(folder_ / "got" / "after_input_0.npy"));
}

TEST_F(Command, RunTakesAFolderOfInputs) {
  make_folder(folder_ / "set");
  fs::copy(folder_ / "good.npy", folder_ / "set" / "input_0.npy");
  EXPECT_EQ(nacre("run scale.nacre --inputs set --output-dir got --threads 2").status, 0);
  EXPECT_TRUE(fs::exists(folder_ / "got" / "output_0.npy"));
}

TEST_F(Command, RefusedInputsExplainThemselvesAndWriteNothing) {
  const Done large = nacre("run scale.nacre --input long.npy --output-dir got");
  EXPECT_EQ(large.status, 1);
  EXPECT_NE(large.error.find("1001"), std::string::npos) << large.error;
  EXPECT_EQ(std::count(large.error.begin(), large.error.end(), '\n'), 1) << large.error;
  EXPECT_NE(nacre("run scale.nacre --input matrix.npy --output-dir got").error.find("rank 2"),
            std::string::npos);
  const Done negative = nacre("run scale.nacre --input negative.npy --output-dir got");
  EXPECT_EQ(negative.status, 1);
  EXPECT_NE(negative.error.find("model.py:12"), std::string::npos) << negative.error;
  EXPECT_EQ(nacre("run scale.nacre --output-dir got").status, 1);
  EXPECT_EQ(nacre("run scale.nacre --input absent.npy --output-dir got").status, 1);
  EXPECT_FALSE(fs::exists(folder_ / "got"));
}

TEST_F(Command, ADamagedArtifactIsRefusedWhereverItIsDamaged) {
  const std::string good = artifact();
  const auto refused = [&](const std::string& bytes, std::size_t at) {
    write_file(folder_ / "bad.nacre", bytes);
    const Done inspected = nacre("inspect bad.nacre");
    EXPECT_TRUE(inspected.status == 1 || inspected.status == 3) << at << ' ' << inspected.error;
    EXPECT_EQ(inspected.out, "") << at;
    const Done ran = nacre("run bad.nacre --input good.npy --output-dir got");
    EXPECT_TRUE(ran.status == 1 || ran.status == 3) << at << ' ' << ran.error;
  };
  for (int i = 0; i < 12; ++i) {
    const std::size_t at = good.size() * static_cast<std::size_t>(i) / 12;
    refused(good.substr(0, at), at);
  }
  // The header, the table, META, the last byte of the code.
  for (const std::size_t at : {std::size_t{0}, std::size_t{20}, std::size_t{70}, std::size_t{120},
                               std::size_t{300}, std::size_t{900}, good.size() - 1}) {
    std::string bytes = good;
    bytes[at] = static_cast<char>(bytes[at] ^ 4);
    refused(bytes, at);
  }
  refused("PK\3\4 not an artifact at all", 0);
  EXPECT_FALSE(fs::exists(folder_ / "got"));
}

TEST_F(Command, AFullDiskIsNamed) {
  const Done inspected = nacre("inspect scale.nacre", "/dev/full");
  EXPECT_EQ(inspected.status, 4);
  EXPECT_EQ(inspected.error, "nacre: cannot write to standard output\n");
  const Done bench = nacre("bench scale.nacre --seconds 0 --output /dev/full");
  EXPECT_EQ(bench.status, 4);
  EXPECT_EQ(bench.error, "nacre: cannot write /dev/full: No space left on device\n");
}

TEST_F(Command, BenchPrintsItsKeysAsJson) {
  const Done done =
      nacre("bench scale.nacre --json --seconds 0.01 --threads 2 --output y.npy --profile");
  ASSERT_EQ(done.status, 0) << done.error;
  const nlohmann::json json = nlohmann::json::parse(done.out);
  for (const char* key : {"load_ms", "first_ms", "peak_rss_mb"})
    EXPECT_GT(json.at(key).get<double>(), 0) << key;
  EXPECT_GE(json.at("times_ms").size(), 1u);
  EXPECT_EQ(json.at("profile").size(), 2u);
  EXPECT_EQ(json.at("profile").at(0).at("line"), "model.py:12");
  EXPECT_EQ(read_npy(folder_ / "y.npy").shape, std::vector<std::int64_t>{16});
}

TEST_F(Command, InspectSpeaksTextAndJson) {
  EXPECT_NE(nacre("inspect scale.nacre").out.find("model.py:12"), std::string::npos);
  EXPECT_TRUE(nlohmann::json::accept(nacre("inspect --json scale.nacre").out));
}

TEST_F(Command, ABadCommandLineIsStatusTwo) {
  for (const char* words : {"", "paint", "run", "run scale.nacre", "bench scale.nacre --threads 0",
                            "lower x.ir --from primitive"}) {
    const Done done = nacre(words);
    EXPECT_EQ(done.status, 2) << words;
    EXPECT_NE(done.error, "") << words;
  }
  EXPECT_EQ(nacre("--help").status, 0);
  EXPECT_EQ(nacre("compile --help").status, 0);
}

TEST_F(Command, WhatIsNoProgramIsRefused) {
  write_file(folder_ / "junk.pt2", "not a program");
  for (const char* words :
       {"compile junk.pt2 -o x.nacre", "compile absent.pt2 -o x.nacre",
        "compile junk.pt2 -o absent/x.nacre", "verify junk.pt2", "verify absent"}) {
    const Done done = nacre(words);
    EXPECT_GT(done.status, 0) << words;
    EXPECT_LT(done.status, 128) << words << done.error;
  }
  EXPECT_FALSE(fs::exists(folder_ / "x.nacre"));
}

TEST_F(Command, LowerNamesALineThatCannotBeRead) {
  write_file(folder_ / "bad.ir", "graph forward primitive {\n  %y: f32[2] = prim.nothing(\n");
  const Done done = nacre("lower bad.ir --from primitive --to loops");
  EXPECT_EQ(done.status, 1) << done.error;
  EXPECT_NE(done.error.find("2"), std::string::npos) << done.error;
  EXPECT_EQ(nacre("lower bad.ir --from loops --to primitive").status, 1);
  EXPECT_EQ(nacre("lower bad.ir --from nowhere --to loops").status, 1);
}

}  // namespace
}  // namespace nacre
