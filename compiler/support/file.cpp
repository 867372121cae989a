#include "compiler/support/file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

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
  Descriptor& operator=(const Descriptor&) = delete;
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
  std::error_code ignored;
  // Through a link the file it points to is replaced, not the link.
  const fs::path target = exists ? fs::canonical(path, ignored) : path;
  std::string temporary = (target.empty() ? path : target).string() + ".XXXXXX";
  Descriptor file(::mkostemp(temporary.data(), O_CLOEXEC));
  if (file.number() < 0) fail_errno("write", path);
  try {
    content(sink_of(file, path));
    // mkstemp gives 0600; a new file gets what the umask allows, an old one keeps its mode.
    const mode_t mask = ::umask(0);
    ::umask(mask);
    const mode_t mode = exists ? info.st_mode & 07777 : 0666 & ~mask;
    if (::fchmod(file.number(), mode) != 0 || !file.close()) fail_errno("write", path);
    if (::rename(temporary.c_str(), target.c_str()) != 0) fail_errno("write", path);
  } catch (...) {
    ::unlink(temporary.c_str());
    throw;
  }
}

void write_file(const fs::path& path, std::string_view bytes) {
  write_file(path, [&](const Sink& sink) {
    sink({reinterpret_cast<const std::uint8_t*>(bytes.data()), bytes.size()});
  });
}

void make_folder(const fs::path& path) {
  std::error_code error;
  fs::create_directories(path, error);
  if (error) fail_errno("create folder", path, error.value());
}

}  // namespace nacre
