#!/bin/bash
# Measures nacre beside its peers on the model zoo and writes a table.
#
#   bash tests/bench/run.sh [--models a,b] [--peers eager,nacre,onnxruntime,openvino] [--threads 1,2] [--out FILE.json] ...
#
# The table is FILE.md beside FILE.json (default: build/bench/results.json). Programs and artifacts are kept in the
# user's cache folder; peers other than eager and nacre are installed when --peers names them. README.md says how it
# measures. Every further option goes to measure.py.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
# shellcheck source=../../.ci/setup.sh
source "$root/.ci/setup.sh"
nacre_setup packages python
if [ -z "${NACRE_BIN:-}" ]; then
  nacre_setup_build "$NACRE_BUILD" nacre_tool nacre_exporter nacre_toolchain nacre
  NACRE_BIN=$NACRE_BUILD/bin/nacre
fi
peers=eager,nacre
out=$NACRE_BUILD/bench/results.json
rest=()
while [ $# -gt 0 ]; do
  case $1 in
    --peers) peers=$2; shift 2 ;;
    --out) out=$2; shift 2 ;;
    *) rest+=("$1"); shift ;;
  esac
done
python=$NACRE_PYTHON
case ,$peers, in
  *,onnxruntime,* | *,openvino,*)
    python=$(nacre_environment_over venv-peers "$python" "$root/.ci/requirements-peers.txt")
    ;;
esac
export NACRE_BIN PYTHONDONTWRITEBYTECODE=1 BENCH_BUILD=${BENCH_BUILD:-$NACRE_CACHE/bench}
mkdir -p "$(dirname "$out")" "$BENCH_BUILD"
"$python" "$root/tests/bench/measure.py" --peers "$peers" --out "$out" "${rest[@]}"
echo "table: ${out%.json}.md"
