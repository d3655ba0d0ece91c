// Integer arithmetic that sizes are made of.
#pragma once
#include <cstdint>

namespace plait {

inline std::int64_t ceil_div(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

}  // namespace plait
