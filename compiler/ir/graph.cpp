#include "compiler/ir/graph.h"

namespace plait {

const std::vector<GraphOpSpec>& graph_ops() {
    static const std::vector<GraphOpSpec> table = {
#define PLAIT_GRAPH_OP(name, inputs, attribute, doc) GraphOpSpec{#name, inputs, #attribute, doc},
#include "compiler/ir/ops.def"
    };
    return table;
}

std::string Arity::print() const {
    return least == most ? std::to_string(least) : std::to_string(least) + " to " + std::to_string(most);
}

const GraphOpSpec* find_graph_op(const std::string& name) {
    for (const GraphOpSpec& spec : graph_ops())
        if (spec.name == name) return &spec;
    return nullptr;
}

const GraphTensor* Graph::find_input(const std::string& name) const {
    for (const GraphTensor& tensor : inputs)
        if (tensor.name == name) return &tensor;
    return nullptr;
}

}  // namespace plait
