// Artifact: code bytes and a plain-data manifest. All that the runtime knows of a kernel.
//
// On disk a directory: kernel.cu, kernel.cubin or kernel.o / kernel.so, manifest.json.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "runtime/base/expr.h"

namespace plait {

struct ManifestTensor {
    std::string name, dtype;
    std::vector<Expr> shape;              // of this rank's part; names: M rank world node nodes local locals, `params`, `lets`
    bool output = false;
    std::uint64_t args_offset = 0;
    std::string pitch;                    // name of the distance of its rows in bytes; empty: rows are contiguous
    std::uint64_t pitch_offset = 0;       // where the kernel reads it
    bool aligned = false;                 // starts at a multiple of 16 bytes though no map is over it: rows are copied by index
};
struct ManifestMap {
    std::string name, dtype;
    std::int64_t index = 0;
    std::string memory;                   // a tensor's name, or `workspace` for a buffer
    Expr base_bytes;                      // from the tensor's start, or from the artifact's area
    std::vector<Expr> extent;             // 3
    std::vector<Expr> stride_bytes;       // 2
    std::vector<std::int64_t> box;        // 3
    std::uint64_t args_offset = 0;
};
struct ManifestParam {                    // see infer_params
    std::string name;
    std::int64_t max = 0;
    std::uint64_t args_offset = 0;
    bool positive = false;                // 0 is refused
};
// A place where an agent can give up: it waits for a flag, or reads a value that its writer promised to be in a range.
struct WaitSite {
    std::int64_t id = 0;
    std::string role, agent, flag;        // flag: of a value the list that it is read from
    std::string kind = "wait";            // wait, value
};
struct ManifestFlags { std::string name; std::uint64_t offset = 0, count = 0; };   // from the artifact's area, 8 bytes each
struct ManifestLet { std::string name; Expr value; };   // in order of dependence

struct Manifest {
    std::int64_t abi_version = 0;
    std::string name, arch;               // arch: sm_90a, host
    std::string key;                      // cache key, hex
    std::string semantics;                // hash of graph, numerics, schedule, problem, topology, target: what it computes
    std::string compiler;                 // nvrtc 13.0, clang 19.1.7
    std::int64_t world = 1, nodes = 1, locals = 1;
    std::int64_t m_max = 0, n = 0, k = 0;
    std::int64_t threads = 0, shared_bytes = 0, args_bytes = 0;
    std::int64_t min_ctas = 1;            // fewer resident CTAs cannot run this plan
    std::int64_t cluster = 1;             // CTAs of a cluster: a launch has a multiple of it
    std::uint64_t workspace_bytes = 0;    // the artifact's area, each rank's
    std::uint64_t receive_bytes = 0;      // its first part: what peers' payloads are written to; flags lie behind
    bool session_state = true;            // touches the session's DeviceState: its launches run one after another
    std::vector<std::string> agents;      // of a CTA, by agent index (host machine)
    std::vector<ManifestParam> params;    // launch arguments beside M
    std::vector<ManifestLet> lets;
    std::vector<ManifestTensor> tensors;
    std::vector<ManifestMap> maps;
    std::vector<WaitSite> wait_sites;
    std::vector<ManifestFlags> flags;
    std::int64_t registers = 0, spill_bytes = 0, local_bytes = 0;
    std::vector<std::string> ptxas_messages;

    std::string to_json_text() const;
    static Manifest from_json_text(const std::string& text, const std::string& origin);   // ArgumentError
};

struct Artifact {
    Manifest manifest;
    std::string source;                   // kernel.cu
    std::string code;                     // cubin; host: relocatable object (JIT, cache) or shared object (AOT)
    std::string code_file;                // path of the code where it lies on disk, else empty
};

// A directory that plaitc wrote. ArgumentError: missing or contradictory file.
Artifact load_artifact(const std::string& directory);

}  // namespace plait
