#include "compiler/codegen/device.h"

#include <algorithm>

#include "compiler/codegen/cpp.h"
#include "compiler/codegen/device_rows.h"
#include "compiler/codegen/nest.h"
#include "compiler/loops/address.h"
#include "compiler/loops/code.h"
#include "compiler/support/error.h"

namespace nacre {

namespace {

constexpr int kBlock = 256;             // threads of a block, mostly
constexpr int64_t kManyPoints = 8192;   // keep a device busy with a thread each
constexpr int64_t kEnoughThreads = 24000;
constexpr int64_t kFewTeams = 256;
constexpr int64_t kManyRows = 1024;
constexpr int64_t kSharedBytes = 32768; // of a block's local buffers
constexpr int64_t kPrivateElements = 32; // of a thread's
constexpr int64_t kMostBlocks = int64_t{1} << 20;

// Threads that share what is to be done `length` times.
int width_for(int64_t length) { return length <= 8 ? 1 : length <= 512 ? 32 : length <= 8192 ? kBlock : 1024; }

class Emitter {
 public:
  Emitter(KernelContext& context, const SymbolNodes& nodes) : k_(context), nodes_(nodes), facts_(facts_in(k_.program, k_.group, Nest{})) {}

  KernelSource emit() {
    const Group& group = k_.group;
    if (group.rows) {
      launch_ = emit_device_rows(k_);
    } else if (group.contraction) {
      launch_ = is_recurrent(group.contraction->kind) ? emit_device_recurrent(k_) : emit_device_product(k_);
    } else if (group.serial) {
      serial();
    } else if (matrix_vector()) {
    } else if (!group.outer.empty()) {
      outer();
    } else if (group.nests.size() == 1) {
      alone();
    } else if (nests_are_apart()) {
      beside();
    } else {
      in_one_block();
    }
    finish();
    return std::move(k_.kernel);
  }

 private:
  int64_t typical_of(const Expr& e) const { return typical(e, k_.program.symbols); }

  void serial() {
    launch_.threads = 1;
    k_.out.line("const Team<1> team;");
    place_locals(1);
    for (const LoopVar& loop : k_.group.outer) k_.out.open("for (isize {0} = 0; {0} < {1}; ++{0}) {{", loop.name, cpp(loop.extent, facts_));
    for (const Nest& nest : k_.group.nests) {
      k_.out.open("{{");
      NestEmitter(k_, nest, k_.group.outer).emit(false);
      k_.out.close();
    }
    for (size_t i = 0; i < k_.group.outer.size(); ++i) k_.out.close();
  }

  // A product with a vector, which each block may have to make first, for itself.
  bool matrix_vector() {
    const Group& group = k_.group;
    if (std::any_of(group.outer.begin(), group.outer.end(), [](const LoopVar& loop) { return !loop.extent.is(1); })) return false;
    std::set<BufferId> locals;
    for (size_t i = 0; i + 1 < group.nests.size(); ++i)
      for (const Store& s : group.nests[i].stores) {
        if (k_.program[s.buffer].kind != BufferKind::local) return false;
        locals.insert(s.buffer);
      }
    NestEmitter nest(k_, group.nests.back(), group.outer);
    nest.prepare_device();
    const auto product = nest.matrix_vector();
    if (!product || std::any_of(group.nests.back().stores.begin(), group.nests.back().stores.end(), [&](const Store& s) { return locals.contains(s.buffer); })) return false;
    const GemvTile tile = choose_gemv_tile(product->rows, product->terms, product->each, k_.target);
    launch_.threads = 32 * tile.warps * tile.beside;
    launch_.blocks = tile.blocks;
    launch_.shared_bytes = tile.shared_bytes;
    launch_.awaits = true;
    nest.emit_matrix_vector(*product, tile, [&] {
      for (const LoopVar& loop : group.outer) k_.out.line("[[maybe_unused]] constexpr isize {} = 0;", loop.name);
      if (group.nests.size() < 2) return;
      k_.out.line("const Team<{}> team;", launch_.threads);
      place_locals(launch_.threads);
      for (size_t i = 0; i + 1 < group.nests.size(); ++i) in_team(group.nests[i], launch_.threads, group.outer);
    });
    return true;
  }

