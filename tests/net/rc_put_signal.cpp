// Two ranks in two processes put payloads into each other over real RC queue pairs, through FIFO, proxy thread and RC
// session, and compare every byte once the flag is visible. Run by run_soft_roce.sh; runs on any RDMA device as well.
//
//   rc_put_signal [--device NAME] [--peer-device NAME] [--gid INDEX] [--puts N] [--seed S] [--timeout T]
//                 [--case CASE]...
//
// Cases, each --case runs one: puts (default); killed: rank 1 dies by SIGKILL in the middle, rank 0 must fail in a
// typed error in time; overreach: rank 1 claims a larger workspace than it registered, the NIC must refuse what rank 0
// puts there.
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <random>
#include <string>
#include <thread>

#include <fmt/format.h>

#include "runtime/base/error.h"
#include "runtime/net/ibverbs.h"
#include "runtime/proxy/proxy_thread.h"
#include "runtime/session/rendezvous.h"

namespace plait {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::uint64_t kSlots = 16, kSlotBytes = 512 << 10, kGuardBytes = 64;
constexpr std::uint64_t kSourceAt = 4096, kDestinationAt = kSourceAt + kSlots * kSlotBytes;
constexpr std::uint64_t kWorkspaceBytes = kDestinationAt + kSlots * kSlotBytes;
constexpr std::uint64_t kAckAt = 8 * kSlots;  // flags first: one a slot, then the acknowledgement
constexpr unsigned char kGuard = 0xa5;
constexpr auto kDeadline = std::chrono::seconds(60);

struct RunSettings {
    std::string device[2] = {"rxe0", "rxe1"};
    int gid_index = 1;
    std::uint8_t timeout = RcOptions{}.timeout;
    std::uint64_t puts = 2000, seed = 1;
    std::vector<std::string> tests;  // to run; `test` is the one under way
    std::string test, meeting_place;
};

struct Payload {
    std::uint64_t bytes, source_shift, destination_shift;
};
// Both sides know what put `number` of `sender` looks like. One in eight is empty, one in sixteen large.
Payload payload_of(const RunSettings& settings, std::uint32_t sender, std::uint64_t number) {
    std::mt19937_64 random(settings.seed * 1'000'003 + number * 2 + sender);
    const std::uint64_t kind = random() % 16;
    const std::uint64_t limit = kind == 0 ? kSlotBytes / 2 : 16 << 10;
    return {kind == 1 || kind == 2 ? 0 : 1 + random() % limit, random() % 256, kGuardBytes + random() % 256};
}
unsigned char pattern(std::uint32_t sender, std::uint64_t number, std::uint64_t byte) {
    return static_cast<unsigned char>(sender * 83 + number * 29 + byte * 7 + (byte >> 8));
}

class Rank {
public:
    Rank(const RunSettings& settings, std::uint32_t rank)
        : settings_(settings),
          rank_(rank),
          workspace_(kWorkspaceBytes + 4096, 0),
          fifo_(64),
          arrivals_(16),
          memory_(make_host_memory_port()) {
        RcOptions options;
        options.rank = rank;
        options.world = 2;
        options.peers = {1 - rank};
        base_ = workspace_.data() + (4096 - reinterpret_cast<std::uintptr_t>(workspace_.data()) % 4096) % 4096;
        options.workspace = {base_, kWorkspaceBytes};
        options.device.name = settings.device[rank];
        options.device.gid_index = settings.gid_index;
        options.timeout = settings.timeout;
        options.exchange = exchange_through(make_directory_rendezvous(settings.meeting_place), 20'000'000'000ull);
        if (settings.test == "overreach") claim_more(&options.exchange);
        // Before the peer can write here, which is before make_rc_session returns.
        std::memset(base_ + kDestinationAt, kGuard, kSlots * kSlotBytes);
        session_ = make_rc_session(open_verbs(), options);
        ProxyThreadOptions thread;
        thread.drain_ns = 5'000'000'000ull;
        proxy_ = std::make_unique<ProxyThread>(
            std::make_unique<TransferProxy>(
                ProxyRings{fifo_.data(), fifo_.size(), arrivals_.data(), arrivals_.size(), &lines_}, *session_,
                *memory_),
            thread);
    }

    std::string run_puts() {
        const auto begin = Clock::now();
        auto last_moved = begin;
        while (sent_ < settings_.puts || checked_ < settings_.puts || acknowledged() < settings_.puts) {
            proxy_->check();
            const bool sent = send(), received = receive();
            if (sent || received)
                last_moved = Clock::now();
            else
                std::this_thread::sleep_for(std::chrono::microseconds(20));  // leaves the core to the proxy thread
            if (Clock::now() - last_moved > kDeadline)
                throw StallError(fmt::format("rank {}: sent {}, checked {}, acknowledged {} of {}", rank_, sent_,
                                             checked_, acknowledged(), settings_.puts));
            if (settings_.test == "killed" && rank_ == 1 && checked_ >= settings_.puts / 2) ::raise(SIGKILL);
        }
        if (!proxy_->stop()) throw StallError(fmt::format("rank {}: the proxy did not drain", rank_));
        const double seconds = std::chrono::duration<double>(Clock::now() - begin).count();
        const SessionCounters counters = session_->counters();
        return fmt::format(
            "rank {}: {} puts sent, {} checked, {} bytes compared, {:.1f} s, posted {} completed {} queue full {}, {}",
            rank_, sent_, checked_, compared_bytes_, seconds, counters.posted, counters.completed, counters.queue_full,
            session_->describe());
    }

    void put_beyond_registration() {
        push(
            {0, static_cast<u32>(TransferOpcode::PutSignal), 1, kSourceAt, kWorkspaceBytes + (1 << 20), 4096, 0, 1, 0});
        for (const auto until = Clock::now() + kDeadline; Clock::now() < until;
             std::this_thread::sleep_for(std::chrono::milliseconds(1)))
            proxy_->check();
    }

private:
    u64 acknowledged() { return memory_->load_acquire(reinterpret_cast<u64*>(base_ + kAckAt)); }
    u64 completed() { return memory_->load_acquire(&lines_.fifo_completed); }

    void push(TransferCommand command) {
        while (pushed_ - completed() >= fifo_.size()) proxy_->check();
        TransferCommand& slot = fifo_[pushed_ % fifo_.size()];
        command.sequence = slot.sequence;
        slot = command;
        memory_->store_release(&slot.sequence, ++pushed_);
    }

    bool send() {
        // A slot's source is free once its last put has completed here and was checked there.
        if (sent_ == settings_.puts || sent_ - acknowledged() >= kSlots || completed() < position_of_[sent_ % kSlots])
            return false;
        const Payload payload = payload_of(settings_, rank_, sent_);
        const std::uint64_t slot = sent_ % kSlots;
        unsigned char* source = base_ + kSourceAt + slot * kSlotBytes + payload.source_shift;
        for (std::uint64_t byte = 0; byte < payload.bytes; ++byte) source[byte] = pattern(rank_, sent_, byte);
        push({0, static_cast<u32>(TransferOpcode::PutSignal), 1 - rank_,
              kSourceAt + slot * kSlotBytes + payload.source_shift,
              kDestinationAt + slot * kSlotBytes + payload.destination_shift, payload.bytes, 8 * slot, sent_ + 1, 0});
        position_of_[slot] = pushed_;
        ++sent_;
        return true;
    }

    bool receive() {
        const std::uint64_t slot = checked_ % kSlots;
        if (checked_ == settings_.puts ||
            memory_->load_acquire(reinterpret_cast<u64*>(base_ + 8 * slot)) < checked_ + 1)
            return false;
        const Payload payload = payload_of(settings_, 1 - rank_, checked_);
        unsigned char* destination = base_ + kDestinationAt + slot * kSlotBytes;
        const std::uint64_t end = payload.destination_shift + payload.bytes;
        for (std::uint64_t byte = 0; byte < end + kGuardBytes; ++byte) {
            const bool inside = byte >= payload.destination_shift && byte < end;
            const unsigned char expected =
                inside ? pattern(1 - rank_, checked_, byte - payload.destination_shift) : kGuard;
            if (destination[byte] != expected)
                throw TransportError(
                    fmt::format("rank {}: put {} of {} bytes, byte {} of the slot is {:#x}, expected {:#x}", rank_,
                                checked_, payload.bytes, byte, destination[byte], expected));
        }
        std::memset(destination, kGuard, end + kGuardBytes);
        compared_bytes_ += payload.bytes;
        ++checked_;
        push({0, static_cast<u32>(TransferOpcode::PutSignal), 1 - rank_, 0, 0, 0, kAckAt, checked_, 0});
        return true;
    }

    // The endpoint text is `rc1 lid mtu gid qp psn address bytes key`: doubles `bytes`, as a broken peer might.
    static void claim_more(Exchange* exchange) {
        exchange->get = [get = exchange->get](const std::string& key, std::uint64_t timeout) {
            std::string text = get(key, timeout);
            const std::string size = fmt::format(" {} ", kWorkspaceBytes);
            if (const auto at = text.find(size); at != std::string::npos)
                text.replace(at, size.size(), fmt::format(" {} ", 2 * kWorkspaceBytes));
            return text;
        };
    }

    RunSettings settings_;
    std::uint32_t rank_;
    std::vector<unsigned char> workspace_;
    unsigned char* base_ = nullptr;
    std::vector<TransferCommand> fifo_;
    std::vector<Arrival> arrivals_;
    HostLines lines_{};
    std::unique_ptr<MemoryPort> memory_;
    std::unique_ptr<ProxySession> session_;
    std::unique_ptr<ProxyThread> proxy_;  // before the session is destroyed
    std::uint64_t sent_ = 0, checked_ = 0, pushed_ = 0, compared_bytes_ = 0;
    std::uint64_t position_of_[kSlots] = {};
};

// 0 as the case expects, 1 otherwise.
int run_rank(const RunSettings& settings, std::uint32_t rank) {
    const bool must_fail = rank == 0 && settings.test != "puts";
    const auto begin = Clock::now();
    std::setvbuf(stdout, nullptr, _IOLBF, 0);
    try {
        Rank self(settings, rank);
        std::string report = "ended";
        if (settings.test != "overreach")
            report = self.run_puts();
        else if (rank == 0)
            self.put_beyond_registration();
        else
            std::this_thread::sleep_for(std::chrono::seconds(3));
        if (must_fail) throw InternalError("no error came");
        std::printf("%s\n", report.c_str());
        return 0;
    } catch (const Error& error) {
        const bool expected = must_fail && error.kind() == "TransportError";
        std::printf("rank %u: %s after %.1f s: %s: %s\n", rank, expected ? "failed as it must" : "FAILED",
                    std::chrono::duration<double>(Clock::now() - begin).count(), error.kind().c_str(),
                    error.message().c_str());
        return expected ? 0 : 1;
    }
}

RunSettings parse(int count, char** words) {
    RunSettings settings;
    const std::map<std::string, std::function<void(const std::string&)>> options = {
        {"--device", [&](const std::string& word) { settings.device[0] = word; }},
        {"--peer-device", [&](const std::string& word) { settings.device[1] = word; }},
        {"--gid", [&](const std::string& word) { settings.gid_index = std::stoi(word); }},
        {"--puts", [&](const std::string& word) { settings.puts = std::stoull(word); }},
        {"--seed", [&](const std::string& word) { settings.seed = std::stoull(word); }},
        {"--timeout", [&](const std::string& word) { settings.timeout = static_cast<std::uint8_t>(std::stoi(word)); }},
        {"--case", [&](const std::string& word) { settings.tests.push_back(word); }}};
    for (int index = 1; index + 1 < count; index += 2) {
        const auto option = options.find(words[index]);
        if (option == options.end()) throw ArgumentError(fmt::format("unknown option {}", words[index]));
        option->second(words[index + 1]);
    }
    if (count % 2 == 0) throw ArgumentError(fmt::format("option {} has no value", words[count - 1]));
    if (settings.tests.empty()) settings.tests = {"puts"};
    for (const std::string& test : settings.tests)
        if (test != "puts" && test != "killed" && test != "overreach")
            throw ArgumentError(fmt::format("unknown case {}", test), "puts, killed or overreach");
    return settings;
}

int run_both(RunSettings settings) {
    char folder[] = "/tmp/rc_put_signal.XXXXXX";
    if (!::mkdtemp(folder)) throw TransportError("no folder to meet in");
    settings.meeting_place = folder;
    const pid_t child = ::fork();
    if (child == 0) {
        const int status = run_rank(settings, 1);
        std::fflush(nullptr);
        ::_exit(status);
    }
    const int own = run_rank(settings, 0);
    int status = 0;
    ::waitpid(child, &status, 0);
    const bool died = settings.test == "killed" ? WIFSIGNALED(status) : WIFEXITED(status) && WEXITSTATUS(status) == 0;
    const bool passed = own == 0 && died;
    std::printf("rc_put_signal %s: %s, %llu puts each way, seed %llu, devices %s and %s\n", passed ? "PASS" : "FAIL",
                settings.test.c_str(), static_cast<unsigned long long>(settings.puts),
                static_cast<unsigned long long>(settings.seed), settings.device[0].c_str(), settings.device[1].c_str());
    return passed ? 0 : 1;
}

}  // namespace
}  // namespace plait

int main(int count, char** words) {
    try {
        auto settings = plait::parse(count, words);
        int failures = 0;
        for (const std::string& test : settings.tests) {
            settings.test = test;
            failures += plait::run_both(settings);
        }
        return failures == 0 ? 0 : 1;
    } catch (const std::exception& error) {
        std::fprintf(stderr, "rc_put_signal: %s\n", error.what());
        return 2;
    }
}
