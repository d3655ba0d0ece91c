// plait ag_gemm: M <= 2048, 2 ranks = 1 node x 2, target sm_90a
// role compute: sms
// role intra_comm: phase, 8 CTAs
#include "sm90/machine.cuh"   // the tile machine in PTX
#include "kernel_shapes.h"   // instruction text of the shapes below, one file a machine

using namespace plait;

namespace {

constexpr i64 world = 2;
constexpr i64 nodes = 1;
constexpr i64 locals = 2;
constexpr i64 N = 1024;
constexpr i64 K = 1024;
constexpr i64 tile_m = 128;
constexpr i64 tile_n = 256;
constexpr i64 tile_k = 64;
constexpr i64 k_blocks = 16;
constexpr i64 stages = 4;
constexpr i64 col_tiles = 4;
constexpr i64 raster_group = 8;
constexpr i64 row_bytes = 2048;
constexpr i64 shard_max = 1024;
constexpr i64 chunk_rows = 64;
constexpr i64 chunks_max = 16;
constexpr i64 piece_bytes = 16384;
constexpr i64 pieces = 4;
constexpr i64 lag = 2;
constexpr u64 a_full_offset = 0;   // bf16 [2, 2, 1024, 1024]
constexpr u64 a_ready_offset = 8388608;   // 32 flags

struct Args {
    Launch launch;
    const bf16* a;   // [a_rows, K]
    const bf16* b;   // [N, K]
    const f32* bias;   // [N]
    const bf16* residual;   // [M, N]
    bf16* c6;   // [M, N]
    i64 a_pitch;   // bytes from row to row
    i64 b_pitch;   // bytes from row to row
    i64 residual_pitch;   // bytes from row to row
    i64 c6_pitch;   // bytes from row to row
    TensorMap a_map[3];
    TensorMap b_map[1];
    TensorMap c_map[2];
};
PLAIT_AT_OFFSET(Args, launch, 0);
PLAIT_AT_OFFSET(Args, a, 240);
PLAIT_AT_OFFSET(Args, b, 248);
PLAIT_AT_OFFSET(Args, bias, 256);
PLAIT_AT_OFFSET(Args, residual, 264);
PLAIT_AT_OFFSET(Args, c6, 272);
PLAIT_AT_OFFSET(Args, a_pitch, 280);
PLAIT_AT_OFFSET(Args, b_pitch, 288);
PLAIT_AT_OFFSET(Args, residual_pitch, 296);
PLAIT_AT_OFFSET(Args, c6_pitch, 304);
PLAIT_AT_OFFSET(Args, a_map, 320);
PLAIT_AT_OFFSET(Args, b_map, 704);
PLAIT_AT_OFFSET(Args, c_map, 832);
static_assert(sizeof(Args) == 1088);

struct Shared {
    alignas(1024) Bytes<16384> a_stage[4];
    alignas(1024) Bytes<32768> b_stage[4];
    alignas(1024) Bytes<8192> c_box[4];
    alignas(16) i64 tile_slot[2];
    Barrier ab_full[4];
    Barrier ab_empty[4];
    Barrier tile_full[2];
    Barrier tile_empty[2];
    Barrier intra_comm_full[4];
};
static_assert(sizeof(Shared) == 230400);

// ---- role intra_comm, agent loader, CTAs 0..min(8, ctas)
PLAIT_AGENT void intra_comm_pusher(Agent& ag, const Args& args, Shared& sh) {
    const i64 M = args.launch.m;
    const i64 rank = args.launch.rank;
    const i64 node = args.launch.node;
    const i64 local = args.launch.local_rank;
    const i64 cta = ag.cta;
    const i64 ctas = ag.ctas;
    const i64 a_pitch = args.a_pitch;
    const i64 shard = max(ceil_div(M, world), 1);
    const i64 a_rows = max(0, min(shard, M - rank * shard));
    const i64 chunks = ceil_div(a_rows, chunk_rows);
    const i64 epoch = enter(ag, args);
    const i64 bank = epoch % 2;
    const i64 worker = cta;
    const i64 workers = min(8, ctas);
    Pipe<pieces> fill;
    Pipe<pieces> drain;
    // a bank is free once its readers, two launches ago, are done: peers have entered the launch after
    for (i64 p = 1; p < locals; p += 1) {
        wait_flag(ag, args, own_entered(args, node * locals + (local + p) % locals), entered_since(epoch - 1), Scope::System, 0);
    }
    // own shard to the other ranks of this node
    for (i64 chunk = worker; chunk < chunks; chunk += workers) {
        const i64 row = chunk * chunk_rows;
        const i64 target = ((bank * world + rank) * shard_max + row) * row_bytes;
        trace(ag, TraceKind::Push, rank * chunks_max + chunk);
        const i64 bytes = min(chunk_rows, a_rows - row) * row_bytes;
        const i64 span = a_pitch == K * 2 ? bytes : row_bytes;
        for (i64 from = 0; from < bytes; from += span) {
            const i64 count = ceil_div(span, piece_bytes);
            for (i64 i = 0; i < count + lag; i += 1) {
                if (i < count) {
                    const i64 at = i * piece_bytes;
                    const i64 size = min(piece_bytes, span - at);
                    bulk_wait_read<1>(ag);
                    barrier_expect(ag, sh.intra_comm_full[fill.slot], size);
                    load_bytes(ag, sh.a_stage[fill.slot], tensor_bytes(args.a, row * a_pitch + from / row_bytes * a_pitch + at), size, sh.intra_comm_full[fill.slot]);
                    fill.advance();
                }
                if (i >= lag) {
                    const i64 at = (i - lag) * piece_bytes;
                    const i64 size = min(piece_bytes, span - at);
                    barrier_wait(ag, sh.intra_comm_full[drain.slot], drain.phase);
                    for (i64 p = 1; p < locals; p += 1) {
                        put_bytes(ag, peer_bytes(args, a_full_offset, (local + p) % locals, target + from + at), sh.a_stage[drain.slot], size);
                    }
                    bulk_commit(ag);
                    drain.advance();
                }
            }
        }
        bulk_wait<0>(ag);
        for (i64 p = 1; p < locals; p += 1) {
            signal_set(ag, peer_flag(args, a_ready_offset, (local + p) % locals, rank * chunks_max + chunk), epoch, Scope::System);
        }
    }
    trace(ag, TraceKind::Idle, 0);
}

// ---- role compute, agent loader, every CTA
PLAIT_AGENT void compute_loader(Agent& ag, const Args& args, Shared& sh) {
    const i64 M = args.launch.m;
    const i64 rank = args.launch.rank;
    const i64 node = args.launch.node;
    const i64 local = args.launch.local_rank;
    const i64 shard = max(ceil_div(M, world), 1);
    const i64 tail = M / shard;
    const i64 row_tiles = ceil_div(shard, tile_m);
    const i64 shard_tiles = row_tiles * col_tiles;
    const i64 tiles = world * shard_tiles;
    const i64 epoch = enter(ag, args);
    const i64 bank = epoch % 2;
    Pipe<stages> ab;
    Pipe<2> ring;
    for (;;) {
        const i64 t = fetch_tile(ag, args);
        barrier_wait(ag, sh.tile_empty[ring.slot], ring.phase ^ 1);
        ring_put(ag, sh.tile_slot[ring.slot], t);
        barrier_arrive(ag, sh.tile_full[ring.slot]);
        ring.advance();
        if (t >= tiles) break;
        const i64 step = t / shard_tiles;
        const i64 u = t % shard_tiles;
        const i64 q = (node + step / locals) % nodes * locals + (local + step % locals) % locals;
        const i64 row = raster_row(u, row_tiles, col_tiles, raster_group) * tile_m;
        const i64 col = raster_col(u, row_tiles, col_tiles, raster_group) * tile_n;
        const i64 rows = min(tile_m, min(shard, max(M - q * shard, 0)) - row);
        if (rows > 0) {
            if (q != rank) {
                const i64 first = row / chunk_rows;
                const i64 count = (row + rows - 1) / chunk_rows - first + 1;
                trace(ag, TraceKind::Wait, t);
                wait_flags(ag, args, own_flag(args, a_ready_offset, q * chunks_max + first), count, epoch, Scope::System, 1);
                fence_async_global(ag);
                trace(ag, TraceKind::Arrived, q * chunks_max + first);
            }
            // own rows come from the caller's tensor; the short shard has its own map
            const i64 entry = q == rank ? 0 : q == tail ? 2 : 1;
            const i64 z = q == rank ? 0 : bank * world + q;
            trace(ag, TraceKind::Load, t);
            #pragma unroll 1
            for (i64 k = 0; k < k_blocks; k += 1) {
                barrier_wait(ag, sh.ab_empty[ab.slot], ab.phase ^ 1);
                barrier_expect(ag, sh.ab_full[ab.slot], 49152);
                load_boxes<tile_m, 64, bf16>(ag, sh.a_stage[ab.slot], args.a_map[entry], k * tile_k, row, z, sh.ab_full[ab.slot]);
                load_boxes<tile_n, 64, bf16>(ag, sh.b_stage[ab.slot], args.b_map[0], k * tile_k, col, 0, sh.ab_full[ab.slot]);
                ab.advance();
            }
        }
    }
    trace(ag, TraceKind::Idle, 0);
    agent_finished(ag, args);
}

// ---- role protocol, agent relay, CTAs 0..1
PLAIT_AGENT void protocol_relay(Agent& ag, const Args& args, Shared& sh) {
    const i64 rank = args.launch.rank;
    const i64 local = args.launch.local_rank;
    const i64 ctas = ag.ctas;
    trace(ag, TraceKind::Relay, 0);
    const i64 epoch = enter(ag, args);
    for (i64 p = 1; p < locals; p += 1) {
        signal_set(ag, peer_entered(args, (local + p) % locals, rank), entered_value(args, epoch), Scope::System);
    }
    Relay relay(args);
    for (;;) {
        relay_poll(ag, args, relay);
        relay_forward(ag, args, relay, Scope::Gpu);
        if (relay.finished >= ctas) break;
        relay_idle(ag);
    }
    trace(ag, TraceKind::Idle, 0);
}

// ---- role compute, agent consumer0, every CTA
PLAIT_AGENT void compute_consumer0(Agent& ag, const Args& args, Shared& sh) {
    const i64 M = args.launch.m;
    const i64 node = args.launch.node;
    const i64 local = args.launch.local_rank;
    const i64 shard = max(ceil_div(M, world), 1);
    const i64 tail = M / shard;
    const i64 row_tiles = ceil_div(shard, tile_m);
    const i64 shard_tiles = row_tiles * col_tiles;
    const i64 tiles = world * shard_tiles;
    Pipe<stages> ab;
    Pipe<2> ring;
    for (;;) {
        barrier_wait(ag, sh.tile_full[ring.slot], ring.phase);
        const i64 t = ring_get(ag, sh.tile_slot[ring.slot]);
        barrier_arrive(ag, sh.tile_empty[ring.slot]);
        ring.advance();
        if (t >= tiles) break;
        const i64 step = t / shard_tiles;
        const i64 u = t % shard_tiles;
        const i64 q = (node + step / locals) % nodes * locals + (local + step % locals) % locals;
        const i64 row = raster_row(u, row_tiles, col_tiles, raster_group) * tile_m;
        const i64 col = raster_col(u, row_tiles, col_tiles, raster_group) * tile_n;
        const i64 rows = min(tile_m, min(shard, max(M - q * shard, 0)) - row);
        if (rows > 0) {
            trace(ag, TraceKind::Compute, t);
            Acc<64, tile_n> acc;
            for (i64 k = 0; k < k_blocks; k += 1) {
                barrier_wait(ag, sh.ab_full[ab.slot], ab.phase);
                mma_begin(ag, acc);
                mma_issue<tile_n, 0, bf16>(ag, acc, sh.a_stage[ab.slot], 0, sh.b_stage[ab.slot], k != 0);
                mma_commit(ag);
                mma_wait<0>(ag, acc);
                barrier_arrive(ag, sh.ab_empty[ab.slot]);
                ab.advance();
            }
            map(ag, acc, q * shard + row, col, [&](i64 r, i64 c, f32 x) {
                x = add(x, col_at(ag, args.bias, c, N));
                x = gelu(x);
                x = add(x, cell_at(ag, args.residual, r, c, M, N, args.residual_pitch / 2));
                x = mul(x, 0.5f);
                x = round_to<f16>(x);
                return x;
            });
            trace(ag, TraceKind::Store, t);
            const i64 out = q == tail ? 1 : 0;
            const i64 out_z = q == tail ? 0 : q;
            bulk_wait_read<1>(ag);
            agent_sync(ag);
            stage_box<bf16>(ag, sh.c_box[0], acc, 0, 0);
            fence_async_shared(ag);
            agent_sync(ag);
            store_box<64, 64, bf16>(ag, args.c_map[out], sh.c_box[0], col, row, out_z);
            bulk_commit(ag);
            bulk_wait_read<1>(ag);
            agent_sync(ag);
            stage_box<bf16>(ag, sh.c_box[1], acc, 0, 64);
            fence_async_shared(ag);
            agent_sync(ag);
            store_box<64, 64, bf16>(ag, args.c_map[out], sh.c_box[1], col + 64, row, out_z);
            bulk_commit(ag);
            bulk_wait_read<1>(ag);
            agent_sync(ag);
            stage_box<bf16>(ag, sh.c_box[0], acc, 0, 128);
            fence_async_shared(ag);
            agent_sync(ag);
            store_box<64, 64, bf16>(ag, args.c_map[out], sh.c_box[0], col + 128, row, out_z);
            bulk_commit(ag);
            bulk_wait_read<1>(ag);
            agent_sync(ag);
            stage_box<bf16>(ag, sh.c_box[1], acc, 0, 192);
            fence_async_shared(ag);
            agent_sync(ag);
            store_box<64, 64, bf16>(ag, args.c_map[out], sh.c_box[1], col + 192, row, out_z);
            bulk_commit(ag);
        }
    }
    trace(ag, TraceKind::Idle, 0);
    // the kernel ends only after every store is complete
    bulk_wait<0>(ag);
}

// ---- role compute, agent consumer1, every CTA
PLAIT_AGENT void compute_consumer1(Agent& ag, const Args& args, Shared& sh) {
    const i64 M = args.launch.m;
    const i64 node = args.launch.node;
    const i64 local = args.launch.local_rank;
    const i64 shard = max(ceil_div(M, world), 1);
    const i64 tail = M / shard;
    const i64 row_tiles = ceil_div(shard, tile_m);
    const i64 shard_tiles = row_tiles * col_tiles;
    const i64 tiles = world * shard_tiles;
    Pipe<stages> ab;
    Pipe<2> ring;
    for (;;) {
        barrier_wait(ag, sh.tile_full[ring.slot], ring.phase);
        const i64 t = ring_get(ag, sh.tile_slot[ring.slot]);
        barrier_arrive(ag, sh.tile_empty[ring.slot]);
        ring.advance();
        if (t >= tiles) break;
        const i64 step = t / shard_tiles;
        const i64 u = t % shard_tiles;
        const i64 q = (node + step / locals) % nodes * locals + (local + step % locals) % locals;
        const i64 row = raster_row(u, row_tiles, col_tiles, raster_group) * tile_m;
        const i64 col = raster_col(u, row_tiles, col_tiles, raster_group) * tile_n;
        const i64 rows = min(tile_m, min(shard, max(M - q * shard, 0)) - row);
        if (rows > 0) {
            trace(ag, TraceKind::Compute, t);
            Acc<64, tile_n> acc;
            for (i64 k = 0; k < k_blocks; k += 1) {
                barrier_wait(ag, sh.ab_full[ab.slot], ab.phase);
                mma_begin(ag, acc);
                mma_issue<tile_n, 0, bf16>(ag, acc, sh.a_stage[ab.slot], 64, sh.b_stage[ab.slot], k != 0);
                mma_commit(ag);
                mma_wait<0>(ag, acc);
                barrier_arrive(ag, sh.ab_empty[ab.slot]);
                ab.advance();
            }
            map(ag, acc, q * shard + row + 64, col, [&](i64 r, i64 c, f32 x) {
                x = add(x, col_at(ag, args.bias, c, N));
                x = gelu(x);
                x = add(x, cell_at(ag, args.residual, r, c, M, N, args.residual_pitch / 2));
                x = mul(x, 0.5f);
                x = round_to<f16>(x);
                return x;
            });
            trace(ag, TraceKind::Store, t);
            const i64 out = q == tail ? 1 : 0;
            const i64 out_z = q == tail ? 0 : q;
            bulk_wait_read<1>(ag);
            agent_sync(ag);
            stage_box<bf16>(ag, sh.c_box[2], acc, 0, 0);
            fence_async_shared(ag);
            agent_sync(ag);
            store_box<64, 64, bf16>(ag, args.c_map[out], sh.c_box[2], col, row + 64, out_z);
            bulk_commit(ag);
            bulk_wait_read<1>(ag);
            agent_sync(ag);
            stage_box<bf16>(ag, sh.c_box[3], acc, 0, 64);
            fence_async_shared(ag);
            agent_sync(ag);
            store_box<64, 64, bf16>(ag, args.c_map[out], sh.c_box[3], col + 64, row + 64, out_z);
            bulk_commit(ag);
            bulk_wait_read<1>(ag);
            agent_sync(ag);
            stage_box<bf16>(ag, sh.c_box[2], acc, 0, 128);
            fence_async_shared(ag);
            agent_sync(ag);
            store_box<64, 64, bf16>(ag, args.c_map[out], sh.c_box[2], col + 128, row + 64, out_z);
            bulk_commit(ag);
            bulk_wait_read<1>(ag);
            agent_sync(ag);
            stage_box<bf16>(ag, sh.c_box[3], acc, 0, 192);
            fence_async_shared(ag);
            agent_sync(ag);
            store_box<64, 64, bf16>(ag, args.c_map[out], sh.c_box[3], col + 192, row + 64, out_z);
            bulk_commit(ag);
        }
    }
    trace(ag, TraceKind::Idle, 0);
    // the kernel ends only after every store is complete
    bulk_wait<0>(ag);
}

// ---- outputs of a launch that was given up
PLAIT_AGENT void invalidate_outputs(Agent& ag, const Args& args) {
    const i64 M = args.launch.m;
    const i64 c6_pitch = args.c6_pitch;
    fill_nan_rows(ag, args.c6, M, N, c6_pitch);
}

}  // namespace

