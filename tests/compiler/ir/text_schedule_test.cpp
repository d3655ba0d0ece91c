#include <gtest/gtest.h>

#include "compiler/ir/text.h"
#include "runtime/base/error.h"
#include "tests/compiler/ir/random_schedule.h"

namespace plait {
namespace {

std::string without_sources(ScheduleFile file) {
    for (GraphOp& op : file.graph.ops) op.source.clear();
    return print_schedule(file);
}
std::string error_of(const std::string& body) {
    try {
        parse_schedule("graph g\n" + body);
    } catch (const ScheduleError& error) {
        return error.message();
    }
    return "no error";
}

TEST(ScheduleText, RandomFilesRoundTrip) {
    for (unsigned seed = 0; seed < 500; ++seed) {
        const ScheduleFile file = testing::random_schedule(seed);
        const ScheduleFile again = parse_schedule(print_schedule(file));
        ASSERT_EQ(print_schedule(again), without_sources(file)) << "seed " << seed;
        ASSERT_TRUE(again.schedule == file.schedule);
        for (std::size_t i = 0; i < file.graph.ops.size(); ++i)
            ASSERT_EQ(again.graph.ops[i].value, file.graph.ops[i].value);
    }
}

TEST(ScheduleText, EqualSchedulesHaveEqualText) {
    ScheduleFile one, two;
    two.schedule.set("stages", "4");  // the default, said aloud
    EXPECT_EQ(print_schedule(one), print_schedule(two));
}

TEST(ScheduleText, RejectsWithLineAndColumn) {
    EXPECT_EQ(error_of("knob stagse = 4\n"),
              "schedule text, line 2, column 6: no knob `stagse`, the nearest is `stages`");
    EXPECT_EQ(
        error_of("knob stages = 44\n"),
        "schedule text, line 2, column 6: stages is 44, legal are 2 to 8 in steps of 1, slots of the operand ring");
    EXPECT_EQ(error_of("op c matmull inputs=[a, b]\n"),
              "schedule text, line 2, column 6: no op `matmull`, the nearest is `matmul`");
    EXPECT_EQ(error_of("op c scale inputs=[a]\n"), "schedule text, line 2, column 22: expected `, value=`");
    EXPECT_EQ(error_of("input a dtype=bf16, shape=[M K], shard=0\n"),
              "schedule text, line 2, column 30: expected `]`, found `K`");
    EXPECT_EQ(error_of("problem m_max=5\n"), "schedule text, line 2, column 16: expected `, n=`");
    EXPECT_EQ(error_of("topology\n"),
              "schedule text, line 2, column 9: expected the topology, found the end of the line");
    EXPECT_EQ(error_of("tile_m = 5\n"),
              "schedule text, line 2, column 1: expected input, op, output, numerics, knob, problem, limit or topology");
    EXPECT_THROW(parse_schedule(""), ScheduleError);
}

}  // namespace
}  // namespace plait
