// A thin C++ face on nacre.h: ownership by objects, failures as exceptions. Header only.
#pragma once

#include <nacre/nacre.h>

#include <cstdint>
#include <stdexcept>
#include <string>
#include <utility>

namespace nacre {

class RuntimeError : public std::runtime_error {
 public:
  RuntimeError(nacre_status status, const char* message)
      : std::runtime_error(*message ? message : nacre_status_text(status)), status_(status) {}
  nacre_status status() const { return status_; }

 private:
  nacre_status status_;
};

class Model {
 public:
  explicit Model(const char* path, const nacre_open_options* options = nullptr) {
    nacre_error error{};
    if (nacre_model_open(path, options, &model_, &error))
      throw RuntimeError(error.status, error.message);
  }
  // The bytes stay the caller's, as nacre_model_open_memory says.
  Model(const void* bytes, std::size_t size, const nacre_open_options* options = nullptr) {
    nacre_error error{};
    if (nacre_model_open_memory(bytes, size, options, &model_, &error))
      throw RuntimeError(error.status, error.message);
  }
  Model(Model&& other) noexcept : model_(std::exchange(other.model_, nullptr)) {}
  Model& operator=(Model&& other) noexcept {
    std::swap(model_, other.model_);
    return *this;
  }
  ~Model() { nacre_model_close(model_); }

  // The number of an entry or of a state by its name.
  uint32_t entry(const char* name) const {
    uint32_t number = 0;
    if (nacre_entry_find(model_, name, &number)) throw RuntimeError(NACRE_NOT_FOUND, "");
    return number;
  }
  uint32_t state(const char* name) const {
    uint32_t number = 0;
    if (nacre_state_find(model_, name, &number)) throw RuntimeError(NACRE_NOT_FOUND, "");
    return number;
  }

  const nacre_model* get() const { return model_; }

 private:
  nacre_model* model_ = nullptr;
};

// The model must outlive it.
class Session {
 public:
  explicit Session(const Model& model, const nacre_session_options* options = nullptr) {
    const nacre_status status = nacre_session_make(model.get(), options, nullptr, 0, &session_);
    if (status) throw RuntimeError(status, "");
  }
  Session(Session&& other) noexcept : session_(std::exchange(other.session_, nullptr)) {}
  Session& operator=(Session&& other) noexcept {
    std::swap(session_, other.session_);
    return *this;
  }
  ~Session() { nacre_session_destroy(session_); }

  void prepare(uint32_t entry, const nacre_tensor* inputs, uint32_t count) {
    check(nacre_session_prepare(session_, entry, inputs, count));
  }
  void run(uint32_t entry, const nacre_tensor* inputs, uint32_t input_count,
           const nacre_buffer* outputs, uint32_t output_count) {
    check(nacre_run(session_, entry, inputs, input_count, outputs, output_count));
  }
  // ---- State. Numbers are those of nacre_state_find; the bytes live as long as the session.
  void reset() { nacre_session_reset(session_); }
  void* state(uint32_t number) { return nacre_session_state(session_, number); }
  // Everything that the model keeps, to a file and back.
  void save(const char* path) { check(nacre_session_save(session_, path)); }
  void load(const char* path) { check(nacre_session_load(session_, path)); }

  // False: the model has no random numbers.
  bool seed(uint64_t value) { return nacre_session_seed(session_, value) == NACRE_OK; }
  nacre_session* get() const { return session_; }

 private:
  void check(nacre_status status) {
    if (status) throw RuntimeError(status, nacre_session_message(session_));
  }
  nacre_session* session_ = nullptr;
};

}  // namespace nacre
