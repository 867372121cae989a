// The `nacre` command. Exit status: 0 done; 1 a bad model, file or input; 2 a bad command line; 3
// not supported; 4 disk, memory, libraries or device; 5 a bug of nacre's. One line on stderr says
// what is wrong.
#include <fmt/format.h>

#include <cstdio>
#include <exception>
#include <new>
#include <stdexcept>
#include <utility>
#include <vector>

#include "compiler/command/verbs.h"
#include "compiler/support/error.h"
#include "formats/writer.h"

namespace {

// A damaged file can bring any byte into a message: what is not plain text is shown as its number.
std::string printable(const std::string& raw) {
  std::string text;
  for (const char c : raw) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte == '\n' || byte == '\t' || (byte >= 0x20 && byte < 0x7f))
      text += c;
    else
      text += fmt::format("\\x{:02x}", byte);
  }
  return text;
}

int report(nacre::ErrorKind kind, const std::string& raw) {
  const std::string text = printable(raw);
  switch (kind) {
    case nacre::ErrorKind::user:
      fmt::print(stderr, "nacre: {}\n", text);
      return 1;
    case nacre::ErrorKind::unsupported:
      fmt::print(stderr, "nacre: not supported: {}\n", text);
      return 3;
    case nacre::ErrorKind::environment:
      fmt::print(stderr, "nacre: {}\n", text);
      return 4;
    case nacre::ErrorKind::internal:
      break;
  }
  fmt::print(stderr, "nacre: internal error: {}\nThis is a bug in nacre, not in the model.\n",
             text);
  return 5;
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app{"nacre makes artifacts of PyTorch models and runs them without PyTorch."};
  app.name("nacre");
  app.require_subcommand(1);
  app.set_version_flag("--version", "nacre " NACRE_VERSION);
  const std::pair<const char*, nacre::Action (*)(CLI::App&)> verbs[] = {
      {"compile", nacre::add_compile}, {"run", nacre::add_run},     {"verify", nacre::add_verify},
      {"inspect", nacre::add_inspect}, {"bench", nacre::add_bench}, {"lower", nacre::add_lower},
      {"targets", nacre::add_targets}};
  std::vector<std::pair<const char*, nacre::Action>> actions;
  for (const auto& [name, add] : verbs) actions.emplace_back(name, add(app));
  try {
    app.parse(argc, argv);
  } catch (const CLI::Success& asked) {  // --help, --version
    return app.exit(asked);
  } catch (const CLI::ParseError& error) {
    fmt::print(stderr, "nacre: {} (nacre --help, nacre VERB --help)\n", error.what());
    return 2;
  }
  try {
    for (const auto& [name, action] : actions) {
      if (!app.got_subcommand(name)) continue;
      const int status = action();
      if (std::fflush(stdout) != 0 || std::ferror(stdout))
        nacre::fail(nacre::ErrorKind::environment, "cannot write to standard output");
      return status;
    }
  } catch (const nacre::Error& error) {
    return report(error.kind, error.what());
  } catch (const nacre::formats::FormatError& error) {
    return report(nacre::ErrorKind::user, error.what());
  } catch (const std::bad_alloc&) {
    return report(nacre::ErrorKind::environment, "out of memory");
  } catch (const std::exception& error) {
    return report(nacre::ErrorKind::internal, error.what());
  }
  return 0;
}
