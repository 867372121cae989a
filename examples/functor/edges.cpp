// A filter that is written against libtorch's C++ API, made into an artifact. README.md says how to build this.
#include <ATen/ATen.h>

#include <cstdio>
#include <exception>

#include "compiler/compile.h"
#include "compiler/support/file.h"
#include "exporter/functionalize.h"
#include "exporter/functor.h"
#include "formats/writer.h"
#include "nacre/nacre.h"

// The strength of edges in grey images [n, 1, height, width], from 0 to 1, and where the strongest is in each.
static std::vector<at::Tensor> edges(const std::vector<at::Tensor>& in) {
  const at::Tensor sobel = at::tensor({-1.f, 0.f, 1.f, -2.f, 0.f, 2.f, -1.f, 0.f, 1.f}).view({1, 1, 3, 3});
  const at::Tensor image = at::reflection_pad2d(in[0], {1, 1, 1, 1});
  const at::Tensor across = at::conv2d(image, sobel), down = at::conv2d(image, sobel.transpose(2, 3));
  const at::Tensor strength = (across * across + down * down).sqrt();
  const at::Tensor peak = strength.amax({1, 2, 3}, true);
  return {strength / peak.clamp_min(1e-6), strength.flatten(1).argmax(1)};
}

int main(int argc, char** argv) try {
  const char* path = argc > 1 ? argv[1] : "edges.nacre";
  nacre::Program program = nacre::trace("edges", edges, {at::rand({2, 1, 48, 64})});
  program.graph = nacre::functionalize(program.graph);
  const nacre::CompiledModel model = nacre::compile(std::move(program), {});
  nacre::write_file(path, [&](const nacre::Sink& sink) { nacre::formats::write_artifact(model.artifact, sink); });
  std::printf("%s: %zu kernels\n", path, model.artifact.kernels.size());

  // The artifact and libtorch on another image.
  const at::Tensor image = at::rand({2, 1, 48, 64});
  at::Tensor strength = at::empty_like(image), strongest = at::empty({2}, at::kLong);
  nacre_model* opened = nullptr;
  nacre_session* session = nullptr;
  nacre_error error;
  if (nacre_model_open(path, nullptr, &opened, &error)) return std::fprintf(stderr, "%s\n", error.message), 1;
  if (nacre_session_make(opened, nullptr, nullptr, 0, &session)) return std::fprintf(stderr, "no memory\n"), 1;
  const nacre_tensor input = {image.mutable_data_ptr(), image.sizes().data(), nullptr, 4, NACRE_f32};
  nacre_buffer outputs[] = {{strength.mutable_data_ptr(), strength.nbytes()}, {strongest.mutable_data_ptr(), strongest.nbytes()}};
  if (nacre_run(session, 0, &input, 1, outputs, 2)) return std::fprintf(stderr, "%s\n", nacre_session_message(session)), 1;
  nacre_session_destroy(session);
  nacre_model_close(opened);
  const std::vector<at::Tensor> expected = edges({image});
  const bool same = at::allclose(strength, expected[0], 1e-5, 1e-6) && at::equal(strongest, expected[1]);
  std::printf("%s libtorch's result\n", same ? "gives" : "does not give");
  return same ? 0 : 1;
} catch (const std::exception& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}
