// plait attention: M <= 8192, 1 rank = 1 node x 1, target sm_90a
// role compute: sms
#include "sm90/machine.cuh"   // the tile machine in PTX
#include "kernel_shapes.h"   // instruction text of the shapes below, one file a machine

using namespace plait;

namespace {

constexpr i64 world = 1;
constexpr i64 nodes = 1;
constexpr i64 locals = 1;
constexpr i64 heads = 32;
constexpr i64 kv_heads = 32;
constexpr i64 heads_per_kv = 1;
constexpr i64 head_dim = 64;
constexpr i64 tile_m = 192;
constexpr i64 key_block = 128;
constexpr i64 stages = 2;

struct Args {
    Launch launch;
    const bf16* q;   // [batch, M, heads, head_dim]
    const bf16* k;   // [batch, keys, kv_heads, head_dim]
    const bf16* v;   // [batch, keys, kv_heads, head_dim]
    bf16* o;   // [batch, M, heads, head_dim]
    f32* lse;   // [batch, heads, M]
    i64 batch;   // <= 16
    i64 keys;   // <= 8192
    TensorMap q_map[1];
    TensorMap k_map[1];
    TensorMap v_map[1];
    TensorMap o_map[1];
};
PLAIT_AT_OFFSET(Args, launch, 0);
PLAIT_AT_OFFSET(Args, q, 240);
PLAIT_AT_OFFSET(Args, k, 248);
PLAIT_AT_OFFSET(Args, v, 256);
PLAIT_AT_OFFSET(Args, o, 264);
PLAIT_AT_OFFSET(Args, lse, 272);
PLAIT_AT_OFFSET(Args, batch, 280);
PLAIT_AT_OFFSET(Args, keys, 288);
PLAIT_AT_OFFSET(Args, q_map, 320);
PLAIT_AT_OFFSET(Args, k_map, 448);
PLAIT_AT_OFFSET(Args, v_map, 576);
PLAIT_AT_OFFSET(Args, o_map, 704);
static_assert(sizeof(Args) == 832);

struct Shared {
    alignas(1024) Bytes<24576> q_stage[1];
    alignas(1024) Bytes<16384> k_stage[2];
    alignas(1024) Bytes<8192> v_stage[4];
    alignas(1024) Bytes<8192> o_box[3];
    alignas(16) i64 tile_slot[4];
    Barrier q_full[1];
    Barrier q_empty[1];
    Barrier k_full[2];
    Barrier k_empty[2];
    Barrier v_full[2];
    Barrier v_empty[2];
    Barrier tile_full[2];
    Barrier tile_empty[2];
};
static_assert(sizeof(Shared) == 115712);

// ---- role compute, agent loader, every CTA
PLAIT_AGENT void compute_loader(Agent& ag, const Args& args, Shared& sh) {
    const i64 M = args.launch.m;
    const i64 batch = args.batch;
    const i64 keys = args.keys;
    const i64 row_tiles = ceil_div(M, tile_m);
    const i64 group = max(1, min(batch * kv_heads, 131072 / max(1, keys))) * heads_per_kv;
    const i64 tiles = batch * heads * row_tiles;
    Pipe<1> query;
    Pipe<stages> key;
    Pipe<stages> value;
    Pipe<2> ring;
    for (;;) {
        const i64 t = fetch_tile(ag, args);
        barrier_wait(ag, sh.tile_empty[ring.slot], ring.phase ^ 1);
        // no more tiles
        if (t >= tiles) {
            ring_put(ag, sh.tile_slot[ring.slot * 2], -1);
            barrier_arrive(ag, sh.tile_full[ring.slot]);
        }
        if (t >= tiles) break;
        const i64 head = raster_row(t, batch * heads, row_tiles, group);
        // longest rows first: short ones fill the gaps at the end
        const i64 row = (row_tiles - 1 - raster_col(t, batch * heads, row_tiles, group)) * tile_m;
        ring_put(ag, sh.tile_slot[ring.slot * 2], row);
        ring_put(ag, sh.tile_slot[ring.slot * 2 + 1], head);
        barrier_arrive(ag, sh.tile_full[ring.slot]);
        ring.advance();
        const i64 sequence = head / heads;
        const i64 h = head % heads;
        const i64 kv = h / heads_per_kv;
        const i64 blocks = ceil_div(min(keys, max(0, min(row + tile_m, M) + 128)), key_block);
        // rows that see no key load nothing
        if (blocks > 0) {
            trace(ag, TraceKind::Load, t);
            barrier_wait(ag, sh.q_empty[query.slot], query.phase ^ 1);
            barrier_expect(ag, sh.q_full[query.slot], 24576);
            load_boxes<tile_m, 64, bf16>(ag, sh.q_stage[0], args.q_map[0], h * head_dim, row, sequence, sh.q_full[query.slot]);
            query.advance();
            // from the last block down; keys run one block ahead of values, as the consumers do
            const i64 last = (blocks - 1) * key_block;
            barrier_wait(ag, sh.k_empty[key.slot], key.phase ^ 1);
            barrier_expect(ag, sh.k_full[key.slot], 16384);
            load_boxes<key_block, 64, bf16>(ag, sh.k_stage[key.slot], args.k_map[0], kv * head_dim, last, sequence, sh.k_full[key.slot]);
            key.advance();
            for (i64 back = key_block; back < last + 1; back += key_block) {
                const i64 start = last - back;
                barrier_wait(ag, sh.k_empty[key.slot], key.phase ^ 1);
                barrier_expect(ag, sh.k_full[key.slot], 16384);
                load_boxes<key_block, 64, bf16>(ag, sh.k_stage[key.slot], args.k_map[0], kv * head_dim, start, sequence, sh.k_full[key.slot]);
                key.advance();
                barrier_wait(ag, sh.v_empty[value.slot], value.phase ^ 1);
                barrier_expect(ag, sh.v_full[value.slot], 16384);
                load_boxes<64, head_dim, bf16>(ag, sh.v_stage[value.slot * 2], args.v_map[0], kv * head_dim, start + key_block, sequence, sh.v_full[value.slot]);
                load_boxes<64, head_dim, bf16>(ag, sh.v_stage[value.slot * 2 + 1], args.v_map[0], kv * head_dim, start + key_block + 64, sequence, sh.v_full[value.slot]);
                value.advance();
            }
            barrier_wait(ag, sh.v_empty[value.slot], value.phase ^ 1);
            barrier_expect(ag, sh.v_full[value.slot], 16384);
            load_boxes<64, head_dim, bf16>(ag, sh.v_stage[value.slot * 2], args.v_map[0], kv * head_dim, 0, sequence, sh.v_full[value.slot]);
            load_boxes<64, head_dim, bf16>(ag, sh.v_stage[value.slot * 2 + 1], args.v_map[0], kv * head_dim, 64, sequence, sh.v_full[value.slot]);
            value.advance();
        }
    }
    trace(ag, TraceKind::Idle, 0);
}

// ---- role compute, agent consumer0, consumer1, consumer2, every CTA
PLAIT_AGENT void compute_consumer(Agent& ag, const Args& args, Shared& sh) {
    const i64 M = args.launch.m;
    const i64 warpgroup = ag.warpgroup;
    const i64 keys = args.keys;
    const i64 consumer = warpgroup - 1;
    const i64 offset = consumer * 64;
    Pipe<1> query;
    Pipe<stages> key;
    Pipe<stages> value;
    Pipe<2> ring;
    const i64 next = consumer == 2 ? 0 : consumer + 1;
    // consumer0 has the first turn
    if (next == 0) {
        turn_pass(ag, next);
    }
    for (;;) {
        barrier_wait(ag, sh.tile_full[ring.slot], ring.phase);
        const i64 row = ring_get(ag, sh.tile_slot[ring.slot * 2]);
        if (row < 0) break;
        const i64 blocks = ceil_div(min(keys, max(0, min(row + tile_m, M) + 128)), key_block);
        trace(ag, TraceKind::Compute, row);
        // unscaled result, running maximum and partial row sums
        Acc<64, head_dim> out;
        acc_fill(ag, out, 0.0f);
        Row<64> maximum(ag, kLowest);
        RowPart<64> total(ag);
        Row<64> factor(ag, 1.0f);
        Acc<64, key_block> score;
        Operand<64, key_block, bf16> weights0(ag);
        if (blocks > 0) {
            // blocks that one of these 64 rows sees; the others are the tile's
            const i64 seen = min(blocks, ceil_div(min(keys, max(1, min(row + offset + 64, M) + 128)), key_block));
            for (i64 i = 0; i < blocks - seen; i += 1) {
                barrier_wait(ag, sh.k_full[key.slot], key.phase);
                barrier_arrive(ag, sh.k_empty[key.slot]);
                key.advance();
                barrier_wait(ag, sh.v_full[value.slot], value.phase);
                barrier_arrive(ag, sh.v_empty[value.slot]);
                value.advance();
                turn_wait(ag, consumer);
                turn_pass(ag, next);
            }
            // blocks that need no mask; the first one is always masked
            const i64 plain = max(0, min(min(keys, max(0, row + offset + 129)) / key_block, seen - 1));
            barrier_wait(ag, sh.q_full[query.slot], query.phase);
            barrier_wait(ag, sh.k_full[key.slot], key.phase);
            turn_wait(ag, consumer);
            mma_begin(ag, score);
            mma_issue<key_block, 0, bf16, 1>(ag, score, sh.q_stage[0], offset, sh.k_stage[key.slot], 0);
            mma_commit(ag);
            turn_pass(ag, next);
            mma_wait<0>(ag, score);
            barrier_arrive(ag, sh.k_empty[key.slot]);
            key.advance();
            const i64 last = (seen - 1) * key_block;
            mask_cols(ag, score, row + offset - last + 128, keys - last);
            row_rescale(ag, factor, maximum, score, 0.18033688f, 8.0f);
            exp2_rows(ag, score, 0.18033688f, maximum);
            row_sum(ag, total, factor, score);
            as_operand(ag, weights0, score);
            for (i64 i = 1; i < seen - plain; i += 1) {
                barrier_wait(ag, sh.v_full[value.slot], value.phase);
                barrier_wait(ag, sh.k_full[key.slot], key.phase);
                turn_wait(ag, consumer);
                mma_begin(ag, score);
                mma_issue<key_block, 0, bf16, 1>(ag, score, sh.q_stage[0], offset, sh.k_stage[key.slot], 0);
                mma_commit(ag);
                mma_begin(ag, out);
                mma_issue_operand<head_dim, 1, bf16>(ag, out, weights0, sh.v_stage[value.slot * 2], 1);
                mma_commit(ag);
                turn_pass(ag, next);
                mma_wait<0>(ag, score, out, weights0);
                barrier_arrive(ag, sh.k_empty[key.slot]);
                key.advance();
                barrier_arrive(ag, sh.v_empty[value.slot]);
                value.advance();
                const i64 start = (seen - 1 - i) * key_block;
                mask_cols(ag, score, row + offset - start + 128, keys - start);
                row_rescale(ag, factor, maximum, score, 0.18033688f, 8.0f);
                exp2_rows(ag, score, 0.18033688f, maximum);
                row_sum(ag, total, factor, score);
                as_operand(ag, weights0, score);
                scale_rows(ag, out, factor);
            }
            for (i64 i = 0; i < plain; i += 1) {
                barrier_wait(ag, sh.v_full[value.slot], value.phase);
                barrier_wait(ag, sh.k_full[key.slot], key.phase);
                turn_wait(ag, consumer);
                mma_begin(ag, score);
                mma_issue<key_block, 0, bf16, 1>(ag, score, sh.q_stage[0], offset, sh.k_stage[key.slot], 0);
                mma_commit(ag);
                mma_begin(ag, out);
                mma_issue_operand<head_dim, 1, bf16>(ag, out, weights0, sh.v_stage[value.slot * 2], 1);
                mma_commit(ag);
                turn_pass(ag, next);
                mma_wait<0>(ag, score, out, weights0);
                barrier_arrive(ag, sh.k_empty[key.slot]);
                key.advance();
                barrier_arrive(ag, sh.v_empty[value.slot]);
                value.advance();
                softmax_operand(ag, weights0, factor, maximum, total, score, 0.18033688f, 8.0f);
                scale_rows(ag, out, factor);
            }
            barrier_arrive(ag, sh.q_empty[query.slot]);
            query.advance();
            barrier_wait(ag, sh.v_full[value.slot], value.phase);
            mma_begin(ag, out);
            mma_issue_operand<head_dim, 1, bf16>(ag, out, weights0, sh.v_stage[value.slot * 2], 1);
            mma_commit(ag);
            mma_wait<0>(ag, out, weights0);
            barrier_arrive(ag, sh.v_empty[value.slot]);
            value.advance();
        }
        // where the result goes
        const i64 head = ring_get(ag, sh.tile_slot[ring.slot * 2 + 1]);
        const i64 tile = ring_get(ag, sh.tile_slot[ring.slot * 2]);
        const i64 first = tile + offset;
        barrier_arrive(ag, sh.tile_empty[ring.slot]);
        ring.advance();
        trace(ag, TraceKind::Store, head);
        Row<64> sum(ag, 0.0f);
        finish_rows(ag, sum, total);
        store_log_sum_exp(ag, args.lse, maximum, sum, head * M + first, max(0, min(64, M - first)));
        divide_rows(ag, out, sum);
        bulk_wait_read<0>(ag);
        agent_sync(ag);
        stage_box<bf16>(ag, sh.o_box[consumer], out, 0, 0);
        fence_async_shared(ag);
        agent_sync(ag);
        store_box<64, 64, bf16>(ag, args.o_map[0], sh.o_box[consumer], head % heads * head_dim, first, head / heads);
        bulk_commit(ag);
    }
    // the last turn, which nobody else wants
    if (consumer == 0) {
        turn_wait(ag, consumer);
    }
    trace(ag, TraceKind::Idle, 0);
    // the kernel ends only after every store is complete
    bulk_wait<0>(ag);
}

// ---- outputs of a launch that was given up
PLAIT_AGENT void invalidate_outputs(Agent& ag, const Args& args) {
    const i64 M = args.launch.m;
    const i64 batch = args.batch;
    fill_nan(ag, args.o, batch * M * heads * head_dim);
    fill_nan(ag, args.lse, batch * heads * M);
}

}  // namespace

