#include "runtime/memory/fd_channel.h"

#include <fmt/format.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstring>
#include <optional>
#include <random>

#include "runtime/base/error.h"

namespace plait {
namespace {

constexpr int kBacklog = 128;
constexpr std::size_t kTokenDigits = 16;

struct Message {
    std::uint64_t token;
    std::uint32_t sender, tag;
};

[[noreturn]] void fail(const char* what) {
    throw TransportError(fmt::format("handing memory to another process: {}: {}", what, std::strerror(errno)));
}

// An abstract address (unix(7)): a leading 0 byte, no file to clean up, gone with the socket.
socklen_t fill_address(sockaddr_un& address, const std::string& name) {
    address = {};
    address.sun_family = AF_UNIX;
    if (name.size() + 1 > sizeof(address.sun_path)) throw InternalError("the socket's name does not fit an address");
    std::memcpy(address.sun_path + 1, name.data(), name.size());
    return static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
}

std::optional<FdChannel::Received> read_message(int connection, std::uint64_t token) {
    ucred peer = {};
    socklen_t length = sizeof(peer);
    if (getsockopt(connection, SOL_SOCKET, SO_PEERCRED, &peer, &length) != 0 || peer.uid != geteuid())
        return std::nullopt;
    const timeval patience = {1, 0};  // a connection that says nothing must not hold up the others
    setsockopt(connection, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
    Message message = {};
    iovec part = {&message, sizeof(message)};
    alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
    msghdr header = {};
    header.msg_iov = &part;
    header.msg_iovlen = 1;
    header.msg_control = control;
    header.msg_controllen = sizeof(control);
    ssize_t bytes = 0;
    do {
        bytes = recvmsg(connection, &header, MSG_CMSG_CLOEXEC);
    } while (bytes < 0 && errno == EINTR);
    const cmsghdr* rights = CMSG_FIRSTHDR(&header);
    if (bytes < 0 || rights == nullptr || rights->cmsg_type != SCM_RIGHTS) return std::nullopt;
    int number = -1;
    std::memcpy(&number, CMSG_DATA(rights), sizeof(number));
    FdChannel::Received received = {message.sender, message.tag, FileDescriptor(number)};
    if (bytes != sizeof(message) || message.token != token) return std::nullopt;
    return received;
}

}  // namespace

FileDescriptor& FileDescriptor::operator=(FileDescriptor&& other) noexcept {
    if (this != &other) {
        if (number_ >= 0) close(number_);
        number_ = other.release();
    }
    return *this;
}

FileDescriptor::~FileDescriptor() {
    if (number_ >= 0) close(number_);
}

int FileDescriptor::release() {
    const int number = number_;
    number_ = -1;
    return number;
}

FdChannel::FdChannel() {
    std::random_device random;
    const auto word = [&] { return (std::uint64_t{random()} << 32) | random(); };
    token_ = word();
    const std::string name = fmt::format("plait-{:016x}", word());
    address_ = fmt::format("{}{:016x}", name, token_);
    listener_ = FileDescriptor(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
    if (listener_.get() < 0) fail("socket");
    sockaddr_un address;
    const socklen_t length = fill_address(address, name);
    if (bind(listener_.get(), reinterpret_cast<sockaddr*>(&address), length) != 0) fail("bind");
    if (listen(listener_.get(), kBacklog) != 0) fail("listen");
}

void FdChannel::send(const std::string& address, std::uint32_t sender, std::uint32_t tag, int descriptor) {
    if (address.size() <= kTokenDigits)
        throw TransportError(fmt::format("`{}` is no address of a memory channel", address));
    const std::string name = address.substr(0, address.size() - kTokenDigits);
    Message message = {std::stoull(address.substr(name.size()), nullptr, 16), sender, tag};
    const FileDescriptor connection(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
    if (connection.get() < 0) fail("socket");
    sockaddr_un peer;
    const socklen_t length = fill_address(peer, name);
    while (connect(connection.get(), reinterpret_cast<sockaddr*>(&peer), length) != 0) {
        if (errno != EINTR) fail("connect (is the peer alive, and in this network namespace)");
    }
    iovec part = {&message, sizeof(message)};
    alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
    msghdr header = {};
    header.msg_iov = &part;
    header.msg_iovlen = 1;
    header.msg_control = control;
    header.msg_controllen = sizeof(control);
    cmsghdr* rights = CMSG_FIRSTHDR(&header);
    rights->cmsg_level = SOL_SOCKET;
    rights->cmsg_type = SCM_RIGHTS;
    rights->cmsg_len = CMSG_LEN(sizeof(int));
    std::memcpy(CMSG_DATA(rights), &descriptor, sizeof(descriptor));
    while (sendmsg(connection.get(), &header, MSG_NOSIGNAL) < 0) {
        if (errno != EINTR) fail("sendmsg");
    }
}

FdChannel::Received FdChannel::receive(std::uint64_t timeout_ns) {
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::nanoseconds(timeout_ns);
    for (;;) {
        const auto left =
            std::chrono::duration_cast<std::chrono::milliseconds>(deadline - std::chrono::steady_clock::now()).count();
        pollfd waiting = {listener_.get(), POLLIN, 0};
        const int ready = left <= 0 ? 0 : poll(&waiting, 1, static_cast<int>(std::min<long long>(left, 1'000'000)));
        if (ready < 0 && errno != EINTR) fail("poll");
        if (ready == 0) {
            throw TransportError(fmt::format("no peer handed its memory over within {} ms", timeout_ns / 1'000'000),
                                 "see the other ranks' errors");
        }
        if (ready < 0) continue;
        const FileDescriptor connection(accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC));
        if (connection.get() < 0) {
            if (errno == EINTR || errno == ECONNABORTED) continue;
            fail("accept");
        }
        // Anything else that found the address is dropped: it knows no token.
        if (auto received = read_message(connection.get(), token_)) return std::move(*received);
    }
}

}  // namespace plait
