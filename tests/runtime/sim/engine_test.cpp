// The engine's own rules, by kernels of a few lines.
#include "runtime/sim/engine.h"

#include <gtest/gtest.h>

#include <functional>

#include "runtime/base/error.h"
#include "runtime/sim/rank_memory.h"

namespace plait {
namespace {

// One rank or two on one node, agents that run a C++ function: args is the function.
using Body = std::function<void(const HostCta&, int rank)>;
struct BodyArgs {
    const Body* body;
    int rank;
};
void run_body(const HostCta* cta, const void* args) {
    const auto& body_args = *static_cast<const BodyArgs*>(args);
    (*body_args.body)(*cta, body_args.rank);
}

class EngineTest : public ::testing::Test {
protected:
    explicit EngineTest() = default;

    void make(int world, SimOptions options = {}) {
        engine_ = std::make_unique<Engine>(world, world, options);
        for (int r = 0; r < world; ++r) {
            memory_.push_back(std::make_unique<SimRankMemory>(4, 4));
            memory_[r]->add_regions(engine_->memory(), r, 0, 65536);
            engine_->rank(r).workspace = memory_[r]->workspace();
            engine_->rank(r).state = memory_[r]->state();
        }
    }
    LaunchReport run(const Body& body, std::uint32_t ctas = 1, std::uint32_t resident = 1,
                     std::vector<std::string> agents = {"one", "two"}) {
        std::vector<BodyArgs> args;
        for (int r = 0; r < engine_->world(); ++r) args.push_back({&body, r});
        EngineLaunch launch;
        launch.kernel = run_body;
        for (const BodyArgs& rank_args : args) launch.args.push_back(&rank_args);
        launch.agents = agents;
        launch.shared_bytes = 8192;
        launch.ctas = ctas;
        launch.resident = resident;
        return engine_->run(launch);
    }
    std::string fault_of(const Body& body) {
        try {
            run(body);
        } catch (const SimulationFault& fault) {
            return fault.fault();
        } catch (const Error& error) {
            return error.kind();
        }
        return "none";
    }
    u64* word(int rank, int index) { return reinterpret_cast<u64*>(memory_[rank]->workspace()) + index; }

