#include "runtime/topology/topology.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "runtime/base/error.h"

namespace plait {
namespace {

std::string text(const std::string& nodes, const std::string& nics, const std::string& more = "") {
    return R"({"name": "t", "nodes": )" + nodes +
           R"(, "gpus_per_node": 2, "gpu_name": "g", "arch": "host", "sms": 6, "nics": [)" + nics + "]" + more + "}";
}
std::string problem(const std::string& json) {
    try {
        Topology::from_json_text(json, "t.json");
    } catch (const ScheduleError& error) {
        return error.message();
    }
    return "no error";
}
const std::string kNic0 = R"({"name": "n0", "transport": "rc", "gpu": 0})",
                  kNic1 = R"({"name": "n1", "transport": "srd", "gpu": 1, "bandwidth_gbs": 25.5})";

TEST(Topology, ReadsJson) {
    const Topology t = Topology::from_json_text(text("3", kNic0 + "," + kNic1), "t.json");
    EXPECT_EQ(t.world(), 6);
    EXPECT_EQ(t.label(), "3x2");
    ASSERT_EQ(t.nics.size(), 2u);
    EXPECT_EQ(t.nics[0].transport, Transport::Rc);
    EXPECT_EQ(t.nics[1].transport, Transport::Srd);
    EXPECT_EQ(t.nics[1].bandwidth_gbs, 25.5);
}

TEST(Topology, JsonRoundTrips) {
    for (const Topology& t : {Topology::simulated("2x2"), Topology::simulated("16x8"),
                              Topology::from_json_text(text("1", kNic1), "t.json")}) {
        const std::string json = t.to_json_text();
        EXPECT_EQ(Topology::from_json_text(json, "again").to_json_text(), json);
    }
}

TEST(Topology, SimulatedHasALoopbackNicForEachGpu) {
    const Topology t = Topology::simulated("2x4");
    EXPECT_EQ(t.nodes, 2);
    EXPECT_EQ(t.gpus_per_node, 4);
    EXPECT_EQ(t.arch, "host");
    ASSERT_EQ(t.nics.size(), 4u);
    EXPECT_EQ(t.nics[3].gpu, 3);
    EXPECT_EQ(t.nics[3].transport, Transport::Loopback);
}

TEST(Topology, RejectsBadLabels) {
    for (const char* label : {"", "2", "x2", "2x", "0x2", "2x0", "2x2x2", "-1x2", "2x2 ", "257x1"}) {
        EXPECT_THROW(Topology::simulated(label), ArgumentError) << label;
    }
}

TEST(Topology, RefusesContradictionsWithPointer) {
    EXPECT_EQ(problem(text("1", R"({"name": "n", "transport": "rc", "gpu": 2})")),
              "t.json, /nics/0/gpu: NIC n belongs to GPU 2, but a node has GPUs 0 to 1");
    EXPECT_EQ(problem(text("1", kNic0 + "," + kNic0)), "t.json, /nics/1/name: NIC n0 stands twice");
    EXPECT_EQ(problem(text("2", kNic0)),
              "t.json, /nics: 2 nodes, but GPU 1 of a node has no NIC with a transport\n  | add a NIC with `gpu` of "
              "that number, or set nodes to 1");
    EXPECT_EQ(problem(text("0", "")), "t.json, /nodes: nodes is 0, at least 1 is needed");
    EXPECT_EQ(problem(text("1", R"({"name": "n", "transport": "smoke", "gpu": 0})")),
              "t.json, /nics/0/transport: transport `smoke` is none of none, loopback, rc, srd");
    EXPECT_EQ(problem(text("1", R"({"name": "n", "transport": "rc", "gpu": 0, "bandwidth_gbs": -1})")),
              "t.json, /nics/0/bandwidth_gbs: bandwidth is -1, at least 0 is needed");
    EXPECT_EQ(problem(text("1", "", R"(, "nvlink": 5)")),
              "t.json, /nvlink: no field `nvlink` here\n  | the nearest is `nics`");
    EXPECT_EQ(problem(text("1", "", R"(, "shared_memory_bytes": 0)")),
              "t.json, /shared_memory_bytes: shared_memory_bytes is 0, at least 1024 is needed");
    EXPECT_EQ(problem(text("100000", kNic0 + "," + kNic1)),
              "t.json, /nodes: 100000 nodes of 2 GPUs are more than 65536 ranks");
    EXPECT_EQ(problem(R"({"name": "t"})").substr(0, 20), "5 findings in t.json");
    EXPECT_NE(problem(text("1", "")).find("no error"), std::string::npos);
}

TEST(Topology, EveryFileOfTheProjectIsLegalAndNamedAfterItself) {
    int count = 0;
    for (const auto& entry : std::filesystem::directory_iterator(PLAIT_SOURCE_DIR "/schedules/topologies")) {
        const Topology t = Topology::from_file(entry.path().string());
        EXPECT_EQ(t.name, entry.path().stem().string());
        EXPECT_NE(t.name.find(t.label()), std::string::npos) << t.name;
        EXPECT_EQ(Topology::from_json_text(t.to_json_text(), t.name).to_json_text(), t.to_json_text());
        ++count;
    }
    EXPECT_GE(count, 10);
}

}  // namespace
}  // namespace plait
