// The runtime's public interface for the command: what a C program does with nacre.h, with errors
// as exceptions and tensors that own their memory.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "compiler/support/tensor.h"
#include "nacre/nacre.h"

namespace nacre {

// Throws for any status but NACRE_OK: damaged artifacts and refused inputs are the user's, memory
// and threads the environment's.
void require(nacre_status status, const std::string& message);

class Model {
 public:
  // Maps the file.
  static Model open(const std::filesystem::path& path, bool verify_data = false);
  // `bytes` must outlive the model and start at a multiple of 64. `name` is for messages.
  static Model open(const void* bytes, std::size_t size_bytes, std::string name);

  const nacre_model* get() const { return model_.get(); }
  const std::string& name() const { return name_; }

  std::uint32_t entry(const std::string& entry_name) const;  // empty: the first
  std::uint32_t input_count(std::uint32_t entry) const;
  std::uint32_t output_count(std::uint32_t entry) const;
  nacre_tensor_info input(std::uint32_t entry, std::uint32_t index) const;
  nacre_tensor_info output(std::uint32_t entry, std::uint32_t index) const;
  nacre_dim input_dim(std::uint32_t entry, std::uint32_t input, std::uint32_t dim) const;

 private:
  struct Close {
    void operator()(nacre_model* model) const { nacre_model_close(model); }
  };
  std::unique_ptr<nacre_model, Close> model_;
  std::string name_;
};

class Session {
 public:
  Session(const Model& model, const nacre_session_options& options);

  // The inputs of the entry, with memory of their own that a model may write into. A uint16 tensor
  // for a bfloat16 input is taken as its bits. Error{user} if the number of inputs is wrong.
  struct Call {
    std::uint32_t entry = 0;
    std::vector<HostTensor> inputs;
    std::vector<HostTensor> outputs;
  };
  Call prepare(std::uint32_t entry, const std::vector<HostTensor>& inputs);
  void run(Call& call);

  nacre_session* get() const { return session_.get(); }

 private:
  struct Destroy {
    void operator()(nacre_session* session) const { nacre_session_destroy(session); }
  };
  const Model* model_;
  std::unique_ptr<nacre_session, Destroy> session_;
};

}  // namespace nacre
