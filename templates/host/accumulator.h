// The accumulator of one consumer warpgroup: fp32, M x N, row-major in memory that the engine keeps for the agent.
#pragma once
#include "agent.h"

namespace plait {

template <i64 M, i64 N>
struct Acc {
    static_assert(M % 64 == 0 && N % 8 == 0 && N <= 256,
                  "a matrix operation computes 64 rows by a multiple of 8 columns up to 256");
    static constexpr i64 blocks = M / 64;

    Acc() = default;
    Acc(const Acc&) = delete;
    Acc& operator=(const Acc&) = delete;
    ~Acc() {
        if (owner) owner->live_accumulators -= 1;
    }

    // Register tiles come into being where they are first used, last in, first out.
    f32* values(Agent& ag) {
        if (owner) return data;
        owner = &ag;
        data = static_cast<f32*>(ag.engine->registers(ag.handle, M * N * sizeof(f32), ag.live_accumulators));
        ag.live_accumulators += 1;
        ag.engine->touch(ag.handle, data);
        return data;
    }

    Agent* owner = nullptr;
    f32* data = nullptr;
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
