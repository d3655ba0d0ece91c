#include "compiler/passes/lower_intra_comm.h"

#include "compiler/passes/block.h"
#include "compiler/passes/copy_pieces.h"
#include "compiler/passes/place_roles.h"

namespace plait {
namespace {

// Copies chunk `chunk` of shard `q` (an expression) to the other local ranks and announces it.
void push_chunk(Block& b, const Choices& c, const std::string& q, const std::string& shard_rows, bool own) {
    b.let("row", "chunk * chunk_rows");
    b.let("target", "((bank * world + " + q + ") * shard_max + row) * row_bytes");
    PieceCopy copy;
    copy.slots = c.intra_comm.placement == "warp" ? "piece" : "a_stage";
    copy.barrier = "intra_comm_full";
    copy.edge = "pushed";
    copy.source = own ? c.pattern.a : "a_full";
    if (own) copy.source_pitch = c.pattern.a + "_pitch";
    copy.source_offset = own ? "row * " + copy.source_pitch : "target";
    copy.target_offset = "target";
    copy.bytes = "min(chunk_rows, " + shard_rows + " - row) * row_bytes";
    copy.to_peers = true;
    b.add(Op::Trace, {"push", q + " * chunks_max + chunk"});
    copy_pieces(b, c, copy);
    b.before_signals("a_ready");
    b.for_each("p", "1", "locals", "1", [&](Block& peers) {
        peers.signal(Op::SignalSet, {"a_ready", "(local + p) % locals", q + " * chunks_max + chunk", "epoch"},
                     "a_ready");
    });
}

}  // namespace

void lower_intra_comm(const Choices& c, Plan* plan) {
    if (!c.intra_comm.active()) return;
    ProgramDef* program = find_program(plan, "intra_comm_pusher");
    Block b(*plan);
    b.add(Op::Enter, {"epoch"});
    b.let("bank", "epoch % 2");
    declare_workers(b, *program);
    declare_piece_pipes(b);

    b.note("a bank is free once its readers, two launches ago, are done: peers have entered the launch after");
    b.for_each("p", "1", "locals", "1", [&](Block& peers) {
        peers.wait(Op::WaitFlag, {"entered", "node * locals + (local + p) % locals", "epoch - 1"}, "entered");
    });
    b.note("own shard to the other ranks of this node");
    b.for_each("chunk", "worker", "chunks", "workers", [&](Block& own) { push_chunk(own, c, "rank", "a_rows", true); });
    if (c.nodes > 1) {
        b.note("shards that arrive over this rank's rail, onwards to the other ranks of this node");
        b.for_each("d", "1", "nodes", "1", [&](Block& remote) {
            remote.let("q", "(node + d) % nodes * locals + local");
            remote.let("q_rows", "max(0, min(shard, M - q * shard))");
            remote.for_each("chunk", "worker", "ceil_div(q_rows, chunk_rows)", "workers", [&](Block& arrived) {
                arrived.add(Op::Trace, {"wait", "q * chunks_max + chunk"});
                arrived.wait(Op::WaitFlag, {"a_ready", "q * chunks_max + chunk", "epoch"}, "a_arrived");
                arrived.add(Op::Trace, {"arrived", "q * chunks_max + chunk"});
                push_chunk(arrived, c, "q", "q_rows", false);
            });
        });
    }
    b.add(Op::Trace, {"idle", "0"});
    if (ends_its_agent(*plan, c, program->name)) b.signal(Op::AgentFinished, {}, "finished");
    program->body = b.take();
}

}  // namespace plait
