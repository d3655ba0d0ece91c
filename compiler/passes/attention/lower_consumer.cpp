// Consumer warpgroups: each computes 64 query rows against all keys that they see. All run one program.
#include <fmt/format.h>

#include <cmath>

#include "compiler/passes/attention/declare.h"
#include "compiler/passes/attention/lower.h"
#include "compiler/passes/block.h"
#include "compiler/passes/place_roles.h"

namespace plait::attention {
namespace {

std::string decimal(double value) {
    std::string text = fmt::format("{}", value);
    if (text.find_first_of(".e") == std::string::npos) text += ".0";
    return text;
}

class Consumer {
public:
    explicit Consumer(const Choices& c) : c_(c), scale_(decimal(c.pattern.scale * M_LOG2E)) {}

    void program(Block& b) {
        b.let("consumer", "warpgroup - 1");
        b.let("offset", "consumer * 64");
        b.add(Op::Pipe, {"query", "1"});
        b.add(Op::Pipe, {"key", "stages"});
        b.add(Op::Pipe, {"value", "stages"});
        b.add(Op::Pipe, {"ring", "2"});
        if (c_.turn) {
            b.let("next", fmt::format("consumer == {} ? 0 : consumer + 1", c_.consumers - 1));
            b.note("consumer0 has the first turn");
            b.when("next == 0", [](Block& last) { last.add(Op::TurnPass, {"next"}); });
        }
        b.loop([&](Block& next) {
            next.wait(Op::BarrierWait, {"tile_full[ring.slot]", "ring.phase"}, "tile");
            next.add(Op::RingGet, {"row", tile_word(TileWord::Row)});
            next.add(Op::BreakIf, {"row < 0"});
            declare_blocks(next, c_);
            next.add(Op::Trace, {"compute", "row"});
            declare_state(next);
            next.when("blocks > 0", [&](Block& tile) { attend(tile); });
            finish(next);
        });
        if (c_.turn) {
            b.note("the last turn, which nobody else wants");
            b.when("consumer == 0", [](Block& first) { first.add(Op::TurnWait, {"consumer"}); });
        }
        b.add(Op::Trace, {"idle", "0"});
        b.note("the kernel ends only after every store is complete");
        b.add(Op::BulkWait, {"0"});
    }

private:
    // The online softmax's state: it outlives every loop over keys.
    void declare_state(Block& b) {
        b.note("unscaled result, running maximum and partial row sums");
        b.add(Op::AccDeclare, {"out", "64", "head_dim"});
        b.add(Op::AccFill, {"out", "0.0"});
        b.add(Op::RowDeclare, {"maximum", "64", "lowest"});
        b.add(Op::PartDeclare, {"total", "64"});
        b.add(Op::RowDeclare, {"factor", "64", "1"});
        b.add(Op::AccDeclare, {"score", "64", "key_block"});
        b.add(Op::OperandDeclare, {"weights0", c_.pattern.dtype, "64", "key_block"});
        if (c_.overlap == Overlap::Operands)
            b.add(Op::OperandDeclare, {"weights1", c_.pattern.dtype, "64", "key_block"});
    }

    // Blocks from the last one down. The first ones are masked: those that the diagonal crosses or that end behind the
    // last key. Masking more blocks than that changes no bit.
    void attend(Block& b) {
        const std::string clear = c_.pattern.causal
                                      ? fmt::format("min(keys, max(0, row + offset + {})) / key_block", c_.pattern.causal_offset + 1)
                                      : "keys / key_block";
        if (c_.skips) {
            b.note("blocks that one of these 64 rows sees; the others are the tile's");
            b.let("seen", "min(blocks, " + blocks_before(c_, "row + offset + 64", 1) + ")");
            b.for_each("i", "0", "blocks - seen", "1", [&](Block& body) { skip(body); });
        } else {
            b.let("seen", "blocks");
        }
        b.note("blocks that need no mask; the first one is always masked");
        const std::string plain = fmt::format("max(0, min({}, seen - 1))", clear);
        b.let("plain", c_.overlap == Overlap::Operands ? plain + " / 2 * 2" : plain);  // two a round, one operand each
        b.wait(Op::BarrierWait, {"q_full[query.slot]", "query.phase"}, "q_loaded");
        if (c_.overlap == Overlap::Serial)
            serial(b);
        else
            pipelined(b);
    }

    // A block that other consumers of the tile compute: its slots are handed back once they are filled.
    void skip(Block& b) {
        b.wait(Op::BarrierWait, {"k_full[key.slot]", "key.phase"}, "k_loaded");
        release_keys(b);
        wait_for_values(b);
        release_values(b);
        if (c_.turn) b.add(Op::TurnWait, {"consumer"}).add(Op::TurnPass, {"next"});
    }

