// Matrix operations of an agent: what they use until a wait that names it, and what else touches registers.
//
// PTX ISA, "wgmma.mma_async": accumulators, register operands and shared memory of an operation in flight must not be
// touched before wgmma.wait_group. A wait makes safe what it names: on sm90 the compiler may move a use of anything else
// in front of it.
#include <fmt/format.h>

#include "compiler/verify/interpreter/world.h"
#include "runtime/base/error.h"

namespace plait::interpreter {
namespace {

// The name of the n-th accumulator or register operand of a statement.
std::string value_name(const Instruction& i, std::size_t n) {
    for (const OperandSpec& spec : op_spec(i.op).operands) {
        const bool value = spec.name == "acc" || spec.name == "operand" || spec.name == "second" || spec.name == "third" ||
                           (spec.name == "name" && (i.op == Op::AccDeclare || i.op == Op::OperandDeclare));
        if (value && i.step.statement->has(spec.name) && n-- == 0) return i.step.statement->word(spec.name);
    }
    return "?";
}

}  // namespace

bool World::execute_matrix(Agent* agent, const Instruction& i) {
    switch (i.op) {
        case Op::MmaIssue:
        case Op::MmaIssueOperand:
            mma_read(agent, i, false);
            if (i.op == Op::MmaIssue) mma_read(agent, i, true);
            for (int value : i.values) agent->values[value] = agent->mma_committed + 1;
            return true;
        case Op::MmaCommit:
            agent->mma_groups.push_back(std::move(agent->mma_open));
            agent->mma_open = {};
            agent->mma_committed += 1;
            return true;
        case Op::MmaWait:
            mma_wait(agent, i);
            return true;
        case Op::MmaBegin:
            return true;  // check_reuse sees to its place
        case Op::AddBox:
            read(agent, shared(agent, i), now(agent), i);
            break;
        case Op::StageBox:
            overwrite(agent, shared(agent, i), now(agent), i);
            break;
        default:
            break;
    }
    for (std::size_t n = 0; n < i.values.size(); ++n) {
        std::size_t& group = agent->values[i.values[n]];
        if (group == 0) continue;
        const bool operand = (i.op == Op::AsOperand || i.op == Op::SoftmaxOperand) && n == 0;
        report("check_visibility",
               fmt::format("{} {} {} while matrix operations that {} it are in flight, or were waited for without "
                           "naming it",
                           op_spec(i.op).mnemonic, operand ? "writes operand" : "touches", value_name(i, n),
                           operand ? "read" : "use"),
               *agent, "an mma_wait that names it before, with fewer pending groups");
        group = 0;
    }
    return !i.values.empty();
}

// Boxes of an operand lie in consecutive slots.
void World::mma_read(Agent* agent, const Instruction& i, bool second) {
    SharedSlot* slot = shared(agent, i, second);
    const std::int64_t first = value(*agent, second ? i.shared2_index : i.shared_index),
                       count = second ? i.shared2_count : i.shared_count;
    if (first + i.boxes > count)
        throw ScheduleError(fmt::format("{}: {} slots from {} on, there are {} (M = {})", i.step.where(), i.boxes, first,
                                        count, run_.m));
    for (int box = 0; box < i.boxes; ++box) {
        const int event = pending(agent);
        read(agent, slot + box, event, i);
        agent->mma_open.push_back(event);
    }
}

void World::mma_wait(Agent* agent, const Instruction& i) {
    const std::size_t keep = std::size_t(value(*agent, i.operands[0]));
    for (; agent->mma_groups.size() > keep; agent->mma_groups.pop_front()) complete(agent, agent->mma_groups.front());
    const std::size_t done = agent->mma_committed - agent->mma_groups.size();
    for (std::size_t n = 0; n < i.values.size(); ++n) {
        std::size_t& group = agent->values[i.values[n]];
        if (group <= done) {
            group = 0;
            continue;
        }
        report("check_visibility",
               fmt::format("mma_wait names {}, which the {} youngest groups or operations of no group may still use",
                           value_name(i, n), keep),
               *agent, "mma_commit before it, and fewer pending groups");
    }
}

// Slots that an arrival hands back for overwriting: what this agent's matrix operations read in them is waited for.
// Where a ring has several slots of memory for each of its barriers they lie side by side.
void World::check_release(Agent* agent, const Instruction& i, std::int64_t index) {
    const EdgeDef* edge = find_edge(plan_, i.step.statement->has("edge") ? i.step.statement->word("edge") : "");
    if (edge == nullptr || edge->producer != ProducerKind::Mma) return;
    for (std::size_t a = 0; a < plan_.shared.size(); ++a) {
        const SharedDef& array = plan_.shared[a];
        if (array.name != edge->memory || array.count % i.object_count != 0) continue;
        const std::int64_t each = array.count / i.object_count;
        for (std::int64_t slot = index * each; slot < (index + 1) * each; ++slot) {
            const SharedSlot& memory = ctas_[agent->rank * run_.ctas + agent->cta].shared[code_.first_shared[a] + slot];
            bool reading = false;
            for (int event : memory.parts.front().reads)  // of every part alike
                reading = reading || (events_[event].time == kPending &&
                                      events_[event].component == std::uint32_t(agent->id));
            if (!reading) continue;
            report("check_reuse",
                   fmt::format("{} on {} releases {}[{}] while a matrix operation of this agent reads it",
                               op_spec(i.op).mnemonic, i.step.statement->expr("bar").print(), array.name, slot),
                   *agent, "mma_wait for the group of that operation before it");
        }
    }
}

}  // namespace plait::interpreter
