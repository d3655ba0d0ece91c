#include "runtime/sim/scheduler.h"

#include <algorithm>

namespace plait {
namespace {

template <std::size_t n>
std::uint64_t pick(Random& random, const std::uint64_t (&values)[n]) {
    return values[random.below(n)];
}

}  // namespace

// event_of_64 0: events run only when no fiber can, as late as they may be. slow_of_8: how many of eight agents are
// slow, or 8: all those of a slow group (one rank).
void Scheduler::draw_policy() {
    switch_of_64_ = pick(random_, {1, 4, 16, 40});
    event_of_64_ = pick(random_, {0, 1, 8, 40});
    slow_of_8_ = pick(random_, {0, 0, 2, 8});
    slow_group_only_ = slow_of_8_ == 8;
}

void Scheduler::start(Task& task, bool slow_group, void (*entry)(void*), void* argument) {
    task.slow = slow_group_only_ ? slow_group : random_.chance(slow_of_8_, 8);
    task.state = Task::State::Ready;
    task.fiber.start(stacks_, entry, argument);
    ready_.push_back(&task);
}

bool Scheduler::step() {
    const bool event_first = ready_.empty() || random_.chance(event_of_64_, 64);
    if (event_first && step_event()) return true;
    if (ready_.empty()) {
        for (EventSource* source : sources_) {
            if (source->force(random_)) return true;
        }
        return false;
    }
    step_task();
    return true;
}

bool Scheduler::step_event() {
    std::uint64_t total = 0;
    for (EventSource* source : sources_) total += source->pending();
    if (total == 0) return false;
    std::uint64_t chosen = random_.below(total);
    for (EventSource* source : sources_) {
        const std::uint64_t pending = source->pending();
        if (chosen < pending) {
            source->run_one(random_);
            return true;
        }
        chosen -= pending;
    }
    return false;
}

void Scheduler::step_task() {
    std::size_t index = random_.below(ready_.size());
    for (int again = 0; again < 3 && ready_[index]->slow && random_.chance(7, 8); ++again)
        index = random_.below(ready_.size());
    Task* task = ready_[index];
    ready_[index] = ready_.back();
    ready_.pop_back();
    task->fiber.resume();
    if (task->fiber.done()) {
        task->state = Task::State::Finished;
        task->fiber.release(stacks_);
    }
}

void Scheduler::yield(Task& task) {
    ready_.push_back(&task);
    task.fiber.suspend();
}

void Scheduler::park(Task& task) {
    task.state = Task::State::Parked;
    task.fiber.suspend();
}

void Scheduler::wake(Task& task) {
    if (task.state != Task::State::Parked) return;
    task.state = Task::State::Ready;
    ready_.push_back(&task);
}

void Scheduler::fail(Task& task, std::exception_ptr failure) {
    failure_ = std::move(failure);
    for (;;) task.fiber.suspend();
}

void Scheduler::clear() {
    ready_.clear();
    failure_ = nullptr;
}

}  // namespace plait
