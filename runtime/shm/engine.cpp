#include "runtime/shm/engine.h"

#include <sched.h>

#include <algorithm>
#include <exception>
#include <thread>

#include "runtime/shm/worker.h"

namespace plait {

int default_shm_threads(int ranks) {
    cpu_set_t cores;
    CPU_ZERO(&cores);
    // What this process may use, which a container or taskset narrows.
    const int count = sched_getaffinity(0, sizeof(cores), &cores) == 0
                          ? CPU_COUNT(&cores)
                          : static_cast<int>(std::thread::hardware_concurrency());
    return std::max(1, count / std::max(1, ranks));
}

ShmEngine::ShmEngine(int threads) {
    for (int i = 0; i < threads; ++i) stacks_.push_back(std::make_unique<StackPool>());
}

void ShmEngine::run(const ShmLaunch& launch) {
    const auto workers =
        std::min<std::uint32_t>(launch.ctas / launch.cluster, static_cast<std::uint32_t>(stacks_.size()));
    ShmLaunchState state{launch};
    std::vector<std::exception_ptr> failures(workers);
    const auto work = [&](std::uint32_t index) {
        try {
            ShmWorker(state, *stacks_[index], index, workers).run();
        } catch (...) {
            failures[index] = std::current_exception();
            state.failed.store(true, std::memory_order_release);
        }
    };
    {
        std::vector<std::jthread> others;
        for (std::uint32_t index = 1; index < workers; ++index) others.emplace_back(work, index);
        work(0);
    }
    for (const std::exception_ptr& failure : failures) {
        if (failure) std::rethrow_exception(failure);
    }
}

}  // namespace plait
