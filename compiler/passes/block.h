// Block: a list of statements under construction. Signals and waits come from the edge table, fences included, so that
// a lowering cannot forget one.
#pragma once
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "compiler/ir/plan.h"

namespace plait {

// Slot n of the `each` that a stage of ring `pipe` has in a shared array.
std::string slot(const char* array, const char* pipe, std::int64_t each, std::int64_t n = 0);

class Block {
public:
    explicit Block(const Plan& plan) : plan_(plan) {}
    using Body = std::function<void(Block&)>;

    // Any statement; operands positionally, see plan_ops.def.
    Block& add(Op op, std::vector<std::string> operands = {});
    Block& let(const std::string& name, const std::string& value);
    Block& note(const std::string& comment);  // heading of the next statement
    Block& loop(const Body& body);
    Block& for_each(const std::string& var, const std::string& from, const std::string& to, const std::string& step,
                    const Body& body);
    Block& when(const std::string& condition, const Body& body);
    Block& with_body(Op op, std::vector<std::string> operands, const Body& body);

    // The producer's fences of the edge's row. Several signals may follow one set of fences.
    Block& before_signals(const std::string& edge);
    // One signal of the edge; operands without scope and edge, which the edge gives.
    Block& signal(Op op, std::vector<std::string> operands, const std::string& edge);
    // One wait of the edge and the consumer's fences of its row.
    Block& wait(Op op, std::vector<std::string> operands, const std::string& edge);

    std::vector<Statement> take() { return std::move(statements_); }

private:
    const EdgeDef& edge(const std::string& name) const;
    std::vector<std::string> complete(Op op, std::vector<std::string> operands, const EdgeDef& edge) const;

    const Plan& plan_;
    std::vector<Statement> statements_;
    std::string comment_;
};

}  // namespace plait
