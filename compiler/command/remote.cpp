#include "compiler/command/remote.h"

#include <elf.h>
#include <fmt/format.h>
#include <signal.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <sstream>

#include "compiler/run.h"
#include "compiler/support/error.h"
#include "compiler/support/library.h"
#include "compiler/support/target.h"

namespace nacre {
namespace {

namespace fs = std::filesystem;

// As Debian's cross compilers are called.
const char* compiler_name(const Target& target) {
  switch (target.machine) {
    case EM_X86_64:
      return "x86_64-linux-gnu";
    case EM_AARCH64:
      return "aarch64-linux-gnu";
    case EM_ARM:
      return "arm-linux-gnueabihf";
    default:
      return "riscv64-linux-gnu";
  }
}

// A program that answers on its standard output what comes on its standard input.
class Process {
 public:
  explicit Process(const std::vector<std::string>& command) : name_(command.front()) {
    int ends[2];
    if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0)
      fail(ErrorKind::environment, "cannot make a socket: {}", std::strerror(errno));
    end_ = ends[0];
    std::vector<char*> words;
    for (const std::string& word : command) words.push_back(const_cast<char*>(word.c_str()));
    words.push_back(nullptr);
    posix_spawn_file_actions_t actions;
    ::posix_spawn_file_actions_init(&actions);
    ::posix_spawn_file_actions_adddup2(&actions, ends[1], 0);
    ::posix_spawn_file_actions_adddup2(&actions, ends[1], 1);
    const int error = ::posix_spawnp(&pid_, words[0], &actions, nullptr, words.data(), environ);
    ::posix_spawn_file_actions_destroy(&actions);
    ::close(ends[1]);
    if (!error) return;
    ::close(end_);
    fail(ErrorKind::environment, "cannot start {}: {}", name_, std::strerror(error));
  }
  Process(const Process&) = delete;
  ~Process() {
    ::close(end_);
    if (pid_ > 0) wait();
  }

  void put(const void* bytes, std::size_t size) {
    const char* from = static_cast<const char*>(bytes);
    while (size > 0) {
      const ssize_t done = ::send(end_, from, size, MSG_NOSIGNAL);
      if (done < 0 && errno == EINTR) continue;
      if (done < 0) ended();
      from += done;
      size -= static_cast<std::size_t>(done);
    }
  }
  void get(void* bytes, std::size_t size) {
    char* to = static_cast<char*>(bytes);
    while (size > 0) {
      const ssize_t done = ::recv(end_, to, size, 0);
      if (done < 0 && errno == EINTR) continue;
      if (done <= 0) ended();
      to += done;
      size -= static_cast<std::size_t>(done);
    }
  }
  template <typename T>
  void put(T number) {
    put(&number, sizeof number);
  }
  template <typename T>
  T get() {
    T number;
    get(&number, sizeof number);
    return number;
  }

 private:
  int wait() {
    int status = 0;
    while (::waitpid(pid_, &status, 0) < 0 && errno == EINTR) {
    }
    pid_ = -1;
    return status;
  }
  [[noreturn]] void ended() {
    const int status = wait();
    if (WIFSIGNALED(status))
      fail(ErrorKind::internal, "the artifact crashed under {}: {}", name_,
           ::strsignal(WTERMSIG(status)));
    fail(ErrorKind::environment, "{} ended early with status {}", name_, WEXITSTATUS(status));
  }

  std::string name_;
  int end_ = -1;
  pid_t pid_ = -1;
};

class RemoteRunner : public Runner {
 public:
  RemoteRunner(const formats::Artifact& artifact, std::uint32_t entry, unsigned threads,
               const std::vector<std::string>& command)
      : entry_(artifact.entries.at(entry)), states_(artifact.states), process_(command) {
    const AlignedBytes bytes = artifact_memory(artifact);
    process_.put<std::uint64_t>(bytes.size());
    process_.put(bytes.data(), bytes.size());
    process_.put<std::uint32_t>(entry);
    process_.put<std::uint32_t>(threads);
    check_status();
  }

  void reset() override { process_.put<std::uint32_t>(0); }

  CallResult call(const std::vector<HostTensor>& inputs) override { return run(inputs, {}); }
  CallResult call(const CaseSet& set) override {
    return run(set.inputs, PlacedInputs(set.inputs, set.places, set.shared));
  }

 private:
  void check_status() {
    const auto status = static_cast<nacre_status>(process_.get<std::uint32_t>());
    if (status == NACRE_OK) return;
    std::string message(process_.get<std::uint32_t>(), '\0');
    process_.get(message.data(), message.size());
    require(status, message);
  }

