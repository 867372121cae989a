# shellcheck shell=bash disable=SC2034  # others use these variables
# Sourced: builds a program for a board with clang and lld, and runs it under QEMU.
# It needs no C library and no cross compiler; `board_set` knows what differs between boards.

firmware=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
boards="mps2-an386 mps2-an500 mps3-an547 riscv64 riscv64-vector"

# board_set BOARD: the variables board_target (of `nacre compile`), board_flags (of clang; board_vector is a further one for
# code that no interrupt runs), board_memory and board_qemu.
board_set() {
  board=$1 board_vector=
  case $board in
    mps2-an386)
      board_target=cortex-m4 board_memory=mps2.ld
      board_flags=(--target=thumbv7em-none-eabihf -mcpu=cortex-m4 -mfpu=fpv4-sp-d16) ;;
    mps2-an500)
      board_target=cortex-m7 board_memory=mps2.ld
      board_flags=(--target=thumbv7em-none-eabihf -mcpu=cortex-m7 -mfpu=fpv5-d16) ;;
    mps3-an547)
      board_target=cortex-m55 board_memory=mps3-an547.ld
      board_flags=(--target=thumbv8.1m.main-none-eabihf -mcpu=cortex-m55) ;;
    riscv64 | riscv64-vector) # an interrupt keeps no vector registers, so only the network may use them
      board_target=rv64gc board_memory=riscv64.ld
      board_flags=(--target=riscv64-none-elf -march=rv64gc -mabi=lp64d -mcmodel=medany -mno-relax)
      [ "$board" = riscv64 ] || board_target=rv64gcv board_vector=-march=rv64gcv ;;
    *)
      echo "no board '$board'; there are: $boards" >&2
      return 1 ;;
  esac
  case $board in
    mps*) board_qemu=(qemu-system-arm -M "$board") ;;
    riscv64) board_qemu=(qemu-system-riscv64 -M virt -bios none) ;;
    riscv64-vector) board_qemu=(qemu-system-riscv64 -M virt -bios none -cpu "rv64,v=true,vext_spec=v1.0") ;;
  esac
}

# board_compile OUT FILE.c [FLAG ...]: one file, for size.
board_compile() {
  local out=$1 file=$2
  shift 2
  clang-19 "${board_flags[@]}" -Os -std=c11 -ffreestanding -fno-builtin -ffunction-sections -fdata-sections \
    -Wall -Wextra -Werror "-DBOARD=\"$board\"" "$@" -c "$file" -o "$out"
}

# board_program ELF PROGRAM.c NETWORK_OBJECT [FLAG ...]: start-up code, the program and the network.
board_program() {
  local elf=$1 program=$2 network=$3 file objects=() family=cortex_m
  shift 3
  case $board in riscv64*) family=riscv64 ;; esac
  for file in "$firmware/board/"{"$family",print,stack,memory}.c "$program"; do
    objects+=("${elf%.elf}-$(basename "$file" .c).o")
    board_compile "${objects[-1]}" "$file" "-I$firmware" "$@" || return 1
  done
  ld.lld-19 --gc-sections -L "$firmware/board" -T "$board_memory" "${objects[@]}" "$network" -o "$elf"
}

# board_run ELF: one instruction a nanosecond of the board's clock, which jumps while the processor sleeps. QEMU writes what
# the program prints to its error output.
board_run() {
  timeout "${BOARD_TIMEOUT:-300}" "${board_qemu[@]}" -nographic -monitor none -serial none -icount shift=0,sleep=off \
    -semihosting-config enable=on,target=native -kernel "$1" </dev/null 2>&1
}
