// Fixed-width integers without a header: NVRTC and the in-process Clang compile this with no include path.
#pragma once

// Layouts that two sides share. NVRTC has no __builtin_offsetof; nvcc and the host's compilers check for it.
#if defined(__CUDACC_RTC__)
#define PLAIT_AT_OFFSET(type, field, offset) static_assert(true)
#else
#define PLAIT_AT_OFFSET(type, field, offset) static_assert(__builtin_offsetof(type, field) == (offset))
#endif

// Arithmetic on layouts, for both sides: on the GPU every function needs an execution space.
#if defined(__CUDACC__)
#define PLAIT_SHARED __host__ __device__ inline constexpr
#else
#define PLAIT_SHARED inline constexpr
#endif

namespace plait {
using u8 = unsigned char;
using u16 = unsigned short;
using u32 = unsigned int;
using u64 = unsigned long long;
using i32 = int;
using i64 = long long;
using f32 = float;
static_assert(sizeof(u16) == 2 && sizeof(u32) == 4 && sizeof(u64) == 8 && sizeof(void*) == 8, "plait needs a 64-bit machine");
}  // namespace plait