// ---- entry
extern "C" __global__ void __launch_bounds__(384, 1) plait_kernel(const __grid_constant__ Args args) {
    Shared& sh = shared_memory<Shared>();
    Agent ag = make_agent();
    const i64 cta = ag.cta;
    const i64 ctas = ag.ctas;
    if (ag.is_thread(0, 0)) {
        count_in(ag, args);
        for (i64 i = 0; i < 4; i += 1) barrier_init(ag, sh.ab_full[i], 1);
        for (i64 i = 0; i < 4; i += 1) barrier_init(ag, sh.ab_empty[i], 2 * kWarpgroupArrivals);
        for (i64 i = 0; i < 2; i += 1) barrier_init(ag, sh.tile_full[i], 1);
        for (i64 i = 0; i < 2; i += 1) barrier_init(ag, sh.tile_empty[i], 2 * kWarpgroupArrivals);
        for (i64 i = 0; i < 4; i += 1) barrier_init(ag, sh.intra_comm_full[i], 1);
        fence_barrier_init(ag);
    }
    cta_barrier(ag);
    if (ag.warpgroup == 0) {
        registers_producer<72>();
        if (ag.is_thread(0, 0)) {
            // loader
            if (cta < min(8, ctas)) intra_comm_pusher(ag, args, sh);
            compute_loader(ag, args, sh);
        }
        if (ag.is_thread(0, 2)) {
            // relay
            if (cta < 1) protocol_relay(ag, args, sh);
        }
    }
    if (ag.warpgroup == 1) {
        registers_consumer<216>();
        compute_consumer0(ag, args, sh);
    }
    if (ag.warpgroup == 2) {
        registers_consumer<216>();
        compute_consumer1(ag, args, sh);
    }
    cta_barrier(ag);
    if (cta_any(ag, ag.is_thread(0, 0) && leave(ag, args))) invalidate_outputs(ag, args);
}
