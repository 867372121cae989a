#include "compiler/graph/text_parts.h"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cmath>

#include "compiler/support/error.h"

namespace nacre::text_parts {

// ---- Printing.

bool is_word_char(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) || c == '_' || c == '.';
}

bool is_bare(std::string_view s) {
  return !s.empty() && std::all_of(s.begin(), s.end(), is_word_char);
}

std::string quoted(std::string_view s) {
  std::string out = "\"";
  for (char c : s) {
    switch (c) {
      case '"':
        out += "\\\"";
        break;
      case '\\':
        out += "\\\\";
        break;
      case '\n':
        out += "\\n";
        break;
      case '\t':
        out += "\\t";
        break;
      case '\r':
        out += "\\r";
        break;
      default:
        if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f)
          out += fmt::format("\\x{:02x}", static_cast<unsigned>(static_cast<unsigned char>(c)));
        else
          out += c;
    }
  }
  return out + "\"";
}

std::string name_text(std::string_view s) { return is_bare(s) ? std::string(s) : quoted(s); }

std::string number_text(double v) {
  if (std::isnan(v)) return std::signbit(v) ? "-nan" : "nan";
  if (std::isinf(v)) return v < 0 ? "-inf" : "inf";
  return fmt::format("{}", v);
}

std::string list_text(const std::vector<Expr>& list) {
  std::string out = "[";
  for (size_t i = 0; i < list.size(); ++i) out += (i ? ", " : "") + list[i].str();
  return out + "]";
}

std::string symbol_text(const std::string& name, const SymbolFacts& f) {
  const auto limit = [](int64_t v) -> std::string {
    return v == kUnbounded ? "inf" : v == -kUnbounded ? "-inf" : std::to_string(v);
  };
  std::string out = fmt::format("{}: [{}, {}]", name, limit(f.range.min), limit(f.range.max));
  if (f.multiple != 1) out += fmt::format(" multiple {}", f.multiple);
  if (f.hint != 0) out += fmt::format(" hint {}", f.hint);
  if (f.below) out += fmt::format(" below ({})", f.below->str());
  return out;
}

std::string where_comment(const Provenance& where) {
  const bool placed = !where.file.empty() || where.line != 0;
  if (where.op.empty() && !placed && where.module.empty()) return "";
  const auto part = [](const std::string& s) { return s.empty() ? "-" : name_text(s); };
  std::string out = "  # " + part(where.op);
  if (placed)
    out += " " + part(where.file) + ":" + std::to_string(where.line);
  else if (!where.module.empty())
    out += " -";
  if (!where.module.empty()) out += " " + part(where.module);
  return out;
}

// ---- Reading.

void refuse(const Part& at, std::string why) { throw Malformed{at.column, std::move(why)}; }

Part trimmed(Part p) {
  const auto blank = [](char c) { return std::isspace(static_cast<unsigned char>(c)) != 0; };
  while (!p.text.empty() && blank(p.text.front())) {
    p.text.remove_prefix(1);
    ++p.column;
  }
  while (!p.text.empty() && blank(p.text.back())) p.text.remove_suffix(1);
  return p;
}
Part sub(const Part& p, size_t from, size_t count) {
  return {p.text.substr(from, count), p.column + from};
}

size_t find_top(std::string_view s, std::string_view stops, size_t from) {
  int depth = 0;
  for (size_t i = from; i < s.size(); ++i) {
    const char c = s[i];
    if (depth == 0 && stops.find(c) != std::string_view::npos) return i;
    if (c == '"') {
      for (++i; i < s.size() && s[i] != '"'; ++i)
        if (s[i] == '\\') ++i;
    } else if (c == '(' || c == '[') {
      ++depth;
    } else if (c == ')' || c == ']') {
      depth = std::max(0, depth - 1);
    }
  }
  return std::string_view::npos;
}

std::vector<Part> split_top(const Part& p, char separator) {
  std::vector<Part> parts;
  if (trimmed(p).text.empty()) return parts;
  size_t from = 0;
  for (;;) {
    const size_t end = find_top(p.text, std::string_view(&separator, 1), from);
    const size_t stop = end == std::string_view::npos ? p.text.size() : end;
    parts.push_back(trimmed(sub(p, from, stop - from)));
    if (end == std::string_view::npos) return parts;
    from = end + 1;
  }
}

std::vector<Part> split_words(const Part& p) {
  std::vector<Part> words;
  for (const Part& word : split_top(trimmed(p), ' '))
    if (!word.text.empty()) words.push_back(word);
  return words;
}

Part bracketed(const Part& p, size_t& from, char open, char close) {
  if (from >= p.text.size() || p.text[from] != open)
    refuse(sub(p, std::min(from, p.text.size())), fmt::format("expected '{}'", open));
  const size_t end = find_top(p.text, std::string_view(&close, 1), from + 1);
  if (end == std::string_view::npos) refuse(sub(p, from), fmt::format("no '{}' for this", close));
  const Part inside = sub(p, from + 1, end - from - 1);
  from = end + 1;
  return inside;
}

