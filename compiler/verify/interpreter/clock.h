// Vector clocks and events. An event has happened before what a clock knows where the clock has reached its time.
#pragma once
#include <algorithm>
#include <cstdint>
#include <vector>

namespace plait::interpreter {

using Time = std::uint32_t;
inline constexpr Time kPending = 0xffffffff;  // of an event that is not complete: nobody knows it

struct Event {
    std::uint32_t component = 0;
    Time time = kPending;
};

class Clock {
public:
    void resize(std::size_t components) { times_.assign(components, 0); }
    bool empty() const { return times_.empty(); }
    bool knows(const Event& event) const { return event.time != kPending && times_[event.component] >= event.time; }
    void set(std::uint32_t component, Time time) { times_[component] = std::max(times_[component], time); }
    void merge(const Clock& other) {
        if (other.empty()) return;
        if (empty())
            times_ = other.times_;
        else
            for (std::size_t i = 0; i < times_.size(); ++i) times_[i] = std::max(times_[i], other.times_[i]);
    }

private:
    std::vector<Time> times_;
};

}  // namespace plait::interpreter
