#include "compiler/command/cases.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include "compiler/support/error.h"
#include "compiler/support/file.h"
#include "compiler/support/npy.h"

namespace nacre {
namespace {

namespace fs = std::filesystem;

class Cases : public ::testing::Test {
 protected:
  Cases() {
    std::string name = (fs::temp_directory_path() / "nacre-cases-XXXXXX").string();
    folder_ = fs::path(::mkdtemp(name.data())) / "add_one";
    for (const char* set : {"set_0", "sequence_1", "refuse_0"}) {
      make_folder(folder_ / set);
      write_npy(folder_ / set / "input_0.npy", make_tensor(NACRE_u16, {2}, nullptr));
    }
    write_npy(folder_ / "set_0" / "output_0.npy", make_tensor(NACRE_f32, {2}, nullptr));
    write_npy(folder_ / "set_0" / "output64_0.npy", make_tensor(NACRE_f64, {2}, nullptr));
    write_npy(folder_ / "set_0" / "after_input_0.npy", make_tensor(NACRE_u16, {2}, nullptr));
    write_npy(folder_ / "set_0" / "after_buffer_norm.mean.npy",
              make_tensor(NACRE_f32, {3}, nullptr));
    write_npy(folder_ / "sequence_1" / "output_0.npy", make_tensor(NACRE_f32, {2}, nullptr));
    write_npy(folder_ / "sequence_1" / "output64_0.npy", make_tensor(NACRE_f32, {2}, nullptr));  // not widened: no reference
    write_file(folder_ / "case.json", R"({
      "name": "add_one", "expect": "value", "tol": [0.1, 0.2], "alias": null,
      "sets": {
        "set_0": {"refuse": false, "continues": false, "eager": "answers",
                  "inputs": [{"dtype": "bfloat16"}], "outputs": [{"dtype": "float32"}]},
        "sequence_1": {"refuse": false, "continues": true, "eager": "answers",
                       "inputs": [{"dtype": "uint16"}], "outputs": [{"dtype": "float32"}]},
        "refuse_0": {"refuse": true, "continues": false, "eager": "RuntimeError", "inputs": [{"dtype": "uint16"}]}
      }})");
  }
  ~Cases() override { fs::remove_all(folder_.parent_path()); }
  fs::path folder_;
};

TEST_F(Cases, ReadsEverySetInOrder) {
  for (const fs::path& path : {folder_, folder_ / ""}) {
    const Case read = read_case(path);
    EXPECT_EQ(read.name, "add_one");
    EXPECT_EQ(read.program, folder_.lexically_normal() / "model.pt2");
    ASSERT_TRUE(read.tolerance);
    EXPECT_EQ(read.tolerance->absolute, 0.2);
    ASSERT_EQ(read.sets.size(), 3u);
    EXPECT_EQ(read.sets[0].name, "set_0");
    EXPECT_EQ(read.sets[0].inputs.at(0).dtype, NACRE_bf16);
    EXPECT_TRUE(read.sets[0].known);
    EXPECT_TRUE(read.sets[0].outputs64.at(0));
    EXPECT_EQ(read.sets[0].after_inputs.at(0).dtype, NACRE_bf16);
    EXPECT_EQ(read.sets[0].after_buffers.at("norm.mean").shape, std::vector<std::int64_t>{3});
    EXPECT_TRUE(read.sets[1].continues);
    EXPECT_EQ(read.sets[1].inputs.at(0).dtype, NACRE_u16);
    EXPECT_FALSE(read.sets[1].outputs64.at(0));
    EXPECT_TRUE(read.sets[2].refuse);
    EXPECT_FALSE(read.sets[2].eager_answers);
    EXPECT_FALSE(read.sets[2].known);
  }
}

TEST_F(Cases, AProgramAloneHasItsSampleInputs) {
  const Case read = read_case("some/model.pt2");
  EXPECT_EQ(read.program, "some/model.pt2");
  EXPECT_TRUE(read.sets.empty());
}

TEST_F(Cases, DamageIsTheUsersError) {
  write_file(folder_ / "case.json", "{\"sets\": ");
  EXPECT_THROW(read_case(folder_), Error);
  write_file(folder_ / "case.json",
             "{\"sets\": {\"set_9\": {\"inputs\": [{\"dtype\": \"float32\"}]}}}");
  try {
    read_case(folder_);
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind, ErrorKind::user);
    EXPECT_NE(error.message.find("set_9"), std::string::npos) << error.message;
  }
}

}  // namespace
}  // namespace nacre
