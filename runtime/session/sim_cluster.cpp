// SimCluster: memory of all ranks, arguments of a launch, and what is checked around the engine.
#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <map>

#include "runtime/base/error.h"
#include "runtime/session/bind.h"
#include "runtime/session/cluster.h"
#include "runtime/session/stall_report.h"
#include "runtime/sim/engine.h"
#include "runtime/sim/rank_memory.h"
#include "runtime/sim/sim_network.h"

namespace plait {
namespace {

constexpr std::uint64_t kArgsAlignment = 64;    // of a TensorMap
constexpr std::uint64_t kAreaAlignment = 1024;  // of an artifact's area

std::uint64_t align_up(std::uint64_t value, std::uint64_t alignment) {
    return (value + alignment - 1) / alignment * alignment;
}

// Arguments of one rank at the alignment that a kernel's Args has.
class AlignedArgs {
public:
    explicit AlignedArgs(const std::vector<unsigned char>& bytes) : storage_(bytes.size() + kArgsAlignment) {
        const auto address = reinterpret_cast<std::uintptr_t>(storage_.data());
        offset_ = align_up(address, kArgsAlignment) - address;
        std::memcpy(storage_.data() + offset_, bytes.data(), bytes.size());
    }
    const void* data() const { return storage_.data() + offset_; }

private:
    std::vector<unsigned char> storage_;
    std::uint64_t offset_ = 0;
};

// The caller's tensors are known to the engine for one launch.
class TensorRegions {
public:
    explicit TensorRegions(SimMemory& memory) : memory_(memory) {}
    TensorRegions(const TensorRegions&) = delete;
    TensorRegions& operator=(const TensorRegions&) = delete;
    ~TensorRegions() {
        for (const Region* region : regions_) memory_.remove(region);
    }
    void add(const ManifestTensor& tensor, const TensorView& view, int rank) {
        std::uint64_t bytes = view.dtype == "f32" || view.dtype == "i32" ? 4 : 2;
        for (std::int64_t extent : view.shape) bytes *= static_cast<std::uint64_t>(extent);
        if (bytes == 0) return;
        const MemoryKind kind = tensor.output ? MemoryKind::Output : MemoryKind::Input;
        Region* region = memory_.add(static_cast<std::uint8_t*>(view.data), bytes, kind, rank, tensor.name);
        if (std::find(regions_.begin(), regions_.end(), region) == regions_.end()) regions_.push_back(region);
    }
    std::vector<UnwrittenOutput> unwritten() const {
        std::vector<UnwrittenOutput> out;
        for (const Region* region : regions_) {
            if (region->kind != MemoryKind::Output) continue;
            const std::uint64_t bytes = region->shadow.unwritten_bytes(region->bytes);
            if (bytes != 0)
                out.push_back({region->rank, region->name, region->shadow.first_unwritten(0, region->bytes), bytes});
        }
        return out;
    }

private:
    SimMemory& memory_;
    std::vector<Region*> regions_;
};

}  // namespace

struct SimCluster::Impl {
    Impl(const Topology& topology, const SimOptions& options);
    std::uint64_t attach(const Artifact& artifact);
    Launch launch_of(int rank, std::int64_t m, std::uint64_t artifact_offset);
    LaunchReport run(const Artifact& artifact, const HostModule& module, std::int64_t m,
                     const std::vector<RankTensors>& tensors);
    std::uint32_t grid(const Manifest& manifest) const;
    void throw_if_stalled(int rank, const Manifest& manifest, std::uint64_t area) const;

