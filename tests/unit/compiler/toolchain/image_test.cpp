// From C++ text to a result: compiled and linked in this process, packed, run by the real runtime.
#include <gtest/gtest.h>

#include "compiler/command/inputs.h"
#include "compiler/run.h"
#include "compiler/support/error.h"
#include "tests/unit/compiler/scale_artifact.h"

namespace nacre {
namespace {

HostTensor vector(const std::vector<float>& values) {
  std::byte* bytes = nullptr;
  const HostTensor made =
      make_tensor(NACRE_f32, {static_cast<std::int64_t>(values.size())}, &bytes);
  std::copy(values.begin(), values.end(), reinterpret_cast<float*>(bytes));
  return made;
}

class Image : public ::testing::Test {
 protected:
  const AlignedBytes bytes_ = scale_artifact(find_target("native"));
  const RuntimeModel model_ = RuntimeModel::open(bytes_, "scale");
  RuntimeSession session_{model_, {}};
};

TEST_F(Image, RunsInTheRuntime) {
  for (const std::size_t size : {1u, 5u, 1000u}) {
    std::vector<float> values(size);
    for (std::size_t i = 0; i < size; ++i) values[i] = static_cast<float>(i) + 0.5f;
    RuntimeSession::Call call = session_.prepare(0, {vector(values)});
    session_.run(call);
    ASSERT_EQ(call.outputs.size(), 1u);
    ASSERT_EQ(call.outputs[0].shape, (std::vector<std::int64_t>{static_cast<std::int64_t>(size)}));
    for (std::size_t i = 0; i < size; ++i) EXPECT_EQ(call.outputs[0].as<float>()[i], 6 * values[i]);
  }
}

TEST_F(Image, RefusedInputsAreTheUsersError) {
  try {
    session_.prepare(0, {vector(std::vector<float>(1001))});
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind, ErrorKind::user);
    EXPECT_NE(error.message.find("1001"), std::string::npos) << error.message;
  }
  try {
    session_.prepare(0, {});
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_EQ(error.message, "scale takes 1 input, 0 given");
  }
}

TEST_F(Image, AnErrorInTheDataNamesThePythonLine) {
  RuntimeSession::Call call = session_.prepare(0, {vector({1, -1000})});
  try {
    session_.run(call);
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind, ErrorKind::user);
    EXPECT_NE(error.message.find("model.py:12"), std::string::npos) << error.message;
  }
}

TEST_F(Image, InputsAreMadeUpWithinTheGuards) {
  const std::vector<HostTensor> usual = random_inputs(model_, 0, {});
  ASSERT_EQ(usual.size(), 1u);
  EXPECT_EQ(usual[0].dtype, NACRE_f32);
  EXPECT_EQ(usual[0].shape, std::vector<std::int64_t>{16});
  EXPECT_EQ(random_inputs(model_, 0, {"7"}).at(0).shape, std::vector<std::int64_t>{7});
  EXPECT_EQ(random_inputs(model_, 0, {"0=9"}).at(0).shape, std::vector<std::int64_t>{9});
  for (const char* bad : {"1,2", "1=3", "x", "3;4", "-1"})
    EXPECT_THROW(random_inputs(model_, 0, {bad}), Error) << bad;
}

}  // namespace
}  // namespace nacre
