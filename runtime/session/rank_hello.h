// RankHello: what a rank tells the others when a Session is made, and what they check.
#pragma once
#include <string>
#include <vector>

#include "runtime/net/proxy_session.h"
#include "runtime/session/bind.h"
#include "runtime/topology/topology.h"

namespace plait {

struct RankHello {
    std::int64_t abi_version = 0;
    std::string topology;        // its JSON text
    std::string host, gpu;       // which machine, which GPU of it
    std::string network;         // contract between nodes
    int sms = 0, sm_budget = 0;  // of the GPU; 0: not asked for

    std::string to_text() const;
    static RankHello from_text(const std::string& text, int rank);  // TransportError: rank speaks something else
};

std::string machine_identity();
const char* contract_name(NetworkContract contract);

// ArgumentError where ranks disagree, or ranks that must share a machine do not.
void check_hellos(const std::vector<RankHello>& hellos, const Topology& topology);

// The CTAs of a launch of `rank`: its budget, else an equal part of its GPU. ArgumentError: the budgets of a GPU's
// ranks exceed its SMs. ranks_on_gpu: how many ranks of this Session share it.
struct SmShare {
    int ctas = 0, ranks_on_gpu = 0;
};
SmShare sm_share(const std::vector<RankHello>& hellos, int rank);

}  // namespace plait
