// A GEMM (world 1) and ag_gemm (1 node x 2) in the form of emitted source, written by hand: the tile machine's own check
// on the GPU, before and beside any compiler. Shapes come as -D words; run_ag_gemm.py launches it.
#include "sm90/machine.cuh"
#include "kernel_shapes.h"

using namespace plait;

namespace {

constexpr i64 N = P_N;
constexpr i64 K = P_K;
constexpr i64 world = P_WORLD;
constexpr i64 nodes = 1;
constexpr i64 locals = P_WORLD;
constexpr i64 tile_m = P_TILE_M;
constexpr i64 tile_n = P_TILE_N;
constexpr i64 tile_k = 64;
constexpr i64 half_m = tile_m / 2;
constexpr i64 transpose_b = P_NN;                    // nn: B is [K, N]
constexpr i64 k_blocks = (K + 63) / 64;
constexpr i64 stages = P_STAGES;
constexpr i64 chunk_rows = 64;
constexpr i64 shard_max = P_SHARD_MAX;
constexpr i64 chunks_max = (shard_max + chunk_rows - 1) / chunk_rows;
constexpr i64 comm_ctas = P_COMM_CTAS;
constexpr i64 pieces = 4;
constexpr i64 piece_bytes = 16384;
constexpr i64 raster_group = P_RASTER;
constexpr i64 a_bytes = tile_m * 128;
constexpr i64 b_bytes = P_NN ? (tile_n + 63) / 64 * 8192 : tile_n * 128;
constexpr u64 a_full_offset = 0;
constexpr u64 a_ready_offset = 2ull * world * shard_max * K * 2;

struct Args {
    Launch launch;
    const bf16* a;
    const bf16* b;
    bf16* c;
#ifdef P_EPILOGUE
    const f32* bias;
    const bf16* residual;
#endif
    TensorMap a_map[3];
    TensorMap b_map[1];
    TensorMap c_map[2];
};

struct Shared {
    alignas(1024) Bytes<a_bytes> a_stage[stages];
    alignas(1024) Bytes<b_bytes> b_stage[stages];
    alignas(1024) Bytes<8192> c_box[4];
    alignas(16) i64 tile_slot[2];
    Barrier ab_full[stages], ab_empty[stages];
    Barrier tile_full[2], tile_empty[2];
    Barrier piece_full[pieces];
};

// ---- role intra_comm, agent loader: own shard to the other local ranks
PLAIT_AGENT void intra_comm_pusher(Agent& ag, const Args& args, Shared& sh) {
    const i64 M = args.launch.m;
    const i64 rank = args.launch.rank;
    const i64 shard = max(ceil_div(M, world), 1);
    const i64 own_rows = min(shard, max(M - rank * shard, 0));
    const i64 epoch = enter(ag, args);
    const i64 bank = epoch % 2;
    Pipe<pieces> in;
    Pipe<pieces> out;
    for (i64 peer = 0; peer < locals; peer += 1) {
        if (peer != rank) wait_flag(ag, args, own_entered(args, peer), entered_since(epoch - 1), Scope::System, 0);
    }
    for (i64 chunk = ag.cta; chunk < ceil_div(own_rows, chunk_rows); chunk += comm_ctas) {
        const i64 bytes = min(chunk_rows, own_rows - chunk * chunk_rows) * K * 2;
        const i64 n = ceil_div(bytes, piece_bytes);
        const i64 source = chunk * chunk_rows * K * 2;
        const i64 target = (bank * world + rank) * shard_max * K * 2 + source;
        for (i64 i = 0; i < n + 2; i += 1) {
            if (i < n) {
                const i64 size = min(piece_bytes, bytes - i * piece_bytes);
                bulk_wait_read<1>(ag);
                barrier_expect(ag, sh.piece_full[in.slot], size);
                load_bytes(ag, sh.a_stage[in.slot], tensor_bytes(args.a, source + i * piece_bytes), size, sh.piece_full[in.slot]);
                in.advance();
            }
            if (i >= 2) {
                const i64 size = min(piece_bytes, bytes - (i - 2) * piece_bytes);
                barrier_wait(ag, sh.piece_full[out.slot], out.phase);
                for (i64 peer = 0; peer < locals; peer += 1) {
                    if (peer != rank) {
                        put_bytes(ag, peer_bytes(args, a_full_offset, peer, target + (i - 2) * piece_bytes), sh.a_stage[out.slot], size);
                    }
                }
                bulk_commit(ag);
                out.advance();
            }
        }
        bulk_wait<0>(ag);
        for (i64 peer = 0; peer < locals; peer += 1) {
            if (peer != rank) signal_set(ag, peer_flag(args, a_ready_offset, peer, rank * chunks_max + chunk), epoch, Scope::System);
        }
    }
}

// ---- role protocol, agent relay
PLAIT_AGENT void protocol_relay(Agent& ag, const Args& args, Shared&) {
    const i64 rank = args.launch.rank;
    const i64 epoch = enter(ag, args);
    for (i64 peer = 0; peer < locals; peer += 1) signal_set(ag, peer_entered(args, peer, rank), entered_value(args, epoch), Scope::System);
    Relay r(args);
    for (;;) {
        relay_poll(ag, args, r);
        while (r.has_arrival()) {
            signal_set(ag, r.arrival_flag(args), r.arrival_value(), Scope::Gpu);
            relay_next(ag, args, r);
        }
        relay_forward(ag, args, r, Scope::Gpu);
        if (r.finished == ag.ctas) break;
        relay_idle(ag);
    }
}

// ---- role compute, agent loader
PLAIT_AGENT void compute_loader(Agent& ag, const Args& args, Shared& sh) {
    const i64 M = args.launch.m;
    const i64 rank = args.launch.rank;
    const i64 node = args.launch.node;
    const i64 local = args.launch.local_rank;
    const i64 shard = max(ceil_div(M, world), 1);
    const i64 tail = M / shard;
    const i64 row_tiles = ceil_div(shard, tile_m);
    const i64 col_tiles = ceil_div(N, tile_n);
    const i64 shard_tiles = row_tiles * col_tiles;
    const i64 tiles = world * shard_tiles;
    const i64 epoch = enter(ag, args);
    const i64 bank = epoch % 2;
    Pipe<stages> ab;
    Pipe<2> tp;
    for (;;) {
        const i64 t = fetch_tile(ag, args);
        barrier_wait(ag, sh.tile_empty[tp.slot], tp.phase ^ 1);
        ring_put(ag, sh.tile_slot[tp.slot], t);
        barrier_arrive(ag, sh.tile_full[tp.slot]);
        tp.advance();
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
                wait_flags(ag, args, own_flag(args, a_ready_offset, q * chunks_max + first),
                           (row + rows - 1) / chunk_rows - first + 1, epoch, Scope::System, 1);
                fence_async_global(ag);
            }
            for (i64 k = 0; k < k_blocks; k += 1) {
                barrier_wait(ag, sh.ab_empty[ab.slot], ab.phase ^ 1);
                barrier_expect(ag, sh.ab_full[ab.slot], a_bytes + b_bytes);
                load_boxes<tile_m, 64, bf16>(ag, sh.a_stage[ab.slot], args.a_map[q == rank ? 0 : (q == tail ? 2 : 1)], k * tile_k, row,
                                             q == rank ? 0 : bank * world + q, sh.ab_full[ab.slot]);
#if P_NN
                load_boxes<64, tile_n, bf16>(ag, sh.b_stage[ab.slot], args.b_map[0], col, k * tile_k, 0, sh.ab_full[ab.slot]);
#else
                load_boxes<tile_n, 64, bf16>(ag, sh.b_stage[ab.slot], args.b_map[0], k * tile_k, col, 0, sh.ab_full[ab.slot]);
#endif
                ab.advance();
            }
        }
    }
    agent_finished(ag, args);
}

