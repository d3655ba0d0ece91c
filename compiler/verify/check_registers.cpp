// setmaxnreg shares the register file between one producer and the consumer warpgroups; accumulators fit into theirs.
#include <fmt/format.h>

#include <algorithm>

#include "compiler/verify/rules.h"
#include "compiler/verify/walk.h"

namespace plait {
namespace {

constexpr std::int64_t kWarpgroup = 128;
constexpr std::int64_t kMaxAccumulator =
    192;  // registers a thread; beyond it ptxas spills next to addresses and pointwise values
// ptxas allocates one instruction within what the launch gives a thread, not what setmaxnreg gives later: wgmma of n columns
// names n / 2 registers, and some more (C7602: 208 columns want 130).
constexpr std::int64_t kBesideInstruction = 26;
constexpr std::int64_t kOverhead = 32;  // addresses, descriptors, pointwise values, row vectors

// What a program keeps in registers at once: accumulators, and register operands of 16-bit elements. They live to the end of
// their block.
struct Live {
    std::int64_t registers = 0;
    std::string parts;
};
void find_most(const Plan& plan, const std::vector<Statement>& body, Live live, Live* most) {
    for (const Statement& s : body) {
        if (s.op == Op::AccDeclare || s.op == Op::OperandDeclare) {
            const std::int64_t elements = constant_value(plan, s.expr("rows")) * constant_value(plan, s.expr("cols"));
            const std::int64_t needed = elements / kWarpgroup / (s.op == Op::OperandDeclare ? 2 : 1);
            live.registers += needed;
            live.parts += fmt::format("{}{} {}", live.parts.empty() ? "" : " + ", s.word("name"), needed);
            if (live.registers > most->registers) *most = live;
        }
        find_most(plan, s.body, live, most);
    }
}

void check_sum(const Plan& plan, const ProgramDef& program, Diagnostics* findings) {
    Live most;
    find_most(plan, program.body, {}, &most);
    const std::int64_t limit = std::min(kMaxAccumulator, plan.consumer_registers - kOverhead);
    if (most.registers <= limit) return;
    findings->push_back({"check_registers",
                         fmt::format("accumulators and operands take {} registers a thread ({}), {} are left of {}",
                                     most.registers, most.parts, limit, plan.consumer_registers),
                         "program " + program.name, "use fewer consumer_warpgroups, a smaller tile, or an overlap with one operand"});
}

std::int64_t launch_registers(const Plan& plan, const Target& target) {
    return target.registers_per_sm / std::max<std::int64_t>(plan.threads, 1) / 8 * 8;
}

void check_split(const Plan& plan, const Target& target, Diagnostics* findings) {
    const std::int64_t consumers = plan.threads / kWarpgroup - 1;
    if (plan.threads <= 0 || plan.threads % kWarpgroup != 0 || consumers < 1) {
        findings->push_back(
            {"check_registers",
             fmt::format("a CTA has {} threads, not a producer and some consumer warpgroups of 128", plan.threads),
             "threads", "use 128 x (1 + consumers)"});
        return;
    }
    for (std::int64_t registers : {plan.producer_registers, plan.consumer_registers}) {
        if (registers >= 24 && registers <= 256 && registers % 8 == 0) continue;
        findings->push_back({"check_registers", fmt::format("{} registers a thread cannot be set", registers),
                             "registers", "setmaxnreg takes multiples of 8 from 24 to 256"});
    }
    const std::int64_t used = kWarpgroup * (plan.producer_registers + consumers * plan.consumer_registers);
    // setmaxnreg hands out what the launch got, in steps of 8 a thread, not the whole register file (24/240 starts at 384
    // threads, 32/240 never does).
    const std::int64_t pool = launch_registers(plan, target) * plan.threads;
    if (used > pool) {
        findings->push_back(
            {"check_registers",
             fmt::format("128 x {} + {} x 128 x {} = {} registers, a launch of {} threads gets {}", plan.producer_registers,
                         consumers, plan.consumer_registers, used, plan.threads, pool),
             "/schedule/consumer_warpgroups", "use fewer consumer warpgroups or fewer registers"});
    }
}

}  // namespace

Diagnostics check_registers(const Plan& plan, const Target& target) {
    Diagnostics findings;
    check_split(plan, target, &findings);
    for (const std::vector<Step>& program : walk(plan)) {
        const std::size_t before = findings.size();
        for (const Step& step : program) {
            if (step.statement->op != Op::AccDeclare) continue;
            const std::int64_t rows = constant_value(plan, step.statement->expr("rows")),
                               cols = constant_value(plan, step.statement->expr("cols"));
            if (rows % 64 != 0 || cols % 8 != 0 || rows <= 0 || cols <= 0 || cols > 256) {
                findings.push_back(
                    {"check_registers",
                     fmt::format("accumulator of {} x {}: wgmma makes multiples of 64 x 8, up to 256 columns", rows,
                                 cols),
                     step.where(), "change tile_m or tile_n"});
                continue;
            }
            if (cols / 2 + kBesideInstruction > launch_registers(plan, target)) {
                findings.push_back({"check_registers",
                                    fmt::format("a matrix instruction of {} columns takes {} registers, a launch of {} threads gives {}",
                                                cols, cols / 2 + kBesideInstruction, plan.threads, launch_registers(plan, target)),
                                    step.where(), "use a smaller tile_n or fewer consumer_warpgroups"});
                continue;
            }
            const std::int64_t needed = rows * cols / kWarpgroup;
            const std::int64_t limit = std::min(kMaxAccumulator, plan.consumer_registers - kOverhead);
            if (needed > limit) {
                findings.push_back({"check_registers",
                                    fmt::format("accumulator of {} x {} takes {} registers a thread, {} are left of {}",
                                                rows, cols, needed, limit, plan.consumer_registers),
                                    step.where(), "use a smaller tile_m or tile_n, or other consumer_warpgroups"});
            }
        }
        if (findings.size() == before && !program.empty()) check_sum(plan, *program.front().program, &findings);
    }
    return findings;
}

}  // namespace plait
