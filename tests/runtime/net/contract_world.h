// Several ranks in one thread, each with session, FIFO, rings and proxy; the test plays kernel, relay and waiter. The
// run is driven by one seed: which rank moves next, what it puts, when its kernel and relay get a turn.
#pragma once
#include <algorithm>
#include <cstring>
#include <functional>
#include <random>
#include <string>
#include <vector>

#include "runtime/net/put_check.h"
#include "runtime/proxy/proxy.h"

namespace plait::testing {

struct ContractCase {
    std::uint64_t seed = 1;
    // One session per rank, over these workspaces.
    std::function<std::vector<std::unique_ptr<ProxySession>>(const std::vector<MemoryRegion>&)> make_sessions;
    bool self_puts = true;
    std::uint32_t ranks = 3;
    std::uint64_t puts = 24, max_bytes = 1500, fifo_slots = 8, arrival_slots = 4;
    std::uint64_t max_rounds = 400'000;
};

struct ContractOutcome {
    std::vector<std::string> violations;
    bool finished = false;
    std::vector<SessionCounters> counters;
    std::vector<std::uint64_t> trace;  // completed prefixes over time: equal for equal seeds
};

class ContractWorld {
public:
    explicit ContractWorld(const ContractCase& test) : test_(test), random_(test.seed) {
        stride_ = (test.max_bytes + 7) / 8 * 8;
        flags_at_ = stride_ * test.puts * (test.ranks + 1);
        memory_ = make_host_memory_port();
        ranks_.resize(test.ranks);
        std::vector<MemoryRegion> workspaces;
        for (Rank& rank : ranks_) {
            rank.workspace.assign(flags_at_ + 8 * test.puts * test.ranks, 0);
            rank.fifo.resize(test.fifo_slots);
            rank.arrivals.resize(test.arrival_slots);
            workspaces.push_back({rank.workspace.data(), rank.workspace.size()});
        }
        sessions_ = test.make_sessions(workspaces);
        for (std::uint32_t index = 0; index < test.ranks; ++index) start(index);
    }

    ContractOutcome run() {
        ContractOutcome outcome;
        for (std::uint64_t round = 0; round < test_.max_rounds && !outcome.finished; ++round) {
            const auto index = static_cast<std::uint32_t>(random_() % test_.ranks);
            switch (random_() % 3) {
                case 0:
                    kernel_turn(ranks_[index]);
                    break;
                case 1:
                    relay_turn(ranks_[index]);
                    break;
                case 2:
                    ranks_[index].proxy->step();
                    break;
            }
            outcome.trace.push_back(ranks_[index].lines.fifo_completed);
            look(index, &outcome.violations);
            outcome.finished = std::all_of(ranks_.begin(), ranks_.end(), [&](const Rank& rank) {
                return rank.lines.fifo_completed == test_.puts && rank.seen == rank.expected;
            });
        }
        for (const auto& session : sessions_) outcome.counters.push_back(session->counters());
        return outcome;
    }

private:
    struct Put {
        std::uint32_t destination;
        std::uint64_t bytes;
        bool seen = false;
    };
    struct Rank {
        std::vector<unsigned char> workspace;
        std::vector<TransferCommand> fifo;
        std::vector<Arrival> arrivals;
        HostLines lines{};
        std::unique_ptr<TransferProxy> proxy;
        std::vector<Put> puts;
        std::uint64_t issued = 0, reused = 0, relayed = 0, seen = 0, expected = 0;
    };

    void start(std::uint32_t index) {
        Rank& rank = ranks_[index];
        rank.proxy = std::make_unique<TransferProxy>(
            ProxyRings{rank.fifo.data(), rank.fifo.size(), rank.arrivals.data(), rank.arrivals.size(), &rank.lines},
            *sessions_[index], *memory_, 1 + random_() % 8);
        for (std::uint64_t put = 0; put < test_.puts; ++put) {
            auto destination = static_cast<std::uint32_t>(random_() % test_.ranks);
            if (destination == index && !test_.self_puts) destination = (index + 1) % test_.ranks;
            const std::uint64_t bytes = random_() % 5 == 0 ? 0 : random_() % test_.max_bytes;
            rank.puts.push_back({destination, bytes});
            ++ranks_[destination].expected;
        }
    }

