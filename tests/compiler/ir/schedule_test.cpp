#include "compiler/ir/schedule.h"

#include <gtest/gtest.h>

#include "runtime/base/error.h"

namespace plait {
namespace {

std::string problem(const std::string& knob, const std::string& value) {
    try {
        Schedule().set(knob, value);
    } catch (const ScheduleError& error) {
        return error.message() + (error.hint().empty() ? "" : " | " + error.hint());
    }
    return "no error";
}

TEST(Knobs, EveryDefaultIsLegal) {
    for (const KnobSpec& spec : knob_specs()) {
        EXPECT_EQ(problem(spec.name, spec.default_value), "no error") << spec.name;
        EXPECT_FALSE(spec.doc.empty());
        EXPECT_EQ(find_knob(spec.name), &spec);
    }
    EXPECT_EQ(find_knob("tile"), nullptr);
}

TEST(Knobs, BothEndsOfARangeAreLegalAndTheNextValuesAreNot) {
    for (const KnobSpec& spec : knob_specs()) {
        if (spec.is_word) continue;
        EXPECT_EQ(problem(spec.name, std::to_string(spec.low)), "no error");
        EXPECT_EQ(problem(spec.name, std::to_string(spec.high)), "no error");
        EXPECT_NE(problem(spec.name, std::to_string(spec.low - 1)), "no error");
        EXPECT_NE(problem(spec.name, std::to_string(spec.high + 1)), "no error");
    }
}

TEST(Schedule, SetsAndReads) {
    Schedule schedule;
    EXPECT_EQ(schedule.integer("tile_m"), 128);
    EXPECT_FALSE(schedule.is_set("tile_m"));
    schedule.set("tile_m", "256");
    schedule.set("order", "rank");
    EXPECT_EQ(schedule.integer("tile_m"), 256);
    EXPECT_EQ(schedule.word("order"), "rank");
    EXPECT_TRUE(schedule.is_set("tile_m"));
    EXPECT_FALSE(schedule == Schedule());
    schedule.set("stages", "03");  // one spelling of a number: equal schedules have equal text
    EXPECT_EQ(schedule.values().at("stages"), "3");
}

TEST(Schedule, RejectsByNameAndNumbers) {
    EXPECT_EQ(problem("stagse", "4"), "no knob `stagse` | the nearest is `stages`");
    EXPECT_EQ(problem("stages", "9"), "stages is 9, legal are 2 to 8 in steps of 1 | slots of the operand ring");
    EXPECT_EQ(problem("tile_m", "100").substr(0, 55), "tile_m is 100, legal are 64 to 256 in steps of 64 | row");
    EXPECT_EQ(problem("stages", "four").substr(0, 14), "stages is four");
    EXPECT_EQ(
        problem("order", "random"),
        "order is `random`, legal are arrival, rank | order of shards: own shard first then by arrival, or by rank");
}

TEST(Schedule, WrongUseIsAnInternalError) {
    EXPECT_THROW(Schedule().integer("order"), InternalError);
    EXPECT_THROW(Schedule().word("tile_m"), InternalError);
    EXPECT_THROW(Schedule().integer("nothing"), InternalError);
    EXPECT_THROW(Schedule().is_set("nothing"), InternalError);
}

}  // namespace
}  // namespace plait
