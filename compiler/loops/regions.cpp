#include "compiler/loops/regions.h"

#include <algorithm>

#include "compiler/loops/code.h"
#include "compiler/symbolic/limits.h"
#include "compiler/support/error.h"

namespace nacre {

bool Regions::encloses(int outer, int inner) const {
  while (inner > outer) inner = list[static_cast<size_t>(inner)].parent;
  return inner == outer;
}

int Regions::loop_around(int region) const {
  while (region > 0 && !list[static_cast<size_t>(region)].repeats) region = list[static_cast<size_t>(region)].parent;
  return region;
}

Regions regions_of(const LoopProgram& program) {
  Regions result;
  result.list.push_back({-1, -1, static_cast<int>(program.groups.size()), false});
  std::vector<int> open{0};
  const auto begin = [&](int g, bool repeats) {
    result.list.push_back({open.back(), g, g, repeats});
    open.push_back(static_cast<int>(result.list.size()) - 1);
  };
  const auto close = [&](int g) {
    check(open.size() > 1, "loop program {}: group {} closes a region that is not open", program.name, g);
    result.list[static_cast<size_t>(open.back())].last = g;
    open.pop_back();
  };
  const auto in_loop = [&] { return open.size() > 1 && result.list[static_cast<size_t>(result.list[static_cast<size_t>(open.back())].parent)].repeats; };
  for (int g = 0; g < static_cast<int>(program.groups.size()); ++g) {
    const auto& control = program.groups[static_cast<size_t>(g)].control;
    const auto stands_here = [&] { result.of_group.push_back(open.back()); };
    if (!control) {
      stands_here();
      continue;
    }
    switch (control->kind) {
      case ControlKind::bind:
      case ControlKind::check:
        stands_here();
        break;
      case ControlKind::if_:
        stands_here();
        begin(g, false);
        break;
      case ControlKind::loop:
        stands_here();
        begin(g, true);
        begin(g, false);
        break;
      case ControlKind::else_:
      case ControlKind::while_:
        check(open.size() > 1 && in_loop() == (control->kind == ControlKind::while_), "loop program {}: group {} parts no region of its kind",
              program.name, g);
        close(g);
        stands_here();
        begin(g, false);
        break;
      case ControlKind::end: {
        const bool loop = in_loop();
        close(g);
        if (loop) close(g);
        stands_here();
        break;
      }
    }
  }
  check(open.size() == 1, "loop program {}: a region is not closed", program.name);
  return result;
}

std::set<std::string> bound_symbols(const LoopProgram& program) {
  std::set<std::string> result;
  for (const Group& group : program.groups)
    if (group.control && group.control->kind == ControlKind::bind) result.insert(group.control->symbol);
  return result;
}

bool has_symbol_of(const Expr& e, const std::set<std::string>& symbols) {
  if (symbols.empty() || e.constant()) return false;
  const std::set<std::string> own = e.symbols();
  return std::any_of(own.begin(), own.end(), [&](const std::string& s) { return symbols.contains(s); });
}

Expr capacity(const Expr& e, const std::set<std::string>& bound, const Facts& facts) {
  if (bound.empty()) return e;
  if (auto limit = upper_limit(e, bound, facts)) return simplify(*limit, facts);
  std::string names;
  for (const std::string& s : e.symbols())
    if (bound.contains(s) && !upper_limit(Expr::symbol(s), bound, facts)) names += (names.empty() ? "" : ", ") + s;
  fail(ErrorKind::unsupported, "the size {} depends on data and has no upper limit: give one with torch._check({} <= LIMIT)", e.str(),
       names.empty() ? e.str() : names);
}

Expr capacity_bytes(const Buffer& buffer, const std::set<std::string>& bound, const Facts& facts) {
  Expr bytes = static_cast<int64_t>(nacre_dtype_size_bytes(buffer.dtype));
  for (const Expr& e : buffer.shape) bytes = bytes * capacity(e, bound, facts);
  return bytes;
}

std::set<std::string> symbols_of(const LoopProgram& program, const Group& group) {
  std::set<std::string> result;
  const auto add = [&](const Expr& e) {
    if (!e.constant()) result.merge(e.symbols());
  };
  const auto add_all = [&](const std::vector<Expr>& list) {
    for (const Expr& e : list) add(e);
  };
  const auto add_loops = [&](const std::vector<LoopVar>& loops) {
    for (const LoopVar& loop : loops) add(loop.extent);
  };
  add_loops(group.outer);
  for (const Nest& nest : group.nests) {
    add_loops(nest.loops);
    for (const Scalar& s : nest.code) for_each_expr(s, add);
    for (const Store& s : nest.stores) for_each_expr(s, add);
  }
  if (group.contraction) {
    const Contraction& c = *group.contraction;
    add_loops(c.loops);
    for (const Operand& o : c.operands) add_all(o.at);
    for (const auto& loops : c.operand_loops) add_loops(loops);
    for (const auto* list : {&c.stride, &c.padding, &c.dilation, &c.output_padding}) add_all(*list);
    add(c.groups);
  }
  if (group.control) add(group.control->condition);
  // Addresses depend on the shapes of what is accessed.
  for (BufferId b : buffers_read(group)) add_all(program[b].shape);
  for (BufferId b : buffers_written(group)) add_all(program[b].shape);
  std::erase_if(result, [&](const std::string& s) { return !program.symbols.contains(s); });
  return result;
}

}  // namespace nacre