  // How the points of a nest's own loops are spread: over teams of so many threads, several neighbours at a time or not.
  struct Spread {
    int width = 1;
    Expr points;
    bool pieces = false;
  };

  Spread spread_of(NestEmitter& nest, const Nest& of) const {
    Spread spread{1, nest.kept_points(), false};
    if (nest.reduces_in_pieces()) {
      const int64_t pieces = typical_of(nest.reduced_points()) / 8;
      spread.width = pieces <= 256 ? 32 : pieces <= 2048 ? kBlock : 1024;
      return spread;
    }
    // Few long sums are better off with a block each.
    if (!nest.piece_loop().empty() && (typical_of(spread.points) >= 128 || typical_of(nest.reduced_points()) < 2048)) {
      const int64_t terms = typical_of(nest.reduced_points()), pieces = typical_of(spread.points) / 8;
      if (pieces < kManyPoints / 4 && terms >= 32) spread.width = terms <= 256 ? 32 : terms <= 4096 ? kBlock : 1024;
      spread.points = simplify(floordiv(spread.points, spread.width == 1 ? nest.choose_lanes(kEnoughThreads) : 8), facts_);
      spread.pieces = true;
      return spread;
    }
    if (nest.scans())
      spread.points = floordiv(spread.points, imax_one(of.loops.back().extent));
    else if (nest.reads_in_rows() || typical_of(spread.points) < kManyPoints)
      spread.width = width_for(typical_of(nest.reduced_points()));
    // Points of few terms are better off with a thread each where there are enough of them.
    if (spread.width == 32 && typical_of(spread.points) >= 64 * kManyPoints && typical_of(nest.reduced_points()) < 32) spread.width = 1;
    return spread;
  }

  // A lone nest whose own loops are spread.
  void alone() {
    NestEmitter nest(k_, k_.group.nests[0], {});
    nest.prepare_device();
    const Spread spread = spread_of(nest, k_.group.nests[0]);
    team(spread.width, spread.points);
    nest.emit_over_grid(spread.width, spread.pieces);
  }

  // Whether no nest has anything to do with what another one writes.
  bool nests_are_apart() const {
    const auto& nests = k_.group.nests;
    for (size_t i = 0; i < nests.size(); ++i)
      for (const Store& s : nests[i].stores) {
        if (k_.program[s.buffer].kind == BufferKind::local) return false;
        for (size_t j = 0; j < nests.size(); ++j) {
          if (j == i) continue;
          for (const Scalar& read : nests[j].code)
            if (read.op == ScalarOp::load && read.buffer == s.buffer) return false;
          for (const Store& other : nests[j].stores)
            if (other.buffer == s.buffer && !stores_are_apart(facts_in(k_.program, k_.group, nests[i]), s, facts_in(k_.program, k_.group, nests[j]), other)) return false;
        }
      }
    return true;
  }

  // Nests side by side: each has some of the blocks.
  void beside() {
    launch_.threads = kBlock;
    Expr first = 0;
    for (size_t i = 0; i < k_.group.nests.size(); ++i) {
      NestEmitter nest(k_, k_.group.nests[i], {});
      nest.prepare_device();
      Spread spread = spread_of(nest, k_.group.nests[i]);
      spread.width = std::min(spread.width, kBlock);
      const Expr blocks = simplify(min(max(ceildiv(spread.points, kBlock / spread.width), Expr(1)), Expr(kMostBlocks)), facts_), end = simplify(first + blocks, facts_);
      if (i + 1 < k_.group.nests.size())
        k_.out.open("{}if (blockIdx.x < {}) {{", i == 0 ? "" : "} else ", cpp(end, facts_));
      else
        k_.out.open("}} else {{");
      k_.out.line("const TeamOfSome<{}> team({}, {});", spread.width, cpp(first, facts_), cpp(blocks, facts_));
      nest.emit_over_grid(spread.width, spread.pieces);
      k_.out.out();
      first = end;
    }
    k_.out.line("}}");
    launch_.blocks = first;
  }

