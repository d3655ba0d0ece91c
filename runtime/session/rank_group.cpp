#include "runtime/session/rank_group.h"

#include <fmt/format.h>

namespace plait {

RankGroup::RankGroup(std::shared_ptr<Rendezvous> rendezvous, int rank, int world, std::uint64_t timeout_ns)
    : rendezvous_(std::move(rendezvous)), rank_(rank), world_(world), timeout_ns_(timeout_ns) {}

std::vector<std::string> RankGroup::all_gather(const std::string& name, const std::string& value) {
    const std::string prefix = fmt::format("group/{}/{}/", calls_++, name);  // a name may come again
    rendezvous_->set(prefix + std::to_string(rank_), value);
    std::vector<std::string> values;
    for (int other = 0; other < world_; ++other) {
        values.push_back(other == rank_ ? value : rendezvous_->get(prefix + std::to_string(other), timeout_ns_));
    }
    return values;
}

}  // namespace plait
