// What a fused AllGather + GEMM must give, computed on the CPU in fp32 from the same 16-bit inputs.
#pragma once
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

namespace plait::gpu_test {

inline float from_bits(std::uint32_t bits) {
    float value;
    std::memcpy(&value, &bits, 4);
    return value;
}

inline float to_float(std::uint16_t bits, bool bf16) {
    if (bf16) return from_bits(std::uint32_t{bits} << 16);
    const std::uint32_t sign = (bits & 0x8000u) << 16, exponent = bits >> 10 & 31, mantissa = bits & 0x3ff;
    if (exponent == 31) return from_bits(sign | 0x7f800000u | mantissa << 13);
    const float magnitude = exponent == 0
                                ? std::ldexp(static_cast<float>(mantissa), -24)
                                : std::ldexp(static_cast<float>(mantissa | 0x400u), static_cast<int>(exponent) - 25);
    return sign ? -magnitude : magnitude;
}

// Inputs are multiples of 1/64 in [-1, 1): exact in bf16 and f16, so that only sums and the output round.
inline std::uint16_t input_bits(std::uint64_t random, bool bf16) {
    const float value = static_cast<float>(static_cast<int>(random % 128) - 64) / 64.0f;
    std::uint32_t bits;
    std::memcpy(&bits, &value, 4);
    if (bf16) return static_cast<std::uint16_t>(bits >> 16);
    if (value == 0) return 0;
    const std::uint32_t exponent = (bits >> 23 & 255) - 112;
    return static_cast<std::uint16_t>((bits >> 16 & 0x8000u) | exponent << 10 | (bits >> 13 & 0x3ffu));
}

inline void fill_inputs(std::vector<std::uint16_t>& values, std::uint64_t seed, bool bf16) {
    std::uint64_t state = seed * 0x9e3779b97f4a7c15ull + 1;
    for (std::uint16_t& value : values) {
        state ^= state << 13, state ^= state >> 7, state ^= state << 17;
        value = input_bits(state >> 33, bf16);
    }
}

inline float activate(float x, const std::string& name) {
    if (name == "relu") return std::max(x, 0.0f);
    if (name == "gelu") return 0.5f * x * (1 + std::erf(x * 0.70710678f));
    if (name == "gelu_tanh") return 0.5f * x * (1 + std::tanh(0.79788456f * (x + 0.044715f * x * x * x)));
    if (name == "silu") return x / (1 + std::exp(-x));
    return x;
}

struct Matmul {
    std::int64_t m, n, k;
    const std::uint16_t *a, *b;  // a [m, k]
    bool b_is_nk;                // b [n, k], else [k, n]
    bool bf16;
    const std::uint16_t *bias, *residual;  // [n], [m, n]; or nullptr
    std::string activation;

    void row(std::int64_t r, std::vector<float>& out) const {
        out.assign(n, 0);
        for (std::int64_t i = 0; i < k; ++i) {
            const float x = to_float(a[r * k + i], bf16);
            if (b_is_nk) {
                for (std::int64_t j = 0; j < n; ++j) out[j] += x * b_float[j * k + i];
            } else {
                const float* line = b_float.data() + i * n;
                for (std::int64_t j = 0; j < n; ++j) out[j] += x * line[j];
            }
        }
        for (std::int64_t j = 0; j < n; ++j) {
            if (bias) out[j] += to_float(bias[j], bf16);
            out[j] = activate(out[j], activation);
            if (residual) out[j] += to_float(residual[r * n + j], bf16);
        }
    }
    void prepare() {
        b_float.resize(n * k);
        for (std::int64_t i = 0; i < n * k; ++i) b_float[i] = to_float(b[i], bf16);
    }
    std::vector<float> b_float;
};

struct Verdict {
    std::int64_t rows_checked = 0, wrong_elements = 0, wrong_tiles = 0, tiles = 0;
    double worst_tile_error = 0;  // ||c - ref|| / ||ref|| over the checked rows of one tile
    std::int64_t worst_row = 0, worst_column = 0;
};

// Compares `rows` of c against the reference, tile by tile. An element is wrong where it is further from the reference
// than its own rounding (one unit in the last place of the 16-bit type) and a 2^-10 of the tile's rms allow.
inline Verdict verify(const Matmul& problem, const std::vector<std::uint16_t>& c, const std::vector<std::int64_t>& rows,
                      std::int64_t tile_m, std::int64_t tile_n, int threads) {
    const std::int64_t row_tiles = (problem.m + tile_m - 1) / tile_m, col_tiles = (problem.n + tile_n - 1) / tile_n;
    struct Tile {
        double error = 0, norm = 0;
        std::int64_t wrong = 0, checked = 0;
    };
    std::vector<std::vector<Tile>> parts(threads, std::vector<Tile>(row_tiles * col_tiles));
    std::vector<std::thread> pool;
    for (int t = 0; t < threads; ++t) {
        pool.emplace_back([&, t] {
            std::vector<float> expected;
            for (std::size_t i = t; i < rows.size(); i += threads) {
                const std::int64_t r = rows[i];
                problem.row(r, expected);
                for (std::int64_t first = 0; first < problem.n; first += tile_n) {
                    const std::int64_t last = std::min(first + tile_n, problem.n);
                    double square = 0;
                    for (std::int64_t j = first; j < last; ++j) square += double(expected[j]) * expected[j];
                    const double rms = std::sqrt(square / double(last - first));
                    Tile& tile = parts[t][r / tile_m * col_tiles + first / tile_n];
                    for (std::int64_t j = first; j < last; ++j) {
                        const double error =
                            std::fabs(double(to_float(c[r * problem.n + j], problem.bf16)) - expected[j]);
                        const double allowed =
                            std::fabs(expected[j]) * (problem.bf16 ? 1.0 / 256 : 1.0 / 2048) + rms / 1024;
                        tile.error += std::isnan(error) ? 1e30 : error * error;
                        if (!(error <= allowed)) ++tile.wrong;
                    }
                    tile.norm += square;
                    tile.checked += last - first;
                }
            }
        });
    }
    for (std::thread& thread : pool) thread.join();
    Verdict verdict;
    verdict.rows_checked = static_cast<std::int64_t>(rows.size());
    for (std::int64_t i = 0; i < row_tiles * col_tiles; ++i) {
        Tile sum;
        for (const auto& part : parts) {
            sum.error += part[i].error, sum.norm += part[i].norm;
            sum.wrong += part[i].wrong, sum.checked += part[i].checked;
        }
        if (sum.checked == 0) continue;
        ++verdict.tiles;
        verdict.wrong_elements += sum.wrong;
        verdict.wrong_tiles += sum.wrong > 0;
        const double relative = sum.norm > 0 ? std::sqrt(sum.error / sum.norm) : std::sqrt(sum.error);
        if (relative > verdict.worst_tile_error) {
            verdict.worst_tile_error = relative;
            verdict.worst_row = i / col_tiles * tile_m, verdict.worst_column = i % col_tiles * tile_n;
        }
    }
    return verdict;
}

}  // namespace plait::gpu_test
