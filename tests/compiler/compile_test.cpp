// compile(): the stages after lowering, cache included. Host target: no GPU, no NVRTC.
#include "compiler/compile.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>

#include "compiler/ir/request.h"
#include "compiler/ir/text.h"
#include "runtime/base/error.h"
#include "runtime/base/files.h"
#include "tests/compiler/passes/request.h"

namespace plait::testing {
namespace {

namespace fs = std::filesystem;

class Compile : public ::testing::Test {
protected:
    void SetUp() override {
        options_.cache_dir = make_temporary_directory(fs::temp_directory_path().string());
        request_.topology = "1x2";
        request_.problem = {128, 64, 64};
        request_.knobs = {{"tile_m", "64"}, {"tile_n", "64"}, {"consumer_warpgroups", "1"}, {"stages", "2"}};
    }
    void TearDown() override { remove_recursively(options_.cache_dir); }
    Artifact compile_request(const TestRequest& r) {
        return compile(r.graph(), r.schedule(), r.problem, r.cluster(), r.target(), options_, &stats_);
    }

    CompileOptions options_;
    CompileStats stats_;
    TestRequest request_;
};

#ifndef PLAIT_WITH_HOST_JIT
TEST_F(Compile, WithoutTheHostCompilerSaysWhatToInstall) {
    try {
        compile_request(request_);
        FAIL() << "compiled without a compiler";
    } catch (const CompileError& error) {
        EXPECT_NE(error.message().find("PLAIT_HOST_JIT=OFF"), std::string::npos);
        EXPECT_NE(error.hint().find("libclang-19-dev"), std::string::npos);
    }
}
#else
TEST_F(Compile, MakesAnArtifactThatSaysWhatItIs) {
    const Artifact artifact = compile_request(request_);
    EXPECT_EQ(artifact.code.substr(1, 3), "ELF");
    const Manifest& m = artifact.manifest;
    EXPECT_EQ(m.arch, "host");
    EXPECT_EQ(m.world, 2);
    EXPECT_EQ(m.m_max, 128);
    EXPECT_EQ(m.k, 64);
    EXPECT_GT(m.workspace_bytes, 0u);
    EXPECT_FALSE(m.agents.empty());
    EXPECT_FALSE(m.wait_sites.empty());
    EXPECT_EQ(m.key.size(), 64u);
    EXPECT_EQ(m.compiler.substr(0, 5), "clang");
}

TEST_F(Compile, SecondTimeComesFromTheCache) {
    const Artifact first = compile_request(request_);
    EXPECT_FALSE(stats_.cache_hit);
    const Artifact second = compile_request(request_);
    EXPECT_TRUE(stats_.cache_hit);
    EXPECT_EQ(first.code, second.code);
    EXPECT_EQ(first.manifest.to_json_text(), second.manifest.to_json_text());
}

TEST_F(Compile, KeyFollowsTheRequestAndNotTheUsersLines) {
    const Artifact first = compile_request(request_);
    Graph moved = request_.graph();
    for (GraphOp& op : moved.ops) op.source = "elsewhere.py:99";
    const Artifact same =
        compile(moved, request_.schedule(), request_.problem, request_.cluster(), request_.target(), options_);
    EXPECT_EQ(first.manifest.key, same.manifest.key);
    TestRequest wider = request_;
    wider.problem.n = 128;
    EXPECT_NE(first.manifest.key, compile_request(wider).manifest.key);
    TestRequest deeper = request_;
    deeper.knobs.back().second = "3";
    EXPECT_NE(first.manifest.key, compile_request(deeper).manifest.key);
    EXPECT_NE(first.manifest.semantics, compile_request(deeper).manifest.semantics);
}

TEST_F(Compile, CommentsOfAPlanDoNotChangeItsKey) {
    Plan plan = request_.plan();
    const Artifact first = compile_plan(plan, request_.problem, request_.target(), options_);
    plan.programs[0].body[0].comment = "another comment";
    compile_plan(plan, request_.problem, request_.target(), options_, &stats_);
    EXPECT_TRUE(stats_.cache_hit);
}

TEST_F(Compile, JitOnlyTouchesNoCache) {
    options_.cache_mode = "jit_only";
    EXPECT_FALSE(compile_request(request_).code.empty());
    EXPECT_TRUE(fs::is_empty(options_.cache_dir));
}

// What another compiler made (here: the linked form that plaitc ships) has another key and the same meaning.
TEST_F(Compile, StrictFindsWhatWasBuiltByItsMeaning) {
    options_.shared_object = true;
    const Artifact shipped = compile_request(request_);
    options_.shared_object = false;
    options_.cache_mode = "strict";
    const Artifact found = compile_request(request_);
    EXPECT_TRUE(stats_.cache_hit);
    EXPECT_EQ(stats_.lower_ms, 0);
    EXPECT_EQ(found.manifest.key, shipped.manifest.key);
    EXPECT_EQ(found.code, shipped.code);
}

TEST_F(Compile, StrictMissIsAnErrorThatSaysWhatToBuildAndLeavesTheFolderAlone) {
    options_.cache_mode = "strict";
    try {
        compile_request(request_);
        FAIL() << "compiled";
    } catch (const CompileError& error) {
        const std::string text = error.what();
        EXPECT_NE(text.find("holds no artifact of graph ag_gemm with M <= 128, N = 64, K = 64 for 1x2 on host"),
                  std::string::npos)
            << text;
        EXPECT_NE(text.find("plaitc --from-requests FILE --cache-dir " + options_.cache_dir), std::string::npos)
            << text;
    }
    EXPECT_TRUE(fs::is_empty(options_.cache_dir));
    EXPECT_THROW(compile_plan(request_.plan(), request_.problem, request_.target(), options_), CompileError);
}

// A cache that is shipped read-only serves.
TEST_F(Compile, StrictServesFromAFolderThatCannotBeWritten) {
    compile_request(request_);
    const auto bits = fs::perms::owner_write | fs::perms::group_write | fs::perms::others_write;
    fs::permissions(options_.cache_dir, bits, fs::perm_options::remove);
    options_.cache_mode = "strict";
    EXPECT_NO_THROW(compile_request(request_));
    fs::permissions(options_.cache_dir, fs::perms::owner_write, fs::perm_options::add);
}

TEST_F(Compile, RecordsEachRequestOnceAMissToo) {
    options_.record_requests = options_.cache_dir + "/recorded/requests.jsonl";
    options_.cache_mode = "strict";
    EXPECT_THROW(compile_request(request_), CompileError);
    options_.cache_mode = "auto";
    compile_request(request_);
    compile_request(request_);
    TestRequest wider = request_;
    wider.problem.n = 128;
    compile_request(wider);
    const std::vector<CompileRequest> recorded = load_requests(options_.record_requests);
    ASSERT_EQ(recorded.size(), 2u);
    EXPECT_EQ(recorded[0].problem.n, 64);
    EXPECT_EQ(recorded[1].problem.n, 128);
}

TEST_F(Compile, UnknownCacheModeIsRefused) {
    options_.cache_mode = "fast";
    EXPECT_THROW(compile_request(request_), ArgumentError);
}

TEST_F(Compile, DumpKeepsThePlanBesideTheArtifact) {
    setenv("PLAIT_DUMP", "all", 1);
    const Artifact artifact = compile_request(request_);
    unsetenv("PLAIT_DUMP");
    const std::string folder = fs::path(artifact.code_file).parent_path().string();
    for (const char* name : {"schedule.txt", "plan.txt", "kernel.cu", "manifest.json"})
        EXPECT_TRUE(file_exists(folder + "/" + name)) << name;
    EXPECT_NO_THROW(parse_plan(read_file(folder + "/plan.txt")));
}

#endif

TEST_F(Compile, RefusesAPlanOfAnotherTarget) {
    Target other = request_.target();
    other.arch = "sm_90a";
    EXPECT_THROW(compile_plan(request_.plan(), request_.problem, other, options_), ArgumentError);
}

}  // namespace
}  // namespace plait::testing
