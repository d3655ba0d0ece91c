#include "compiler/ir/attention_pattern.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cmath>

#include "compiler/ir/graph_matcher.h"

namespace plait {
namespace {

constexpr std::int64_t kMaxOffset = 1 << 30;  // of the diagonal: sums with rows and keys stay inside 32 bits
constexpr double kMaxThreshold = 15;          // weights reach 2^threshold: f16 ends at 65504

class AttentionMatcher : GraphMatcher {
public:
    AttentionMatcher(const Graph& graph, Diagnostics* findings) : GraphMatcher(graph, findings, "", "") {}

    std::optional<AttentionPattern> run() {
        for (std::size_t i = 0; i < graph_.ops.size(); ++i) {
            if (graph_.ops[i].op == "attention" && op_ == nullptr)
                op_ = &graph_.ops[i], at_ = i;
            else
                report(fmt::format("op {} {} `{}` cannot be fused with attention", i, graph_.ops[i].op,
                                   graph_.ops[i].result),
                       where(i), "one kernel computes one attention today; compute the rest in another graph");
        }
        check_inputs({op_->inputs.begin(), op_->inputs.end()});
        if (op_->inputs.size() == 3) {
            tensors();
        } else {
            report(fmt::format("attention takes 3 inputs (q, k, v), got {}", op_->inputs.size()), place(),
                   "attention(q, k, v)");
        }
        attributes();
        outputs();
        if (reported()) return std::nullopt;
        return pattern_;
    }

private:
    // Of the op, or of one of its attributes: the line of a traced program, else a JSON pointer.
    std::string place(const char* attribute = nullptr) const {
        if (attribute == nullptr || !op_->source.empty()) return where(at_);
        return fmt::format("/graph/ops/{}/{}", at_, attribute);
    }

    void tensors() {
        const char* as[] = {"query", "key", "value"};
        const GraphTensor* t[3];
        for (int i = 0; i < 3; ++i) {
            t[i] = graph_.find_input(op_->inputs[i]);
            if (t[i] == nullptr)
                report(fmt::format("{} of attention is `{}`, which is not an input of the graph", as[i], op_->inputs[i]),
                       place(), "attention reads the caller's tensors");
            else if (t[i]->shard >= 0)
                report(fmt::format("{} `{}` is sharded along dim {}", as[i], t[i]->name, t[i]->shard), place(),
                       "each rank attends to its own tensors; declare it without shard");
        }
        if (t[0] == nullptr || t[1] == nullptr || t[2] == nullptr) return;
        pattern_.q = t[0]->name, pattern_.k = t[1]->name, pattern_.v = t[2]->name;
        pattern_.dtype = t[0]->dtype;
        if (t[1]->dtype != t[0]->dtype || t[2]->dtype != t[0]->dtype)
            report(fmt::format("attention of {} `{}`, {} `{}` and {} `{}`", t[0]->dtype, t[0]->name, t[1]->dtype,
                               t[1]->name, t[2]->dtype, t[2]->name),
                   place(), "q, k and v need one dtype");
        else if (t[0]->dtype != "bf16" && t[0]->dtype != "f16")
            report(fmt::format("attention of {} tensors", t[0]->dtype), place(), "use bf16 or f16");
        bool fit = layout(op_->attention.layout);
        for (int i = 0; i < 3 && fit; ++i) fit = dims(*t[i], as[i], i == 0 ? "M" : "keys");
        if (!fit) return;
        pattern_.heads = extent(*t[0], head_at_), pattern_.head_dim = extent(*t[0], 3);
        pattern_.kv_heads = extent(*t[1], head_at_);
        agree(*t[0], *t[1], *t[2]);
    }

    bool layout(const std::string& word) {
        pattern_.heads_first = word == "bhsd";
        head_at_ = pattern_.heads_first ? 1 : 2;
        if (word == "bshd" || word == "bhsd") return true;
        report(fmt::format("layout `{}` is not offered", word), place("layout"),
               "use bshd ([batch, sequence, heads, head dim]) or bhsd");
        return false;
    }

    static std::int64_t extent(const GraphTensor& tensor, std::size_t dim) { return tensor.shape[dim].integer(); }

    // [batch, rows, heads, head dim] or [batch, heads, rows, head dim], heads and head dim as integers.
    bool dims(const GraphTensor& tensor, const char* as, const char* rows) {
        std::vector<std::string> got;
        for (const Expr& e : tensor.shape) got.push_back(e.print());
        const bool named = got.size() == 4 && got[0] == "batch" && got[3 - head_at_] == rows;
        const auto counts = [&](std::size_t d) {
            return tensor.shape[d].kind() == ExprKind::Integer && tensor.shape[d].integer() > 0;
        };
        if (named && counts(head_at_) && counts(3)) return true;
        report(fmt::format("{} `{}` has shape [{}], attention in {} takes [{}] with heads and head_dim as numbers", as,
                           tensor.name, fmt::join(got, ", "), op_->attention.layout,
                           pattern_.heads_first ? fmt::format("batch, heads, {}, head_dim", rows)
                                                : fmt::format("batch, {}, heads, head_dim", rows)),
               place(), "batch, M and keys are launch arguments, heads and head_dim are not");
        return false;
    }

