// Vector clocks: what an actor may rely on.
//
// A component is a stream of events that become known in order: the ordinary accesses of one lane (time advances when
// they are published), the bulk groups of an agent, the phases of a barrier. Global components exist for the life of a
// cluster. Local ones (kLocalComponent) belong to the CTAs of one thread block cluster (mostly one CTA) and one launch: only
// asynchronous accesses to their shared memory carry them, so no clock that leaves them has to.
#pragma once
#include <cstdint>
#include <vector>

namespace plait {

inline constexpr std::uint32_t kNoComponent = 0xFFFFFFFFu;
inline constexpr std::uint32_t kLocalComponent = 0x80000000u;

struct Epoch {
    std::uint32_t component = kNoComponent;
    std::uint32_t time = 0;
    bool none() const { return component == kNoComponent; }
    bool operator==(const Epoch&) const = default;
};

class Clock {
public:
    std::uint32_t get(std::uint32_t component) const { return component < times_.size() ? times_[component] : 0; }
    void set(std::uint32_t component, std::uint32_t time) {
        if (component >= times_.size()) times_.resize(component + 1, 0);
        times_[component] = time;
    }
    void raise(std::uint32_t component, std::uint32_t time) {
        if (get(component) < time) set(component, time);
    }
    void join(const Clock& other) {
        if (other.times_.size() > times_.size()) times_.resize(other.times_.size(), 0);
        const std::uint32_t* from = other.times_.data();
        std::uint32_t* to = times_.data();
        for (std::size_t i = 0, n = other.times_.size(); i < n; ++i) to[i] = to[i] < from[i] ? from[i] : to[i];
    }
    void clear() { times_.clear(); }

private:
    std::vector<std::uint32_t> times_;
};

struct Knowledge {
    Clock global, local;
    bool covers(const Epoch& epoch) const {
        if (epoch.component & kLocalComponent) return local.get(epoch.component & ~kLocalComponent) >= epoch.time;
        return global.get(epoch.component) >= epoch.time;
    }
    void raise(const Epoch& epoch) {
        if (epoch.component & kLocalComponent)
            local.raise(epoch.component & ~kLocalComponent, epoch.time);
        else
            global.raise(epoch.component, epoch.time);
    }
    void join(const Knowledge& other) {
        global.join(other.global);
        local.join(other.local);
    }
    void clear() {
        global.clear();
        local.clear();
    }
};

// generic: what ordinary accesses may rely on; async: what bulk copies and matrix operations may rely on.
struct ProxyKnowledge {
    Knowledge generic, async;
    void join(const ProxyKnowledge& other) {
        generic.join(other.generic);
        async.join(other.async);
    }
    void join_local(const ProxyKnowledge& other) {
        generic.local.join(other.generic.local);
        async.local.join(other.async.local);
    }
    void raise(const Epoch& epoch) {
        generic.raise(epoch);
        async.raise(epoch);
    }
    void clear() {
        generic.clear();
        async.clear();
    }
};

}  // namespace plait
