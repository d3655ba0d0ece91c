#include "runtime/topology/topology.h"

#include <fmt/format.h>

#include <charconv>
#include <set>

#include "runtime/base/files.h"
#include "runtime/base/json_reader.h"

namespace plait {
namespace {

using nlohmann::ordered_json;

struct TransportWord {
    Transport transport;
    const char* word;
};
constexpr TransportWord kTransportWords[] = {
    {Transport::None, "none"}, {Transport::Loopback, "loopback"}, {Transport::Rc, "rc"}, {Transport::Srd, "srd"}};

void read_transport(const std::optional<JsonValue>& value, Transport* transport) {
    std::string word;
    if (!value) return;
    value->read(word);
    for (const TransportWord& entry : kTransportWords) {
        if (entry.word == word) {
            *transport = entry.transport;
            return;
        }
    }
    if (value->json().is_string())
        value->reject(fmt::format("transport `{}` is none of none, loopback, rc, srd", word));
}

NicInfo read_nic(JsonObject& object) {
    NicInfo nic;
    object.read("name", nic.name);
    read_transport(object.require("transport"), &nic.transport);
    object.read("gpu", nic.gpu);
    object.read_optional("bandwidth_gbs", nic.bandwidth_gbs);
    if (nic.bandwidth_gbs < 0)
        object.reject("bandwidth_gbs", fmt::format("bandwidth is {}, at least 0 is needed", nic.bandwidth_gbs));
    return nic;
}

template <class T>
void at_least(JsonObject& object, const char* key, T value, T least) {
    if (value < least) object.reject(key, fmt::format("{} is {}, at least {} is needed", key, value, least));
}

void check_nics(const Topology& topology, JsonObject& object, JsonFindings& findings) {
    std::set<int> served;
    std::set<std::string> names;
    for (std::size_t i = 0; i < topology.nics.size(); ++i) {
        const NicInfo& nic = topology.nics[i];
        if (nic.gpu < 0 || nic.gpu >= topology.gpus_per_node) {
            findings.add(fmt::format("/nics/{}/gpu", i),
                         fmt::format("NIC {} belongs to GPU {}, but a node has GPUs 0 to {}", nic.name, nic.gpu,
                                     topology.gpus_per_node - 1));
        }
        if (!names.insert(nic.name).second)
            findings.add(fmt::format("/nics/{}/name", i), fmt::format("NIC {} stands twice", nic.name));
        if (nic.transport != Transport::None) served.insert(nic.gpu);
    }
    for (int gpu = 0; topology.nodes > 1 && gpu < topology.gpus_per_node; ++gpu) {
        if (served.count(gpu) != 0) continue;
        object.reject("nics",
                      fmt::format("{} nodes, but GPU {} of a node has no NIC with a transport", topology.nodes, gpu),
                      "add a NIC with `gpu` of that number, or set nodes to 1");
    }
}

void check(const Topology& topology, JsonObject& object, JsonFindings& findings) {
    at_least(object, "nodes", topology.nodes, 1);
    at_least(object, "gpus_per_node", topology.gpus_per_node, 1);
    at_least(object, "sms", topology.sms, 1);
    at_least<std::int64_t>(object, "shared_memory_bytes", topology.shared_memory_bytes, 1024);
    at_least<std::int64_t>(object, "registers_per_sm", topology.registers_per_sm, 1024);
    at_least(object, "nvlink_gbs", topology.nvlink_gbs, 0.0);
    if (std::int64_t{topology.nodes} * topology.gpus_per_node > 65536) {
        object.reject("nodes", fmt::format("{} nodes of {} GPUs are more than 65536 ranks", topology.nodes,
                                           topology.gpus_per_node));
    } else if (topology.nodes >= 1 && topology.gpus_per_node >= 1) {
        check_nics(topology, object, findings);
    }
    if (topology.arch != "host" && topology.arch != "sm_90a") {
        object.reject("arch", fmt::format("arch `{}` is neither sm_90a nor host", topology.arch));
    }
}

bool read_count(const std::string& text, int* count) {
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), *count);
    return error == std::errc() && end == text.data() + text.size() && *count >= 1 && *count <= 256;
}

}  // namespace

std::string Topology::label() const { return fmt::format("{}x{}", nodes, gpus_per_node); }

Topology Topology::from_json_text(const std::string& text, const std::string& origin) {
    Topology topology;
    JsonFindings findings;
    const auto json = parse_json(text, findings);
    findings.throw_if_any<ScheduleError>(origin);
    JsonObject object(JsonValue(*json, "", findings));
    object.read("name", topology.name);
    object.read("nodes", topology.nodes);
    object.read("gpus_per_node", topology.gpus_per_node);
    object.read("gpu_name", topology.gpu_name);
    object.read("arch", topology.arch);
    object.read("sms", topology.sms);
    object.read_optional("shared_memory_bytes", topology.shared_memory_bytes);
    object.read_optional("registers_per_sm", topology.registers_per_sm);
    object.read_optional("nvlink_gbs", topology.nvlink_gbs);
    object.each("nics", [&](JsonObject& nic) { topology.nics.push_back(read_nic(nic)); });
    object.finish();
    if (findings.empty()) check(topology, object, findings);
    findings.throw_if_any<ScheduleError>(origin);
    return topology;
}

Topology Topology::from_file(const std::string& path) { return from_json_text(read_file(path), path); }

Topology Topology::simulated(const std::string& label) {
    Topology topology;
    const std::size_t x = label.find('x');
    if (x == std::string::npos || !read_count(label.substr(0, x), &topology.nodes) ||
        !read_count(label.substr(x + 1), &topology.gpus_per_node)) {
        throw ArgumentError(fmt::format("topology label `{}` is not NODESxGPUS with 1 to 256 of each", label),
                            "write 2x2, or the path of a topology file");
    }
    topology.name = "sim_" + label;
    for (int gpu = 0; gpu < topology.gpus_per_node; ++gpu) {
        topology.nics.push_back({fmt::format("loop{}", gpu), Transport::Loopback, gpu, 50.0});
    }
    return topology;
}

std::string Topology::to_json_text() const {
    ordered_json nic_list = ordered_json::array();
    for (const NicInfo& nic : nics) {
        const char* transport = "none";
        for (const TransportWord& entry : kTransportWords)
            if (entry.transport == nic.transport) transport = entry.word;
        nic_list.push_back(ordered_json{
            {"name", nic.name}, {"transport", transport}, {"gpu", nic.gpu}, {"bandwidth_gbs", nic.bandwidth_gbs}});
    }
    const ordered_json json = {{"name", name},
                               {"nodes", nodes},
                               {"gpus_per_node", gpus_per_node},
                               {"gpu_name", gpu_name},
                               {"arch", arch},
                               {"sms", sms},
                               {"shared_memory_bytes", shared_memory_bytes},
                               {"registers_per_sm", registers_per_sm},
                               {"nvlink_gbs", nvlink_gbs},
                               {"nics", nic_list}};
    return json.dump(2) + "\n";
}

}  // namespace plait
