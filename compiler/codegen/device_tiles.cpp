#include "compiler/codegen/device_tiles.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <vector>

namespace nacre {

namespace {

constexpr int kDepth = 64;          // terms of a step
constexpr int64_t kManySteps = 16;
constexpr int kCounters = 4096;     // NACRE_DEVICE_COUNTERS: tiles whose parts go through scratch

struct Shape {
  int rows, columns, warps_m, warps_n;
};

// In cycles, of one multiprocessor where it says so; measured on an H200.
struct Machine {
  int multiprocessors = 132;
  int shared_bytes = 132 * 1024, most_shared = 200 * 1024;  // of a multiprocessor, as the runtime divides it; of a block whose stages can be fewer
  int block_shared = 227 * 1024;                            // of a block, at most
  int mapped_shared = 228 * 1024;                           // of a multiprocessor, where kernels take all of it
  double products = 1050, products_alone = 336;   // multiply-adds a cycle: of four warps together, of each alone
  // Without tensor cores: multiply-adds a cycle; a step's own; and what blocks of a multiprocessor hide of each other.
  double exact_products = 128 * 0.8, exact_round = 290, exact_latency = 600;
  double memory_rate = 43, all_memory = 3720;     // bytes a cycle from the second-level cache: of one, and of all
  double latency = 557;                           // from the request to the data
  double round = 242;                             // a step's own, whatever its size
  double begin = 3076, again = 2046;              // of a kernel, and of blocks that wait for the first ones to end
  double operation = 2;                           // on a result, by one thread
  double part = 500, parts = 760, part_element = 17;  // results of several blocks become one
};

Machine machine_of(const Target& target) {
  Machine machine;
  if (target.compute_capability >= 90 && target.compute_capability < 110) return machine;
  machine.multiprocessors = target.compute_capability >= 110 ? 20 : 16;
  machine.shared_bytes = 164 * 1024;
  machine.most_shared = 80 * 1024;
  if (target.compute_capability < 90) machine.block_shared = 163 * 1024;
  machine.memory_rate = 32;
  machine.all_memory = 512;
  return machine;
}

int64_t ceiling(int64_t a, int64_t b) { return (a + b - 1) / b; }

bool is_wide(const Shape& shape, const HalfProduct& product, const Target& target) {
  return target.compute_capability == 90 && product.factors != Factors::exact && !product.b_along_n && !product.elements && shape.rows % 64 == 0 && shape.warps_m * 16 == shape.rows && shape.warps_n == 1;
}

// What a thread has without tensor cores: results, and their operands.
struct Own {
  int rows, columns;
  explicit Own(const Shape& shape) : rows(shape.rows / shape.warps_m / 4), columns(shape.columns / shape.warps_n / 8) {}
  int registers() const { return 40 + 2 * rows * columns + 4 * columns + 4; }
  // Of all instructions, the part that multiplies: the others read pieces of 4 terms, and compute where they are.
  double part() const { return 4.0 * rows * columns / (4.0 * rows * columns + 2.0 * (rows + columns)); }
};

// Blocks of a multiprocessor at the same time.
double resident_blocks(const HalfProduct& product, const Shape& shape, const HalfTileChoice& tile, const Machine& machine) {
  const int threads = 32 * shape.warps_m * shape.warps_n, registers = product.factors == Factors::exact ? Own(shape).registers() : 80;
  return std::floor(std::max(1.0, std::min({double(machine.shared_bytes) / (tile.shared_bytes + 1024), 2048.0 / threads, 65536.0 / (threads * registers)})));
}

double cost(const HalfProduct& product, const Shape& shape, const HalfTileChoice& tile, bool wide, const Machine& machine) {
  const double steps = static_cast<double>(ceiling(ceiling(product.k, kDepth), tile.splits));
  const double blocks = static_cast<double>(product.batches * ceiling(product.m, shape.rows) * ceiling(product.n, shape.columns) * tile.splits);
  const double busy = std::min<double>(blocks, machine.multiprocessors), each = std::ceil(blocks / machine.multiprocessors);
  const int threads = 32 * shape.warps_m * shape.warps_n;
  const bool exact = product.factors == Factors::exact;
  // Of float32, a term counts as two.
  const double rate = exact ? 2 * machine.exact_products * Own(shape).part() : wide ? machine.products : machine.products_alone;
  const double multiply = double{1} * shape.rows * shape.columns * kDepth / rate + (exact ? machine.exact_round : 0);
  const double bytes = (shape.rows + shape.columns) * 128.0;
  const double memory = bytes / std::min(machine.memory_rate, machine.all_memory / busy);
  const double work = std::max(multiply, memory);
  const double alone = exact ? work + machine.exact_latency
                             : std::max(work, machine.round + machine.latency / std::max(1.0, std::min<double>(tile.stages - (wide ? 2 : 1), steps)));
  const double rounds = std::ceil(each / resident_blocks(product, shape, tile, machine));
  const double loop = std::max(each * steps * work, rounds * steps * alone) + (rounds - 1) * machine.again;
  const double own = double{1} * shape.rows * shape.columns / tile.splits / threads;
  const double results = each * own * (product.epilogue + 1) * machine.operation;
  return machine.begin + loop + results + (tile.splits > 1 ? machine.parts + machine.part * tile.splits + machine.part_element * own : 0);
}

struct Tried {
  double took;
  HalfTileChoice tile;
};

// The best of them, unless there is another answer: of each way to cut the product the depth that costs least, if it may still be the fastest.
HalfTileChoice answered(std::vector<Tried> tried, const HalfProduct& product, const Target& target) {
  constexpr size_t kMost = 6;
  constexpr double kHopeless = 1.5;
  std::stable_sort(tried.begin(), tried.end(), [](const Tried& a, const Tried& b) { return a.took < b.took; });
  std::vector<HalfTileChoice> tiles;
  std::vector<std::string> choices;
  for (const auto& [took, tile] : tried) {
    const auto same = [&, &tile = tile](const HalfTileChoice& other) {
      return other.rows == tile.rows && other.columns == tile.columns && other.warps_m == tile.warps_m && other.warps_n == tile.warps_n && other.splits == tile.splits && other.resident == tile.resident;
    };
    if (tiles.size() == kMost || took > kHopeless * tried[0].took || std::any_of(tiles.begin(), tiles.end(), same)) continue;
    tiles.push_back(tile);
    choices.push_back(fmt::format("{}x{}, warps {}x{}, stages {}, splits {}{}", tile.rows, tile.columns, tile.warps_m, tile.warps_n, tile.stages, tile.splits, tile.resident ? fmt::format(", resident {}", tile.resident) : ""));
  }
  return tiles.at(target.choose(question_of(product), choices));
}

// Tiles that the copy engine brings, by whole blocks that stay. Warpgroups of 64 rows; so many blocks of a multiprocessor.
struct Mapped {
  int warpgroups, columns, resident;
};

struct MappedMachine {
  double products = 1700, shared_rate = 112;       // multiply-adds a cycle; bytes of its memory
  double memory_rate = 52, all_memory = 5800;      // bytes a cycle from the second-level cache: of one multiprocessor, and of all
  double results_rate = 87, all_results = 2300;    // of results, and of what they are added to
  double latency = 680, round = 55;                // from the request to the data; a step's own
  double begin = 3300;
  double result = 13, operation = 2, read = 20;    // of one thread for each of its results
  double beside = 1.3, after = 1.2;                // results while other blocks multiply, and between the tiles of one
  double share = 590, share_element = 7.6;         // blocks of a cluster
};

double cost(const HalfProduct& product, const Mapped& shape, const HalfTileChoice& tile, const Machine& machine) {
  static constexpr MappedMachine own;
  const double steps = static_cast<double>(ceiling(ceiling(product.k, kDepth), tile.splits));
  const double blocks = static_cast<double>(product.batches * ceiling(product.m, tile.rows) * ceiling(product.n, tile.columns) * tile.splits);
  const double busy = std::min<double>(blocks, machine.multiprocessors), beside = std::min<double>(shape.resident, std::ceil(blocks / machine.multiprocessors));
  const double each = std::ceil(blocks / (machine.multiprocessors * shape.resident));
  const double bytes = 128.0 * (tile.rows + tile.columns), reread = 128.0 * (tile.rows + tile.columns * shape.warpgroups);
  const double multiply = std::max({double{1} * tile.rows * tile.columns * kDepth / own.products, (bytes + reread) / own.shared_rate, bytes / std::min(own.memory_rate, own.all_memory / busy)});
  const double alone = std::max(multiply, own.round + own.latency / std::max(1.0, std::min<double>(tile.stages - 2, steps)));
  const double loop = steps * std::max(beside * multiply, alone);
  const double mine = tile.columns / 2.0;  // results of a thread
  const double written = 2.0 * tile.rows * tile.columns / tile.splits * (1 + product.reads) / std::min(own.results_rate, own.all_results / busy);
  const double results = std::max(written, mine / tile.splits * (own.result + own.operation * product.epilogue + own.read * product.reads));
  const double once = beside == 1 ? loop + results : std::max(loop + results, beside * std::max(steps * multiply, results * own.beside));
  const double again = beside == 1 ? loop + results * own.after : once;
  return own.begin + once + (each - 1) * again + (tile.splits > 1 ? own.share * tile.splits + own.share_element * mine * (tile.splits - 1) / tile.splits : 0);
}

std::vector<Tried> mapped_tiles(const HalfProduct& product, const Machine& machine) {
  static constexpr Mapped kTiles[] = {{2, 256, 1}, {2, 192, 1}, {3, 128, 1}, {2, 128, 1}, {2, 128, 2}, {2, 96, 1}, {4, 64, 1}, {2, 64, 2}, {2, 64, 1}, {1, 128, 2}, {1, 128, 1}, {1, 64, 2}};
  const int64_t steps = ceiling(product.k, kDepth);
  std::vector<Tried> tried;
  for (const Mapped& shape : kTiles)
    for (int splits = 1; splits <= 4 && splits <= steps && shape.columns % (32 * splits) == 0; splits *= 2) {
      HalfTileChoice tile{64 * shape.warpgroups, shape.columns, 4 * shape.warpgroups, 1, 0, splits, 0, shape.resident};
      const int stage = (tile.rows + tile.columns) * 128, shared = tile.rows * tile.columns * 4 / splits * (splits - 1) + 1024;
      const int64_t tiles = product.batches * ceiling(product.m, tile.rows) * ceiling(product.n, tile.columns);
      if (splits > 1 && tiles * splits > int64_t{machine.multiprocessors} * shape.resident) break;
      // As many stages as are of use; in all of a multiprocessor's memory only where few have room in what kernels side by side divide.
      int stages = (machine.shared_bytes / shape.resident - 2048 - shared) / stage;
      if (stages < 5) stages = (machine.mapped_shared / shape.resident - 2048 - shared) / stage;
      tile.stages = static_cast<int>(std::clamp<int64_t>(ceiling(steps, splits), 2, std::min(stages, 7)));
      if (stages < 3) continue;
      tile.shared_bytes = tile.stages * stage + shared;
      tried.push_back({cost(product, shape, tile, machine), tile});
    }
  return tried;
}

}  // namespace

std::string question_of(const HalfProduct& product) {
  return fmt::format("{} product {}x{}x{}x{}{}{}{}, epilogue {}", product.factors == Factors::tf32 ? "tf32" : product.factors == Factors::exact ? "float32" : "half", product.batches, product.m, product.n, product.k, product.b_along_n ? ", b along n" : "",
                     product.elements ? ", by elements" : "", product.mapped ? ", by maps" : "", product.epilogue);
}

int multiprocessors_of(const Target& target) { return machine_of(target).multiprocessors; }
int block_shared_of(const Target& target) { return machine_of(target).block_shared; }

HalfTileChoice choose_half_tile(const HalfProduct& product, const Target& target) {
  static constexpr Shape kWide[] = {{64, 32, 4, 1}, {64, 64, 4, 1}, {64, 128, 4, 1}, {128, 64, 8, 1}, {128, 128, 8, 1}, {128, 256, 8, 1}};
  static constexpr Shape kAny[] = {{16, 64, 1, 4}, {32, 64, 2, 2}, {64, 32, 2, 2}, {64, 64, 2, 2}, {128, 64, 4, 2}, {128, 128, 2, 4}};
  static constexpr Shape kExact[] = {{16, 64, 1, 4}, {32, 32, 2, 2}, {32, 64, 2, 2}, {64, 32, 2, 2}, {64, 64, 2, 2}, {64, 128, 2, 2}, {128, 64, 4, 2}, {128, 128, 4, 2}};
  const Machine machine = machine_of(target);
  if (product.mapped) return answered(mapped_tiles(product, machine), product, target);
  const bool clusters = target.compute_capability >= 90;
  const int64_t steps = ceiling(product.k, kDepth);
  std::vector<Tried> tried;
  const auto consider = [&](const Shape& shape) {
    // A thread has what it reads one by one in registers until the stage is free.
    if (product.elements && (shape.rows + shape.columns) / (shape.warps_m * shape.warps_n) > 32) return;
    const bool wide = is_wide(shape, product, target);
    const int64_t tiles = product.batches * ceiling(product.m, shape.rows) * ceiling(product.n, shape.columns);
    // The largest tile leaves a multiprocessor to one block: that pays where there is much to multiply.
    const bool largest = shape.rows * shape.columns > 128 * 128;
    if (largest && (steps < kManySteps || tiles < machine.multiprocessors)) return;
    for (int splits = 1; splits <= (largest ? 1 : clusters ? 8 : 16) && splits <= steps; splits *= 2) {
      if (splits > 1 && !clusters && (!product.sized || tiles > kCounters)) break;
      if (shape.rows / splits < 4) break;
      const int b_bytes = product.b_along_n ? (shape.columns + 8) * 128 : shape.columns * 128, stage = shape.rows * 128 + b_bytes, lag = wide ? 2 : 1;
      // As deep as there are steps, or so that more blocks have room.
      const int deepest = static_cast<int>(std::clamp<int64_t>(ceiling(steps, splits) + 1, lag + 1, std::clamp((machine.most_shared - 1024) / stage, lag + 1, product.elements ? 2 : 6)));
      for (int stages = deepest; stages > lag; --stages) {
        const int shared_bytes = std::max(stages * stage, shape.rows * (shape.columns + 8) * 4) + 1024;
        const HalfTileChoice tile{shape.rows, shape.columns, shape.warps_m, shape.warps_n, stages, splits, shared_bytes};
        // Blocks share a tile where there are multiprocessors left for them: a cluster that waits for room costs more than it saves.
        if (splits > 1 && static_cast<double>(tiles * splits) > machine.multiprocessors * resident_blocks(product, shape, tile, machine)) continue;
        tried.push_back({cost(product, shape, tile, wide, machine), tile});
      }
    }
  };
  if (product.factors == Factors::exact)
    for (const Shape& shape : kExact) consider(shape);
  else
    for (const Shape& shape : kAny) consider(shape);
  if (target.compute_capability == 90 && product.factors != Factors::exact && !product.b_along_n && !product.elements)
    for (const Shape& shape : kWide) consider(shape);
  return answered(std::move(tried), product, target);
}

}  // namespace nacre
