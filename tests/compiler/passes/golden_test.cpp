// Printed plans of a few requests. PLAIT_UPDATE_GOLDEN=1 rewrites them; the diff is reviewed like code.
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <sstream>

#include "compiler/ir/text.h"
#include "tests/compiler/passes/request.h"

namespace plait::testing {
namespace {

struct Golden {
    std::string name;
    TestRequest request;
};

std::vector<Golden> goldens() {
    const Problem small{2048, 1024, 1024};
    const auto plans = [&](std::string name, TestRequest r) {
        r.problem = small;
        return Golden{std::move(name), std::move(r)};
    };
    std::vector<std::pair<std::string, std::string>> small_tile = {
        {"tile_m", "64"}, {"tile_n", "64"}, {"consumer_warpgroups", "1"}, {"stages", "2"}, {"order", "rank"}};
    return {
        plans("matmul_1x1", {"1x1", {}, {}, {}, false}),
        plans("matmul_clusters_1x1", {"1x1", {{"cluster", "2"}, {"tile_m", "128"}}, {}, {}, false}),
        plans("matmul_clusters_along_n_1x1",
              {"1x1", {{"cluster", "2"}, {"cluster_along", "n"}, {"tile_n", "112"}}, {"residual"}, {}, false, true}),
        plans("matmul_row_shard_1x2", {"1x2", small_tile, {"residual"}, {}, false, false, true}),
        plans("ag_gemm_1x2_phase", {"1x2"}),
        plans("ag_gemm_2x1_phase", {"2x1"}),
        plans("ag_gemm_2x2_phase", {"2x2"}),
        plans("ag_gemm_2x2_warp", {"2x2", placed("warp", "warp")}),
        plans("ag_gemm_2x2_sms", {"2x2", placed("sms", "sms")}),
        plans("ag_gemm_2x2_mixed", {"2x2", placed("sms", "warp")}),
        plans("ag_gemm_1x2_nt_pointwise", {"1x2", {}, {"bias", "gelu", "residual", "scale", "cast"}, {}, true, true}),
    };
}

class GoldenPlans : public ::testing::TestWithParam<Golden> {};

TEST_P(GoldenPlans, PlanIsAsPrintedBefore) {
    const std::string path = std::string(PLAIT_SOURCE_DIR) + "/tests/golden/plans/" + GetParam().name + ".plan";
    const std::string text = print_plan(GetParam().request.plan());
    const char* update = std::getenv("PLAIT_UPDATE_GOLDEN");
    if (update != nullptr && std::string(update) == "1") std::ofstream(path) << text;
    std::ifstream file(path);
    ASSERT_TRUE(file) << path << " is missing; PLAIT_UPDATE_GOLDEN=1 writes it";
    std::stringstream golden;
    golden << file.rdbuf();
    EXPECT_EQ(text, golden.str());
}

TEST_P(GoldenPlans, PlanRoundTrips) {
    const Plan plan = GetParam().request.plan();
    EXPECT_EQ(print_plan(parse_plan(print_plan(plan)), false), print_plan(plan, false));
}

TEST_P(GoldenPlans, SamePlanOnBothTargetsButForItsName) {
    TestRequest host = GetParam().request, sm90 = host;
    sm90.arch = "sm_90a";
    Plan plan = sm90.plan();
    EXPECT_EQ(plan.target, "sm_90a");
    plan.target = "host";
    EXPECT_EQ(print_plan(plan), print_plan(host.plan()));
}

INSTANTIATE_TEST_SUITE_P(Plans, GoldenPlans, ::testing::ValuesIn(goldens()),
                         [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace plait::testing
