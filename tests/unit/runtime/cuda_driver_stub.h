// What a test asks of the stand-in for the driver, by dlsym.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

struct nacre_cuda_stub_figures {
  int blocks;  // of memory that are taken
  int graphs;  // that were made
  int early;   // edges of graphs along which a kernel may begin before the one before it is done
  int told;    // nodes of a graph that were given other parameters
  int waits;   // for streams
  int asked;   // where a pointer lies
  int encoded; // maps of operands
  std::size_t memory;  // that the device says it has
  std::size_t copied_in, copied_out;
};

extern "C" {
nacre_cuda_stub_figures* nacre_cuda_stub(void);
// The next call of a function (its name without a version) gives `result`.
void nacre_cuda_stub_fail(const char* function, int result);
// The device's address of memory that the test owns.
uint64_t nacre_cuda_stub_address(void* host);
void* nacre_cuda_stub_stream(void);
void nacre_cuda_stub_free_stream(void* stream);
}
