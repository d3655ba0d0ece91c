// A hand-written ag_gemm in the form that codegen prints, compiled into the test: one template per shape and planted
// fault. What each fault breaks is marked `planted`.
#pragma once
#include "templates/host/machine.h"

namespace plait::testing {

enum class Fault {
    None,
    SignalBeforeBulkWait,  // a_ready set while the puts are in flight
    SignalAfterReadWait,   // waits for the sources only
    GpuScopeSignal,        // a_ready released at gpu scope to a peer
    GpuScopePublish,       // fifo record published at gpu scope
    NoFenceGlobal,         // TMA reads behind an acquired flag
    NoFenceShared,         // staged box stored without a proxy fence
    NoStageSync,           // elected thread stores the box before the others have met it
    NoReuseSync,           // the others restage the box before the elected thread's wait reached them
    NoReuseWait,           // no bulk_wait_read before restaging
    NoMmaWait,             // stage released while wgmma reads it
    NoMmaBegin,
    NoFullWait,         // consumer does not wait for its operands
    NoEmptyWait,        // loader does not wait for the slot
    NoEnteredWait,      // bank overwritten while a slow peer still reads it
    NoFlagWait,         // remote shard read without waiting
    NoSignal,           // a_ready never set
    NoArrive,           // a consumer never frees a stage
    NoFinalBulkWait,    // kernel ends under its own stores
    NoFinalFifoWait,    // kernel ends before its transfers are complete: the source is overwritten two launches on
    TileRingNotWaited,  // consumer reads the tile number at once
    NoInitFence,        // barriers not made known to the async proxy
};

// Ragged on purpose: N, K multiples of 8 and of nothing else.
template <i64 Nodes, i64 Locals>
struct SmallShape {
    static constexpr i64 N = 136, K = 72, world = Nodes * Locals, nodes = Nodes, locals = Locals, m_max = 256;
    static constexpr i64 tile_m = 128, tile_n = 64, stages = 2, chunk_rows = 32, piece_bytes = 1024, pieces = 2;
    using T = bf16;
};

template <class S>
struct Derived : S {
    static constexpr i64 shard_max = ceil_div(S::m_max, S::world);
    static constexpr i64 chunks_max = ceil_div(shard_max, S::chunk_rows);
    static constexpr i64 k_blocks = ceil_div(S::K, 64);
    static constexpr i64 a_slot_bytes = S::tile_m * 128;
    static constexpr i64 b_slot_bytes = 64 * S::tile_n * 2;
    static constexpr u64 a_full_offset = 0;
    static constexpr u64 a_ready_offset = (2 * S::world * shard_max * S::K * 2 + 1023) / 1024 * 1024;
    static constexpr u64 workspace_bytes = a_ready_offset + S::world * chunks_max * 8;
};

template <class S>
struct KernelArgs {
    Launch launch;
    const typename S::T* a;
    const typename S::T* b;
    typename S::T* c;
    const typename S::T* bias;
    TensorMap a_map[3];
    TensorMap b_map[1];
    TensorMap c_map[2];
};

template <class S>
struct KernelShared {
    alignas(1024) Bytes<Derived<S>::a_slot_bytes> a_stage[S::stages];
    alignas(1024) Bytes<Derived<S>::b_slot_bytes> b_stage[S::stages];
    alignas(1024) Bytes<8192> c_box[4];
    alignas(16) Bytes<S::piece_bytes> piece[S::pieces];
    alignas(16) i64 tile_slot[2];
    Barrier ab_full[S::stages], ab_empty[S::stages];
    Barrier tile_full[2], tile_empty[2];
    Barrier piece_full[S::pieces];
};

template <class S, Fault F>
struct AgGemm {
    using D = Derived<S>;
    using T = typename S::T;
    using Args = KernelArgs<S>;
    using Shared = KernelShared<S>;
    static constexpr i64 world = S::world, nodes = S::nodes, locals = S::locals, K = S::K, N = S::N;

    static i64 rows_of(i64 M, i64 shard, i64 q) { return min(shard, max(M - q * shard, 0)); }
    static i64 a_byte(i64 bank, i64 q, i64 row) { return ((bank * world + q) * D::shard_max + row) * K * 2; }

