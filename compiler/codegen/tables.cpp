#include "compiler/codegen/tables.h"

#include <algorithm>
#include <cstring>

#include "compiler/support/error.h"

namespace nacre {

namespace {

bool same_contents(const HostTensor& a, const HostTensor& b) {
  return a.dtype == b.dtype && a.shape == b.shape && (a.data == b.data || a.size_bytes == 0 || std::memcmp(a.data.get(), b.data.get(), a.size_bytes) == 0);
}

}  // namespace

uint32_t Tables::weight(const std::string& name, const HostTensor& data) {
  const auto [first, last] = weight_numbers_.equal_range(name);
  for (auto known = first; known != last; ++known)
    if (same_contents(weights[known->second].data, data)) return known->second;
  const uint32_t number = static_cast<uint32_t>(weights.size());
  weights.push_back({name, data});
  weight_numbers_.emplace(name, number);
  return number;
}

uint32_t Tables::state(const std::string& name, const HostTensor& initial) {
  const auto [known, added] = state_numbers_.try_emplace(name, static_cast<uint32_t>(states.size()));
  if (added)
    states.push_back({name, initial});
  else if (!same_contents(states[known->second].initial, initial))
    fail(ErrorKind::user, "two entries change a buffer '{}' and do not start from the same contents: state is shared by name, so rename one of them", name);
  return known->second;
}

uint32_t Tables::import(formats::Import import) {
  const auto known = std::find(imports.begin(), imports.end(), import);
  if (known != imports.end()) return static_cast<uint32_t>(known - imports.begin());
  imports.push_back(std::move(import));
  return static_cast<uint32_t>(imports.size()) - 1;
}

uint32_t Tables::provenance(const Provenance& where) {
  const int line = std::max(0, where.line);
  const auto [known, added] = provenance_numbers_.try_emplace({where.op, where.module, where.file, line}, static_cast<uint32_t>(provenances.size()));
  if (added) provenances.push_back({where.op, where.module, where.file, static_cast<uint32_t>(line)});
  return known->second;
}

}  // namespace nacre
