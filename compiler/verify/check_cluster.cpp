// Clusters: of a matmul whose CTAs keep step by themselves, on a target that has room for one; in a plan, operations of
// a cluster are of all its CTAs, and shares of a box are whole atoms of the swizzle.
#include <fmt/format.h>

#include "compiler/ir/plan_sizes.h"
#include "compiler/verify/rules.h"
#include "compiler/verify/walk.h"

namespace plait {
namespace {

constexpr std::int64_t kMostCtas = 8;     // of a portable cluster (CUDA C++ Programming Guide, "Thread Block Clusters")
constexpr std::int64_t kSwizzleRows = 8;  // of 128 bytes: the pattern repeats there

// Why CTAs of this graph cannot compute in step; "" where they can.
std::string reason(const Request& r) {
    Diagnostics unused;
    const auto pattern = match_pattern(r.graph, &unused);
    if (!pattern) return "";  // check_graph says why
    if (std::holds_alternative<AttentionPattern>(*pattern))
        return "row tiles of attention walk different numbers of key blocks";
    if (std::holds_alternative<GroupedPattern>(*pattern))
        return "neighbouring tiles of a grouped matmul may belong to different groups";
    if (std::get<FusedPattern>(*pattern).all_gather && r.topology.world() > 1)
        return fmt::format("rows are gathered over {} ranks, and CTAs take tiles one by one as they arrive",
                           r.topology.world());
    return "";
}

}  // namespace

Diagnostics check_cluster(const Request& request) {
    Diagnostics findings;
    const std::int64_t ctas = request.schedule.integer("cluster");
    if (ctas == 1) return findings;
    const auto report = [&](std::string message, std::string hint) {
        findings.push_back({"check_cluster", std::move(message), "/schedule/cluster", std::move(hint)});
    };
    if (const std::string why = reason(request); !why.empty())
        report(fmt::format("cluster = {}: {}", ctas, why),
               "use 1; clusters are for a matmul on each rank's own tensors");
    if (request.target.sms < ctas)
        report(fmt::format("a cluster of {} CTAs needs {} SMs, {} has {}", ctas, ctas, request.target.arch,
                           request.target.sms),
               "use 1");
    return findings;
}

Diagnostics check_cluster_plan(const Plan& plan) {
    Diagnostics findings;
    const std::int64_t cluster = cluster_ctas(plan);
    const auto report = [&](std::string message, std::string where, std::string hint) {
        findings.push_back({"check_cluster", std::move(message), std::move(where), std::move(hint)});
    };
    if (cluster < 1 || cluster > kMostCtas) {
        report(fmt::format("a cluster of {} CTAs, 1 to {} are possible", cluster, kMostCtas), "const cluster", "use 1 or 2");
        return findings;
    }
    for (const std::vector<Step>& program : walk(plan)) {
        for (const Step& step : program) {
            const Statement& s = *step.statement;
            if (s.op != Op::ClusterArrive && s.op != Op::LoadMulticast) continue;
            const std::int64_t ctas = constant_value(plan, s.expr("ctas"));
            if (ctas != cluster) {
                report(fmt::format("{} of {} CTAs in a cluster of {}", mnemonic(step), ctas, cluster), step.where(),
                       "use the plan's const cluster");
                continue;
            }
            if (s.op != Op::LoadMulticast) continue;
            const std::int64_t rows = constant_value(plan, s.expr("rows"));
            if (rows % (kSwizzleRows * ctas) != 0)
                report(fmt::format(
                           "load_multicast splits {} rows among {} CTAs: {} each, and the swizzle repeats after {}",
                           rows, ctas, rows / ctas, kSwizzleRows),
                       step.where(), fmt::format("load a multiple of {} rows", kSwizzleRows * ctas));
        }
    }
    for (const ProgramDef& program : plan.programs) {
        if (cluster == 1 || (program.first_cta == Expr(0) && program.last_cta == Expr("ctas"))) continue;
        report(fmt::format("program {} runs on CTAs [{}, {}), which may split a cluster of {}", program.name,
                           program.first_cta.print(), program.last_cta.print(), cluster),
               "program " + program.name, "run it on all CTAs");
    }
    return findings;
}

}  // namespace plait
