#!/bin/bash
# What MLPerf Tiny's networks need with as little memory as nacre finds, as a Markdown table. Each is compared with PyTorch by
# `nacre compile` before it counts.
#
#   tests/bench/memory.sh [TARGET]      default: x86-64-v3
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
# shellcheck source=../../.ci/setup.sh
source "$root/.ci/setup.sh"
nacre_setup python
target=${1:-x86-64-v3}
nacre=$NACRE_BUILD/bin/nacre
cases=$NACRE_CACHE/cases
names=(ds_cnn resnet8 mobilenet_v1_025 autoencoder)
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
for name in "${names[@]}"; do
  [ -e "$cases/$name/model.pt2" ] || "$NACRE_PYTHON" "$root/tests/models/export.py" --out "$cases" --only "$name" >&2
  "$nacre" compile "$cases/$name/model.pt2" -o "$scratch/$name.whole" --target "$target" >&2
  "$nacre" compile "$cases/$name/model.pt2" -o "$scratch/$name.least" --target "$target" --memory-limit least >&2
  for kind in whole least; do "$nacre" inspect "$scratch/$name.$kind" --json >"$scratch/$name.$kind.json"; done
done
"$NACRE_PYTHON" - "$scratch" "${names[@]}" <<'PYTHON'
import json
import math
import sys

TFLM = {"ds_cnn": 72400, "resnet8": 212256, "mobilenet_v1_025": 338096, "autoencoder": 6224}  # arena of tflite-micro, inputs and outputs in it


def figures(path):
    """Arena and scratch; inputs and outputs; operations."""
    entry = json.load(open(path))["entries"][0]
    variant, = entry["variants"]
    calls = [c for c in variant["program"] if c["command"] == "call"]
    scratch = max((c.get("scratch_bytes", 0) for c in calls), default=0)
    outside = sum(4 * math.prod(t["shape"]) for t in entry["inputs"] + entry["outputs"])
    return variant["arena_bytes"] + math.ceil(scratch / 64) * 64, outside, sum(c.get("flops", 0) for c in calls)


print("| | TFLM's arena | arena and scratch | with inputs and outputs | arithmetic |\n| --- | ---: | ---: | ---: | ---: |")
sums = [0, 0, 0]
failed = []
for name in sys.argv[2:]:
    (_, _, before), (least, outside, after) = (figures(f"{sys.argv[1]}/{name}.{kind}.json") for kind in ("whole", "least"))
    row = [TFLM[name], least, least + outside]
    sums = [a + b for a, b in zip(sums, row)]
    print(f"| {name} | " + " | ".join(f"{n:,}" for n in row) + f" | {after / before:.2f} |")
    if row[2] >= row[0]:
        failed.append(name)
print("| sum | " + " | ".join(f"{n:,}" for n in sums) + " | |")
if failed or sums[2] > 0.6 * sums[0]:
    sys.exit(f"more than TensorFlow Lite Micro needs, or than 60% of it in the sum: {failed}")
PYTHON
