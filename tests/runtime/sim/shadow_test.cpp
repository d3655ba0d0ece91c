#include "runtime/sim/shadow.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <vector>

#include "runtime/sim/random.h"

namespace plait {
namespace {

// One cell a byte, no cleverness.
struct Model {
    struct Cell {
        bool written = false;
        Epoch write;
        std::map<std::uint32_t, std::uint32_t> reads;
        bool same(const Cell& o) const { return written == o.written && write == o.write && reads == o.reads; }
    };
    std::vector<Cell> cells;
};

TEST(Shadow, AgreesWithOneCellPerByte) {
    constexpr std::uint64_t kBytes = 3 * Shadow::kPageBytes;
    Random random(1);
    Shadow shadow(false);
    Model model;
    model.cells.resize(kBytes);
    for (std::uint32_t step = 1; step <= 3000; ++step) {
        const std::uint64_t offset = random.below(kBytes),
                            bytes = 1 + random.below(std::min<std::uint64_t>(kBytes - offset, 6000));
        const Epoch tag{static_cast<std::uint32_t>(random.below(6)), step};
        // Each run that is seen holds for its first byte; runs of other bytes are seen where the model changes.
        std::vector<std::uint64_t> starts;
        const auto check = [&](const ShadowRun& run, std::uint64_t at) {
            const Model::Cell& cell = model.cells[at];
            starts.push_back(at);
            ASSERT_EQ(run.written, cell.written);
            ASSERT_EQ(run.write, cell.write);
            for (const auto& [component, time] : cell.reads) ASSERT_TRUE(run.reads.contains({component, time}));
        };
        std::vector<std::uint64_t> changes;
        for (std::uint64_t i = offset; i < offset + bytes; ++i) {
            if (i == offset || !model.cells[i].same(model.cells[i - 1])) changes.push_back(i);
        }
        if (random.chance(1, 2)) {
            shadow.read(offset, bytes, tag, check);
            for (std::uint64_t i = offset; i < offset + bytes; ++i) model.cells[i].reads[tag.component] = tag.time;
        } else {
            shadow.write(offset, bytes, tag, check);
            for (std::uint64_t i = offset; i < offset + bytes; ++i) model.cells[i] = {true, tag, {}};
        }
        for (std::uint64_t change : changes)
            ASSERT_TRUE(std::find(starts.begin(), starts.end(), change) != starts.end());
    }
    std::uint64_t unwritten = 0, first = kBytes;
    for (std::uint64_t i = kBytes; i-- > 0;) {
        if (!model.cells[i].written) ++unwritten, first = i;
    }
    EXPECT_EQ(shadow.unwritten_bytes(0, kBytes), unwritten);
    EXPECT_EQ(shadow.first_unwritten(0, kBytes), first);
}

TEST(Shadow, NoRunIsCoarserThanItsBytes) {
    Shadow shadow(false);
    const auto ignore = [](const ShadowRun&, std::uint64_t) {};
    shadow.write(0, 8192, {1, 1}, ignore);
    shadow.read(100, 50, {2, 1}, ignore);
    std::vector<std::pair<std::uint64_t, bool>> runs;
    shadow.read(0, 8192, {3, 1},
                [&](const ShadowRun& run, std::uint64_t at) { runs.emplace_back(at, run.reads.contains({2, 1})); });
    const std::vector<std::pair<std::uint64_t, bool>> expected = {{0, false}, {100, true}, {150, false}, {4096, false}};
    EXPECT_EQ(runs, expected);
}

TEST(Shadow, WritesMergeTheRunsThatReadsSplit) {
    Shadow shadow(false);
    const auto ignore = [](const ShadowRun&, std::uint64_t) {};
    for (std::uint64_t i = 0; i < 32; ++i) shadow.read(i * 128, 128, {1, static_cast<std::uint32_t>(i + 1)}, ignore);
    for (std::uint64_t i = 0; i < 4; ++i) shadow.write(i * 1024, 1024, {2, 7}, ignore);
    int runs = 0;
    shadow.read(0, 4096, {3, 1}, [&](const ShadowRun&, std::uint64_t) { ++runs; });
    EXPECT_EQ(runs, 1);
}

TEST(Shadow, FindsHolesOfAnOutput) {
    Shadow shadow(false);
    const auto ignore = [](const ShadowRun&, std::uint64_t) {};
    shadow.write(0, 5000, {1, 1}, ignore);
    shadow.write(5016, 20000, {1, 1}, ignore);
    EXPECT_EQ(shadow.first_unwritten(0, 25016), 5000u);
    EXPECT_EQ(shadow.unwritten_bytes(0, 25016), 16u);
    EXPECT_EQ(shadow.unwritten_bytes(0, 25020), 20u);
}

}  // namespace
}  // namespace plait
