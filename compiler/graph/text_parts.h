// What the text forms of graphs and of loop programs share: names, numbers, symbols, lines, and the
// comments that say where something came from. For graph/text.cpp and loops/text.cpp.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "compiler/graph/graph.h"

namespace nacre::text_parts {

// ---- Printing.

bool is_word_char(char c);
bool is_bare(std::string_view s);  // a name that needs no quotes
std::string quoted(std::string_view s);
std::string name_text(std::string_view s);  // in quotes where it needs them
std::string number_text(double v);          // the shortest that reads back as the same: 1, 0.1, -inf
std::string list_text(const std::vector<Expr>& list);
std::string symbol_text(const std::string& name, const SymbolFacts& facts);  // s0: [2, 64] hint 8
// `  # aten.linear.default model.py:41 encoder.fc`; `-` for what is not known, empty where nothing is.
std::string where_comment(const Provenance& where);

// ---- Reading. Each throws Malformed, to which the reader of the whole adds the line.

struct Malformed {
  size_t column = 0;
  std::string why;
};

// A part of a line, and where it stands.
struct Part {
  std::string_view text;
  size_t column = 0;
};

[[noreturn]] void refuse(const Part& at, std::string why);
Part trimmed(Part p);
Part sub(const Part& p, size_t from, size_t count = std::string_view::npos);
// The first of `stops` outside quotes and brackets.
size_t find_top(std::string_view s, std::string_view stops, size_t from = 0);
std::vector<Part> split_top(const Part& p, char separator);
std::vector<Part> split_words(const Part& p);  // at blanks
// The content of `[...]` that starts at `from`; `from` moves behind it.
Part bracketed(const Part& p, size_t& from, char open, char close);

std::string unquoted(const Part& p);  // a name, with or without quotes
Expr expression(const Part& p);
int64_t integer(const Part& p);  // inf and -inf: kUnbounded and -kUnbounded
std::optional<double> real(std::string_view s);
std::pair<std::string, SymbolFacts> symbol(const Part& p);
// What where_comment writes, without the `#`; nothing for a comment of another form.
Provenance where_of(const Part& comment);

// The lines of a text that say something, without their comments.
class Lines {
 public:
  explicit Lines(std::string_view text) : text_(text) {}
  bool next();  // false at the end
  const Part& line() const { return line_; }
  const Part& comment() const { return comment_; }
  int number() const { return number_; }

 private:
  std::string_view text_;
  size_t at_ = 0;
  int number_ = 0;
  Part line_, comment_;
};

}  // namespace nacre::text_parts
