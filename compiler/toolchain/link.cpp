#include "compiler/toolchain/link.h"

#include <lld/Common/Driver.h>
#include <llvm/Object/ArchiveWriter.h>
#include <llvm/Object/ELFObjectFile.h>
#include <llvm/Support/raw_ostream.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <mutex>
#include <string_view>

LLD_HAS_DRIVER(elf)

namespace nacre {
namespace {

// lld reads its inputs by path only: a memory file has one below /proc.
class MemoryFile {
 public:
  explicit MemoryFile(std::string_view bytes) : number_(::memfd_create("kernel", MFD_CLOEXEC)) {
    std::size_t done = 0;
    while (number_ >= 0 && done < bytes.size()) {
      const ssize_t wrote = ::write(number_, bytes.data() + done, bytes.size() - done);
      if (wrote < 0 && errno == EINTR) continue;
      if (wrote < 0) {
        ::close(number_);
        number_ = -1;
        break;
      }
      done += static_cast<std::size_t>(wrote);
    }
  }
  MemoryFile(const MemoryFile&) = delete;
  ~MemoryFile() {
    if (number_ >= 0) ::close(number_);
  }
  bool good() const { return number_ >= 0; }
  std::string path() const { return "/proc/self/fd/" + std::to_string(number_); }

 private:
  int number_;
};

// And it writes its output by rename, which needs a folder.
class TemporaryFolder {
 public:
  TemporaryFolder() {
    const char* base = std::getenv("TMPDIR");
    path_ = std::string(base && *base ? base : "/tmp") + "/nacre-link-XXXXXX";
    good_ = ::mkdtemp(path_.data()) != nullptr;
    if (!good_) error_ = std::strerror(errno);
  }
  TemporaryFolder(const TemporaryFolder&) = delete;
  ~TemporaryFolder() {
    if (!good_) return;
    ::unlink(image().c_str());
    ::rmdir(path_.c_str());
  }
  bool good() const { return good_; }
  std::string error() const { return "cannot create folder " + path_ + ": " + error_; }
  std::string image() const { return path_ + "/image"; }

 private:
  std::string path_;
  std::string error_;
  bool good_ = false;
};

// What a relocation would mean is decided at run time by a loader that has none: every address in
// the image must be relative to the program counter.
template <typename Elf>
std::string relocation_in(const llvm::object::ELFObjectFile<Elf>& image) {
  auto entries = image.getELFFile().dynamicEntries();
  if (!entries) return llvm::toString(entries.takeError());
  for (const auto& entry : *entries) {
    switch (entry.getTag()) {
      case llvm::ELF::DT_RELA:
      case llvm::ELF::DT_REL:
      case llvm::ELF::DT_RELR:
      case llvm::ELF::DT_JMPREL:
        return "the image has dynamic relocations: a kernel stores an address in its data";
      case llvm::ELF::DT_NEEDED:
      case llvm::ELF::DT_INIT:
      case llvm::ELF::DT_INIT_ARRAY:
        return "the image has initialisers or needs a library";
      default:
        break;
    }
  }
  return {};
}

std::string relocation_in(const std::string& bytes) {
  auto file = llvm::object::ObjectFile::createELFObjectFile(
      llvm::MemoryBufferRef(llvm::StringRef(bytes), "image"));
  if (!file) return llvm::toString(file.takeError());
  if (auto* elf64 = llvm::dyn_cast<llvm::object::ELF64LEObjectFile>(file->get()))
    return relocation_in(*elf64);
  if (auto* elf32 = llvm::dyn_cast<llvm::object::ELF32LEObjectFile>(file->get()))
    return relocation_in(*elf32);
  return "the image is of no known ELF class";
}

}  // namespace

ToolResult lld_link(const LinkJob& job) {
  static std::mutex one_at_a_time;  // lld keeps its state in globals
  const std::lock_guard<std::mutex> lock(one_at_a_time);

  const TemporaryFolder folder;
  if (!folder.good()) return {{}, folder.error()};
  // All objects in one file: models have more kernels than a process may have files.
  std::vector<llvm::NewArchiveMember> members;
  for (const std::string& object : job.objects)
    members.emplace_back(llvm::MemoryBufferRef(object, "kernel"));
  auto archive =
      llvm::writeArchiveToBuffer(members, llvm::SymtabWritingMode::NoSymtab,
                                 llvm::object::Archive::K_GNU, /*Deterministic=*/true,
                                 /*Thin=*/false);
  if (!archive) return {{}, llvm::toString(archive.takeError())};
  const MemoryFile file((*archive)->getBuffer());
  if (!file.good())
    return {{}, std::string("cannot make a memory file: ") + std::strerror(errno)};
  std::vector<std::string> words{"ld.lld"};
  words.insert(words.end(), job.flags.begin(), job.flags.end());
  const MemoryFile script(job.script);
  if (!job.script.empty()) words.insert(words.end(), {"-T", script.path()});
  words.insert(words.end(), {"--whole-archive", file.path(), "-o", folder.image()});
  std::vector<const char*> args;
  for (const std::string& word : words) args.push_back(word.c_str());

  std::string error;
  llvm::raw_string_ostream out(error);
  const lld::Result result = lld::lldMain(args, out, out, {{lld::Gnu, &lld::elf::link}});
  if (result.retCode != 0 || !result.canRunAgain)
    return {{}, error.empty() ? "the linker gave no reason" : error};
  std::ifstream linked(folder.image(), std::ios::binary);
  ToolResult image{std::string(std::istreambuf_iterator<char>(linked), {}), {}};
  if (!linked.good() && !linked.eof()) return {{}, "cannot read the linked image back"};
  if (std::string reason = job.image ? relocation_in(image.bytes) : ""; !reason.empty())
    return {{}, reason};
  return image;
}

}  // namespace nacre