    static unsigned char pattern(std::uint32_t sender, std::uint64_t put, std::uint64_t byte) {
        return static_cast<unsigned char>(1 + (sender * 131 + put * 31 + byte * 7) % 255);  // never 0
    }
    std::uint64_t source_at(std::uint64_t put) const { return stride_ * put; }
    std::uint64_t destination_at(std::uint32_t sender, std::uint64_t put) const {
        return stride_ * (test_.puts * (sender + 1) + put);
    }
    std::uint64_t flag_at(std::uint32_t sender, std::uint64_t put) const {
        return flags_at_ + 8 * (test_.puts * sender + put);
    }

    void kernel_turn(Rank& rank) {
        // A completed put's source belongs to the kernel again, which overwrites it.
        for (; rank.reused < rank.lines.fifo_completed; ++rank.reused)
            std::memset(rank.workspace.data() + source_at(rank.reused), 0xee, stride_);
        if (rank.issued == test_.puts || rank.issued - rank.lines.fifo_completed >= test_.fifo_slots) return;
        const std::uint64_t put = rank.issued++;
        const auto sender = static_cast<std::uint32_t>(&rank - ranks_.data());
        for (std::uint64_t byte = 0; byte < rank.puts[put].bytes; ++byte)
            rank.workspace[source_at(put) + byte] = pattern(sender, put, byte);
        TransferCommand& slot = rank.fifo[put % test_.fifo_slots];
        slot = {slot.sequence,
                static_cast<u32>(TransferOpcode::PutSignal),
                rank.puts[put].destination,
                source_at(put),
                destination_at(sender, put),
                rank.puts[put].bytes,
                flag_at(sender, put),
                put + 1,
                0};
        memory_->store_release(&slot.sequence, put + 1);
    }

    void relay_turn(Rank& rank) {
        if (memory_->load_acquire(&rank.lines.arrivals_posted) == rank.relayed) return;
        const Arrival arrival = rank.arrivals[rank.relayed % test_.arrival_slots];
        memory_->store_release(reinterpret_cast<u64*>(rank.workspace.data() + arrival.signal_offset),
                               arrival.signal_value);
        memory_->store_release(&rank.lines.arrivals_taken, ++rank.relayed);
    }

    void look(std::uint32_t receiver, std::vector<std::string>* violations) {
        unsigned char* workspace = ranks_[receiver].workspace.data();
        for (std::uint32_t sender = 0; sender < test_.ranks; ++sender)
            for (std::uint64_t put = 0; put < ranks_[sender].issued; ++put) {
                Put& entry = ranks_[sender].puts[put];
                if (entry.destination != receiver || entry.seen) continue;
                const u64 flag = memory_->load_acquire(reinterpret_cast<u64*>(workspace + flag_at(sender, put)));
                if (flag == 0) continue;
                entry.seen = true;
                ++ranks_[receiver].seen;
                if (flag != put + 1) violations->push_back("flag value " + std::to_string(flag));
                for (std::uint64_t byte = 0; byte < entry.bytes; ++byte)
                    if (workspace[destination_at(sender, put) + byte] != pattern(sender, put, byte)) {
                        violations->push_back("put " + std::to_string(put) + " of rank " + std::to_string(sender) +
                                              " byte " + std::to_string(byte) + " of " + std::to_string(entry.bytes));
                        break;
                    }
            }
    }

    ContractCase test_;
    std::mt19937_64 random_;
    std::unique_ptr<MemoryPort> memory_;
    std::uint64_t stride_, flags_at_;
    std::vector<std::unique_ptr<ProxySession>> sessions_;  // proxies in ranks_ end before them
    std::vector<Rank> ranks_;
};

}  // namespace plait::testing
