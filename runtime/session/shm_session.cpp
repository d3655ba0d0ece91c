#include "runtime/session/shm_session.h"

#include <fmt/format.h>

#include <algorithm>

#include "runtime/base/error.h"
#include "runtime/session/attach_agreement.h"

namespace plait {
namespace {

constexpr std::uint64_t kAreaAlignment = 4096;

std::uint64_t round_up(std::uint64_t value, std::uint64_t unit) { return (value + unit - 1) / unit * unit; }

void check_options(const Topology& topology, const SessionOptions& options) {
    const auto power_of_two = [](std::uint64_t value) { return value != 0 && (value & (value - 1)) == 0; };
    if (!power_of_two(options.fifo_slots) || !power_of_two(options.arrival_slots)) {
        throw ArgumentError(fmt::format("fifo_slots = {} and arrival_slots = {} must be powers of two",
                                        options.fifo_slots, options.arrival_slots));
    }
    if (topology.gpus_per_node > static_cast<int>(kMaxNodeRanks)) {
        throw ArgumentError(fmt::format("topology {} has {} ranks per node, kernels address {}", topology.name,
                                        topology.gpus_per_node, kMaxNodeRanks));
    }
    if (topology.nodes > 1 && (topology.nics.empty() || topology.nics[0].transport != Transport::Loopback)) {
        throw ArgumentError(fmt::format("topology {}: ranks on CPUs reach other nodes through loopback NICs alone",
                                        topology.name),
                            "describe its NICs with transport loopback; all ranks are processes of one machine");
    }
    if (options.sm_budget < 0 || options.host_threads < 0) {
        throw ArgumentError(fmt::format("sm_budget is {} and host_threads {}", options.sm_budget, options.host_threads),
                            "0 means the topology's SMs, and the cores divided by the ranks");
    }
}

// AOT: what plaitc --target host wrote.
HostModule open_compiled_code(const Artifact& artifact) {
    if (!artifact.code_file.ends_with(".so")) {
        throw ArgumentError(fmt::format("artifact {} is no shared object on disk, and no JIT was handed in to load it",
                                        artifact.manifest.name),
                            "load a directory that plaitc --target host wrote");
    }
    return open_shared_object(artifact.code_file);
}

}  // namespace

std::unique_ptr<Session> Session::create_on_host(const Topology& topology, int rank,
                                                 std::shared_ptr<Rendezvous> rendezvous, HostLoader load,
                                                 const SessionOptions& options) {
    place_of(rank, topology.nodes, topology.gpus_per_node);
    check_options(topology, options);
    if (!load) load = open_compiled_code;
    return std::make_unique<ShmSession>(topology, rank, std::move(rendezvous), std::move(load), options);
}

ShmSession::ShmSession(const Topology& topology, int rank, std::shared_ptr<Rendezvous> rendezvous, HostLoader load,
                       const SessionOptions& options)
    : topology_(topology),
      place_(place_of(rank, topology.nodes, topology.gpus_per_node)),
      options_(options),
      load_(std::move(load)),
      group_(std::move(rendezvous), rank, topology.world(), options.rendezvous_timeout_ns),
      engine_(options.host_threads > 0 ? options.host_threads : default_shm_threads(topology.world())),
      state_(std::make_unique<DeviceState>()),
      lines_(std::make_unique<HostLines>()),
      fifo_(options.fifo_slots),
      arrivals_(options.arrival_slots) {
    meet();
    workspace_ = std::make_unique<ShmWorkspace>(
        ShmWorkspaceOptions{place_.rank, round_up(options_.workspace_bytes, kAreaAlignment),
                            options_.rendezvous_timeout_ns},
        [this](const std::string& name, const std::string& value) { return group_.all_gather(name, value); });
    next_area_ = round_up(session_area_bytes(static_cast<u64>(place_.world)), kAreaAlignment);
    const std::string outcome = outcome_of([&] {
        workspace_->commit(next_area_);
        make_network();
        return std::string("ready");
    });
    throw_failures(group_.all_gather("ready", outcome), "creating the session");
}

ShmSession::~ShmSession() = default;

void ShmSession::meet() {
    RankHello own;
    own.abi_version = kAbiVersion;
    own.topology = topology_.to_json_text();
    own.host = machine_identity();
    own.gpu = "cpu";
    own.network = contract_name(options_.network);
    own.sms = topology_.sms;
    own.sm_budget = options_.sm_budget;
    std::vector<RankHello> hellos;
    const std::vector<std::string> texts = group_.all_gather("hello", own.to_text());
    for (std::size_t rank = 0; rank < texts.size(); ++rank)
        hellos.push_back(RankHello::from_text(texts[rank], static_cast<int>(rank)));
    check_hellos(hellos, topology_);
}

void ShmSession::make_network() {
    if (place_.nodes == 1) return;
    ShmNetworkOptions network;
    network.rank = place_.rank;
    network.ranks_per_node = place_.locals;
    for (int rank = 0; rank < place_.world; ++rank)
        network.workspaces.push_back({workspace_->base(rank), workspace_->bytes()});
    network.contract = options_.network;
    for (const NicInfo& nic : topology_.nics) {
        if (nic.gpu == place_.local && network.nic.empty()) network.nic = nic.name;
    }
    network.exchange =
        exchange_through(make_prefixed_rendezvous(group_.rendezvous(), "network/"), options_.rendezvous_timeout_ns);
    network.rings = {fifo_.data(), fifo_.size(), arrivals_.data(), arrivals_.size(), lines_.get()};
    network_ = std::make_unique<ShmNetwork>(network);
}

ShmSession::Program ShmSession::load_program(const Artifact& artifact) const {
    const Manifest& manifest = artifact.manifest;
    if (manifest.arch != "host") {
        throw ArgumentError(
            fmt::format("artifact {} is for {}, this session runs host code", manifest.name, manifest.arch),
            "compile it for the target host");
    }
    check_artifact(manifest, place_);
    const std::int64_t ctas = options_.sm_budget > 0 ? options_.sm_budget : topology_.sms;
    if (manifest.min_ctas > ctas) {
        throw ArgumentError(fmt::format("artifact {} needs {} CTAs at least, a launch of this session has {}",
                                        manifest.name, manifest.min_ctas, ctas),
                            "raise sm_budget, give its roles fewer SMs, or set the knob cluster = 1 where it has clusters");
    }
    Program program{manifest, load_(artifact), 0};
    if (program.module.kernel == nullptr)
        throw ArgumentError(fmt::format("artifact {} has no loaded code", manifest.name), "compile it again");
    return program;
}

int ShmSession::attach(const Artifact& artifact) {
    const std::lock_guard lock(mutex_);
    check_locked();
    std::unique_ptr<Program> program;
    // An area also says which artifact a record is of: none is empty.
    const std::uint64_t bytes = std::max<std::uint64_t>(artifact.manifest.workspace_bytes, 1);
    // An area is fresh memory, hence zero, and it is mapped everywhere already: a rank that launches at once finds it.
    agree_on_artifact(group_, artifact.manifest, next_area_, [&] {
        program = std::make_unique<Program>(load_program(artifact));
        workspace_->commit(next_area_ + bytes);
    });
    program->area_offset = next_area_;
    next_area_ = round_up(next_area_ + bytes, kAreaAlignment);
    programs_.push_back(std::move(program));
    return static_cast<int>(programs_.size()) - 1;
}

}  // namespace plait
