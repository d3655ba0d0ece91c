#include "runtime/session/rank_hello.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "runtime/base/error.h"

namespace plait {

std::string RankHello::to_text() const {
    const nlohmann::ordered_json json = {
        {"abi_version", abi_version}, {"topology", topology}, {"host", host},          {"gpu", gpu},
        {"network", network},         {"sms", sms},           {"sm_budget", sm_budget}};
    return json.dump();
}

RankHello RankHello::from_text(const std::string& text, int rank) {
    try {
        const nlohmann::json json = nlohmann::json::parse(text);
        RankHello hello;
        json.at("abi_version").get_to(hello.abi_version);
        json.at("topology").get_to(hello.topology);
        json.at("host").get_to(hello.host);
        json.at("gpu").get_to(hello.gpu);
        json.at("network").get_to(hello.network);
        json.at("sms").get_to(hello.sms);
        json.at("sm_budget").get_to(hello.sm_budget);
        return hello;
    } catch (const nlohmann::json::exception& error) {
        throw TransportError(fmt::format("rank {} does not speak as this rank does: {}", rank, error.what()),
                             "run the same plait on all ranks");
    }
}

std::string machine_identity() {
    std::string boot;
    std::ifstream("/proc/sys/kernel/random/boot_id") >> boot;
    char name[256] = {};
    gethostname(name, sizeof(name) - 1);
    return fmt::format("{} {}", name, boot);
}

const char* contract_name(NetworkContract contract) {
    return contract == NetworkContract::Ordered ? "ordered" : "unordered";
}

void check_hellos(const std::vector<RankHello>& hellos, const Topology& topology) {
    const bool one_machine =
        topology.nodes == 1 || topology.nics.empty() || topology.nics[0].transport == Transport::Loopback;
    const RankHello& first = hellos[0];
    for (std::size_t rank = 1; rank < hellos.size(); ++rank) {
        const RankHello& hello = hellos[rank];
        const auto differ = [&](const char* what, const std::string& a, const std::string& b) {
            throw ArgumentError(fmt::format("rank {} has another {} than rank 0: {} and {}", rank, what, b, a),
                                "give all ranks the same");
        };
        if (hello.abi_version != first.abi_version)
            differ("ABI version", std::to_string(first.abi_version), std::to_string(hello.abi_version));
        if (hello.topology != first.topology) differ("topology", first.topology, hello.topology);
        if (hello.network != first.network) differ("network contract", first.network, hello.network);
        const std::size_t leader = one_machine ? 0 : rank / topology.gpus_per_node * topology.gpus_per_node;
        if (hello.host != hellos[leader].host) {
            throw ArgumentError(fmt::format("ranks {} and {} must be on one machine, they are on {} and {}", leader,
                                            rank, hellos[leader].host, hello.host),
                                "ranks count node by node: rank = node * gpus_per_node + local rank");
        }
    }
}

SmShare sm_share(const std::vector<RankHello>& hellos, int rank) {
    const RankHello& own = hellos[rank];
    std::vector<std::size_t> sharers;
    for (std::size_t other = 0; other < hellos.size(); ++other) {
        if (hellos[other].host == own.host && hellos[other].gpu == own.gpu) sharers.push_back(other);
    }
    const auto budget = [&](const RankHello& hello) {
        return hello.sm_budget > 0 ? hello.sm_budget : hello.sms / static_cast<int>(sharers.size());
    };
    int sum = 0;
    for (std::size_t other : sharers) sum += budget(hellos[other]);
    if (sum > own.sms || budget(own) < 1) {
        throw ArgumentError(fmt::format("ranks {} share a GPU of {} SMs and want {} CTAs together",
                                        fmt::join(sharers, ", "), own.sms, sum),
                            "a kernel's CTAs must all be resident: lower sm_budget");
    }
    return {budget(own), static_cast<int>(sharers.size())};
}

}  // namespace plait
