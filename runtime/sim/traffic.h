// Payload bytes by link of one launch.
#pragma once
#include <cstdint>
#include <map>
#include <tuple>
#include <vector>

#include "runtime/sim/report.h"

namespace plait {

class Traffic {
public:
    void count(int from, int to, bool network, std::uint64_t bytes) {
        LinkTraffic& link = links_[{from, to, network}];
        link.from = from;
        link.to = to;
        link.network = network;
        link.bytes += bytes;
        ++link.transfers;
    }
    std::vector<LinkTraffic> take() {
        std::vector<LinkTraffic> out;
        for (const auto& [key, link] : links_) out.push_back(link);
        links_.clear();
        return out;
    }

private:
    std::map<std::tuple<int, int, bool>, LinkTraffic> links_;
};

}  // namespace plait
