#include <fmt/format.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <chrono>
#include <thread>

#include "runtime/base/error.h"
#include "runtime/session/rendezvous.h"
#include "runtime/session/tcp_store.h"
#include "tests/runtime/shm/processes.h"

namespace plait::testing {
namespace {

constexpr std::uint64_t kSecond = 1'000'000'000;

// A port that was free a moment ago.
int free_port() {
    const FileDescriptor probe(socket(AF_INET, SOCK_STREAM, 0));
    sockaddr_in address = {};
    address.sin_family = AF_INET;
    socklen_t length = sizeof(address);
    bind(probe.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address));
    getsockname(probe.get(), reinterpret_cast<sockaddr*>(&address), &length);
    return ntohs(address.sin_port);
}
std::string free_address() { return fmt::format("localhost:{}", free_port()); }

template <class Error, class Body>
std::string message_of(Body body) {
    try {
        body();
    } catch (const Error& error) {
        return error.message();
    }
    return "no error";
}

TEST(TcpRendezvous, ProcessesMeetWhoeverStartsFirst) {
    const std::string address = free_address();
    Processes ranks(3, [&](int rank) {
        if (rank == 0) std::this_thread::sleep_for(std::chrono::milliseconds(100));
        auto store = make_tcp_rendezvous(address, rank, 3, 20 * kSecond);
        const std::string value = std::string("\0\xff", 2) + std::string(20'000, static_cast<char>('a' + rank));
        store->set(fmt::format("hello/{}", rank), value);
        for (int other = 0; other < 3; ++other) {
            const std::string got = store->get(fmt::format("hello/{}", other), 20 * kSecond);
            if (got.size() != value.size() || got.back() != 'a' + other || got[1] != '\xff') return 1;
        }
        return 0;
    });
    EXPECT_EQ(ranks.wait(), (std::vector<int>{0, 0, 0}));
}

TEST(TcpRendezvous, AGetWaitsForItsKeyWhileOthersAreServed) {
    const std::string address = free_address();
    auto zero = make_tcp_rendezvous(address, 0, 2, 20 * kSecond);
    auto one = make_tcp_rendezvous(address, 1, 2, 20 * kSecond);
    std::string seen;
    std::jthread waiter([&] { seen = one->get("late", 20 * kSecond); });
    std::this_thread::sleep_for(std::chrono::milliseconds(30));
    one->set("other", "x");
    EXPECT_EQ(zero->get("other", kSecond), "x");
    zero->set("late", "value");
    waiter.join();
    EXPECT_EQ(seen, "value");
}

TEST(TcpRendezvous, SaysWhatWentWrong) {
    const std::string address = free_address();
    auto zero = make_tcp_rendezvous(address, 0, 1, kSecond);
    zero->set("k", "1");
    EXPECT_EQ(message_of<TransportError>([&] { zero->set("k", "2"); }),
              fmt::format("rendezvous key `k` is set already at {}", address));
    EXPECT_EQ(message_of<TransportError>([&] { zero->get("missing", 30'000'000); }),
              fmt::format("rendezvous: nobody set `missing` at {} within 30 ms", address));
    EXPECT_NE(message_of<TransportError>([&] { make_tcp_rendezvous(address, 0, 1); }).find("Address already in use"),
              std::string::npos);
    EXPECT_NE(message_of<TransportError>([&] {
                  make_tcp_rendezvous(free_address(), 1, 2, 50'000'000)->set("k", "1");
              }).find("no connection to the rendezvous"),
              std::string::npos);
    EXPECT_EQ(message_of<ArgumentError>([&] { make_tcp_rendezvous("nowhere", 0, 1); }),
              "rendezvous address `nowhere` is not host:port");
    EXPECT_EQ(message_of<ArgumentError>([&] { make_tcp_rendezvous("host:many", 0, 1); }),
              "rendezvous port `many` is none");
}

TEST(TcpRendezvous, DropsWhoDoesNotSpeakItsLanguage) {
    const int port = free_port();
    auto zero = make_tcp_rendezvous(fmt::format("localhost:{}", port), 0, 1, kSecond);
    const FileDescriptor stranger(socket(AF_INET, SOCK_STREAM, 0));
    sockaddr_in address = {};
    address.sin_family = AF_INET;
    address.sin_port = htons(static_cast<std::uint16_t>(port));
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    ASSERT_EQ(connect(stranger.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)), 0);
    const std::string text = "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n";
    send_all(stranger.get(), text.data(), text.size());
    char byte = 0;
    EXPECT_LE(recv(stranger.get(), &byte, 1, 0), 0);  // closed
    zero->set("k", "still served");
    EXPECT_EQ(zero->get("k", kSecond), "still served");
}

// Rank 0's last answer may still be on its way when rank 0 is done.
TEST(TcpRendezvous, RankZeroWaitsALittleForTheOthers) {
    const std::string address = free_address();
    Processes ranks(2, [&](int rank) {
        auto store = make_tcp_rendezvous(address, rank, 2, 20 * kSecond);
        store->set(fmt::format("done/{}", rank), "1");
        store->get(fmt::format("done/{}", 1 - rank), 20 * kSecond);
        if (rank == 1) {
            std::this_thread::sleep_for(std::chrono::milliseconds(200));
            store->get("done/0", 20 * kSecond);
        }
        return 0;
    });
    EXPECT_EQ(ranks.wait(), (std::vector<int>{0, 0}));
}

TEST(LauncherRendezvous, NeedsALauncherAndAnAddress) {
    LauncherEnvironment launcher;
    EXPECT_EQ(message_of<ArgumentError>([&] { make_launcher_rendezvous(launcher); }),
              "no launcher says which rank this process is");
    launcher.launcher = "openmpi", launcher.rank = 0, launcher.world = 1;
    EXPECT_EQ(message_of<ArgumentError>([&] { make_launcher_rendezvous(launcher); }),
              "openmpi does not say where rank 0 is");
    launcher.address = free_address();
    make_launcher_rendezvous(launcher)->set("k", "1");
}

TEST(LauncherRendezvous, LeavesTorchrunsPortToTorchrun) {
    LauncherEnvironment launcher;
    launcher.launcher = "torchrun", launcher.rank = 0, launcher.world = 1;
    const int port = free_port();
    launcher.address = fmt::format("localhost:{}", port);
    auto store = make_launcher_rendezvous(launcher);
    auto at_the_port = make_tcp_rendezvous(launcher.address, 0, 1);  // still to be had
    store->set("k", "1");
}

}  // namespace
}  // namespace plait::testing
