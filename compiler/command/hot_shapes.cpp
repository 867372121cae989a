#include "compiler/command/hot_shapes.h"

#include <algorithm>
#include <charconv>
#include <map>
#include <sstream>

#include "compiler/support/error.h"
#include "compiler/support/file.h"

namespace nacre {

// "12 calls by variant 0: forward/x: [4, 3, 224, 224]"
std::vector<VariantRequest> hot_shapes(const std::filesystem::path& path, std::size_t most) {
  struct Shapes {
    std::uint64_t calls = 0;
    VariantRequest request;
  };
  std::map<std::string, Shapes> shapes;
  std::uint64_t total = 0;
  std::istringstream lines(read_file(path));
  std::size_t number = 0;
  for (std::string line; std::getline(lines, line);) {
    ++number;
    if (line.empty()) continue;
    constexpr std::string_view kBy = " calls by variant ";
    std::uint64_t count = 0;
    const auto [end, error] = std::from_chars(line.data(), line.data() + line.size(), count);
    const auto at = static_cast<std::size_t>(end - line.data());
    const std::size_t colon = line.find(": ", at);
    if (error != std::errc{} || line.compare(at, kBy.size(), kBy) != 0 || colon == std::string::npos)
      fail(ErrorKind::user, "{}:{} is not what a session writes about its shapes", path.string(), number);
    total += count;
    // Without an input of other sizes there is nothing to be special about.
    if (line.ends_with('/')) continue;
    const auto [found, added] = shapes.try_emplace(line.substr(colon + 2));
    found->second.calls += count;
    if (!added) continue;
    try {
      found->second.request = parse_variant(found->first);
    } catch (const Error& problem) {
      fail(problem.kind, "{}:{}: {}", path.string(), number, problem.what());
    }
  }
  std::vector<Shapes> sorted;
  for (auto& [text, found] : shapes) sorted.push_back(std::move(found));
  std::stable_sort(sorted.begin(), sorted.end(), [](const auto& a, const auto& b) { return a.calls > b.calls; });
  std::vector<VariantRequest> requests;
  std::uint64_t covered = 0;
  for (Shapes& found : sorted) {
    if (requests.size() == most || covered * 10 >= total * 9) break;
    requests.push_back(std::move(found.request));
    covered += found.calls;
  }
  return requests;
}

}  // namespace nacre
