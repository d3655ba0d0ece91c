#include "runtime/net/loopback_fabric.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <thread>

#include "runtime/base/error.h"

namespace plait {
namespace {

TEST(LoopbackFabric, MailboxIsBoundedAndKeepsOrder) {
    auto fabric = LoopbackFabric::in_process(2);
    for (u64 entry = 0; entry < kMailboxEntries; ++entry) ASSERT_TRUE(fabric->send(1, 0, {{entry, 0}}));
    EXPECT_FALSE(fabric->send(1, 0, {{999, 0}}));
    EXPECT_FALSE(fabric->receive(0, 1).has_value());  // the other direction is another mailbox
    for (u64 entry = 0; entry < kMailboxEntries; ++entry) ASSERT_EQ(fabric->receive(1, 0)->word[0], entry);
    EXPECT_FALSE(fabric->receive(1, 0).has_value());
    EXPECT_TRUE(fabric->send(1, 0, {{7, 0}}));
}

// The child's address travels through a pipe, as it would through a store.
TEST(LoopbackFabric, TwoProcessesMeet) {
    int addresses[2];
    ASSERT_EQ(::pipe(addresses), 0);
    auto read_line = [](int file) {
        std::string line;
        for (char byte; ::read(file, &byte, 1) == 1 && byte != '\n';) line += byte;
        return line;
    };
    auto write_line = [](int file, std::string line) {
        line += '\n';
        if (::write(file, line.data(), line.size()) != static_cast<ssize_t>(line.size())) throw TransportError("pipe");
    };
    const pid_t child = ::fork();
    if (child == 0) {
        Exchange exchange{[&](const std::string&, const std::string& value) { write_line(addresses[1], value); },
                          [](const std::string&, std::uint64_t) { return std::string(); }};
        auto fabric = LoopbackFabric::between_processes(2, 1, exchange);
        for (u64 value = 0; value < 1000; ++value)
            while (!fabric->send(0, 1, {{value, value * 3}})) std::this_thread::yield();
        ::_exit(0);
    }
    Exchange exchange{[](const std::string&, const std::string&) {},
                      [&](const std::string&, std::uint64_t) { return read_line(addresses[0]); }};
    auto fabric = LoopbackFabric::between_processes(2, 0, exchange);
    for (u64 value = 0; value < 1000;) {
        const auto entry = fabric->receive(0, 1);
        if (!entry) {
            std::this_thread::yield();
            continue;
        }
        ASSERT_EQ(entry->word[0], value);
        ASSERT_EQ(entry->word[1], value * 3);
        ++value;
    }
    int status = 0;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    EXPECT_EQ(status, 0);
    for (int file : addresses) ::close(file);
}

TEST(LoopbackFabric, SaysThatRankZeroHandsNothingOver) {
    Exchange exchange{[](const std::string&, const std::string&) {},
                      [](const std::string&, std::uint64_t) { return std::string(); }, 20'000'000};
    try {
        LoopbackFabric::between_processes(2, 1, exchange);
        FAIL() << "no error";
    } catch (const TransportError& error) {
        EXPECT_EQ(error.message(), "no peer handed its memory over within 20 ms");
    }
}

}  // namespace
}  // namespace plait
