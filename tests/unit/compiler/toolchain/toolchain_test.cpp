#include "compiler/toolchain/toolchain.h"

#include <elf.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <cstring>
#include <filesystem>
#include <map>
#include <set>

#include "compiler/support/error.h"
#include "compiler/support/file.h"
#include "compiler/support/target.h"
#include "compiler/toolchain/cache.h"

namespace nacre {
namespace {

namespace fs = std::filesystem;

Source doubling(const std::string& name, int factor = 2) {
  return {name, "#include \"nacre/kernel_abi.h\"\nextern \"C\" int " + name +
                    "(const nacre_kernel_args* args) {\n"
                    "  float* y = static_cast<float*>(args->buffers[0]);\n"
                    "  const float* x = static_cast<const float*>(args->buffers[1]);\n"
                    "  for (long i = 0; i < args->nodes[0]; ++i) y[i] = x[i] * " +
                    std::to_string(factor) + ";\n  return 0;\n}\n"};
}

class Toolchain : public ::testing::Test {
 protected:
  Toolchain() {
    std::string name = (fs::temp_directory_path() / "nacre-toolchain-XXXXXX").string();
    folder_ = ::mkdtemp(name.data());
    options_.cache_folder = folder_ / "cache";
  }
  ~Toolchain() override { fs::remove_all(folder_); }

  std::map<std::string, std::string> cache_files() const {
    std::map<std::string, std::string> files;
    for (const auto& entry : fs::recursive_directory_iterator(options_.cache_folder))
      if (entry.is_regular_file()) files[entry.path().string()] = read_file(entry.path());
    return files;
  }

  void compile(const Source& source) const {
    compile_image(std::vector<Source>{source}, target_, options_);
  }

