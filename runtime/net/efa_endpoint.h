// The device side of an SRD session: capabilities, queue pair, completion queue, mailboxes, addresses of peers. Knows
// nothing of puts and signals.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "runtime/net/efa.h"
#include "runtime/net/signal_protocol.h"

namespace plait {

// What peers write: one descriptor table and one credit word per sender, by rank. `outbox` has the same shape and holds
// the sources of our own writes, by receiver: SRD has no inline data.
struct SrdMailboxes {
    SrdMailboxes(std::uint32_t world, std::uint32_t slots);
    SignalDescriptor* table(unsigned char* box, std::uint32_t rank) const;
    u64* credit(unsigned char* box, std::uint32_t rank) const;
    std::uint64_t table_offset(std::uint32_t rank) const {
        return std::uint64_t{rank} * slots * sizeof(SignalDescriptor);
    }
    std::uint64_t credit_offset(std::uint32_t rank) const {
        return table_offset(world) + std::uint64_t{rank} * sizeof(u64);
    }
    std::uint64_t bytes() const { return credit_offset(world); }

    std::uint32_t world, slots;
    std::vector<u64> inbox, outbox;
    unsigned char* inbox_base() { return reinterpret_cast<unsigned char*>(inbox.data()); }
    unsigned char* outbox_base() { return reinterpret_cast<unsigned char*>(outbox.data()); }
};

struct SrdPeerInfo {
    VerbsAddress address;
    std::uint32_t queue_pair = 0, queue_key = 0;
    std::uint64_t workspace_address = 0, workspace_bytes = 0, inbox_address = 0;
    std::uint32_t workspace_key = 0, inbox_key = 0, slots = 0;
};
std::string encode_peer(const SrdPeerInfo& info);
SrdPeerInfo decode_peer(const std::string& text, const std::string& from);

class SrdEndpoint {
public:
    SrdEndpoint(std::shared_ptr<const VerbsApi> verbs, std::shared_ptr<const EfaApi> efa, const SrdOptions& options);

    const VerbsDevice& device() const { return *device_; }
    ibv_qp* queue_pair() const { return queue_pair_.get(); }
    ibv_cq* cq() const { return cq_.get(); }
    SrdMailboxes& boxes() { return boxes_; }
    std::uint32_t workspace_lkey() const { return workspace_->lkey; }
    std::uint32_t outbox_lkey() const { return outbox_->lkey; }
    std::uint64_t max_message_bytes() const { return max_message_bytes_; }
    SrdPeerInfo own_info() const;
    VerbsHandle<ibv_ah> path_to(const SrdPeerInfo& peer, const std::string& who) const;
    int post(const SrdWrite& write) const { return efa_->write(queue_pair_.get(), write); }  // an errno
    void post_receives(std::uint32_t count) const;

private:
    void check_capabilities();
    void create_queue_pair();
    void modify(ibv_qp_attr attributes, int mask, const char* step) const;

    SrdOptions options_;
    std::shared_ptr<const EfaApi> efa_;
    std::shared_ptr<VerbsDevice> device_;
    efadv_device_attr capabilities_ = {};
    std::uint64_t max_message_bytes_ = 0;
    std::uint32_t queue_key_ = 0;
    SrdMailboxes boxes_;
    VerbsHandle<ibv_mr> workspace_, inbox_, outbox_;
    VerbsHandle<ibv_cq> cq_;
    VerbsHandle<ibv_qp> queue_pair_;
};

inline constexpr std::uint64_t kSrdReceiveId = ~0ull;  // wr_id of every receive

}  // namespace plait
