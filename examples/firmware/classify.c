// Runs a network on samples. A timer interrupt asks for one inference after the other, whether or not the one before is
// done; the main loop sleeps until there is a request, and answers them in order.
#include "network_memory.h"
#include "samples.h"  // written by networks.py

enum { kRequestUs = 1000 };

static volatile uint32_t requested;  // the interrupt alone writes it

static void request(void) {
  if (requested < SAMPLES) ++requested;
}

static void wait_for_request(uint32_t answered) {
  board_mask_interrupts();
  while (requested == answered) {
    board_sleep();
    board_unmask_interrupts();
    board_mask_interrupts();
  }
  board_unmask_interrupts();
}

static uint32_t largest(const float* values) {
  uint32_t best = 0;
  for (uint32_t i = 1; i < OUTPUTS; ++i)
    if (values[i] > values[best]) best = i;
  return best;
}

// Whether the result for sample `i` is PyTorch's.
static bool answer(uint32_t i) {
  static float output[OUTPUTS];
  const uint64_t start = board_instructions();
  const int status = network_run(arena, samples[i], output);
  const uint32_t instructions = (uint32_t)(board_instructions() - start);
  const uint32_t found = largest(output);
  const float error = largest_difference(output, expected[i], OUTPUTS);
  print("  sample ");
  print_number(i);
  print(": class ");
  print_number(found);
  print(", PyTorch's ");
  print_number(classes[i]);
  print("; error ");
  print_scientific(error);
  print(", limit ");
  print_scientific(limits[i]);
  print("; ");
  print_number(instructions);
  print(" instructions, ");
  print_number(requested - i - 1);
  print(" waiting\n");
  return status == 0 && found == classes[i] && error <= limits[i];
}

int main(void) {
  static float output[OUTPUTS];
  print(NAME " on " BOARD "\n");
  bool good = report_memory(samples[0], output);
  board_start_timer(kRequestUs, request);
  for (uint32_t i = 0; i < SAMPLES; ++i) {
    wait_for_request(i);
    if (!answer(i)) good = false;
  }
  print(good ? "as PyTorch\n" : "differs from PyTorch, or takes more memory than stated\n");
  return !good;
}
