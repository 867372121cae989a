#include "compiler/support/tensor.h"

#include <cstring>
#include <new>
#include <utility>

#include "compiler/support/error.h"

namespace nacre {

HostTensor make_tensor(nacre_dtype dtype, std::vector<int64_t> shape, std::byte** bytes) {
  constexpr std::align_val_t kAlignment{64};
  int64_t size = nacre_dtype_size_bytes(dtype);
  for (const int64_t dim : shape) {
    check(dim >= 0, "a tensor with a dimension of {}", dim);
    if (__builtin_mul_overflow(size, dim, &size))
      fail(ErrorKind::environment, "a tensor larger than the address space");
  }
  HostTensor tensor;
  tensor.dtype = dtype;
  tensor.shape = std::move(shape);
  tensor.size_bytes = static_cast<size_t>(size);
  // An empty tensor has an address, too, and vector code may read up to the end of the last line.
  const size_t room = (tensor.size_bytes + 63) / 64 * 64 + 64;
  auto* memory = static_cast<std::byte*>(::operator new(room, kAlignment, std::nothrow));
  if (!memory) fail(ErrorKind::environment, "no memory for a tensor of {} bytes", size);
  std::memset(memory, 0, room);
  tensor.data = std::shared_ptr<const std::byte>(memory, [](const std::byte* old) {
    ::operator delete(const_cast<std::byte*>(old), kAlignment);
  });
  if (bytes) *bytes = memory;
  return tensor;
}

}  // namespace nacre