  const Target& target_ = find_target("x86-64-v3");
  ToolchainOptions options_;
  fs::path folder_;
};

TEST_F(Toolchain, AnErrorInGeneratedCodeShowsTheLine) {
  try {
    compile({"broken", "int f() {\n  return missing + 1;\n}\n"});
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind, ErrorKind::internal);
    EXPECT_NE(error.message.find("broken.cpp:2:10: use of undeclared identifier 'missing'"),
              std::string::npos)
        << error.message;
    EXPECT_NE(error.message.find("return missing + 1;"), std::string::npos) << error.message;
  }
}

TEST_F(Toolchain, SeesNoFileOfTheMachine) {
  EXPECT_THROW(compile({"x", "#include <stdint.h>\n"}), Error);
  EXPECT_THROW(compile({"x", "#include \"/etc/hostname\"\n"}), Error);
}

TEST_F(Toolchain, TheSameSourcesGiveTheSameBytes) {
  const std::vector<Source> sources{doubling("a"), doubling("b", 3), doubling("c", 4)};
  options_.use_cache = false;
  options_.threads = 1;
  const CodeImage one = compile_image(sources, target_, options_);
  options_.threads = 3;
  const CodeImage two = compile_image(sources, target_, options_);
  EXPECT_EQ(one.bytes, two.bytes);
  EXPECT_EQ(one.compiled, 3u);
  EXPECT_FALSE(fs::exists(options_.cache_folder));
  options_.use_cache = true;
  EXPECT_EQ(compile_image(sources, target_, options_).bytes, one.bytes);
  EXPECT_EQ(compile_image(sources, target_, options_).bytes, one.bytes);
}

TEST_F(Toolchain, CompilesOnlyWhatIsNotInTheCache) {
  std::vector<Source> sources{doubling("a"), doubling("b", 3)};
  EXPECT_EQ(compile_image(sources, target_, options_).compiled, 2u);
  EXPECT_EQ(compile_image(sources, target_, options_).compiled, 0u);
  sources.push_back(doubling("c", 5));
  EXPECT_EQ(compile_image(sources, target_, options_).compiled, 1u);
  EXPECT_EQ(compile_image(sources, find_target("x86-64-v2"), options_).compiled, 3u);
}

TEST_F(Toolchain, ADamagedEntryIsCompiledAgain) {
  const std::vector<Source> sources{doubling("a")};
  const CodeImage first = compile_image(sources, target_, options_);
  const auto before = cache_files();
  ASSERT_EQ(before.size(), 2u);  // the kernel and the table
  for (const auto& [path, text] : before) {
    std::string damaged = text;
    damaged[damaged.size() / 2] = static_cast<char>(damaged[damaged.size() / 2] ^ 1);
    write_file(path, damaged);
  }
  const CodeImage second = compile_image(sources, target_, options_);
  EXPECT_EQ(second.compiled, 1u);
  EXPECT_EQ(second.bytes, first.bytes);
  EXPECT_EQ(cache_files(), before);
}

TEST_F(Toolchain, ACacheThatCannotBeWrittenDoesNotMatter) {
  options_.cache_folder = "/proc/no/such/folder";
  EXPECT_EQ(compile_image(std::vector<Source>{doubling("a")}, target_, options_).compiled, 1u);
}

TEST_F(Toolchain, TellsProgressAndSizes) {
  std::atomic<std::size_t> last{0};
  options_.progress = [&](std::size_t done, std::size_t total) {
    EXPECT_LE(done, total);
    EXPECT_EQ(total, 2u);
    last = done;
  };
  const CodeImage image =
      compile_image(std::vector<Source>{doubling("a"), doubling("b", 3)}, target_, options_);
  EXPECT_EQ(last, 2u);
  ASSERT_EQ(image.kernel_sizes.size(), 2u);
  EXPECT_GT(image.kernel_sizes[0], 16u);
}

TEST_F(Toolchain, RefusesRelocationsAndMissingFunctions) {
  const Source table{"stores_addresses",
                     "const char* names[2] = {\"a\", \"b\"};\n#include \"nacre/kernel_abi.h\"\n"
                     "extern \"C\" int stores_addresses(const nacre_kernel_args* args) { return "
                     "names[args->thread][0]; }\n"};
  try {
    compile_image(std::vector<Source>{table}, target_, options_);
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_NE(error.message.find("relocation"), std::string::npos) << error.message;
  }
  const Source caller{"calls_out",
                      "extern \"C\" int elsewhere();\nextern \"C\" int calls_out(const void*) { "
                      "return elsewhere(); }\n"};
  try {
    compile_image(std::vector<Source>{caller}, target_, options_);
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind, ErrorKind::internal);
    EXPECT_NE(error.message.find("elsewhere"), std::string::npos) << error.message;
  }
}

// LLVM makes a minimum of two float16 numbers of it, which is a call on every x86-64 without AVX-512-FP16; so are the conversions,
// without F16C and on RISC-V without Zfhmin. Copies of something large are calls of memcpy.
TEST_F(Toolchain, WhatTheCompilerCallsByItselfIsThere) {
  const Source source{"calls",
                      "#include \"nacre/kernel_abi.h\"\nstruct Large { char bytes[4096]; };\n"
                      "extern \"C\" int calls(const nacre_kernel_args* args) {\n"
                      "  _Float16* y = static_cast<_Float16*>(args->buffers[0]);\n"
                      "  const float low = y[0], high = y[1];\n"
                      "  y[0] = low < 0 ? low : 0.f;\n"
                      "  y[1] = high > 1 ? high : 1.f;\n"
                      "  Large* l = static_cast<Large*>(args->buffers[1]);\n"
                      "  l[0] = l[args->nodes[0]];\n"
                      "  l[1] = {};\n"
                      "  return 0;\n}\n"};
  for (const Target& target : all_targets()) {
    if (target.compute_capability) continue;  // device_test.cpp has those
    EXPECT_NO_THROW(compile_image(std::vector<Source>{source}, target, options_)) << target.name;
  }
}

TEST_F(Toolchain, TheFirstBrokenKernelIsReported) {
  const std::vector<Source> sources{doubling("a"), {"bad", "int x = ;"}, doubling("c")};
  options_.threads = 2;
  EXPECT_THROW(compile_image(sources, target_, options_), Error);
}

