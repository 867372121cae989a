// Start-up code, timer and interrupts of ARM Cortex-M boards.
#include "board.h"

// From the linker script. Initialised variables lie in flash behind the code and are copied to their place.
extern uint32_t data_start[], data_end[], data_in_flash[], bss_start[], bss_end[], stack_top[];

#define REGISTER(address) (*(volatile uint32_t*)(address))
#define SYST_CSR REGISTER(0xE000E010)    // SysTick: bit 0 counts, bit 1 interrupts, bit 2 takes the processor's clock
#define SYST_RVR REGISTER(0xE000E014)    // it counts down from here
#define SYST_CVR REGISTER(0xE000E018)    // to zero; a write starts again
#define SCB_ICSR REGISTER(0xE000ED04)    // bit 26: SysTick's interrupt is pending
#define SCB_CCR REGISTER(0xE000ED14)     // bit 19: low-overhead loops (ARMv8.1-M)
#define SCB_CPACR REGISTER(0xE000ED88)   // bits 20 to 23: the floating-point and vector unit

// The clock that SysTick counts, as QEMU's boards have it, and a tick's length. With -icount shift=0 a nanosecond is an
// instruction.
#if __ARM_ARCH >= 8
enum { kClockMhz = 32, kTickQuartersNs = 125 };
#else
enum { kClockMhz = 25, kTickQuartersNs = 160 };
#endif
enum { kLongest = 0x1000000 };  // SysTick has 24 bits

static volatile uint32_t periods;     // that SysTick has ended
static volatile uint64_t ticks_before; // of these periods
static void (*timer_tick)(void);

static void systick(void) {
  ticks_before += SYST_RVR + 1;
  ++periods;
  if (timer_tick) timer_tick();
}

static void start_systick(uint32_t ticks) {
  SYST_CSR = 0;
  SYST_RVR = ticks - 1;
  SYST_CVR = 0;
  SYST_CSR = 7;
}

void board_start_timer(uint32_t period_us, void (*tick)(void)) {
  board_mask_interrupts();
  ticks_before += SYST_RVR - SYST_CVR;
  timer_tick = tick;
  start_systick(kClockMhz * period_us);
  board_unmask_interrupts();
}

uint64_t board_instructions(void) {
  uint32_t period, left, pending;
  uint64_t ticks;
  do {
    period = periods;
    ticks = ticks_before;
    left = SYST_CVR;
    pending = SCB_ICSR & 1u << 26;
  } while (period != periods);
  if (pending) {  // with interrupts masked, the period that ended is not counted yet
    left = SYST_CVR;
    ticks += SYST_RVR + 1;
  }
  return (ticks + SYST_RVR - left) * kTickQuartersNs / 4;
}

void board_mask_interrupts(void) { __asm__ volatile("cpsid i" ::: "memory"); }
void board_unmask_interrupts(void) { __asm__ volatile("cpsie i" ::: "memory"); }
void board_sleep(void) { __asm__ volatile("dsb\nwfi" ::: "memory"); }

__attribute__((used, noreturn)) static void start(void) {
  const uint32_t* from = data_in_flash;
  for (uint32_t* to = data_start; to < data_end;) *to++ = *from++;
  for (uint32_t* to = bss_start; to < bss_end;) *to++ = 0;
  start_systick(kLongest);
  stop(main());
}

// Before any C function runs, since the compiler may use floating-point registers in it.
__attribute__((naked, noreturn)) void reset(void) {
  __asm__ volatile(
      "ldr r0, =0xE000ED88\n"  // CPACR
      "ldr r1, [r0]\n"
      "orr r1, r1, #0xF00000\n"
      "str r1, [r0]\n"
#if __ARM_ARCH >= 8
      "ldr r0, =0xE000ED14\n"  // CCR
      "ldr r1, [r0]\n"
      "orr r1, r1, #0x80000\n"
      "str r1, [r0]\n"
#endif
      "dsb\n"
      "isb\n"
      "b start\n"
      ".ltorg");
}

static void fault(void) {
  print("fault\n");
  stop(2);
}

__attribute__((used, section(".vectors"))) static const void* const vectors[16] = {
    stack_top, reset, fault, fault, fault, fault, fault, fault, 0, 0, 0, fault, fault, 0, fault, systick,
};
