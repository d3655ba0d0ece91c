// plait grouped_matmul: M <= 2048, 1 rank = 1 node x 1, target sm_90a
// role compute: sms
#include "sm90/machine.cuh"   // the tile machine in PTX
#include "kernel_shapes.h"   // instruction text of the shapes below, one file a machine

using namespace plait;

namespace {

constexpr i64 world = 1;
constexpr i64 nodes = 1;
constexpr i64 locals = 1;
constexpr i64 N = 520;
constexpr i64 K = 456;
constexpr i64 tile_m = 128;
constexpr i64 tile_n = 256;
constexpr i64 tile_k = 64;
constexpr i64 k_blocks = 8;
constexpr i64 stages = 4;
constexpr i64 col_tiles = 3;
constexpr i64 raster_group = 16;

struct Args {
    Launch launch;
    const bf16* x;   // [M, K]
    const bf16* w;   // [experts, N, K]
    const i32* offs;   // [experts]
    bf16* out;   // [M, N]
    i64 experts;   // <= 256
    TensorMap x_map[1];
    TensorMap w_map[1];
    TensorMap out_map[1];
};
PLAIT_AT_OFFSET(Args, launch, 0);
PLAIT_AT_OFFSET(Args, x, 240);
PLAIT_AT_OFFSET(Args, w, 248);
PLAIT_AT_OFFSET(Args, offs, 256);
PLAIT_AT_OFFSET(Args, out, 264);
PLAIT_AT_OFFSET(Args, experts, 272);
PLAIT_AT_OFFSET(Args, x_map, 320);
PLAIT_AT_OFFSET(Args, w_map, 448);
PLAIT_AT_OFFSET(Args, out_map, 576);
static_assert(sizeof(Args) == 704);

struct Shared {
    alignas(1024) Bytes<16384> a_stage[4];
    alignas(1024) Bytes<32768> b_stage[4];
    alignas(1024) Bytes<8192> out_box[4];
    alignas(16) i64 tile_row[2];
    alignas(16) i64 tile_rows[2];
    alignas(16) i64 tile_col[2];
    Barrier ab_full[4];
    Barrier ab_empty[4];
    Barrier tile_full[2];
    Barrier tile_empty[2];
};
static_assert(sizeof(Shared) == 230400);

// ---- role compute, agent loader, every CTA
PLAIT_AGENT void compute_loader(Agent& ag, const Args& args, Shared& sh) {
    const i64 M = args.launch.m;
    const i64 experts = args.experts;
    Pipe<stages> ab;
    Pipe<2> ring;
    i64 t = 0;
    i64 expert = 0;
    i64 before = 0;
    i64 first = 0;
    i64 row = 0;
    i64 col = 0;
    i64 rows = 0;
    // ends of segments ascend, and the last one is M
    const i64 head = load_value(ag, args, args.offs, 0, experts == 1 ? M : 0, M, 0);
    i64 end = head;
    for (;;) {
        const i64 fetched = fetch_tile(ag, args);
        t = fetched;
        for (;;) {
            if (t - before < ceil_div(end - first, tile_m) * col_tiles || expert + 1 >= experts) break;
            before = before + ceil_div(end - first, tile_m) * col_tiles;
            first = end;
            expert = expert + 1;
            const i64 next_end = load_value(ag, args, args.offs, expert, expert + 1 == experts ? M : first, M, 1);
            end = next_end;
        }
        rows = 0;
        if (t - before < ceil_div(end - first, tile_m) * col_tiles) {
            row = first + raster_row(t - before, ceil_div(end - first, tile_m), col_tiles, raster_group) * tile_m;
            col = raster_col(t - before, ceil_div(end - first, tile_m), col_tiles, raster_group) * tile_n;
            rows = min(tile_m, end - row);
        }
        barrier_wait(ag, sh.tile_empty[ring.slot], ring.phase ^ 1);
        ring_put(ag, sh.tile_row[ring.slot], row);
        ring_put(ag, sh.tile_rows[ring.slot], rows);
        ring_put(ag, sh.tile_col[ring.slot], col);
        barrier_arrive(ag, sh.tile_full[ring.slot]);
        ring.advance();
        if (rows == 0) break;
        trace(ag, TraceKind::Load, t);
        // rows behind the segment's end are loaded with it and never stored
        #pragma unroll 1
        for (i64 k = 0; k < k_blocks; k += 1) {
            barrier_wait(ag, sh.ab_empty[ab.slot], ab.phase ^ 1);
            barrier_expect(ag, sh.ab_full[ab.slot], 49152);
            load_boxes<tile_m, 64, bf16>(ag, sh.a_stage[ab.slot], args.x_map[0], k * tile_k, row, 0, sh.ab_full[ab.slot]);
            load_boxes<tile_n, 64, bf16>(ag, sh.b_stage[ab.slot], args.w_map[0], k * tile_k, col, expert, sh.ab_full[ab.slot]);
            ab.advance();
        }
    }
    trace(ag, TraceKind::Idle, 0);
}

// ---- role compute, agent consumer0, every CTA
PLAIT_AGENT void compute_consumer0(Agent& ag, const Args& args, Shared& sh) {
    const i64 M = args.launch.m;
    Pipe<stages> ab;
    Pipe<2> ring;
    for (;;) {
        barrier_wait(ag, sh.tile_full[ring.slot], ring.phase);
        const i64 row = ring_get(ag, sh.tile_row[ring.slot]);
        const i64 rows = ring_get(ag, sh.tile_rows[ring.slot]);
        const i64 col = ring_get(ag, sh.tile_col[ring.slot]);
        barrier_arrive(ag, sh.tile_empty[ring.slot]);
        ring.advance();
        if (rows == 0) break;
        // rows of this warpgroup that belong to the segment
        const i64 own = min(64, rows - 0);
        if (own > 0) {
            trace(ag, TraceKind::Compute, row);
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
            trace(ag, TraceKind::Store, row);
            bulk_wait_read<1>(ag);
            agent_sync(ag);
            stage_box<bf16>(ag, sh.out_box[0], acc, 0, 0);
            fence_async_shared(ag);
            agent_sync(ag);
            if (own >= 64) {
                store_box<64, 64, bf16>(ag, args.out_map[0], sh.out_box[0], col, row, 0);
            }
            if (own < 64) {
                store_rows<bf16>(ag, args.out, sh.out_box[0], row, col, own, N);
            }
            bulk_commit(ag);
            bulk_wait_read<1>(ag);
            agent_sync(ag);
            stage_box<bf16>(ag, sh.out_box[1], acc, 0, 64);
            fence_async_shared(ag);
            agent_sync(ag);
            if (own >= 64) {
                store_box<64, 64, bf16>(ag, args.out_map[0], sh.out_box[1], col + 64, row, 0);
            }
            if (own < 64) {
                store_rows<bf16>(ag, args.out, sh.out_box[1], row, col + 64, own, N);
            }
            bulk_commit(ag);
            bulk_wait_read<1>(ag);
            agent_sync(ag);
            stage_box<bf16>(ag, sh.out_box[0], acc, 0, 128);
            fence_async_shared(ag);
            agent_sync(ag);
            if (own >= 64) {
                store_box<64, 64, bf16>(ag, args.out_map[0], sh.out_box[0], col + 128, row, 0);
            }
            if (own < 64) {
                store_rows<bf16>(ag, args.out, sh.out_box[0], row, col + 128, own, N);
            }
            bulk_commit(ag);
            bulk_wait_read<1>(ag);
            agent_sync(ag);
            stage_box<bf16>(ag, sh.out_box[1], acc, 0, 192);
            fence_async_shared(ag);
            agent_sync(ag);
            if (own >= 64) {
                store_box<64, 64, bf16>(ag, args.out_map[0], sh.out_box[1], col + 192, row, 0);
            }
            if (own < 64) {
                store_rows<bf16>(ag, args.out, sh.out_box[1], row, col + 192, own, N);
            }
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
    Pipe<stages> ab;
    Pipe<2> ring;
    for (;;) {
        barrier_wait(ag, sh.tile_full[ring.slot], ring.phase);
        const i64 row = ring_get(ag, sh.tile_row[ring.slot]);
        const i64 rows = ring_get(ag, sh.tile_rows[ring.slot]);
        const i64 col = ring_get(ag, sh.tile_col[ring.slot]);
        barrier_arrive(ag, sh.tile_empty[ring.slot]);
        ring.advance();
        if (rows == 0) break;
        // rows of this warpgroup that belong to the segment
        const i64 own = min(64, rows - 64);
        if (own > 0) {
            trace(ag, TraceKind::Compute, row);
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
            trace(ag, TraceKind::Store, row);
            bulk_wait_read<1>(ag);
            agent_sync(ag);
            stage_box<bf16>(ag, sh.out_box[2], acc, 0, 0);
            fence_async_shared(ag);
            agent_sync(ag);
            if (own >= 64) {
                store_box<64, 64, bf16>(ag, args.out_map[0], sh.out_box[2], col, row + 64, 0);
            }
            if (own < 64) {
                store_rows<bf16>(ag, args.out, sh.out_box[2], row + 64, col, own, N);
            }
            bulk_commit(ag);
            bulk_wait_read<1>(ag);
            agent_sync(ag);
            stage_box<bf16>(ag, sh.out_box[3], acc, 0, 64);
            fence_async_shared(ag);
            agent_sync(ag);
            if (own >= 64) {
                store_box<64, 64, bf16>(ag, args.out_map[0], sh.out_box[3], col + 64, row + 64, 0);
            }
            if (own < 64) {
                store_rows<bf16>(ag, args.out, sh.out_box[3], row + 64, col + 64, own, N);
            }
            bulk_commit(ag);
            bulk_wait_read<1>(ag);
            agent_sync(ag);
            stage_box<bf16>(ag, sh.out_box[2], acc, 0, 128);
            fence_async_shared(ag);
            agent_sync(ag);
            if (own >= 64) {
                store_box<64, 64, bf16>(ag, args.out_map[0], sh.out_box[2], col + 128, row + 64, 0);
            }
            if (own < 64) {
                store_rows<bf16>(ag, args.out, sh.out_box[2], row + 64, col + 128, own, N);
            }
            bulk_commit(ag);
            bulk_wait_read<1>(ag);
            agent_sync(ag);
            stage_box<bf16>(ag, sh.out_box[3], acc, 0, 192);
            fence_async_shared(ag);
            agent_sync(ag);
            if (own >= 64) {
                store_box<64, 64, bf16>(ag, args.out_map[0], sh.out_box[3], col + 192, row + 64, 0);
            }
            if (own < 64) {
                store_rows<bf16>(ag, args.out, sh.out_box[3], row + 64, col + 192, own, N);
            }
            bulk_commit(ag);
        }
        if (own <= 0) {
            for (i64 k = 0; k < k_blocks; k += 1) {
                barrier_wait(ag, sh.ab_full[ab.slot], ab.phase);
                barrier_arrive(ag, sh.ab_empty[ab.slot]);
                ab.advance();
            }
        }
    }
    trace(ag, TraceKind::Idle, 0);
    // the kernel ends only after every store is complete
    bulk_wait<0>(ag);
}

// ---- outputs of a launch that was given up
PLAIT_AGENT void invalidate_outputs(Agent& ag, const Args& args) {
    const i64 M = args.launch.m;
    fill_nan(ag, args.out, M * N);
}

}  // namespace

// ---- entry
extern "C" __global__ void __launch_bounds__(384, 1) plait_kernel(const __grid_constant__ Args args) {
    Shared& sh = shared_memory<Shared>();
    Agent ag = make_agent();
    if (ag.is_thread(0, 0)) {
        count_in(ag, args);
        for (i64 i = 0; i < 4; i += 1) barrier_init(ag, sh.ab_full[i], 1);
        for (i64 i = 0; i < 4; i += 1) barrier_init(ag, sh.ab_empty[i], 2 * kWarpgroupArrivals);
        for (i64 i = 0; i < 2; i += 1) barrier_init(ag, sh.tile_full[i], 1);
        for (i64 i = 0; i < 2; i += 1) barrier_init(ag, sh.tile_empty[i], 2 * kWarpgroupArrivals);
        fence_barrier_init(ag);
    }
    cta_barrier(ag);
    if (ag.warpgroup == 0) {
        registers_producer<72>();
        if (ag.is_thread(0, 0)) {
            // loader
            compute_loader(ag, args, sh);
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
