// The one exception type of the host side. Passes do not catch it; the command's main does, once.
#pragma once

#include <fmt/format.h>

#include <exception>
#include <string>
#include <utility>

namespace nacre {

// Whose fault it is. The command maps each kind to its own exit status.
enum class ErrorKind {
  user,         // a bad model, file or flag
  unsupported,  // a correct model that needs something nacre does not do yet
  environment,  // disk, memory, libraries, device
  internal,     // our bug
};

struct Error : std::exception {
  using Kind = ErrorKind;

  Error(Kind what_kind, std::string text, std::string where = {})
      : kind(what_kind), message(std::move(text)), location(std::move(where)) {
    text_ = location.empty() ? message : location + ": " + message;
  }

  const char* what() const noexcept override { return text_.c_str(); }

  Kind kind;
  std::string message;
  std::string location;  // the user's line where one is known: `model.py:42, Block.forward`

 private:
  std::string text_;
};

template <typename... Args>
[[noreturn]] void fail(ErrorKind kind, fmt::format_string<Args...> format, Args&&... args) {
  throw Error(kind, fmt::format(format, std::forward<Args>(args)...));
}

// As `fail`, with the place in the user's model that the message is about.
template <typename... Args>
[[noreturn]] void fail_at(ErrorKind kind, std::string location, fmt::format_string<Args...> format,
                          Args&&... args) {
  throw Error(kind, fmt::format(format, std::forward<Args>(args)...), std::move(location));
}

// An invariant of nacre's own: when it does not hold, the error is internal.
template <typename... Args>
void check(bool holds, fmt::format_string<Args...> format, Args&&... args) {
  if (!holds) fail(ErrorKind::internal, format, std::forward<Args>(args)...);
}

}  // namespace nacre
