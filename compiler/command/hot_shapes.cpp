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
  std::map<std::string, std::uint64_t> calls;
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
    if (!line.ends_with('/')) calls[line.substr(colon + 2)] += count;
  }
  std::vector<std::pair<std::string, std::uint64_t>> sorted(calls.begin(), calls.end());
  std::stable_sort(sorted.begin(), sorted.end(), [](const auto& a, const auto& b) { return a.second > b.second; });
  std::vector<VariantRequest> requests;
  std::uint64_t covered = 0;
  for (const auto& [text, count] : sorted) {
    if (requests.size() == most || covered * 10 >= total * 9) break;
    requests.push_back(parse_variant(text));
    covered += count;
  }
  return requests;
}

}  // namespace nacre
