// A program without torch, Python or JIT: code from a shared object, ranks that meet over TCP as their launcher says.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>

#include "tests/runtime/base/temporary_directory.h"
#include "tests/runtime/shm/host_rank.h"
#include "tests/runtime/shm/processes.h"

namespace plait::testing {
namespace {

using Two = SmallShape<1, 2>;

// The hand-written kernel as plaitc would leave it; empty where this machine has no compiler.
std::string build_kernel(const TemporaryDirectory& folder) {
    const std::string source = folder / "kernel.cpp", object = folder / "kernel.so";
    std::ofstream(source) << R"(#include "tests/runtime/sim/ag_gemm_kernel.h"
extern "C" void plait_kernel(const plait::HostCta* cta, const void* args) {
    using namespace plait::testing;
    AgGemm<SmallShape<1, 2>, Fault::None>::entry(cta, args);
})";
    const std::string command =
        fmt::format("c++ -std=c++20 -O1 -shared -fPIC -I {} -o {} {} 2>/dev/null", PLAIT_SOURCE_DIR, object, source);
    return std::system(command.c_str()) == 0 ? object : "";
}

TEST(TorchFree, RanksOfALauncherRunCodeFromDisk) {
    const TemporaryDirectory folder;
    Artifact artifact = ag_gemm_artifact<Two>();
    artifact.code_file = build_kernel(folder);
    if (artifact.code_file.empty()) GTEST_SKIP() << "no compiler";
    Processes ranks(2, [&](int rank) {
        LauncherEnvironment launcher;
        launcher.launcher = "slurm", launcher.rank = rank, launcher.world = 2;
        launcher.address = fmt::format("localhost:{}", 20000 + getppid() % 12000);
        auto session = Session::create_on_host(host_cluster(1, 2), launcher.rank, make_launcher_rendezvous(launcher),
                                               nullptr, host_options());
        const int handle = session->attach(artifact);
        Random random(7);
        std::vector<RankBuffers<Two>> buffers;
        for (int launch = 0; launch < 3; ++launch) {
            fill_case<Two>(buffers, 190, random);
            session->launch(handle, 190, tensors_of<Two>(buffers)[rank], nullptr);
            if (worst_error_of_rank<Two>(buffers, rank, 190) > 1.0) return 1;
        }
        return 0;
    });
    EXPECT_EQ(ranks.wait(), (std::vector<int>{0, 0}));
}

}  // namespace
}  // namespace plait::testing
