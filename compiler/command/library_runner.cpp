#include "compiler/command/library_runner.h"

#include <fcntl.h>
#include <spawn.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>

#include "compiler/command/remote.h"
#include "compiler/firmware/stack.h"
#include "compiler/firmware/values.h"
#include "compiler/graph/graph.h"
#include "compiler/support/error.h"
#include "compiler/support/file.h"
#include "compiler/support/print.h"
#include "compiler/support/target.h"
#include "compiler/toolchain/toolchain.h"
#include "formats/container.h"
#include "formats/kinds.h"

namespace nacre {
namespace {

namespace fs = std::filesystem;

constexpr std::uint32_t kMostBlocks = 1024;  // harness.h

struct HarnessHeader {  // harness.h
  std::uint32_t memory_bytes, arena_bytes, paint_bytes, begin_anew, block_count;
  std::uint32_t offsets[kMostBlocks];
};
struct HarnessResult {
  std::uint32_t status, stack_bytes;
};

// Where QEMU's boards have memory. They begin at the vectors at 0.
struct Board {
  const char* name;
  const char *rom, *rom_size;  // code and what is read only
  const char* ram;
  std::uint64_t ram_bytes;
};
constexpr Board kBoards[] = {
    {"mps2-an386", "0x400", "4095K", "0x21000000", 16 << 20},
    {"mps2-an500", "0x400", "4095K", "0x60000000", 16 << 20},
    {"mps3-an547", "0x70000000", "64M", "0x74000000", 128 << 20},
};

const Board& board_of(const Target& target) {
  const auto board = std::find_if(std::begin(kBoards), std::end(kBoards),
                                  [&](const Board& b) { return target.emulator.back() == b.name; });
  check(board != std::end(kBoards), "no memory map of the board of {}", target.name);
  return *board;
}

std::string board_script(const Board& board) {
  return fmt::format(
      "MEMORY {{ BOOT (rx) : ORIGIN = 0, LENGTH = 1K\n ROM (rx) : ORIGIN = {0}, LENGTH = {1}\n RAM "
      "(rw) : ORIGIN = {2}, LENGTH = {3} }}\n"
      "SECTIONS {{ .vectors : {{ KEEP(*(.vectors)) }} >BOOT\n .text : {{ *(.text*) *(.rodata*) }} "
      ">ROM\n"
      " .memory (NOLOAD) : {{ harness_memory = .; }} >RAM\n harness_stack_top = {2} + {3};\n "
      "/DISCARD/ : {{ *(.ARM.*) *(.stack_sizes) *(.comment) }} }}\n",
      board.rom, board.rom_size, board.ram, board.ram_bytes);
}

class TemporaryFolder {
 public:
  TemporaryFolder() {
    std::string name = (fs::temp_directory_path() / "nacre-XXXXXX").string();
    if (!::mkdtemp(name.data()))
      fail(ErrorKind::environment, "cannot create a folder {}: {}", name, std::strerror(errno));
    path_ = name;
  }
  TemporaryFolder(const TemporaryFolder&) = delete;
  ~TemporaryFolder() {
    std::error_code ignored;
    fs::remove_all(path_, ignored);
  }
  const fs::path& path() const { return path_; }

