#!/bin/bash
# From a PyTorch model to what an emulated board prints: installs what is missing, builds nacre, makes the model,
# compiles it for the board's processor, links it with start-up code and a main loop, and runs that under QEMU.
#
#   bash examples/firmware/run.sh [NETWORK] [--board BOARD]
#
# NETWORK   keyword (a trained keyword spotter listens to a sentence), or a reference network of MLPerf Tiny with random
#           weights: ds_cnn, resnet8, wake (visual wake words, mobilenet_v1_025), autoencoder
# BOARD     mps2-an386 (Cortex-M4), mps2-an500 (Cortex-M7), mps3-an547 (Cortex-M55), riscv64, riscv64-vector
#
# NACRE_BIN names a nacre command to take; then nothing is installed or built. FIRMWARE_FLAGS go to the compiler
# of the program, as -DFRAME_US=500: frames come faster than they can be worked on.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
# shellcheck source=../../.ci/setup.sh
source "$root/.ci/setup.sh"
# shellcheck source=board/build.sh
source "$root/examples/firmware/board/build.sh"

network=keyword
chosen=mps3-an547
while [ $# -gt 0 ]; do
  case $1 in
    --board) chosen=$2; shift 2 ;;
    keyword | ds_cnn | resnet8 | autoencoder) network=$1; shift ;;
    wake | mobilenet_v1_025) network=mobilenet_v1_025; shift ;;
    *) nacre_fail "'$1' is neither a network nor an option; the head of examples/firmware/run.sh names them" || exit 2 ;;
  esac
done
board_set "$chosen" || exit 2

nacre_setup python
if [ -z "${NACRE_BIN:-}" ]; then
  nacre_setup packages cross
  nacre_setup_build "$NACRE_BUILD" nacre_tool nacre_exporter nacre_toolchain nacre
  NACRE_BIN=$NACRE_BUILD/bin/nacre
fi
export PYTHONDONTWRITEBYTECODE=1

# The model and its samples are kept in the cache folder until the scripts that make them change.
model=$NACRE_CACHE/firmware/$network-$(nacre_hash "$firmware"/*.py "$root/tests/models/zoo.py")
if [ ! -e "$model/.complete" ]; then
  nacre_say "making the network $network"
  if [ "$network" = keyword ]; then
    "$NACRE_PYTHON" "$firmware/spotter.py" --out "$model"
  else
    "$NACRE_PYTHON" "$firmware/networks.py" --network "$network" --out "$model"
  fi
  touch "$model/.complete"
fi

out=$NACRE_BUILD/firmware/$network-$board
mkdir -p "$out"
ln -sfn "$model" "$out/model"
nacre_say "nacre compile model.pt2 --target $board_target --emit static -o network"
"$NACRE_BIN" compile "$model/model.pt2" --target "$board_target" --emit static -o "$out/network"
program=$firmware/classify.c
[ "$network" != keyword ] || program=$firmware/keyword.c
# shellcheck disable=SC2086  # flags are words
board_program "$out/firmware.elf" "$program" "$out/network.o" "-I$out" "-I$model" ${FIRMWARE_FLAGS:-}
llvm-size-19 "$out/firmware.elf"
nacre_say "${board_qemu[*]} -kernel firmware.elf"
board_run "$out/firmware.elf"