  static Expr imax_one(const Expr& e) { return max(e, Expr(1)); }

  void outer() {
    const Expr total = simplify(points_of(k_.group.outer), facts_);
    int64_t longest = 1, most = 1;
    bool scans = false, pieces = true;
    for (const Nest& n : k_.group.nests) {
      NestEmitter nest(k_, n, k_.group.outer);
      longest = std::max(longest, nest.work());
      const int64_t all = typical_of(nest.kept_points() * nest.reduced_points());
      most = std::max(most, all);
      pieces = pieces && (all < 64 || nest.work() <= all / 8);
      scans = scans || nest.scans();
    }
    // Few teams leave a device idle: each has as many threads as it can use.
    int width = scans ? 1 : width_for(longest);
    if (pieces && !scans && longest > 8) {
      width = longest <= 128 ? 32 : longest <= 512 ? 128 : longest <= 2048 ? kBlock : 1024;
      most = 0;
    }
    if (!scans && most > 32 && typical_of(total) < kFewTeams) width = std::max(width, most > 4 * kBlock ? 1024 : kBlock);
    const auto row = row_in_registers(typical_of(total));
    if (row) width = row->width;
    team(width, total);
    if (row) row_elements_ = 8 * row->pieces;
    place_locals(width);
    k_.out.open("for (isize outer = team.index(); outer < {}; outer += team.count()) {{", cpp(total, facts_));
    for (const auto& [name, value] : values_of(k_.group.outer, "outer", facts_)) k_.out.line("[[maybe_unused]] const isize {} = {};", name, value);
    if (row)
      nests_in_registers(*row);
    else
      nests(width, k_.group.outer);
    k_.out.close();
  }

  // Rows of which each thread of a team can keep its part: so many pieces.
  struct Row {
    int width = 0;
    int64_t pieces = 0;
  };

  // `rows`: of all teams.
  std::optional<Row> row_in_registers(int64_t rows) const {
    std::optional<int64_t> length;
    for (const Nest& n : k_.group.nests) {
      NestEmitter nest(k_, n, k_.group.outer);
      nest.prepare_device();
      const auto own = nest.row_length();
      if (!own || !nest.fits_in_registers() || (length && *length != *own)) return std::nullopt;
      length = own;
    }
    if (!length || *length % 8 != 0 || *length < 64) return std::nullopt;
    const int64_t pieces = *length / 8;
    Row row;
    row.width = pieces <= 128 ? 32 : pieces <= 512 ? kBlock : 512;
    // Few rows are done sooner by more threads.
    if (rows < kManyRows)
      while (row.width < 512 && row.width < pieces) row.width *= 2;
    row.pieces = (pieces + row.width - 1) / row.width;
    // What the nests keep is nowhere else: a row that is written must not be read again.
    std::set<BufferId> written;
    for (const Nest& n : k_.group.nests) {
      for (const Scalar& s : n.code)
        if (s.op == ScalarOp::load && written.contains(s.buffer)) return std::nullopt;
      for (const Store& s : n.stores)
        if (k_.program[s.buffer].kind != BufferKind::local) written.insert(s.buffer);
    }
    return row.pieces <= 4 ? std::optional(row) : std::nullopt;
  }

  void nests_in_registers(const Row& row) {
    std::map<std::string, int> readers;
    std::map<std::string, NestEmitter::KeptRow> kept;
    for (const Nest& n : k_.group.nests) {
      NestEmitter nest(k_, n, k_.group.outer);
      nest.prepare_device();
      for (const auto& [key, type] : nest.row_keys()) {
        if (++readers[key] != 2) continue;
        const std::string name = fmt::format("row{}", kept.size());
        k_.out.line("{} {}[{}];", type, name, row.pieces);
        kept[key].name = name;
      }
    }
    for (const Nest& n : k_.group.nests) {
      k_.out.open("{{");
      NestEmitter nest(k_, n, k_.group.outer);
      nest.prepare_device();
      nest.emit_in_registers(row.width, row.pieces, kept);
      k_.out.close();
    }
  }

