// Placements fit the topology and the target, and every role that takes SMs has work.
#include <fmt/format.h>

#include "compiler/verify/rules.h"
#include "templates/abi/kernel_args.h"

namespace plait {
namespace {

class Roles {
public:
    explicit Roles(const Request& r) : r_(r) {
        Diagnostics unused;
        known_ = match_pattern(r.graph, &unused).has_value();
        const auto pattern = pattern_as<FusedPattern>(r.graph);
        gathers_ = pattern && pattern->all_gather && r.topology.world() > 1;
    }

    Diagnostics run() {
        if (r_.topology.gpus_per_node > int(kMaxNodeRanks)) {
            report(fmt::format("topology {} has {} GPUs a node, a kernel addresses {}", r_.topology.label(),
                               r_.topology.gpus_per_node, kMaxNodeRanks),
                   "/topology/gpus_per_node", "split the node");
        }
        role("intra_comm", gathers_ && r_.topology.gpus_per_node > 1,
             fmt::format("{} ranks of a node exchange shards", r_.topology.gpus_per_node));
        role("inter_send", gathers_ && r_.topology.nodes > 1,
             fmt::format("shards cross between {} nodes", r_.topology.nodes));
        role("inter_reduce", false, "");
        sums();
        return std::move(findings_);
    }

private:
    void report(std::string message, std::string where, std::string hint) {
        findings_.push_back({"check_roles", std::move(message), std::move(where), std::move(hint)});
    }

    void role(const std::string& name, bool has_work, const std::string& work) {
        const std::string& placement = r_.schedule.word(name);
        const std::int64_t sms = r_.schedule.integer(name + "_sms");
        const std::string where = "/schedule/" + name;
        if (has_work && placement == "none") {
            report(fmt::format("role {} has no placement, but {}", name, work), where, "place it: phase, sms or warp");
        }
        const bool counted = placement == "sms" || placement == "phase";
        // A simulated GPU has few SMs and takes the schedules of large ones: phase ranges are clamped by the CTAs there are.
        if (has_work && counted && !r_.target.is_host() && sms > r_.target.sms)
            report(fmt::format("role {} is placed on {} SMs, {} has {}", name, sms, r_.target.arch, r_.target.sms), where + "_sms",
                   fmt::format("give it at most {}", r_.target.sms));
        if (has_work && counted && sms == 0)
            report(fmt::format("role {} is placed as {} on 0 SMs", name, placement), where + "_sms",
                   "give it at least one");
        // A schedule that serves many topologies names roles that some of them leave idle; only wasted SMs are refused.
        const bool wastes =
            name == "inter_reduce" ? placement != "none" : placement == "sms" && r_.schedule.is_set(name);
        if (!has_work && known_ && wastes) {
            const std::string reason = name == "inter_reduce" ? "the graph reduces nothing between nodes"
                                       : !gathers_            ? "no rows are gathered"
                                                   : fmt::format("topology {} gives it none", r_.topology.label());
            report(fmt::format("role {} is placed as {} but has no work: {}", name, placement, reason), where,
                   "set it to none");
        }
        if (has_work && placement == "sms")
            taken_ += sms, list_ += fmt::format("{}{} {}", list_.empty() ? "" : " + ", name, sms);
    }

    void sums() {
        if (taken_ == 0 || taken_ < r_.target.sms) return;
        report(fmt::format("roles take {} SMs ({}), {} has {} and compute needs one", taken_, list_, r_.target.arch,
                           r_.target.sms),
               "/schedule", "give the roles fewer SMs, or place them as phase or warp");
    }

    const Request& r_;
    Diagnostics findings_;
    bool gathers_ = false, known_ = false;
    std::int64_t taken_ = 0;
    std::string list_;
};

}  // namespace

Diagnostics check_roles(const Request& request) { return Roles(request).run(); }

}  // namespace plait
