#include "runtime/sim/fiber.h"

#include <sys/mman.h>
#include <unistd.h>

#include <boost/context/preallocated.hpp>

#include "runtime/base/error.h"

namespace plait {
namespace {

// The pool owns the memory; boost only borrows it.
struct BorrowedStack {
    void deallocate(boost::context::stack_context&) noexcept {}
};

}  // namespace

StackPool::~StackPool() {
    const std::size_t guard = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
    for (const auto& stack : all_) munmap(static_cast<char*>(stack.sp) - stack.size - guard, stack.size + guard);
}

boost::context::stack_context StackPool::take() {
    if (!free_.empty()) {
        auto stack = free_.back();
        free_.pop_back();
        return stack;
    }
    const std::size_t guard = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
    void* base =
        mmap(nullptr, kStackBytes + guard, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (base == MAP_FAILED) throw DeviceError("no memory for a fiber stack", "simulate fewer ranks or CTAs");
    mprotect(base, guard, PROT_NONE);
    boost::context::stack_context stack;
    stack.size = kStackBytes;
    stack.sp = static_cast<char*>(base) + guard + kStackBytes;
    all_.push_back(stack);
    return stack;
}

void Fiber::start(StackPool& pool, void (*entry)(void*), void* argument) {
    stack_ = pool.take();
    done_ = false;
    boost::context::preallocated place(stack_.sp, stack_.size, stack_);
    self_.put(boost::context::fiber(std::allocator_arg, place, BorrowedStack{},
                                    [this, entry, argument](boost::context::fiber&& scheduler) {
                                        scheduler_.put(std::move(scheduler));
                                        entry(argument);
                                        done_ = true;
                                        return scheduler_.take();
                                    }));
}

void Fiber::resume() { self_.put(self_.take().resume()); }

void Fiber::suspend() { scheduler_.put(scheduler_.take().resume()); }

void Fiber::release(StackPool& pool) {
    if (stack_.sp) pool.give(stack_);
    stack_ = {};
}

}  // namespace plait
