#include "exporter/weights.h"

#include <cstring>

#include "compiler/support/error.h"
#include "exporter/pt2_graph.h"

namespace nacre {
namespace {

int64_t static_integer(const nlohmann::json& sym_int, const std::string& name) {
  auto value = sym_int.find("as_int");
  if (value == sym_int.end()) fail(ErrorKind::user, "weight {} has a size that is no number", name);
  return value->get<int64_t>();
}

// Copies the strided elements into C order.
void gather(const std::byte* from, std::byte* to, const std::vector<int64_t>& shape,
            const std::vector<int64_t>& strides, size_t dim, size_t element) {
  if (dim == shape.size()) {
    std::memcpy(to, from, element);
    return;
  }
  size_t inner = element;
  bool dense = true;
  for (size_t i = shape.size(); i-- > dim;) {
    dense &= static_cast<size_t>(strides[i]) * element == inner || shape[i] == 1;
    inner *= static_cast<size_t>(shape[i]);
  }
  if (dense) {
    std::memcpy(to, from, inner);
    return;
  }
  size_t step = inner / static_cast<size_t>(shape[dim]);
  for (int64_t i = 0; i < shape[dim]; ++i)
    gather(from + static_cast<size_t>(i * strides[dim]) * element,
           to + static_cast<size_t>(i) * step, shape, strides, dim + 1, element);
}

}  // namespace

bool Weight::complete() const {
  int64_t step = 1;
  for (size_t i = strides.size(); i-- > 0;) {
    if (tensor.shape[i] != 1 && strides[i] != step) return false;
    step *= tensor.shape[i];
  }
  return offset == 0 && tensor.size_bytes == storage_bytes;
}

bool Weight::storage_holds(const std::vector<int64_t>& seen_strides, int64_t seen_offset) const {
  __int128 last = seen_offset, count = 1;  // the last element that is reached
  if (seen_offset < 0 || seen_strides.size() != tensor.shape.size()) return false;
  for (size_t i = 0; i < seen_strides.size(); ++i) {
    if (tensor.shape[i] < 0 || seen_strides[i] < 0) return false;
    count *= tensor.shape[i];
    if (count > (__int128{1} << 40)) return false;
    if (tensor.shape[i] > 0) last += static_cast<__int128>(tensor.shape[i] - 1) * seen_strides[i];
  }
  __int128 element = nacre_dtype_size_bytes(tensor.dtype);
  return count == 0 || (last + 1) * element <= static_cast<__int128>(storage_bytes);
}

void read_weights(const Archive& archive, const nlohmann::json& config, const std::string& folder,
                  std::map<std::string, Weight>& weights) {
  std::map<std::string, std::pair<std::shared_ptr<const std::byte>, size_t>> records;
  std::map<std::string, std::vector<std::string>> by_record;
  for (const auto& [name, payload] : config.at("config").items()) {
    if (payload.at("use_pickle").get<bool>())
      fail(ErrorKind::unsupported,
           "{} is a tensor subclass or an object, which are stored as code and are not read", name);
    const nlohmann::json& meta = payload.at("tensor_meta");
    if (meta.is_null()) fail(ErrorKind::user, "weight {} has no description", name);
    Weight w;
    w.record = folder + payload.at("path_name").get<std::string>();
    nacre_dtype dtype = read_dtype(meta.at("dtype"));
    std::vector<int64_t> shape;
    for (const auto& size : meta.at("sizes")) shape.push_back(static_integer(size, name));
    for (const auto& stride : meta.at("strides")) w.strides.push_back(static_integer(stride, name));
    w.offset = static_integer(meta.at("storage_offset"), name);
    if (w.strides.size() != shape.size())
      fail(ErrorKind::user, "weight {} has {} sizes and {} strides", name, shape.size(),
           w.strides.size());

    auto& record = records[w.record];
    if (record.first == nullptr && record.second == 0)
      record.first = archive.bytes(w.record, &record.second);
    w.storage_bytes = record.second;

    w.tensor.dtype = dtype;
    w.tensor.shape = shape;
    if (!w.storage_holds(w.strides, w.offset))
      fail(ErrorKind::user, "weight {} reaches beyond its record {} of {} bytes", name, w.record,
           record.second);

    for (const std::string& other : by_record[w.record]) {
      if (w.same_memory(weights.at(other))) {
        w.tensor = weights.at(other).tensor;
        break;
      }
    }
    if (w.tensor.data == nullptr) {
      std::byte* bytes = nullptr;
      w.tensor = make_tensor(dtype, shape, &bytes);
      size_t element = nacre_dtype_size_bytes(dtype);
      if (w.tensor.size_bytes > 0)
        gather(record.first.get() + static_cast<size_t>(w.offset) * element, bytes, shape,
               w.strides, 0, element);
    }
    by_record[w.record].push_back(name);
    weights[name] = std::move(w);
  }
}

}  // namespace nacre
