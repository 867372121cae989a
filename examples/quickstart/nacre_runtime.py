"""The C runtime from Python: a face on libnacre.so's nacre.h, for numpy arrays.

    with Model("model.nacre", library="build/lib/libnacre.so", threads=2) as model:
        outputs = model.run(array, other_array)
"""
import ctypes
from ctypes import POINTER, byref, c_char, c_char_p, c_int, c_int64, c_size_t, c_uint32, c_void_p

import numpy

# numbers of formats/dtype.h
DTYPES = {number: numpy.dtype(name) for number, name in {
    1: "bool", 2: "uint8", 3: "int8", 4: "int16", 5: "int32", 6: "int64", 7: "float16", 9: "float32", 10: "float64",
    11: "complex64", 12: "complex128", 13: "uint16", 14: "uint32", 15: "uint64"}.items()}
NUMBERS = {dtype: number for number, dtype in DTYPES.items()}


class _Error(ctypes.Structure):
    _fields_ = [("status", c_int), ("message", c_char * 512)]


class _Tensor(ctypes.Structure):
    _fields_ = [("data", c_void_p), ("shape", POINTER(c_int64)), ("strides", POINTER(c_int64)), ("rank", c_uint32),
                ("dtype", c_uint32)]


class _Buffer(ctypes.Structure):
    _fields_ = [("data", c_void_p), ("size_bytes", c_size_t)]


class _SessionOptions(ctypes.Structure):
    _fields_ = [("threads", c_uint32), ("executor", c_void_p), ("arena_bytes", c_size_t), ("fixed_memory", c_int),
                ("profile", c_int), ("record_shapes", c_uint32), ("cuda_stream", c_void_p), ("cuda_queued", c_int)]


class _TensorInfo(ctypes.Structure):
    _fields_ = [("name", c_char_p), ("dtype", c_uint32), ("element_size", c_uint32), ("rank", c_uint32),
                ("mutated", c_int), ("path", c_char_p)]


def _load(path):
    library = ctypes.CDLL(str(path))
    for name, result, arguments in (
            ("nacre_status_text", c_char_p, [c_int]),
            ("nacre_model_open", c_int, [c_char_p, c_void_p, POINTER(c_void_p), POINTER(_Error)]),
            ("nacre_model_close", None, [c_void_p]),
            ("nacre_input_count", c_uint32, [c_void_p, c_uint32]),
            ("nacre_output_count", c_uint32, [c_void_p, c_uint32]),
            ("nacre_output_info", c_int, [c_void_p, c_uint32, c_uint32, POINTER(_TensorInfo)]),
            ("nacre_session_make", c_int, [c_void_p, POINTER(_SessionOptions), c_void_p, c_size_t, POINTER(c_void_p)]),
            ("nacre_session_destroy", None, [c_void_p]),
            ("nacre_session_prepare", c_int, [c_void_p, c_uint32, POINTER(_Tensor), c_uint32]),
            ("nacre_output_shape", POINTER(c_int64), [c_void_p, c_uint32]),
            ("nacre_run", c_int, [c_void_p, c_uint32, POINTER(_Tensor), c_uint32, POINTER(_Buffer), c_uint32]),
            ("nacre_session_message", c_char_p, [c_void_p])):
        function = getattr(library, name)
        function.restype, function.argtypes = result, arguments
    return library


class NacreError(Exception):
    """A call of the runtime failed; the text is the runtime's own."""


class Call:
    """Arrays bound to a model's inputs and outputs: run() is then one C call."""

    def __init__(self, model, arrays):
        self._model = model
        self._arrays = [numpy.ascontiguousarray(a) for a in arrays]
        self._inputs = (_Tensor * len(arrays))()
        self._shapes = []
        for tensor, array in zip(self._inputs, self._arrays):
            shape = (c_int64 * array.ndim)(*array.shape)
            self._shapes.append(shape)
            tensor.data, tensor.shape, tensor.rank = array.ctypes.data, shape, array.ndim
            tensor.dtype = NUMBERS[array.dtype]
        library, session = model._library, model._session
        model._check(library.nacre_session_prepare(session, 0, self._inputs, len(arrays)))
        self.outputs = []
        for index, (rank, dtype) in enumerate(model._outputs):
            shape = library.nacre_output_shape(session, index)
            self.outputs.append(numpy.empty([shape[k] for k in range(rank)], dtype))
        self._buffers = (_Buffer * len(self.outputs))(
            *[_Buffer(array.ctypes.data, array.nbytes) for array in self.outputs])

    def run(self):
        model = self._model
        model._check(model._library.nacre_run(model._session, 0, self._inputs, len(self._arrays), self._buffers,
                                              len(self.outputs)))
        return self.outputs


class Model:
    """An opened artifact with one session."""

    def __init__(self, path, library, threads=1):
        self._library, self._model, self._session = _load(library), c_void_p(), c_void_p()
        error = _Error()
        if self._library.nacre_model_open(str(path).encode(), None, byref(self._model), byref(error)):
            raise NacreError(f"{path}: {error.message.decode()}")
        options = _SessionOptions(threads=threads)
        status = self._library.nacre_session_make(self._model, byref(options), None, 0, byref(self._session))
        if status:
            self.close()
            raise NacreError(self._library.nacre_status_text(status).decode())
        self._outputs = []
        for index in range(self._library.nacre_output_count(self._model, 0)):
            info = _TensorInfo()
            self._check(self._library.nacre_output_info(self._model, 0, index, byref(info)))
            self._outputs.append((info.rank, DTYPES[info.dtype]))

    def _check(self, status):
        if status:
            text = self._library.nacre_status_text(status).decode()
            detail = self._library.nacre_session_message(self._session).decode()
            raise NacreError(f"{text}: {detail}" if detail else text)

    def bind(self, *arrays):
        return Call(self, arrays)

    def run(self, *arrays):
        return self.bind(*arrays).run()

    def close(self):
        if self._session:
            self._library.nacre_session_destroy(self._session)
        if self._model:
            self._library.nacre_model_close(self._model)
        self._session, self._model = c_void_p(), c_void_p()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()
