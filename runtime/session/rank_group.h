// RankGroup: the ranks of one Session as they meet at its Rendezvous.
#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "runtime/session/rendezvous.h"

namespace plait {

class RankGroup {
public:
    RankGroup(std::shared_ptr<Rendezvous> rendezvous, int rank, int world, std::uint64_t timeout_ns);
    // Everyone's `value`, by rank. Collective: the ranks call with the same names in the same order. TransportError:
    // not all came within the timeout; it names those that did not, or says what one of them died of.
    std::vector<std::string> all_gather(const std::string& name, const std::string& value);
    // This rank will come to nothing any more. Once; never throws.
    void tell_failure(const std::string& what) noexcept;
    std::uint64_t timeout_ns() const { return timeout_ns_; }
    const std::shared_ptr<Rendezvous>& rendezvous() const { return rendezvous_; }

private:
    bool try_get(const std::string& key, std::uint64_t timeout_ns, std::string* value);
    void throw_missing(const std::string& name, const std::string& prefix, const std::vector<int>& waiting);

    std::shared_ptr<Rendezvous> rendezvous_;
    int rank_, world_;
    std::uint64_t timeout_ns_, calls_ = 0;
    bool told_ = false;
};

}  // namespace plait
