// Files are written whole or not at all.
#include "compiler/support/file.h"

#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <thread>
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

  std::size_t files() const {
    return static_cast<std::size_t>(
        std::distance(fs::directory_iterator(folder_), fs::directory_iterator()));
  }
  static mode_t mode(const fs::path& path) {
    struct stat info {};
    EXPECT_EQ(::stat(path.c_str(), &info), 0);
    return info.st_mode & 07777;
  }

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

TEST_F(File, ANewOneTakesAnOldOnesPlaceAndKeepsItsMode) {
  const fs::path path = folder_ / "a";
  write_file(path, "old");
  ASSERT_EQ(::chmod(path.c_str(), 0640), 0);
  write_file(path, "new and longer");
  EXPECT_EQ(read_file(path), "new and longer");
  EXPECT_EQ(mode(path), 0640u);
  EXPECT_EQ(files(), 1u);
}

TEST_F(File, IsWrittenThroughALink) {
  write_file(folder_ / "a", "old");
  fs::create_symlink("a", folder_ / "link");
  write_file(folder_ / "link", "new");
  EXPECT_TRUE(fs::is_symlink(folder_ / "link"));
  EXPECT_EQ(read_file(folder_ / "a"), "new");
}

TEST_F(File, MayHaveTheLongestName) {
  const fs::path path = folder_ / std::string(255, 'n');
  write_file(path, "1");
  write_file(path, "2");
  EXPECT_EQ(read_file(path), "2");
}

// Objects go into the cache from several threads.
TEST_F(File, ThreadsLeaveTheUmaskAlone) {
  const mode_t before = ::umask(027);
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&, t] {
      for (int i = 0; i < 200; ++i)
        write_file(folder_ / (std::to_string(t) + "-" + std::to_string(i)), "x");
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(::umask(before), 027u);
  for (const fs::directory_entry& entry : fs::directory_iterator(folder_))
    EXPECT_EQ(mode(entry.path()), 0640u) << entry.path();
  EXPECT_EQ(files(), 800u);
}

TEST_F(File, SaysBeforehandWhatCannotBeWritten) {
  EXPECT_NO_THROW(expect_writable(folder_ / "new"));
  EXPECT_NO_THROW(expect_writable("/dev/full"));
  for (const fs::path& path : {fs::path(), folder_, folder_ / "none" / "a"}) {
    try {
      expect_writable(path);
      ADD_FAILURE() << path;
    } catch (const Error& error) {
      EXPECT_EQ(error.kind, ErrorKind::user) << error.what();
    }
  }
  EXPECT_EQ(files(), 0u);
}

TEST_F(File, NobodysToWriteIsNotReplaced) {
  if (::geteuid() == 0) GTEST_SKIP() << "root may write everywhere";
  const fs::path path = folder_ / "a";
  write_file(path, "old");
  ASSERT_EQ(::chmod(path.c_str(), 0444), 0);
  EXPECT_THROW(write_file(path, "new"), Error);
  EXPECT_EQ(read_file(path), "old");
}

}  // namespace
}  // namespace nacre
