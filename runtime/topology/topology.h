// Topology: what the cluster is made of. Read from a JSON file (schedules/topologies/*.json) or from the machine.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

namespace plait {

enum class Transport { None, Loopback, Rc, Srd };

struct NicInfo {
    std::string name;            // mlx5_0, efa_0, loop0
    Transport transport = Transport::None;
    int gpu = 0;                 // local GPU it is nearest to: its rail
    double bandwidth_gbs = 0;    // 1e9 bytes per second, one way
};

struct Topology {
    std::string name;
    int nodes = 1;
    int gpus_per_node = 1;       // rank = node * gpus_per_node + local rank
    std::string gpu_name = "simulated";
    std::string arch = "host";   // sm_90a or host: what the GPUs run
    int sms = 6;
    std::int64_t shared_memory_bytes = 232448;   // one CTA's limit
    std::int64_t registers_per_sm = 65536;
    double nvlink_gbs = 0;
    std::vector<NicInfo> nics;   // of one node; all nodes alike

    int world() const { return nodes * gpus_per_node; }
    std::string label() const;   // 2x8

    // Throws ScheduleError where the file contradicts itself (NIC of a GPU that is not there, nodes > 1 without a
    // NIC for each GPU, worlds of 0), naming the JSON pointer.
    static Topology from_json_text(const std::string& text, const std::string& origin);
    static Topology from_file(const std::string& path);
    // `2x2`: nodes x GPUs per node, simulated, one loopback NIC a GPU. Throws ArgumentError.
    static Topology simulated(const std::string& label);
    std::string to_json_text() const;
};

}  // namespace plait
