// SimCluster: memory of all ranks, arguments of a launch, and what is checked around the engine.
#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <map>

#include "runtime/base/error.h"
#include "runtime/session/aligned_args.h"
#include "runtime/session/argument_binder.h"
#include "runtime/session/cluster.h"
#include "runtime/session/stall_report.h"
#include "runtime/sim/engine.h"
#include "runtime/sim/rank_memory.h"
#include "runtime/sim/sim_network.h"

namespace plait {
namespace {

constexpr std::uint64_t kAreaAlignment = 1024;  // of an artifact's area

std::uint64_t align_up(std::uint64_t value, std::uint64_t alignment) {
    return (value + alignment - 1) / alignment * alignment;
}

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
        const std::uint64_t bytes = bytes_spanned(view);
        if (bytes == 0) return;
        const MemoryKind kind = tensor.output ? MemoryKind::Output : MemoryKind::Input;
        Region* region = memory_.add(static_cast<std::uint8_t*>(view.data), bytes, kind, rank, tensor.name);
        if (std::find(regions_.begin(), regions_.end(), region) == regions_.end()) regions_.push_back(region);
        if (tensor.output) outputs_.push_back({region, view});
    }
    std::vector<UnwrittenOutput> unwritten() const {
        std::vector<UnwrittenOutput> out;
        for (const auto& [region, view] : outputs_) {
            const bool apart = view.shape.size() == 2 && view.pitch != 0;
            const std::uint64_t rows = apart ? static_cast<std::uint64_t>(view.shape[0]) : 1,
                                pitch = apart ? static_cast<std::uint64_t>(view.pitch) : 0,
                                row = region->bytes - (rows - 1) * pitch;
            UnwrittenOutput hole{region->rank, region->name, 0, 0};
            for (std::uint64_t r = 0; r < rows; ++r) {
                const std::uint64_t begin = r * pitch;
                const std::uint64_t bytes = region->shadow.unwritten_bytes(begin, begin + row);
                if (bytes != 0 && hole.bytes == 0) hole.first_byte = region->shadow.first_unwritten(begin, begin + row);
                hole.bytes += bytes;
            }
            if (hole.bytes != 0) out.push_back(hole);
        }
        return out;
    }

private:
    SimMemory& memory_;
    std::vector<Region*> regions_;
    std::vector<std::pair<const Region*, TensorView>> outputs_;
};

// No number in an output of a launch that did not end well may pass for a result. The last CTA out of a launch that was
// given up sees to that itself; a rank that is lost, a launch that throws, or a rank that had ended before others gave up
// has none.
class OutputGuard {
public:
    OutputGuard(const Manifest& manifest, const std::vector<RankTensors>& tensors)
        : manifest_(manifest), tensors_(tensors), left_(tensors.size(), false) {}
    OutputGuard(const OutputGuard&) = delete;
    OutputGuard& operator=(const OutputGuard&) = delete;
    ~OutputGuard() {
        for (std::size_t r = 0; r < tensors_.size(); ++r) {
            for (std::size_t t = 0; !left_[r] && t < tensors_[r].size(); ++t) {
                const TensorView& view = tensors_[r][t];
                if (!manifest_.tensors[t].output) continue;
                spoil_tensor(view, [](void* first, std::uint64_t bytes) { std::memset(first, 0xff, bytes); });
            }
        }
    }
    void kernel_has_left(std::size_t rank) { left_[rank] = true; }

private:
    const Manifest& manifest_;
    const std::vector<RankTensors>& tensors_;
    std::vector<bool> left_;
};

}  // namespace

struct SimCluster::Impl {
    Impl(const Topology& topology, const SimOptions& options);
    std::uint64_t attach(const Artifact& artifact);
    Launch launch_of(int rank, std::int64_t m, std::uint64_t artifact_offset);
    LaunchReport run(const Artifact& artifact, const HostModule& module, const std::vector<std::int64_t>& m,
                     const std::vector<RankTensors>& tensors);
    [[noreturn]] void fail(const LaunchReport& report);
    std::uint32_t grid(const Manifest& manifest) const;

    Topology topology;
    SimOptions options;
    std::vector<std::unique_ptr<SimRankMemory>> ranks;
    Engine engine;
    std::unique_ptr<SimNetwork> network;
    std::uint64_t workspace_end = 0;
    struct Area {
        Manifest manifest;
        std::uint64_t offset = 0;
    };
    std::map<std::string, Area> areas;  // by artifact key
    std::uint64_t launches = 0;
};

SimCluster::Impl::Impl(const Topology& topology_in, const SimOptions& options_in)
    : topology(topology_in), options(options_in), engine(topology.world(), topology.gpus_per_node, options) {
    if (topology.gpus_per_node > static_cast<int>(kMaxNodeRanks))
        throw ArgumentError(
            fmt::format("{} ranks on a node, a kernel addresses at most {}", topology.gpus_per_node, kMaxNodeRanks));
    workspace_end =
        align_up(session_area_bytes(static_cast<std::uint64_t>(topology.world())), kAreaAlignment);
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
    if (auto found = areas.find(key); found != areas.end()) return found->second.offset;
    const std::uint64_t offset = workspace_end,
                        end = align_up(offset + std::max<std::uint64_t>(artifact.manifest.workspace_bytes, 1), kAreaAlignment);
    for (auto& rank : ranks) rank->grow_workspace(engine.memory(), end);
    workspace_end = end;
    areas[key] = {artifact.manifest, offset};
    return offset;
}

