#include "runtime/session/cuda_session.h"

#include <fmt/format.h>

#include <algorithm>

#include "runtime/base/error.h"
#include "runtime/session/attach_agreement.h"

namespace plait {
namespace {

constexpr std::uint64_t kAreaAlignment = 4096;
constexpr std::uint64_t kPinnedPage = 4096;

std::uint64_t round_up(std::uint64_t value, std::uint64_t unit) { return (value + unit - 1) / unit * unit; }

void check_options(const Topology& topology, const SessionOptions& options) {
    const auto power_of_two = [](std::uint64_t value) { return value != 0 && (value & (value - 1)) == 0; };
    if (!power_of_two(options.fifo_slots) || !power_of_two(options.arrival_slots)) {
        throw ArgumentError(fmt::format("fifo_slots = {} and arrival_slots = {} must be powers of two",
                                        options.fifo_slots, options.arrival_slots));
    }
    if (topology.gpus_per_node > static_cast<int>(kMaxNodeRanks)) {
        throw ArgumentError(fmt::format("topology {} has {} GPUs per node, kernels address {}", topology.name,
                                        topology.gpus_per_node, kMaxNodeRanks));
    }
    if (topology.nodes > 1 && (topology.nics.empty() || topology.nics[0].transport != Transport::Loopback)) {
        throw ArgumentError(
            fmt::format("topology {}: GPUs reach other nodes through loopback NICs alone in this version",
                        topology.name),
            "describe its NICs with transport loopback");
    }
    if (options.sm_budget < 0)
        throw ArgumentError(fmt::format("sm_budget is {}", options.sm_budget), "0 means all SMs");
}

std::string uuid_text(const cu::Uuid& uuid) {
    std::string text;
    for (unsigned char byte : uuid.bytes) text += fmt::format("{:02x}", byte);
    return text;
}

}  // namespace

CudaSession::PinnedLayout::PinnedLayout(const SessionOptions& options, int world)
    : fifo(round_up(sizeof(HostLines), kPinnedPage)),
      arrivals(round_up(fifo + options.fifo_slots * sizeof(TransferCommand), kPinnedPage)),
      mirror(round_up(arrivals + options.arrival_slots * sizeof(Arrival), kPinnedPage)),
      record(round_up(mirror + sizeof(DeviceState) + session_area_bytes(static_cast<u64>(world)), kPinnedPage)),
      bytes(record + sizeof(StallRecord)) {}

std::unique_ptr<Session> Session::create(const Topology& topology, int rank, std::shared_ptr<Rendezvous> rendezvous,
                                         std::shared_ptr<const Driver> driver, const SessionOptions& options) {
    place_of(rank, topology.nodes, topology.gpus_per_node);
    check_options(topology, options);
    check_driver(*driver, driver->init(0), "initialising the CUDA driver");
    auto context = std::make_shared<PrimaryContext>(driver, options.device);
    const ContextScope current(*driver, context->get());
    return std::make_unique<CudaSession>(topology, rank, std::move(rendezvous), driver, context, options);
}

CudaSession::CudaSession(const Topology& topology, int rank, std::shared_ptr<Rendezvous> rendezvous,
                         std::shared_ptr<const Driver> driver, std::shared_ptr<PrimaryContext> context,
                         const SessionOptions& options)
    : topology_(topology),
      place_(place_of(rank, topology.nodes, topology.gpus_per_node)),
      options_(options),
      layout_(options, topology.world()),
      driver_(std::move(driver)),
      context_(std::move(context)),
      group_(std::move(rendezvous), rank, topology.world(), options.rendezvous_timeout_ns) {
    check_device();
    control_ = std::make_unique<PrivateStream>(driver_);
    chain_ = std::make_unique<OrderingEvent>(driver_);
    check_driver(*driver_, driver_->event_record(chain_->get(), control_->get(), 0), "recording the first event");
    meet();
    make_workspace();
    make_network();
    throw_failures(group_.all_gather("ready", "ready"), "creating the session");
}

CudaSession::~CudaSession() {
    try {
        const ContextScope current(*driver_, context_->get());
        const CaptureModeScope relaxed(*driver_, cu::CaptureMode::Relaxed);
        // A running kernel uses everything below; its own deadlines bound this wait.
        driver_->event_synchronize(chain_->get());
        if (unchained_launches_) driver_->context_synchronize();  // they may run on any stream, also one that is gone
        network_.reset();
        programs_.clear();
        pinned_.reset();
        state_.reset();
        workspace_.reset();
        chain_.reset();
        control_.reset();
    } catch (const Error&) {
        // The context is gone, and with it what it held; the owners below find that out and have nothing to free.
    }
}

void CudaSession::check_device() const {
    const auto need = [&](int attribute, const char* what) {
        if (device_attribute(*driver_, context_->device(), attribute) == 0) {
            throw DeviceError(fmt::format("device {} has no {}", options_.device, what));
        }
    };
    need(cu::kVirtualMemoryManagementSupported, "virtual memory management");
    need(cu::kPosixFileDescriptorSupported, "memory handles as file descriptors");
    need(cu::kCooperativeLaunch, "cooperative launch");
}

AllGather CudaSession::all_gather() {
    return [this](const std::string& name, const std::string& value) { return group_.all_gather(name, value); };
}

void CudaSession::meet() {
    cu::Uuid uuid = {};
    check_driver(*driver_, driver_->device_uuid(&uuid, context_->device()), "asking for the device's UUID");
    RankHello own;
    own.abi_version = kAbiVersion;
    own.topology = topology_.to_json_text();
    own.host = machine_identity();
    own.gpu = uuid_text(uuid);
    own.network = contract_name(options_.network);
    own.sms = device_attribute(*driver_, context_->device(), cu::kMultiprocessorCount);
    own.sm_budget = options_.sm_budget;
    std::vector<RankHello> hellos;
    const std::vector<std::string> texts = group_.all_gather("hello", own.to_text());
    for (std::size_t rank = 0; rank < texts.size(); ++rank)
        hellos.push_back(RankHello::from_text(texts[rank], static_cast<int>(rank)));
    check_hellos(hellos, topology_);
    const SmShare share = sm_share(hellos, place_.rank);
    budget_ = {context_->device(), own.sms, share.ctas, share.ranks_on_gpu == 1};
}

void CudaSession::make_workspace() {
    WorkspaceOptions workspace;
    workspace.rank = place_.rank;
    workspace.device = context_->device();
    workspace.reserve_bytes = options_.workspace_bytes;
    workspace.timeout_ns = options_.rendezvous_timeout_ns;
    // Loopback between nodes copies into the other ranks' workspaces, so all are mapped.
    for (int rank = 0; rank < place_.world; ++rank) {
        if (place_.nodes > 1 || rank / place_.locals == place_.node) workspace.mapped_ranks.push_back(rank);
    }
    workspace_ = std::make_unique<SymmetricWorkspace>(driver_, workspace, all_gather());
    next_area_ = round_up(session_area_bytes(static_cast<u64>(place_.world)), kAreaAlignment);
    workspace_->grow(next_area_);
    const std::string outcome = outcome_of([&] {
        make_rings();
        zero(workspace_->base(place_.rank), next_area_, "the session's flags");
        zero(state_->get(), sizeof(DeviceState), "the device state");
        control_->synchronize("zeroing the session's memory");
        return "zeroed";
    });
    throw_failures(group_.all_gather("memory", outcome), "creating the session");
}

void CudaSession::make_rings() {
    state_ = std::make_unique<DeviceMemory>(driver_, sizeof(DeviceState), "the device state");
    pinned_ = std::make_unique<PinnedMemory>(driver_, layout_.bytes, "host lines and rings");
}

void CudaSession::make_network() {
    if (place_.nodes == 1) return;
    CudaNetworkOptions network;
    network.driver = driver_;
    network.context = context_->get();
    network.rank = place_.rank;
    network.world = place_.world;
    for (int rank = 0; rank < place_.world; ++rank) network.bases.push_back(workspace_->base(rank));
    network.workspace_bytes = workspace_->reserved();
    network.contract = options_.network;
    for (const NicInfo& nic : topology_.nics) {
        if (nic.gpu == place_.local && network.nic.empty()) network.nic = nic.name;
    }
    network.exchange =
        exchange_through(make_prefixed_rendezvous(group_.rendezvous(), "network/"), options_.rendezvous_timeout_ns);
    network.rings.fifo = reinterpret_cast<TransferCommand*>(pinned_->host() + layout_.fifo);
    network.rings.fifo_slots = options_.fifo_slots;
    network.rings.arrivals = reinterpret_cast<Arrival*>(pinned_->host() + layout_.arrivals);
    network.rings.arrival_slots = options_.arrival_slots;
    network.rings.lines = lines();
    network.ranks_per_node = place_.locals;
    network_ = std::make_unique<CudaNetwork>(network);
}

void CudaSession::zero(cu::DevicePointer first, std::uint64_t bytes, const std::string& what) {
    check_driver(*driver_, driver_->set_bytes_async(first, 0, bytes, control_->get()), fmt::format("zeroing {}", what));
}

int CudaSession::attach(const Artifact& artifact) {
    const std::lock_guard lock(mutex_);
    const ContextScope current(*driver_, context_->get());
    std::unique_ptr<CudaProgram> program;
    agree_on_artifact(group_, artifact.manifest, next_area_,
                      [&] { program = std::make_unique<CudaProgram>(driver_, artifact, place_, budget_); });
    // An area also says which artifact a record is of: none is empty.
    const std::uint64_t bytes = std::max<std::uint64_t>(artifact.manifest.workspace_bytes, 1);
    workspace_->grow(next_area_ + bytes);
    // Nobody launches before every rank's flags are zero.
    const std::string zeroed = outcome_of([&] {
        if (artifact.manifest.workspace_bytes > 0) zero(workspace_->base(place_.rank) + next_area_, bytes, "the artifact's area");
        control_->synchronize("zeroing the artifact's area");
        return "zeroed";
    });
    throw_failures(group_.all_gather("zeroed", zeroed), fmt::format("attaching {}", artifact.manifest.name));
    program->area_offset = next_area_;
    next_area_ = round_up(next_area_ + bytes, kAreaAlignment);
    programs_.push_back(std::move(program));
    return static_cast<int>(programs_.size()) - 1;
}

}  // namespace plait
