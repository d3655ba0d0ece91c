// Exchange: the two calls by which sessions tell each other how to be reached. The owner makes it from whatever its
// ranks meet at (a Rendezvous, torch's store); net/ does not know which.
#pragma once
#include <cstdint>
#include <functional>
#include <string>

namespace plait {

struct Exchange {
    std::function<void(const std::string& key, const std::string& value)> set;
    std::function<std::string(const std::string& key, std::uint64_t timeout_ns)> get;  // TransportError on timeout
    std::uint64_t timeout_ns = 60'000'000'000ull;
};

// `store` is a pointer to anything with set(key, value) and get(key, timeout_ns); it is kept alive.
template <class Pointer>
Exchange exchange_through(Pointer store, std::uint64_t timeout_ns = 60'000'000'000ull) {
    return {[store](const std::string& key, const std::string& value) { store->set(key, value); },
            [store](const std::string& key, std::uint64_t timeout) { return store->get(key, timeout); }, timeout_ns};
}

}  // namespace plait
