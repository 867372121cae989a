// Indented text of a kernel, and the names in it.
#pragma once

#include <fmt/format.h>

#include <map>
#include <string>
#include <vector>

#include "compiler/codegen/kernel.h"
#include "compiler/loops/address.h"

namespace nacre {

class Writer {
 public:
  template <class... Args>
  void line(fmt::format_string<Args...> format, Args&&... args) {
    text_.append(static_cast<size_t>(indent_) * 2, ' ');
    fmt::format_to(std::back_inserter(text_), format, std::forward<Args>(args)...);
    text_ += '\n';
  }
  // A line that opens a block, and one that closes it.
  template <class... Args>
  void open(fmt::format_string<Args...> format, Args&&... args) {
    line(format, std::forward<Args>(args)...);
    ++indent_;
  }
  void close(const char* text = "}") {
    --indent_;
    line("{}", text);
  }
  void in() { ++indent_; }
  void out() { --indent_; }
  const std::string& text() const { return text_; }

 private:
  std::string text_;
  int indent_ = 1;
};

// What all parts of a kernel under construction share.
struct KernelContext {
  const LoopProgram& program;
  const Group& group;
  const Target& target;
  KernelSource kernel;
  Writer out;
  std::map<BufferId, std::string> pointers;
  // The first element of a buffer that the group touches, if that is known: the pointer of a kernel points there. So groups that
  // do the same to different rows of a buffer, such as the parts of a concatenation or of a slice, share a kernel.
  std::map<BufferId, int64_t> starts;

  // All that leaves the kernel is rounded to 16 bits: functions may be as rough as that allows.
  bool rounds_to_half = false;
  std::string expression(const std::string& primitive) const;

  int64_t start(BufferId buffer) const {
    const auto found = starts.find(buffer);
    return found == starts.end() ? 0 : found->second;
  }

  // Whether it is a local buffer of one element.
  bool in_register(BufferId buffer) const { return program[buffer].kind == BufferKind::local && simplify(elements_of(program[buffer]), program.symbols).is(1); }

  // The C++ name of the buffer's pointer; the first use makes it an argument of the kernel (a local buffer gets scratch).
  std::string pointer(BufferId buffer);
  // The position of `where` in the kernel's provenances, added if it is new.
  int provenance(const Provenance& where);
};

// How many points several loops have together.
Expr points_of(const std::vector<LoopVar>& loops);
// The loops' names and values where one `counter` goes over their points, the last loop fastest.
std::vector<std::pair<std::string, std::string>> values_of(const std::vector<LoopVar>& loops, const std::string& counter, const Facts& facts);

// For profiles, and for people.
void count_work(KernelContext& k);
std::string comment_of(const KernelContext& k);

// The C++ type of an element in memory, and of a scalar in registers.
std::string storage_type(nacre_dtype dtype);
std::string scalar_type(nacre_dtype dtype);

}  // namespace nacre