    // Rows [0, rows) of slot q: from `source` to a_full of the local ranks that `wants(peer)` names, chunk by chunk.
    template <class Wants, class Ready, class Done>
    static void copy_shard(Agent& ag, const Args& args, Shared& sh, Pipe<S::pieces>& load, Pipe<S::pieces>& put,
                           const u8* source, i64 bank, i64 q, i64 rows, i64 worker, i64 workers, Wants wants,
                           Ready ready, Done done) {
        for (i64 chunk = worker; chunk * S::chunk_rows < rows; chunk += workers) {
            const i64 first = chunk * S::chunk_rows;
            const i64 bytes = min(S::chunk_rows, rows - first) * K * 2;
            ready(chunk);
            const i64 n = ceil_div(bytes, S::piece_bytes);
            for (i64 i = 0; i < n; i += 1) {
                const i64 at = i * S::piece_bytes, size = min(S::piece_bytes, bytes - at);
                bulk_wait_read<S::pieces - 1>(ag);
                barrier_expect(ag, sh.piece_full[load.slot], size);
                load_bytes(ag, sh.piece[load.slot], source + first * K * 2 + at, size, sh.piece_full[load.slot]);
                load.advance();
                barrier_wait(ag, sh.piece_full[put.slot], put.phase);
                for (i64 peer = 0; peer < locals; peer += 1) {
                    if (wants(peer))
                        put_bytes(ag, peer_bytes(args, D::a_full_offset, peer, a_byte(bank, q, first) + at),
                                  sh.piece[put.slot], size);
                }
                bulk_commit(ag);
                put.advance();
            }
            if constexpr (F == Fault::SignalAfterReadWait)
                bulk_wait_read<0>(ag);  // planted
            else if constexpr (F != Fault::SignalBeforeBulkWait)
                bulk_wait<0>(ag);  // planted
            done(chunk);
        }
        if constexpr (F == Fault::SignalBeforeBulkWait || F == Fault::SignalAfterReadWait) bulk_wait<0>(ag);
    }

    static void inter_send(Agent& ag, const Args& args, Shared& sh, Pipe<S::pieces>& load, Pipe<S::pieces>& put) {
        const i64 M = args.launch.m, rank = args.launch.rank, node = args.launch.node, local = args.launch.local_rank;
        const i64 shard = max(ceil_div(M, world), 1), rows = rows_of(M, shard, rank);
        const i64 epoch = enter(ag, args), bank = epoch % 2;
        i64 last = 0;
        for (i64 d = 1; d < nodes; d += 1) {
            const i64 to = (node + d) % nodes * locals + local;
            const i64 p = fifo_reserve(ag, args, 0);
            fifo_write(ag, args, p, to, area_offset(args, D::a_full_offset, 0), 0, entered_offset(rank),
                       entered_value(args, epoch));
            fifo_publish(ag, args, p, Scope::System);
            last = p + 1;
        }
        const auto own = [&](i64 peer) { return peer == local; };
        copy_shard(
            ag, args, sh, load, put, tensor_bytes(args.a, 0), bank, rank, rows, 0, 1, own, [](i64) {},
            [&](i64 chunk) {
                for (i64 d = 1; d < nodes; d += 1) {
                    const i64 to = (node + d) % nodes * locals + local;
                    if (F != Fault::NoEnteredWait)
                        wait_flag(ag, args, own_entered(args, to), entered_since(epoch - 1), Scope::System, 1);
                    const i64 first = chunk * S::chunk_rows, bytes = min(S::chunk_rows, rows - first) * K * 2;
                    const i64 p = fifo_reserve(ag, args, 0);
                    fifo_write(ag, args, p, to, area_offset(args, D::a_full_offset, a_byte(bank, rank, first)), bytes,
                               flag_offset(args, D::a_ready_offset, rank * D::chunks_max + chunk), epoch);
                    fifo_publish(ag, args, p, F == Fault::GpuScopePublish ? Scope::Gpu : Scope::System);  // planted
                    last = p + 1;
                }
            });
        if (F != Fault::NoFinalFifoWait) fifo_wait(ag, args, last, 2);  // planted
    }

    static void intra_comm(Agent& ag, const Args& args, Shared& sh, Pipe<S::pieces>& load, Pipe<S::pieces>& put,
                           i64 worker, i64 workers) {
        const i64 M = args.launch.m, node = args.launch.node, local = args.launch.local_rank;
        const i64 shard = max(ceil_div(M, world), 1);
        const i64 epoch = enter(ag, args), bank = epoch % 2;
        const auto others = [&](i64 peer) { return peer != local; };
        if (F != Fault::NoEnteredWait) {
            for (i64 peer = 0; peer < locals; peer += 1) {
                if (peer != local)
                    wait_flag(ag, args, own_entered(args, node * locals + peer), entered_since(epoch - 1),
                              Scope::System, 1);
            }
        }
        for (i64 d = 0; d < nodes; d += 1) {
            const i64 q = (node + d) % nodes * locals + local;
            const u8* source = d == 0 ? tensor_bytes(args.a, 0) : own_bytes(args, D::a_full_offset, a_byte(bank, q, 0));
            copy_shard(
                ag, args, sh, load, put, source, bank, q, rows_of(M, shard, q), worker, workers, others,
                [&](i64 chunk) {
                    if (d == 0) return;
                    wait_flag(ag, args, own_flag(args, D::a_ready_offset, q * D::chunks_max + chunk), epoch,
                              Scope::System, 3);
                    fence_async_global(ag);
                },
                [&](i64 chunk) {
                    for (i64 peer = 0; peer < locals; peer += 1) {
                        if (peer == local || F == Fault::NoSignal) continue;  // planted
                        signal_set(ag, peer_flag(args, D::a_ready_offset, peer, q * D::chunks_max + chunk), epoch,
                                   F == Fault::GpuScopeSignal ? Scope::Gpu : Scope::System);  // planted
                    }
                });
        }
    }

