#include <gtest/gtest.h>

#include <filesystem>

#include "compiler/ir/schedule.h"
#include "compiler/ir/text.h"
#include "runtime/base/error.h"
#include "tests/compiler/ir/random_schedule.h"

namespace plait {
namespace {

std::string error_of(const std::string& text) {
    try {
        read_schedule_json(text, "f.json");
    } catch (const ScheduleError& error) {
        return error.message();
    }
    return "no error";
}
std::string graph_error(const std::string& ops, const std::string& more = "") {
    return error_of(R"({"graph": {"name": "g", "inputs": [], "ops": [)" + ops + R"(], "output": "c"})" + more + "}");
}

TEST(ScheduleJson, RandomFilesRoundTrip) {
    for (unsigned seed = 0; seed < 500; ++seed) {
        const ScheduleFile file = testing::random_schedule(seed);
        const std::string text = write_schedule_json(file);
        const ScheduleFile again = read_schedule_json(text, file.origin);
        ASSERT_EQ(write_schedule_json(again), text) << "seed " << seed;
        ASSERT_EQ(print_schedule(again), print_schedule(file)) << "seed " << seed;
        for (const KnobSpec& spec : knob_specs())
            ASSERT_EQ(again.schedule.is_set(spec.name), file.schedule.is_set(spec.name));
    }
}

TEST(ScheduleJson, FindingsCarryPointers) {
    EXPECT_EQ(error_of("{}"), "f.json, top level: `graph` is missing");
    EXPECT_EQ(graph_error("", R"(, "schedule": {"stagse": 4})"),
              "f.json, /schedule/stagse: no knob `stagse`\n  | the nearest is `stages`");
    EXPECT_EQ(graph_error("", R"(, "schedule": {"stages": 44})"),
              "f.json, /schedule/stages: stages is 44, legal are 2 to 8 in steps of 1\n  | slots of the operand ring");
    EXPECT_EQ(graph_error("", R"(, "schedule": {"stages": 4.5})"),
              "f.json, /schedule/stages: knob stages: expected an integer or a word");
    EXPECT_EQ(graph_error("", R"(, "schedule": [])"), "f.json, /schedule: expected an object of knobs");
    EXPECT_EQ(graph_error("", R"(, "shedule": {})"),
              "f.json, /shedule: no field `shedule` here\n  | the nearest is `schedule`");
    EXPECT_EQ(graph_error("", R"(, "problem": {"m_max": -1, "n": 1, "k": 1})"),
              "f.json, /problem/m_max: m_max is -1, sizes are not negative");
    EXPECT_EQ(graph_error("", R"(, "problem": {"m_max": 1, "n": 1, "k": 1, "limits": {"keys": 0}})"),
              "f.json, /problem/limits/keys: keys is 0, at least 1 is needed");
    EXPECT_EQ(graph_error(R"({"op": "matmull", "result": "c", "inputs": ["a"]})"),
              "f.json, /graph/ops/0/op: no op `matmull`\n  | the nearest is `matmul`");
    EXPECT_EQ(graph_error(R"({"op": "matmul", "result": "c", "inputs": ["a"]})"),
              "f.json, /graph/ops/0/inputs: matmul takes 2 inputs, 1 given");
    EXPECT_EQ(graph_error(R"({"op": "scale", "result": "c", "inputs": ["a"]})"),
              "f.json, /graph/ops/0: `value` is missing");
    EXPECT_EQ(graph_error(R"({"op": "relu", "result": "c", "inputs": ["a"], "dim": 0})"),
              "f.json, /graph/ops/0/dim: no field `dim` here\n  | the nearest is `op`");
}

TEST(ScheduleJson, TellsAllFindingsAtOnce) {
    const std::string text = graph_error(R"({"op": "relu", "result": 5, "inputs": ["a"]})",
                                         R"(, "schedule": {"stagse": 4, "order": "x"}, "topology": 1)");
    EXPECT_EQ(text.substr(0, 20), "4 findings in f.json");
    for (const char* pointer : {"/graph/ops/0/result", "/schedule/stagse", "/schedule/order", "/topology"})
        EXPECT_NE(text.find(pointer), std::string::npos) << text;
}

TEST(ScheduleJson, EveryFileOfTheProjectLoadsWithItsTopology) {
    int count = 0;
    for (const auto& entry : std::filesystem::directory_iterator(PLAIT_SOURCE_DIR "/schedules")) {
        if (entry.path().extension() != ".json") continue;
        const ScheduleFile file = load_schedule_file(entry.path().string());
        EXPECT_EQ(file.graph.name, entry.path().stem().string());
        EXPECT_GT(file.problem.m_max, 0);
        EXPECT_GE(topology_of(file).world(), 1);
        EXPECT_EQ(print_schedule(parse_schedule(print_schedule(file))), print_schedule(file));
        ++count;
    }
    EXPECT_GE(count, 2);
}

TEST(ScheduleJson, TopologyIsALabelOrAFile) {
    ScheduleFile file;
    file.origin = PLAIT_SOURCE_DIR "/schedules/x.json";
    EXPECT_THROW(topology_of(file), ScheduleError);
    file.topology = "2x2";
    EXPECT_EQ(topology_of(file).name, "sim_2x2");
    file.topology = "topologies/h200_2x8_cx7.json";
    EXPECT_EQ(topology_of(file).nics.size(), 8u);
    file.topology = "topologies/none.json";
    EXPECT_THROW(topology_of(file), ArgumentError);
}

}  // namespace
}  // namespace plait
