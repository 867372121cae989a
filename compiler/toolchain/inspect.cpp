#include "compiler/toolchain/inspect.h"

#include <llvm/Object/ELFObjectFile.h>
#include <llvm/Support/DataExtractor.h>

#include <algorithm>
#include <map>

namespace nacre {
namespace {

using llvm::object::ELFSectionRef;
using llvm::object::ELFSymbolRef;
using llvm::object::SectionRef;
using llvm::object::SymbolRef;

// Reads what only counts as good; a failure leaves a default.
template <typename T>
T value_or(llvm::Expected<T> expected, T other) {
  if (expected) return *expected;
  llvm::consumeError(expected.takeError());
  return other;
}

class Inspection {
 public:
  Inspection(const llvm::object::ELFObjectFileBase& file, const std::string& mark)
      : file_(file), mark_(mark) {}

  ObjectFacts facts() {
    for (const ELFSymbolRef symbol : file_.symbols()) see(symbol);
    for (const SectionRef section : file_.sections()) {
      const ELFSectionRef elf(section);
      if (elf.getFlags() & llvm::ELF::SHF_ALLOC)
        (elf.getFlags() & llvm::ELF::SHF_EXECINSTR ? facts_.code_bytes : facts_.data_bytes) +=
            static_cast<long long>(section.getSize());
    }
    // Relocations name the section that they are for.
    for (const SectionRef holder : file_.sections()) {
      const auto target = value_or(holder.getRelocatedSection(), file_.section_end());
      if (target == file_.section_end()) continue;
      if (ELFSectionRef(*target).getFlags() & llvm::ELF::SHF_EXECINSTR)
        calls(holder, target->getIndex());
      if (value_or(target->getName(), llvm::StringRef()) == ".stack_sizes") frames(holder, *target);
    }
    return std::move(facts_);
  }

 private:
  void see(const ELFSymbolRef& symbol) {
    const std::string name = value_or(symbol.getName(), llvm::StringRef()).str();
    const auto flags = value_or(symbol.getFlags(), 0u);
    if (flags & SymbolRef::SF_Undefined) {
      if (!name.empty()) facts_.undefined.push_back(name);
      return;
    }
    if (symbol.getELFType() != llvm::ELF::STT_FUNC) return;
    const auto section = value_or(symbol.getSection(), file_.section_end());
    if (section == file_.section_end()) return;
    const std::string known =
        symbol.getBinding() == llvm::ELF::STB_LOCAL ? name + "@" + mark_ : name;
    by_section_.try_emplace(section->getIndex(), facts_.functions.size());
    facts_.functions.push_back({known, -1, {}});
  }

  // The function that a relocation means: by its name, or as the one in a section.
  std::string function_of(const llvm::object::RelocationRef& relocation) {
    const auto symbol = relocation.getSymbol();
    if (symbol == file_.symbol_end()) return {};
    const ELFSymbolRef elf(*symbol);
    const auto section = value_or(symbol->getSection(), file_.section_end());
    if (section == file_.section_end()) return value_or(symbol->getName(), llvm::StringRef()).str();
    const auto found = by_section_.find(section->getIndex());
    return found == by_section_.end() ? std::string() : facts_.functions[found->second].name;
  }

  void calls(const SectionRef& holder, std::uint64_t section) {
    const auto found = by_section_.find(section);
    if (found == by_section_.end()) return;
    FunctionFacts& caller = facts_.functions[found->second];
    for (const auto& relocation : holder.relocations()) {
      const std::string name = function_of(relocation);
      if (name.empty() || name == caller.name ||
          std::find(caller.calls.begin(), caller.calls.end(), name) != caller.calls.end())
        continue;
      caller.calls.push_back(name);
    }
  }

  // Pairs of an address, which is a relocation, and a number in base 128.
  void frames(const SectionRef& holder, const SectionRef& section) {
    const llvm::StringRef bytes = value_or(section.getContents(), llvm::StringRef());
    const llvm::DataExtractor data(bytes, file_.isLittleEndian(), file_.getBytesInAddress());
    for (const auto& relocation : holder.relocations()) {
      std::uint64_t at = relocation.getOffset() + file_.getBytesInAddress();
      const std::string name = function_of(relocation);
      const auto size = static_cast<long long>(data.getULEB128(&at));
      for (FunctionFacts& f : facts_.functions)
        if (f.name == name) f.frame_bytes = size;
    }
  }

  const llvm::object::ELFObjectFileBase& file_;
  const std::string& mark_;
  ObjectFacts facts_;
  std::map<std::uint64_t, std::size_t>
      by_section_;  // the function in a section; each has one of its own
};

}  // namespace

ObjectFacts inspect_object(const std::string& bytes, const std::string& mark) {
  auto file = llvm::object::ObjectFile::createELFObjectFile(
      llvm::MemoryBufferRef(llvm::StringRef(bytes), "object"));
  if (!file) {
    ObjectFacts bad;
    bad.error = llvm::toString(file.takeError());
    return bad;
  }
  return Inspection(llvm::cast<llvm::object::ELFObjectFileBase>(**file), mark).facts();
}

}  // namespace nacre
