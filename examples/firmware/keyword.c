// Spots words in a stream of audio features. A timer interrupt delivers a frame every 20 ms, as a microphone's would;
// the main loop sleeps until there is one, and runs the network on the last second after every tenth.
#include "network_memory.h"
#include "recording.h"  // written by spotter.py

enum {
  kStep = 10,     // frames between two runs of the network
  kWaiting = 8,   // frames that may wait while it runs
  kQuiet = 50,    // frames after a word in which no other is reported
  kSure = 60,     // percent, averaged over two runs, from which a word is reported
};

#ifndef FRAME_US
// QEMU executes an instruction a nanosecond, eight times what a board with 125 MHz does: so a frame comes eight times
// as often by the board's clock, and there is as little time as there.
#define FRAME_US (20000 / 8)
#endif

// The ring between the interrupt, which alone writes `arrived` and `lost`, and the main loop, which alone writes `taken`.
typedef struct {
  uint32_t number;
  float features[FEATURES];
} Frame;
static Frame ring[kWaiting];
static volatile uint32_t arrived, taken, lost;

static void frame_arrives(void) {
  static uint32_t number;
  if (number == FRAMES) return;
  if (arrived - taken == kWaiting) {
    ++lost;
  } else {
    Frame* frame = &ring[arrived % kWaiting];
    frame->number = number;
    for (int i = 0; i < FEATURES; ++i) frame->features[i] = recording[number][i];
    __asm__ volatile("" ::: "memory");  // the frame is there before it is counted
    ++arrived;
  }
  ++number;
}

static void wait_for_frame(void) {
  board_mask_interrupts();
  while (arrived == taken) {
    board_sleep();
    board_unmask_interrupts();
    board_mask_interrupts();
  }
  board_unmask_interrupts();
}

// The last second: frames up to the one before `next`, `held` of them without a gap.
static float window[WINDOW][FEATURES];
static uint32_t next, held;

static void take_frame(void) {
  const Frame* frame = &ring[taken % kWaiting];
  held = frame->number == next ? held + 1 : 1;
  next = frame->number + 1;
  for (int i = 0; i + 1 < WINDOW; ++i)
    for (int j = 0; j < FEATURES; ++j) window[i][j] = window[i + 1][j];
  for (int j = 0; j < FEATURES; ++j) window[WINDOW - 1][j] = frame->features[j];
  __asm__ volatile("" ::: "memory");  // it is read before its place is given back
  ++taken;
}

// The word of which this run and the one before are sure, or 0.
static uint32_t sure(const float* now, const float* before) {
  for (uint32_t i = FIRST_WORD; i < CLASSES; ++i)
    if ((now[i] + before[i]) * 50 >= kSure) return i;
  return 0;
}

int main(void) {
  static float scores[2][CLASSES];  // of this run and of the one before, by turns
  uint32_t runs = 0, reported = 0, instructions = 0, most_waiting = 0;
  float error = 0;
  print("listening on " BOARD "\n");
  bool good = report_memory(&window[0][0], scores[0]);
  board_start_timer(FRAME_US, frame_arrives);
  while (taken + lost < FRAMES) {
    wait_for_frame();
    if (arrived - taken > most_waiting) most_waiting = arrived - taken;
    take_frame();
    if (held < WINDOW || (next - WINDOW) % kStep) continue;

    float *now = scores[runs % 2], *before = scores[(runs + 1) % 2];
    const uint64_t start = board_instructions();
    if (network_run(arena, &window[0][0], now)) good = false;
    instructions = (uint32_t)(board_instructions() - start);
    ++runs;

    const uint32_t place = (next - WINDOW) / kStep;
    const float d = largest_difference(now, expected[place], CLASSES);
    if (d > error) error = d;
    if (d > limits[place]) good = false;

    const uint32_t word = held < WINDOW + kStep || (reported && next - reported < kQuiet) ? 0 : sure(now, before);
    if (word) {
      reported = next;
      print_seconds(next * 20);
      print("  ");
      print(words[word]);
      print("\n");
    }
  }
  print_number(runs);
  print(" inferences of ");
  print_number(instructions);
  print(" instructions; ");
  print_number(FRAMES);
  print(" frames, ");
  print_number(lost);
  print(" lost, at most ");
  print_number(most_waiting);
  print(" waiting; largest error ");
  print_scientific(error);
  print(good ? "\nas PyTorch\n" : "\ndiffers from PyTorch, or takes more memory than stated\n");
  return !good;
}
