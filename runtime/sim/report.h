// What a simulated launch is given and what it reports: plain data, also where the simulator is switched off.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "runtime/net/proxy_session.h"

namespace plait {

// A rank that is killed, or stopped in a debugger: after that many steps of a launch none of its agents and not its proxy
// do anything more, but for `returns`: then it goes on when all others have left. Its memory stays.
struct LostRank {
    int rank = -1;  // none
    std::uint64_t after_steps = 0;
    bool returns = false;
};

struct SimOptions {
    std::uint64_t seed = 1;
    NetworkContract network = NetworkContract::Ordered;
    std::uint64_t fifo_slots = 64, arrival_slots = 64, send_queue_depth = 8;
    std::uint64_t max_steps = 0;  // 0: no limit
    bool check_memory = true;     // happens-before checks; off only to time the math
    bool trace = false;
    std::uint32_t resident_ctas = 0;  // per rank; 0: the topology's SMs
    std::uint32_t occupied_sms = 0;   // of these, held by another kernel: so many CTAs start only when others have left
    std::uint64_t entry_deadline_ns = 60'000'000'000ull, wait_deadline_ns = 10'000'000'000ull;
    LostRank lost;
};

struct TraceEvent {  // a span that began at `step`; it ends where the agent's next one begins
    std::uint32_t rank, cta, agent;
    std::uint32_t kind;  // runtime/trace/trace_kind.h
    std::int64_t value;
    std::uint64_t step;
};
struct LinkTraffic {
    int from = 0, to = 0;
    bool network = false;
    std::uint64_t bytes = 0, transfers = 0;
};
struct UnwrittenOutput {  // bytes of an output that nobody wrote in the launch
    int rank = 0;
    std::string tensor;
    std::uint64_t first_byte = 0, bytes = 0;
};
struct LaunchReport {
    std::uint64_t steps = 0;
    std::vector<TraceEvent> events;
    std::vector<LinkTraffic> links;          // payload bytes by (from, to)
    bool aborted = false;                    // every kernel has left, the launch was given up
    std::string stall;                       // who waited for what when nothing could move any more; else empty
    std::vector<UnwrittenOutput> unwritten;  // empty where every output byte was written (check_memory only)
};

}  // namespace plait
