#include "compiler/passes/copy_pieces.h"

#include <fmt/format.h>

namespace plait {

void declare_piece_pipes(Block& block) {
    block.add(Op::Pipe, {"fill", "pieces"});
    block.add(Op::Pipe, {"drain", "pieces"});
}

void declare_workers(Block& block, const ProgramDef& program) {
    const bool from_zero = program.first_cta == Expr(0);
    block.let("worker", from_zero ? "cta" : (Expr("cta") - program.first_cta).print());
    block.let("workers", from_zero ? program.last_cta.print() : (program.last_cta - program.first_cta).print());
}

namespace {

// `bytes` bytes that are contiguous on both sides.
void copy_span(Block& block, const Choices& c, const PieceCopy& copy) {
    block.let("count", fmt::format("ceil_div({}, piece_bytes)", copy.bytes));
    block.for_each("i", "0", "count + lag", "1", [&](Block& step) {
        step.when("i < count", [&](Block& load) {
            const std::string bar = copy.barrier + "[fill.slot]", slot = copy.slots + "[fill.slot]";
            load.let("at", "i * piece_bytes");
            load.let("size", fmt::format("min(piece_bytes, {} - at)", copy.bytes));
            // The put that last read this slot is older than pieces - lag - 1 groups.
            load.add(Op::BulkWaitRead, {std::to_string(c.pieces - c.lag - 1)});
            load.add(Op::BarrierExpect, {bar, "size"});
            load.signal(Op::LoadBytes, {slot, copy.source, copy.source_offset + " + at", "size", bar}, copy.edge);
            load.add(Op::Advance, {"fill"});
        });
        step.when("i >= lag", [&](Block& put) {
            const std::string slot = copy.slots + "[drain.slot]";
            put.let("at", "(i - lag) * piece_bytes");
            put.let("size", fmt::format("min(piece_bytes, {} - at)", copy.bytes));
            put.wait(Op::BarrierWait, {copy.barrier + "[drain.slot]", "drain.phase"}, copy.edge);
            const std::string data_edge = copy.to_peers ? "a_ready" : "a_staged", offset = copy.target_offset + " + at";
            if (copy.to_peers) {
                put.for_each("p", "1", "locals", "1", [&](Block& peers) {
                    peers.add(Op::PutBytes, {"a_full", "(local + p) % locals", offset, slot, "size", data_edge});
                });
            } else {
                put.add(Op::PutBytes, {"a_full", "local", offset, slot, "size", data_edge});
            }
            put.add(Op::BulkCommit);
            put.add(Op::Advance, {"drain"});
        });
    });
}

}  // namespace

void copy_pieces(Block& block, const Choices& c, const PieceCopy& copy) {
    block.let("bytes", copy.bytes);
    PieceCopy span = copy;
    span.bytes = "bytes";
    if (copy.source_pitch.empty()) return copy_span(block, c, span);
    block.let("span", copy.source_pitch + " == K * 2 ? bytes : row_bytes");
    block.for_each("from", "0", "bytes", "span", [&](Block& rows) {
        span.bytes = "span";
        span.source_offset = fmt::format("{} + from / row_bytes * {}", copy.source_offset, copy.source_pitch);
        span.target_offset = copy.target_offset + " + from";
        copy_span(rows, c, span);
    });
}

}  // namespace plait