    std::vector<std::unique_ptr<SimRankMemory>> memory_;
    std::unique_ptr<Engine> engine_;
};

void store(const HostCta& c, Lane lane, void* address, u64 bytes) {
    c.engine->access(c.agent, lane, Proxy::Generic, Access::Write, address, bytes, 1, bytes);
}
void load(const HostCta& c, Lane lane, const void* address, u64 bytes) {
    c.engine->access(c.agent, lane, Proxy::Generic, Access::Read, address, bytes, 1, bytes);
}

TEST_F(EngineTest, ReleaseAndAcquireOrderData) {
    for (Scope scope : {Scope::Cta, Scope::Gpu, Scope::System}) {
        make(1);
        EXPECT_EQ(fault_of([&](const HostCta& c, int) {
                      if (c.agent_index == 0) {
                          store(c, Lane::Members, word(0, 8), 8);
                          c.engine->signal(c.agent, Lane::Members, word(0, 0), 1, Update::Set, scope, Order::Ordered);
                      } else {
                          c.engine->wait(c.agent, Lane::Members, word(0, 0), 1, 1, Scope::Cta, Order::Ordered, 0, kNoDeadline);
                          load(c, Lane::Members, word(0, 8), 8);
                      }
                  }),
                  "none");
        memory_.clear();
    }
}

TEST_F(EngineTest, RelaxedWordsOrderNothing) {
    for (int relaxed : {0, 1}) {
        make(1);
        EXPECT_EQ(fault_of([&](const HostCta& c, int) {
                      if (c.agent_index == 0) {
                          store(c, Lane::Members, word(0, 8), 8);
                          c.engine->signal(c.agent, Lane::Members, word(0, 0), 1, Update::Set, Scope::System,
                                           relaxed == 0 ? Order::Relaxed : Order::Ordered);
                      } else {
                          c.engine->wait(c.agent, Lane::Members, word(0, 0), 1, 1, Scope::System,
                                         relaxed == 1 ? Order::Relaxed : Order::Ordered, 0, kNoDeadline);
                          load(c, Lane::Members, word(0, 8), 8);
                      }
                  }),
                  "read_unordered");
        memory_.clear();
    }
}

// A counter passes on what all that added to it released; a plain store to it ends that.
TEST_F(EngineTest, AddsContinueAReleaseSequence) {
    make(1);
    EXPECT_EQ(fault_of([&](const HostCta& c, int) {
                  if (c.agent_index == 0) {
                      store(c, Lane::Members, word(0, 8), 8);
                      c.engine->signal(c.agent, Lane::Members, word(0, 0), 1, Update::Add, Scope::Gpu, Order::Ordered);
                  } else {
                      c.engine->fetch_add(c.agent, Lane::Members, word(0, 0), 1, Scope::Gpu, Order::Relaxed);
                      c.engine->wait(c.agent, Lane::Members, word(0, 0), 1, 2, Scope::Gpu, Order::Ordered, 0, kNoDeadline);
                      load(c, Lane::Members, word(0, 8), 8);
                  }
              }),
              "none");
}

TEST_F(EngineTest, ElectedThreadLearnsOnlyWhenTheAgentMeets) {
    for (bool sync : {false, true}) {
        make(1);
        EXPECT_EQ(fault_of([&](const HostCta& c, int) {
                      if (c.agent_index != 0) return;
                      c.engine->bulk_commit(c.agent, Lane::Elected);
                      store(c, Lane::Elected, word(0, 8), 8);
                      store(c, Lane::Members, word(0, 16), 8);
                      if (sync) c.engine->agent_sync(c.agent);
                      load(c, Lane::Elected, word(0, 16), 8);
                      load(c, Lane::Members, word(0, 8), 8);
                  }),
                  sync ? "none" : "read_unordered");
        memory_.clear();
    }
}

TEST_F(EngineTest, AccessOutsideOfAllMemoryIsAFault) {
    make(1);
    static char nowhere[64];
    EXPECT_EQ(fault_of([&](const HostCta& c, int) { load(c, Lane::Members, nowhere, 8); }), "outside");
    memory_.clear();
    make(1);
    EXPECT_EQ(fault_of([&](const HostCta& c, int) { store(c, Lane::Members, memory_[0]->workspace() + 65530, 16); }),
              "outside");
}

TEST_F(EngineTest, WordsOfAnotherRanksStateAreOutside) {
    make(2);
    EXPECT_EQ(fault_of([&](const HostCta& c, int rank) {
                  if (rank == 0)
                      c.engine->signal(c.agent, Lane::Members, &memory_[1]->state()->finished, 1, Update::Set,
                                       Scope::System, Order::Ordered);
              }),
              "outside");
}

TEST_F(EngineTest, ReadOfBytesThatNobodyWroteIsAFault) {
    make(1);
    EXPECT_EQ(fault_of([&](const HostCta& c, int) { load(c, Lane::Members, c.shared, 8); }), "uninitialised");
}

TEST_F(EngineTest, NonResidentCtasCanDeadlock) {
    make(1);
    const Body meet = [&](const HostCta& c, int) {
        if (c.agent_index != 0) return;
        c.engine->signal(c.agent, Lane::Members, word(0, 0), 1, Update::Add, Scope::Gpu, Order::Ordered);
        c.engine->wait(c.agent, Lane::Members, word(0, 0), 1, 4, Scope::Gpu, Order::Ordered, 0, kNoDeadline);
    };
    try {
        run(meet, 4, 3);
        FAIL() << "three CTAs cannot do the work of four";
    } catch (const StallError& error) {
        EXPECT_NE(std::string(error.what()).find("expected 4, sees 3"), std::string::npos) << error.what();
        EXPECT_NE(std::string(error.what()).find("1 of 4 CTAs never started"), std::string::npos) << error.what();
    }
    memory_.clear();
    make(1);
    run(meet, 4, 4);
}

TEST_F(EngineTest, CtasBeyondTheResidentOnesRunAfterThem) {
    make(1);
    std::uint64_t ran = 0;
    run([&](const HostCta& c, int) { ran += c.agent_index == 0; }, 7, 2);
    EXPECT_EQ(ran, 7u);
}

TEST_F(EngineTest, StepLimitEndsAPollingLoop) {
    SimOptions options;
    options.max_steps = 1000;
    make(1, options);
    EXPECT_EQ(fault_of([&](const HostCta& c, int) {
                  while (c.engine->load(c.agent, Lane::Members, word(0, 0), Scope::Gpu, Order::Relaxed) == 0) {
                  }
              }),
              "StallError");
}

TEST_F(EngineTest, AbortEndsWaits) {
    make(1);
    WaitResult gave_up = WaitResult::Reached;
    EXPECT_EQ(fault_of([&](const HostCta& c, int) {
                  if (c.agent_index == 0)
                      gave_up = c.engine->wait(c.agent, Lane::Members, word(0, 0), 1, 1, Scope::Gpu, Order::Ordered, 0, kNoDeadline);
                  else
                      c.engine->signal(c.agent, Lane::Members, &memory_[0]->state()->abort, 1, Update::Set, Scope::Gpu,
                                       Order::Ordered);
              }),
              "none");
    EXPECT_EQ(gave_up, WaitResult::Aborted);
}

// The clock stands still while anything can move; then the nearest deadline passes, and nobody else's.
TEST_F(EngineTest, TimePassesOnlyWhenNothingCanMove) {
    make(2);
    WaitResult result[2] = {};
    u64 woke[2] = {};
    run([&](const HostCta& c, int rank) {
        if (c.agent_index != 0) return;
        result[rank] = c.engine->wait(c.agent, Lane::Members, word(rank, 0), 1, 1, Scope::System, Order::Ordered, 0,
                                      rank == 0 ? 500 : 9000);
        woke[rank] = c.engine->clock(c.agent);
        if (rank == 0)
            c.engine->signal(c.agent, Lane::Members, word(1, 0), 1, Update::Set, Scope::System, Order::Ordered);
    });
    EXPECT_EQ(result[0], WaitResult::Expired);
    EXPECT_EQ(result[1], WaitResult::Reached);
    EXPECT_EQ(woke[0], 500u);
    EXPECT_EQ(woke[1], 500u);
}

// A kernel's end orders the next launch of the same rank, and of no other.
TEST_F(EngineTest, LaunchesOfOneRankAreOrdered) {
    make(2);
    const Body write_own = [&](const HostCta& c, int rank) {
        if (c.agent_index == 0) store(c, Lane::Members, word(rank, 8), 8);
    };
    run(write_own);
    run([&](const HostCta& c, int rank) {
        if (c.agent_index == 1) load(c, Lane::Members, word(rank, 8), 8);
    });
    EXPECT_EQ(fault_of([&](const HostCta& c, int rank) {
                  if (c.agent_index == 1 && rank == 0) load(c, Lane::Members, word(1, 8), 8);
              }),
              "read_unordered");
}

TEST_F(EngineTest, BulkStoreIsLate) {
    int late = 0;
    for (std::uint64_t seed = 1; seed <= 20; ++seed) {
        SimOptions options;
        options.seed = seed;
        make(1, options);
        run([&](const HostCta& c, int) {
            if (c.agent_index != 0) return;
            u64* from = static_cast<u64*>(c.shared);
            store(c, Lane::Members, from, 8);
            *from = 7;
            c.engine->fence_proxy_async(c.agent, Lane::Members);
            const BulkCopy copy{memory_[0]->workspace() + 64, reinterpret_cast<u8*>(from), 8, 8, 8, 1, 8, 1};
            c.engine->bulk_store(c.agent, Lane::Members, &copy);
            c.engine->bulk_commit(c.agent, Lane::Members);
            late += *word(0, 8) != 7;
            c.engine->bulk_wait(c.agent, Lane::Members, 0, 0);
            EXPECT_EQ(*word(0, 8), 7u);
        });
        memory_.clear();
    }
    EXPECT_GE(late, 15);
}

}  // namespace
}  // namespace plait
