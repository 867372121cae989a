// nacre inspect: everything that is in an artifact, in words.
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <memory>

#include "compiler/command/memory_picture.h"
#include "compiler/command/page.h"
#include "compiler/command/verbs.h"
#include "compiler/run.h"
#include "compiler/support/error.h"
#include "compiler/support/file.h"
#include "formats/dump.h"
#include "formats/verify.h"

namespace nacre {
namespace {

struct InspectOptions {
  std::string model;
  std::string weights;
  std::string html;
  std::string layers;
  std::string memory;
  std::vector<std::string> sizes;
  bool json = false;
  bool show_memory = false;
};

SymbolSizes sizes_of(const InspectOptions& options, const formats::Artifact& artifact) {
  SymbolSizes sizes;
  for (const std::string& text : options.sizes) {
    const std::size_t equals = text.find('=');
    const std::string name = text.substr(0, equals);
    const auto known = std::find_if(artifact.symbols.begin(), artifact.symbols.end(), [&](const formats::Symbol& s) { return s.name == name; });
    std::int64_t value = -1;
    if (equals != std::string::npos) std::from_chars(text.data() + equals + 1, text.data() + text.size(), value);
    if (known == artifact.symbols.end() || value < known->min || value > known->max)
      fail(ErrorKind::user, "'{}' is no size of this artifact: write NAME=NUMBER with a symbol and a number that it may be", text);
    sizes[name] = value;
  }
  return sizes;
}

std::vector<std::vector<MemoryPicture>> pictures_of(const formats::Artifact& artifact, const SymbolSizes& sizes) {
  std::vector<std::vector<MemoryPicture>> pictures;
  for (std::size_t e = 0; e < artifact.entries.size(); ++e) {
    pictures.emplace_back();
    for (std::size_t v = 0; v < artifact.entries[e].variants.size(); ++v) pictures.back().push_back(memory_picture(artifact, e, v, sizes));
  }
  return pictures;
}

// Text on standard output, or drawings: `plan.svg`, and where there are several variants `plan.1.svg`, `plan.2.svg` ...
void show_memory(const InspectOptions& options, const std::vector<std::vector<MemoryPicture>>& pictures) {
  int number = 0;
  for (const auto& of_entry : pictures)
    for (const MemoryPicture& picture : of_entry) {
      if (options.memory.empty()) {
        fmt::print("{}{}", number++ ? "\n" : "", memory_text(picture));
        continue;
      }
      std::filesystem::path file = options.memory;
      if (number > 0) file.replace_extension(fmt::format(".{}.svg", number));
      ++number;
      write_file(file, memory_svg(picture));
    }
}

int inspect(const InspectOptions& options) {
  const AlignedBytes file = read_artifact_file(options.model, options.weights);
  const std::span<const std::uint8_t> bytes(reinterpret_cast<const std::uint8_t*>(file.data()),
                                            file.size());
  // Not through the runtime: an artifact for another machine can be looked at, too.
  char reason[512] = {};
  nacre_text why;
  nacre_text_start(&why, reason, sizeof reason);
  nacre_container container;
  enum nacre_verdict verdict = nacre_verify(bytes.data(), bytes.size(), &container, &why);
  if (verdict == NACRE_VERDICT_GOOD) verdict = nacre_verify_data(&container, &why);
  if (verdict != NACRE_VERDICT_GOOD)
    fail(verdict == NACRE_VERDICT_NEWER ? ErrorKind::unsupported : ErrorKind::user, "{}: {}",
         options.model, reason);
  if (options.show_memory || !options.html.empty()) {
    const formats::Artifact artifact = formats::read_artifact(container);
    const SymbolSizes sizes = sizes_of(options, artifact);
    const auto pictures = pictures_of(artifact, sizes);
    if (options.show_memory) show_memory(options, pictures);
    if (options.html.empty()) return 0;
    std::vector<std::vector<std::string>> drawings;
    for (const auto& of_entry : pictures) {
      drawings.emplace_back();
      for (const MemoryPicture& picture : of_entry) drawings.back().push_back(memory_svg(picture));
    }
    const std::vector<Layer> layers = options.layers.empty() ? std::vector<Layer>() : read_layers(options.layers);
    write_file(options.html, artifact_page(formats::dump_json(container), drawings, sizes, layers));
    return 0;
  }
  fmt::print("{}", options.json ? formats::dump_json(container) : formats::dump_text(container));
  return 0;
}

}  // namespace

Action add_inspect(CLI::App& app) {
  auto options = std::make_shared<InspectOptions>();
  CLI::App* verb = app.add_subcommand("inspect", "show what is in an artifact");
  verb->add_option("model", options->model, "the artifact")->required()->type_name("MODEL.nacre");
  add_weights_option(*verb, options->weights);
  verb->add_flag("--json", options->json, "one JSON object on standard output");
  CLI::Option* html = verb->add_option("--html", options->html, "write a page that a browser shows, in place of words")->type_name("FILE");
  verb->add_option("--layers", options->layers, "what `nacre compile --dump` wrote, to be shown on the page side by side")
      ->type_name("DIR")
      ->needs(html);
  CLI::Option* memory = verb->add_option("--memory", options->memory, "the memory plan over time as text, or drawn to FILE.svg")
                            ->type_name("FILE.svg")
                            ->expected(0, 1);
  verb->add_option("--size", options->sizes, "the value of a symbol for --memory, and for --html to begin with; once for each; default: near 64")
      ->type_name("NAME=NUMBER")
      ->allow_extra_args(false);
  return [options, memory] {
    options->show_memory = memory->count() > 0;
    if (options->show_memory && !options->memory.empty() && !options->memory.ends_with(".svg"))
      fail(ErrorKind::user, "--memory draws to a file named *.svg, not '{}'; without a name after it, it prints text", options->memory);
    return inspect(*options);
  };
}

}  // namespace nacre
