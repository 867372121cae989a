// Start-up code, timer and interrupts of a 64-bit RISC-V board, in machine mode.
#include "board.h"

// From the linker script. Initialised variables lie behind the code and are copied to their place.
extern uint64_t data_start[], data_end[], data_in_flash[], bss_start[], bss_end[];

// The core-local interruptor of QEMU's `virt` board: a clock of 10 MHz, and the time at which it interrupts.
#define MTIMECMP (*(volatile uint64_t*)0x2004000)
#define MTIME (*(volatile uint64_t*)0x200BFF8)
enum { kClockHz = 10000000, kTimerInterrupt = 7, kMachineInterrupts = 8 };

static uint64_t timer_period;
static void (*timer_tick)(void);

uint64_t board_instructions(void) {
  uint64_t count;
  __asm__ volatile("csrr %0, mcycle" : "=r"(count));
  return count;
}

void board_start_timer(uint32_t period_us, void (*tick)(void)) {
  timer_period = (uint64_t)period_us * (kClockHz / 1000000);
  timer_tick = tick;
  MTIMECMP = MTIME + timer_period;
  __asm__ volatile("csrs mie, %0" ::"r"(1 << kTimerInterrupt));
  board_unmask_interrupts();
}

void board_mask_interrupts(void) { __asm__ volatile("csrci mstatus, %0" ::"i"(kMachineInterrupts) : "memory"); }
void board_unmask_interrupts(void) { __asm__ volatile("csrsi mstatus, %0" ::"i"(kMachineInterrupts) : "memory"); }
void board_sleep(void) { __asm__ volatile("wfi" ::: "memory"); }

__attribute__((interrupt("machine"), aligned(4))) static void trap(void) {
  uint64_t cause;
  __asm__ volatile("csrr %0, mcause" : "=r"(cause));
  if (cause != (1ull << 63 | kTimerInterrupt)) {
    print("fault\n");
    stop(2);
  }
  MTIMECMP += timer_period;
  timer_tick();
}

__attribute__((used, noreturn)) static void start(void) {
  const uint64_t* from = data_in_flash;
  for (uint64_t* to = data_start; to < data_end;) *to++ = *from++;
  for (uint64_t* to = bss_start; to < bss_end;) *to++ = 0;
  __asm__ volatile("csrw mtvec, %0" ::"r"(trap));
  stop(main());
}

// Sets the stack and turns on floating point and vectors (FS and VS of mstatus).
__attribute__((naked, used, section(".vectors"))) void reset(void) {
  __asm__ volatile(
      "la sp, stack_top\n"
      "li t0, 0x2200\n"
      "csrs mstatus, t0\n"
      "j start");
}
