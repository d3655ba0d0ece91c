// FakeVerbs: libibverbs and libefa as one in-process object. Queue pairs made through one FakeVerbs reach each other;
// bytes move by LoopbackNic, so RC is in order and SRD is not. It keeps what a provider keeps: keys, bounds and access
// of registrations, queue-pair states, errors that break a queue pair, receives that a write with immediate takes.
#pragma once
#include <deque>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "runtime/net/loopback_nic.h"
#include "runtime/net/verbs_api.h"
#if defined(PLAIT_WITH_EFA)
#include "runtime/net/efa_api.h"
#endif

namespace plait::testing {

class FakeVerbs {
public:
    explicit FakeVerbs(std::uint64_t seed = 1);

    // What a test may set before the session is made.
    std::vector<std::string> devices = {"fake0"};
    ibv_port_attr port = {};
    std::vector<ibv_gid_entry> gids;
    ibv_device_attr device = {};
    std::uint32_t efa_caps = 0xf, efa_max_message = 1 << 20;
    std::uint64_t refuse_every = 0;  // n > 0: every n-th post is refused with ENOMEM
    // n > 0: a queue pair holds n work requests; room comes back up to the youngest signalled one that has completed.
    std::uint64_t provider_depth = 0;
    // The n-th (from 0) call of `call` fails with `error`.
    void fail(const std::string& call, int error, int nth = 0) { failures_[call] = {nth, error}; }
    // The next completion of a send on any queue pair has this status.
    void break_next_send(ibv_wc_status status) { next_status_ = status; }

    std::shared_ptr<const VerbsApi> verbs();
#if defined(PLAIT_WITH_EFA)
    std::shared_ptr<const EfaApi> efa();
#endif

    std::map<std::string, int> live() const;  // objects made and not destroyed, by kind
    std::vector<ibv_qp_attr> modified;        // every ibv_modify_qp
    std::vector<int> registered_access;       // of every registration
    std::vector<int> dmabuf_fds;
    std::uint64_t doorbells = 0, work_requests = 0, signalled = 0;

private:
    struct Work {
        std::uint64_t id = 0;
        bool signalled = false;
        ibv_wc_status status = IBV_WC_SUCCESS;
        std::uint32_t target = 0, immediate = 0;  // queue pair number; immediate in network order
    };
    struct QueuePair {
        std::unique_ptr<ibv_qp> object;
        ibv_cq *send_cq = nullptr, *recv_cq = nullptr;
        std::unique_ptr<LoopbackNic> nic;
        std::vector<Work> works;
        std::uint64_t reclaimed = 0;
        std::deque<std::uint64_t> receives;
        std::uint32_t peer = 0;  // RC: from ibv_modify_qp
        ibv_qp_state state = IBV_QPS_RESET;
        bool broken = false;
    };
    struct Registration {
        std::unique_ptr<ibv_mr> object;
        std::uint64_t base = 0, bytes = 0;
        int access = 0;
    };

    bool failed(const char* call);  // sets errno
    int error_of(const char* call) { return failed(call) ? errno : 0; }
    template <class Object>
    Object* make(const char* kind);
    ibv_qp* make_queue_pair(ibv_cq* send, ibv_cq* receive, NetworkContract delivery);
    ibv_mr* make_registration(std::uint64_t base, std::uint64_t bytes, int access, const char* call);
    bool reachable(std::uint32_t key, std::uint64_t address, std::uint64_t bytes) const;
    int post(QueuePair& queue_pair, Work work, LoopbackWork bytes, std::uint32_t remote_key);
    int post_chain(ibv_qp* object, ibv_send_wr* first, ibv_send_wr** bad);
    bool deliver(std::uint32_t work_owner, std::uint32_t work);
    void progress();
    int poll(ibv_cq* cq, int entries, ibv_wc* completions);
    void fill_device(VerbsApi* api);
    void fill_memory(VerbsApi* api);
    void fill_queues(VerbsApi* api);

    std::uint64_t seed_, posts_ = 0;
    std::map<std::string, std::pair<int, int>> failures_;
    std::map<std::string, int> calls_, live_;
    std::vector<ibv_device> device_objects_;
    std::vector<ibv_device*> device_list_;
    std::map<std::uint32_t, QueuePair> queue_pairs_;
    std::map<std::uint32_t, Registration> registrations_;
    std::map<ibv_cq*, std::deque<ibv_wc>> completions_;
    std::uint32_t next_number_ = 100;
    ibv_wc_status next_status_ = IBV_WC_SUCCESS;
};

ibv_gid_entry gid_entry(std::uint32_t index, const std::string& hex, ibv_gid_type type);

}  // namespace plait::testing