  void in_one_block() {
    constexpr int kWidth = 1024;
    team(kWidth, 1);
    place_locals(kWidth);
    nests(kWidth, {});
  }

  // One after the other: each may read what the team's threads have written in the one before.
  void nests(int width, const std::vector<LoopVar>& around) {
    for (const Nest& n : k_.group.nests) in_team(n, width, around);
  }

  void in_team(const Nest& n, int width, const std::vector<LoopVar>& around) {
    k_.out.open("{{");
    NestEmitter nest(k_, n, around);
    nest.prepare_device();
    nest.emit_in_team(width);
    k_.out.close();
    if (width > 1) k_.out.line("team.sync();");
  }

  // `points`: iterations that teams take.
  void team(int width, const Expr& points) {
    launch_.threads = width > 32 ? width : typical_of(points * width) < 32768 ? 64 : kBlock;
    const int64_t teams = launch_.threads / width;
    launch_.blocks = min(ceildiv(points, teams), Expr(kMostBlocks));
    k_.out.line("const Team<{}> team;", width);
  }

  // Local buffers: one element in a register, longer ones in shared memory if that is known to be enough, else in scratch.
  void place_locals(int width) {
    const int teams = std::max(1, launch_.threads / width);
    const int64_t room = std::min<int64_t>(kSharedBytes, block_shared_of(k_.target) - launch_.shared_bytes - kFoldBytes);
    int64_t shared = 0;
    Expr scratch = 0;
    std::vector<std::pair<std::string, std::string>> in_scratch;  // pointers, and where they begin
    for (const Nest& nest : k_.group.nests)
      for (const Store& s : nest.stores) {
        const Buffer& b = k_.program[s.buffer];
        if (b.kind != BufferKind::local || k_.pointers.contains(s.buffer)) continue;
        const std::string name = "l" + std::to_string(k_.pointers.size()), type = storage_type(b.dtype);
        k_.pointers[s.buffer] = name;
        const Expr elements = simplify(elements_of(b), k_.program.symbols);
        const auto count = elements.constant();
        const auto size = static_cast<int64_t>(nacre_dtype_size_bytes(b.dtype));
        if (count && row_elements_ > 0 && !b.shape.empty()) {
          k_.out.line("{} {}[{}];", type, name, row_elements_);
        } else if (count && (*count <= 1 || (width == 1 && *count <= kPrivateElements))) {
          k_.out.line("{} {}[{}];", type, name, std::max<int64_t>(1, *count));
        } else if (count && width > 1 && shared + *count * size * teams <= room) {
          shared += *count * size * teams;
          k_.out.line("__shared__ {} {}_all[{}][{}];", type, name, teams, *count);
          k_.out.line("{}* const {} = {}_all[threadIdx.x / {}];", type, name, name, width);
        } else {
          in_scratch.emplace_back(fmt::format("{0}* const {1} = reinterpret_cast<{0}*>", type, name), cpp(scratch, facts_));
          scratch = simplify(scratch + ceildiv(elements * size, 64) * 64, k_.program.symbols);
        }
      }
    if (scratch.is(0)) return;
    for (const auto& [pointer, begin] : in_scratch) k_.out.line("{}(launch.scratch + i64(team.index()) * ({}) + {});", pointer, cpp(scratch, facts_), begin);
    k_.kernel.scratch_bytes = simplify(scratch * teams, k_.program.symbols);
    launch_.blocks = min(launch_.blocks, Expr(1024));
  }