std::string unquoted(const Part& p) {
  if (p.text.empty() || p.text[0] != '"') {
    if (!is_bare(p.text)) refuse(p, fmt::format("expected a name, not '{}'", p.text));
    return std::string(p.text);
  }
  if (p.text.size() < 2 || p.text.back() != '"') refuse(p, "a quote that does not end");
  std::string out;
  for (size_t i = 1; i + 1 < p.text.size(); ++i) {
    const char c = p.text[i];
    if (c == '"') refuse(sub(p, i), "text after the end of a quote");
    if (c != '\\') {
      out += c;
      continue;
    }
    if (i + 2 >= p.text.size()) refuse(sub(p, i), "a quote that does not end");
    switch (p.text[++i]) {
      case 'n':
        out += '\n';
        break;
      case 't':
        out += '\t';
        break;
      case 'r':
        out += '\r';
        break;
      case 'x': {
        unsigned code = 0;
        const char* first = p.text.data() + i + 1;
        const bool room = i + 3 < p.text.size();
        if (!room || std::from_chars(first, first + 2, code, 16).ptr != first + 2)
          refuse(sub(p, i), "expected two hexadecimal digits");
        out += static_cast<char>(code);
        i += 2;
        break;
      }
      default:
        out += p.text[i];
    }
  }
  return out;
}

Expr expression(const Part& p) {
  try {
    return parse_expr(p.text);
  } catch (const Error& e) {
    if (e.kind != ErrorKind::user) throw;
    refuse(p, e.message);
  }
}

int64_t integer(const Part& p) {
  if (p.text == "inf") return kUnbounded;
  if (p.text == "-inf") return -kUnbounded;
  int64_t v = 0;
  const char* end = p.text.data() + p.text.size();
  if (p.text.empty() || std::from_chars(p.text.data(), end, v).ptr != end)
    refuse(p, fmt::format("expected an integer, not '{}'", p.text));
  return v;
}

std::optional<double> real(std::string_view s) {
  if (s == "inf") return INFINITY;
  if (s == "-inf") return -INFINITY;
  if (s == "nan") return NAN;
  if (s == "-nan") return -NAN;
  const size_t digits = s.starts_with("-") ? 1 : 0;
  if (s.size() <= digits || !std::isdigit(static_cast<unsigned char>(s[digits])) ||
      s.find_first_of(".e") == std::string_view::npos)
    return std::nullopt;
  double v = 0;
  const auto [end, error] = std::from_chars(s.data(), s.data() + s.size(), v);
  if (end != s.data() + s.size()) return std::nullopt;
  // Too small for a double is what from_chars reports as out of range, too; the printer writes
  // neither.
  if (error != std::errc()) return std::nullopt;
  return v;
}

std::pair<std::string, SymbolFacts> symbol(const Part& p) {
  const size_t colon = find_top(p.text, ":");
  if (colon == std::string_view::npos) refuse(p, "expected `symbol NAME: [MIN, MAX]`");
  const Part name = trimmed(sub(p, 0, colon));
  if (!is_symbol_name(name.text)) refuse(name, fmt::format("expected a symbol, not '{}'", name.text));
  SymbolFacts facts;
  const Part rest = trimmed(sub(p, colon + 1));
  size_t at = 0;
  const std::vector<Part> limits = split_top(bracketed(rest, at, '[', ']'), ',');
  if (limits.size() != 2) refuse(rest, "expected [MIN, MAX]");
  facts.range = {integer(limits[0]), integer(limits[1])};
  const std::vector<Part> words = split_words(sub(rest, at));
  for (size_t i = 0; i < words.size(); i += 2) {
    if (i + 1 == words.size()) refuse(words[i], "a fact without a value");
    if (words[i].text == "multiple")
      facts.multiple = integer(words[i + 1]);
    else if (words[i].text == "hint")
      facts.hint = integer(words[i + 1]);
    else if (words[i].text == "below")
      facts.below = expression(words[i + 1]);
    else
      refuse(words[i], fmt::format("no fact '{}'", words[i].text));
  }
  if (facts.multiple < 1) refuse(rest, "a multiple below 1");
  return {std::string(name.text), std::move(facts)};
}

Provenance where_of(const Part& comment) {
  const std::vector<Part> words = split_words(comment);
  if (words.empty() || words.size() > 3) return {};
  const auto is_name = [](const Part& w) {
    return w.text == "-" || w.text[0] == '"' || is_bare(w.text);
  };
  const auto name = [&](const Part& w) { return w.text == "-" ? std::string() : unquoted(w); };
  Provenance where;
  if (!is_name(words[0])) return {};
  where.op = name(words[0]);
  if (words.size() > 1 && words[1].text != "-") {
    const size_t colon = words[1].text.rfind(':');
    if (colon == std::string_view::npos || colon == 0) return {};
    const Part file = sub(words[1], 0, colon), line = sub(words[1], colon + 1);
    const char* end = line.text.data() + line.text.size();
    if (!is_name(file) || line.text.empty() ||
        std::from_chars(line.text.data(), end, where.line).ptr != end)
      return {};
    where.file = name(file);
  }
  if (words.size() > 2) {
    if (!is_name(words[2])) return {};
    where.module = name(words[2]);
  }
  return where;
}

bool Lines::next() {
  while (at_ < text_.size()) {
    const size_t end = std::min(text_.find('\n', at_), text_.size());
    line_ = {text_.substr(at_, end - at_), 0};
    at_ = end + 1;
    ++number_;
    comment_ = {};
    if (line_.text.ends_with('\r')) line_.text.remove_suffix(1);
    if (const size_t hash = find_top(line_.text, "#"); hash != std::string_view::npos) {
      comment_ = sub(line_, hash + 1);
      line_ = sub(line_, 0, hash);
    }
    line_ = trimmed(line_);
    if (!line_.text.empty() && !line_.text.starts_with("//")) return true;
  }
  return false;
}

}  // namespace nacre::text_parts
