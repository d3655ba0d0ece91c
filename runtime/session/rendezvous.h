// Rendezvous: how the ranks of a Session find each other. A key-value store with blocking reads.
//
// One Rendezvous is one space of keys, and a key is set once: a second Session needs a space of its own (a fresh
// directory, another prefix), so that nobody ever reads what an earlier one left. Every rank's thread may call it.
#pragma once
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "runtime/base/settings.h"

namespace plait {

class Rendezvous {
public:
    virtual ~Rendezvous() = default;
    virtual void set(const std::string& key,
                     const std::string& value) = 0;  // TransportError where the key is set already
    virtual std::string get(const std::string& key,
                            std::uint64_t timeout_ns) = 0;  // TransportError on timeout, naming the key
};

std::shared_ptr<Rendezvous> make_process_rendezvous();  // ranks that are threads of one process
std::shared_ptr<Rendezvous> make_directory_rendezvous(const std::string& path);  // files in a directory all ranks see
// Rank 0 serves the keys at `address` (host:port of its machine) from a thread; the others may start first. Once all
// ranks hold one, rank 0's may go a moment before theirs. TransportError where the port cannot be had, or no connection
// in `timeout_ns`.
std::shared_ptr<Rendezvous> make_tcp_rendezvous(const std::string& address, int rank, int world,
                                                std::uint64_t timeout_ns = 120'000'000'000ull);
// The same, with rank, world and address from what launched this process (LauncherEnvironment::from_environment()).
std::shared_ptr<Rendezvous> make_launcher_rendezvous(const LauncherEnvironment& launcher,
                                                     std::uint64_t timeout_ns = 120'000'000'000ull);
// Python hands torch.distributed's store over.
std::shared_ptr<Rendezvous> make_callback_rendezvous(std::function<void(const std::string&, const std::string&)> set,
                                                     std::function<std::string(const std::string&, std::uint64_t)> get);
// The keys of `inner` that begin with `prefix`: one per Session where several share a store.
std::shared_ptr<Rendezvous> make_prefixed_rendezvous(std::shared_ptr<Rendezvous> inner, const std::string& prefix);

}  // namespace plait
