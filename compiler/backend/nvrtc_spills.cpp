#include "compiler/backend/nvrtc_spills.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <functional>
#include <map>
#include <set>

#include "compiler/backend/nvrtc_compiler.h"
#include "runtime/base/error.h"

namespace plait {
namespace {

using Agents = std::function<bool(const AgentDef&)>;

// With the programs of these agents alone: the others' are there and do nothing.
std::int64_t spill_bytes_of(Plan plan, const Agents& kept) {
    std::set<std::string> programs;
    for (const AgentDef& agent : plan.agents) {
        if (kept(agent)) programs.insert(agent.programs.begin(), agent.programs.end());
    }
    for (ProgramDef& program : plan.programs) {
        if (programs.count(program.name) == 0) program.body.clear();
    }
    return compile_cubin(emit(plan)).report.spill_bytes;
}

// `68 less without consumer0, consumer1`: agents of one kernel share what ptxas hoists, so that none of them may spill
// alone.
std::string who_spills(const Plan& plan, std::int64_t bytes, AgentKind kind, const Agents& present) {
    std::map<std::vector<std::string>, std::vector<std::string>> agents_of;  // agents of the same programs are one
    for (const AgentDef& agent : plan.agents) {
        if (agent.kind == kind) agents_of[agent.programs].push_back(agent.name);
    }
    std::vector<std::string> words;
    for (const auto& [programs, names] : agents_of) {
        const auto others = [&](const AgentDef& other) { return present(other) && other.programs != programs; };
        const std::int64_t without = spill_bytes_of(plan, others);
        if (without < bytes)
            words.push_back(fmt::format("{} less without {}", bytes - without, fmt::join(names, ", ")));
    }
    return fmt::format("{}", fmt::join(words, "; "));
}

bool is_warpgroup(const AgentDef& agent) { return agent.kind == AgentKind::Warpgroup; }
bool is_thread(const AgentDef& agent) { return agent.kind == AgentKind::Thread; }

}  // namespace

std::int64_t warpgroup_spill_bytes(const Plan& plan) { return spill_bytes_of(plan, is_warpgroup); }

void check_spills(const Plan& plan, const PtxasReport& report) {
    if (report.spill_bytes <= kUnaskedSpillBytes) return;
    // One-thread agents compile in a tenth of a kernel's time. Where they spill as much alone, warpgroups add nothing.
    if (report.spill_bytes <= kMaxSpillBytes && spill_bytes_of(plan, is_thread) >= report.spill_bytes) return;
    const std::int64_t warpgroups = warpgroup_spill_bytes(plan);
    if (warpgroups > 0) {
        throw CompileError(
            fmt::format("warpgroups of {} spill {} bytes of registers ({}), none are allowed", plan.name, warpgroups,
                        who_spills(plan, warpgroups, AgentKind::Warpgroup, is_warpgroup)),
            "choose a smaller tile (tile_n, tile_m), or fuse fewer operands (bias, residual) into the epilogue");
    }
    if (report.spill_bytes > kMaxSpillBytes) {
        const auto all = [](const AgentDef&) { return true; };
        throw CompileError(fmt::format("one-thread agents of {} spill {} bytes of registers ({}), {} are allowed",
                                       plan.name, report.spill_bytes,
                                       who_spills(plan, report.spill_bytes, AgentKind::Thread, all), kMaxSpillBytes),
                           "choose a smaller tile (tile_n, tile_m), or give communication SMs of its own "
                           "(intra_comm=sms, inter_send=sms)");
    }
}

}  // namespace plait