 private:
  fs::path path_;
};

// The address of a block as a parameter of the function.
std::string argument(const Parameter& p, std::size_t block, bool number) {
  if (p.kind == Parameter::Kind::arena || p.kind == Parameter::Kind::state) return p.name;
  if (p.kind == Parameter::Kind::symbol || number)
    return fmt::format("*reinterpret_cast<const {}*>(blocks[{}])", p.type, block);
  return fmt::format("reinterpret_cast<{}>(blocks[{}])", p.type, block);
}

// What a library takes from elsewhere beside memcpy and memset.
std::string foreign(const StaticLibrary& library) {
  std::vector<std::string> names;
  for (const std::string& symbol : library.undefined)
    if (symbol != "memcpy" && symbol != "memset") names.push_back(symbol);
  return joined(names);
}

// Why a library cannot be tried here; empty where it can.
std::string obstacle(const StaticLibrary& library, const Target& target) {
  if (const LibraryMachine machine = library_machine(target); !machine.missing.empty())
    return machine.missing;
  if (const std::string needed = foreign(library); !needed.empty())
    return fmt::format("it needs {}, of the compiler's run-time library", needed);
  for (const Signature& s : library.signatures)
    if (s.parameters.size() >= kMostBlocks)
      return fmt::format("{} has {} arguments, more than can be passed here", s.function, s.parameters.size());
  const std::int64_t memory = library.plan.arena_bytes + library.plan.state_bytes;
  if (target.firmware &&
      static_cast<std::uint64_t>(memory) + (1 << 20) > board_of(target).ram_bytes)
    return fmt::format("it needs {} bytes of memory, and the board that QEMU emulates has {}",
                       memory, board_of(target).ram_bytes);
  return {};
}

class LibraryRunner : public Runner {
 public:
  LibraryRunner(const CompiledModel& model, const StaticLibrary& library, std::uint32_t entry)
      : artifact_(model.artifact),
        entry_(model.artifact.entries.at(entry)),
        library_(library),
        signature_(library.signatures.at(entry)),
        number_(entry),
        target_(find_target(model.artifact.images.at(0).target)) {
    if (const std::string why = obstacle(library_, target_); !why.empty())
      fail(ErrorKind::environment, "the library cannot be tried: {}", why);
    command_ = library_machine(target_).command;
    for (const Parameter& p : signature_.parameters)
      if (p.kind != Parameter::Kind::arena && p.kind != Parameter::Kind::state)
        parameters_.push_back(p);
    link();
    reset();
  }

  void reset() override {
    fresh_ = true;
    state_.assign(static_cast<std::size_t>(library_.plan.state_bytes), 0);
  }

  CallResult call(const std::vector<HostTensor>& inputs) override {
    const std::vector<std::int64_t> symbols = symbols_of(inputs);
    const auto nodes = node_values(entry_, symbols);
    if (!nodes) fail(ErrorKind::user, "the sizes of these inputs are not the model's");
    check_shapes(inputs, *nodes);
    HarnessHeader header{};
    std::string memory = state_;
    const auto place = [&](const void* bytes, std::size_t size) {
      memory.resize((memory.size() + 63) / 64 * 64);
      header.offsets[header.block_count++] = static_cast<std::uint32_t>(memory.size());
      memory.append(bytes ? std::string(static_cast<const char*>(bytes), size)
                          : std::string(size, '\x55'));
    };
    header.offsets[header.block_count++] = 0;
    for (const Parameter& p : parameters_) {
      if (p.kind == Parameter::Kind::symbol) place(&symbols.at(p.index), 8);
      if (p.kind == Parameter::Kind::input)
        place(inputs.at(p.index).data.get(), inputs[p.index].size_bytes);
      if (p.kind == Parameter::Kind::output)
        place(nullptr, output_room(entry_.outputs[p.index], *nodes));
      if (p.kind == Parameter::Kind::shape) place(nullptr, entry_.outputs[p.index].dims.size() * 8);
    }
    memory.resize((memory.size() + 63) / 64 * 64);
    if (target_.firmware) {
      const std::uint64_t room = board_of(target_).ram_bytes,
                          needed = memory.size() +
                                   static_cast<std::uint64_t>(library_.plan.arena_bytes +
                                                              4 * stack_limit_) +
                                   65536;
      if (needed > room)
        fail(ErrorKind::environment,
             "it needs {} bytes of memory, and the board that QEMU emulates has {}", needed, room);
    }
    header.memory_bytes = static_cast<std::uint32_t>(memory.size());
    header.arena_bytes = static_cast<std::uint32_t>(library_.plan.arena_bytes);
    header.paint_bytes = static_cast<std::uint32_t>(2 * stack_limit_ + 4096) & ~7u;
    header.begin_anew = fresh_;
    const std::string answer =
        run(std::string(reinterpret_cast<const char*>(&header), sizeof header) + memory);
    if (answer.size() != sizeof(HarnessResult) + memory.size())
      fail(ErrorKind::internal, "the library did not run to its end{}",
           command_.empty() ? "" : " under " + command_[0]);
    HarnessResult result;
    std::memcpy(&result, answer.data(), sizeof result);
    if (result.status) {
      static const char* const kinds[] = {"",
                                          "index out of range",
                                          "integer division by zero",
                                          "assertion failed",
                                          "a size out of its range",
                                          "the model does not take such sizes"};
      fail(ErrorKind::user, "{}",
           result.status < std::size(kinds) ? kinds[result.status] : "an unknown error");
    }
    if (static_cast<std::int64_t>(result.stack_bytes) > stack_limit_)
      fail(ErrorKind::internal,
           "a call took {} bytes of stack, and the compiler's records say {} at most",
           result.stack_bytes, stack_limit_);
    return read(answer.substr(sizeof result), header, inputs, *nodes);
  }