// P_EPILOGUE: c = gelu(c + bias) + residual, for the compile test.
#ifdef P_EPILOGUE
#define EPILOGUE(FIRST_ROW)                                                                      \
    map(ag, acc, q * shard + row + FIRST_ROW, col, [&](i64 r, i64 c, f32 x) {                    \
        x = add(x, col_at(ag, args.bias, c, N));                                                 \
        x = gelu(x);                                                                             \
        x = add(x, cell_at(ag, args.residual, r, c, M, N, N));                                     \
        return x;                                                                                \
    });
#else
#define EPILOGUE(FIRST_ROW)
#endif

#define CONSUMER(NAME, FIRST_ROW, FIRST_BOX)                                                                              \
    PLAIT_AGENT void NAME(Agent& ag, const Args& args, Shared& sh) {                                                      \
        const i64 M = args.launch.m;                                                                                      \
        const i64 node = args.launch.node;                                                                                \
        const i64 local = args.launch.local_rank;                                                                         \
        const i64 shard = max(ceil_div(M, world), 1);                                                                     \
        const i64 tail = M / shard;                                                                                       \
        const i64 row_tiles = ceil_div(shard, tile_m);                                                                    \
        const i64 col_tiles = ceil_div(N, tile_n);                                                                        \
        const i64 shard_tiles = row_tiles * col_tiles;                                                                    \
        const i64 tiles = world * shard_tiles;                                                                            \
        Pipe<stages> ab;                                                                                                  \
        Pipe<2> tp;                                                                                                       \
        for (;;) {                                                                                                        \
            barrier_wait(ag, sh.tile_full[tp.slot], tp.phase);                                                            \
            const i64 t = ring_get(ag, sh.tile_slot[tp.slot]);                                                            \
            barrier_arrive(ag, sh.tile_empty[tp.slot]);                                                                   \
            tp.advance();                                                                                                 \
            if (t >= tiles) break;                                                                                        \
            const i64 step = t / shard_tiles;                                                                             \
            const i64 u = t % shard_tiles;                                                                                \
            const i64 q = (node + step / locals) % nodes * locals + (local + step % locals) % locals;                     \
            const i64 row = raster_row(u, row_tiles, col_tiles, raster_group) * tile_m;                                   \
            const i64 col = raster_col(u, row_tiles, col_tiles, raster_group) * tile_n;                                   \
            const i64 rows = min(tile_m, min(shard, max(M - q * shard, 0)) - row);                                        \
            if (rows > 0) {                                                                                               \
                Acc<half_m, tile_n> acc;                                                                                  \
                for (i64 k = 0; k < k_blocks; k += 1) {                                                                   \
                    barrier_wait(ag, sh.ab_full[ab.slot], ab.phase);                                                      \
                    mma_begin(ag, acc);                                                                                   \
                    mma_issue<tile_n, transpose_b, bf16>(ag, acc, sh.a_stage[ab.slot], FIRST_ROW, sh.b_stage[ab.slot],    \
                                                         k != 0);                                                         \
                    mma_commit(ag);                                                                                       \
                    mma_wait<0>(ag, acc);                                                                                 \
                    barrier_arrive(ag, sh.ab_empty[ab.slot]);                                                             \
                    ab.advance();                                                                                         \
                }                                                                                                         \
                EPILOGUE(FIRST_ROW)                                                                                      \
                for (i64 block = 0; block < half_m / 64; block += 1) {                                                    \
                    for (i64 box = 0; box < ceil_div(tile_n, 64); box += 1) {                                             \
                        const i64 column = min(box * 64, tile_n - 64);                                                    \
                        const i64 slot = FIRST_BOX + (block * ceil_div(tile_n, 64) + box) % 2;                            \
                        bulk_wait_read<1>(ag);                                                                            \
                        agent_sync(ag);                                                                                   \
                        stage_box<bf16>(ag, sh.c_box[slot], acc, block, column);                                          \
                        fence_async_shared(ag);                                                                           \
                        agent_sync(ag);                                                                                   \
                        store_box<64, 64, bf16>(ag, args.c_map[q == tail ? 1 : 0], sh.c_box[slot], col + column,          \
                                                row + FIRST_ROW + block * 64, q == tail ? 0 : q);                         \
                        bulk_commit(ag);                                                                                  \
                    }                                                                                                     \
                }                                                                                                         \
            }                                                                                                             \
        }                                                                                                                 \
        bulk_wait<0>(ag);                                                                                                 \
    }

