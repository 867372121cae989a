#include "compiler/support/npy.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <unistd.h>
#include <zip.h>

#include <cstring>
#include <filesystem>

#include "compiler/support/error.h"
#include "compiler/support/file.h"

namespace nacre {
namespace {

namespace fs = std::filesystem;

template <typename T>
HostTensor tensor(nacre_dtype dtype, std::vector<std::int64_t> shape,
                  const std::vector<T>& values) {
  std::byte* bytes = nullptr;
  HostTensor made = make_tensor(dtype, std::move(shape), &bytes);
  EXPECT_EQ(made.size_bytes, values.size() * sizeof(T));
  std::memcpy(bytes, values.data(), made.size_bytes);
  return made;
}

HostTensor parse(const std::string& text) {
  return parse_npy({reinterpret_cast<const std::byte*>(text.data()), text.size()}, "x.npy");
}

// A file as NumPy would write it, with any header.
std::string file_with(const std::string& header, const std::string& data, char version = 1) {
  std::string text = "\x93NUMPY";
  text += version;
  text += '\0';
  text += static_cast<char>(header.size() & 255);
  text += static_cast<char>(header.size() >> 8);
  if (version >= 2) text += std::string(2, '\0');
  return text + header + data;
}

std::string message_of(const std::string& text) {
  try {
    parse(text);
  } catch (const Error& error) {
    EXPECT_EQ(error.kind, ErrorKind::user);
    return error.message;
  }
  return "no error";
}

class TemporaryFolder : public ::testing::Test {
 protected:
  TemporaryFolder() {
    std::string name = (fs::temp_directory_path() / "nacre-npy-XXXXXX").string();
    folder_ = ::mkdtemp(name.data());
  }
  ~TemporaryFolder() override { fs::remove_all(folder_); }
  fs::path folder_;
};
using Npz = TemporaryFolder;

TEST(Npy, WritesWhatItReadsForEveryDtype) {
  for (int dtype = 1; dtype < NACRE_DTYPE_COUNT; ++dtype) {
    std::byte* bytes = nullptr;
    const HostTensor written = make_tensor(static_cast<nacre_dtype>(dtype), {2, 3}, &bytes);
    for (std::size_t i = 0; i < written.size_bytes; ++i)
      bytes[i] = static_cast<std::byte>(dtype == NACRE_bool_ ? i % 2 : i * 7 + 1);
    const HostTensor read = parse(npy_bytes(written));
    // bfloat16 has no NumPy type: its bits come back as uint16.
    EXPECT_EQ(read.dtype, dtype == NACRE_bf16 ? NACRE_u16 : static_cast<nacre_dtype>(dtype));
    EXPECT_EQ(read.shape, written.shape);
    ASSERT_EQ(read.size_bytes, written.size_bytes);
    EXPECT_EQ(std::memcmp(read.data.get(), written.data.get(), read.size_bytes), 0);
  }
}

TEST(Npy, KeepsRanksZeroAndOneAndEmptyShapes) {
  for (const std::vector<std::int64_t>& shape :
       std::vector<std::vector<std::int64_t>>{{}, {5}, {0}, {3, 0, 2}, {1, 1, 1, 1, 1}}) {
    const HostTensor read = parse(npy_bytes(make_tensor(NACRE_f32, shape, nullptr)));
    EXPECT_EQ(read.shape, shape);
  }
}

TEST(Npy, StartsDataAtAMultipleOf64) {
  const std::string text = npy_bytes(tensor<float>(NACRE_f32, {1}, {1.5f}));
  EXPECT_EQ((text.size() - 4) % 64, 0u);
  EXPECT_EQ(text[text.size() - 5], '\n');
}

TEST(Npy, BringsFortranOrderIntoCOrder) {
  // [[1, 2, 3], [4, 5, 6]] by columns.
  const std::string data("\1\4\2\5\3\6", 6);
  const HostTensor read =
      parse(file_with("{'descr': '|u1', 'fortran_order': True, 'shape': (2, 3), }\n", data));
  EXPECT_EQ(read.shape, (std::vector<std::int64_t>{2, 3}));
  for (int i = 0; i < 6; ++i) EXPECT_EQ(read.as<std::uint8_t>()[i], i + 1);
}

TEST(Npy, BringsBigEndianIntoLittleEndian) {
  const HostTensor read = parse(file_with("{'descr': '>i4', 'fortran_order': False, 'shape': (2,)}",
                                          std::string("\0\0\1\2\0\0\0\3", 8)));
  EXPECT_EQ(read.as<std::int32_t>()[0], 258);
  EXPECT_EQ(read.as<std::int32_t>()[1], 3);
}

TEST(Npy, ReadsVersionTwo) {
  const HostTensor read =
      parse(file_with("{'shape': (1,), 'fortran_order': False, 'descr': '|i1'}", "\xff", 2));
  EXPECT_EQ(read.as<std::int8_t>()[0], -1);
}

TEST(Npy, NamesWhatIsWrong) {
  const std::string good = npy_bytes(tensor<float>(NACRE_f32, {2}, {1, 2}));
  EXPECT_EQ(message_of("PK\3\4 something else"), "x.npy is not an .npy file");
  EXPECT_NE(message_of(good.substr(0, good.size() - 1)).find("cut short"), std::string::npos);
  EXPECT_NE(message_of(good.substr(0, 40)).find("cut short"), std::string::npos);
  EXPECT_NE(message_of(file_with("{'descr': '|O', 'fortran_order': False, 'shape': ()}", ""))
                .find("'|O'"),
            std::string::npos);
  EXPECT_NE(
      message_of(file_with("{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': ()}", ""))
          .find("records"),
      std::string::npos);
  EXPECT_NE(
      message_of(
          file_with("{'descr': '<f4', 'fortran_order': False, 'shape': (4611686018427387904, 8)}",
                    ""))
          .find("too large"),
      std::string::npos);
  for (std::size_t cut = 0; cut < good.size(); ++cut)
    EXPECT_NE(message_of(good.substr(0, cut)), "no error") << cut;
}

TEST_F(Npz, ReadsArraysInTheOrderOfTheArchive) {
  const std::string first = npy_bytes(tensor<float>(NACRE_f32, {2}, {1, 2}));
  const std::string second = npy_bytes(tensor<std::int64_t>(NACRE_i64, {}, {7}));
  const fs::path path = folder_ / "x.npz";
  int error = 0;
  zip_t* archive = zip_open(path.c_str(), ZIP_CREATE, &error);
  ASSERT_NE(archive, nullptr);
  zip_file_add(archive, "b.npy", zip_source_buffer(archive, first.data(), first.size(), 0), 0);
  const zip_int64_t stored = zip_file_add(
      archive, "a.npy", zip_source_buffer(archive, second.data(), second.size(), 0), 0);
  zip_set_file_compression(archive, static_cast<zip_uint64_t>(stored), ZIP_CM_STORE, 0);
  ASSERT_EQ(zip_close(archive), 0);

  const auto arrays = read_npz(path);
  ASSERT_EQ(arrays.size(), 2u);
  EXPECT_EQ(arrays[0].first, "b");
  EXPECT_EQ(arrays[0].second.as<float>()[1], 2.0f);
  EXPECT_EQ(arrays[1].first, "a");
  EXPECT_EQ(arrays[1].second.as<std::int64_t>()[0], 7);

  const std::string whole = read_file(path);
  write_file(path, whole.substr(0, whole.size() / 2));
  EXPECT_THROW(read_npz(path), Error);
}

TEST_F(Npz, AFullDiskAndAMissingFileAreNamed) {
  try {
    write_npy("/dev/full", tensor<float>(NACRE_f32, {1}, {1}));
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind, ErrorKind::environment);
    EXPECT_EQ(error.message, "cannot write /dev/full: No space left on device");
  }
  try {
    read_npy(folder_ / "absent.npy");
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind, ErrorKind::user);
    EXPECT_NE(error.message.find("absent.npy: No such file"), std::string::npos);
  }
}

}  // namespace
}  // namespace nacre