    void agree(const GraphTensor& q, const GraphTensor& k, const GraphTensor& v) {
        if (extent(k, 3) != pattern_.head_dim || extent(v, 3) != pattern_.head_dim) {
            report(fmt::format("head dims {} of `{}`, {} of `{}` and {} of `{}` differ", pattern_.head_dim, q.name,
                               extent(k, 3), k.name, extent(v, 3), v.name),
                   place(), "q, k and v need one head dim");
        } else if (pattern_.head_dim != 64 && pattern_.head_dim != 128 && pattern_.head_dim != 256) {
            report(fmt::format("head dim {} is not offered", pattern_.head_dim), place(),
                   "use 64, 128 or 256; pad smaller heads with zeros and give `scale`");
        }
        if (extent(v, head_at_) != pattern_.kv_heads) {
            report(fmt::format("`{}` has {} heads, `{}` has {}", k.name, pattern_.kv_heads, v.name, extent(v, head_at_)),
                   place(), "k and v have the same heads");
        } else if (pattern_.heads % pattern_.kv_heads != 0) {
            report(fmt::format("{} query heads cannot share {} key heads: {} is left over", pattern_.heads,
                               pattern_.kv_heads, pattern_.heads % pattern_.kv_heads),
                   place(), "the number of query heads is a multiple of that of key heads");
        }
    }

    void attributes() {
        const AttentionAttributes& a = op_->attention;
        pattern_.causal = a.causal, pattern_.causal_offset = a.causal_offset;
        if (!a.causal && a.causal_offset != 0)
            report(fmt::format("causal_offset = {} without causal", a.causal_offset), place("causal_offset"),
                   "the offset moves the diagonal: set causal");
        if (a.causal_offset > kMaxOffset || a.causal_offset < -kMaxOffset)
            report(fmt::format("causal_offset = {} is outside of +-2^30", a.causal_offset), place("causal_offset"),
                   "no sequence is longer");
        if (!(a.scale >= 0) || !std::isfinite(a.scale))
            report(fmt::format("scale = {}", a.scale), place("scale"), "a positive number; 0 is 1 / sqrt(head dim)");
        pattern_.scale = a.scale;
        if (a.scale == 0 && pattern_.head_dim > 0) pattern_.scale = 1 / std::sqrt(double(pattern_.head_dim));
        pattern_.key_block = a.key_block == 0 ? default_key_block(pattern_.head_dim) : a.key_block;
        if (pattern_.key_block != 64 && pattern_.key_block != 128)
            report(fmt::format("key_block = {} is not offered", a.key_block), place("key_block"), "use 64 or 128");
        else if (pattern_.key_block == 128 && pattern_.head_dim == 256)
            report("key_block = 128 with head dim 256: scores and result do not fit into registers", place("key_block"),
                   "use 64");
        pattern_.rescale_threshold = a.rescale_threshold;
        if (!(a.rescale_threshold >= 0) || a.rescale_threshold > kMaxThreshold)
            report(fmt::format("rescale_threshold = {} is outside of 0..{}", a.rescale_threshold, kMaxThreshold),
                   place("rescale_threshold"), "8 loses nothing in bf16 and f16");
        pattern_.source = op_->source;
    }

    void outputs() {
        pattern_.output = graph_.output, pattern_.output_dtype = graph_.output_dtype;
        pattern_.lse = op_->attention.lse;
        if (graph_.output != op_->result)
            report(fmt::format("output `{}` is not the result of attention, `{}`", graph_.output, op_->result),
                   "/graph/output", "the result of attention is the graph's output");
        bool kept = false;
        for (std::size_t i = 0; i < graph_.more_outputs.size(); ++i) {
            const GraphOutput& more = graph_.more_outputs[i];
            const std::string at = fmt::format("/graph/more_outputs/{}", i);
            if (pattern_.lse.empty() || more.name != pattern_.lse || kept)
                report(fmt::format("output `{}` is no side result of attention", more.name), at,
                       "name the log-sum-exp with the op's `lse`");
            else if (more.dtype != "f32")
                report(fmt::format("log-sum-exp `{}` in {}", more.name, more.dtype), at + "/dtype", "use f32");
            kept = kept || more.name == pattern_.lse;
        }
        if (!pattern_.lse.empty() && !kept)
            report(fmt::format("log-sum-exp `{}` is computed and not kept", pattern_.lse), place("lse"),
                   "list it in more_outputs");
    }

    const GraphOp* op_ = nullptr;
    std::size_t at_ = 0, head_at_ = 2;
    AttentionPattern pattern_;
};

}  // namespace

std::int64_t default_key_block(std::int64_t head_dim) { return head_dim == 256 ? 64 : 128; }

std::optional<AttentionPattern> match_attention_pattern(const Graph& graph, Diagnostics* findings) {
    return AttentionMatcher(graph, findings).run();
}

}  // namespace plait