 private:
  // The library, and the program that calls this entry.
  void link() {
    std::string glue = "#include \"nacre/base.h\"\nextern \"C\" " + signature_.text() + ";\n";
    std::vector<std::string> arguments;
    std::size_t block = 1;
    for (const Parameter& p : signature_.parameters) {
      const bool own = p.kind != Parameter::Kind::arena && p.kind != Parameter::Kind::state;
      const bool number =
          p.kind == Parameter::Kind::input && (entry_.inputs[p.index].flags & NACRE_TENSOR_SCALAR);
      arguments.push_back(argument(p, block, number));
      block += own;
    }
    const bool has_state = library_.plan.state_bytes > 0 || !artifact_.states.empty();
    if (has_state)
      glue += fmt::format("extern \"C\" void {}_init(void* state);\n", library_.plan.name);
    glue += fmt::format(
        "extern \"C\" __attribute__((noinline)) int32_t harness_call([[maybe_unused]] void* arena, "
        "[[maybe_unused]] void* state, [[maybe_unused]] char* const* blocks) {{\n  return "
        "{}({});\n}}\n",
        signature_.function, joined(arguments));
    glue += fmt::format(
        "static void harness_init(void* state) {{ {} }}\n",
        has_state ? fmt::format("{}_init(state);", library_.plan.name) : "(void)state;");
    glue += "#include \"nacre/harness.h\"\n";
    ToolchainOptions options;
    options.threads = 1;
    options.use_cache = false;
    const Source source{"harness", glue};
    std::vector<std::string> objects = compile_objects({&source, 1}, target_, options);
    // What the caller adds to what the header says, and what the functions of the C library take.
    const std::vector<ObjectFacts> facts{object_facts(objects[0], "harness")};
    stack_limit_ =
        library_.stack_bytes.at(number_) + worst_stack(facts, "harness_call", target_) +
        std::max(worst_stack(facts, "memcpy", target_), worst_stack(facts, "memset", target_));
    objects.push_back(library_.object);
    const fs::path program = folder_.path() / "program";
    write_file(program, link_program(std::move(objects), target_,
                                     target_.firmware ? board_script(board_of(target_)) : ""));
    if (::chmod(program.c_str(), 0700) != 0)
      fail(ErrorKind::environment, "cannot make {} a program: {}", program.string(),
           std::strerror(errno));
  }

  // From the dimensions and numbers that give symbols their values.
  std::vector<std::int64_t> symbols_of(const std::vector<HostTensor>& inputs) const {
    if (inputs.size() != entry_.inputs.size())
      fail(ErrorKind::user, "'{}' takes {} inputs, not {}", entry_.name, entry_.inputs.size(),
           inputs.size());
    std::vector<std::int64_t> symbols(artifact_.symbols.size(), 1);
    for (const formats::Guard& guard : only_variant(entry_).guards) {
      if (guard.kind == NACRE_GUARD_bind_value) {
        const HostTensor& number = inputs.at(guard.input);
        std::int64_t value = 0;
        std::memcpy(&value, number.data.get(), std::min<std::size_t>(8, number.size_bytes));
        symbols.at(static_cast<std::size_t>(guard.ref)) = value;
      }
      if (guard.kind != NACRE_GUARD_bind) continue;
      const std::vector<std::int64_t>& shape = inputs.at(guard.input).shape;
      const std::int64_t rest = guard.dim < shape.size() ? shape[guard.dim] - guard.hi : -1;
      if (rest < 0 || rest % guard.lo)
        fail(ErrorKind::user, "input {} has a shape that is not the model's", guard.input);
      symbols.at(static_cast<std::size_t>(guard.ref)) = rest / guard.lo;
    }
    return symbols;
  }