// A kernel that does not compile where the library sees another machine than the target describes.
Source agreement(const Target& target) {
  std::string text = "#include \"nacre/kernels.h\"\nusing namespace nk;\n";
  const auto same = [&](const std::string& theirs, int ours) { text += "static_assert(" + theirs + " == " + std::to_string(ours) + ");\n"; };
  same("VL", target.vector_floats());
  same("kRegisters", target.registers);
  same("kMaxNV", target.max_panel_vectors());
  same("detail::kAttentionNV", target.attention_vectors());
  for (int nv = 1; nv <= target.max_panel_vectors(); ++nv) same("tile_rows(" + std::to_string(nv) + ")", target.tile_rows(nv));
  for (int n = 1; n <= 100; ++n) same("default_nv(" + std::to_string(n) + ")", target.panel_vectors(n));
  same("NACRE_L1_BYTES", static_cast<int>(target.l1_bytes));
  same("NACRE_L2_BYTES", static_cast<int>(target.l2_bytes));
  text += "extern \"C\" int k(const nacre_kernel_args* args) {\n"
          "  store(static_cast<float*>(args->buffers[0]), exp(floor(load(static_cast<const float*>(args->buffers[1])))));\n"
          "  return 0;\n}\n";
  return {"k", text};
}

// Segments with rights of their own, on the largest pages that the family has.
template <class Header, class Segment>
void expect_segments_apart(const std::vector<std::uint8_t>& image, const Target& target) {
  Header header;
  ASSERT_GE(image.size(), sizeof header);
  std::memcpy(&header, image.data(), sizeof header);
  std::uint64_t end = 0;
  for (int i = 0; i < header.e_phnum; ++i) {
    Segment segment;
    std::memcpy(&segment, image.data() + header.e_phoff + static_cast<std::size_t>(i) * sizeof segment, sizeof segment);
    if (segment.p_type != PT_LOAD) continue;
    const auto page = static_cast<std::uint64_t>(target.page_bytes);
    EXPECT_GE(segment.p_vaddr / page * page, end) << target.name;
    end = (segment.p_vaddr + segment.p_memsz + page - 1) / page * page;
  }
  EXPECT_GT(end, 0u);
}

TEST_F(Toolchain, EveryTargetIsTheMachineThatTheKernelLibrarySees) {
  std::set<std::string> names;
  for (const Target& target : all_targets()) {
    EXPECT_TRUE(names.insert(target.name).second) << target.name;
    if (target.compute_capability) continue;
    const std::vector<std::uint8_t> image = compile_image(std::vector<Source>{agreement(target)}, target, options_).bytes;
    Elf32_Ehdr header;  // both classes begin alike
    ASSERT_GE(image.size(), sizeof header);
    std::memcpy(&header, image.data(), sizeof header);
    EXPECT_EQ(header.e_machine, target.machine) << target.name;
    if (target.firmware) continue;  // what is linked into an image is not loaded
    if (target.pointer_bytes == 4)
      expect_segments_apart<Elf32_Ehdr, Elf32_Phdr>(image, target);
    else
      expect_segments_apart<Elf64_Ehdr, Elf64_Phdr>(image, target);
  }
}

using Cache = Toolchain;

TEST_F(Cache, KeepsTheEntriesUsedLast) {
  const ObjectCache cache(folder_ / "objects", 4000);
  const std::string object(900, 'x');
  for (const char* key : {"00aa", "00bb", "01cc", "02dd", "03ee"}) {
    cache.store(key, object + key);
    // Times of files may be coarse.
    ::usleep(20000);
  }
  EXPECT_EQ(cache.find("00aa"), object + "00aa");  // used again: no longer the oldest
  cache.trim();
  EXPECT_TRUE(cache.find("00aa"));
  EXPECT_FALSE(cache.find("00bb"));
  EXPECT_FALSE(cache.find("01cc"));
  EXPECT_TRUE(cache.find("03ee"));
}

TEST_F(Cache, WithoutAFolderThereIsNone) {
  const ObjectCache cache{fs::path()};
  cache.store("00aa", "x");
  EXPECT_FALSE(cache.find("00aa"));
  cache.trim();
}

}  // namespace
}  // namespace nacre
