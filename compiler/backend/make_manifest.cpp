#include "compiler/backend/make_manifest.h"

#include <algorithm>
#include <map>
#include <set>

#include "compiler/codegen/emit.h"
#include "compiler/ir/plan_sizes.h"
#include "runtime/base/error.h"
#include "templates/abi/kernel_args.h"

namespace plait {
namespace {

// The runtime evaluates sizes before a launch: of constants and lets only those that need nothing of the kernel's.
std::vector<ManifestLet> launch_lets(const Plan& plan) {
    std::set<std::string> known = {"M", "rank", "world", "node", "nodes", "local", "locals"};
    for (const ParamDef& param : plan.params) known.insert(param.name);
    std::vector<ManifestLet> lets;
    for (const Constant& constant : plan.consts) {
        if (known.insert(constant.name).second) lets.push_back({constant.name, Expr(constant.value)});
    }
    for (const LetDef& let : plan.lets) {
        std::set<std::string> needs = let.value.names();
        if (!std::includes(known.begin(), known.end(), needs.begin(), needs.end())) continue;
        known.insert(let.name);
        lets.push_back({let.name, let.value});
    }
    return lets;
}

std::map<std::string, std::uint64_t> offsets_of(const Plan& plan, const std::string& kind) {
    std::map<std::string, std::uint64_t> offsets;
    for (const ArgsField& field : args_layout(plan)) {
        if (field.kind == kind) offsets[field.name] = field.offset;
    }
    return offsets;
}

// Tensors whose rows a gather copies, 16 bytes at a time.
void collect_gathered(const std::vector<Statement>& body, std::set<std::string>& names) {
    for (const Statement& s : body) {
        if (s.op == Op::GatherIndex) {
            names.insert(s.word("source"));
            if (s.has("more_source")) names.insert(s.word("more_source"));
        }
        collect_gathered(s.body, names);
    }
}

ManifestMap manifest_map(const Plan& plan, const MapDef& map, std::uint64_t array_offset) {
    auto buffer = std::find_if(plan.buffers.begin(), plan.buffers.end(),
                               [&](const BufferDef& b) { return b.name == map.memory; });
    bool in_workspace = buffer != plan.buffers.end();
    ManifestMap result;
    result.name = map.name;
    result.dtype = map.dtype;
    result.index = map.index;
    result.memory = in_workspace ? "workspace" : map.memory;
    result.base_bytes = in_workspace && buffer->offset > 0 ? Expr(std::int64_t(buffer->offset)) + map.base : map.base;
    result.extent = map.extent;
    result.stride_bytes = map.stride;
    result.box = map.box;
    result.args_offset = array_offset + std::uint64_t(map.index) * sizeof(TensorMap);
    return result;
}

}  // namespace

Manifest make_manifest(const Plan& plan, const Problem& problem, const std::string& semantics) {
    Manifest m;
    m.abi_version = kAbiVersion;
    m.name = plan.name;
    m.arch = plan.target;
    m.semantics = semantics;
    m.world = plan.world;
    m.nodes = plan.nodes;
    m.locals = plan.locals;
    m.m_max = plan.m_max;
    m.n = problem.n;
    m.k = problem.k;
    m.threads = plan.threads;
    m.shared_bytes = std::int64_t(shared_bytes(plan));
    m.args_bytes = std::int64_t(args_bytes(plan));
    m.min_ctas = min_ctas(plan);
    m.cluster = cluster_ctas(plan);
    m.workspace_bytes = workspace_bytes(plan);
    m.session_state = uses_session_state(plan);
    m.receive_bytes = m.workspace_bytes;
    for (const FlagDef& flag : plan.flags)
        if (!flag.session) m.receive_bytes = std::min(m.receive_bytes, flag.offset);
    for (const AgentDef& agent : plan.agents) m.agents.push_back(agent.name);
    const std::map<std::string, std::uint64_t> params = offsets_of(plan, "param");
    for (const ParamDef& param : plan.params) m.params.push_back({param.name, param.max, params.at(param.name), param.positive});
    m.lets = launch_lets(plan);
    std::map<std::string, std::uint64_t> tensors = offsets_of(plan, "tensor"), maps = offsets_of(plan, "map"),
                                         pitches = offsets_of(plan, "pitch");
    std::set<std::string> gathered;
    for (const ProgramDef& program : plan.programs) collect_gathered(program.body, gathered);
    for (const TensorDef& t : plan.tensors)
        m.tensors.push_back({t.name, t.dtype, t.shape, t.output, tensors.at(t.name), t.strided ? t.pitch() : "",
                             t.strided ? pitches.at(t.pitch()) : 0, gathered.count(t.name) != 0});
    for (const MapDef& map : plan.maps) m.maps.push_back(manifest_map(plan, map, maps.at(map.name)));
    for (const PrintedWait& wait : printed_waits(plan))
        m.wait_sites.push_back({wait.id, wait.role, wait.agent, wait.flag, wait.kind});
    for (const FlagDef& flag : plan.flags)
        if (!flag.session) m.flags.push_back({flag.name, flag.offset, std::uint64_t(flag.count)});
    return m;
}

}  // namespace plait
