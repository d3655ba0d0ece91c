// Schedules drawn by seed, all of which must print the same bits.
#pragma once
#include <gtest/gtest.h>

#include <cstdio>
#include <functional>
#include <initializer_list>
#include <map>
#include <optional>
#include <random>
#include <string>

namespace plait::testing {

using Knobs = std::map<std::string, std::string>;

inline std::string text_of(const Knobs& knobs) {
    std::string text;
    for (const auto& [name, value] : knobs) text += name + "=" + value + " ";
    return text;
}

class Draw {
public:
    explicit Draw(std::uint64_t seed) : random_(seed) {}
    std::uint64_t number() { return random_(); }
    std::int64_t among(std::int64_t low, std::int64_t high, std::int64_t step = 1) {
        return low + step * std::int64_t(random_() % std::uint64_t((high - low) / step + 1));
    }
    std::string one_of(std::initializer_list<const char*> values) { return values.begin()[random_() % values.size()]; }

private:
    std::mt19937_64 random_;
};

// `run` gives the digest of a launch with these knobs, or nothing where the schedule is refused: then another is drawn.
inline void expect_same_bits(const char* what, int schedules, Draw& draw, const std::function<Knobs(Draw&)>& knobs_of,
                             const std::function<std::optional<std::uint64_t>(const Knobs&)>& run) {
    std::optional<std::uint64_t> expected;
    int taken = 0, refused = 0;
    while (taken < schedules && refused < 10 * schedules) {
        const Knobs knobs = knobs_of(draw);
        SCOPED_TRACE(text_of(knobs));
        const std::optional<std::uint64_t> digest = run(knobs);
        if (::testing::Test::HasFatalFailure()) return;
        if (!digest) {
            refused += 1;
            continue;
        }
        taken += 1;
        if (!expected) expected = digest;
        ASSERT_EQ(*digest, *expected);
    }
    ASSERT_EQ(taken, schedules);
    std::printf("%s: %d schedules, %d refused\n", what, taken, refused);
}

}  // namespace plait::testing
