#include "compiler/ir/request.h"

#include <gtest/gtest.h>

#include "compiler/ir/text.h"
#include "runtime/base/error.h"
#include "runtime/base/files.h"
#include "tests/compiler/ir/random_schedule.h"
#include "tests/compiler/passes/request.h"
#include "tests/runtime/base/temporary_directory.h"

namespace plait::testing {
namespace {

CompileRequest request_of(const TestRequest& r) {
    return {r.graph(), r.schedule(), r.problem, r.cluster(), r.target()};
}

TEST(CompileRequest, ComesBackFromItsLineWithTheSameMeaning) {
    for (unsigned seed = 0; seed < 50; ++seed) {
        const ScheduleFile file = random_schedule(seed);
        const Topology topology = Topology::simulated(seed % 2 == 0 ? "2x2" : "3x1");
        CompileRequest request{file.graph, file.schedule, file.problem, topology, Target::make("sm_90a", topology)};
        request.target.sms = 7 + static_cast<int>(seed);
        const std::string line = print_request(request);
        EXPECT_EQ(line.find('\n'), std::string::npos);
        const CompileRequest back = parse_request(line, "line");
        EXPECT_EQ(print_request(back), line);
        EXPECT_EQ(semantics_of(back), semantics_of(request)) << line;
        EXPECT_EQ(back.target.sms, request.target.sms);
    }
}

TEST(CompileRequest, HoldsNoPath) {
    TestRequest r;
    Graph graph = r.graph();
    for (GraphOp& op : graph.ops) op.source = "/home/someone/model.py:12";
    const std::string line = print_request({graph, r.schedule(), r.problem, r.cluster(), r.target()});
    EXPECT_EQ(line.find('/'), std::string::npos) << line;
    EXPECT_EQ(line.find(".py"), std::string::npos) << line;
}

TEST(CompileRequest, MeaningFollowsWhatIsComputedAndNotWhoAsks) {
    const CompileRequest request = request_of({});
    CompileRequest same = request;
    for (GraphOp& op : same.graph.ops) op.source = "elsewhere.py:9";
    same.topology.name = "another name";
    same.topology.gpu_name = "another GPU";
    for (NicInfo& nic : same.topology.nics) nic.name += "_renamed";
    same.schedule.set("stages", request.schedule.values().at("stages"));  // its default, given
    EXPECT_EQ(semantics_of(same), semantics_of(request));

    std::vector<CompileRequest> others(7, request);
    others[0].graph.output_dtype = "f16";
    others[1].graph.numerics.k_order = "descending";
    others[2].schedule.set("stages", "2");
    others[3].problem.m_max += 1;
    others[4].topology.nics[0].transport = Transport::Srd;
    others[5].target.sms += 1;
    others[6].target.shared_memory_bytes -= 1024;
    for (std::size_t i = 0; i < others.size(); ++i) EXPECT_NE(semantics_of(others[i]), semantics_of(request)) << i;
}

TEST(CompileRequest, AFileOfLinesIsReadWithItsLineNumbers) {
    const TemporaryDirectory folder;
    const std::string path = folder.path() + "/requests.jsonl", line = print_request(request_of({}));
    write_file_atomically(path, line + "\n\n" + line + "\n");
    EXPECT_EQ(load_requests(path).size(), 2u);
    std::string unknown = line;
    unknown.replace(unknown.rfind("\"arch\":\"host\",\"sms\":6,\"shared"), 13, "\"arch\":\"sm80\"");
    const std::pair<std::string, const char*> cases[] = {
        {"{\"graph\"", "requests.jsonl:2"},
        {"[]", "expected an object"},
        {"{}", "`topology` is missing"},
        {unknown, "target `sm80` is not known"},
    };
    for (const auto& [text, expected] : cases) {
        write_file_atomically(path, line + "\n" + text + "\n");
        try {
            load_requests(path);
            ADD_FAILURE() << "read " << text;
        } catch (const ScheduleError& error) {
            EXPECT_NE(std::string(error.what()).find(expected), std::string::npos) << error.what();
            EXPECT_NE(std::string(error.what()).find("requests.jsonl:2"), std::string::npos) << error.what();
        }
    }
}

}  // namespace
}  // namespace plait::testing