    struct Tile {
        i64 q, row, col, rows;
    };
    static Tile tile_at(const Args& args, i64 t, i64 shard, i64 shard_tiles, i64 row_tiles, i64 col_tiles) {
        const i64 M = args.launch.m, node = args.launch.node, local = args.launch.local_rank;
        const i64 step = t / shard_tiles, u = t % shard_tiles;
        const i64 q = (node + step / locals) % nodes * locals + (local + step % locals) % locals;
        const i64 row = raster_row(u, row_tiles, col_tiles, 8) * S::tile_m,
                  col = raster_col(u, row_tiles, col_tiles, 8) * S::tile_n;
        return {q, row, col, min(S::tile_m, rows_of(M, shard, q) - row)};
    }

    static void loader(Agent& ag, const Args& args, Shared& sh) {
        Pipe<S::pieces> load, put;
        if (nodes > 1 && ag.cta == min(2, ag.ctas - 1)) inter_send(ag, args, sh, load, put);
        if (locals > 1 && ag.cta < min(2, ag.ctas)) intra_comm(ag, args, sh, load, put, ag.cta, min(2, ag.ctas));
        const i64 M = args.launch.m, rank = args.launch.rank;
        const i64 shard = max(ceil_div(M, world), 1), tail = M / shard;
        const i64 row_tiles = ceil_div(shard, S::tile_m), col_tiles = ceil_div(N, S::tile_n),
                  shard_tiles = row_tiles * col_tiles;
        const i64 epoch = enter(ag, args), bank = epoch % 2;
        Pipe<S::stages> ab;
        Pipe<2> tp;
        for (;;) {
            const i64 t = fetch_tile(ag, args);
            barrier_wait(ag, sh.tile_empty[tp.slot], tp.phase ^ 1);
            ring_put(ag, sh.tile_slot[tp.slot], t);
            barrier_arrive(ag, sh.tile_full[tp.slot]);
            tp.advance();
            if (t >= world * shard_tiles) break;
            const Tile x = tile_at(args, t, shard, shard_tiles, row_tiles, col_tiles);
            if (x.rows <= 0) continue;
            if (x.q != rank) {
                const i64 first = x.row / S::chunk_rows;
                if (F != Fault::NoFlagWait)  // planted
                    wait_flags(ag, args, own_flag(args, D::a_ready_offset, x.q * D::chunks_max + first),
                               (x.row + x.rows - 1) / S::chunk_rows - first + 1, epoch, Scope::System, 3);
                if (F != Fault::NoFenceGlobal) fence_async_global(ag);  // planted
            }
            const i64 map = x.q == rank ? 0 : (x.q == tail ? 2 : 1);
            for (i64 k = 0; k < D::k_blocks; k += 1) {
                if (F != Fault::NoEmptyWait) barrier_wait(ag, sh.ab_empty[ab.slot], ab.phase ^ 1);  // planted
                barrier_expect(ag, sh.ab_full[ab.slot], D::a_slot_bytes + D::b_slot_bytes);
                load_boxes<S::tile_m, 64, T>(ag, sh.a_stage[ab.slot], args.a_map[map], k * 64, x.row,
                                             x.q == rank ? 0 : bank * world + x.q, sh.ab_full[ab.slot]);
                load_boxes<64, S::tile_n, T>(ag, sh.b_stage[ab.slot], args.b_map[0], x.col, k * 64, 0,
                                             sh.ab_full[ab.slot]);
                ab.advance();
            }
        }
        agent_finished(ag, args);
    }

    static void relay(Agent& ag, const Args& args) {
        const i64 epoch = enter(ag, args);
        for (i64 peer = 0; peer < locals; peer += 1) {
            if (peer != args.launch.local_rank)
                signal_set(ag, peer_entered(args, peer, args.launch.rank), entered_value(args, epoch), Scope::System);
        }
        Relay r(args);
        for (;;) {
            relay_poll(ag, args, r);
            while (r.has_arrival()) {
                signal_set(ag, r.arrival_flag(args), r.arrival_value(), Scope::Gpu);
                relay_next(ag, args, r);
            }
            relay_forward(ag, args, r, Scope::Gpu);
            if (r.finished >= ag.ctas) break;
            relay_idle(ag);
        }
    }