  // What C's types and the header say, and no code checks.
  void check_shapes(const std::vector<HostTensor>& inputs,
                    const std::vector<std::int64_t>& nodes) const {
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      const formats::Tensor& wanted = entry_.inputs[i];
      if (wanted.flags & NACRE_TENSOR_SCALAR) {
        for (const formats::Guard& guard : only_variant(entry_).guards) {
          std::int64_t bits = 0;
          const HostTensor& number = inputs[i];
          if (guard.kind != NACRE_GUARD_value_equal || guard.input != i) continue;
          if (number.dtype == NACRE_f32) {
            const double wide = static_cast<double>(number.as<float>()[0]);
            std::memcpy(&bits, &wide, 8);
          } else {
            std::memcpy(&bits, number.data.get(), std::min<std::size_t>(8, number.size_bytes));
          }
          if (bits != guard.lo)
            fail(ErrorKind::user, "input '{}' is another number than when the model was exported",
                 wanted.name);
        }
        continue;
      }
      const bool bits16 = inputs[i].dtype == NACRE_u16 && wanted.dtype == NACRE_bf16;
      bool same = (inputs[i].dtype == wanted.dtype || bits16) &&
                  inputs[i].shape.size() == wanted.dims.size();
      for (std::size_t d = 0; same && d < wanted.dims.size(); ++d)
        same = inputs[i].shape[d] == value_of(wanted.dims[d], nodes);
      if (!same)
        fail(ErrorKind::user, "input '{}' has a dtype or shape that is not the model's",
             wanted.name);
    }
  }

  static std::size_t output_room(const formats::Tensor& output,
                                 const std::vector<std::int64_t>& nodes) {
    std::int64_t elements = 1;
    for (const formats::Size& d : output.bounds.empty() ? output.dims : output.bounds)
      elements *= std::max<std::int64_t>(0, value_of(d, nodes));
    return static_cast<std::size_t>(elements) * nacre_dtype_size_bytes(output.dtype);
  }

  std::string run(const std::string& input) {
    write_file(folder_.path() / "in", input);
    std::error_code ignored;
    fs::remove(folder_.path() / "out", ignored);
    std::vector<std::string> words = command_;
    if (target_.firmware)
      words.insert(words.end(),
                   {"-nographic", "-monitor", "none", "-serial", "none", "-semihosting-config",
                    "enable=on,target=native", "-kernel", "program"});
    else
      words.push_back((folder_.path() / "program").string());
    std::vector<char*> arguments;
    for (std::string& word : words) arguments.push_back(word.data());
    arguments.push_back(nullptr);
    posix_spawn_file_actions_t actions;
    ::posix_spawn_file_actions_init(&actions);
    ::posix_spawn_file_actions_addchdir_np(&actions, folder_.path().c_str());
    ::posix_spawn_file_actions_addopen(&actions, 0, target_.firmware ? "/dev/null" : "in", O_RDONLY,
                                       0);
    ::posix_spawn_file_actions_addopen(&actions, 1, target_.firmware ? "/dev/null" : "out",
                                       O_WRONLY | O_CREAT | O_TRUNC, 0600);
    pid_t pid = 0;
    const int error =
        ::posix_spawnp(&pid, arguments[0], &actions, nullptr, arguments.data(), environ);
    ::posix_spawn_file_actions_destroy(&actions);
    if (error) fail(ErrorKind::environment, "cannot start {}: {}", words[0], std::strerror(error));
    int status = 0;
    while (::waitpid(pid, &status, 0) < 0 && errno == EINTR) {
    }
    if (WIFSIGNALED(status))
      fail(ErrorKind::internal, "the library crashed: {}", ::strsignal(WTERMSIG(status)));
    if (WEXITSTATUS(status) != 0)
      fail(ErrorKind::internal, "the library crashed{}: status {}",
           command_.empty() ? "" : " under " + command_[0], WEXITSTATUS(status));
    return read_file(folder_.path() / "out");
  }

