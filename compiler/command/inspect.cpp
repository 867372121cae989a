// nacre inspect: everything that is in an artifact, in words.
#include <fmt/format.h>

#include <memory>

#include "compiler/command/page.h"
#include "compiler/command/verbs.h"
#include "compiler/support/error.h"
#include "compiler/support/file.h"
#include "formats/dump.h"
#include "formats/verify.h"

namespace nacre {
namespace {

struct InspectOptions {
  std::string model;
  std::string html;
  std::string layers;
  bool json = false;
};

int inspect(const InspectOptions& options) {
  const AlignedBytes file = read_bytes(options.model);
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
  if (!options.html.empty()) {
    write_file(options.html, artifact_page(formats::dump_json(container), options.layers.empty() ? std::vector<Layer>() : read_layers(options.layers)));
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
  verb->add_flag("--json", options->json, "one JSON object on standard output");
  CLI::Option* html = verb->add_option("--html", options->html, "write a page that a browser shows, in place of words")->type_name("FILE");
  verb->add_option("--layers", options->layers, "what `nacre compile --dump` wrote, to be shown on the page side by side")
      ->type_name("DIR")
      ->needs(html);
  return [options] { return inspect(*options); };
}

}  // namespace nacre
