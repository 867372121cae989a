// A camera's frames through a model on the GPU: while one frame is computed, the next is captured and copied.
//
//   camera MODEL.nacre [--frames N] [--rate FPS]
//
// The model has one float32 input of fixed shape, the image, and outputs of fixed shapes, the first one float32. The camera is made
// up: a pattern that moves, written into pinned memory at `rate` frames a second (0: as fast as they are taken).
#include <cuda_runtime_api.h>
#include <nacre/cuda.h>
#include <nacre/dtype.h>
#include <nacre/nacre.hpp>

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <thread>
#include <vector>

namespace {

using Clock = std::chrono::steady_clock;

void require(cudaError_t result, const char* what) {
  if (result == cudaSuccess) return;
  std::fprintf(stderr, "%s: %s\n", what, cudaGetErrorString(result));
  std::exit(1);
}

// Pinned memory of the host, which copies beside kernels need, and memory of the device of the same size.
struct Buffer {
  explicit Buffer(size_t size) : bytes(size) {
    require(cudaMallocHost(&host, size), "pinned memory");
    require(cudaMalloc(&device, size), "memory of the device");
  }
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;
  ~Buffer() {
    cudaFreeHost(host);
    cudaFree(device);
  }
  size_t bytes;
  void* host = nullptr;
  void* device = nullptr;
};

// What one frame needs while it is under way.
struct Frame {
  Frame(size_t image_bytes, const std::vector<size_t>& output_bytes) : image(image_bytes) {
    for (const size_t size : output_bytes) {
      outputs.push_back(std::make_unique<Buffer>(size));
      places.push_back({outputs.back()->device, size});
    }
    for (cudaEvent_t* event : {&copied, &done}) require(cudaEventCreateWithFlags(event, cudaEventDisableTiming), "an event");
  }
  Buffer image;
  std::vector<std::unique_ptr<Buffer>> outputs;
  std::vector<nacre_buffer> places;
  cudaEvent_t copied{}, done{};
  Clock::time_point captured;
  bool under_way = false;
};

// What a driver of a camera would do by DMA.
void capture(Frame& frame, int number) {
  auto* pixel = static_cast<float*>(frame.image.host);
  const size_t count = frame.image.bytes / sizeof(float);
  for (size_t i = 0; i < count; ++i) pixel[i] = static_cast<float>((i + static_cast<size_t>(number) * 7) % 256) / 128.f - 1.f;
  frame.captured = Clock::now();
}

double milliseconds(Clock::duration d) { return std::chrono::duration<double, std::milli>(d).count(); }

int loop(const char* path, int frames, double rate) {
  nacre_open_options open{};
  open.device = NACRE_DEVICE_CUDA;
  const nacre::Model model(path, &open);
  cudaStream_t copies{}, kernels{};
  for (cudaStream_t* stream : {&copies, &kernels}) require(cudaStreamCreateWithFlags(stream, cudaStreamNonBlocking), "a stream");
  nacre_session_options options{};
  options.cuda_stream = kernels;
  options.cuda_queued = 1;
  nacre::Session session(model, &options);

  nacre_tensor_info info{};
  if (nacre_input_count(model.get(), 0) != 1 || nacre_input_info(model.get(), 0, 0, &info) || info.dtype != NACRE_f32) {
    std::fprintf(stderr, "%s: a model with one float32 input is wanted\n", path);
    return 1;
  }
  std::vector<int64_t> shape(info.rank);
  size_t image_bytes = sizeof(float);
  for (uint32_t d = 0; d < info.rank; ++d) {
    nacre_dim dim{};
    nacre_input_dim(model.get(), 0, 0, d, &dim);
    if (dim.size < 0) {
      std::fprintf(stderr, "%s: dimension %u of '%s' is not fixed\n", path, d, info.name);
      return 1;
    }
    shape[d] = dim.size;
    image_bytes *= static_cast<size_t>(dim.size);
  }
  nacre_tensor image{nullptr, shape.data(), nullptr, info.rank, NACRE_f32};
  session.prepare(0, &image, 1);
  std::vector<size_t> output_bytes;
  for (uint32_t i = 0; i < nacre_output_count(model.get(), 0); ++i) output_bytes.push_back(nacre_output_size_bytes(session.get(), i));

  Frame first(image_bytes, output_bytes), second(image_bytes, output_bytes);
  const std::array<Frame*, 2> slots{&first, &second};
  std::vector<double> latencies;
  // The result of a frame is there: a real program would draw it, or act on it.
  const auto finish = [&](Frame& frame) {
    if (!frame.under_way) return;
    require(cudaEventSynchronize(frame.done), "a frame");
    frame.under_way = false;
    latencies.push_back(milliseconds(Clock::now() - frame.captured));
  };
  const Clock::time_point start = Clock::now();
  for (int n = 0; n < frames; ++n) {
    Frame& frame = *slots[static_cast<size_t>(n) % 2];
    finish(frame);
    if (rate > 0) std::this_thread::sleep_until(start + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(n / rate)));
    capture(frame, n);
    require(cudaMemcpyAsync(frame.image.device, frame.image.host, image_bytes, cudaMemcpyHostToDevice, copies), "a copy");
    require(cudaEventRecord(frame.copied, copies), "an event");
    require(cudaStreamWaitEvent(kernels, frame.copied, 0), "an event");
    image.data = frame.image.device;
    session.run(0, &image, 1, frame.places.data(), static_cast<uint32_t>(frame.places.size()));
    for (size_t i = 0; i < frame.outputs.size(); ++i)
      require(cudaMemcpyAsync(frame.outputs[i]->host, frame.outputs[i]->device, output_bytes[i], cudaMemcpyDeviceToHost, kernels), "a copy");
    require(cudaEventRecord(frame.done, kernels), "an event");
    frame.under_way = true;
  }
  for (int n = frames; n < frames + 2; ++n) finish(*slots[static_cast<size_t>(n) % 2]);
  const double total = milliseconds(Clock::now() - start);
  if (nacre_session_wait(session.get())) {
    std::fprintf(stderr, "%s\n", nacre_session_message(session.get()));
    return 1;
  }
  const Frame& last = *slots[static_cast<size_t>(frames - 1) % 2];
  const auto* scores = static_cast<const float*>(last.outputs[0]->host);
  const size_t count = output_bytes[0] / sizeof(float);
  const size_t best = static_cast<size_t>(std::max_element(scores, scores + count) - scores);
  std::sort(latencies.begin(), latencies.end());
  std::printf("%d frames in %.1f ms: %.1f a second; from capture to result %.3f ms in the median, %.3f at most\n", frames, total,
              frames / total * 1e3, latencies[latencies.size() / 2], latencies.back());
  std::printf("the largest of the %zu numbers of the last frame's first output: %g, at %zu\n", count, scores[best], best);
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  const char* path = nullptr;
  int frames = 300;
  double rate = 0;
  for (int i = 1; i < argc; ++i) {
    const std::string word = argv[i];
    if (word == "--frames" && i + 1 < argc)
      frames = std::max(2, std::atoi(argv[++i]));
    else if (word == "--rate" && i + 1 < argc)
      rate = std::atof(argv[++i]);
    else
      path = argv[i];
  }
  if (!path) {
    std::fprintf(stderr, "usage: camera MODEL.nacre [--frames N] [--rate FPS]\n");
    return 2;
  }
  try {
    return loop(path, frames, rate);
  } catch (const nacre::RuntimeError& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
