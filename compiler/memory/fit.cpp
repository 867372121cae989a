#include "compiler/memory/fit.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <memory>
#include <set>

#include "compiler/loops/address.h"
#include "compiler/loops/code.h"
#include "compiler/memory/bands.h"
#include "compiler/memory/in_place.h"
#include "compiler/memory/order.h"
#include "compiler/support/print.h"

namespace nacre {

namespace {

constexpr size_t kMostTried = 24;  // candidates that are built and planned, of those that an estimate likes best
constexpr int kMostChains = 4;

int64_t sum_or_unbounded(int64_t a, int64_t b) {
  int64_t sum = 0;
  return a == kUnbounded || b == kUnbounded || __builtin_add_overflow(a, b, &sum) ? kUnbounded : sum;
}

int64_t arena_limit(const MemoryPlan& plan, const Facts& symbols) {
  if (plan.constant) return plan.size_bytes;
  std::vector<int64_t> ends;
  int64_t most = 0;
  for (const Placement& p : plan.placements) {
    int64_t offset = 0;
    for (size_t below : p.below) offset = std::max(offset, ends[below]);
    ends.push_back(sum_or_unbounded(offset, interval(p.size_bytes, symbols).max));
    most = std::max(most, ends.back());
  }
  return most;
}

int64_t bytes_of(const LoopProgram& program, BufferId b) {
  return typical(elements_of(program[b]), program.symbols) * static_cast<int64_t>(nacre_dtype_size_bytes(program[b].dtype));
}

struct Candidate {
  std::shared_ptr<const LoopProgram> program;  // that has the chain
  Chain chain;
  int64_t bands = 0;
  int64_t peak = 0;       // estimates
  double more_flops = 0;
};

// What chains in bands would need, without building them.
class Estimate {
 public:
  Estimate(std::shared_ptr<const LoopProgram> whole, const CostOf& cost_of) : whole_(std::move(whole)), program_(*whole_), costs_(cost_of(program_)) {
    const LoopProgram& program = program_;
    const LoopProgram shared = write_in_place(program);
    for (size_t g = 0; g < program.groups.size(); ++g) {
      row_wise_.push_back(nacre::row_wise(program, static_cast<int>(g)));
      std::set<BufferId> touched;
      for_each_buffer(program.groups[g], [&](BufferId b) {
        if (program[b].kind == BufferKind::temporary) touched.insert(b);
      });
      touched_.emplace_back(touched.begin(), touched.end());
      // A result that takes an operand's place where nothing else changes.
      const auto before = buffers_written(program.groups[g]), after = buffers_written(shared.groups[g]);
      for (BufferId b : before)
        if (!after.contains(b)) in_place_.insert(b);
    }
  }

  // All chains, each in two bands and more.
  void add_candidates(int64_t most_bands, std::vector<Candidate>& result) const {
    for (int last = 0; last < static_cast<int>(program_.groups.size()); ++last)
      for (const Chain& chain : chains_to(last)) {
        std::set<size_t> heights;
        const int64_t most = std::min(most_bands, rows_of(program_[chain.result()]));
        for (int64_t bands = 2; bands <= most; bands = bands == most ? most + 1 : std::min(most, bands + std::max<int64_t>(1, bands / 4))) {
          if (!heights.insert(bands_of(program_, chain, bands).size()).second) continue;
          result.push_back(estimate(chain, bands));
        }
      }
  }

  // Those that end with the given group, in so many bands.
  void add_candidates_to(int last, int64_t bands, std::vector<Candidate>& result) const {
    for (const Chain& chain : chains_to(last)) result.push_back(estimate(chain, bands));
  }

 private:
  std::vector<Chain> chains_to(int last) const {
    std::vector<Chain> chains;
    std::set<std::vector<int>> seen;
    for (int first = last - 1; first >= 0; --first) {
      Chain chain = chain_to(program_, row_wise_, first, last);
      if (chain.groups.size() < 2) continue;
      std::vector<int> members;
      for (const RowWise& r : chain.groups) members.push_back(r.group);
      if (seen.insert(members).second) chains.push_back(std::move(chain));
    }
    return chains;
  }

