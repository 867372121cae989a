// The graph of a .pt2's JSON -> Graph.
//
// Nodes that only compute sizes vanish: sizes are expressions. What remains of them (numbers that
// depend on data, and numbers that are no integer expression, such as the square root of a size)
// are values of kind integer, floating or boolean, made by `aten.item` and its like or by `sym.*`
// nodes, which follow Python's arithmetic:
//   sym.add sub mul truediv floordiv mod pow neg abs min max eq ne lt le gt ge not ite float int
//   trunc floor ceil round sqrt and_ or_ lshift rshift; sym.number makes a value of an expression.
// A wrapper that only changes how gradients are computed is replaced by its body. The others are
//   higher_order.cond(predicate=, true_graph=, false_graph=, operands=[...])
//   higher_order.while_loop(cond_graph=, body_graph=, carried_inputs=[...],
//   additional_inputs=[...]) higher_order.scan(combine_graph=, init=[...], xs=[...],
//   additional_inputs=[...])  -> carried..., stacked results...
//   higher_order.associative_scan(combine_graph=, xs=[...], additional_inputs=[...])
//   higher_order.map_impl(body_graph=, xs=[...], pos_args=[...])
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <unordered_map>

#include "compiler/graph/graph.h"
#include "exporter/symbols.h"

namespace nacre {

// What the names of one graph of the file stand for: values, or numbers known at compile time.
using Names = std::unordered_map<std::string, Argument>;

// Appends the file's graph to `graph`: inputs and nodes; `names` has its inputs already. Returns
// what its outputs stand for. `defined` holds the symbols that have a value by then.
std::vector<Argument> read_nodes(const nlohmann::json& file_graph, Graph& graph, Names& names,
                                 SymbolTable& symbols, std::set<std::string>& defined);

// The value of an input, from the tensor's or number's meta-data.
Value read_input_value(const nlohmann::json& file_graph, const std::string& name,
                       SymbolTable& symbols);

// An argument outside any node.
Argument read_argument(const nlohmann::json& argument, const Names& names);

nacre_dtype read_dtype(const nlohmann::json& number);

}  // namespace nacre
