#include "exporter/archive.h"

#include <caffe2/serialize/inline_container.h>
#include <caffe2/serialize/read_adapter_interface.h>
#include <torch/csrc/jit/serialization/import_read.h>

#include <cerrno>
#include <cstring>
#include <fstream>

#include "compiler/support/error.h"
#include "exporter/aten.h"

namespace nacre {
namespace {

class Memory : public caffe2::serialize::ReadAdapterInterface {
 public:
  explicit Memory(std::string_view bytes) : bytes_(bytes) {}
  size_t size() const override { return bytes_.size(); }
  size_t read(uint64_t position, void* to, size_t n, const char*) const override {
    if (position >= bytes_.size()) return 0;
    size_t count = std::min(n, bytes_.size() - static_cast<size_t>(position));
    std::memcpy(to, bytes_.data() + position, count);
    return count;
  }

 private:
  std::string_view bytes_;
};

std::optional<PickledObject> convert(const c10::IValue& value, int depth) {
  PickledObject result;
  using Kind = PickledObject::Kind;
  if (depth > 100) return std::nullopt;
  if (value.isNone()) return result;
  if (value.isTensor()) {
    if (!value.toTensor().defined() || value.toTensor().layout() != c10::kStrided)
      return std::nullopt;
    result.kind = Kind::tensor;
    result.tensor = aten::to_host(value.toTensor());
    return result;
  }
  if (value.isBool()) {
    result.kind = Kind::boolean;
    result.integer = value.toBool();
    return result;
  }
  if (value.isInt()) {
    result.kind = Kind::integer;
    result.integer = value.toInt();
    return result;
  }
  if (value.isDouble()) {
    result.kind = Kind::floating;
    result.floating = value.toDouble();
    return result;
  }
  if (value.isString()) {
    result.kind = Kind::string;
    result.string = value.toStringRef();
    return result;
  }
  if (value.isGenericDict()) {
    result.kind = Kind::dictionary;
    for (const auto& entry : value.toGenericDict()) {
      auto item = convert(entry.value(), depth + 1);
      if (!item) return std::nullopt;
      result.keys.push_back(entry.key().isString() ? entry.key().toStringRef()
                            : entry.key().isInt()  ? std::to_string(entry.key().toInt())
                                                   : std::string());
      result.items.push_back(std::move(*item));
    }
    return result;
  }
  std::vector<c10::IValue> items;
  if (value.isTuple()) {
    items = value.toTupleRef().elements().vec();
  } else if (value.isList()) {
    for (const c10::IValue& item : value.toListRef()) items.push_back(item);
  } else {
    return std::nullopt;
  }
  result.kind = Kind::sequence;
  for (const c10::IValue& each : items) {
    auto item = convert(each, depth + 1);
    if (!item) return std::nullopt;
    result.items.push_back(std::move(*item));
  }
  return result;
}

}  // namespace

struct Archive::State {
  explicit State(const std::string& path)
      : reader(path), size_bytes(static_cast<size_t>(std::filesystem::file_size(path))) {}
  caffe2::serialize::PyTorchStreamReader reader;
  size_t size_bytes;  // of the whole file
};

Archive::Archive(const std::filesystem::path& path) : path_(path.string()) {
  std::error_code code;
  const std::filesystem::file_status status = std::filesystem::status(path, code);
  if (std::filesystem::is_directory(status)) fail(ErrorKind::environment, "{} is a folder", path_);
  // Opening a pipe would wait for someone to write into it.
  if (std::filesystem::exists(status) && !std::filesystem::is_regular_file(status))
    fail(ErrorKind::user, "{} is no file that can be read at any place: a copy of it can", path_);
  std::ifstream file(path, std::ios::binary);
  char magic[4] = {};
  if (!file) fail(ErrorKind::environment, "cannot read {}: {}", path_, std::strerror(errno));
  file.read(magic, 4);
  if (file.gcount() != 4 || std::memcmp(magic, "PK\3\4", 4) != 0)
    fail(ErrorKind::user,
         "{} is no .pt2 file: torch.export.save writes zip archives, and this is none", path_);
  try {
    state_ = std::make_unique<State>(path_);
  } catch (const c10::Error& error) {
    fail(ErrorKind::user, "{} is damaged, truncated, or no archive of torch.export.save ({})",
         path_, aten::first_line(error.what_without_backtrace()));
  } catch (const std::exception& error) {
    fail(ErrorKind::user, "{} is damaged ({})", path_, aten::first_line(error.what()));
  }
  if (has("byteorder") && text("byteorder") == "big")
    fail(ErrorKind::unsupported, "{} was saved on a big-endian machine", path_);
}

Archive::~Archive() = default;

std::vector<std::string> Archive::names() const {
  try {
    return state_->reader.getAllRecords();
  } catch (const c10::Error& error) {
    fail(ErrorKind::user, "{} is damaged ({})", path_, aten::first_line(error.what_without_backtrace()));
  }
}

bool Archive::has(const std::string& name) const { return state_->reader.hasRecord(name); }

std::shared_ptr<const std::byte> Archive::bytes(const std::string& name, size_t* size_bytes) const {
  if (!has(name)) fail(ErrorKind::user, "{} has no record {}", path_, name);
  try {
    // PyTorch does not compress; who did it afterwards did not reach this. What does expands without end.
    constexpr size_t kMostExpansion = 64;
    if (state_->reader.getRecordSize(name) / kMostExpansion > state_->size_bytes)
      fail(ErrorKind::user, "record {} of {} is {} times as large as the whole file", name, path_,
           state_->reader.getRecordSize(name) / state_->size_bytes);
    auto [data, size] = state_->reader.getRecord(name);
    *size_bytes = size;
    auto owner = std::make_shared<at::DataPtr>(std::move(data));
    return {owner, static_cast<const std::byte*>(owner->get())};
  } catch (const c10::Error& error) {
    fail(ErrorKind::user, "record {} of {} is damaged ({})", name, path_,
         aten::first_line(error.what_without_backtrace()));
  } catch (const std::bad_alloc&) {
    fail(ErrorKind::user, "record {} of {} is damaged: its size is absurd", name, path_);
  }
}

std::string Archive::text(const std::string& name) const {
  size_t size = 0;
  auto data = bytes(name, &size);
  return {reinterpret_cast<const char*>(data.get()), size};
}

std::optional<PickledObject> read_pickle(std::string_view bytes) {
  // libtorch warns of tensors whose Python attributes it drops, which say nothing of their values.
  struct Quiet : c10::WarningHandler {
    void process(const c10::Warning&) override {}
  } quiet;
  const c10::WarningUtils::WarningHandlerGuard guard(&quiet);
  try {
    caffe2::serialize::PyTorchStreamReader reader(std::make_shared<Memory>(bytes));
    // Every class and every type name is refused.
    auto refuse = [](const c10::QualifiedName& name) -> c10::StrongTypePtr {
      TORCH_CHECK(false, "the class ", name.qualifiedName(), " is not read");
    };
    auto refuse_type = [](const std::string& name) -> c10::TypePtr {
      TORCH_CHECK(false, "the type ", name, " is not read");
    };
    c10::IValue value = torch::jit::readArchiveAndTensors(
        "data", "", "", refuse, std::nullopt, c10::Device(c10::kCPU), reader, refuse_type);
    return convert(value, 0);
  } catch (const c10::Error&) {
    return std::nullopt;
  } catch (const Error&) {
    return std::nullopt;  // tensors of a type that nacre has not
  } catch (const std::exception&) {
    return std::nullopt;
  }
}

}  // namespace nacre
