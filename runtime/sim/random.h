// The simulator's only source of chance: splitmix64, the same numbers on every platform and standard library.
#pragma once
#include <cstdint>

namespace plait {

class Random {
public:
    explicit Random(std::uint64_t seed) : state_(seed) {}
    std::uint64_t next() {
        std::uint64_t z = (state_ += 0x9E3779B97F4A7C15ull);
        z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ull;
        z = (z ^ (z >> 27)) * 0x94D049BB133111EBull;
        return z ^ (z >> 31);
    }
    // [0, n); n > 0 and below 2^32. The high half of a product: no division, bias below 2^-32.
    std::uint64_t below(std::uint64_t n) { return ((next() >> 32) * n) >> 32; }
    bool chance(std::uint64_t numerator, std::uint64_t denominator) { return below(denominator) < numerator; }

private:
    std::uint64_t state_;
};

}  // namespace plait