  // Kernels with other maps are others.
  std::string comment_of_map(size_t i) const {
    const nacre_device_map& map = launch_.maps[i];
    std::string text = fmt::format("  // map{}: data{} from byte {}, ", i, map.operand, map.start);
    for (uint32_t d = 0; d < map.rank; ++d) text += d == 0 ? fmt::format("{}", map.sizes[0]) : fmt::format(" x {} by {} bytes", map.sizes[d], map.strides[d - 1]);
    if (map.pixels) return text + fmt::format(", {} channels of {} pixels {} and {} apart, between ({}, {}) and ({}, {})\n", map.box[0], map.box[1], map.steps[1], map.steps[2], map.lower[0], map.lower[1], map.upper[0], map.upper[1]);
    text += ", at once ";
    for (uint32_t d = 0; d < map.rank; ++d) text += fmt::format("{}{}", d == 0 ? "" : " x ", map.box[d]);
    return text + "\n";
  }

  // Whether indices need 64 bits: also where they stand after the last step, which is as wide as the grid.
  bool wide() const {
    const auto large = [&](const Expr& e) {
      const Interval range = interval(e, k_.program.symbols);
      return range.max == kUnbounded || range.max > (int64_t{1} << 31) - kMostBlocks * kBlock;
    };
    for (BufferId b : k_.kernel.buffers)
      if (large(simplify(elements_of(k_.program[b]), k_.program.symbols))) return true;
    const Expr outer = points_of(k_.group.outer);
    return std::any_of(k_.group.nests.begin(), k_.group.nests.end(), [&](const Nest& nest) { return large(simplify(outer * points_of(nest.loops), k_.program.symbols)); });
  }

  void finish() {
    const std::string& body = k_.out.text();
    std::set<BufferId> written = buffers_written(k_.group);
    std::string parameters, head;
    for (size_t i = 0; i < launch_.maps.size(); ++i) {
      parameters += fmt::format("const __grid_constant__ TensorMap map{}, ", i);
      head += comment_of_map(i);
    }
    for (size_t i = 0; i < k_.kernel.buffers.size(); ++i) {
      const BufferId id = k_.kernel.buffers[i];
      // Where the kernel may begin before the ones that write what it reads are done, only weights are what __restrict__ promises.
      const bool restricted = k_.target.compute_capability < 90 || written.contains(id) || k_.program[id].kind == BufferKind::weight;
      parameters += fmt::format("{}{}* {}data{}, ", written.contains(id) ? "" : "const ", storage_type(k_.program[id].dtype), restricted ? "__restrict__ " : "", i);
    }
    const bool is_wide = wide();
    head += fmt::format("  using isize = {};\n", is_wide ? "i64" : "int");
    for (const auto& [name, symbol] : k_.program.symbols) {
      if (body.find(name) == std::string::npos) continue;
      const uint32_t node = nodes_.at(name);
      parameters += fmt::format("const i64 node{}, ", node);
      launch_.nodes.push_back(node);
      const bool narrow = !is_wide && symbol.range.min >= INT32_MIN && symbol.range.max <= INT32_MAX;
      head += fmt::format("  [[maybe_unused]] const {} {} = node{};\n", narrow ? "isize" : "i64", name, node);
    }
    head += "  int32_t status = 0;\n  release_next();\n";
    if (!launch_.awaits) head += "  await_previous();\n";
    k_.kernel.body = "(" + parameters + "const Launch launch) {\n" + head + body + "  report(launch, status);\n}\n";
    k_.kernel.launch = launch_;
    k_.kernel.serial = false;
    count_work(k_);
    k_.kernel.comment = comment_of(k_);
  }

  KernelContext& k_;
  const SymbolNodes& nodes_;
  const Facts facts_;
  KernelSource::Launch launch_;
  int64_t row_elements_ = 0;  // of a row, that a thread keeps in registers; 0: rows lie elsewhere
};

}  // namespace

KernelSource emit_device_kernel(KernelContext& k, const SymbolNodes& nodes) { return Emitter(k, nodes).emit(); }

}  // namespace nacre