// ---- entry
extern "C" __global__ void __launch_bounds__(512, 1) plait_kernel(const __grid_constant__ Args args) {
    Shared& sh = shared_memory<Shared>();
    Agent ag = make_agent();
    if (ag.is_thread(0, 0)) {
        count_in(ag, args);
        for (i64 i = 0; i < 1; i += 1) barrier_init(ag, sh.q_full[i], 1);
        for (i64 i = 0; i < 1; i += 1) barrier_init(ag, sh.q_empty[i], 3 * kWarpgroupArrivals);
        for (i64 i = 0; i < 2; i += 1) barrier_init(ag, sh.k_full[i], 1);
        for (i64 i = 0; i < 2; i += 1) barrier_init(ag, sh.k_empty[i], 3 * kWarpgroupArrivals);
        for (i64 i = 0; i < 2; i += 1) barrier_init(ag, sh.v_full[i], 1);
        for (i64 i = 0; i < 2; i += 1) barrier_init(ag, sh.v_empty[i], 3 * kWarpgroupArrivals);
        for (i64 i = 0; i < 2; i += 1) barrier_init(ag, sh.tile_full[i], 1);
        for (i64 i = 0; i < 2; i += 1) barrier_init(ag, sh.tile_empty[i], 3 * kWarpgroupArrivals);
        fence_barrier_init(ag);
    }
    cta_barrier(ag);
    if (ag.warpgroup == 0) {
        registers_producer<32>();
        if (ag.is_thread(0, 0)) {
            // loader
            compute_loader(ag, args, sh);
        }
    }
    if (1 <= ag.warpgroup && ag.warpgroup <= 3) {
        registers_consumer<160>();
        compute_consumer(ag, args, sh);
    }
    cta_barrier(ag);
    if (cta_any(ag, ag.is_thread(0, 0) && leave(ag, args))) invalidate_outputs(ag, args);
}
