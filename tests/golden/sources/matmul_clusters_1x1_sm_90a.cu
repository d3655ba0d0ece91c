// plait matmul: M <= 2048, 1 rank = 1 node x 1, target sm_90a
// role compute: sms
#include "sm90/machine.cuh"   // the tile machine in PTX
#include "kernel_shapes.h"   // instruction text of the shapes below, one file a machine

using namespace plait;

namespace {

constexpr i64 world = 1;
constexpr i64 nodes = 1;
constexpr i64 locals = 1;
constexpr i64 N = 1024;
constexpr i64 K = 1024;
constexpr i64 tile_m = 128;
constexpr i64 tile_n = 256;
constexpr i64 tile_k = 64;
constexpr i64 k_blocks = 16;
constexpr i64 stages = 4;
constexpr i64 col_tiles = 4;
constexpr i64 raster_group = 8;
constexpr i64 cluster = 2;

struct Args {
    Launch launch;
    const bf16* a;   // [a_rows, K]
    const bf16* b;   // [K, N]
    bf16* c;   // [M, N]
    i64 a_pitch;   // bytes from row to row
    i64 b_pitch;   // bytes from row to row
    i64 c_pitch;   // bytes from row to row
    TensorMap a_map[1];
    TensorMap b_map[1];
    TensorMap c_map[1];
};
PLAIT_AT_OFFSET(Args, launch, 0);
PLAIT_AT_OFFSET(Args, a, 240);
PLAIT_AT_OFFSET(Args, b, 248);
PLAIT_AT_OFFSET(Args, c, 256);
PLAIT_AT_OFFSET(Args, a_pitch, 264);
PLAIT_AT_OFFSET(Args, b_pitch, 272);
PLAIT_AT_OFFSET(Args, c_pitch, 280);
PLAIT_AT_OFFSET(Args, a_map, 320);
PLAIT_AT_OFFSET(Args, b_map, 448);
PLAIT_AT_OFFSET(Args, c_map, 576);
static_assert(sizeof(Args) == 704);

struct Shared {
    alignas(1024) Bytes<16384> a_stage[4];
    alignas(1024) Bytes<32768> b_stage[4];
    alignas(1024) Bytes<8192> c_box[4];
    Barrier ab_full[4];
    Barrier ab_empty[4];
};
static_assert(sizeof(Shared) == 230400);

// ---- role compute, agent loader, every CTA
PLAIT_AGENT void compute_loader(Agent& ag, const Args& args, Shared& sh) {
    const i64 M = args.launch.m;
    const i64 cta = ag.cta;
    const i64 ctas = ag.ctas;
    const i64 a_rows = M;
    const i64 row_tiles = ceil_div(a_rows, cluster * tile_m);
    const i64 tiles = row_tiles * col_tiles;
    Pipe<stages> ab;
    for (i64 t = cta / cluster; t < tiles; t += ctas / cluster) {
        const i64 row = (raster_row(t, row_tiles, col_tiles, raster_group) * cluster + cta % cluster) * tile_m;
        const i64 col = raster_col(t, row_tiles, col_tiles, raster_group) * tile_n;
        trace(ag, TraceKind::Load, t);
        #pragma unroll 1
        for (i64 k = 0; k < k_blocks; k += 1) {
            barrier_wait(ag, sh.ab_empty[ab.slot], ab.phase ^ 1);
            barrier_expect(ag, sh.ab_full[ab.slot], 49152);
            load_boxes<tile_m, 64, bf16>(ag, sh.a_stage[ab.slot], args.a_map[0], k * tile_k, row, 0, sh.ab_full[ab.slot]);
            load_multicast<cluster, 64, tile_n, bf16>(ag, sh.b_stage[ab.slot], args.b_map[0], col, k * tile_k, 0, sh.ab_full[ab.slot]);
            ab.advance();
        }
    }
    // a CTA ends only after its peer's consumers have freed every slot: they arrive here
    #pragma unroll 1
    for (i64 i = 0; i < stages; i += 1) {
        barrier_wait(ag, sh.ab_empty[ab.slot], ab.phase ^ 1);
        ab.advance();
    }
    trace(ag, TraceKind::Idle, 0);
}

// ---- role compute, agent consumer0, every CTA
PLAIT_AGENT void compute_consumer0(Agent& ag, const Args& args, Shared& sh) {
    const i64 M = args.launch.m;
    const i64 cta = ag.cta;
    const i64 ctas = ag.ctas;
    const i64 a_rows = M;
    const i64 row_tiles = ceil_div(a_rows, cluster * tile_m);
    const i64 tiles = row_tiles * col_tiles;
    Pipe<stages> ab;
    for (i64 t = cta / cluster; t < tiles; t += ctas / cluster) {
        const i64 row = (raster_row(t, row_tiles, col_tiles, raster_group) * cluster + cta % cluster) * tile_m;
        const i64 col = raster_col(t, row_tiles, col_tiles, raster_group) * tile_n;
        trace(ag, TraceKind::Compute, t);
        Acc<64, tile_n> acc;
        for (i64 k = 0; k < k_blocks; k += 1) {
            barrier_wait(ag, sh.ab_full[ab.slot], ab.phase);
            mma_begin(ag, acc);
            mma_issue<tile_n, 1, bf16>(ag, acc, sh.a_stage[ab.slot], 0, sh.b_stage[ab.slot], k != 0);
            mma_commit(ag);
            mma_wait<0>(ag, acc);
            cluster_arrive<cluster>(ag, sh.ab_empty[ab.slot]);
            ab.advance();
        }
        trace(ag, TraceKind::Store, t);
        bulk_wait_read<1>(ag);
        agent_sync(ag);
        stage_box<bf16>(ag, sh.c_box[0], acc, 0, 0);
        fence_async_shared(ag);
        agent_sync(ag);
        store_box<64, 64, bf16>(ag, args.c_map[0], sh.c_box[0], col, row, 0);
        bulk_commit(ag);
        bulk_wait_read<1>(ag);
        agent_sync(ag);
        stage_box<bf16>(ag, sh.c_box[1], acc, 0, 64);
        fence_async_shared(ag);
        agent_sync(ag);
        store_box<64, 64, bf16>(ag, args.c_map[0], sh.c_box[1], col + 64, row, 0);
        bulk_commit(ag);
        bulk_wait_read<1>(ag);
        agent_sync(ag);
        stage_box<bf16>(ag, sh.c_box[0], acc, 0, 128);
        fence_async_shared(ag);
        agent_sync(ag);
        store_box<64, 64, bf16>(ag, args.c_map[0], sh.c_box[0], col + 128, row, 0);
        bulk_commit(ag);
        bulk_wait_read<1>(ag);
        agent_sync(ag);
        stage_box<bf16>(ag, sh.c_box[1], acc, 0, 192);
        fence_async_shared(ag);
        agent_sync(ag);
        store_box<64, 64, bf16>(ag, args.c_map[0], sh.c_box[1], col + 192, row, 0);
        bulk_commit(ag);
    }
    trace(ag, TraceKind::Idle, 0);
    // the kernel ends only after every store is complete
    bulk_wait<0>(ag);
}

// ---- role compute, agent consumer1, every CTA
PLAIT_AGENT void compute_consumer1(Agent& ag, const Args& args, Shared& sh) {
    const i64 M = args.launch.m;
    const i64 cta = ag.cta;
    const i64 ctas = ag.ctas;
    const i64 a_rows = M;
    const i64 row_tiles = ceil_div(a_rows, cluster * tile_m);
    const i64 tiles = row_tiles * col_tiles;
    Pipe<stages> ab;
    for (i64 t = cta / cluster; t < tiles; t += ctas / cluster) {
        const i64 row = (raster_row(t, row_tiles, col_tiles, raster_group) * cluster + cta % cluster) * tile_m;
        const i64 col = raster_col(t, row_tiles, col_tiles, raster_group) * tile_n;
        trace(ag, TraceKind::Compute, t);
        Acc<64, tile_n> acc;
        for (i64 k = 0; k < k_blocks; k += 1) {
            barrier_wait(ag, sh.ab_full[ab.slot], ab.phase);
            mma_begin(ag, acc);
            mma_issue<tile_n, 1, bf16>(ag, acc, sh.a_stage[ab.slot], 64, sh.b_stage[ab.slot], k != 0);
            mma_commit(ag);
            mma_wait<0>(ag, acc);
            cluster_arrive<cluster>(ag, sh.ab_empty[ab.slot]);
            ab.advance();
        }
        trace(ag, TraceKind::Store, t);
        bulk_wait_read<1>(ag);
        agent_sync(ag);
        stage_box<bf16>(ag, sh.c_box[2], acc, 0, 0);
        fence_async_shared(ag);
        agent_sync(ag);
        store_box<64, 64, bf16>(ag, args.c_map[0], sh.c_box[2], col, row + 64, 0);
        bulk_commit(ag);
        bulk_wait_read<1>(ag);
        agent_sync(ag);
        stage_box<bf16>(ag, sh.c_box[3], acc, 0, 64);
        fence_async_shared(ag);
        agent_sync(ag);
        store_box<64, 64, bf16>(ag, args.c_map[0], sh.c_box[3], col + 64, row + 64, 0);
        bulk_commit(ag);
        bulk_wait_read<1>(ag);
        agent_sync(ag);
        stage_box<bf16>(ag, sh.c_box[2], acc, 0, 128);
        fence_async_shared(ag);
        agent_sync(ag);
        store_box<64, 64, bf16>(ag, args.c_map[0], sh.c_box[2], col + 128, row + 64, 0);
        bulk_commit(ag);
        bulk_wait_read<1>(ag);
        agent_sync(ag);
        stage_box<bf16>(ag, sh.c_box[3], acc, 0, 192);
        fence_async_shared(ag);
        agent_sync(ag);
        store_box<64, 64, bf16>(ag, args.c_map[0], sh.c_box[3], col + 192, row + 64, 0);
        bulk_commit(ag);
    }
    trace(ag, TraceKind::Idle, 0);
    // the kernel ends only after every store is complete
    bulk_wait<0>(ag);
}

}  // namespace

// ---- entry
extern "C" __global__ void __cluster_dims__(2, 1, 1) __launch_bounds__(384, 1) plait_kernel(const __grid_constant__ Args args) {
    Shared& sh = shared_memory<Shared>();
    Agent ag = make_agent();
    if (ag.is_thread(0, 0)) {
        for (i64 i = 0; i < 4; i += 1) barrier_init(ag, sh.ab_full[i], 1);
        for (i64 i = 0; i < 4; i += 1) barrier_init(ag, sh.ab_empty[i], 4 * kWarpgroupArrivals);
        fence_barrier_init(ag);
    }
    cluster_barrier(ag);
    if (ag.warpgroup == 0) {
        registers_producer<40>();
        if (ag.is_thread(0, 0)) {
            // loader
            compute_loader(ag, args, sh);
        }
    }
    if (ag.warpgroup == 1) {
        registers_consumer<232>();
        compute_consumer0(ag, args, sh);
    }
    if (ag.warpgroup == 2) {
        registers_consumer<232>();
        compute_consumer1(ag, args, sh);
    }
}
