// The expression list of an entry and of its variants: the one place where sizes become nodes.
#pragma once

#include <map>
#include <string>
#include <tuple>
#include <vector>

#include "compiler/symbolic/expr.h"
#include "compiler/symbolic/simplify.h"
#include "formats/writer.h"

namespace nacre {

// Equal expressions share a node, and numbers need none where they are a second operand; the symbols come first, in their order. A variant's list is a copy of its entry's that goes on.
class NodeList {
 public:
  NodeList(const Facts& symbols, uint32_t first_symbol);  // the number of the first of them in the artifact
  formats::Size add(const Expr& e);                       // constants need no node
  formats::Size add(nacre_expr_kind kind, formats::Size a, formats::Size b) { return combine(kind, operand(a), operand(b)); }
  formats::Size add_symbol(uint32_t number);  // one that guards bind beyond the program's own
  uint32_t constant_node(int64_t value) { return node_of({true, value}); }
  uint32_t add_symbol(const std::string& name, uint32_t number);  // one that expressions may name from now on: its node
  const std::vector<formats::Node>& nodes() const { return nodes_; }

 private:
  struct Operand {
    bool number;
    int64_t value;  // or the node
  };
  Operand operand(formats::Size size) const;
  Operand operand(const Expr& e);
  formats::Size combine(nacre_expr_kind kind, Operand a, Operand b);
  uint32_t node_of(Operand o);
  uint32_t push(formats::Node node);
  std::vector<formats::Node> nodes_;
  std::map<std::tuple<int, bool, uint32_t, int64_t>, uint32_t> known_;
  std::map<std::string, uint32_t> numbers_;  // of the symbols' nodes
};

// The variant's own nodes, numbered from `first` on: what nothing refers to goes, and what only profiles and people look at goes to
// the end (spare_nodes), so that a session need not keep its value. Symbols stay in their order.
void settle_nodes(formats::Variant& variant, uint32_t first);

}  // namespace nacre
