// The second host engine: fills templates/abi/host_engine.h for one rank, which is this process. Real threads, real
// atomics, the wall clock; nothing is checked, nothing is chosen by a seed.
//
// A launch's clusters of CTAs are dealt out to a few threads; each agent is a fiber of its cluster's thread, so barriers, rings
// and shared memory of a cluster belong to one thread, and every agent makes progress whatever the number of cores. Flags,
// launch state and host lines are shared with other threads and processes and go through std::atomic_ref.
//
// Bulk copies and matrix operations are done when they are issued. Their barriers and groups therefore promise what they
// promise on a GPU, earlier than there: what is missing before them is the simulator's to find.
#pragma once
#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "runtime/artifact/host_module.h"
#include "runtime/sim/fiber.h"
#include "templates/abi/kernel_args.h"

namespace plait {

struct ShmLaunch {
    HostKernel kernel = nullptr;
    const void* args = nullptr;
    const Launch* launch = nullptr;   // the first field of args
    std::vector<std::string> agents;  // of a CTA
    std::uint64_t shared_bytes = 0;
    std::uint32_t ctas = 1, cluster = 1;  // cluster: CTAs of a cluster, which divides ctas
    struct Range {
        const unsigned char* first;
        std::uint64_t bytes;
    };
    std::vector<Range> inputs;  // what stays as it is for the whole launch
};

// What the threads of a launch share.
struct ShmLaunchState {
    const ShmLaunch& launch;
    std::atomic<std::uint64_t> moves{0};  // grows while anything happens
    std::atomic<bool> failed{false};      // a thread threw: the others leave
};

class ShmEngine {
public:
    explicit ShmEngine(int threads);
    // Runs one launch to its end on the calling thread and threads - 1 more. An aborted launch ends too, with
    // DeviceState::abort set. StallError: agents that wait for each other; their fibers are dropped.
    void run(const ShmLaunch& launch);
    int threads() const { return static_cast<int>(stacks_.size()); }

private:
    std::vector<std::unique_ptr<StackPool>> stacks_;  // by thread
};

// Cores for one of `ranks` ranks that share this machine.
int default_shm_threads(int ranks);

}  // namespace plait
