// Sessions on a fake driver: artifacts, ranks as threads, tensors.
#pragma once
#include <cstring>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "runtime/session/session.h"
#include "templates/abi/kernel_args.h"
#include "tests/runtime/device/fake_driver.h"

namespace plait {

inline Topology gpu_topology(int nodes, int locals) {
    Topology topology = Topology::simulated(std::to_string(nodes) + "x" + std::to_string(locals));
    topology.arch = "sm_90a";
    return topology;
}

// x [rows here, 8] -> y [M, 8], one map of each and one of the workspace.
inline Artifact fake_artifact(int nodes, int locals, std::uint64_t workspace_bytes = 1 << 16) {
    Manifest manifest;
    manifest.abi_version = kAbiVersion;
    manifest.name = "copy";
    manifest.arch = "sm_90a";
    manifest.semantics = "copy-of-rows";
    manifest.world = nodes * locals, manifest.nodes = nodes, manifest.locals = locals;
    manifest.m_max = 256;
    manifest.threads = 384, manifest.shared_bytes = 200'000, manifest.min_ctas = 4;
    manifest.workspace_bytes = workspace_bytes;
    manifest.lets = {{"shard", "max(ceil_div(M, world), 1)"}, {"rows", "min(max(M - rank * shard, 0), shard)"}};
    std::uint64_t offset = sizeof(Launch);
    manifest.tensors = {{"x", "bf16", {"rows", 8}, false, offset}, {"y", "bf16", {"M", 8}, true, offset + 8}};
    offset = (offset + 16 + 63) / 64 * 64;
    manifest.maps = {{"x_map", "bf16", 0, "x", 0, {8, "rows", 1}, {16, "rows * 16"}, {8, 64, 1}, offset},
                     {"w_map", "bf16", 0, "workspace", 4096, {8, "shard", 2}, {16, 4096}, {8, 64, 1}, offset + 128}};
    manifest.args_bytes = static_cast<std::int64_t>(offset + 256);
    manifest.wait_sites = {{0, "compute", "loader", "a_ready"}, {1, "intra_comm", "loader", "entered"}};
    manifest.flags = {{"a_ready", 128, 64}};
    Artifact artifact;
    artifact.manifest = manifest;
    artifact.code = "cubin of copy";
    return artifact;
}

inline Launch launch_in(const FakeLaunch& call) {
    Launch launch;
    std::memcpy(&launch, call.args.data(), sizeof(launch));
    return launch;
}

// The ranks of one Session, each on a thread while a collective runs.
struct FakeCluster {
    Topology topology;
    SessionOptions options;
    std::shared_ptr<Rendezvous> rendezvous = make_process_rendezvous();
    std::vector<std::unique_ptr<Session>> sessions;
    std::vector<std::string> errors;
    int devices = 2;

    FakeCluster(int nodes, int locals)
        : topology(gpu_topology(nodes, locals)), sessions(nodes * locals), errors(nodes * locals) {
        options.workspace_bytes = 8u << 20;
        options.rendezvous_timeout_ns = 5'000'000'000;
    }
    int world() const { return topology.world(); }

    template <typename Body>
    void on_ranks(Body body) {
        std::vector<std::thread> threads;
        for (int rank = 0; rank < world(); ++rank) {
            threads.emplace_back([&, rank] {
                errors[rank].clear();
                try {
                    body(rank);
                } catch (const std::exception& error) {
                    errors[rank] = error.what();
                }
            });
        }
        for (std::thread& thread : threads) thread.join();
    }
    void create(const FakeDriver& fake) {
        on_ranks([&](int rank) {
            SessionOptions own = options;
            own.device = rank % devices;
            sessions[rank] = Session::create(topology, rank, rendezvous, fake.table(), own);
        });
    }
    void attach(const Artifact& artifact) {
        on_ranks([&](int rank) { sessions[rank]->attach(artifact); });
    }
    std::string first_error() const {
        for (const std::string& error : errors) {
            if (!error.empty()) return error;
        }
        return "";
    }
};

// x and y of one rank for `m` rows.
struct FakeTensors {
    alignas(64) unsigned short x[256 * 8] = {}, y[256 * 8] = {};
    RankTensors views(std::int64_t rows, std::int64_t m) { return {{x, "bf16", {rows, 8}}, {y, "bf16", {m, 8}}}; }
};

inline cu::Stream stream_number(std::uintptr_t number) { return reinterpret_cast<cu::Stream>(number); }

}  // namespace plait
