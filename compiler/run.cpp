#include "compiler/run.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <fstream>

#include "compiler/support/error.h"
#include "compiler/support/file.h"
#include "formats/container.h"

namespace nacre {
namespace {

ErrorKind kind_of(nacre_status status) {
  switch (status) {
    case NACRE_IO_ERROR:
    case NACRE_BAD_ARTIFACT:
    case NACRE_GUARD_MISS:
    case NACRE_DATA_ERROR:
    case NACRE_NOT_FOUND:
      return ErrorKind::user;
    case NACRE_UNSUPPORTED_VERSION:
    case NACRE_MISSING_IMPORT:
      return ErrorKind::unsupported;
    case NACRE_UNSUPPORTED_DEVICE:
    case NACRE_OUT_OF_MEMORY:
    case NACRE_THREAD_ERROR:
      return ErrorKind::environment;
    default:
      return ErrorKind::internal;
  }
}

HostTensor copy_of(const HostTensor& tensor) {
  std::byte* bytes = nullptr;
  HostTensor copy = make_tensor(tensor.dtype, tensor.shape, &bytes);
  if (tensor.size_bytes) std::memcpy(bytes, tensor.data.get(), tensor.size_bytes);
  return copy;
}

std::vector<nacre_tensor> arguments(const RuntimeSession::Call& call) {
  std::vector<nacre_tensor> list;
  for (std::size_t i = 0; i < call.inputs.size(); ++i) {
    const HostTensor& tensor = call.inputs[i];
    if (call.placed.empty())
      list.push_back({const_cast<std::byte*>(tensor.data.get()), tensor.shape.data(), nullptr,
                      static_cast<std::uint32_t>(tensor.shape.size()),
                      static_cast<std::uint32_t>(tensor.dtype)});
    else
      list.push_back(call.placed.argument(i, tensor));
  }
  return list;
}

// Visits every index of a shape.
template <typename Visit>
void each_index(const std::vector<std::int64_t>& shape, Visit visit) {
  std::vector<std::int64_t> at(shape.size(), 0);
  if (std::find(shape.begin(), shape.end(), 0) != shape.end()) return;
  for (;;) {
    visit(at);
    std::size_t d = shape.size();
    while (d > 0 && ++at[d - 1] == shape[d - 1]) at[--d] = 0;
    if (d == 0) return;
  }
}

std::vector<std::int64_t> dense_strides(const std::vector<std::int64_t>& shape) {
  std::vector<std::int64_t> strides(shape.size(), 1);
  for (std::size_t d = shape.size(); d-- > 1;) strides[d - 1] = strides[d] * shape[d];
  return strides;
}

}  // namespace

AlignedBytes artifact_memory(const formats::Artifact& artifact) {
  AlignedBytes bytes;
  formats::write_artifact(artifact, [&](std::span<const std::uint8_t> part) {
    const auto* begin = reinterpret_cast<const std::byte*>(part.data());
    bytes.insert(bytes.end(), begin, begin + part.size());
  });
  return bytes;
}

AlignedBytes read_artifact_file(const std::filesystem::path& path, const std::string& weights) {
  AlignedBytes bytes = read_bytes(path);
  nacre_file_header header{};
  if (bytes.size() < NACRE_APART_ALIGN) return bytes;
  std::memcpy(&header, bytes.data(), sizeof header);
  if (std::memcmp(header.magic, NACRE_MAGIC, sizeof header.magic) != 0 || header.apart != bytes.size()) return bytes;
  const std::string other = weights.empty() ? path.string() + ".weights" : weights;
  const AlignedBytes rest = read_bytes(other);
  nacre_weights_end end{};
  std::memcpy(end.magic, NACRE_WEIGHTS_MAGIC, sizeof end.magic);
  end.digest = header.apart_digest;
  if (rest.size() < sizeof end || bytes.size() + rest.size() - sizeof end != header.file_size || std::memcmp(rest.data() + rest.size() - sizeof end, &end, sizeof end) != 0)
    fail(ErrorKind::user, "{}: its weights are in another file, and {} is not it", path.string(), other);
  bytes.insert(bytes.end(), rest.begin(), rest.end() - sizeof end);
  return bytes;
}

void require(nacre_status status, const std::string& message) {
  if (status == NACRE_OK) return;
  fail(kind_of(status), "{}", message.empty() ? nacre_status_text(status) : message);
}

namespace {

nacre_open_options with_imports(const Imports& imports) {
  nacre_open_options options{};
  options.imports = imports.data();
  options.import_count = imports.size();
  return options;
}

// How this command is given what a model lacks.
std::string remedy(nacre_status status) {
  return status == NACRE_MISSING_IMPORT ? " (--import LIBRARY.so gives it to this command)" : "";
}

}  // namespace

RuntimeModel RuntimeModel::open(const std::filesystem::path& path, const Imports& imports, std::uint32_t device, const std::string& weights) {
  RuntimeModel model;
  model.name_ = path.string();
  nacre_model* opened = nullptr;
  nacre_error error{};
  nacre_open_options options = with_imports(imports);
  options.device = device;
  if (!weights.empty()) options.weights = weights.c_str();
  const nacre_status status = nacre_model_open(path.c_str(), &options, &opened, &error);
  const std::string reason = error.message + remedy(status);
  require(status,
          reason.find(model.name_) == std::string::npos ? model.name_ + ": " + reason : reason);
  model.model_.reset(opened);
  return model;
}

RuntimeModel RuntimeModel::open(const AlignedBytes& bytes, std::string name, const Imports& imports, std::uint32_t device) {
  RuntimeModel model;
  model.name_ = std::move(name);
  nacre_model* opened = nullptr;
  nacre_error error{};
  nacre_open_options options = with_imports(imports);
  options.device = device;
  const nacre_status status =
      nacre_model_open_memory(bytes.data(), bytes.size(), &options, &opened, &error);
  check(status != NACRE_BAD_ARTIFACT, "the runtime refuses {}: {}", model.name_, error.message);
  require(status, model.name_ + ": " + error.message + remedy(status));
  model.model_.reset(opened);
  return model;
}

std::uint32_t RuntimeModel::entry(const std::string& entry_name) const {
  std::uint32_t number = 0;
  if (!entry_name.empty() && nacre_entry_find(get(), entry_name.c_str(), &number) != NACRE_OK) {
    std::string names;
    for (std::uint32_t i = 0; i < nacre_entry_count(get()); ++i)
      names += (i ? ", " : "") + std::string(nacre_entry_name(get(), i));
    fail(ErrorKind::user, "{} has no entry '{}'; it has {}", name_, entry_name, names);
  }
  return number;
}

std::uint32_t RuntimeModel::input_count(std::uint32_t entry) const {
  return nacre_input_count(get(), entry);
}

std::uint32_t RuntimeModel::output_count(std::uint32_t entry) const {
  return nacre_output_count(get(), entry);
}

nacre_tensor_info RuntimeModel::input(std::uint32_t entry, std::uint32_t index) const {
  nacre_tensor_info info{};
  require(nacre_input_info(get(), entry, index, &info), "");
  return info;
}

nacre_tensor_info RuntimeModel::output(std::uint32_t entry, std::uint32_t index) const {
  nacre_tensor_info info{};
  require(nacre_output_info(get(), entry, index, &info), "");
  return info;
}

nacre_dim RuntimeModel::input_dim(std::uint32_t entry, std::uint32_t input, std::uint32_t dim) const {
  nacre_dim result{};
  require(nacre_input_dim(get(), entry, input, dim, &result), "");
  return result;
}

namespace {

nacre_tensor_info state_info(const RuntimeModel& model, std::uint32_t number,
                             std::vector<std::int64_t>& shape) {
  nacre_tensor_info info{};
  std::int64_t dims[NACRE_MAX_RANK] = {};
  require(nacre_state_info(model.get(), number, &info, dims), "");
  shape.assign(dims, dims + info.rank);
  return info;
}

}  // namespace

std::string RuntimeModel::state_name(std::uint32_t state) const {
  std::vector<std::int64_t> shape;
  return state_info(*this, state, shape).name;
}

RuntimeSession::RuntimeSession(const RuntimeModel& model, const nacre_session_options& options) : model_(&model) {
  // The runtime writes at the end, where nobody can be told.
  if (const char* record = std::getenv("NACRE_RECORD_SHAPES"); record && !std::ofstream(record, std::ios::app))
    fail(ErrorKind::environment, "NACRE_RECORD_SHAPES: cannot write {}", record);
  nacre_session* made = nullptr;
  const nacre_status status = nacre_session_make(model.get(), &options, nullptr, 0, &made);
  require(status, model.name() + ": cannot make a session: " + nacre_status_text(status));
  session_.reset(made);
}

PlacedInputs::PlacedInputs(const std::vector<HostTensor>& inputs,
                           const std::vector<InputPlace>& places,
                           const std::vector<std::size_t>& shared) {
  if (places.size() != inputs.size()) return;
  bool plain = shared.empty();
  for (std::size_t i = 0; i < inputs.size(); ++i)
    plain = plain && places[i].strides == dense_strides(inputs[i].shape);
  if (!plain) fill(inputs, places, shared);
}

PlacedInputs PlacedInputs::apart(const std::vector<HostTensor>& inputs) {
  std::vector<InputPlace> places;
  for (const HostTensor& tensor : inputs) places.push_back({dense_strides(tensor.shape), 0});
  PlacedInputs result;
  result.fill(inputs, places, {});
  return result;
}

std::vector<std::vector<std::byte>*> PlacedInputs::storages() const {
  std::vector<std::vector<std::byte>*> all;
  for (const Place& place : places_)
    if (std::find(all.begin(), all.end(), place.storage.get()) == all.end())
      all.push_back(place.storage.get());
  return all;
}

std::size_t PlacedInputs::storage_of(std::size_t input) const {
  const std::vector<std::vector<std::byte>*> all = storages();
  return static_cast<std::size_t>(std::find(all.begin(), all.end(), places_[input].storage.get()) - all.begin());
}

void PlacedInputs::fill(const std::vector<HostTensor>& inputs, const std::vector<InputPlace>& places,
                        const std::vector<std::size_t>& shared) {
  std::shared_ptr<std::vector<std::byte>> common = std::make_shared<std::vector<std::byte>>();
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    Place place{common, places[i]};
    if (std::find(shared.begin(), shared.end(), i) == shared.end())
      place.storage = std::make_shared<std::vector<std::byte>>();
    std::int64_t last = place.at.offset;
    for (std::size_t d = 0; d < inputs[i].shape.size(); ++d)
      last += std::max<std::int64_t>(inputs[i].shape[d] - 1, 0) * place.at.strides[d];
    const std::size_t bytes =
        static_cast<std::size_t>(last + 1) * nacre_dtype_size_bytes(inputs[i].dtype);
    if (place.storage->size() < bytes) place.storage->resize(bytes);
    places_.push_back(std::move(place));
  }
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const std::size_t size = nacre_dtype_size_bytes(inputs[i].dtype);
    const std::byte* from = inputs[i].data.get();
    each_index(inputs[i].shape, [&](const std::vector<std::int64_t>& at) {
      std::memcpy(element(places_[i], at, size), from, size);
      from += size;
    });
  }
}

