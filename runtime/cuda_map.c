// Maps by which the device's copy engine reads operands (formats/device_image.h).
#include <stdalign.h>
#include <string.h>

#include "runtime/cuda.h"

// As the driver numbers them: 16-bit floats, 128 bytes whose pieces have changed places, reads of 128 bytes.
enum { kHalf = 6, kSwizzle128 = 3, kPromote128 = 2 };

CUresult nacre_cuda_encode(const struct nacre_cuda_driver* driver, const struct nacre_device_map* map, CUdeviceptr operand, uint64_t* to) {
  alignas(64) uint64_t words[NACRE_DEVICE_MAP_WORDS] = {0};
  uint64_t sizes[NACRE_DEVICE_MAP_RANK];
  void* start = (void*)(uintptr_t)(operand + map->start);
  for (uint32_t i = 0; i < map->rank; ++i) sizes[i] = map->sizes[i];
  CUresult result =
      map->pixels ? driver->cuTensorMapEncodeIm2col(words, kHalf, map->rank, start, sizes, map->strides, map->lower, map->upper, map->box[0],
                                                    map->box[1], map->steps, 0, kSwizzle128, kPromote128, 0)
                  : driver->cuTensorMapEncodeTiled(words, kHalf, map->rank, start, sizes, map->strides, map->box, map->steps, 0, kSwizzle128,
                                                   kPromote128, 0);
  if (!result) memcpy(to, words, sizeof words);
  return result;
}
