// Register tiles: memory that the engine keeps for the agent. The accumulator of one consumer warpgroup is fp32, M x N,
// row-major.
#pragma once
#include "agent.h"

namespace plait {

// One of the agent's slots of memory, free again at the end of its scope.
class RegisterSlot {
public:
    RegisterSlot() = default;
    RegisterSlot(Agent& ag, u64 bytes) { take(ag, bytes); }
    RegisterSlot(const RegisterSlot&) = delete;
    RegisterSlot& operator=(const RegisterSlot&) = delete;
    ~RegisterSlot() {
        if (owner_ != nullptr) owner_->register_slots &= ~(1u << slot_);
    }

    void* take(Agent& ag, u64 bytes) {
        if (owner_ != nullptr) return data_;
        owner_ = &ag;
        while ((ag.register_slots >> slot_ & 1u) != 0) slot_ += 1;
        ag.register_slots |= 1u << slot_;
        data_ = ag.engine->registers(ag.handle, bytes, slot_);
        ag.engine->touch(ag.handle, data_);
        return data_;
    }
    void* data() const { return data_; }

private:
    Agent* owner_ = nullptr;
    void* data_ = nullptr;
    u32 slot_ = 0;
};

template <i64 M, i64 N>
struct Acc {
    static_assert(M % 64 == 0 && N % 8 == 0 && N <= 256,
                  "a matrix operation computes 64 rows by a multiple of 8 columns up to 256");
    static constexpr i64 blocks = M / 64;

    Acc() = default;
    Acc(const Acc&) = delete;
    Acc& operator=(const Acc&) = delete;

    // Register tiles come into being where they are first used.
    f32* values(Agent& ag) { return static_cast<f32*>(memory_.take(ag, M * N * sizeof(f32))); }
    const f32* values() const { return static_cast<const f32*>(memory_.data()); }

private:
    RegisterSlot memory_;
};

// x = f(row, col, x), rows and columns counted from (row, col).
template <i64 M, i64 N, class Function>
void map(Agent& ag, Acc<M, N>& acc, i64 row, i64 col, Function f) {
    f32* x = acc.values(ag);
    ag.engine->touch(ag.handle, x);
    for (i64 r = 0; r < M; r += 1) {
        for (i64 c = 0; c < N; c += 1) x[r * N + c] = f(row + r, col + c, x[r * N + c]);
    }
}

// acc = f(acc, other).
template <i64 M, i64 N, class Function>
void join(Agent& ag, Acc<M, N>& acc, Acc<M, N>& other, Function f) {
    f32* x = acc.values(ag);
    const f32* y = other.values(ag);
    ag.engine->touch(ag.handle, x);
    ag.engine->touch(ag.handle, y);
    for (i64 i = 0; i < M * N; i += 1) x[i] = f(x[i], y[i]);
}

}  // namespace plait