    void serial(Block& b) {
        const auto block = [&](Block& body, bool masked) {
            issue_scores(body, true);
            body.add(Op::MmaWait, {"0", "score"});
            release_keys(body);
            if (masked) mask(body, "start", "i");
            softmax(body);
            body.add(Op::ScaleRows, {"out", "factor"});
            body.add(Op::AsOperand, {"weights0", "score"});
            wait_for_values(body);
            issue_output(body, "weights0", false);
            body.add(Op::MmaWait, {"0", "out", "weights0"});
            release_values(body);
        };
        b.for_each("i", "0", "seen - plain", "1", [&](Block& body) { block(body, true); });
        b.for_each("i", "0", "plain", "1", [&](Block& body) { block(body, false); });
        release_queries(b);
    }

    // The product of one block's weights with its values runs beside the scores and the softmax of the next block.
    void pipelined(Block& b) {
        issue_scores(b, true);
        b.add(Op::MmaWait, {"0", "score"});
        release_keys(b);
        mask(b, "last", "0");
        softmax(b);
        b.add(Op::AsOperand, {"weights0", "score"});
        if (c_.overlap == Overlap::Joint) {
            b.for_each("i", "1", "seen - plain", "1", [&](Block& body) { joint_step(body, true); });
            b.for_each("i", "0", "plain", "1", [&](Block& body) { joint_step(body, false); });
            finish_products(b);
            return;
        }
        b.for_each("i", "1", "seen - plain", "1", [&](Block& body) { step(body, "weights0", "weights0", true); });
        if (c_.overlap == Overlap::Operands) {
            b.for_each("i", "0", "plain", "2", [&](Block& body) {
                step(body, "weights0", "weights1", false);
                step(body, "weights1", "weights0", false);
            });
        } else {
            b.for_each("i", "0", "plain", "1", [&](Block& body) { step(body, "weights0", "weights0", false); });
        }
        finish_products(b);
    }

    // The last block's result.
    void finish_products(Block& b) {
        release_queries(b);
        if (c_.late_rescale()) b.add(Op::ScaleRows, {"out", "factor"});
        wait_for_values(b);
        issue_output(b, "weights0", false);
        b.add(Op::MmaWait, {"0", "out", "weights0"});
        release_values(b);
    }

    // Scores of this block and the result of the one before together; other consumers fill the tensor cores meanwhile.
    void joint_step(Block& b, bool masked) {
        wait_for_values(b);
        issue_scores(b, false);
        issue_output(b, "weights0", true);
        b.add(Op::MmaWait, {"0", "score", "out", "weights0"});
        release_keys(b);
        release_values(b);
        if (masked) mask(b, "start", "i");
        if (masked) {
            softmax(b);
            b.add(Op::AsOperand, {"weights0", "score"});
        } else {
            spend_scores(b, "weights0");
        }
        b.add(Op::ScaleRows, {"out", "factor"});
    }

    // Scores of this block, and meanwhile the result of the block before, whose weights are `before`.
    void step(Block& b, const std::string& before, const std::string& after, bool masked) {
        if (!c_.late_rescale()) wait_for_values(b);
        issue_scores(b, false);
        if (c_.late_rescale()) b.add(Op::ScaleRows, {"out", "factor"});
        if (c_.late_rescale()) wait_for_values(b);
        issue_output(b, before, true);
        b.add(Op::MmaWait, {"1", "score"});
        release_keys(b);
        if (masked) mask(b, "start", "i");
        if (after != before) {
            spend_scores(b, after);
        } else {
            softmax(b);
            b.add(Op::Settle, {"total"});
        }
        b.add(Op::MmaWait, {"0", "out", before});
        release_values(b);
        if (!c_.late_rescale()) b.add(Op::ScaleRows, {"out", "factor"});
        if (after == before) b.add(Op::AsOperand, {after, "score"});
    }

    void issue_scores(Block& b, bool alone) {
        b.wait(Op::BarrierWait, {"k_full[key.slot]", "key.phase"}, "k_loaded");
        if (c_.turn) b.add(Op::TurnWait, {"consumer"});
        b.add(Op::MmaBegin, {"score"});
        b.add(Op::MmaIssue, {"key_block", "0", c_.pattern.dtype, "score", "q_stage[0]", "offset",
                             slot("k_stage", "key", c_.boxes()), "0", std::to_string(c_.boxes())});
        b.add(Op::MmaCommit);
        if (c_.turn && alone) b.add(Op::TurnPass, {"next"});
    }

