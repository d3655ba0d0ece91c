// plait matmul: M <= 2048, 1 rank = 1 node x 1, target host
// role compute: sms
#include "host/machine.h"   // the tile machine over runtime/sim's C table
#include "kernel_shapes.h"   // instruction text of the shapes below, one file a machine

using namespace plait;

namespace {

constexpr i64 world = 1;
constexpr i64 nodes = 1;
constexpr i64 locals = 1;
constexpr i64 N = 1024;
constexpr i64 K = 1024;
constexpr i64 tile_m = 128;
constexpr i64 tile_n = 128;
constexpr i64 tile_k = 64;
constexpr i64 k_blocks = 16;
constexpr i64 stages = 6;
constexpr i64 col_tiles = 8;
constexpr i64 raster_group = 16;

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
    alignas(1024) Bytes<16384> a_stage[6];
    alignas(1024) Bytes<16384> b_stage[6];
    alignas(1024) Bytes<8192> c_box[4];
    Barrier ab_full[6];
    Barrier ab_empty[6];
};
static_assert(sizeof(Shared) == 230400);

// ---- role compute, agent loader, every CTA
PLAIT_AGENT void compute_loader(Agent& ag, const Args& args, Shared& sh) {
    const i64 M = args.launch.m;
    const i64 cta = ag.cta;
    const i64 ctas = ag.ctas;
    const i64 a_rows = M;
    const i64 row_tiles = ceil_div(a_rows, tile_m);
    const i64 tiles = row_tiles * col_tiles;
    Pipe<stages> ab;
    for (i64 t = cta; t < tiles; t += ctas) {
        const i64 row = raster_row(t, row_tiles, col_tiles, raster_group) * tile_m;
        const i64 col = raster_col(t, row_tiles, col_tiles, raster_group) * tile_n;
        trace(ag, TraceKind::Load, t);
        #pragma unroll 1
        for (i64 k = 0; k < k_blocks; k += 1) {
            barrier_wait(ag, sh.ab_empty[ab.slot], ab.phase ^ 1);
            barrier_expect(ag, sh.ab_full[ab.slot], 32768);
            load_boxes<tile_m, 64, bf16>(ag, sh.a_stage[ab.slot], args.a_map[0], k * tile_k, row, 0, sh.ab_full[ab.slot]);
            load_boxes<64, tile_n, bf16>(ag, sh.b_stage[ab.slot], args.b_map[0], col, k * tile_k, 0, sh.ab_full[ab.slot]);
            ab.advance();
        }
    }
    trace(ag, TraceKind::Idle, 0);
}

// ---- role compute, agent consumer0, every CTA
PLAIT_AGENT void compute_consumer0(Agent& ag, const Args& args, Shared& sh) {
    const i64 M = args.launch.m;
    const i64 cta = ag.cta;
    const i64 ctas = ag.ctas;
    const i64 a_rows = M;
    const i64 row_tiles = ceil_div(a_rows, tile_m);
    const i64 tiles = row_tiles * col_tiles;
    Pipe<stages> ab;
    for (i64 t = cta; t < tiles; t += ctas) {
        const i64 row = raster_row(t, row_tiles, col_tiles, raster_group) * tile_m;
        const i64 col = raster_col(t, row_tiles, col_tiles, raster_group) * tile_n;
        trace(ag, TraceKind::Compute, t);
        Acc<64, tile_n> acc;
        for (i64 k = 0; k < k_blocks; k += 1) {
            barrier_wait(ag, sh.ab_full[ab.slot], ab.phase);
            mma_begin(ag, acc);
            mma_issue<tile_n, 1, bf16>(ag, acc, sh.a_stage[ab.slot], 0, sh.b_stage[ab.slot], k != 0);
            mma_commit(ag);
            mma_wait<0>(ag, acc);
            barrier_arrive(ag, sh.ab_empty[ab.slot]);
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
    const i64 row_tiles = ceil_div(a_rows, tile_m);
    const i64 tiles = row_tiles * col_tiles;
    Pipe<stages> ab;
    for (i64 t = cta; t < tiles; t += ctas) {
        const i64 row = raster_row(t, row_tiles, col_tiles, raster_group) * tile_m;
        const i64 col = raster_col(t, row_tiles, col_tiles, raster_group) * tile_n;
        trace(ag, TraceKind::Compute, t);
        Acc<64, tile_n> acc;
        for (i64 k = 0; k < k_blocks; k += 1) {
            barrier_wait(ag, sh.ab_full[ab.slot], ab.phase);
            mma_begin(ag, acc);
            mma_issue<tile_n, 1, bf16>(ag, acc, sh.a_stage[ab.slot], 64, sh.b_stage[ab.slot], k != 0);
            mma_commit(ag);
            mma_wait<0>(ag, acc);
            barrier_arrive(ag, sh.ab_empty[ab.slot]);
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
    }
    trace(ag, TraceKind::Idle, 0);
    // the kernel ends only after every store is complete
    bulk_wait<0>(ag);
}

}  // namespace

// ---- entry
extern "C" void plait_kernel(const plait::HostCta* host_cta, const void* launch_args) {
    const Args& args = *static_cast<const Args*>(launch_args);
    Shared& sh = *static_cast<Shared*>(host_cta->shared);
    constexpr bool thread_agents[] = {true, false, false};
    Agent ag = make_agent(*host_cta, thread_agents[host_cta->agent_index]);
    if (host_cta->agent_index == 0) {
        for (i64 i = 0; i < 6; i += 1) barrier_init(ag, sh.ab_full[i], 1);
        for (i64 i = 0; i < 6; i += 1) barrier_init(ag, sh.ab_empty[i], 2 * kWarpgroupArrivals);
        fence_barrier_init(ag);
    }
    cta_barrier(ag);
    switch (host_cta->agent_index) {
        case 0: {
            // loader
            compute_loader(ag, args, sh);
            break;
        }
        case 1: {
            // consumer0
            compute_consumer0(ag, args, sh);
            break;
        }
        case 2: {
            // consumer1
            compute_consumer1(ag, args, sh);
            break;
        }
    }
}
