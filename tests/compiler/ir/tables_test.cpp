// Target, graph ops, diagnostics and the reference.
#include <gtest/gtest.h>

#include "compiler/ir/diagnostic.h"
#include "compiler/ir/graph.h"
#include "compiler/ir/plan.h"
#include "compiler/ir/reference.h"
#include "compiler/ir/schedule.h"
#include "compiler/ir/target.h"
#include "runtime/base/error.h"
#include "runtime/base/files.h"

namespace plait {
namespace {

TEST(Target, TakesSizesFromATopologyOfItsArch) {
    Topology topology = Topology::simulated("1x2");
    topology.sms = 9;
    EXPECT_EQ(Target::make("host", topology).sms, 9);
    EXPECT_TRUE(Target::make("host", topology).is_host());
    EXPECT_EQ(Target::make("sm_90a", topology).sms, 132);
    topology.arch = "sm_90a";
    topology.sms = 114;
    EXPECT_EQ(Target::make("sm_90a", topology).sms, 114);
    EXPECT_EQ(Target::make("host", topology).sms, Target().sms);
    EXPECT_THROW(Target::make("sm_80", topology), ArgumentError);
}

TEST(GraphOps, TableIsWhole) {
    for (const GraphOpSpec& spec : graph_ops()) {
        EXPECT_EQ(find_graph_op(spec.name), &spec);
        EXPECT_TRUE(1 <= spec.inputs.least && spec.inputs.least <= spec.inputs.most) << spec.name;
        EXPECT_FALSE(spec.doc.empty());
    }
    EXPECT_EQ(find_graph_op("sort"), nullptr);
    Graph graph;
    graph.inputs = {{"a", "bf16", {"M", "K"}, 0}};
    EXPECT_EQ(graph.find_input("a"), &graph.inputs[0]);
    EXPECT_EQ(graph.find_input("b"), nullptr);
}

TEST(Diagnostics, PrintRuleMessagePlaceAndHint) {
    const Diagnostics one = {{"check_roles", "16 CTAs are needed, 6 are there", "/schedule/intra_comm_sms", "use 4"}};
    EXPECT_EQ(print(one), "[check_roles] 16 CTAs are needed, 6 are there\n  --> /schedule/intra_comm_sms\n  | use 4");
    EXPECT_NO_THROW(throw_if_any({}));
    try {
        throw_if_any({one[0], {"check_sizes", "n is 0", "", ""}});
        FAIL();
    } catch (const ScheduleError& error) {
        EXPECT_EQ(error.message(), "2 findings\n" + print(one) + "\n[check_sizes] n is 0");
    }
}

TEST(Reference, NamesEveryRow) {
    const std::string text = reference_text();
    for (const OpSpec& spec : all_ops()) EXPECT_NE(text.find("| " + spec.mnemonic + " |"), std::string::npos);
    for (const KnobSpec& spec : knob_specs()) EXPECT_NE(text.find("| " + spec.name + " |"), std::string::npos);
    for (const GraphOpSpec& spec : graph_ops()) EXPECT_NE(text.find("| " + spec.name + " |"), std::string::npos);
}

TEST(Reference, CheckedInFileIsUpToDate) {
    const std::string path = PLAIT_SOURCE_DIR "/docs/reference.md";
    if (std::getenv("PLAIT_UPDATE_GOLDEN") != nullptr) write_file_atomically(path, reference_text());
    EXPECT_EQ(read_file(path), reference_text()) << "run this test with PLAIT_UPDATE_GOLDEN=1 to write " << path;
}

}  // namespace
}  // namespace plait