  Candidate estimate(const Chain& chain, int64_t bands) const {
    Candidate candidate{whole_, chain, bands, 0, 0};
    struct Life {
      int64_t bytes = 0;
      int first = -1, last = -1;
    };
    // Buffers that exist as a whole, then the parts of each band. A group takes two steps: what it reads lives in both, but for
    // an operand whose place the result takes.
    std::vector<Life> lives(program_.buffers.size());
    int step = 0;
    const auto touch = [&](Life& life, int64_t bytes, int first, int last) {
      life.bytes = bytes;
      if (life.first < 0) life.first = first;
      life.last = last;
    };
    std::map<int, size_t> member;
    std::map<BufferId, size_t> maker;
    for (size_t i = 0; i < chain.groups.size(); ++i) {
      member[chain.groups[i].group] = i;
      if (i + 1 < chain.groups.size()) maker[chain.groups[i].result] = i;
    }
    for (int g = 0; g < static_cast<int>(program_.groups.size()); ++g) {
      const bool in_chain = member.contains(g);
      if (in_chain && g != chain.groups.back().group) continue;
      if (!in_chain) {
        touch_all(g, lives, step, touch);
        step += 2;
        continue;
      }
      for (const Rows& band : bands_of(program_, chain, bands)) {
        const std::vector<Rows> needed = rows_needed(program_, chain, band);
        std::vector<Life> parts(chain.groups.size());
        for (size_t i = 0; i < chain.groups.size(); ++i) {
          const int group = chain.groups[i].group;
          const double share = static_cast<double>(needed[i].count()) / static_cast<double>(rows_of(program_[chain.groups[i].result]));
          candidate.more_flops += share * costs_[static_cast<size_t>(group)].flops;
          for (BufferId b : touched_[static_cast<size_t>(group)]) {
            const auto part = maker.find(b);
            const int64_t bytes = bytes_of(program_, b);
            if (part == maker.end()) {
              touch(lives[static_cast<size_t>(b)], bytes, step, step + 1);
              continue;
            }
            const size_t n = part->second;
            const bool starts = n == i && in_place_.contains(b);
            touch(parts[n], bytes * needed[n].count() / rows_of(program_[b]), step + (starts ? 1 : 0), step + 1);
          }
          // The one whose place was taken; if it lives on in truth, its next use says so.
          if (i + 1 < chain.groups.size() && in_place_.contains(chain.groups[i].result)) shorten(group, parts, maker, step);
          step += 2;
        }
        lives.insert(lives.end(), parts.begin(), parts.end());
      }
      for (const RowWise& r : chain.groups) candidate.more_flops -= costs_[static_cast<size_t>(r.group)].flops;
    }
    std::vector<int64_t> change(static_cast<size_t>(step) + 2, 0);
    for (const Life& life : lives) {
      if (life.first < 0) continue;
      change[static_cast<size_t>(life.first)] += life.bytes;
      change[static_cast<size_t>(life.last) + 1] -= life.bytes;
    }
    int64_t live = 0;
    for (int64_t c : change) candidate.peak = std::max(candidate.peak, live += c);
    return candidate;
  }

  template <class Lives, class Touch>
  void touch_all(int g, Lives& lives, int step, Touch touch) const {
    const RowWise* made = row_wise_[static_cast<size_t>(g)] ? &*row_wise_[static_cast<size_t>(g)] : nullptr;
    const bool shares = made && in_place_.contains(made->result);
    BufferId given = -1;
    for (BufferId b : touched_[static_cast<size_t>(g)]) {
      const bool starts = shares && b == made->result;
      touch(lives[static_cast<size_t>(b)], bytes_of(program_, b), step + (starts ? 1 : 0), step + 1);
      if (shares && b != made->result && program_[b].shape == program_[made->result].shape) given = b;
    }
    if (given >= 0) lives[static_cast<size_t>(given)].last = step;
  }

  template <class Parts>
  void shorten(int g, Parts& parts, const std::map<BufferId, size_t>& maker, int step) const {
    const BufferId result = row_wise_[static_cast<size_t>(g)]->result;
    for (BufferId b : touched_[static_cast<size_t>(g)])
      if (b != result && maker.contains(b) && program_[b].shape == program_[result].shape) {
        parts[maker.at(b)].last = step;
        return;
      }
  }