    static void consumer(Agent& ag, const Args& args, Shared& sh, i64 group) {
        const i64 M = args.launch.m;
        const i64 shard = max(ceil_div(M, world), 1), tail = M / shard;
        const i64 row_tiles = ceil_div(shard, S::tile_m), col_tiles = ceil_div(N, S::tile_n),
                  shard_tiles = row_tiles * col_tiles;
        Pipe<S::stages> ab;
        Pipe<2> tp;
        i64 boxes = 0;
        for (;;) {
            if (F != Fault::TileRingNotWaited) barrier_wait(ag, sh.tile_full[tp.slot], tp.phase);  // planted
            const i64 t = ring_get(ag, sh.tile_slot[tp.slot]);
            barrier_arrive(ag, sh.tile_empty[tp.slot]);
            tp.advance();
            if (t >= world * shard_tiles) break;
            const Tile x = tile_at(args, t, shard, shard_tiles, row_tiles, col_tiles);
            if (x.rows <= 0) continue;
            Acc<64, S::tile_n> acc;
            for (i64 k = 0; k < D::k_blocks; k += 1) {
                if (F != Fault::NoFullWait) barrier_wait(ag, sh.ab_full[ab.slot], ab.phase);  // planted
                if (F != Fault::NoMmaBegin) mma_begin(ag, acc);                               // planted
                mma_issue<S::tile_n, 1, T>(ag, acc, sh.a_stage[ab.slot], group * 64, sh.b_stage[ab.slot], k != 0);
                mma_commit(ag);
                if (F != Fault::NoMmaWait) mma_wait<0>(ag, acc);                                   // planted
                if (F != Fault::NoArrive || group == 0) barrier_arrive(ag, sh.ab_empty[ab.slot]);  // planted
                ab.advance();
            }
            if (F == Fault::NoMmaWait) mma_wait<0>(ag, acc);
            map(ag, acc, x.q * shard + x.row + group * 64, x.col, [&](i64, i64 c, f32 v) {
                v = add(v, col_at(ag, args.bias, c, N));
                v = relu(v);
                return v;
            });
            for (i64 box = 0; box < S::tile_n / 64; box += 1, boxes += 1) {
                if (F != Fault::NoReuseWait) bulk_wait_read<1>(ag);  // planted
                if (F != Fault::NoReuseSync) agent_sync(ag);         // planted
                auto& to = sh.c_box[2 * group + boxes % 2];
                stage_box<T>(ag, to, acc, 0, box * 64);
                if (F != Fault::NoFenceShared) fence_async_shared(ag);  // planted
                if (F != Fault::NoStageSync) agent_sync(ag);            // planted
                store_box<64, 64, T>(ag, args.c_map[x.q == tail ? 1 : 0], to, x.col + box * 64, x.row + group * 64,
                                     x.q == tail ? 0 : x.q);
                bulk_commit(ag);
            }
        }
        if (F != Fault::NoFinalBulkWait) bulk_wait<0>(ag);  // planted
    }

    static void entry(const HostCta* cta, const void* launch_args) {
        const Args& args = *static_cast<const Args*>(launch_args);
        Shared& sh = *static_cast<Shared*>(cta->shared);
        static constexpr bool thread_agents[] = {true, true, false, false};
        Agent ag = make_agent(*cta, thread_agents[cta->agent_index]);
        if (cta->agent_index == 0) {
            count_in(ag, args);
            for (i64 i = 0; i < S::stages; i += 1) barrier_init(ag, sh.ab_full[i], 1);
            for (i64 i = 0; i < S::stages; i += 1) barrier_init(ag, sh.ab_empty[i], 2 * kWarpgroupArrivals);
            for (i64 i = 0; i < 2; i += 1) barrier_init(ag, sh.tile_full[i], 1);
            for (i64 i = 0; i < 2; i += 1) barrier_init(ag, sh.tile_empty[i], 2 * kWarpgroupArrivals);
            for (i64 i = 0; i < S::pieces; i += 1) barrier_init(ag, sh.piece_full[i], 1);
            if (F != Fault::NoInitFence) fence_barrier_init(ag);  // planted
        }
        cta_barrier(ag);
        switch (cta->agent_index) {
            case 0:
                loader(ag, args, sh);
                break;
            case 1:
                if (ag.cta == 0) relay(ag, args);
                break;
            case 2:
                consumer(ag, args, sh, 0);
                break;
            case 3:
                consumer(ag, args, sh, 1);
                break;
        }
        cta_barrier(ag);
        if (cta_any(ag, cta->agent_index == 0 && leave(ag, args))) fill_nan(ag, args.c, args.launch.m * N);
    }
};

}  // namespace plait::testing
