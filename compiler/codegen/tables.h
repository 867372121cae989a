// What all entries and variants of an artifact share: weights, states, symbols and origins, numbered as they occur.
#pragma once

#include <map>
#include <string>
#include <tuple>
#include <vector>

#include "compiler/graph/graph.h"
#include "formats/writer.h"

namespace nacre {

class Tables {
 public:
  struct Weight {
    std::string name;
    HostTensor data;
  };
  struct State {
    std::string name;
    HostTensor initial;
  };

  // Weights are one where name and bytes are the same (equal bytes under two names share their place in the file anyway).
  uint32_t weight(const std::string& name, const HostTensor& data);
  // States are one where the name is the same; Error{user} if two entries mean different things by it.
  uint32_t state(const std::string& name, const HostTensor& initial);
  uint32_t provenance(const Provenance& where);
  uint32_t import(formats::Import import);

  std::vector<Weight> weights;
  std::vector<State> states;
  std::vector<formats::Symbol> symbols;
  std::vector<formats::Provenance> provenances;
  std::vector<formats::Import> imports;
  std::vector<std::vector<uint32_t>> kernel_provenances;  // by kernel: where it comes from, the first time that it is called

 private:
  std::multimap<std::string, uint32_t> weight_numbers_;
  std::map<std::string, uint32_t> state_numbers_;
  std::map<std::tuple<std::string, std::string, std::string, int>, uint32_t> provenance_numbers_;
};

}  // namespace nacre
