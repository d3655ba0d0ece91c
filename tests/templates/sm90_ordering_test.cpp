// PTX goldens: what each ordering primitive of the sm90 machine is made of. A change here is a change of the memory model.
#include <algorithm>

#include "tests/templates/sm90_source.h"

namespace plait {
namespace {

const std::vector<std::string> kOrdering = {"ld.acquire", "ld.relaxed", "st.release", "st.relaxed", "red.",   "atom.",    "fence",
                                            "membar",     "mbarrier",   "cp.async",   "barrier",    "bar.",   "wgmma",    "st.global",
                                            "st.shared",  "ld.shared",  "setmaxnreg", "nanosleep",  "trap",   "brkpt",     "mapa"};

// Compares all cases in one compilation.
void expect_instructions(const std::vector<Case>& cases) {
    Source source;
    source.kernel = case_prelude();
    for (std::size_t i = 0; i < cases.size(); ++i) source.kernel += kernel_of(cases[i], i);
    source.shapes = wgmma_text({{64, true, "bf16"}, {64, true, "bf16", true}});
    const CubinResult result = compile_cubin(source);
    for (std::size_t i = 0; i < cases.size(); ++i) {
        EXPECT_EQ(instructions(result.ptx, i, kOrdering), cases[i].expected) << cases[i].statement;
    }
}

TEST(Sm90Ordering, SignalsReleaseAtTheScopeGiven) {
    if (!testing::have_nvrtc()) GTEST_SKIP() << "no NVRTC";
    expect_instructions({
        {"signal_set(ag, peer_flag(args, 0, 1, 2), 7, Scope::System);", {"st.release.sys.global.u64"}},
        {"signal_set(ag, own_flag(args, 0, 2), 7, Scope::Gpu);", {"st.release.gpu.global.u64"}},
        {"signal_add(ag, peer_flag(args, 0, 1, 2), 7, Scope::System);", {"red.release.sys.global.add.u64"}},
        {"signal_add(ag, own_flag(args, 0, 2), 7, Scope::Gpu);", {"red.release.gpu.global.add.u64"}},
        {"fifo_publish(ag, args, 3, Scope::System);", {"st.release.sys.global.u64"}},
        {"agent_finished(ag, args);", {"red.release.gpu.global.add.u64"}},
        {"barrier_arrive(ag, sh.bar[0]);", {"mbarrier.arrive.release.cta.shared::cta.b64"}},
        {"barrier_arrive(ag, sh.bar[0]);", {"bar.warp.sync", "mbarrier.arrive.release.cta.shared::cta.b64"}, true},
        {"barrier_expect(ag, sh.bar[0], 64);", {"mbarrier.arrive.expect_tx.release.cta.shared::cta.b64"}},
    });
}

TEST(Sm90Ordering, WaitsAcquireAtTheScopeGivenAndLeaveOnAbort) {
    if (!testing::have_nvrtc()) GTEST_SKIP() << "no NVRTC";
    // Look and poll; every 64 polls the abort word, and when all ranks had entered; past the deadline the stall record,
    // claimed once, then abort for this GPU's agents. The relay tells the host and the peers.
    const auto polling = [](const std::string& acquire) {
        return std::vector<std::string>{"atom.relaxed.gpu.global.cas.b64", acquire, "ld.relaxed.gpu.global.u64", "red.relaxed.gpu.global.add.u64", "st.global.u64",
                                        "st.release.gpu.global.u64"};
    };
    const std::vector<Case> cases = {
        {"wait_flag(ag, args, own_flag(args, 0, 2), 7, Scope::System, 1);", polling("ld.acquire.sys.global.u64")},
        {"wait_flag(ag, args, own_flag(args, 0, 2), 7, Scope::Gpu, 1);", polling("ld.acquire.gpu.global.u64")},
        {"fifo_wait(ag, args, 3, 1);", polling("ld.acquire.gpu.global.u64")},
    };
    Source source;
    source.kernel = case_prelude();
    for (std::size_t i = 0; i < cases.size(); ++i) source.kernel += kernel_of(cases[i], i);
    source.shapes = wgmma_text({});
    const CubinResult result = compile_cubin(source);
    for (std::size_t i = 0; i < cases.size(); ++i) {
        // The compiler orders and repeats blocks.
        std::vector<std::string> found = instructions(result.ptx, i, kOrdering);
        std::sort(found.begin(), found.end());
        found.erase(std::unique(found.begin(), found.end()), found.end());
        EXPECT_EQ(found, cases[i].expected) << cases[i].statement;
    }
    EXPECT_EQ(result.ptx.find("trap"), std::string::npos) << "a role that can trap loses setmaxnreg";
}

TEST(Sm90Ordering, SharedBarriersAcquireAndSynchroniseAtCtaScope) {
    if (!testing::have_nvrtc()) GTEST_SKIP() << "no NVRTC";
    expect_instructions({
        {"barrier_wait(ag, sh.bar[0], 1);", {"mbarrier.try_wait.parity.acquire.cta.shared::cta.b64"}},
        {"barrier_init(ag, sh.bar[0], 1); fence_barrier_init(ag);", {"mbarrier.init.shared::cta.b64", "fence.mbarrier_init.release.cluster"}},
        {"cta_barrier(ag);", {"barrier.sync"}},
        {"agent_sync(ag);", {}},
        {"agent_sync(ag);", {"bar.sync"}, true},
        {"ring_put(ag, sh.ring[0], 5);", {"st.shared.u64"}},
    });
}

TEST(Sm90Ordering, BulkCopiesCompleteWhereTheyAreWaitedFor) {
    if (!testing::have_nvrtc()) GTEST_SKIP() << "no NVRTC";
    const std::string tensor_load = "cp.async.bulk.tensor.3d.shared::cluster.global.tile.mbarrier::complete_tx::bytes";
    expect_instructions({
        {"load_bytes(ag, sh.slot[0], args.source, 64, sh.bar[0]);", {"cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes"}},
        {"put_bytes(ag, peer_bytes(args, 0, 1, 0), sh.slot[0], 64); bulk_commit(ag);",
         {"cp.async.bulk.global.shared::cta.bulk_group", "cp.async.bulk.commit_group"}},
        {"load_boxes<64, 128, bf16>(ag, sh.slot[0], args.map[0], 0, 0, 0, sh.bar[0]);", {tensor_load, tensor_load}},
        {"store_box<64, 64, bf16>(ag, args.map[0], sh.slot[0], 0, 0, 0);", {"cp.async.bulk.tensor.3d.global.shared::cta.tile.bulk_group"}},
        {"bulk_wait<0>(ag);", {"cp.async.bulk.wait_group 0"}},
        {"bulk_wait_read<1>(ag);", {"cp.async.bulk.wait_group.read 1"}},
        {"fence_async_shared(ag);", {"fence.proxy.async.shared::cta"}},
        {"fence_async_global(ag);", {"fence.proxy.async.global"}},
    });
}

// A remote arrive without .release.cluster, which would be a membar of the GPU in every block of k; a mask for both CTAs.
TEST(Sm90Ordering, ClustersArriveRemotelyAndMeetWithoutAMembar) {
    if (!testing::have_nvrtc()) GTEST_SKIP() << "no NVRTC";
    const std::string map = "mapa.shared::cluster.u32", arrive = "mbarrier.arrive.shared::cluster.b64",
                      load = "cp.async.bulk.tensor.3d.shared::cluster.global.tile.mbarrier::complete_tx::bytes.multicast::cluster";
    expect_instructions({
        {"cluster_arrive<2>(ag, sh.bar[0]);", {map, arrive, map, arrive}},
        {"cluster_arrive<2>(ag, sh.bar[0]);", {"bar.warp.sync", map, arrive}, true},  // lane by lane
        {"load_multicast<2, 64, 128, bf16>(ag, sh.slot[0], args.map[0], 0, 0, 0, sh.bar[0]);", {load, load}},
        {"cluster_barrier(ag);", {"barrier.cluster.arrive.relaxed", "barrier.cluster.wait.acquire"}},
    });
}

TEST(Sm90Ordering, GathersAreCompleteForTheirThreadsWhereTheyAreWaitedFor) {
    if (!testing::have_nvrtc()) GTEST_SKIP() << "no NVRTC";
    const std::string copy = "cp.async.cg.shared.global";
    expect_instructions({
        {"RowGather<64> g; g.columns = 128; gather_rows<64, 64, bf16>(ag, sh.slot[0], g, 0);",
         {copy, copy, copy, copy, "cp.async.commit_group"}, true},
        {"gather_wait<2>(ag);", {"cp.async.wait_group 2"}, true},
        {"gather_wait<0>(ag);", {"cp.async.wait_group 0"}, true},
        {"barrier_expect(ag, sh.bar[0], 64);", {"mbarrier.arrive.expect_tx.release.cta.shared::cta.b64"}, true},
    });
}

// A value that breaks its promise: the record, claimed once, then the abort, as of a wait that gives up. Nothing waits.
TEST(Sm90Ordering, ValuesOutsideTheirPromiseAreReportedAndNothingWaits) {
    if (!testing::have_nvrtc()) GTEST_SKIP() << "no NVRTC";
    Source source;
    source.kernel = case_prelude() +
                    kernel_of({"sh.ring[0] = load_value(ag, args, reinterpret_cast<const i32*>(args.source), 3, 0, 7, 1);", {}}, 0);
    source.shapes = wgmma_text({});
    const CubinResult result = compile_cubin(source);
    std::vector<std::string> found = instructions(result.ptx, 0, kOrdering);
    std::sort(found.begin(), found.end());
    found.erase(std::unique(found.begin(), found.end()), found.end());
    const std::vector<std::string> expected = {"atom.relaxed.gpu.global.cas.b64", "ld.relaxed.gpu.global.u64",
                                               "red.relaxed.gpu.global.add.u64",  "st.global.u64",
                                               "st.relaxed.gpu.global.u64",       "st.release.gpu.global.u64",
                                               "st.shared.u64"};
    EXPECT_EQ(found, expected);
    EXPECT_EQ(result.ptx.find("trap"), std::string::npos) << "a role that can trap loses setmaxnreg";
}

TEST(Sm90Ordering, MatrixOperationsAreFencedCommittedAndWaitedFor) {
    if (!testing::have_nvrtc()) GTEST_SKIP() << "no NVRTC";
    const std::string issue = "wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16";
    expect_instructions({
        {"Acc<64, 64> acc; mma_begin(ag, acc); mma_issue<64, 1, bf16>(ag, acc, sh.slot[0], 0, sh.slot[1], false); mma_commit(ag);"
         " mma_wait<0>(ag, acc); map(ag, acc, 0, 0, [&](i64 r, i64 c, f32 x) { sh.ring[0] = static_cast<i64>(x) + r + c; return x; });",
         {"wgmma.fence.sync.aligned", issue, issue, issue, issue, "wgmma.commit_group.sync.aligned", "wgmma.wait_group.sync.aligned 0",
          "st.shared.u64"}, true},
    });
}

// Two groups in flight: the first wait leaves the younger one, whose operand stays as it is until the second.
TEST(Sm90Ordering, RegisterOperandsAreFencedAndWaitedForByName) {
    if (!testing::have_nvrtc()) GTEST_SKIP() << "no NVRTC";
    const std::string issue = "wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16", fence = "wgmma.fence.sync.aligned",
                      commit = "wgmma.commit_group.sync.aligned";
    expect_instructions({
        {"Acc<64, 64> s, o; Operand<64, 64, bf16> p(ag); acc_fill(ag, s, 1.0f); acc_fill(ag, o, 0.0f); as_operand(ag, p, s);"
         " mma_begin(ag, s); mma_issue<64, 1, bf16, 1>(ag, s, sh.slot[0], 0, sh.slot[1], false); mma_commit(ag);"
         " mma_begin(ag, o); mma_issue_operand<64, 1, bf16>(ag, o, p, sh.slot[1], true); mma_commit(ag);"
         " mma_wait<1>(ag, s); mma_wait<0>(ag, o, p);"
         " map(ag, o, 0, 0, [&](i64 r, i64 c, f32 x) { sh.ring[0] = static_cast<i64>(x) + r + c; return x; });",
         {fence, issue, issue, issue, issue, commit, fence, issue, issue, issue, issue, commit, "wgmma.wait_group.sync.aligned 1",
          "wgmma.wait_group.sync.aligned 0", "st.shared.u64"}, true},
    });
}

TEST(Sm90Ordering, TurnsAreNamedBarriersOfTwoWarpgroups) {
    if (!testing::have_nvrtc()) GTEST_SKIP() << "no NVRTC";
    expect_instructions({
        {"turn_wait(ag, 1);", {"bar.sync"}, true},
        {"turn_pass(ag, 1);", {"bar.arrive"}, true},
        {"RowPart<64> l(ag); settle(ag, l);", {}, true},
    });
}

TEST(Sm90Ordering, LaunchProtocol) {
    if (!testing::have_nvrtc()) GTEST_SKIP() << "no NVRTC";
    expect_instructions({
        {"sh.ring[0] = enter(ag, args);", {"ld.relaxed.gpu.global.u64", "st.shared.u64"}},
        {"sh.ring[0] = fetch_tile(ag, args);", {"atom.relaxed.gpu.global.add.u64", "st.shared.u64"}},
        {"count_in(ag, args);", {"red.relaxed.gpu.global.add.u64"}},
        {"if (cta_any(ag, sh.ring[0] != 0)) sh.ring[0] = 1;", {"ld.shared.u64", "barrier.red.or.pred", "st.shared.u64"}},
        // The proxy is told, the launch's words are reset; then whether the launch was given up.
        {"leave(ag, args);", {"atom.acq_rel.gpu.global.add.u64", "st.relaxed.sys.global.u64", "st.global.u64", "st.global.u64", "st.global.u64",
                              "st.global.u64", "st.global.u64", "st.global.u64", "st.global.u64", "st.global.u64"}},
    });
}

TEST(Sm90Ordering, RelayAcquiresWhatChangedAndForwardsAtGpuScope) {
    if (!testing::have_nvrtc()) GTEST_SKIP() << "no NVRTC";
    Source source;
    source.kernel = case_prelude() + kernel_of({"Relay r(args); relay_poll(ag, args, r); relay_next(ag, args, r); relay_forward(ag, args, r, Scope::Gpu);", {}}, 0);
    source.shapes = wgmma_text({});
    const std::vector<std::string> found = instructions(compile_cubin(source).ptx, 0, kOrdering);
    const auto count = [&](const std::string& name) { return std::count(found.begin(), found.end(), name); };
    EXPECT_EQ(count("ld.acquire.sys.global.u64"), 4);    // the host's lines and the peers' abort word, each again where it changed
    EXPECT_EQ(count("ld.acquire.gpu.global.u64"), 2);    // agents that are done; a record that another agent fills
    EXPECT_EQ(count("atom.relaxed.gpu.global.cas.b64"), 3);
    EXPECT_EQ(count("st.release.gpu.global.u64"), 5);    // fifo_completed; record and abort, from two findings
    EXPECT_GE(count("st.release.sys.global.u64"), 6);    // arrivals_taken; two records, peers' abort word, told and abort of the host
    EXPECT_EQ(count("atom.acq_rel.gpu.global.add.u64"), 0);
}

}  // namespace
}  // namespace plait
