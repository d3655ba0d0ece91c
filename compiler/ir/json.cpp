// Schedule files as JSON. Reading is strict: unknown keys and knobs are findings, and all findings are told at once.
#include <fmt/format.h>

#include <algorithm>

#include "compiler/ir/schedule.h"
#include "runtime/base/error.h"
#include "runtime/base/expr_parser.h"
#include "runtime/base/files.h"
#include "runtime/base/json_reader.h"
#include "runtime/base/nearest.h"

namespace plait {
namespace {

using nlohmann::ordered_json;

GraphTensor read_tensor(JsonObject& object) {
    GraphTensor tensor;
    object.read("name", tensor.name);
    object.read("dtype", tensor.dtype);
    object.read("shape", tensor.shape);
    object.read_optional("shard", tensor.shard);
    return tensor;
}

void check_op_name(JsonObject& object, const GraphOp& op) {
    if (op.op.empty() || find_graph_op(op.op) != nullptr) return;
    std::vector<std::string> names;
    for (const GraphOpSpec& spec : graph_ops()) names.push_back(spec.name);
    object.reject("op", fmt::format("no op `{}`", op.op), fmt::format("the nearest is `{}`", nearest(op.op, names)));
}

AttentionAttributes read_attention(JsonObject& object) {
    AttentionAttributes a;
    object.read_optional("causal", a.causal);
    object.read_optional("causal_offset", a.causal_offset);
    object.read_optional("scale", a.scale);
    object.read_optional("layout", a.layout);
    object.read_optional("key_block", a.key_block);
    object.read_optional("rescale_threshold", a.rescale_threshold);
    object.read_optional("lse", a.lse);
    return a;
}

GraphOp read_op(JsonObject& object) {
    GraphOp op;
    object.read("op", op.op);
    object.read("result", op.result);
    object.read("inputs", op.inputs);
    object.read_optional("source", op.source);
    check_op_name(object, op);
    const GraphOpSpec* spec = find_graph_op(op.op);
    const std::string attribute = spec == nullptr ? "none" : spec->attribute;
    if (attribute == "dim") {
        std::int64_t dim = 0;
        object.read("dim", dim);
        op.dim = dim;
    }
    if (attribute == "transpose") {
        object.read_optional("transpose_a", op.transpose_a);
        object.read_optional("transpose_b", op.transpose_b);
    }
    if (attribute == "value") object.read("value", op.value);
    if (attribute == "dtype") object.read("dtype", op.dtype);
    if (attribute == "attention") op.attention = read_attention(object);
    const int inputs = static_cast<int>(op.inputs.size());
    if (spec != nullptr && (inputs < spec->inputs.least || inputs > spec->inputs.most)) {
        object.reject("inputs", fmt::format("{} takes {} inputs, {} given", op.op, spec->inputs.print(), inputs));
    }
    return op;
}

template <class Read>
void read_object(JsonObject& parent, const char* key, bool required, Read read) {
    const auto value = required ? parent.require(key) : parent.find(key);
    if (!value) return;
    JsonObject object(*value);
    read(object);
    object.finish();
}

Graph read_graph(JsonObject& object) {
    Graph graph;
    object.read("name", graph.name);
    object.each("inputs", [&](JsonObject& tensor) { graph.inputs.push_back(read_tensor(tensor)); });
    object.each("ops", [&](JsonObject& op) { graph.ops.push_back(read_op(op)); });
    object.read("output", graph.output);
    object.read_optional("output_dtype", graph.output_dtype);
    object.each("more_outputs", [&](JsonObject& output) {
        graph.more_outputs.emplace_back();
        output.read("name", graph.more_outputs.back().name);
        output.read("dtype", graph.more_outputs.back().dtype);
    });
    read_object(object, "numerics", false, [&](JsonObject& numerics) {
        numerics.read_optional("accumulate", graph.numerics.accumulate);
        numerics.read_optional("k_order", graph.numerics.k_order);
    });
    return graph;
}

// Knobs are not read by JsonObject: their unknown names have their own nearest.
Schedule read_knobs(const JsonValue& value) {
    Schedule schedule;
    if (!value.json().is_object()) {
        value.reject("expected an object of knobs");
        return schedule;
    }
    for (const auto& [knob, setting] : value.json().items()) {
        const JsonValue entry(setting, value.pointer() + "/" + escape_pointer(knob), value.findings());
        if (!setting.is_string() && !setting.is_number_integer()) {
            entry.reject(fmt::format("knob {}: expected an integer or a word", knob));
            continue;
        }
        try {
            schedule.set(knob, setting.is_string() ? setting.get<std::string>() : setting.dump());
        } catch (const ScheduleError& error) {
            entry.reject(error.message(), error.hint());
        }
    }
    return schedule;
}

Problem read_problem(JsonObject& object) {
    Problem problem;
    object.read("m_max", problem.m_max);
    object.read_optional("n", problem.n);  // a graph without columns has neither
    object.read_optional("k", problem.k);
    read_object(object, "limits", false, [&](JsonObject& limits) {
        for (const std::string& name : limits.keys()) {
            limits.read(name, problem.limits[name]);
            if (!is_identifier(name)) limits.reject(name, fmt::format("limit `{}` is not an identifier", name));
            if (problem.limits[name] < 1) limits.reject(name, fmt::format("{} is {}, at least 1 is needed", name, problem.limits[name]));
        }
    });
    for (const auto& [key, size] : {std::pair{"m_max", problem.m_max}, {"n", problem.n}, {"k", problem.k}}) {
        if (size < 0) object.reject(key, fmt::format("{} is {}, sizes are not negative", key, size));
    }
    return problem;
}

// What is at its default is left out.
void attention_json(const AttentionAttributes& a, ordered_json& json) {
    const AttentionAttributes other;
    if (a.causal) json["causal"] = true;
    if (a.causal_offset != other.causal_offset) json["causal_offset"] = a.causal_offset;
    if (a.scale != other.scale) json["scale"] = a.scale;
    json["layout"] = a.layout;
    if (a.key_block != other.key_block) json["key_block"] = a.key_block;
    if (a.rescale_threshold != other.rescale_threshold) json["rescale_threshold"] = a.rescale_threshold;
    if (!a.lse.empty()) json["lse"] = a.lse;
}

ordered_json op_json(const GraphOp& op) {
    ordered_json json = {{"op", op.op}, {"result", op.result}, {"inputs", op.inputs}};
    const GraphOpSpec* spec = find_graph_op(op.op);
    const std::string attribute = spec == nullptr ? "none" : spec->attribute;
    if (attribute == "dim") json["dim"] = op.dim;
    if (attribute == "transpose" && op.transpose_a) json["transpose_a"] = true;
    if (attribute == "transpose" && op.transpose_b) json["transpose_b"] = true;
    if (attribute == "value") json["value"] = op.value;
    if (attribute == "dtype") json["dtype"] = op.dtype;
    if (attribute == "attention") attention_json(op.attention, json);
    if (!op.source.empty()) json["source"] = op.source;
    return json;
}

ordered_json tensor_json(const GraphTensor& tensor) {
    ordered_json shape = ordered_json::array();
    for (const Expr& extent : tensor.shape) {
        if (extent.kind() == ExprKind::Integer) {
            shape.push_back(extent.integer());
        } else {
            shape.push_back(extent.print());
        }
    }
    ordered_json json = {{"name", tensor.name}, {"dtype", tensor.dtype}, {"shape", shape}};
    if (tensor.shard != -1) json["shard"] = tensor.shard;
    return json;
}

ordered_json graph_json(const Graph& graph) {
    ordered_json inputs = ordered_json::array(), ops = ordered_json::array();
    for (const GraphTensor& tensor : graph.inputs) inputs.push_back(tensor_json(tensor));
    for (const GraphOp& op : graph.ops) ops.push_back(op_json(op));
    ordered_json json = {{"name", graph.name},
                         {"inputs", inputs},
                         {"ops", ops},
                         {"output", graph.output},
                         {"output_dtype", graph.output_dtype}};
    for (const GraphOutput& more : graph.more_outputs)
        json["more_outputs"].push_back({{"name", more.name}, {"dtype", more.dtype}});
    json["numerics"] = {{"accumulate", graph.numerics.accumulate}, {"k_order", graph.numerics.k_order}};
    return json;
}

}  // namespace

ScheduleFile read_schedule_json(const std::string& text, const std::string& origin) {
    JsonFindings findings;
    const auto json = parse_json(text, findings);
    findings.throw_if_any<ScheduleError>(origin);
    ScheduleFile file;
    file.origin = origin;
    JsonObject object(JsonValue(*json, "", findings));
    read_object(object, "graph", true, [&](JsonObject& graph) { file.graph = read_graph(graph); });
    if (const auto knobs = object.find("schedule")) file.schedule = read_knobs(*knobs);
    read_object(object, "problem", false, [&](JsonObject& problem) { file.problem = read_problem(problem); });
    object.read_optional("topology", file.topology);
    object.finish();
    findings.throw_if_any<ScheduleError>(origin);
    return file;
}

std::string write_schedule_json(const ScheduleFile& file) {
    ordered_json knobs = ordered_json::object();
    for (const KnobSpec& spec : knob_specs()) {
        if (!file.schedule.is_set(spec.name)) continue;
        if (spec.is_word) {
            knobs[spec.name] = file.schedule.word(spec.name);
        } else {
            knobs[spec.name] = file.schedule.integer(spec.name);
        }
    }
    ordered_json json = {{"graph", graph_json(file.graph)},
                         {"schedule", knobs},
                         {"problem", {{"m_max", file.problem.m_max}, {"n", file.problem.n}, {"k", file.problem.k}}}};
    if (!file.problem.limits.empty()) json["problem"]["limits"] = file.problem.limits;
    if (!file.topology.empty()) json["topology"] = file.topology;
    return json.dump(2) + "\n";
}

ScheduleFile load_schedule_file(const std::string& path) { return read_schedule_json(read_file(path), path); }

Topology topology_of(const ScheduleFile& file) {
    if (file.topology.empty()) {
        throw ScheduleError(fmt::format("{} names no topology", file.origin.empty() ? "the schedule" : file.origin),
                            "add `topology`: a label such as 2x2, or the path of a topology file");
    }
    if (!file.topology.ends_with(".json")) return Topology::simulated(file.topology);
    const std::size_t slash = file.origin.rfind('/');
    const bool relative = file.topology[0] != '/' && slash != std::string::npos;
    return Topology::from_file(relative ? file.origin.substr(0, slash + 1) + file.topology : file.topology);
}

}  // namespace plait
