#!/bin/bash
# run.sh [--out FILE.json] [options of prepare.py and measure.py]: the GPU bench on this machine, in one run.
# Builds nacre, compiles the models for --target (default: this machine's GPU), measures them beside PyTorch, and writes
# FILE.json and the table FILE.md (default: build/bench/gpu.json). NACRE_GPU_PYTHON names a Python with a torch that uses the GPU,
# torchvision and triton (default: the project's own). 77: there is no GPU.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../../.." && pwd)
if ! command -v nvidia-smi >/dev/null && [ ! -e /dev/nvhost-gpu ]; then
  echo "skipped: no GPU here"
  exit 77
fi
# shellcheck source=../../../.ci/setup.sh
source "$root/.ci/setup.sh"
nacre_setup packages python
nacre_setup_build "$NACRE_BUILD" nacre_tool nacre_exporter nacre_toolchain nacre nacre_cuda_shared
export NACRE_BIN=$NACRE_BUILD/bin/nacre NACRE_CUDA_LIBRARY=$NACRE_BUILD/lib/libnacre_cuda.so PYTHONDONTWRITEBYTECODE=1
python=${NACRE_GPU_PYTHON:-$NACRE_PYTHON}
out=$NACRE_BUILD/bench/gpu.json
artifacts=${BENCH_BUILD:-$NACRE_CACHE/bench}/gpu
target=$("$python" -c 'import torch; major, minor = torch.cuda.get_device_capability(); n = 10 * major + minor; print("cuda-sm_%d" % max(t for t in (87, 90, 110) if t <= n))')
prepare=() measure=()
while [ $# -gt 0 ]; do
  case $1 in
    --out) out=$2; shift 2 ;;
    --target) target=$2; shift 2 ;;
    --models | --batches | --precisions) prepare+=("$1" "$2"); measure+=("$1" "$2"); shift 2 ;;
    *) measure+=("$1"); shift ;;
  esac
done
mkdir -p "$(dirname "$out")"
"$NACRE_PYTHON" "$root/tests/bench/gpu/prepare.py" --again --out "$artifacts" --target "$target" "${prepare[@]}" || echo "not all models compile"
"$python" "$root/tests/bench/gpu/measure.py" --artifacts "$artifacts" --out "$out" --commit "$(git -C "$root" rev-parse --short HEAD)" "${measure[@]}"
