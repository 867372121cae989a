// The .pt2 container, read by libtorch's own reader: records by name, and the pickle of the sample
// inputs, of which only tensors, numbers and containers are accepted. No code of the pickle is ever
// run.
#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "compiler/support/buffer.h"
#include "compiler/support/tensor.h"

namespace nacre {

class Archive {
 public:
  // Error{environment} if the file cannot be read, Error{user} if it is no archive of
  // torch.export.save.
  explicit Archive(const std::filesystem::path& path);
  ~Archive();
  Archive(const Archive&) = delete;
  Archive& operator=(const Archive&) = delete;

  std::vector<std::string> names() const;
  bool has(const std::string& name) const;
  // Error{user} if the record is missing or damaged.
  std::string text(const std::string& name) const;
  std::shared_ptr<const std::byte> bytes(const std::string& name, size_t* size_bytes) const;

 private:
  struct State;
  std::unique_ptr<State> state_;
  std::string path_;
};

// What a pickle held.
struct PickledObject {
  enum class Kind { none, tensor, integer, floating, boolean, string, sequence, dictionary };
  Kind kind = Kind::none;
  HostTensor tensor;
  int64_t integer = 0;  // of a boolean too
  double floating = 0;
  std::string string;
  std::vector<PickledObject> items;
  std::vector<std::string> keys;  // of a dictionary, one an item
};

// Reads what torch.save wrote. Nullopt if it holds an object of any class but those above (a class
// is refused before anything of it is made) or cannot be understood.
std::optional<PickledObject> read_pickle(std::string_view bytes);

}  // namespace nacre
