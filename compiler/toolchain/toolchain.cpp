#include "compiler/toolchain/toolchain.h"

#include <sched.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <exception>
#include <mutex>
#include <system_error>
#include <thread>

#include "compiler/support/error.h"
#include "compiler/support/hash.h"
#include "compiler/support/library.h"
#include "compiler/toolchain/cache.h"
#include "compiler/toolchain/device_image.h"
#include "compiler/toolchain/module.h"
#include "formats/kernel_abi.h"
#include "targets/kernel_sources.h"

namespace nacre {
namespace {

const ToolchainModule& module() {
  static const ToolchainModule& loaded = []() -> const ToolchainModule& {
    const auto get = reinterpret_cast<decltype(&nacre_toolchain_module)>(
        load_symbol("libnacre_toolchain.so", "nacre_toolchain_module",
                    "it needs Debian's libclang-cpp19 and libllvm19"));
    const ToolchainModule& found = *get();
    if (found.version != kToolchainVersion)
      fail(ErrorKind::environment, "libnacre_toolchain.so is of another build of nacre");
    return found;
  }();
  return loaded;
}

// What `clang -cc1` gets besides the target's own flags. cc1 knows neither -fno-math-errno nor
// -fno-trapping-math: both are its defaults. Loops of generated scalar code are left to its
// vectoriser.
enum class Use { image, linked };
std::vector<std::string> compile_flags(const Target& target, Use use, bool small) {
  std::vector<std::string> flags{"-triple",
                                 target.triple,
                                 "-std=c++20",
                                 small ? "-Os" : "-O2",
                                 "-ffreestanding",
                                 "-nostdsysteminc",
                                 "-nobuiltininc",
                                 "-fvisibility=hidden",
                                 "-ffunction-sections",
                                 "-fdata-sections",
                                 "-fno-rtti",
                                 "-fno-threadsafe-statics",
                                 "-ffp-contract=fast",
                                 "-fwrapv",
                                 "-mframe-pointer=none"};
  if (!small) flags.push_back("-vectorize-loops");
  if (target.firmware)
    flags.insert(flags.end(), {"-mrelocation-model", "static"});
  else
    flags.insert(flags.end(), {"-mrelocation-model", "pic", "-pic-level", "2"});
  // What a function has below the stack pointer is not recorded, and an interrupt would write over it.
  if (use == Use::linked) flags.insert(flags.end(), {"-fstack-size-section", "-disable-red-zone"});
  for (const std::string& flag : target.compile_flags) flags.push_back(flag);
  return flags;
}

std::vector<std::string> link_flags(const Target& target) {
  return {"-m",
          target.emulation,
          "-shared",
          std::string("--entry=") + NACRE_KERNEL_TABLE_SYMBOL,
          "-z",
          "text",
          "-z",
          "defs",
          "-z",
          "noexecstack",
          "-z",
          fmt::format("max-page-size={}", target.page_bytes),
          "--no-dynamic-linker",
          "--gc-sections",
          "--hash-style=sysv",
          "--build-id=none",
          "-s",
          "--threads=1"};
}

// The table that kernel_abi.h describes: differences of addresses, which no C initialiser can
// express. With it comes what kernels call without naming it.
Source kernel_table(std::span<const Source> sources) {
  std::string text = "#include \"nacre/support.h\"\n__asm__(\n";
  const auto line = [&](const std::string& words) { text += "    \"" + words + "\\n\"\n"; };
  line(".section .rodata.nacre_kernels,\\\"a\\\"");
  line(".balign 8");
  line(".globl " NACRE_KERNEL_TABLE_SYMBOL);
  line(NACRE_KERNEL_TABLE_SYMBOL ":");
  line(fmt::format(".long {:#x}, {}, {}, 0", NACRE_KERNEL_TABLE_MAGIC, NACRE_KERNEL_ABI,
                   sources.size()));
  for (const Source& source : sources) {
    line(".hidden " + source.name);
    line(".long " + source.name + " - " NACRE_KERNEL_TABLE_SYMBOL);
  }
  return {"kernel_table", text + ");\n"};
}

// Generated kernels begin with it; to parse it once for all of them takes as long as to parse it
// for one, and somewhat longer to write down.
constexpr const char* kKernelHeader = "nacre/kernels.h";
constexpr std::size_t kManySources = 3;

std::string compile_source(const Source& source, const Target& target, const std::vector<std::string>& flags, bool one_of_many, bool ptx) {
  if (target.compute_capability) return compile_device_object(source, target, ptx);
  CompileJob job{source.name, source.text, flags, {}};
  if (one_of_many) job.common = kKernelHeader;
  for (const KernelHeader& header : kernel_headers())
    job.headers.emplace_back(header.name, header.text);
  for (const KernelHeader& header : harness_headers())
    job.headers.emplace_back(header.name, header.text);
  ToolResult result = module().compile(job);
  if (!result.error.empty())
    fail(ErrorKind::internal, "generated kernel {} does not compile for {}:\n{}", source.name,
         target.name, result.error);
  return std::move(result.bytes);
}

// Everything that decides what the object is.
std::string cache_key(const Source& source, const Target& target, const std::vector<std::string>& flags, bool ptx) {
  if (target.compute_capability) return device_cache_key(source, target, ptx);
  static const std::string headers = [] {
    std::string all;
    for (const KernelHeader& header : kernel_headers())
      all +=
          fmt::format("{}\n{}\n{}", header.name, std::string_view(header.text).size(), header.text);
    return hash128_hex(all);
  }();
  std::string text = fmt::format("{}\n{}\n{}\n", module().toolchain, headers, source.name);
  for (const std::string& flag : flags) text += flag + "\n";
  return hash128_hex(text + "\n" + source.text);
}

int processors() {
  cpu_set_t set;
  CPU_ZERO(&set);
  return ::sched_getaffinity(0, sizeof set, &set) == 0 ? std::max(CPU_COUNT(&set), 1) : 1;
}

// Runs work(0) ... work(count - 1) on up to `threads` threads; the exception of the lowest number
// wins.
template <typename Work>
void in_parallel(std::size_t count, int threads, const Work& work) {
  std::atomic<std::size_t> next{0};
  std::vector<std::exception_ptr> errors(count);
  std::atomic<bool> failed{false};
  const auto loop = [&] {
    for (std::size_t i; !failed && (i = next++) < count;) {
      try {
        work(i);
      } catch (...) {
        errors[i] = std::current_exception();
        failed = true;
      }
    }
  };
  std::vector<std::thread> others;
  const std::size_t most = std::min(count, static_cast<std::size_t>(threads));
  try {
    for (std::size_t t = 1; t < most; ++t) others.emplace_back(loop);
  } catch (const std::system_error&) {  // no more threads to be had: those that run do the work
  }
  loop();
  for (std::thread& thread : others) thread.join();
  for (const std::exception_ptr& error : errors)
    if (error) std::rethrow_exception(error);
}

struct Compiled {
  std::vector<std::string> objects;
  std::size_t compiled = 0;  // of the first `counted`, those that were not in the cache
};

Compiled compile_all(std::span<const Source> all, std::size_t counted, const Target& target,
                     Use use, const ToolchainOptions& options) {
  const ObjectCache cache(!options.use_cache             ? std::filesystem::path()
                          : options.cache_folder.empty() ? ObjectCache::default_folder()
                                                         : options.cache_folder);
  const std::vector<std::string> flags = compile_flags(target, use, options.small_code);
  std::vector<std::string> keys(all.size());
  Compiled made;
  std::vector<std::string>& objects = made.objects;
  objects.resize(all.size());
  std::vector<std::size_t> missing;
  for (std::size_t i = 0; i < all.size(); ++i) {
    keys[i] = cache_key(all[i], target, flags, options.ptx);
    if (std::optional<std::string> found = cache.find(keys[i]))
      objects[i] = std::move(*found);
    else
      missing.push_back(i);
  }

  std::mutex progress_lock;
  std::size_t done = all.size() - missing.size();
  // Long sources first, so that no thread is left alone with a large kernel at the end.
  std::stable_sort(missing.begin(), missing.end(), [&](std::size_t a, std::size_t b) {
    return all[a].text.size() > all[b].text.size();
  });
  in_parallel(missing.size(), options.threads > 0 ? options.threads : processors(),
              [&](std::size_t i) {
                const std::size_t at = missing[i];
                objects[at] = compile_source(all[at], target, flags, missing.size() >= kManySources, options.ptx);
                cache.store(keys[at], objects[at]);
                const std::lock_guard<std::mutex> lock(progress_lock);
                ++done;
                if (options.progress) options.progress(std::min(done, counted), counted);
              });
  for (const std::size_t at : missing) made.compiled += at < counted;
  if (!missing.empty()) cache.trim();
  return made;
}

std::string link(LinkJob job, const Target& target) {
  ToolResult linked = module().link(job);
  if (!linked.error.empty())
    fail(ErrorKind::internal, "the kernels do not link for {}:\n{}", target.name, linked.error);
  return std::move(linked.bytes);
}

}  // namespace

void load_toolchain() { module(); }

CodeImage compile_image(std::span<const Source> sources, const Target& target,
                        const ToolchainOptions& options) {
  if (target.compute_capability) {
    Compiled made = compile_all(sources, sources.size(), target, Use::image, options);
    CodeImage image = device_image(sources, made.objects, target);
    image.compiled = made.compiled;
    return image;
  }
  std::vector<Source> all(sources.begin(), sources.end());
  all.push_back(kernel_table(sources));
  Compiled made = compile_all(all, sources.size(), target, Use::image, options);
  CodeImage image;
  image.compiled = made.compiled;
  for (std::size_t i = 0; i < sources.size(); ++i) {
    const ObjectFacts facts = object_facts(made.objects[i], "");
    image.kernel_sizes.push_back(static_cast<std::uint32_t>(facts.code_bytes + facts.data_bytes));
  }
  const std::string linked = link({std::move(made.objects), link_flags(target)}, target);
  image.bytes.assign(linked.begin(), linked.end());
  return image;
}

std::vector<std::string> compile_objects(std::span<const Source> sources, const Target& target,
                                         const ToolchainOptions& options) {
  return compile_all(sources, sources.size(), target, Use::linked, options).objects;
}

std::string link_relocatable(std::vector<std::string> objects, const Target& target,
                             const std::vector<std::string>& roots) {
  std::vector<std::string> flags{
      "-m", target.emulation, "-r", "--gc-sections", "--strip-debug", "--threads=1"};
  for (const std::string& root : roots) flags.insert(flags.end(), {"-u", root});
  // The record of stacks has been read.
  return link({std::move(objects), std::move(flags), {}, false}, target);
}

std::string link_program(std::vector<std::string> objects, const Target& target,
                         const std::string& script) {
  return link({std::move(objects),
               {"-m", target.emulation, "-static", "--gc-sections", "--entry=_start", "-z",
                "noexecstack", "--build-id=none", "--threads=1"},
               script,
               false},
              target);
}

ObjectFacts object_facts(const std::string& object, const std::string& mark) {
  ObjectFacts facts = module().inspect(object, mark);
  if (!facts.error.empty())
    fail(ErrorKind::internal, "the compiler's object cannot be read: {}", facts.error);
  return facts;
}

}  // namespace nacre
