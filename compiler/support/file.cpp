#include "compiler/support/file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstring>
#include <utility>

#include "compiler/support/error.h"

namespace nacre {
namespace {

namespace fs = std::filesystem;

class Descriptor {
 public:
  explicit Descriptor(int number) : number_(number) {}
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(Descriptor&& other) {
    std::swap(number_, other.number_);
    return *this;
  }
  ~Descriptor() {
    if (number_ >= 0) ::close(number_);
  }
  int number() const { return number_; }
  // Some file systems report a failed write only here.
  bool close() { return ::close(std::exchange(number_, -1)) == 0; }

 private:
  int number_;
};

// A path that is not there is the user's mistake; a disk that fails is not.
ErrorKind kind_of(int code) {
  switch (code) {
    case ENOENT:
    case ENOTDIR:
    case EISDIR:
    case EACCES:
    case EPERM:
    case ELOOP:
    case ENAMETOOLONG:
      return ErrorKind::user;
    default:
      return ErrorKind::environment;
  }
}

[[noreturn]] void fail_errno(const char* act, const fs::path& path, int code = errno) {
  fail(kind_of(code), "cannot {} {}: {}", act, path.string(), std::strerror(code));
}

template <typename Bytes>
Bytes read_all(const fs::path& path) {
  const Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (file.number() < 0) fail_errno("read", path);
  struct stat info {};
  if (::fstat(file.number(), &info) != 0) fail_errno("read", path);
  if (S_ISDIR(info.st_mode)) fail_errno("read", path, EISDIR);
  Bytes bytes;
  bytes.resize(S_ISREG(info.st_mode) ? static_cast<std::size_t>(info.st_size) : 0);
  std::size_t filled = 0;
  for (;;) {
    // A file may grow while it is read, and a pipe has no size at all.
    if (filled == bytes.size()) {
      char more;
      const ssize_t got = ::read(file.number(), &more, 1);
      if (got < 0 && errno == EINTR) continue;
      if (got < 0) fail_errno("read", path);
      if (got == 0) break;
      bytes.resize(filled + (1u << 16));
      std::memcpy(bytes.data() + filled, &more, 1);
      ++filled;
      continue;
    }
    const ssize_t got = ::read(file.number(), bytes.data() + filled, bytes.size() - filled);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) fail_errno("read", path);
    if (got == 0) break;
    filled += static_cast<std::size_t>(got);
  }
  bytes.resize(filled);
  return bytes;
}

Sink sink_of(const Descriptor& file, const fs::path& path) {
  return [&file, &path](std::span<const std::uint8_t> bytes) {
    while (!bytes.empty()) {
      const ssize_t done = ::write(file.number(), bytes.data(), bytes.size());
      if (done < 0 && errno == EINTR) continue;
      if (done < 0) fail_errno("write", path);
      bytes = bytes.subspan(static_cast<std::size_t>(done));
    }
  };
}

// A file that takes another's place once it is whole. Where the file system can do it, the file has no
// name until then, so that nobody who is killed meanwhile leaves half of one behind.
class NewFile {
 public:
  // `path` is what errors call it. The kernel gives it the rights that the umask allows.
  NewFile(const fs::path& folder, fs::path path)
      : folder_(folder.empty() ? "." : folder),
        path_(std::move(path)),
        file_(::open(folder_.c_str(), O_TMPFILE | O_WRONLY | O_CLOEXEC, 0666)) {
    if (file_.number() >= 0) return;
    with_fresh_name([&] {
      file_ = Descriptor(::open(name_.c_str(), O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC, 0666));
      return file_.number() >= 0;
    });
  }
  ~NewFile() {
    if (!name_.empty()) ::unlink(name_.c_str());
  }
  NewFile(const NewFile&) = delete;
  NewFile& operator=(const NewFile&) = delete;

  const Descriptor& descriptor() const { return file_; }

  void finish(const fs::path& target) {
    if (name_.empty()) {
      const std::string self = fmt::format("/proc/self/fd/{}", file_.number());
      with_fresh_name([&] {
        return ::linkat(AT_FDCWD, self.c_str(), AT_FDCWD, name_.c_str(), AT_SYMLINK_FOLLOW) == 0;
      });
    }
    if (!file_.close() || ::rename(name_.c_str(), target.c_str()) != 0) fail_errno("write", path_);
    name_.clear();
  }

 private:
  // Calls `make` with names until one is not taken. The name has nothing of the file's own, which may
  // be as long as names can be.
  template <typename Make>
  void with_fresh_name(const Make& make) {
    static std::atomic<unsigned> next{0};
    do {
      name_ = folder_ / fmt::format(".nacre-{}-{}", ::getpid(), next++);
      if (make()) return;
    } while (errno == EEXIST);
    const int code = errno;
    name_.clear();
    fail_errno("write", path_, code);
  }

  fs::path folder_;
  fs::path path_;
  fs::path name_;  // empty: it has none
  Descriptor file_;
};

}  // namespace

std::string read_file(const fs::path& path) { return read_all<std::string>(path); }

AlignedBytes read_bytes(const fs::path& path) { return read_all<AlignedBytes>(path); }

void write_file(const fs::path& path, const std::function<void(const Sink&)>& content) {
  struct stat info {};
  const bool exists = ::stat(path.c_str(), &info) == 0;
  if (exists && !S_ISREG(info.st_mode)) {
    Descriptor file(::open(path.c_str(), O_WRONLY | O_CLOEXEC));
    if (file.number() < 0) fail_errno("write", path);
    content(sink_of(file, path));
    if (!file.close()) fail_errno("write", path);
    return;
  }
  // A new file would take the place of one that nobody may write.
  if (exists && ::access(path.c_str(), W_OK) != 0) fail_errno("write", path);
  std::error_code ignored;
  // Through a link the file it points to is replaced, not the link.
  const fs::path canonical = exists ? fs::canonical(path, ignored) : fs::path();
  const fs::path target = canonical.empty() ? path : canonical;
  NewFile file(target.parent_path(), path);
  content(sink_of(file.descriptor(), path));
  if (exists && ::fchmod(file.descriptor().number(), info.st_mode & 07777) != 0)
    fail_errno("write", path);
  file.finish(target);
}

void write_file(const fs::path& path, std::string_view bytes) {
  write_file(path, [&](const Sink& sink) {
    sink({reinterpret_cast<const std::uint8_t*>(bytes.data()), bytes.size()});
  });
}

void expect_writable(const fs::path& path) {
  if (path.empty()) fail(ErrorKind::user, "a file to write needs a name");
  struct stat info {};
  if (::stat(path.c_str(), &info) == 0) {
    if (S_ISDIR(info.st_mode)) fail_errno("write", path, EISDIR);
    if (::access(path.c_str(), W_OK) != 0) fail_errno("write", path);
    if (!S_ISREG(info.st_mode)) return;
  }
  const fs::path folder = fs::absolute(path).parent_path();
  if (!fs::is_directory(folder))
    fail(ErrorKind::user, "cannot write {}: there is no folder {}", path.string(), folder.string());
  if (::access(folder.c_str(), W_OK) != 0) fail_errno("write", path);
}

void make_folder(const fs::path& path) {
  std::error_code error;
  fs::create_directories(path, error);
  if (error) fail_errno("create folder", path, error.value());
}

}  // namespace nacre
