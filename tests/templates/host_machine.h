// Calls of the host machine on the engine: one warpgroup agent or one-thread agent, or several that run the same body.
#pragma once
#include <gtest/gtest.h>

#include <cstring>
#include <functional>
#include <string>
#include <vector>

#include "runtime/sim/engine.h"
#include "runtime/sim/rank_memory.h"
#include "templates/host/machine.h"

namespace plait {

struct Shared {
    alignas(1024) Bytes<64 * 128> a[2];
    alignas(1024) Bytes<256 * 128> b[2];
    alignas(1024) Bytes<64 * 128> box;
    Barrier full[1];
};
struct Args {
    Launch launch;
};

using Body = std::function<void(Agent&, const Args&, Shared&)>;
struct BodyArgs {
    Args args{};
    const Body* body = nullptr;
    bool thread = false;
};

inline void run_body(const HostCta* cta, const void* args) {
    const auto& body_args = *static_cast<const BodyArgs*>(args);
    Agent ag = make_agent(*cta, body_args.thread);
    (*body_args.body)(ag, body_args.args, *static_cast<Shared*>(cta->shared));
}

class HostMachine : public ::testing::Test {
protected:
    HostMachine() : engine_(1, 1, SimOptions{}), memory_(4, 4) {
        memory_.add_regions(engine_.memory(), 0, 0, 1 << 20);
        engine_.rank(0).workspace = memory_.workspace();
        engine_.rank(0).state = memory_.state();
    }
    void run(bool thread, const Body& body, std::vector<std::string> agents = {"agent"}) {
        BodyArgs args;
        args.body = &body;
        args.thread = thread;
        memory_.fill(args.args.launch);
        args.args.launch.workspace[0] = memory_.workspace();
        EngineLaunch launch;
        launch.kernel = run_body;
        launch.args = {&args};
        launch.agents = std::move(agents);
        launch.shared_bytes = sizeof(Shared);
        engine_.run(launch);
    }
    // "fault: message" of a warpgroup's body, or "none".
    std::string fault_of(const Body& body) {
        try {
            run(false, body);
        } catch (const SimulationFault& fault) {
            return fault.fault() + ": " + fault.message();
        }
        return "none";
    }
    TensorMap map_of(void* base, u64 columns, u64 rows, u64 pitch, u32 box_columns, u32 box_rows) {
        HostTensorMap host{};
        host.base = static_cast<u8*>(base);
        host.extent[0] = columns, host.extent[1] = rows, host.extent[2] = 1;
        host.stride_bytes[0] = pitch, host.stride_bytes[1] = pitch * rows;
        host.box[0] = box_columns, host.box[1] = box_rows, host.box[2] = 1;
        host.element_bytes = 2;
        TensorMap map{};
        std::memcpy(&map, &host, sizeof(host));
        return map;
    }

    Engine engine_;
    SimRankMemory memory_;
};

}  // namespace plait
