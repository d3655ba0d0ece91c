// Who moves next. Fibers that are ready and events that are pending (bulk copies, network, proxies) compete; the seed
// decides, and per launch it also draws a policy, because uniform choice alone never makes anything very late.
#pragma once
#include <cstdint>
#include <exception>
#include <vector>

#include "runtime/sim/fiber.h"
#include "runtime/sim/random.h"

namespace plait {

struct Task {
    enum class State { Ready, Parked, Finished };
    Fiber fiber;
    State state = State::Ready;
    bool slow = false;
};

class EventSource {
public:
    virtual ~EventSource() = default;
    virtual std::uint64_t pending() const = 0;
    virtual void run_one(Random& random) = 0;      // only where pending() > 0
    virtual bool force(Random&) { return false; }  // nothing else can move: one step of what was held back, if anything
};

class Scheduler {
public:
    Scheduler(Random& random, StackPool& stacks) : random_(random), stacks_(stacks) {}

    void draw_policy();
    void start(Task& task, bool slow_group, void (*entry)(void*), void* argument);
    void add_source(EventSource& source) { sources_.push_back(&source); }

    // Runs until `done()` or until nothing can move; false in the latter case. Rethrows what fail() was given.
    template <class Done>
    bool run(Done done) {
        while (!done()) {
            if (!step()) return false;
            if (failure_) std::rethrow_exception(failure_);
        }
        return true;
    }
    // Called on a fiber.
    bool wants_switch() { return random_.chance(switch_of_64_, 64); }
    void yield(Task& task);
    void park(Task& task);
    void wake(Task& task);
    [[noreturn]] void fail(Task& task, std::exception_ptr failure);  // the fiber never runs again

    void forget(Task& task) { task.fiber.release(stacks_); }
    void clear();  // all tasks forgotten by their owner

private:
    bool step();
    bool step_event();
    void step_task();

    Random& random_;
    StackPool& stacks_;
    std::vector<Task*> ready_;
    std::vector<EventSource*> sources_;
    std::exception_ptr failure_;
    std::uint64_t switch_of_64_ = 8, event_of_64_ = 8, slow_of_8_ = 0;
    bool slow_group_only_ = false;
};

}  // namespace plait
