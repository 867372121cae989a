// Artifacts in the real runtime: what a C program does with nacre.h, with errors as exceptions and
// tensors that own their memory. (nacre.hpp is for applications; its errors are not the compiler's.)
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "compiler/support/buffer.h"
#include "compiler/support/tensor.h"
#include "formats/writer.h"
#include "nacre/nacre.h"

namespace nacre {

// As the runtime wants it in memory.
AlignedBytes artifact_memory(const formats::Artifact& artifact);

// Throws for any status but NACRE_OK: damaged artifacts and refused inputs are the user's, memory
// and threads the environment's.
void require(nacre_status status, const std::string& message);

// Functions that stand in for operators of torch.library.
using Imports = std::vector<nacre_import>;

// A whole artifact, with the weights that lie in a file of their own: `weights`, or the one beside it.
AlignedBytes read_artifact_file(const std::filesystem::path& path, const std::string& weights = {});

class RuntimeModel {
 public:
  // Maps the file. `device`: NACRE_DEVICE_...; `weights`: where they are if they lie apart and not beside it.
  static RuntimeModel open(const std::filesystem::path& path, const Imports& imports = {}, std::uint32_t device = NACRE_DEVICE_ANY,
                           const std::string& weights = {});
  // `bytes` must outlive the model. `name` is for messages. The artifact is the compiler's own: that
  // it is damaged is an Error{internal}.
  static RuntimeModel open(const AlignedBytes& bytes, std::string name, const Imports& imports = {}, std::uint32_t device = NACRE_DEVICE_ANY);

  const nacre_model* get() const { return model_.get(); }
  const std::string& name() const { return name_; }

  std::uint32_t entry(const std::string& entry_name) const;  // empty: the first
  std::uint32_t input_count(std::uint32_t entry) const;
  std::uint32_t output_count(std::uint32_t entry) const;
  nacre_tensor_info input(std::uint32_t entry, std::uint32_t index) const;
  nacre_tensor_info output(std::uint32_t entry, std::uint32_t index) const;
  nacre_dim input_dim(std::uint32_t entry, std::uint32_t input, std::uint32_t dim) const;

  std::uint32_t state_count() const { return nacre_state_count(get()); }
  std::string state_name(std::uint32_t state) const;

 private:
  struct Close {
    void operator()(nacre_model* model) const { nacre_model_close(model); }
  };
  std::unique_ptr<nacre_model, Close> model_;
  std::string name_;
};

// How an input lies in its storage, in elements.
struct InputPlace {
  std::vector<std::int64_t> strides;
  std::int64_t offset = 0;
};

// Memory in which inputs lie with given strides, or share a storage. Empty: each on its own.
class PlacedInputs {
 public:
  PlacedInputs() = default;
  // Nothing is placed where all are contiguous and apart.
  PlacedInputs(const std::vector<HostTensor>& inputs, const std::vector<InputPlace>& places,
               const std::vector<std::size_t>& shared);

  // Each contiguous, with a storage of its own.
  static PlacedInputs apart(const std::vector<HostTensor>& inputs);

  bool empty() const { return places_.empty(); }
  // The storages, each once, and the number of an input's.
  std::vector<std::vector<std::byte>*> storages() const;
  std::size_t storage_of(std::size_t input) const;
  nacre_tensor argument(std::size_t input, const HostTensor& tensor) const;
  HostTensor read(std::size_t input, const HostTensor& like) const;  // its elements in order

 private:
  struct Place {
    std::shared_ptr<std::vector<std::byte>> storage;
    InputPlace at;
  };
  void fill(const std::vector<HostTensor>& inputs, const std::vector<InputPlace>& places,
            const std::vector<std::size_t>& shared);
  std::byte* element(const Place& place, const std::vector<std::int64_t>& index,
                     std::size_t size) const;
  std::vector<Place> places_;
};

class RuntimeSession {
 public:
  RuntimeSession(const RuntimeModel& model, const nacre_session_options& options);

  // The inputs of the entry, with memory of their own that a model may write into. A uint16 tensor
  // for a bfloat16 input is taken as its bits. Error{user} if the number of inputs is wrong.
  struct Call {
    std::uint32_t entry = 0;
    std::vector<HostTensor> inputs;
    std::vector<HostTensor> outputs;  // after a run: of the size that it gave
    std::vector<std::size_t> room;    // of each output's memory, in bytes
    PlacedInputs placed;
    // An input as it is now.
    HostTensor input(std::size_t i) const {
      return placed.empty() ? inputs[i] : placed.read(i, inputs[i]);
    }
  };
  Call prepare(std::uint32_t entry, const std::vector<HostTensor>& inputs,
               PlacedInputs placed = {});
  void run(Call& call);

  HostTensor state(std::uint32_t number) const;  // a copy
  // Error{user} if the tensor is of another shape or size than the state.
  void set_state(std::uint32_t number, const HostTensor& value);

  nacre_session* get() const { return session_.get(); }

 private:
  struct Destroy {
    void operator()(nacre_session* session) const { nacre_session_destroy(session); }
  };
  const RuntimeModel* model_;
  std::unique_ptr<nacre_session, Destroy> session_;
};

}  // namespace nacre
