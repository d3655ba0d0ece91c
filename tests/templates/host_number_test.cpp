// The host machine's 16-bit numbers against exact arithmetic.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "templates/host/number.h"

namespace plait {
namespace {

double value_of(std::uint16_t bits, int exponent_bits, int mantissa_bits) {
    const int bias = (1 << (exponent_bits - 1)) - 1, exponent = (bits >> mantissa_bits) & ((1 << exponent_bits) - 1);
    const int mantissa = bits & ((1 << mantissa_bits) - 1);
    const double sign = bits & 0x8000 ? -1.0 : 1.0;
    if (exponent == (1 << exponent_bits) - 1)
        return mantissa ? std::nan("") : sign * std::numeric_limits<double>::infinity();
    if (exponent == 0) return sign * std::ldexp(mantissa, 1 - bias - mantissa_bits);
    return sign * std::ldexp(mantissa + (1 << mantissa_bits), exponent - bias - mantissa_bits);
}

template <class T>
void check_all_values(int exponent_bits, int mantissa_bits) {
    for (std::uint32_t bits = 0; bits < 0x10000; ++bits) {
        const T narrow{static_cast<u16>(bits)};
        const double expected = value_of(narrow.bits, exponent_bits, mantissa_bits);
        const float wide = to_f32(narrow);
        if (std::isnan(expected)) {
            EXPECT_TRUE(std::isnan(wide)) << bits;
            EXPECT_TRUE(std::isnan(to_f32(from_f32<T>(wide)))) << bits;
            continue;
        }
        EXPECT_EQ(wide, expected) << bits;
        EXPECT_EQ(from_f32<T>(wide).bits, narrow.bits);
    }
}

// Between two neighbours: below the middle down, above it up, in the middle to the even one.
template <class T>
void check_rounding(std::uint16_t last_finite) {
    for (std::uint16_t bits = 0; bits < last_finite; bits = static_cast<std::uint16_t>(bits + 7)) {
        const T low{bits}, high{static_cast<u16>(bits + 1)};
        const double middle = (static_cast<double>(to_f32(low)) + to_f32(high)) / 2;
        const auto exact = static_cast<float>(middle);
        if (exact != middle) continue;  // bf16 subnormals: the middle is no float
        EXPECT_EQ(from_f32<T>(exact).bits, bits % 2 == 0 ? low.bits : high.bits) << bits;
        EXPECT_EQ(from_f32<T>(std::nextafter(exact, 0.0f)).bits, low.bits) << bits;
        EXPECT_EQ(from_f32<T>(std::nextafter(exact, INFINITY)).bits, high.bits) << bits;
        EXPECT_EQ(from_f32<T>(-exact).bits, (bits % 2 == 0 ? low.bits : high.bits) | 0x8000) << bits;
    }
}

TEST(HostNumber, ConvertsEveryBf16) { check_all_values<bf16>(8, 7); }
TEST(HostNumber, ConvertsEveryF16) { check_all_values<f16>(5, 10); }
TEST(HostNumber, RoundsBf16ToNearestEven) { check_rounding<bf16>(0x7F7F); }
TEST(HostNumber, RoundsF16ToNearestEven) { check_rounding<f16>(0x7BFF); }
TEST(HostNumber, OverflowsToInfinity) {
    EXPECT_EQ(from_f32<f16>(65519.0f).bits, 0x7BFF);
    EXPECT_EQ(from_f32<f16>(65520.0f).bits, 0x7C00);
    EXPECT_EQ(from_f32<f16>(-1e30f).bits, 0xFC00);
    EXPECT_EQ(from_f32<bf16>(3.4e38f).bits, 0x7F80);
}

}  // namespace
}  // namespace plait
