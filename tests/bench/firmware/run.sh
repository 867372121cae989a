#!/bin/bash
# Counts a microcontroller's instructions and memory for MLPerf Tiny's networks; measure.py says how.
#
#   bash tests/bench/firmware/run.sh [--networks ds_cnn,resnet8] [--boards mps2-an386,mps3-an547] [--layers]
#   bash tests/bench/firmware/run.sh --tflm [--networks ...]       TensorFlow Lite Micro's memory, with its packages from PyPI
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../../.." && pwd)
# shellcheck source=../../../.ci/setup.sh
source "$root/.ci/setup.sh"
export PYTHONDONTWRITEBYTECODE=1
here=$root/tests/bench/firmware
nacre_setup python
if [ "${1:-}" = --tflm ]; then
  shift
  python=$(nacre_environment_over venv-tflm "$NACRE_PYTHON" "$root/.ci/requirements-tflm.txt")
  exec "$python" "$here/tflm.py" --out "$NACRE_BUILD/bench/tflm" "$@"
fi
if [ -z "${NACRE_BIN:-}" ]; then
  nacre_setup packages cross
  nacre_setup_build "$NACRE_BUILD" nacre_tool nacre_exporter nacre_toolchain nacre
  NACRE_BIN=$NACRE_BUILD/bin/nacre
fi
"$NACRE_PYTHON" "$here/measure.py" --tool "$NACRE_BIN" --out "$NACRE_BUILD/bench/firmware" "$@"