    Topology topology;
    SimOptions options;
    std::vector<std::unique_ptr<SimRankMemory>> ranks;
    Engine engine;
    std::unique_ptr<SimNetwork> network;
    std::uint64_t workspace_end = 0;
    std::map<std::string, std::uint64_t> areas;  // by artifact key
    std::uint64_t launches = 0;
};

SimCluster::Impl::Impl(const Topology& topology_in, const SimOptions& options_in)
    : topology(topology_in), options(options_in), engine(topology.world(), topology.gpus_per_node, options) {
    if (topology.gpus_per_node > static_cast<int>(kMaxNodeRanks))
        throw ArgumentError(
            fmt::format("{} ranks on a node, a kernel addresses at most {}", topology.gpus_per_node, kMaxNodeRanks));
    workspace_end =
        align_up(kEnteredOffset + kFlagLineBytes * static_cast<std::uint64_t>(topology.world()), kAreaAlignment);
    std::vector<ProxyRings> rings;
    for (int r = 0; r < topology.world(); ++r) {
        ranks.push_back(std::make_unique<SimRankMemory>(options.fifo_slots, options.arrival_slots));
        ranks.back()->add_regions(engine.memory(), r, engine.rank(r).node, workspace_end);
        engine.rank(r).workspace = ranks.back()->workspace();
        engine.rank(r).state = ranks.back()->state();
        rings.push_back(ranks.back()->rings());
    }
    network = std::make_unique<SimNetwork>(engine, options, rings);
}

// Where the artifact's area starts in every workspace; given out at its first launch.
std::uint64_t SimCluster::Impl::attach(const Artifact& artifact) {
    const std::string key = artifact.manifest.key.empty() ? artifact.manifest.name : artifact.manifest.key;
    if (auto found = areas.find(key); found != areas.end()) return found->second;
    const std::uint64_t offset = workspace_end,
                        end = align_up(offset + artifact.manifest.workspace_bytes, kAreaAlignment);
    for (auto& rank : ranks) rank->grow_workspace(engine.memory(), end);
    workspace_end = end;
    areas[key] = offset;
    return offset;
}

std::uint32_t SimCluster::Impl::grid(const Manifest& manifest) const {
    const std::uint32_t ctas =
        options.resident_ctas != 0 ? options.resident_ctas : static_cast<std::uint32_t>(topology.sms);
    if (static_cast<std::int64_t>(ctas) < manifest.min_ctas)
        throw ArgumentError(fmt::format("{} needs {} resident CTAs a rank, the topology has {} SMs", manifest.name,
                                        manifest.min_ctas, ctas),
                            "give roles fewer SMs, or simulate larger GPUs");
    return ctas;
}

Launch SimCluster::Impl::launch_of(int rank, std::int64_t m, std::uint64_t artifact_offset) {
    const RankPlace place = place_of(rank, topology.nodes, topology.gpus_per_node);
    Launch launch{};
    ranks[rank]->fill(launch);
    for (int local = 0; local < place.locals; ++local)
        launch.workspace[local] = ranks[place.node * place.locals + local]->workspace();
    launch.m = m;
    launch.rank = rank;
    launch.world = place.world;
    launch.node = place.node;
    launch.nodes = place.nodes;
    launch.local_rank = place.local;
    launch.local_ranks = place.locals;
    launch.artifact_offset = artifact_offset;
    return launch;
}

// What Session::check says: a kernel that met a broken promise has run to its end.
void SimCluster::Impl::throw_if_stalled(int rank, const Manifest& manifest, std::uint64_t area) const {
    const DeviceState& state = *ranks[rank]->state();
    if (state.stall.taken == 0) return;
    StallPlaces places;
    places.workspace = reinterpret_cast<std::uint64_t>(ranks[rank]->workspace());
    places.workspace_bytes = workspace_end;
    places.state = reinterpret_cast<std::uint64_t>(&state);
    places.areas = {{&manifest, area}};
    places.last_launched = &manifest;
    throw_stall(rank, state.stall, places);
}

LaunchReport SimCluster::Impl::run(const Artifact& artifact, const HostModule& module, std::int64_t m,
                                   const std::vector<RankTensors>& tensors) {
    const Manifest& manifest = artifact.manifest;
    if (manifest.arch != "host")
        throw ArgumentError(
            fmt::format("{} was compiled for {}, the simulator runs host", manifest.name, manifest.arch));
    if (!module.kernel) throw ArgumentError(fmt::format("{} has no loaded code", manifest.name));
    if (tensors.size() != ranks.size())
        throw ArgumentError(
            fmt::format("tensors of {} ranks were given, the cluster has {}", tensors.size(), ranks.size()));
    EngineLaunch launch;
    launch.kernel = module.kernel;
    launch.agents = manifest.agents;
    launch.sites = manifest.wait_sites;
    std::sort(launch.sites.begin(), launch.sites.end(),
              [](const WaitSite& a, const WaitSite& b) { return a.id < b.id; });
    launch.shared_bytes = static_cast<std::uint64_t>(manifest.shared_bytes);
    launch.ctas = launch.resident = grid(manifest);
    for (int r = 0; r < topology.world(); ++r)
        tensor_shapes(manifest, place_of(r, topology.nodes, topology.gpus_per_node), m,
                      infer_params(manifest, tensors[static_cast<std::size_t>(r)]));  // checks the artifact
    const std::uint64_t offset = attach(artifact);
    TensorRegions regions(engine.memory());
    std::vector<AlignedArgs> args;
    for (int r = 0; r < topology.world(); ++r) {
        const RankPlace place = place_of(r, topology.nodes, topology.gpus_per_node);
        args.emplace_back(bind_arguments(manifest, launch_of(r, m, offset), place, tensors[r], encode_host_map));
        for (std::size_t t = 0; t < tensors[r].size(); ++t) regions.add(manifest.tensors[t], tensors[r][t], r);
    }
    for (const AlignedArgs& rank_args : args) launch.args.push_back(rank_args.data());
    LaunchReport report = engine.run(launch);
    for (int r = 0; r < topology.world(); ++r) throw_if_stalled(r, manifest, offset);
    if (engine.order().enabled()) report.unwritten = regions.unwritten();
    ++launches;
    return report;
}

SimCluster::SimCluster(const Topology& topology, const SimOptions& options)
    : impl_(std::make_unique<Impl>(topology, options)) {}
SimCluster::~SimCluster() = default;
LaunchReport SimCluster::launch(const Artifact& artifact, const HostModule& module, std::int64_t m,
                                const std::vector<RankTensors>& tensors) {
    return impl_->run(artifact, module, m, tensors);
}
std::uint64_t SimCluster::launches() const { return impl_->launches; }

}  // namespace plait
