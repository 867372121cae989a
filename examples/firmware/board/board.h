// What the programs need of a board. cortex_m.c and riscv64.c provide it for two families of processors.
#ifndef BOARD_H
#define BOARD_H

#include <stdbool.h>
#include <stdint.h>

int main(void);  // called by the start-up code; what it returns becomes QEMU's exit status

// Instructions executed so far, as QEMU's -icount shift=0 counts them. Cortex-M counts in steps of a SysTick tick
// (40 or 31 instructions), RISC-V exactly.
uint64_t board_instructions(void);

// Calls `tick` from an interrupt every `period_us` microseconds, at most half a second, from now on.
void board_start_timer(uint32_t period_us, void (*tick)(void));

// Between mask and unmask no interrupt is taken. Sleep returns at once where one is pending, even if it is masked:
// what the program tests between mask and sleep cannot change unseen.
void board_mask_interrupts(void);
void board_unmask_interrupts(void);
void board_sleep(void);

// The stack grows down from the end of memory to `stack_limit` (the linker script).
extern uint32_t stack_limit[];
static inline uintptr_t stack_pointer(void) {
  uintptr_t pointer;
#ifdef __arm__
  __asm__ volatile("mov %0, sp" : "=r"(pointer));
#else
  __asm__ volatile("mv %0, sp" : "=r"(pointer));
#endif
  return pointer;
}

// How many bytes of stack `call` takes: paints what lies below, runs it, and looks how far the paint is gone. Mask
// interrupts meanwhile, or their frames are measured too.
#define STACK_USED(call) (stack_paint(), (call), stack_used(stack_pointer()))
void stack_paint(void);
uint32_t stack_used(uintptr_t top);

// Output through the debugger (semihosting), which QEMU writes to the terminal.
void print(const char* text);
void print_number(uint32_t number);
void print_scientific(float value);   // 1.2e-07
void print_seconds(uint32_t time_ms); // 1.23 s
_Noreturn void stop(int status);

#endif
