"""libnacre_cuda beside PyTorch in one process: both use the device's primary context, and one stream."""
import ctypes
import os
from pathlib import Path

import torch

P, U32, I64, SIZE = ctypes.c_void_p, ctypes.c_uint32, ctypes.c_int64, ctypes.c_size_t
MAX_RANK = 16
CUDA = 2


class Tensor(ctypes.Structure):
    _fields_ = [("data", P), ("shape", ctypes.POINTER(I64)), ("strides", ctypes.POINTER(I64)), ("rank", U32), ("dtype", U32)]


class Buffer(ctypes.Structure):
    _fields_ = [("data", P), ("size_bytes", SIZE)]


class Error(ctypes.Structure):
    _fields_ = [("status", ctypes.c_int), ("message", ctypes.c_char * 512)]


class OpenOptions(ctypes.Structure):
    _fields_ = [("verify_data", ctypes.c_int), ("imports", P), ("import_count", SIZE), ("hide_features", ctypes.c_uint64), ("device", U32),
                ("weights", ctypes.c_char_p)]


class SessionOptions(ctypes.Structure):
    _fields_ = [("threads", U32), ("executor", P), ("arena_bytes", SIZE), ("fixed_memory", ctypes.c_int), ("profile", ctypes.c_int),
                ("record_shapes", U32), ("cuda_stream", P), ("cuda_queued", ctypes.c_int)]


class TensorInfo(ctypes.Structure):
    _fields_ = [("name", ctypes.c_char_p), ("dtype", U32), ("element_size", U32), ("rank", U32), ("mutated", ctypes.c_int), ("path", ctypes.c_char_p)]


# As formats/dtype.h numbers them.
DTYPES = {1: torch.bool, 2: torch.uint8, 3: torch.int8, 4: torch.int16, 5: torch.int32, 6: torch.int64, 7: torch.float16, 8: torch.bfloat16,
          9: torch.float32, 10: torch.float64}
NUMBERS = {dtype: number for number, dtype in DTYPES.items()}

_library = None


def library():
    global _library
    if not _library:
        path = os.environ.get("NACRE_CUDA_LIBRARY") or str(Path(os.environ.get("NACRE_BUILD", "build")) / "lib/libnacre_cuda.so")
        _library = ctypes.CDLL(path)
        _library.nacre_session_message.argtypes = [P]
        _library.nacre_output_shape.argtypes = _library.nacre_output_size_bytes.argtypes = [P, U32]
        _library.nacre_session_prepare.argtypes = [P, U32, P, U32]
        _library.nacre_run.argtypes = [P, U32, P, U32, P, U32]
        _library.nacre_output_count.argtypes = _library.nacre_input_count.argtypes = [P, U32]
        _library.nacre_session_wait.argtypes = _library.nacre_session_destroy.argtypes = _library.nacre_model_close.argtypes = [P]
        _library.nacre_session_message.restype = ctypes.c_char_p
        _library.nacre_status_text.restype = ctypes.c_char_p
        _library.nacre_output_shape.restype = ctypes.POINTER(I64)
        _library.nacre_output_size_bytes.restype = SIZE
    return _library


class Model:
    def __init__(self, path):
        self.handle, error, options = P(), Error(), OpenOptions(device=CUDA)
        if library().nacre_model_open(str(path).encode(), ctypes.byref(options), ctypes.byref(self.handle), ctypes.byref(error)):
            raise RuntimeError(error.message.decode())

    def entry(self, name):
        number = U32()
        if library().nacre_entry_find(self.handle, name.encode(), ctypes.byref(number)):
            raise RuntimeError(f"no entry {name}")
        return number.value


class Session:
    """Calls of one entry with fixed tensors on the device, which end when they are queued."""

    def __init__(self, model, entry, inputs):
        self.model, self.entry, self.inputs = model, entry, [x.contiguous() for x in inputs]
        self.stream = torch.cuda.current_stream().cuda_stream
        assert self.stream, "the default stream, which a session does not share"
        options, self.handle = SessionOptions(cuda_stream=self.stream, cuda_queued=1), P()
        status = library().nacre_session_make(model.handle, ctypes.byref(options), None, SIZE(0), ctypes.byref(self.handle))
        if status:
            raise RuntimeError(library().nacre_status_text(status).decode())
        self.tensors = (Tensor * len(inputs))()
        self.shapes = []
        for place, x in zip(self.tensors, self.inputs):
            self.shapes.append((I64 * MAX_RANK)(*x.shape))
            place.data, place.shape, place.rank, place.dtype = x.data_ptr(), self.shapes[-1], x.dim(), NUMBERS[x.dtype]
        self.check(library().nacre_session_prepare(self.handle, entry, self.tensors, len(inputs)))
        count = library().nacre_output_count(model.handle, entry)
        self.outputs, self.buffers = [], (Buffer * count)()
        for i in range(count):
            info = TensorInfo()
            library().nacre_output_info(model.handle, U32(entry), U32(i), ctypes.byref(info))
            shape = library().nacre_output_shape(self.handle, i)
            self.outputs.append(torch.zeros([shape[d] for d in range(info.rank)], dtype=DTYPES[info.dtype], device="cuda"))
            self.buffers[i].data = self.outputs[i].data_ptr()
            self.buffers[i].size_bytes = library().nacre_output_size_bytes(self.handle, i)

    def check(self, status):
        if status:
            raise RuntimeError(library().nacre_session_message(self.handle).decode())

    def __call__(self):
        status = library().nacre_run(self.handle, self.entry, self.tensors, len(self.inputs), self.buffers, len(self.outputs))
        if status:
            self.check(status)
        return self.outputs

    def wait(self):
        self.check(library().nacre_session_wait(self.handle))

    def close(self):
        library().nacre_session_destroy(self.handle)