// ---- role compute, agents consumer0 and consumer1: the upper and the lower half of a tile
CONSUMER(compute_consumer0, 0, 0)
CONSUMER(compute_consumer1, half_m, 2)

}  // namespace

extern "C" __global__ void __launch_bounds__(384, 1) plait_kernel(const __grid_constant__ Args args) {
    Shared& sh = shared_memory<Shared>();
    Agent ag = make_agent();
    if (ag.is_thread(0, 0)) {
        for (i64 i = 0; i < stages; i += 1) barrier_init(ag, sh.ab_full[i], 1);
        for (i64 i = 0; i < stages; i += 1) barrier_init(ag, sh.ab_empty[i], 2 * kWarpgroupArrivals);
        for (i64 i = 0; i < 2; i += 1) barrier_init(ag, sh.tile_full[i], 1);
        for (i64 i = 0; i < 2; i += 1) barrier_init(ag, sh.tile_empty[i], 2 * kWarpgroupArrivals);
        for (i64 i = 0; i < pieces; i += 1) barrier_init(ag, sh.piece_full[i], 1);
        fence_barrier_init(ag);
        count_in(ag, args);
    }
    cta_barrier(ag);
    if (ag.warpgroup == 0) {
        registers_producer<(tile_m * tile_n > 128 * 256) ? 56 : 72>();
        if (ag.is_thread(0, 0)) {
            if (world > 1 && ag.cta < comm_ctas) intra_comm_pusher(ag, args, sh);
            compute_loader(ag, args, sh);
        }
        if (ag.is_thread(0, 2)) {
            if (world > 1 && ag.cta == 0) protocol_relay(ag, args, sh);
        }
    } else if (ag.warpgroup == 1) {
        registers_consumer<(tile_m * tile_n > 128 * 256) ? 224 : 216>();
        compute_consumer0(ag, args, sh);
    } else if (ag.warpgroup == 2) {
        registers_consumer<(tile_m * tile_n > 128 * 256) ? 224 : 216>();
        compute_consumer1(ag, args, sh);
    }
    cta_barrier(ag);
    if (ag.is_thread(0, 0)) leave(ag, args);
}
