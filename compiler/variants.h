// Specialised variants that nobody asked for: which ones are worth a try, and which of those pay.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "compiler/graph/specialize.h"
#include "compiler/run.h"
#include "formats/writer.h"
#include "targets/target.h"

namespace nacre {

struct Candidate {
  std::string name;
  Narrowing narrowing;
};

// Size 1, multiples of the target's vectors, and the sizes of the sample inputs, one symbol at a time and all together.
// Few, since each is compiled before it can be judged.
std::vector<Candidate> propose_variants(const Graph& primitive, const Target& target);

// The program's sample inputs cut or repeated to sizes that a narrowing takes, so that their values stay of the kind that the
// model wants; nullopt where no such sizes were found.
std::optional<std::vector<HostTensor>> fit_samples(const Program& program, const Narrowing& narrowing);

// The artifact as if one variant were all that the entry has.
formats::Artifact variant_alone(const formats::Artifact& artifact, uint32_t entry, size_t variant);

// An artifact in the real runtime, ready to be called again and again, each time from the initial state.
class Racer {
 public:
  Racer(const formats::Artifact& artifact, uint32_t entry, const std::vector<HostTensor>& inputs, bool profile = false, uint32_t device = NACRE_DEVICE_ANY,
        const Imports& imports = {});
  double run();  // nanoseconds
  nacre_session* session() const { return session_.get(); }

 private:
  AlignedBytes bytes_;
  RuntimeModel model_;
  RuntimeSession session_;
  RuntimeSession::Call call_;
};

// How many times as fast as variant `general` this one is on the given inputs, on this machine. The answer is kept in the cache, so that the next compilation decides alike.
double measure_gain(const formats::Artifact& artifact, uint32_t entry, size_t variant, size_t general,
                                   const std::vector<HostTensor>& inputs, bool use_cache);

}  // namespace nacre
