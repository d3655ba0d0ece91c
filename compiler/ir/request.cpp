#include "compiler/ir/request.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "compiler/ir/text.h"
#include "runtime/base/error.h"
#include "runtime/base/files.h"
#include "runtime/base/hash.h"
#include "runtime/base/json_reader.h"

namespace plait {
namespace {

using nlohmann::ordered_json;

// Of the text that is hashed. Raised when the lowering or the verifier changes so that older artifacts must not be
// served.
constexpr int kSemanticsFormat = 2;

Graph without_provenance(Graph graph) {
    for (GraphOp& op : graph.ops) op.source.clear();
    return graph;
}

ordered_json target_json(const Target& target) {
    return {{"arch", target.arch},
            {"sms", target.sms},
            {"shared_memory_bytes", target.shared_memory_bytes},
            {"registers_per_sm", target.registers_per_sm}};
}

Target read_target(const JsonValue& value) {
    Target target;
    JsonObject object(value);
    object.read("arch", target.arch);
    object.read("sms", target.sms);
    object.read("shared_memory_bytes", target.shared_memory_bytes);
    object.read("registers_per_sm", target.registers_per_sm);
    object.finish();
    if (target.arch != "host" && target.arch != "sm_90a")
        object.reject("arch", fmt::format("target `{}` is not known", target.arch), "targets are sm_90a and host");
    return target;
}

}  // namespace

std::string semantics_of(const CompileRequest& request) {
    ordered_json nics = ordered_json::array();
    for (const NicInfo& nic : request.topology.nics) nics.push_back({nic.gpu, static_cast<int>(nic.transport)});
    const ScheduleFile file{without_provenance(request.graph), request.schedule, request.problem, "", ""};
    const ordered_json meaning = {{"format", kSemanticsFormat},
                                  {"schedule", print_schedule(file)},
                                  {"nodes", request.topology.nodes},
                                  {"gpus_per_node", request.topology.gpus_per_node},
                                  {"nics", nics},
                                  {"target", target_json(request.target)}};
    return sha256_hex(meaning.dump());
}

std::string print_request(const CompileRequest& request) {
    const ScheduleFile file{without_provenance(request.graph), request.schedule, request.problem, "", ""};
    ordered_json json = ordered_json::parse(write_schedule_json(file));
    json["topology"] = ordered_json::parse(request.topology.to_json_text());
    json["target"] = target_json(request.target);
    return json.dump();
}

CompileRequest parse_request(const std::string& line, const std::string& origin) {
    JsonFindings findings;
    auto json = parse_json(line, findings);
    if (json && !json->is_object()) findings.add("", "expected an object");
    findings.throw_if_any<ScheduleError>(origin);
    for (const char* part : {"topology", "target"}) {
        if (!json->contains(part)) findings.add("", fmt::format("`{}` is missing", part));
    }
    findings.throw_if_any<ScheduleError>(origin);
    CompileRequest request;
    request.topology = Topology::from_json_text(json->at("topology").dump(), origin + " /topology");
    request.target = read_target(JsonValue(json->at("target"), "/target", findings));
    findings.throw_if_any<ScheduleError>(origin);
    json->erase("topology");
    json->erase("target");
    const ScheduleFile file = read_schedule_json(json->dump(), origin);
    request.graph = file.graph;
    request.schedule = file.schedule;
    request.problem = file.problem;
    return request;
}

std::vector<CompileRequest> load_requests(const std::string& path) {
    const std::string text = read_file(path);
    std::vector<CompileRequest> requests;
    int number = 0;
    for (std::size_t start = 0; start < text.size();) {
        const std::size_t end = std::min(text.find('\n', start), text.size());
        const std::string line = text.substr(start, end - start);
        start = end + 1;
        ++number;
        if (line.find_first_not_of(" \r\t") == std::string::npos) continue;
        requests.push_back(parse_request(line, fmt::format("{}:{}", path, number)));
    }
    return requests;
}

}  // namespace plait
