#include "compiler/passes/declare_edges.h"

namespace plait {

void declare_edges(const Choices& c, Plan* plan) {
    using P = ProducerKind;
    using S = SignalKind;
    using E = EdgeScope;
    using C = ConsumerKind;
    auto edge = [&](const char* name, P producer, S signal, E scope, C consumer, const char* memory) {
        plan->edges.push_back({name, producer, signal, scope, consumer, memory});
    };
    const E scope = c.clustered() ? E::Cluster : E::Cta;
    edge("ab", P::Bulk, S::Barrier, scope, C::Mma, "a_stage");  // operands of one k block, b_stage with them
    edge("ab_free", P::Mma, S::Barrier, scope, C::Overwrite, "a_stage");
    if (!c.communicates) return;

    edge("tile", P::Store, S::Barrier, E::Cta, C::Load, "tile_slot");
    edge("tile_free", P::Store, S::Barrier, E::Cta, C::Overwrite, "tile_slot");
    if (c.intra_comm.active()) {
        edge("a_ready", P::Bulk, S::Flag, E::System, C::Tma, "a_full");  // a peer of this node pushed a chunk
        edge("entered", P::Arrive, S::Flag, E::System, C::Overwrite, "a_full");
        edge("pushed", P::Bulk, S::Barrier, E::Cta, C::Tma, c.intra_comm.placement == "warp" ? "piece" : "a_stage");
    }
    if (c.inter_send.active()) {
        edge("a_arrived", P::Nic, S::Fifo, E::Network, C::Tma, "a_full");  // the rail peer of another node sent a chunk
        edge("a_staged", P::Bulk, S::Fifo, E::System, C::Nic, "a_full");   // own chunk, where the NIC reads it
        edge("entered_remote", P::Arrive, S::Fifo, E::Network, C::Overwrite, "a_full");
        edge("staged", P::Bulk, S::Barrier, E::Cta, C::Tma, c.inter_send.placement == "warp" ? "piece" : "a_stage");
    }
    edge("sent", P::Nic, S::Counter, E::System, C::Overwrite, "a_full");  // local completion, passed on by the relay
    edge("host_lines", P::Host, S::Counter, E::System, C::Load, "host");
    edge("finished", P::Arrive, S::Counter, E::Gpu, C::Overwrite, "state");
}

}  // namespace plait
