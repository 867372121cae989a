#include "compiler/support/print.h"

#include <algorithm>
#include <cctype>

#include "compiler/support/error.h"

namespace nacre {
namespace {

// Columns as a terminal counts them: bytes that continue a UTF-8 character take no room.
std::size_t width_of(std::string_view text) {
  return static_cast<std::size_t>(std::count_if(text.begin(), text.end(), [](char c) {
    return (static_cast<unsigned char>(c) & 0xC0) != 0x80;
  }));
}

bool looks_like_number(std::string_view cell) {
  if (cell.empty() || cell == "-") return true;
  return std::isdigit(static_cast<unsigned char>(cell.front())) ||
         ((cell.front() == '-' || cell.front() == '+' || cell.front() == '.') && cell.size() > 1 &&
          std::isdigit(static_cast<unsigned char>(cell[1])));
}

}  // namespace

void Table::add(std::vector<std::string> row) {
  check(row.size() == header_.size(), "a table row has {} cells, its header {}", row.size(),
        header_.size());
  rows_.push_back(std::move(row));
}

std::string Table::text(int indent) const {
  std::vector<std::size_t> widths;
  std::vector<bool> numeric(header_.size(), true);
  for (const std::string& name : header_) widths.push_back(width_of(name));
  for (const auto& row : rows_) {
    for (std::size_t i = 0; i < row.size(); ++i) {
      widths[i] = std::max(widths[i], width_of(row[i]));
      numeric[i] = numeric[i] && looks_like_number(row[i]);
    }
  }
  std::string out;
  const auto add_line = [&](const std::vector<std::string>& cells) {
    std::string line(static_cast<std::size_t>(indent), ' ');
    for (std::size_t i = 0; i < cells.size(); ++i) {
      if (i) line += "  ";
      const std::string blanks(widths[i] - width_of(cells[i]), ' ');
      line += numeric[i] ? blanks + cells[i] : cells[i] + blanks;
    }
    line.erase(line.find_last_not_of(' ') + 1);
    out += line + "\n";
  };
  add_line(header_);
  for (const auto& row : rows_) add_line(row);
  return out;
}

std::string grouped(std::int64_t number) {
  std::string digits = std::to_string(number);
  const std::size_t first = digits.front() == '-' ? 1 : 0;
  for (std::size_t at = digits.size(); at > first + 3;) digits.insert(at -= 3, ",");
  return digits;
}

}  // namespace nacre
