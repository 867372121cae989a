#!/bin/bash
# Takes real pretrained models through the whole pipeline: installs what is missing, builds, exports, compiles, runs
# in the C runtime, and compares with PyTorch. A second call only does what is not done yet.
#
#   bash examples/quickstart.sh [--threads N]
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
# shellcheck source=../.ci/setup.sh
source "$root/.ci/setup.sh"

nacre_setup packages python
nacre_setup_build "$NACRE_BUILD" nacre_tool nacre_exporter nacre_toolchain nacre
export PYTHONDONTWRITEBYTECODE=1
for example in sentences faces; do
  printf '\n'
  "$NACRE_PYTHON" "$root/examples/quickstart/$example.py" \
    --tool "$NACRE_BUILD/bin/nacre" --library "$NACRE_BUILD/lib/libnacre.so" --out "$NACRE_BUILD/quickstart" "$@"
done
