// Files are written whole or not at all.
#include "compiler/support/file.h"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <vector>

#include "compiler/support/error.h"

namespace nacre {
namespace {

namespace fs = std::filesystem;

class File : public ::testing::Test {
 protected:
  File() {
    std::string name = (fs::temp_directory_path() / "nacre-file-XXXXXX").string();
    folder_ = ::mkdtemp(name.data());
  }
  ~File() override { fs::remove_all(folder_); }
  fs::path folder_;
};

// Two pieces, together `size` bytes.
void write_pieces(const fs::path& path, std::size_t size) {
  const std::vector<std::uint8_t> bytes(size, 'x');
  write_file(path, [&](const Sink& sink) {
    sink(std::span(bytes).first(size / 2));
    sink(std::span(bytes).subspan(size / 2));
  });
}

std::string error_of(const fs::path& path, std::size_t size) {
  try {
    write_pieces(path, size);
  } catch (const Error& error) {
    return error.message;
  }
  return "";
}

TEST_F(File, JoinsThePiecesOfItsContent) {
  write_pieces(folder_ / "a", 1001);
  EXPECT_EQ(read_file(folder_ / "a"), std::string(1001, 'x'));
}

TEST_F(File, LeavesTheOldFileWhenTheDiskIsFull) {
  write_file(folder_ / "a", "old");
  rlimit old;
  getrlimit(RLIMIT_FSIZE, &old);
  rlimit small = old;
  small.rlim_cur = 4096;
  auto* handler = std::signal(SIGXFSZ, SIG_IGN);
  setrlimit(RLIMIT_FSIZE, &small);
  const std::string message = error_of(folder_ / "a", 10000);
  setrlimit(RLIMIT_FSIZE, &old);
  std::signal(SIGXFSZ, handler);
  EXPECT_EQ(message, "cannot write " + (folder_ / "a").string() + ": File too large");
  EXPECT_EQ(read_file(folder_ / "a"), "old");
  EXPECT_EQ(std::distance(fs::directory_iterator(folder_), {}), 1);
}

TEST_F(File, LeavesTheOldFileWhenItsContentCannotBeMade) {
  write_file(folder_ / "a", "old");
  EXPECT_THROW(write_file(folder_ / "a",
                          [](const Sink&) { fail(ErrorKind::internal, "no content"); }),
               Error);
  EXPECT_EQ(read_file(folder_ / "a"), "old");
  EXPECT_EQ(std::distance(fs::directory_iterator(folder_), {}), 1);
}

TEST_F(File, SaysWhyADeviceRefuses) {
  if (!fs::is_character_file("/dev/full")) GTEST_SKIP();
  EXPECT_EQ(error_of("/dev/full", 100), "cannot write /dev/full: No space left on device");
  EXPECT_TRUE(fs::is_character_file("/dev/full"));
}

TEST_F(File, SaysThatTheFolderIsMissing) {
  EXPECT_NE(error_of(folder_ / "no" / "a", 100).find("No such file or directory"),
            std::string::npos);
}

}  // namespace
}  // namespace nacre
