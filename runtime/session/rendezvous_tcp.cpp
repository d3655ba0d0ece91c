// Rendezvous over TCP, for programs without torch: rank 0 serves the keys (tcp_store.h), each call of each rank is a
// connection of its own, so that threads do not wait for each other.
#include <fmt/format.h>
#include <netdb.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/time.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <optional>
#include <thread>

#include "runtime/base/error.h"
#include "runtime/base/settings.h"
#include "runtime/session/rendezvous.h"
#include "runtime/session/tcp_store.h"

namespace plait {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::chrono::milliseconds kConnectPause(20);  // rank 0 may start last
constexpr timeval kConnectPatience = {2, 0};            // of one attempt: connect(2) minds SO_SNDTIMEO

struct Addresses {
    addrinfo* first = nullptr;
    Addresses(const std::string& host, const std::string& port) {
        addrinfo hints = {};
        hints.ai_socktype = SOCK_STREAM;
        if (getaddrinfo(host.c_str(), port.c_str(), &hints, &first) == 0) return;
        first = nullptr;
        // The name means the loopback address also where nothing resolves names (RFC 6761, section 6.3): no /etc/hosts.
        hints.ai_flags = AI_NUMERICHOST;
        if (host == "localhost" && getaddrinfo("127.0.0.1", port.c_str(), &hints, &first) != 0) first = nullptr;
    }
    ~Addresses() {
        if (first != nullptr) freeaddrinfo(first);
    }
    Addresses(const Addresses&) = delete;
    Addresses& operator=(const Addresses&) = delete;
};

struct Reply {
    bool yes = false;
    std::string value;
};

// Nothing where the deadline came first.
std::optional<Reply> receive_reply(int connection, Clock::time_point until, const std::string& address) {
    std::string received;
    TcpHeader header = {};
    for (;;) {
        if (received.size() >= sizeof(header)) {
            std::memcpy(&header, received.data(), sizeof(header));
            if (header.magic != kTcpMagic)
                throw TransportError(fmt::format("rendezvous at {}: another program answers there", address),
                                     "give each job a port of its own (MASTER_PORT)");
            if (received.size() >= sizeof(header) + header.value_bytes)
                return Reply{header.kind == 1, received.substr(sizeof(header), header.value_bytes)};
        }
        const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(until - Clock::now()).count();
        pollfd waiting = {connection, POLLIN, 0};
        const int ready = poll(&waiting, 1, static_cast<int>(std::clamp<long long>(left, 0, 1'000'000)));
        if (ready < 0 && errno == EINTR) continue;
        if (ready == 0) return std::nullopt;
        char buffer[4096];
        const ssize_t bytes = recv(connection, buffer, sizeof(buffer), 0);
        if (bytes < 0 && errno == EINTR) continue;
        if (bytes <= 0)
            throw TransportError(fmt::format("rendezvous at {}: rank 0 closed the connection", address),
                                 "see rank 0's own error");
        received.append(buffer, static_cast<std::size_t>(bytes));
    }
}

class TcpRendezvous final : public Rendezvous {
public:
    TcpRendezvous(const std::string& address, int rank, int world, std::uint64_t timeout_ns)
        : address_(address), rank_(rank), timeout_(timeout_ns) {
        const std::size_t colon = address.rfind(':');
        if (colon == std::string::npos || colon == 0) {
            throw ArgumentError(fmt::format("rendezvous address `{}` is not host:port", address),
                                "it names rank 0's machine: MASTER_ADDR and MASTER_PORT");
        }
        host_ = rank == 0 ? "localhost" : address.substr(0, colon);
        port_ = address.substr(colon + 1);
        if (rank == 0) store_ = std::make_unique<TcpStore>(port_, world);
    }
    ~TcpRendezvous() override {
        if (store_) return;
        try {
            const FileDescriptor connection = connect_until(Clock::now());
            send_request(connection.get(), TcpRequest::Leave, "", "");
        } catch (const Error&) {
            // Rank 0 is gone already: nobody waits for a farewell.
        }
    }

