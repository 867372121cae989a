// Text for people: aligned tables, numbers with grouped digits.
#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace nacre {

// Columns as wide as their widest cell; a column whose cells all look like numbers is
// right-aligned.
class Table {
 public:
  explicit Table(std::vector<std::string> header) : header_(std::move(header)) {}
  void add(std::vector<std::string> row);
  bool empty() const { return rows_.empty(); }
  // One line a row, each starting with `indent` spaces and ending without trailing blanks.
  std::string text(int indent = 0) const;

 private:
  std::vector<std::string> header_;
  std::vector<std::vector<std::string>> rows_;
};

// 1234567 -> "1,234,567"
std::string grouped(std::int64_t number);

// [1, 2] -> "1, 2"
template <typename Range>
std::string joined(const Range& range, std::string_view separator = ", ") {
  return fmt::format("{}", fmt::join(range, separator));
}

}  // namespace nacre
