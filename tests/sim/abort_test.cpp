// Waits that end: ranks that never come, die, stop for a while, or disagree. Every other rank leaves, is told why, and
// holds no number that could pass for a result.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>

#include "compiler/backend/clang_jit.h"
#include "runtime/base/error.h"
#include "runtime/session/bind.h"
#include "tests/sim/harness.h"

namespace plait::testing {
namespace {

Case gather_case(const std::string& topology) {
    Case c;
    c.name = "ag_gemm", c.topology = topology;
    c.m = 200, c.n = 64, c.k = 128;
    c.knobs = {{"tile_m", "64"}, {"tile_n", "64"}, {"chunk_rows", "64"}};
    return c;
}

// Tensors of all ranks for `m` rows, zero inputs, 7 in the outputs.
struct Tensors {
    std::vector<std::vector<std::vector<std::uint16_t>>> storage;
    std::vector<RankTensors> views;
    std::vector<std::vector<std::uint16_t>*> outputs;

    Tensors(const Kernel& kernel, const std::vector<std::int64_t>& m) : storage(m.size()), views(m.size()) {
        const Manifest& manifest = kernel.artifact.manifest;
        for (std::size_t rank = 0; rank < m.size(); ++rank) {
            const RankPlace place = place_of(static_cast<int>(rank), kernel.topology.nodes, kernel.topology.gpus_per_node);
            const auto shapes = tensor_shapes(manifest, place, m[rank]);
            for (std::size_t t = 0; t < shapes.size(); ++t) {
                std::size_t elements = 1;
                for (std::int64_t extent : shapes[t]) elements *= static_cast<std::size_t>(extent);
                storage[rank].emplace_back(elements + 64, manifest.tensors[t].output ? 7 : 0);
            }
            for (std::size_t t = 0; t < shapes.size(); ++t)
                views[rank].push_back({storage[rank][t].data(), manifest.tensors[t].dtype, shapes[t]});
        }
        for (auto& rank : storage) outputs.push_back(&rank.back());
    }
    // Outputs hold NaN and nothing else, and nothing was written beside them.
    void expect_nan(const Kernel& kernel, const std::vector<std::int64_t>& m) const {
        for (std::size_t rank = 0; rank < outputs.size(); ++rank) {
            const std::size_t elements = static_cast<std::size_t>(m[rank] * kernel.c.n);
            const auto& out = *outputs[rank];
            const auto count = [&](std::uint16_t bits) {
                return static_cast<std::size_t>(std::count(out.begin(), out.begin() + static_cast<std::ptrdiff_t>(elements), bits));
            };
            EXPECT_EQ(count(0xffff), elements) << "rank " << rank;
            EXPECT_EQ(out[elements], 7) << "rank " << rank;
        }
    }
};

// What the launch throws; outputs must be NaN, and the cluster dead.
std::string failure_of(const Kernel& kernel, const SimOptions& options, std::vector<std::int64_t> m = {}) {
    if (m.empty()) m.assign(static_cast<std::size_t>(kernel.topology.world()), kernel.c.m);
    SimCluster cluster(kernel.topology, options);
    Tensors tensors(kernel, m);
    try {
        cluster.launch(kernel.artifact, kernel.module, m, tensors.views);
    } catch (const StallError& error) {
        tensors.expect_nan(kernel, m);
        EXPECT_THROW(cluster.launch(kernel.artifact, kernel.module, m, tensors.views), StallError);
        return error.message();
    } catch (const Error& error) {
        ADD_FAILURE() << error.kind() << ": " << error.message();
        return error.message();
    }
    return "no error";
}

bool contains(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

SimOptions options_of(std::uint64_t seed, NetworkContract network = NetworkContract::Ordered) {
    SimOptions options;
    options.seed = seed, options.network = network;
    return options;
}

TEST(Abort, ARankThatNeverComesIsNamedByItsPeers) {
    for (const char* topology : {"1x2", "2x1", "2x2", "2x3"}) {
        const Kernel kernel = build(gather_case(topology));
        for (std::uint64_t seed = 1; seed <= 3; ++seed) {
            SimOptions options = options_of(seed, seed % 2 ? NetworkContract::Ordered : NetworkContract::Unordered);
            options.lost.rank = static_cast<int>(seed) % kernel.topology.world();
            const std::string said = failure_of(kernel, options);
            EXPECT_TRUE(contains(said, fmt::format("rank {} has not entered within 60 s: waits for entered[{}] = 1, sees 0",
                                                   options.lost.rank, options.lost.rank)))
                << topology << " seed " << seed << ": " << said;
        }
    }
}

// Wherever it stops: the others leave, with the deadline that applies.
TEST(Abort, ARankThatDiesInMidRunEndsTheOthers) {
    for (const char* topology : {"1x2", "2x2"}) {
        const Kernel kernel = build(gather_case(topology));
        int by_wait = 0, by_entry = 0, finished = 0;
        for (std::uint64_t seed = 1; seed <= 40; ++seed) {
            SimOptions options = options_of(seed, seed % 2 ? NetworkContract::Ordered : NetworkContract::Unordered);
            options.lost = {static_cast<int>(seed) % kernel.topology.world(), 25 * static_cast<std::uint64_t>(kernel.topology.nodes * kernel.topology.nodes) * seed,
                            seed % 3 == 0};
            SimCluster cluster(kernel.topology, options);
            const std::vector<std::int64_t> m(static_cast<std::size_t>(kernel.topology.world()), kernel.c.m);
            Tensors tensors(kernel, m);
            try {
                cluster.launch(kernel.artifact, kernel.module, m, tensors.views);
                ++finished;  // it came back, or was not lost after all
            } catch (const StallError& error) {
                by_wait += contains(error.message(), "after all ranks had entered");
                by_entry += contains(error.message(), "within 60 s");
                tensors.expect_nan(kernel, m);
            }
        }
        EXPECT_LT(finished, 30) << topology;
        EXPECT_GT(by_wait, 5) << topology;
        EXPECT_GT(by_entry, 0) << topology;
    }
}

// A rank stopped in a debugger goes on when the others have given up: it leaves as they did, its outputs are NaN as well.
TEST(Abort, ARankThatComesBackLeavesToo) {
    const Kernel kernel = build(gather_case("2x2"));
    for (std::uint64_t seed = 1; seed <= 10; ++seed) {
        SimOptions options = options_of(seed);
        options.lost = {static_cast<int>(seed) % 4, 150 * (seed % 4), true};
        const std::string said = failure_of(kernel, options);
        EXPECT_TRUE(contains(said, "entered")) << said;
    }
}

// Rank 0 has no flag of rank 3, which is another rail of another node: it hears of it from those that have.
TEST(Abort, ARankThatIsNoPeerIsNamedByThoseThatAre) {
    const Kernel kernel = build(gather_case("2x2"));
    for (std::uint64_t seed = 1; seed <= 8; ++seed) {
        SimOptions options = options_of(seed);
        options.lost.rank = 3;
        const std::string said = failure_of(kernel, options);
        EXPECT_TRUE(contains(said, "rank 1, launch 1 of ag_gemm (M = 200): rank 3 has not entered")) << said;
        EXPECT_FALSE(contains(said, "did not see all ranks")) << said;
        EXPECT_FALSE(contains(said, "rank 0, launch")) << said;
    }
}

TEST(Abort, ASignalThatIsNeverSentIsNamedWithRoleTileAndFlag) {
    Kernel kernel = lower_case(gather_case("1x2"));
    for (ProgramDef& program : kernel.plan.programs) {
        if (program.name != "intra_comm_pusher") continue;
        const std::function<void(std::vector<Statement>&)> drop = [&](std::vector<Statement>& body) {
            std::erase_if(body, [](const Statement& s) { return s.op == Op::SignalSet; });
            for (Statement& s : body) drop(s.body);
        };
        drop(program.body);
    }
    compile_case(kernel);
    const std::string said = failure_of(kernel, options_of(1));
    EXPECT_TRUE(contains(said, "launch 1 of ag_gemm (M = 200): role compute, agent loader, CTA ")) << said;
    EXPECT_TRUE(contains(said, ", tile ")) << said;
    EXPECT_TRUE(contains(said, " waits for a_ready[")) << said;
    EXPECT_TRUE(contains(said, " = 1, sees 0, 10 s after all ranks had entered")) << said;
}

TEST(Abort, RanksThatDisagreeInMAreToldBothValues) {
    for (const char* topology : {"1x2", "2x1", "2x2"}) {
        const Kernel kernel = build(gather_case(topology));
        const auto world = static_cast<std::size_t>(kernel.topology.world());
        for (std::uint64_t seed = 1; seed <= 8; ++seed) {
            std::vector<std::int64_t> m(world, 200);
            m[seed % world] = 136;
            SimOptions options = options_of(seed, seed % 2 ? NetworkContract::Ordered : NetworkContract::Unordered);
            options.check_memory = false;  // it may see a consequence first: rows that nobody sends
            const std::string said = failure_of(kernel, options, m);
            EXPECT_TRUE(contains(said, "M = 200") && contains(said, "M = 136")) << topology << " seed " << seed << ": " << said;
            EXPECT_TRUE(contains(said, fmt::format("rank {}", seed % world))) << said;
            EXPECT_FALSE(contains(said, "signature")) << said;
        }
    }
}

// Nothing of the smaller problem is missing, so nothing would wait: silent wrong results.
TEST(Abort, DisagreementIsFoundWhereNobodyWouldWait) {
    const Kernel kernel = build(gather_case("1x2"));
    for (std::uint64_t seed = 1; seed <= 8; ++seed) {
        SimOptions options = options_of(seed);
        options.check_memory = false;
        const std::string said = failure_of(kernel, options, {128, 127});
        EXPECT_TRUE(contains(said, "M = 128") && contains(said, "M = 127")) << said;
    }
}

// One CTA a rank runs, of which none can end: each waits for a chunk that a missing one of the peer would send.
TEST(Abort, CtasThatAreNotStartedAreCounted) {
    const Kernel kernel = build(gather_case("1x2"));
    for (std::uint64_t seed = 1; seed <= 8; ++seed) {
        SimOptions options = options_of(seed);
        options.resident_ctas = 3;
        options.occupied_sms = 2;
        const std::string said = failure_of(kernel, options);
        EXPECT_TRUE(contains(said, "1 of 3 CTAs started within 60 s")) << "seed " << seed << ": " << said;
    }
}

TEST(Abort, ANewClusterOfTheSameProcessWorks) {
    const Kernel kernel = build(gather_case("2x2"));
    SimOptions options = options_of(1);
    options.lost.rank = 2;
    EXPECT_TRUE(contains(failure_of(kernel, options), "rank 2 has not entered"));
    EXPECT_TRUE(run(kernel, 1, NetworkContract::Unordered).ok());
}

}  // namespace
}  // namespace plait::testing
