// Fibers that can be forgotten: an agent that is parked when a run fails is dropped with its stack, without unwinding.
// Kernel code is compiled without unwind tables, so boost's forced unwind through it would terminate the process.
// Engine code keeps no owning object in a frame that may be suspended for ever.
#pragma once
#include <boost/context/fiber.hpp>
#include <cstddef>
#include <new>
#include <vector>

namespace plait {

// Stacks of one size with a guard page below each. Given back stacks are used again.
class StackPool {
public:
    static constexpr std::size_t kStackBytes = 256 * 1024;
    StackPool() = default;
    StackPool(const StackPool&) = delete;
    StackPool& operator=(const StackPool&) = delete;
    ~StackPool();
    boost::context::stack_context take();
    void give(const boost::context::stack_context& stack) { free_.push_back(stack); }

private:
    std::vector<boost::context::stack_context> all_, free_;
};

class Fiber {
public:
    Fiber() = default;
    Fiber(const Fiber&) = delete;
    Fiber& operator=(const Fiber&) = delete;

    // entry must not throw. The stack stays with the fiber until release().
    void start(StackPool& pool, void (*entry)(void*), void* argument);
    void resume();   // by the scheduler: until the fiber suspends or ends
    void suspend();  // by the fiber itself
    bool done() const { return done_; }
    void release(StackPool& pool);  // done, or to be forgotten

private:
    // Holds a boost fiber without ever unwinding it: the destructor of a live one is not run.
    class Slot {
    public:
        void put(boost::context::fiber&& fiber) { new (bytes_) boost::context::fiber(std::move(fiber)); }
        boost::context::fiber take() {
            auto* held = std::launder(reinterpret_cast<boost::context::fiber*>(bytes_));
            boost::context::fiber out = std::move(*held);
            held->~fiber();
            return out;
        }

    private:
        alignas(boost::context::fiber) unsigned char bytes_[sizeof(boost::context::fiber)];
    };

    Slot self_, scheduler_;
    boost::context::stack_context stack_;
    bool done_ = false;
};

}  // namespace plait