    void set(const std::string& key, const std::string& value) override {
        const Clock::time_point until = Clock::now() + timeout_;
        const FileDescriptor connection = connect_until(until);
        send_request(connection.get(), TcpRequest::Set, key, value);
        const std::optional<Reply> reply = receive_reply(connection.get(), until, address_);
        if (!reply) throw TransportError(fmt::format("rendezvous at {}: rank 0 does not answer", address_));
        if (!reply->yes) {
            throw TransportError(fmt::format("rendezvous key `{}` is set already at {}", key, address_),
                                 "give each session keys of its own (make_prefixed_rendezvous)");
        }
    }

    std::string get(const std::string& key, std::uint64_t timeout_ns) override {
        const Clock::time_point until = Clock::now() + std::chrono::nanoseconds(timeout_ns);
        const FileDescriptor connection = connect_until(until);
        send_request(connection.get(), TcpRequest::Get, key, "");
        if (auto reply = receive_reply(connection.get(), until, address_)) return std::move(reply->value);
        throw TransportError(
            fmt::format("rendezvous: nobody set `{}` at {} within {} ms", key, address_, timeout_ns / 1'000'000),
            "did all ranks start");
    }

private:
    static void send_request(int connection, TcpRequest kind, const std::string& key, const std::string& value) {
        const TcpHeader header = {kTcpMagic, static_cast<std::uint64_t>(kind), key.size(), value.size()};
        if (key.size() > kTcpMaxKeyBytes || value.size() > kTcpMaxValueBytes)
            throw ArgumentError(fmt::format("rendezvous: a key of {} and a value of {} bytes, {} and {} are allowed",
                                            key.size(), value.size(), kTcpMaxKeyBytes, kTcpMaxValueBytes));
        send_all(connection, &header, sizeof(header));
        send_all(connection, key.data(), key.size());
        send_all(connection, value.data(), value.size());
    }

    FileDescriptor connect_until(Clock::time_point until) const {
        for (;;) {
            int why = 0;
            const Addresses addresses(host_, port_);
            for (const addrinfo* entry = addresses.first; entry != nullptr; entry = entry->ai_next) {
                FileDescriptor connection(socket(entry->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0));
                if (connection.get() < 0) continue;
                setsockopt(connection.get(), SOL_SOCKET, SO_SNDTIMEO, &kConnectPatience, sizeof(kConnectPatience));
                if (::connect(connection.get(), entry->ai_addr, entry->ai_addrlen) == 0) return connection;
                why = errno;
            }
            if (Clock::now() >= until) {
                throw TransportError(fmt::format("rank {}: no connection to the rendezvous at {}: {}", rank_, address_,
                                                 why == 0 ? "the name has no address" : std::strerror(why)),
                                     "is rank 0 running, and is the port open between the machines");
            }
            std::this_thread::sleep_for(kConnectPause);
        }
    }

    std::string address_, host_, port_;
    int rank_;
    std::chrono::nanoseconds timeout_;
    std::unique_ptr<TcpStore> store_;
};

}  // namespace

std::shared_ptr<Rendezvous> make_tcp_rendezvous(const std::string& address, int rank, int world,
                                                std::uint64_t timeout_ns) {
    if (world < 1 || rank < 0 || rank >= world)
        throw ArgumentError(fmt::format("rank {} does not exist in a world of {}", rank, world));
    return std::make_shared<TcpRendezvous>(address, rank, world, timeout_ns);
}

std::shared_ptr<Rendezvous> make_launcher_rendezvous(const LauncherEnvironment& launcher, std::uint64_t timeout_ns) {
    if (launcher.launcher.empty())
        throw ArgumentError("no launcher says which rank this process is",
                            "start it by torchrun, srun or mpirun, or set RANK, WORLD_SIZE, MASTER_ADDR, MASTER_PORT");
    if (launcher.address.empty())
        throw ArgumentError(fmt::format("{} does not say where rank 0 is", launcher.launcher),
                            "set MASTER_ADDR and MASTER_PORT, the same on all ranks");
    if (launcher.launcher != "torchrun")
        return make_tcp_rendezvous(launcher.address, launcher.rank, launcher.world, timeout_ns);
    // torchrun's own store listens at MASTER_PORT.
    const std::size_t colon = launcher.address.rfind(':');
    const int port = std::stoi(launcher.address.substr(colon + 1)) + 1;
    return make_tcp_rendezvous(fmt::format("{}:{}", launcher.address.substr(0, colon), port), launcher.rank,
                               launcher.world, timeout_ns);
}

}  // namespace plait
