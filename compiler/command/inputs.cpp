#include "compiler/command/inputs.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstring>
#include <map>
#include <optional>
#include <random>

#include "compiler/support/error.h"
#include "compiler/support/npy.h"

namespace nacre {
namespace {

using Shape = std::vector<std::int64_t>;

// What a dimension without a limit gets: enough work to time, little enough for any model.
constexpr std::int64_t kUsualSize = 16;

std::int64_t size_within(const nacre_dim& dim) {
  if (dim.size >= 0) return dim.size;
  const std::int64_t multiple = std::max<std::int64_t>(dim.multiple, 1);
  const std::int64_t wanted = std::clamp(kUsualSize, dim.min, dim.max);
  const std::int64_t up = (wanted + multiple - 1) / multiple * multiple;
  return up <= dim.max ? up : wanted / multiple * multiple;
}

std::map<std::uint32_t, Shape> parse_shapes(const std::vector<std::string>& texts) {
  std::map<std::uint32_t, Shape> shapes;
  std::uint32_t next = 0;
  for (const std::string& text : texts) {
    const auto bad = [&] {
      fail(ErrorKind::user, "'{}' is no shape: write 1,3,224,224 or 0=1,3,224,224", text);
    };
    const char* at = text.data();
    const char* const end = at + text.size();
    if (const std::size_t equals = text.find('='); equals != std::string::npos) {
      const auto [after, error] = std::from_chars(at, at + equals, next);
      if (error != std::errc{} || after != at + equals) bad();
      at += equals + 1;
    }
    Shape shape;
    while (at != end) {
      std::int64_t size = 0;
      const auto [after, error] = std::from_chars(at, end, size);
      if (error != std::errc{} || size < 0 || (after != end && *after != ',')) bad();
      shape.push_back(size);
      at = after == end ? end : after + 1;
    }
    shapes[next++] = std::move(shape);
  }
  return shapes;
}

std::uint16_t to_half(float value) {  // for values of ordinary size
  if (std::abs(value) < 0x1p-14f) return 0;
  std::uint32_t bits;
  std::memcpy(&bits, &value, 4);
  const std::uint32_t rounded = bits + 0x1000;
  return static_cast<std::uint16_t>(((rounded >> 16) & 0x8000) |
                                    (((rounded & 0x7FFFFFFF) - 0x38000000) >> 13));
}

void fill(std::byte* bytes, const HostTensor& tensor, std::mt19937& random) {
  std::normal_distribution<float> normal;
  const std::size_t size = nacre_dtype_size_bytes(tensor.dtype);
  for (std::size_t at = 0; at < tensor.size_bytes; at += size) {
    const float value = normal(random);
    switch (tensor.dtype) {
      case NACRE_f32:
        std::memcpy(bytes + at, &value, 4);
        break;
      case NACRE_f64: {
        const auto wide = static_cast<double>(value);
        std::memcpy(bytes + at, &wide, 8);
        break;
      }
      case NACRE_c64:
      case NACRE_c128: {
        const double pair[2] = {static_cast<double>(value), static_cast<double>(normal(random))};
        const float narrow[2] = {static_cast<float>(pair[0]), static_cast<float>(pair[1])};
        if (tensor.dtype == NACRE_c64)
          std::memcpy(bytes + at, narrow, 8);
        else
          std::memcpy(bytes + at, pair, 16);
        break;
      }
      case NACRE_f16: {
        const std::uint16_t half = to_half(value);
        std::memcpy(bytes + at, &half, 2);
        break;
      }
      case NACRE_bf16: {
        std::uint32_t bits;
        std::memcpy(&bits, &value, 4);
        const auto high = static_cast<std::uint16_t>(bits >> 16);
        std::memcpy(bytes + at, &high, 2);
        break;
      }
      default:
        // 0 and 1 are indices into nearly everything, and good booleans.
        bytes[at] = std::byte{value > 0};
    }
  }
}

}  // namespace

std::vector<HostTensor> read_inputs(const std::filesystem::path& folder, std::uint32_t count) {
  const auto path = [&](std::uint32_t i) { return folder / fmt::format("input_{}.npy", i); };
  if (!std::filesystem::is_directory(folder))
    fail(ErrorKind::user, "{} is no folder", folder.string());
  std::vector<HostTensor> inputs;
  for (std::uint32_t i = 0; i < count; ++i) inputs.push_back(read_npy(path(i)));
  if (std::filesystem::exists(path(count)))
    fail(ErrorKind::user, "{} is one input too many: the model takes {}", path(count).string(),
         count);
  return inputs;
}

std::vector<HostTensor> read_input_archive(const std::filesystem::path& path) {
  std::vector<HostTensor> inputs;
  for (auto& [name, tensor] : read_npz(path)) inputs.push_back(std::move(tensor));
  return inputs;
}

HostTensor random_tensor(nacre_dtype dtype, std::vector<std::int64_t> shape, unsigned seed) {
  std::mt19937 random(seed);
  std::byte* bytes = nullptr;
  HostTensor tensor = make_tensor(dtype, std::move(shape), &bytes);
  fill(bytes, tensor, random);
  return tensor;
}

std::vector<HostTensor> random_inputs(const RuntimeModel& model, std::uint32_t entry,
                                      const std::vector<std::string>& shapes) {
  const std::map<std::uint32_t, Shape> given = parse_shapes(shapes);
  std::map<std::string, std::int64_t> symbols;
  const std::uint32_t count = model.input_count(entry);
  if (!given.empty() && given.rbegin()->first >= count)
    fail(ErrorKind::user, "a shape for input {}, but the model takes {}", given.rbegin()->first,
         count);
  // Symbols that a given shape settles hold for the other inputs, too.
  for (const auto& [input, shape] : given) {
    if (shape.size() != model.input(entry, input).rank)
      fail(ErrorKind::user, "input {} has rank {}, the shape given for it {}", input,
           model.input(entry, input).rank, shape.size());
    for (std::uint32_t d = 0; d < shape.size(); ++d)
      if (const nacre_dim dim = model.input_dim(entry, input, d); dim.size < 0 && dim.symbol)
        symbols[dim.symbol] = shape[d];
  }
  std::vector<HostTensor> inputs;
  std::mt19937 random(1);
  for (std::uint32_t i = 0; i < count; ++i) {
    const nacre_tensor_info info = model.input(entry, i);
    Shape shape;
    if (const auto found = given.find(i); found != given.end()) {
      shape = found->second;
    } else {
      for (std::uint32_t d = 0; d < info.rank; ++d) {
        const nacre_dim dim = model.input_dim(entry, i, d);
        std::int64_t size = size_within(dim);
        if (dim.size < 0 && dim.symbol) size = symbols.try_emplace(dim.symbol, size).first->second;
        shape.push_back(size);
      }
    }
    std::byte* bytes = nullptr;
    inputs.push_back(make_tensor(static_cast<nacre_dtype>(info.dtype), shape, &bytes));
    fill(bytes, inputs.back(), random);
  }
  return inputs;
}

}  // namespace nacre