  CallResult read(const std::string& memory, const HarnessHeader& header,
                  const std::vector<HostTensor>& inputs, const std::vector<std::int64_t>& nodes) {
    CallResult result;
    const auto tensor = [&](nacre_dtype dtype, std::vector<std::int64_t> shape,
                            std::size_t offset) {
      std::byte* bytes = nullptr;
      HostTensor made = make_tensor(dtype, std::move(shape), &bytes);
      check(offset + made.size_bytes <= memory.size(), "a tensor that ends behind its memory");
      std::memcpy(bytes, memory.data() + offset, made.size_bytes);
      return made;
    };
    for (std::size_t i = 0; i < parameters_.size(); ++i) {
      const Parameter& p = parameters_[i];
      const std::size_t offset = header.offsets[i + 1];
      if (p.kind == Parameter::Kind::output) {
        const formats::Tensor& output = entry_.outputs[p.index];
        std::vector<std::int64_t> shape;
        for (std::size_t d = 0; d < output.dims.size(); ++d) {
          shape.push_back(value_of(output.dims[d], nodes));
          if (!output.bounds.empty())
            std::memcpy(&shape[d], memory.data() + header.offsets[i + 2] + 8 * d, 8);
        }
        result.outputs.push_back(tensor(output.dtype, std::move(shape), offset));
      }
      if (p.kind == Parameter::Kind::input && entry_.inputs[p.index].flags & NACRE_TENSOR_MUTATED)
        result.after_inputs[static_cast<int>(p.index)] =
            tensor(inputs[p.index].dtype, inputs[p.index].shape, offset);
    }
    for (std::size_t s = 0; s < artifact_.states.size(); ++s) {
      const formats::State& state = artifact_.states[s];
      result.after_buffers[state.name] =
          tensor(state.dtype, state.dims, static_cast<std::size_t>(library_.plan.state_offsets[s]));
    }
    state_ = memory.substr(0, state_.size());
    fresh_ = false;
    return result;
  }

  const formats::Artifact& artifact_;  // of the model, which outlives this
  const formats::Entry& entry_;
  const StaticLibrary library_;
  const Signature signature_;
  const std::uint32_t number_;  // of the entry
  const Target& target_;
  std::vector<std::string> command_;
  std::vector<Parameter> parameters_;  // that have blocks
  TemporaryFolder folder_;
  std::int64_t stack_limit_ = 0;  // of the call with the harness's function around it
  std::string state_;
  bool fresh_ = true;
};

}  // namespace

LibraryMachine library_machine(const Target& target) {
  if (runs_here(target)) return {};
  if (std::string why = missing_emulator(target); !why.empty()) return {{}, std::move(why)};
  return {target.emulator, {}};
}

std::unique_ptr<Runner> make_library_runner(const CompiledModel& model,
                                            const StaticLibrary& library, std::uint32_t entry) {
  return std::make_unique<LibraryRunner>(model, library, entry);
}

std::string check_library(const Program& captured, const CompiledModel& model,
                          const StaticLibrary& library, std::uint32_t entry,
                          const std::string& path) {
  if (captured.sample_inputs.empty())
    for (const GraphInput& input : captured.graph.inputs)
      if (input.kind == InputKind::user) return "not checked: the program holds no sample inputs";
  const Target& target = find_target(model.artifact.images.at(0).target);
  if (const std::string why = obstacle(library, target); !why.empty()) return "not checked: " + why;
  const LibraryMachine machine = library_machine(target);
  Case the_case;
  the_case.name = path;
  the_case.program = path;
  for (const formats::State& state : model.artifact.states)
    if (state.name == kRandomState) the_case.shape_only = true;
  const std::unique_ptr<Runner> runner = make_library_runner(model, library, entry);
  complete(the_case, captured);
  const Comparison result = check_sets(the_case, captured, Stage::artifact, *runner);
  if (!result.passed)
    fail(ErrorKind::internal,
         "the library does not give PyTorch's result, so it was not written (--no-check writes it "
         "all the same): {}",
         result.reason);
  const std::string under =
      machine.command.empty() ? "" : fmt::format(" (under {})", machine.command[0]);
  return (the_case.shape_only ? "random numbers: the shapes are as PyTorch's" : describe(result)) +
         under;
}

}  // namespace nacre
