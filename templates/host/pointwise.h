// Functions of one element, and the ordinary loads that feed them.
#pragma once
#include "agent.h"
#include "number.h"

extern "C" {
float erff(float);
float tanhf(float);
float expf(float);
}

namespace plait {

static inline f32 add(f32 x, f32 y) { return x + y; }
static inline f32 mul(f32 x, f32 y) { return x * y; }
static inline f32 relu(f32 x) { return x > 0.0f ? x : 0.0f; }
static inline f32 gelu(f32 x) { return 0.5f * x * (1.0f + erff(x * 0.70710678118654752f)); }
static inline f32 gelu_tanh(f32 x) {
    return 0.5f * x * (1.0f + tanhf(0.79788456080286536f * (x + 0.044715f * x * x * x)));
}
static inline f32 silu(f32 x) { return x / (1.0f + expf(-x)); }
static inline f32 silu_mul(f32 x, f32 y) { return silu(x) * y; }

// The engine is asked once per range of constant memory (a caller's input), and each time for anything else.
template <class T>
f32 load_at(Agent& ag, const T* pointer, i64 index) {
    const u8* address = reinterpret_cast<const u8*>(pointer + index);
    if (address < ag.constant_first || address + sizeof(T) > ag.constant_end) {
        declare_access(ag, Access::Read, address, sizeof(T));
        ag.constant_first = address;
        ag.constant_end = address + ag.engine->constant_bytes(ag.handle, address);
    }
    return to_f32(pointer[index]);
}
// Column c of a vector of `cols`; 0 beyond it, without an access.
template <class T>
f32 col_at(Agent& ag, const T* vector, i64 c, i64 cols) {
    return c < cols ? load_at(ag, vector, c) : 0.0f;
}
// Element (r, c) of a matrix whose rows lie `pitch` elements apart.
template <class T>
f32 cell_at(Agent& ag, const T* matrix, i64 r, i64 c, i64 rows, i64 cols, i64 pitch) {
    return r < rows && c < cols ? load_at(ag, matrix, r * pitch + c) : 0.0f;
}

}  // namespace plait