  const std::shared_ptr<const LoopProgram> whole_;
  const LoopProgram& program_;
  const std::vector<GroupCost> costs_;
  std::vector<std::optional<RowWise>> row_wise_;
  std::vector<std::vector<BufferId>> touched_;  // temporaries of each group
  std::set<BufferId> in_place_;
};

std::vector<Candidate> candidates_of(const LoopProgram& program, int64_t most_bands, const CostOf& cost_of) {
  std::vector<Candidate> result;
  Estimate(std::make_shared<LoopProgram>(program), cost_of).add_candidates(most_bands, result);
  for (int g = 0; g < static_cast<int>(program.groups.size()); ++g)
    for (int64_t parts = 2; parts <= std::min(most_bands, reduced_rows(program, g)); ++parts)
      if (auto split = split_reduction(program, g, parts)) Estimate(std::make_shared<LoopProgram>(std::move(*split)), cost_of).add_candidates_to(g, parts, result);
  return result;
}

// Convolutions that copy pieces of their image do that a row of the result at a time, and none keeps transformed pieces.
LoopProgram with_least_scratch(LoopProgram program) {
  for (Group& group : program.groups) {
    if (!group.contraction) continue;
    if (group.contraction->form == ContractionForm::planar) group.contraction->copied_rows = 1;
    group.contraction->winograd = 0;
  }
  return program;
}

// The operator and Python line that a buffer comes from.
std::string maker_of(const LoopProgram& program, BufferId id) {
  const Provenance* where = nullptr;
  for (const Group& group : program.groups) {
    if (!buffers_written(group).contains(id)) continue;
    if (group.contraction && !group.contraction->where.op.empty()) where = &group.contraction->where;
    if (group.rows && !group.rows->where.op.empty()) where = &group.rows->where;
    for (const Nest& nest : group.nests) {
      const bool stores = std::any_of(nest.stores.begin(), nest.stores.end(), [&](const Store& s) { return s.buffer == id; });
      for (const Scalar& s : nest.code)
        if (stores && !s.where.op.empty()) where = &s.where;  // the last one is what it is about
    }
    break;
  }
  if (!where) return "";
  return where->file.empty() ? " " + where->op : fmt::format(" {} ({}:{})", where->op, where->file, where->line);
}

Footprint footprint(const MemoryPlan& plan, const std::vector<GroupCost>& costs, const Facts& symbols) {
  Footprint result{arena_limit(plan, symbols), 0};
  for (const GroupCost& cost : costs) result.scratch_bytes = std::max(result.scratch_bytes, cost.scratch_bytes);
  // The runtime keeps scratch behind the arena, both in whole lines of 64 bytes.
  constexpr int64_t kLine = 64;
  if (result.scratch_bytes != kUnbounded) result.scratch_bytes = (result.scratch_bytes + kLine - 1) / kLine * kLine;
  return result;
}

}  // namespace

int64_t Footprint::total() const { return sum_or_unbounded(arena_bytes, scratch_bytes); }

Fitted fit_memory(const LoopProgram& program, const FitOptions& options, const CostOf& cost_of) {
  const auto fits = [&](const Fitted& fitted) { return options.limit_bytes > 0 && fitted.needs.total() <= options.limit_bytes; };
  const auto finished = [&](const LoopProgram& from, double flops_before) {
    Fitted best;
    const auto attempt = [&](LoopProgram with) {
      Fitted fitted{std::move(with), {}, 0, flops_before};
      const std::vector<GroupCost> costs = cost_of(fitted.program);
      fitted.needs = footprint(plan_memory(fitted.program, true), costs, fitted.program.symbols);
      for (const GroupCost& cost : costs) fitted.flops += cost.flops;
      if (best.program.groups.empty() || fitted.needs.total() < best.needs.total()) best = std::move(fitted);
    };
    attempt(write_in_place(from));
    attempt(write_in_place(order_for_memory(from)));
    if (!fits(best)) attempt(with_least_scratch(best.program));
    return best;
  };
  const bool straight = std::none_of(program.groups.begin(), program.groups.end(), [](const Group& g) { return g.control.has_value(); });
  Fitted best = finished(program, 0);
  const double flops_before = best.flops;
  best.flops_before = flops_before;
  LoopProgram current = program;
  for (int chains = 0; straight && chains < kMostChains && !fits(best); ++chains) {
    std::vector<Candidate> candidates = candidates_of(current, options.most_bands, cost_of);
    const int64_t room = options.limit_bytes - best.needs.scratch_bytes;
    std::stable_sort(candidates.begin(), candidates.end(), [&](const Candidate& a, const Candidate& b) {
      const bool a_fits = a.peak <= room, b_fits = b.peak <= room;
      if (a_fits != b_fits) return a_fits;
      if (!a_fits && a.peak != b.peak) return a.peak < b.peak;
      return a.more_flops < b.more_flops;
    });
    std::optional<Fitted> found;
    LoopProgram base;
    for (size_t i = 0; i < std::min(candidates.size(), kMostTried); ++i) {
      const auto made = in_bands(*candidates[i].program, candidates[i].chain, candidates[i].bands);
      if (!made) continue;
      Fitted fitted = finished(*made, flops_before);
      const bool better = !found || fitted.needs.total() < found->needs.total();
      if (better) {
        found = std::move(fitted);
        base = *made;
      }
      if (found && fits(*found)) break;
    }
    if (!found || found->needs.total() >= best.needs.total()) break;
    best = std::move(*found);
    current = std::move(base);
  }
  return best;
}

std::string blame(const LoopProgram& program, const MemoryPlan& plan) {
  std::vector<Lifetime> in_arena;
  for (const Placement& p : plan.placements)
    if (p.inside < 0) in_arena.push_back(p);
  const Peak peak = peak_of(in_arena, program.symbols);
  if (peak.group < 0 || peak.group >= static_cast<int>(program.groups.size())) return "";
  std::vector<std::pair<int64_t, std::string>> lines;
  for (const Lifetime& life : in_arena) {
    if (life.first > peak.group || life.last < peak.group) continue;
    const int64_t bytes = typical(life.size_bytes, program.symbols);
    lines.emplace_back(bytes, fmt::format("\n  {} bytes {}: {}[{}]{}", grouped(bytes), program[life.buffer].name, nacre_dtype_name(program[life.buffer].dtype),
                                          fmt::join([&] {
                                            std::vector<std::string> dims;
                                            for (const Expr& e : program[life.buffer].shape) dims.push_back(e.str());
                                            return dims;
                                          }(), ", "),
                                          maker_of(program, life.buffer)));
  }
  std::stable_sort(lines.begin(), lines.end(), [](const auto& a, const auto& b) { return a.first > b.first; });
  std::string text = fmt::format("most lives in {}:", program.groups[static_cast<size_t>(peak.group)].name);
  for (const auto& [bytes, line] : lines) text += line;
  return text;
}

}  // namespace nacre