std::uint32_t SimCluster::Impl::grid(const Manifest& manifest) const {
    const std::uint32_t ctas =
        options.resident_ctas != 0 ? options.resident_ctas : static_cast<std::uint32_t>(topology.sms);
    if (static_cast<std::int64_t>(ctas) < manifest.min_ctas)
        throw ArgumentError(fmt::format("{} needs {} resident CTAs a rank, the topology has {} SMs", manifest.name,
                                        manifest.min_ctas, ctas),
                            "give roles fewer SMs, or simulate larger GPUs");
    const auto cluster = static_cast<std::uint32_t>(manifest.cluster);
    return ctas / cluster * cluster;
}

Launch SimCluster::Impl::launch_of(int rank, std::int64_t m, std::uint64_t artifact_offset) {
    const RankPlace place = place_of(rank, topology.nodes, topology.gpus_per_node);
    Launch launch{};
    ranks[rank]->fill(launch);
    for (int local = 0; local < place.locals; ++local)
        launch.workspace[local] = ranks[place.node * place.locals + local]->workspace();
    launch.entry_deadline_ns = options.entry_deadline_ns;
    launch.wait_deadline_ns = options.wait_deadline_ns;
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

// Every rank's own findings, not what others told it; then who waited for what.
void SimCluster::Impl::fail(const LaunchReport& report) {
    StallPlaces places;
    places.world = static_cast<std::uint64_t>(topology.world());
    places.entry_deadline_ns = options.entry_deadline_ns;
    places.wait_deadline_ns = options.wait_deadline_ns;
    for (const auto& [key, area] : areas) places.areas.push_back({&area.manifest, area.offset});
    std::vector<StallRecord> found;
    for (std::size_t r = 0; r < ranks.size(); ++r) {
        found.push_back(placed_record(ranks[r]->state()->stall, r, reinterpret_cast<std::uintptr_t>(ranks[r]->workspace()),
                                      reinterpret_cast<std::uintptr_t>(ranks[r]->state())));
        StallRecord told;
        std::memcpy(&told, ranks[r]->workspace() + told_offset(places.world, r), sizeof(told));
        places.told.push_back(told);
    }
    StallStory first;
    for (std::size_t r = 0; r < ranks.size(); ++r) {
        const StallRecord& record = found[r];
        if (record.taken < kStallFilled || record.rank != r) continue;
        const StallStory story = describe_stall(static_cast<int>(r), record, places);
        first.message += (first.message.empty() ? "" : "\n  ") + story.message;
        if (first.hint.empty()) first.hint = story.hint;
        first.argument = first.argument || story.argument;
    }
    if (!report.stall.empty()) first.message += "\n  " + report.stall;
    throw_story(first);
}

LaunchReport SimCluster::Impl::run(const Artifact& artifact, const HostModule& module,
                                   const std::vector<std::int64_t>& m, const std::vector<RankTensors>& tensors) {
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
    if (options.occupied_sms >= launch.ctas)
        throw ArgumentError(
            fmt::format("{} of {} simulated SMs are occupied: no CTA can start", options.occupied_sms, launch.ctas));
    launch.cluster = static_cast<std::uint32_t>(manifest.cluster);
    launch.resident -= options.occupied_sms;
    if (launch.resident < launch.cluster)
        throw ArgumentError(fmt::format("{} of {} simulated SMs are occupied: no cluster of {} CTAs can start",
                                        options.occupied_sms, launch.ctas, launch.cluster));
    for (int r = 0; r < topology.world(); ++r)
        tensor_shapes(manifest, place_of(r, topology.nodes, topology.gpus_per_node), m[r],
                      infer_params(manifest, tensors[static_cast<std::size_t>(r)]));  // checks the artifact
    const std::uint64_t offset = attach(artifact);
    TensorRegions regions(engine.memory());
    std::vector<AlignedArgs> args;
    for (int r = 0; r < topology.world(); ++r) {
        const RankPlace place = place_of(r, topology.nodes, topology.gpus_per_node);
        args.emplace_back(bind_arguments(manifest, launch_of(r, m[r], offset), place, tensors[r], encode_host_map));
        for (std::size_t t = 0; t < tensors[r].size(); ++t) regions.add(manifest.tensors[t], tensors[r][t], r);
    }
    for (const AlignedArgs& rank_args : args) launch.args.push_back(rank_args.data());
    OutputGuard outputs(manifest, tensors);
    LaunchReport report = engine.run(launch);
    for (std::size_t r = 0; r < ranks.size(); ++r) {
        const bool gave_up = ranks[r]->state()->abort != 0, gone = static_cast<int>(r) == options.lost.rank && !options.lost.returns;
        if (!report.aborted || (gave_up && !gone)) outputs.kernel_has_left(r);
    }
    if (report.aborted) fail(report);
    if (engine.order().enabled()) report.unwritten = regions.unwritten();
    ++launches;
    return report;
}

SimCluster::SimCluster(const Topology& topology, const SimOptions& options)
    : impl_(std::make_unique<Impl>(topology, options)) {}
SimCluster::~SimCluster() = default;
LaunchReport SimCluster::launch(const Artifact& artifact, const HostModule& module, std::int64_t m,
                                const std::vector<RankTensors>& tensors) {
    return impl_->run(artifact, module, std::vector<std::int64_t>(impl_->ranks.size(), m), tensors);
}
LaunchReport SimCluster::launch(const Artifact& artifact, const HostModule& module, const std::vector<std::int64_t>& m,
                                const std::vector<RankTensors>& tensors) {
    if (m.size() != impl_->ranks.size())
        throw ArgumentError(fmt::format("M of {} ranks was given, the cluster has {}", m.size(), impl_->ranks.size()));
    return impl_->run(artifact, module, m, tensors);
}
std::uint64_t SimCluster::launches() const { return impl_->launches; }

}  // namespace plait
