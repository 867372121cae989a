"""OpenVINO, CPU plug-in, latency hint, inference precision held at float32."""
from . import Session, package_files


def import_runtime():
    import openvino      # noqa: F401


def prepare(case, folder):
    import openvino

    from .onnxruntime_peer import prepare as onnx
    folder.mkdir(parents=True, exist_ok=True)
    openvino.save_model(openvino.convert_model(str(onnx(case, folder))), str(folder / "model.xml"),
                        compress_to_fp16=False)
    return folder


def load(artifact, case, threads):
    import openvino
    core = openvino.Core()
    compiled = core.compile_model(str(artifact / "model.xml"), "CPU", {
        "PERFORMANCE_HINT": "LATENCY", "INFERENCE_PRECISION_HINT": "f32",
        "INFERENCE_NUM_THREADS": threads, "NUM_STREAMS": 1})
    request = compiled.create_infer_request()
    keep = case.inputs(stateless=True)
    for i, value in enumerate(keep):
        request.set_input_tensor(i, openvino.Tensor(value, shared_memory=True))

    def run():
        request.start_async()
        request.wait()
    return Session(run, lambda: request.get_output_tensor(0).data.copy(), keep)


def libraries():
    return package_files("openvino", "libs/libopenvino.so*", "libs/libopenvino_intel_cpu_plugin.so",
                         "libs/libopenvino_ir_frontend.so*", "libs/libtbb.so*")
