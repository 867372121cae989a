// aoti_run PACKAGE INPUTS: a package of AOTInductor, run in turns. Each line of standard input has the seconds of a turn; the answer is the
// median time of a call between two events, and that of a call that is waited for, in microseconds.
#include <ATen/cuda/CUDAEvent.h>
#include <c10/cuda/CUDAStream.h>
#include <torch/csrc/inductor/aoti_package/model_package_loader.h>
#include <torch/torch.h>

#include <algorithm>
#include <chrono>
#include <fstream>
#include <iostream>
#include <iterator>

static double now_us() { return std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

static double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

int main(int, char** argv) {
  c10::InferenceMode mode;
  std::ifstream file(argv[2], std::ios::binary);
  const std::vector<char> bytes((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  std::vector<at::Tensor> inputs;
  for (const c10::IValue& value : torch::pickle_load(bytes).toListRef()) inputs.push_back(value.toTensor().cuda());
  torch::inductor::AOTIModelPackageLoader loader(argv[1]);
  for (int i = 0; i < 3; ++i) loader.run(inputs);
  torch::cuda::synchronize();
  std::cout << "ready" << std::endl;
  for (double seconds; std::cin >> seconds;) {
    std::vector<double> times, walls;
    const double start = now_us();
    while (times.size() < 5 || now_us() - start < seconds * 1e6) {
      at::cuda::CUDAEvent begin(cudaEventDefault), end(cudaEventDefault);
      const double called = now_us();
      begin.record();
      loader.run(inputs);
      end.record();
      torch::cuda::synchronize();
      walls.push_back(now_us() - called);
      times.push_back(begin.elapsed_time(end) * 1e3);
    }
    std::cout << median(times) << " " << median(walls) << std::endl;
  }
}
