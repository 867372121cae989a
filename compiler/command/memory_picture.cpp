#include "compiler/command/memory_picture.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "compiler/firmware/values.h"
#include "compiler/support/error.h"
#include "compiler/support/print.h"
#include "formats/dtype.h"
#include "formats/expr.h"
#include "formats/kinds.h"

namespace nacre {
namespace {

// A size that nothing names is near 64.
std::int64_t size_for(const formats::Symbol& s, const SymbolSizes& sizes) {
  if (const auto named = sizes.find(s.name); named != sizes.end()) return named->second;
  const std::int64_t multiple = std::max<std::int64_t>(1, s.multiple), near = std::clamp<std::int64_t>(64, s.min, std::max(s.min, s.max));
  const std::int64_t size = (near + multiple - 1) / multiple * multiple;
  return size > s.max ? s.min : size;
}

// The values of an entry's nodes and then a variant's; 0 for what has none with these sizes.
std::vector<std::int64_t> node_values(const formats::Artifact& artifact, const formats::Entry& entry, const formats::Variant& variant, const SymbolSizes& sizes) {
  std::vector<std::int64_t> symbols, values;
  for (const formats::Symbol& s : artifact.symbols) symbols.push_back(size_for(s, sizes));
  for (const std::vector<formats::Node>* list : {&entry.nodes, &variant.nodes})
    for (const formats::Node& n : *list) {
      const nacre_node node = n.in_file();
      const auto at = static_cast<std::uint32_t>(values.size());
      values.push_back(0);
      if (!nacre_expr_evaluate(&node, 1, at, symbols.data(), values.data())) values[at] = 0;
    }
  return values;
}

std::int64_t bytes_of(const formats::Tensor& tensor, const std::vector<std::int64_t>& values) {
  std::int64_t bytes = static_cast<std::int64_t>(nacre_dtype_size_bytes(tensor.dtype));
  for (const formats::Size& dim : tensor.dims) bytes *= value_of(dim, values);
  return bytes;
}

std::string where_of(const formats::Artifact& artifact, const formats::Command& command) {
  if (command.provenances.empty()) return {};
  const formats::Provenance& p = artifact.provenances.at(command.provenances[0]);
  const std::string line = p.file.empty() ? "" : fmt::format("{}:{} ", std::filesystem::path(p.file).filename().string(), p.line);
  return line + p.op;
}

std::string command_name(const formats::Artifact& artifact, const formats::Command& command) {
  switch (command.kind) {
    case NACRE_COMMAND_call: return artifact.kernels.at(command.target).name;
    case NACRE_COMMAND_import: return artifact.imports.at(command.target).name;
    case NACRE_COMMAND_branch: return "branch";
    case NACRE_COMMAND_jump: return "jump";
    case NACRE_COMMAND_loop: return "loop";
    case NACRE_COMMAND_bind: return "bind";
    case NACRE_COMMAND_check: return "check";
    case NACRE_COMMAND_copy: return "copy";
    default: return "end";
  }
}

std::string escaped(const std::string& text) {
  std::string result;
  for (const char c : text) {
    switch (c) {
      case '&': result += "&amp;"; break;
      case '<': result += "&lt;"; break;
      case '>': result += "&gt;"; break;
      case '"': result += "&quot;"; break;
      default: result += static_cast<unsigned char>(c) < 0x20 ? ' ' : c;
    }
  }
  return result;
}

std::string expression(formats::Size size) {
  return size.is_constant() ? std::to_string(size.raw) : "n" + std::to_string(size.node_number());
}

}  // namespace

MemoryPicture memory_picture(const formats::Artifact& artifact, std::size_t entry_number, std::size_t variant_number, const SymbolSizes& sizes) {
  const formats::Entry& entry = artifact.entries.at(entry_number);
  const formats::Variant& variant = entry.variants.at(variant_number);
  const std::vector<std::int64_t> values = node_values(artifact, entry, variant, sizes);
  MemoryPicture picture;
  picture.title = entry.name + ", variant " + variant.name;
  picture.arena = value_of(variant.arena_size, values);
  for (const formats::Tensor& t : entry.inputs) picture.inputs += t.flags & NACRE_TENSOR_SCALAR ? 0 : bytes_of(t, values);
  for (const formats::Tensor& t : entry.outputs) picture.outputs += t.flags & NACRE_TENSOR_SCALAR ? 0 : bytes_of(t, values);
  std::map<std::pair<std::string, std::string>, std::size_t> known;  // parts of a buffer are one bar
  for (std::size_t c = 0; c < variant.commands.size(); ++c) {
    const formats::Command& command = variant.commands[c];
    if (command.kind == NACRE_COMMAND_end) break;
    const int time = static_cast<int>(c);
    picture.commands.push_back(command_name(artifact, command));
    for (const std::uint32_t number : command.operands) {
      const formats::Slot& slot = variant.slots.at(number);
      if (slot.kind != NACRE_SLOT_ARENA && slot.kind != NACRE_SLOT_OUTPUT && slot.kind != NACRE_SLOT_INPUT) continue;
      const std::string space = slot.kind == NACRE_SLOT_ARENA ? "arena" : fmt::format("{} {}", slot.kind == NACRE_SLOT_INPUT ? "input" : "output", slot.index);
      MemoryBar bar;
      bar.space = space;
      bar.name = variant.slot_tensors.empty() ? fmt::format("b{}", number) : variant.slot_tensors[number].name;
      bar.offset = value_of(slot.offset, values);
      bar.bytes = value_of(slot.size, values);
      const auto [place, added] = known.try_emplace({space, bar.name}, picture.bars.size());
      if (added) {
        if (!variant.slot_tensors.empty()) {
          const formats::Tensor& t = variant.slot_tensors[number];
          std::vector<std::string> dims;
          for (const formats::Size& dim : t.dims) dims.push_back(std::to_string(value_of(dim, values)));
          bar.shape = fmt::format("{}[{}]", nacre_dtype_name(t.dtype), joined(dims));
        }
        bar.where = where_of(artifact, command);
        bar.offset_size = slot.offset;
        bar.bytes_size = slot.size;
        bar.first = bar.last = time;
        picture.bars.push_back(std::move(bar));
        continue;
      }
      MemoryBar& whole = picture.bars[place->second];
      whole.last = time;
      if (bar.offset < whole.offset || bar.bytes > whole.bytes) {
        whole.offset_size = slot.offset;
        whole.bytes_size = slot.size;
      }
      const std::int64_t end = std::max(whole.offset + whole.bytes, bar.offset + bar.bytes);
      whole.offset = std::min(whole.offset, bar.offset);
      whole.bytes = end - whole.offset;
    }
    const std::int64_t scratch = value_of(command.scratch, values);
    picture.scratch = std::max(picture.scratch, scratch);
    if (scratch > 0)
      picture.bars.push_back({"scratch", "scratch", "", where_of(artifact, command), picture.arena, scratch, variant.arena_size, command.scratch, time, time});
  }
  picture.live.assign(picture.commands.size(), 0);
  for (const MemoryBar& bar : picture.bars)
    if (bar.space == "arena")
      for (int c = bar.first; c <= bar.last; ++c) picture.live[static_cast<std::size_t>(c)] += bar.bytes;
  return picture;
}

std::string memory_text(const MemoryPicture& picture) {
  std::string text = fmt::format("{}: {} bytes of arena and {} of scratch a thread; of the caller {} of inputs and {} of outputs\n", picture.title,
                                 grouped(picture.arena), grouped(picture.scratch), grouped(picture.inputs), grouped(picture.outputs));
  if (picture.commands.empty()) return text;
  const auto most = std::max_element(picture.live.begin(), picture.live.end());
  const int peak = static_cast<int>(most - picture.live.begin());
  text += fmt::format("most lives in command {}, {}: {} bytes\n", peak, picture.commands[static_cast<std::size_t>(peak)], grouped(*most));
  // A column for each command, or for some of them together.
  constexpr int kWidth = 64;
  const int count = static_cast<int>(picture.commands.size()), step = (count + kWidth - 1) / kWidth, columns = (count + step - 1) / step;
  text += fmt::format("  {:>11} {:>11}  {:<{}}  commands 0 to {}\n", "bytes", "at", "", columns, count - 1);
  for (const MemoryBar& bar : picture.bars) {
    if (bar.space == "scratch") continue;
    std::string line(static_cast<std::size_t>(columns), '.');
    for (int c = bar.first; c <= bar.last; ++c) line[static_cast<std::size_t>(c / step)] = '#';
    const bool at_peak = bar.space == "arena" && bar.first <= peak && peak <= bar.last;
    text += fmt::format("{} {:>11} {:>11}  {}  {}{} {}{}{}\n", at_peak ? '*' : ' ', grouped(bar.bytes), grouped(bar.offset), line,
                        bar.space == "arena" ? "" : bar.space + ": ", bar.name, bar.shape, bar.where.empty() ? "" : "  # ", bar.where);
  }
  return text;
}

std::string memory_svg(const MemoryPicture& picture) {
  constexpr double kLeft = 96, kTop = 44, kPlot = 1000, kHeight = 420, kBottom = 150;
  const double steps = static_cast<double>(std::max<std::size_t>(1, picture.commands.size()));
  const std::int64_t total = std::max<std::int64_t>(1, picture.arena + picture.scratch);
  const double scale = kHeight / static_cast<double>(total), column = kPlot / steps;
  std::string svg = fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {0} {1}\" width=\"{0}\" height=\"{1}\" font-family=\"DejaVu Sans Mono, monospace\" font-size=\"10\" "
      "data-top=\"{2}\" data-height=\"{3}\">\n<rect width=\"100%\" height=\"100%\" fill=\"#ffffff\"/>\n",
      kLeft + kPlot + 16, kTop + kHeight + kBottom, kTop, kHeight);
  svg += fmt::format("<text x=\"{}\" y=\"18\" font-size=\"13\">{}</text>\n", kLeft, escaped(picture.title));
  svg += fmt::format("<text class=\"sums\" x=\"{}\" y=\"34\">arena {} bytes, scratch {}; of the caller: inputs {}, outputs {}</text>\n", kLeft, grouped(picture.arena),
                     grouped(picture.scratch), grouped(picture.inputs), grouped(picture.outputs));
  for (int i = 0; i <= 4; ++i) {
    const double y = kTop + kHeight * (4 - i) / 4;
    svg += fmt::format("<line x1=\"{}\" y1=\"{:.1f}\" x2=\"{}\" y2=\"{:.1f}\" stroke=\"#d9dfe4\"/><text class=\"tick\" data-part=\"{}\" x=\"{}\" y=\"{:.1f}\" text-anchor=\"end\">{}</text>\n", kLeft, y,
                       kLeft + kPlot, y, i / 4.0, kLeft - 6, y + 3, grouped(total * i / 4));
  }
  int hue = 0;
  for (const MemoryBar& bar : picture.bars) {
    if (bar.space != "arena" && bar.space != "scratch") continue;
    const bool scratch = bar.space == "scratch";
    const double x = kLeft + bar.first * column, width = (bar.last - bar.first + 1) * column;
    const double height = std::max(1.0, static_cast<double>(bar.bytes) * scale);
    const double y = kTop + kHeight - static_cast<double>(bar.offset) * scale - height;
    const std::string fill = scratch ? "#c9d1d8" : fmt::format("hsl({} 45% 68%)", hue++ * 47 % 360);
    svg += fmt::format("<rect class=\"buffer\" data-offset=\"{}\" data-size=\"{}\" x=\"{:.1f}\" y=\"{:.1f}\" width=\"{:.1f}\" height=\"{:.1f}\" fill=\"{}\" stroke=\"#ffffff\" stroke-width=\"0.5\">"
                       "<title>{} {}: {} bytes at {}, commands {} to {}{}</title></rect>\n",
                       expression(bar.offset_size), expression(bar.bytes_size), x, y, width, height, fill, escaped(bar.name), escaped(bar.shape), grouped(bar.bytes),
                       grouped(bar.offset), bar.first, bar.last, bar.where.empty() ? "" : "\n" + escaped(bar.where));
    // Inside the bar, as much as fits.
    const std::vector<std::string> lines{bar.name + " " + grouped(bar.bytes), bar.where};
    constexpr double kLetter = 6.1, kLine = 12;
    for (std::size_t i = 0; i < lines.size() && height >= kLine * static_cast<double>(i + 1) + 1; ++i) {
      const auto letters = static_cast<std::size_t>(std::max(0.0, (width - 6) / kLetter));
      const std::string shown = lines[i].size() <= letters ? lines[i] : i == 0 && bar.name.size() <= letters ? bar.name : "";
      if (!shown.empty())
        svg += fmt::format("<text class=\"label\" x=\"{:.1f}\" y=\"{:.1f}\" pointer-events=\"none\">{}</text>\n", x + 3, y + kLine * static_cast<double>(i + 1) - 2, escaped(shown));
    }
  }
  // Names of commands below, as many as can be read.
  const int every = static_cast<int>((12 + column - 1) / column);
  for (int c = 0; c < static_cast<int>(picture.commands.size()); c += std::max(1, every)) {
    const double x = kLeft + (c + 0.5) * column, y = kTop + kHeight + 10;
    std::string name = picture.commands[static_cast<std::size_t>(c)];
    if (name.size() > 22) name = name.substr(0, 21) + "~";
    svg += fmt::format("<text x=\"{0:.1f}\" y=\"{1:.1f}\" text-anchor=\"end\" transform=\"rotate(-55 {0:.1f} {1:.1f})\">{2}</text>\n", x + 3, y, escaped(fmt::format("{} {}", c, name)));
  }
  return svg + "</svg>\n";
}

}  // namespace nacre
