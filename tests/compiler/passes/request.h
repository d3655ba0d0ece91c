// Small requests for tests of the lowering and the verifier.
#pragma once
#include <string>
#include <utility>
#include <vector>

#include "compiler/passes/lower.h"
#include "compiler/verify/verify.h"

namespace plait::testing {

struct TestRequest {
    std::string topology = "2x2";
    std::vector<std::pair<std::string, std::string>> knobs;
    std::vector<std::string> pointwise;  // op names; bias and residual bring their tensor
    Problem problem{777, 264, 200};
    bool gather = true, transpose_b = false, row_shard = false;
    std::string dtype = "bf16", arch = "host";
    int sms = 6;

    Graph graph() const {
        const auto dims = [](const char* rows, const char* columns) {
            return std::vector<Expr>{Expr(rows), Expr(columns)};
        };
        Graph g;
        g.name = gather ? "ag_gemm" : "matmul";
        g.output_dtype = dtype;
        g.inputs = {{"a", dtype, dims("M", "K"), gather || row_shard ? 0 : -1},
                    {"b", dtype, transpose_b ? dims("N", "K") : dims("K", "N"), -1}};
        std::string value = "a";
        if (gather) {
            GraphOp op;
            op.op = "all_gather", op.result = "a_all", op.inputs = {"a"}, value = op.result;
            g.ops.push_back(op);
        }
        GraphOp matmul;
        matmul.op = "matmul", matmul.result = "c", matmul.inputs = {value, "b"}, matmul.transpose_b = transpose_b;
        g.ops.push_back(matmul);
        value = "c";
        for (const std::string& name : pointwise) {
            GraphOp op;
            op.op = name, op.result = "c" + std::to_string(g.ops.size()), op.inputs = {value}, op.value = 0.5,
            op.dtype = "f16";
            if (name == "bias") g.inputs.push_back({"bias", "f32", {Expr("N")}, -1});
            if (name == "residual") g.inputs.push_back({"residual", dtype, dims("M", "N"), row_shard ? 0 : -1});
            if (name == "bias" || name == "residual") op.inputs.push_back(name);
            g.ops.push_back(op);
            value = op.result;
        }
        g.output = value;
        return g;
    }
    Schedule schedule() const {
        Schedule s;
        for (const auto& [name, word] : knobs) s.set(name, word);
        return s;
    }
    Topology cluster() const {
        Topology t = Topology::simulated(topology);
        t.sms = sms;
        return t;
    }
    Target target() const { return Target::make(arch, cluster()); }
    Diagnostics verify() const { return verify_request(graph(), schedule(), problem, cluster(), target()); }
    Plan plan() const { return lower(graph(), schedule(), problem, cluster(), target()); }
};

inline std::vector<std::pair<std::string, std::string>> placed(const std::string& intra_comm,
                                                               const std::string& inter_send) {
    std::vector<std::pair<std::string, std::string>> knobs = {{"intra_comm", intra_comm}, {"inter_send", inter_send}};
    if (intra_comm == "sms") knobs.push_back({"intra_comm_sms", "2"});
    if (inter_send == "sms") knobs.push_back({"inter_send_sms", "1"});
    return knobs;
}

}  // namespace plait::testing
