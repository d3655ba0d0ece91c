#include "runtime/session/rank_group.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <chrono>

#include "runtime/base/error.h"

namespace plait {
namespace {

using Clock = std::chrono::steady_clock;

// A wait for one key is cut into pieces, between which a rank that died is looked for; and how long a look takes.
constexpr std::uint64_t kPieceNs = 1'000'000'000, kLookNs = 1'000'000;

std::string failure_key(int rank) { return fmt::format("group/failed/{}", rank); }

}  // namespace

RankGroup::RankGroup(std::shared_ptr<Rendezvous> rendezvous, int rank, int world, std::uint64_t timeout_ns)
    : rendezvous_(std::move(rendezvous)), rank_(rank), world_(world), timeout_ns_(timeout_ns) {}

bool RankGroup::try_get(const std::string& key, std::uint64_t timeout_ns, std::string* value) {
    try {
        *value = rendezvous_->get(key, timeout_ns);
        return true;
    } catch (const TransportError&) {
        return false;  // a store that is gone shows in the last attempt, see throw_missing
    }
}

std::vector<std::string> RankGroup::all_gather(const std::string& name, const std::string& value) {
    const std::string prefix = fmt::format("group/{}/{}/", calls_++, name);  // a name may come again
    const Clock::time_point started = Clock::now();
    rendezvous_->set(prefix + std::to_string(rank_), value);
    std::vector<std::string> values(static_cast<std::size_t>(world_));
    for (int other = 0; other < world_; ++other) {
        if (other == rank_) {
            values[other] = value;
            continue;
        }
        for (;;) {
            const auto spent = static_cast<std::uint64_t>(std::chrono::nanoseconds(Clock::now() - started).count());
            const std::uint64_t left = timeout_ns_ > spent ? timeout_ns_ - spent : kLookNs;
            if (try_get(prefix + std::to_string(other), std::min(left, kPieceNs), &values[other])) break;
            std::string failure;
            if (try_get(failure_key(other), kLookNs, &failure)) {
                throw TransportError(fmt::format("rank {} does not come to `{}`: it failed: {}", other, name, failure),
                                     "make a new session on all ranks");
            }
            if (left > kPieceNs) continue;
            std::vector<int> waiting;
            for (int rank = other; rank < world_; ++rank) {
                if (rank != rank_) waiting.push_back(rank);
            }
            throw_missing(name, prefix, waiting);
        }
    }
    return values;
}

void RankGroup::throw_missing(const std::string& name, const std::string& prefix, const std::vector<int>& waiting) {
    std::vector<int> missing;
    std::string why;
    for (int rank : waiting) {
        try {
            rendezvous_->get(prefix + std::to_string(rank), kLookNs);
        } catch (const TransportError& error) {
            missing.push_back(rank);
            why = error.message();
        }
    }
    if (missing.empty()) return;  // the last one came after all
    throw TransportError(fmt::format("rank{}{} of {} did not come to `{}` within {} ms ({})",
                                     missing.size() > 1 ? "s " : " ", fmt::join(missing, ", "), world_, name,
                                     timeout_ns_ / 1'000'000, why),
                         "did all ranks start, and do they make the same calls in the same order");
}

void RankGroup::tell_failure(const std::string& what) noexcept {
    if (told_) return;
    told_ = true;
    try {
        rendezvous_->set(failure_key(rank_), what);
    } catch (const std::exception&) {
        // The store may be gone with its rank; the others have their own deadlines.
    }
}

}  // namespace plait
