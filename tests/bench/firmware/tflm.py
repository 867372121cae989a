"""The memory that TensorFlow Lite Micro takes from its arena for MLPerf Tiny's networks in float32.

    python tflm.py --out DIR [--networks a,b]         in the environment of .ci/requirements-tflm.txt: run.sh --tflm

litert-torch converts each network; the interpreter's recording allocator says what it took.
"""
import argparse
import re
import subprocess
import sys
import warnings
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[2] / "models"))

RECORD = """
import sys
from tflite_micro.python.tflite_micro import runtime
runtime.Interpreter.from_bytes(open(sys.argv[1], "rb").read(), arena_size=1 << 24,
                               intrepreter_config=runtime.InterpreterConfig.kAllocationRecording).print_allocations()
"""


def converted(network, folder):
    import litert_torch
    import zoo
    path = folder / f"{network}.tflite"
    if not path.exists():
        module, inputs = zoo.create(network)
        litert_torch.convert(module, inputs).export(str(path))
    return path


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--networks", default="ds_cnn,resnet8,mobilenet_v1_025,autoencoder")
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    warnings.filterwarnings("ignore")
    for network in options.networks.split(","):
        path = converted(network, options.out)
        said = subprocess.run([sys.executable, "-c", RECORD, path], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=True).stdout
        print(network, re.search(r"Arena allocation total (\d+) bytes", said).group(1), flush=True)


if __name__ == "__main__":
    main()