std::byte* PlacedInputs::element(const Place& place, const std::vector<std::int64_t>& index,
                                 std::size_t size) const {
  std::int64_t at = place.at.offset;
  for (std::size_t d = 0; d < index.size(); ++d) at += index[d] * place.at.strides[d];
  return place.storage->data() + static_cast<std::size_t>(at) * size;
}

nacre_tensor PlacedInputs::argument(std::size_t input, const HostTensor& tensor) const {
  const Place& place = places_[input];
  const std::size_t size = nacre_dtype_size_bytes(tensor.dtype);
  return {place.storage->data() + static_cast<std::size_t>(place.at.offset) * size,
          tensor.shape.data(), place.at.strides.data(),
          static_cast<std::uint32_t>(tensor.shape.size()), static_cast<std::uint32_t>(tensor.dtype)};
}

HostTensor PlacedInputs::read(std::size_t input, const HostTensor& like) const {
  std::byte* to = nullptr;
  HostTensor result = make_tensor(like.dtype, like.shape, &to);
  const std::size_t size = nacre_dtype_size_bytes(like.dtype);
  each_index(like.shape, [&](const std::vector<std::int64_t>& at) {
    std::memcpy(to, element(places_[input], at, size), size);
    to += size;
  });
  return result;
}

RuntimeSession::Call RuntimeSession::prepare(std::uint32_t entry, const std::vector<HostTensor>& inputs,
                               PlacedInputs placed) {
  const std::uint32_t count = model_->input_count(entry);
  if (inputs.size() != count)
    fail(ErrorKind::user, "{} takes {} input{}, {} given", model_->name(), count,
         count == 1 ? "" : "s", inputs.size());
  Call call;
  call.entry = entry;
  call.placed = std::move(placed);
  for (std::uint32_t i = 0; i < count; ++i) {
    call.inputs.push_back(copy_of(inputs[i]));
    if (inputs[i].dtype == NACRE_u16 && model_->input(entry, i).dtype == NACRE_bf16)
      call.inputs.back().dtype = NACRE_bf16;
  }
  const std::vector<nacre_tensor> list = arguments(call);
  const nacre_status status = nacre_session_prepare(get(), entry, list.data(), count);
  // The arrays are the user's, whatever is wrong with them.
  if (status == NACRE_BAD_ARGUMENT) fail(ErrorKind::user, "{}", nacre_session_message(get()));
  require(status, nacre_session_message(get()));
  for (std::uint32_t i = 0; i < model_->output_count(entry); ++i) {
    const nacre_tensor_info info = model_->output(entry, i);
    const std::int64_t* shape = nacre_output_shape(get(), i);
    call.outputs.push_back(make_tensor(static_cast<nacre_dtype>(info.dtype),
                                       std::vector<std::int64_t>(shape, shape + info.rank),
                                       nullptr));
    check(call.outputs.back().size_bytes == nacre_output_size_bytes(get(), i),
          "output {} has {} bytes, its shape says {}", i, nacre_output_size_bytes(get(), i),
          call.outputs.back().size_bytes);
    call.room.push_back(call.outputs.back().size_bytes);
  }
  return call;
}