    void wait_for_values(Block& b) { b.wait(Op::BarrierWait, {"v_full[value.slot]", "value.phase"}, "v_loaded"); }
    void issue_output(Block& b, const std::string& weights, bool beside) {
        b.add(Op::MmaBegin, {"out"});
        b.add(Op::MmaIssueOperand,
              {"head_dim", "1", c_.pattern.dtype, "out", weights, slot("v_stage", "value", c_.halves()), "1"});
        b.add(Op::MmaCommit);
        if (c_.turn && beside) b.add(Op::TurnPass, {"next"});
    }

    void release_keys(Block& b) {
        b.signal(Op::BarrierArrive, {"k_empty[key.slot]"}, "k_free");
        b.add(Op::Advance, {"key"});
    }
    void release_values(Block& b) {
        b.signal(Op::BarrierArrive, {"v_empty[value.slot]"}, "v_free");
        b.add(Op::Advance, {"value"});
    }
    void release_queries(Block& b) {
        b.signal(Op::BarrierArrive, {"q_empty[query.slot]"}, "q_free");
        b.add(Op::Advance, {"query"});
    }

    // Scores of the i-th block from the end, whose first key is let as `start`.
    void mask(Block& b, const std::string& start, const std::string& i) {
        b.let(start, i == "0" ? "(seen - 1) * key_block" : fmt::format("(seen - 1 - {}) * key_block", i));
        const std::string diagonal = fmt::format("row + offset - {} + {}", start, c_.pattern.causal_offset);
        b.add(Op::MaskCols, {"score", c_.pattern.causal ? diagonal : "key_block", "keys - " + start});
    }

    // Softmax and packing in one op: scores are spent.
    void spend_scores(Block& b, const std::string& weights) {
        b.add(Op::SoftmaxOperand, {weights, "factor", "maximum", "total", "score", scale_, decimal(c_.pattern.rescale_threshold)});
    }

    void softmax(Block& b) {
        b.add(Op::RowRescale, {"factor", "maximum", "score", scale_, decimal(c_.pattern.rescale_threshold)});
        b.add(Op::Exp2Rows, {"score", scale_, "maximum"});
        b.add(Op::RowSum, {"total", "factor", "score"});
    }

    void finish(Block& b) {
        b.note("where the result goes");
        b.add(Op::RingGet, {"head", tile_word(TileWord::Head)});
        b.add(Op::RingGet, {"tile", tile_word(TileWord::Row)});
        b.let("first", "tile + offset");
        b.signal(Op::BarrierArrive, {"tile_empty[ring.slot]"}, "tile_free");
        b.add(Op::Advance, {"ring"});
        b.add(Op::Trace, {"store", "head"});
        b.add(Op::RowDeclare, {"sum", "64", "0"});
        b.add(Op::FinishRows, {"sum", "total"});
        if (!c_.pattern.lse.empty())
            b.add(Op::StoreLogSumExp, {c_.pattern.lse, "maximum", "sum", "head * M + first", "max(0, min(64, M - first))"});
        b.add(Op::DivideRows, {"out", "sum"});
        const std::int64_t slots = c_.output_slots();
        const std::string z = c_.pattern.heads_first ? "head" : "head / heads";
        for (std::int64_t n = 0; n < c_.boxes(); ++n) {
            const std::string box = slots == 1 ? "o_box[consumer]" : fmt::format("o_box[consumer * {} + {}]", slots, n % slots);
            const std::string x = c_.pattern.heads_first ? std::to_string(64 * n)
                                  : n == 0               ? "head % heads * head_dim"
                                                         : fmt::format("head % heads * head_dim + {}", 64 * n);
            b.add(Op::BulkWaitRead, {std::to_string(slots - 1)});
            b.add(Op::AgentSync);
            b.add(Op::StageBox, {c_.pattern.output_dtype, box, "out", "0", std::to_string(64 * n)});
            b.add(Op::FenceAsyncShared);
            b.add(Op::AgentSync);
            b.add(Op::StoreBox, {"64", "64", c_.pattern.output_dtype, "o_map[0]", box, x, "first", z});
            b.add(Op::BulkCommit);
        }
    }

    const Choices& c_;
    std::string scale_;  // of the scores, to powers of two
};

}  // namespace

void lower_consumers(const Choices& c, Plan* plan) {
    Block b(*plan);
    Consumer(c).program(b);
    find_program(plan, "compute_consumer")->body = b.take();
}

}  // namespace plait::attention
