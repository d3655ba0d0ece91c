// Small attention requests for tests of the lowering, the verifier and the backends.
#pragma once
#include <string>
#include <utility>
#include <vector>

#include "compiler/passes/lower.h"
#include "compiler/verify/verify.h"

namespace plait::testing {

struct AttentionRequest {
    std::int64_t head_dim = 128, heads = 2, kv_heads = 1;
    AttentionAttributes attributes;
    bool lse = true;
    std::vector<std::pair<std::string, std::string>> knobs;
    std::int64_t m_max = 300, keys_max = 400, batch_max = 3;
    std::string dtype = "bf16", arch = "host";
    int sms = 6;

    std::vector<Expr> shape(std::int64_t head_count, const char* rows) const {
        if (attributes.layout == "bhsd") return {Expr("batch"), Expr(head_count), Expr(rows), Expr(head_dim)};
        return {Expr("batch"), Expr(rows), Expr(head_count), Expr(head_dim)};
    }
    Graph graph() const {
        Graph g;
        g.name = "attention";
        g.inputs = {{"q", dtype, shape(heads, "M"), -1},
                    {"k", dtype, shape(kv_heads, "keys"), -1},
                    {"v", dtype, shape(kv_heads, "keys"), -1}};
        GraphOp op;
        op.op = "attention", op.result = "o", op.inputs = {"q", "k", "v"}, op.attention = attributes;
        if (lse) op.attention.lse = "lse", g.more_outputs = {{"lse", "f32"}};
        g.ops = {op};
        g.output = "o", g.output_dtype = dtype;
        return g;
    }
    Schedule schedule() const {
        Schedule s;
        for (const auto& [name, word] : knobs) s.set(name, word);
        return s;
    }
    Topology cluster() const {
        Topology t = Topology::simulated("1x1");
        t.sms = sms;
        return t;
    }
    Problem problem() const {
        Problem p;
        p.m_max = m_max;
        p.limits = {{"keys", keys_max}, {"batch", batch_max}};
        return p;
    }
    Target target() const { return Target::make(arch, cluster()); }
    Diagnostics verify(const Graph& g) const { return verify_request(g, schedule(), problem(), cluster(), target()); }
    Diagnostics verify() const { return verify(graph()); }
    Plan plan() const { return lower(graph(), schedule(), problem(), cluster(), target()); }
};

inline AttentionAttributes causal(std::int64_t offset = 0) {
    AttentionAttributes a;
    a.causal = true, a.causal_offset = offset;
    return a;
}

}  // namespace plait::testing