  CallResult run(const std::vector<HostTensor>& inputs, PlacedInputs placed) {
    if (placed.empty()) placed = PlacedInputs::apart(inputs);
    process_.put<std::uint32_t>(1);
    const std::vector<std::vector<std::byte>*> storages = placed.storages();
    process_.put<std::uint32_t>(static_cast<std::uint32_t>(storages.size()));
    for (const std::vector<std::byte>* storage : storages) {
      process_.put<std::uint64_t>(storage->size());
      process_.put(storage->data(), storage->size());
    }
    process_.put<std::uint32_t>(static_cast<std::uint32_t>(inputs.size()));
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      nacre_tensor t = placed.argument(i, inputs[i]);
      if (t.dtype == NACRE_u16 && i < entry_.inputs.size() && entry_.inputs[i].dtype == NACRE_bf16)
        t.dtype = NACRE_bf16;
      const std::size_t storage = placed.storage_of(i);
      process_.put<std::uint32_t>(static_cast<std::uint32_t>(storage));
      process_.put<std::uint64_t>(static_cast<std::uint64_t>(static_cast<const std::byte*>(t.data) -
                                                             storages[storage]->data()));
      process_.put<std::uint32_t>(t.dtype);
      process_.put<std::uint32_t>(t.rank);
      process_.put(t.shape, t.rank * sizeof *t.shape);
      process_.put(t.strides, t.rank * sizeof *t.strides);
    }
    check_status();

    CallResult result;
    const auto output_count = process_.get<std::uint32_t>();
    check(output_count == entry_.outputs.size(), "{} outputs, and the entry has {}", output_count, entry_.outputs.size());
    for (const formats::Tensor& output : entry_.outputs) {
      std::vector<std::int64_t> shape(process_.get<std::uint32_t>());
      process_.get(shape.data(), shape.size() * sizeof shape[0]);
      result.outputs.push_back(get_tensor(output.dtype, std::move(shape)));
    }
    for (std::vector<std::byte>* storage : storages) process_.get(storage->data(), storage->size());
    for (std::size_t i = 0; i < inputs.size(); ++i)
      if (entry_.inputs[i].flags & NACRE_TENSOR_MUTATED)
        result.after_inputs[static_cast<int>(i)] = placed.read(i, inputs[i]);
    check(process_.get<std::uint32_t>() == states_.size(), "another number of states than the artifact's");
    for (const formats::State& state : states_)
      result.after_buffers[state.name] = get_tensor(state.dtype, state.dims);
    return result;
  }

  HostTensor get_tensor(nacre_dtype dtype, std::vector<std::int64_t> shape) {
    std::byte* bytes = nullptr;
    HostTensor tensor = make_tensor(dtype, std::move(shape), &bytes);
    const auto size = process_.get<std::uint64_t>();
    check(size == tensor.size_bytes, "{} bytes for a tensor of {}", size, tensor.size_bytes);
    process_.get(bytes, tensor.size_bytes);
    return tensor;
  }

  formats::Entry entry_;
  std::vector<formats::State> states_;
  Process process_;
};

// Whether the shell would find a program.
bool in_path(const std::string& program) {
  const char* path = std::getenv("PATH");
  std::istringstream folders(path ? path : "");
  for (std::string folder; std::getline(folders, folder, ':');)
    if (::access((fs::path(folder) / program).c_str(), X_OK) == 0) return true;
  return false;
}

}  // namespace

std::string missing_emulator(const Target& target) {
  if (target.emulator.empty())
    return fmt::format("this machine does not run {}, and QEMU knows no such processor", target.name);
  if (!in_path(target.emulator[0]))
    return fmt::format("this machine does not run {}, and {} (Debian's {}) is not installed", target.name, target.emulator[0],
                       target.firmware ? "qemu-system-arm" : "qemu-user");
  return {};
}

Remote find_remote(const Target& target) {
  if (const std::string why = missing_emulator(target); !why.empty()) return {{}, why};
  const std::string compiler = compiler_name(target);
  const std::string program = fmt::format("nacre/nacre-remote-{}", compiler.substr(0, compiler.find('-')));
  const fs::path remote = find_beside(program);
  if (remote.empty())
    return {{}, fmt::format("this machine does not run {}, and this nacre was built without {}-gcc, which makes the "
                            "runtime for it",
                            target.name, compiler)};
  std::vector<std::string> command = target.emulator;
  command.push_back(remote.string());
  return {command, {}};
}

const Target& target_of(const formats::Artifact& artifact, const formats::Variant& variant) {
  std::uint32_t image = 0;
  for (const formats::Command& command : variant.commands)
    if (command.kind == NACRE_COMMAND_call) image = artifact.kernels.at(command.target).image;
  return find_target(artifact.images.at(image).target);
}

std::unique_ptr<Runner> make_remote_runner(const formats::Artifact& artifact, std::uint32_t entry,
                                           unsigned threads,
                                           const std::vector<std::string>& command) {
  return std::make_unique<RemoteRunner>(artifact, entry, threads, command);
}

}  // namespace nacre