void RuntimeSession::run(Call& call) {
  const std::vector<nacre_tensor> list = arguments(call);
  std::vector<nacre_buffer> outputs;
  for (std::size_t i = 0; i < call.outputs.size(); ++i)
    outputs.push_back({const_cast<std::byte*>(call.outputs[i].data.get()), call.room[i]});
  const nacre_status status =
      nacre_run(get(), call.entry, list.data(), static_cast<std::uint32_t>(list.size()),
                outputs.data(), static_cast<std::uint32_t>(outputs.size()));
  require(status, nacre_session_message(get()));
  // Sizes that depend on data are known now.
  for (std::uint32_t i = 0; i < call.outputs.size(); ++i) {
    HostTensor& output = call.outputs[i];
    const std::int64_t* shape = nacre_output_shape(get(), i);
    output.shape.assign(shape, shape + output.shape.size());
    output.size_bytes = static_cast<std::size_t>(output.elements()) * nacre_dtype_size_bytes(output.dtype);
  }
}

HostTensor RuntimeSession::state(std::uint32_t number) const {
  std::vector<std::int64_t> shape;
  const auto dtype = static_cast<nacre_dtype>(state_info(*model_, number, shape).dtype);
  std::byte* bytes = nullptr;
  HostTensor copy = make_tensor(dtype, std::move(shape), &bytes);
  if (copy.size_bytes) std::memcpy(bytes, nacre_session_state(get(), number), copy.size_bytes);
  return copy;
}

void RuntimeSession::set_state(std::uint32_t number, const HostTensor& value) {
  std::vector<std::int64_t> shape;
  const std::uint32_t dtype = state_info(*model_, number, shape).dtype;
  // NumPy has no bfloat16: its bits come as uint16.
  const bool same_type = value.dtype == dtype || (value.dtype == NACRE_u16 && dtype == NACRE_bf16);
  if (value.shape != shape || !same_type)
    fail(ErrorKind::user, "the given value of state '{}' has another shape or type than it",
         model_->state_name(number));
  if (value.size_bytes)
    std::memcpy(nacre_session_state(get(), number), value.data.get(), value.size_bytes);
}

}  // namespace nacre
