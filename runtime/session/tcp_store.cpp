#include "runtime/session/tcp_store.h"

#include <fmt/format.h>
#include <netdb.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <chrono>
#include <cstring>

#include "runtime/base/error.h"

namespace plait {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::chrono::milliseconds kLinger(2000);
constexpr timeval kReplyPatience = {5, 0};  // an asker that takes no bytes must not hold up the others
constexpr int kBacklog = 1024;

[[noreturn]] void fail(const std::string& what, const std::string& port) {
    throw TransportError(fmt::format("rendezvous: {} port {}: {}", what, port, std::strerror(errno)),
                         "is it taken by another job? give each one a port of its own (MASTER_PORT)");
}

// All interfaces, IPv6 with IPv4 mapped where the machine has it.
FileDescriptor listen_at(const std::string& text) {
    std::uint16_t port = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), port);
    if (error != std::errc() || end != text.data() + text.size() || port == 0)
        throw ArgumentError(fmt::format("rendezvous port `{}` is none", text), "use 1 to 65535");
    FileDescriptor listener(socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0));
    const bool six = listener.get() >= 0;
    if (!six) listener = FileDescriptor(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    if (listener.get() < 0) fail("no socket for", text);
    const int on = 1, off = 0;
    setsockopt(listener.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
    int bound = -1;
    if (six) {
        setsockopt(listener.get(), IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof(off));
        sockaddr_in6 address = {};
        address.sin6_family = AF_INET6;
        address.sin6_port = htons(port);
        bound = bind(listener.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address));
    } else {
        sockaddr_in address = {};
        address.sin_family = AF_INET;
        address.sin_port = htons(port);
        bound = bind(listener.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address));
    }
    if (bound != 0 || listen(listener.get(), kBacklog) != 0) fail("cannot listen at", text);
    return listener;
}

}  // namespace

void send_all(int socket, const void* data, std::size_t bytes) {
    const char* at = static_cast<const char*>(data);
    while (bytes > 0) {
        const ssize_t sent = send(socket, at, bytes, MSG_NOSIGNAL);
        if (sent < 0 && errno == EINTR) continue;
        if (sent <= 0) throw TransportError(fmt::format("rendezvous: the connection broke: {}", std::strerror(errno)));
        at += sent;
        bytes -= static_cast<std::size_t>(sent);
    }
}

TcpStore::TcpStore(const std::string& port, int world)
    : listener_(listen_at(port)), wake_(eventfd(0, EFD_CLOEXEC)), others_(world - 1), thread_([this] { serve(); }) {}

TcpStore::~TcpStore() {
    const std::uint64_t one = 1;
    while (write(wake_.get(), &one, sizeof(one)) < 0 && errno == EINTR) {
    }
    thread_.join();
}

void TcpStore::serve() {
    Clock::time_point until = Clock::time_point::max();
    for (;;) {
        const bool leaving = until != Clock::time_point::max();
        if (leaving && (others_ <= 0 || Clock::now() >= until)) return;
        std::vector<pollfd> polled = {{listener_.get(), POLLIN, 0}};
        for (const auto& connection : connections_) polled.push_back({connection->socket.get(), POLLIN, 0});
        if (!leaving) polled.push_back({wake_.get(), POLLIN, 0});
        if (poll(polled.data(), polled.size(), leaving ? 50 : -1) < 0 && errno != EINTR) return;
        if (!leaving && polled.back().revents != 0) until = Clock::now() + kLinger;
        for (std::size_t i = 0; i < connections_.size(); ++i)
            connections_[i]->over = polled[i + 1].revents != 0 && !read_from(*connections_[i]);
        std::erase_if(connections_, [](const auto& connection) { return connection->over; });
        if (polled[0].revents != 0) accept_one();
    }
}

void TcpStore::accept_one() {
    FileDescriptor socket(accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC));
    if (socket.get() < 0) return;  // the asker has gone again
    setsockopt(socket.get(), SOL_SOCKET, SO_SNDTIMEO, &kReplyPatience, sizeof(kReplyPatience));
    connections_.push_back(std::make_unique<Connection>(Connection{std::move(socket), "", "", false}));
}

bool TcpStore::read_from(Connection& connection) {
    char buffer[4096];
    const ssize_t bytes = recv(connection.socket.get(), buffer, sizeof(buffer), MSG_DONTWAIT);
    if (bytes < 0) return errno == EINTR || errno == EAGAIN;
    if (bytes == 0 || !connection.waits_for.empty()) return false;
    connection.received.append(buffer, static_cast<std::size_t>(bytes));
    try {
        return answer(connection);
    } catch (const TransportError&) {
        return false;
    }
}

bool TcpStore::answer(Connection& connection) {
    TcpHeader header = {};
    if (connection.received.size() < sizeof(header)) return true;
    std::memcpy(&header, connection.received.data(), sizeof(header));
    if (header.magic != kTcpMagic || header.key_bytes > kTcpMaxKeyBytes || header.value_bytes > kTcpMaxValueBytes)
        return false;
    if (connection.received.size() < sizeof(header) + header.key_bytes + header.value_bytes) return true;
    const std::string key = connection.received.substr(sizeof(header), header.key_bytes);
    if (header.kind == static_cast<std::uint64_t>(TcpRequest::Set)) {
        const auto [place, fresh] =
            values_.emplace(key, connection.received.substr(sizeof(header) + header.key_bytes, header.value_bytes));
        reply(connection, fresh, "");
        if (fresh) answer_waiting(key);
    } else if (header.kind == static_cast<std::uint64_t>(TcpRequest::Get)) {
        if (const auto found = values_.find(key); found != values_.end()) {
            reply(connection, true, found->second);
        } else {
            connection.waits_for = key;
            return true;
        }
    } else if (header.kind == static_cast<std::uint64_t>(TcpRequest::Leave)) {
        --others_;
    }
    return false;
}

void TcpStore::reply(Connection& connection, bool yes, const std::string& value) {
    const TcpHeader header = {kTcpMagic, yes ? 1u : 0u, 0, value.size()};
    send_all(connection.socket.get(), &header, sizeof(header));
    send_all(connection.socket.get(), value.data(), value.size());
}

void TcpStore::answer_waiting(const std::string& key) {
    for (auto& connection : connections_) {
        if (connection->waits_for != key) continue;
        try {
            reply(*connection, true, values_[key]);
        } catch (const TransportError&) {
            // The asker gave up; its end of the connection says so in the next round.
        }
        connection->waits_for.clear();
        shutdown(connection->socket.get(), SHUT_WR);
    }
}

}  // namespace plait
