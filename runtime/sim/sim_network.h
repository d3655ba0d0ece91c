// The network between simulated nodes, and the proxies that drive it: the project's own TransferProxy over a simulated
// session and a memory port that declares every access to the order model.
//
// Contracts (NetworkContract): Ordered: a pair of ranks has one queue; payload pieces go in order, the flag after them,
// and the NIC writes the flag. Unordered: pieces and the announcement arrive in any order; the receiving session counts
// them and hands the arrival to its proxy, per sender in the order of posting (flags must not go back).
// Under both, a transfer's source is read at a time of the seed's choosing, and its completion may come right after
// that, long before delivery: completion says nothing about the receiver. Some transfers are held back until nothing
// else in the cluster can move, and some completions even longer, over launches if nobody waits for them.
#pragma once
#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "runtime/proxy/proxy.h"
#include "runtime/sim/engine.h"

namespace plait {

struct SimTransfer {
    int from = 0, to = 0;
    PutRequest request;
    Epoch read, write;                   // of its NIC's accesses
    Clock clock;                         // what its flag releases
    std::vector<std::uint8_t> payload;   // read from the source, on its way
    std::vector<std::uint64_t> missing;  // first bytes of the pieces that have not arrived
    bool source_read = false, completed = false, announced = false, delivered = false;
    bool held = false, completion_held = false;
};

class SimNetwork;

class SimProxySession : public ProxySession {
public:
    SimProxySession(SimNetwork& network, int rank) : network_(network), rank_(rank) {}
    bool try_post(const PutRequest& request) override;
    bool step(std::vector<std::uint64_t>* completed, std::vector<Arrival>* arrivals) override;
    SessionCounters counters() const override { return counters_; }
    std::string describe() const override;

private:
    friend class SimNetwork;
    struct Done {
        std::uint64_t id;
        Epoch read;
    };
    struct Arrived {
        Arrival arrival;
        Clock clock;
    };
    SimNetwork& network_;
    int rank_;
    std::uint64_t in_flight_ = 0;
    std::vector<Done> completed_;
    std::vector<Arrived> arrived_;
    SessionCounters counters_;
};

class SimMemoryPort : public MemoryPort {
public:
    SimMemoryPort(Engine& engine, SimActor& actor) : engine_(engine), actor_(actor) {}
    u64 load_acquire(const u64* word) override;
    void store_release(u64* word, u64 value) override;
    void read(void* destination, const void* source, std::uint64_t bytes) override;
    void write(void* destination, const void* source, std::uint64_t bytes) override;

private:
    Engine& engine_;
    SimActor& actor_;
};

class SimNetwork : public EventSource, public HostListener {
public:
    SimNetwork(Engine& engine, const SimOptions& options, const std::vector<ProxyRings>& rings);

    std::uint64_t pending() const override;
    void run_one(Random& random) override;
    bool force(Random& random) override;
    void host_word_changed(int rank) override;
    std::string describe_host(int rank) const override;

private:
    friend class SimProxySession;
    struct Host {
        SimActor actor;
        std::unique_ptr<SimMemoryPort> port;
        std::unique_ptr<SimProxySession> session;
        std::unique_ptr<TransferProxy> proxy;
        bool poked = false;
        std::uint64_t posted = 0;
    };
    void post(int from, const PutRequest& request);
    bool movable(const SimTransfer& transfer) const;
    void advance(std::size_t index, Random& random);
    std::size_t head_of_pair(std::size_t index) const;
    bool may_deliver(std::size_t index) const;
    void read_source(SimTransfer& transfer);
    void complete(SimTransfer& transfer);
    void deliver_piece(SimTransfer& transfer, std::size_t piece);
    void announce(std::size_t index);
    void publish(SimTransfer& transfer);
    std::uint8_t* workspace_bytes(int rank, std::uint64_t offset, std::uint64_t bytes, const SimActor& actor,
                                  const char* what) const;

    Engine& engine_;
    NetworkContract contract_;
    std::uint64_t queue_depth_;
    std::vector<std::unique_ptr<Host>> hosts_;
    std::vector<std::unique_ptr<SimTransfer>> transfers_;  // in posting order
    std::vector<int> poked_;
};

}  // namespace plait
