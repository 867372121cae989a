"""ONNX Runtime, CPU execution provider, all graph optimisations."""
from . import Session, Unsupported, package_files


def import_runtime():
    import onnxruntime      # noqa: F401


def options(threads):
    import onnxruntime
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_ALL
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    return options


def prepare(case, folder):
    if not case.onnx.exists():
        from cases import export_onnx
        export_onnx(case)
    if not case.onnx.exists():
        raise Unsupported("the model does not export to ONNX")
    return case.onnx


def load(artifact, case, threads):
    import onnxruntime
    session = onnxruntime.InferenceSession(str(artifact), options(threads), providers=["CPUExecutionProvider"])
    binding = session.io_binding()
    keep = case.inputs(stateless=True)
    for meta, value in zip(session.get_inputs(), keep):
        binding.bind_cpu_input(meta.name, value)
    for meta in session.get_outputs():
        binding.bind_output(meta.name)
    return Session(lambda: session.run_with_iobinding(binding), lambda: binding.get_outputs()[0].numpy(), keep)


def libraries():
    return package_files("onnxruntime", "capi/libonnxruntime.so*") or \
        package_files("onnxruntime", "capi/onnxruntime_pybind11_state*.so")
