#include "compiler/passes/lower_inter_send.h"

#include "compiler/passes/block.h"
#include "compiler/passes/copy_pieces.h"
#include "compiler/passes/place_roles.h"

namespace plait {
namespace {

const char* const kRailPeer = "(node + d) % nodes * locals + local";

void announce_entry(Block& b) {
    b.note("rail peers learn that this rank has entered");
    b.when("worker == 0", [&](Block& first) {
        first.for_each("d", "1", "nodes", "1", [&](Block& peer) {
            peer.wait(Op::FifoReserve, {"position"}, "sent");
            peer.signal(Op::FifoWrite, {"position", kRailPeer, "a_full", "0", "0", "entered", "rank", "epoch"},
                        "entered_remote");
            peer.signal(Op::FifoPublish, {"position"}, "entered_remote");
            peer.add(Op::Assign, {"last", "position + 1"});
        });
    });
}

void send_chunk(Block& b, const Choices& c) {
    b.add(Op::Trace, {"send", "rank * chunks_max + chunk"});
    b.let("row", "chunk * chunk_rows");
    b.let("target", "((bank * world + rank) * shard_max + row) * row_bytes");
    PieceCopy copy;
    copy.slots = c.inter_send.placement == "warp" ? "piece" : "a_stage";
    copy.barrier = "inter_send_full";
    copy.edge = "staged";
    copy.source = c.pattern.a;
    copy.source_pitch = c.pattern.a + "_pitch";
    copy.source_offset = "row * " + copy.source_pitch;
    copy.target_offset = "target";
    copy.bytes = "min(chunk_rows, a_rows - row) * row_bytes";
    copy_pieces(b, c, copy);
    b.before_signals("a_staged");
    b.for_each("d", "1", "nodes", "1", [&](Block& peer) {
        peer.wait(Op::FifoReserve, {"position"}, "sent");
        peer.signal(
            Op::FifoWrite,
            {"position", kRailPeer, "a_full", "target", "bytes", "a_ready", "rank * chunks_max + chunk", "epoch"},
            "a_arrived");
        peer.signal(Op::FifoPublish, {"position"}, "a_staged");
        peer.add(Op::Assign, {"last", "position + 1"});
    });
}

}  // namespace

void lower_inter_send(const Choices& c, Plan* plan) {
    if (!c.inter_send.active()) return;
    ProgramDef* program = find_program(plan, "inter_send_sender");
    Block b(*plan);
    b.add(Op::Enter, {"epoch"});
    b.let("bank", "epoch % 2");
    declare_workers(b, *program);
    declare_piece_pipes(b);
    b.add(Op::Var, {"last", "0"});
    announce_entry(b);
    b.note("a bank is free once its readers, two launches ago, are done: rail peers have entered the launch after");
    b.for_each("d", "1", "nodes", "1", [&](Block& peer) {
        peer.wait(Op::WaitFlag, {"entered", kRailPeer, "epoch - 1"}, "entered_remote");
    });
    b.note("own shard, staged for the NIC, then over the network once per node");
    b.for_each("chunk", "worker", "chunks", "workers", [&](Block& own) { send_chunk(own, c); });
    b.note("the kernel ends only after every put of this worker is locally complete");
    b.wait(Op::FifoWait, {"last"}, "sent");
    b.add(Op::Trace, {"idle", "0"});
    if (ends_its_agent(*plan, c, program->name)) b.signal(Op::AgentFinished, {}, "finished");
    program->body = b.take();
}

}  // namespace plait
