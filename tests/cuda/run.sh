#!/bin/bash
# run.sh PACKS [options of run_cases]: cases that `nacre verify --pack` has written, on the GPU of this machine. 77: there is none.
set -euo pipefail
root=$(cd "$(dirname "$0")/../.." && pwd)
packs=$1
shift
if ! ls /dev/nvidia0 /dev/nvhost-gpu >/dev/null 2>&1 && ! ldconfig -p | grep -q libcuda.so.1; then
  echo "skipped: no GPU and no driver here"
  exit 77
fi
build=${NACRE_CUDA_BUILD:-$root/build-cuda}
cmake -S "$root" -B "$build" -DNACRE_HOST=OFF -DNACRE_TESTS=OFF -DNACRE_CUDA=ON -DCMAKE_BUILD_TYPE=Release >/dev/null
cmake --build "$build" --target nacre_cuda_static >/dev/null
cc -std=gnu11 -O2 -I"$root" -I"$root/runtime/include" "$root/tests/cuda/run_cases.c" "$build/lib/libnacre_cuda.a" -ldl -lm -lpthread -o "$build/run_cases"
"$build/run_cases" --repeat 50 "$@" "$packs"/*
