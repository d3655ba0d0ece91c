// plait attention: M <= 8192, 1 rank = 1 node x 1, target host
// role compute: sms
#include "host/machine.h"   // the tile machine over runtime/sim's C table
#include "kernel_shapes.h"   // instruction text of the shapes below, one file a machine

using namespace plait;

namespace {

constexpr i64 world = 1;
constexpr i64 nodes = 1;
constexpr i64 locals = 1;
constexpr i64 heads = 16;
constexpr i64 kv_heads = 16;
constexpr i64 heads_per_kv = 1;
constexpr i64 head_dim = 256;
constexpr i64 tile_m = 128;
constexpr i64 key_block = 64;
constexpr i64 stages = 2;

struct Args {
    Launch launch;
    const bf16* q;   // [batch, heads, M, head_dim]
    const bf16* k;   // [batch, kv_heads, keys, head_dim]
    const bf16* v;   // [batch, kv_heads, keys, head_dim]
    bf16* o;   // [batch, heads, M, head_dim]
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
PLAIT_AT_OFFSET(Args, batch, 272);
PLAIT_AT_OFFSET(Args, keys, 280);
PLAIT_AT_OFFSET(Args, q_map, 320);
PLAIT_AT_OFFSET(Args, k_map, 448);
PLAIT_AT_OFFSET(Args, v_map, 576);
PLAIT_AT_OFFSET(Args, o_map, 704);
static_assert(sizeof(Args) == 832);

struct Shared {
    alignas(1024) Bytes<16384> q_stage[4];
    alignas(1024) Bytes<8192> k_stage[8];
    alignas(1024) Bytes<32768> v_stage[2];
    alignas(1024) Bytes<8192> o_box[4];
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
static_assert(sizeof(Shared) == 230400);

// ---- role compute, agent loader, every CTA
PLAIT_AGENT void compute_loader(Agent& ag, const Args& args, Shared& sh) {
    const i64 M = args.launch.m;
    const i64 batch = args.batch;
    const i64 keys = args.keys;
    const i64 row_tiles = ceil_div(M, tile_m);
    const i64 group = 1;
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
        const i64 row = raster_col(t, batch * heads, row_tiles, group) * tile_m;
        ring_put(ag, sh.tile_slot[ring.slot * 2], row);
        ring_put(ag, sh.tile_slot[ring.slot * 2 + 1], head);
        barrier_arrive(ag, sh.tile_full[ring.slot]);
        ring.advance();
        const i64 sequence = head / heads;
        const i64 h = head % heads;
        const i64 kv = h / heads_per_kv;
        const i64 blocks = ceil_div(keys, key_block);
        // rows that see no key load nothing
        if (blocks > 0) {
            trace(ag, TraceKind::Load, t);
            barrier_wait(ag, sh.q_empty[query.slot], query.phase ^ 1);
            barrier_expect(ag, sh.q_full[query.slot], 65536);
            load_boxes<tile_m, 64, bf16>(ag, sh.q_stage[0], args.q_map[0], 0, row, sequence * heads + h, sh.q_full[query.slot]);
            load_boxes<tile_m, 64, bf16>(ag, sh.q_stage[1], args.q_map[0], 64, row, sequence * heads + h, sh.q_full[query.slot]);
            load_boxes<tile_m, 64, bf16>(ag, sh.q_stage[2], args.q_map[0], 128, row, sequence * heads + h, sh.q_full[query.slot]);
            load_boxes<tile_m, 64, bf16>(ag, sh.q_stage[3], args.q_map[0], 192, row, sequence * heads + h, sh.q_full[query.slot]);
            query.advance();
            // from the last block down; keys run one block ahead of values, as the consumers do
            const i64 last = (blocks - 1) * key_block;
            barrier_wait(ag, sh.k_empty[key.slot], key.phase ^ 1);
            barrier_expect(ag, sh.k_full[key.slot], 32768);
            load_boxes<key_block, 64, bf16>(ag, sh.k_stage[key.slot * 4], args.k_map[0], 0, last, sequence * kv_heads + kv, sh.k_full[key.slot]);
            load_boxes<key_block, 64, bf16>(ag, sh.k_stage[key.slot * 4 + 1], args.k_map[0], 64, last, sequence * kv_heads + kv, sh.k_full[key.slot]);
            load_boxes<key_block, 64, bf16>(ag, sh.k_stage[key.slot * 4 + 2], args.k_map[0], 128, last, sequence * kv_heads + kv, sh.k_full[key.slot]);
            load_boxes<key_block, 64, bf16>(ag, sh.k_stage[key.slot * 4 + 3], args.k_map[0], 192, last, sequence * kv_heads + kv, sh.k_full[key.slot]);
            key.advance();
            for (i64 back = key_block; back < last + 1; back += key_block) {
                const i64 start = last - back;
                barrier_wait(ag, sh.k_empty[key.slot], key.phase ^ 1);
                barrier_expect(ag, sh.k_full[key.slot], 32768);
                load_boxes<key_block, 64, bf16>(ag, sh.k_stage[key.slot * 4], args.k_map[0], 0, start, sequence * kv_heads + kv, sh.k_full[key.slot]);
                load_boxes<key_block, 64, bf16>(ag, sh.k_stage[key.slot * 4 + 1], args.k_map[0], 64, start, sequence * kv_heads + kv, sh.k_full[key.slot]);
                load_boxes<key_block, 64, bf16>(ag, sh.k_stage[key.slot * 4 + 2], args.k_map[0], 128, start, sequence * kv_heads + kv, sh.k_full[key.slot]);
                load_boxes<key_block, 64, bf16>(ag, sh.k_stage[key.slot * 4 + 3], args.k_map[0], 192, start, sequence * kv_heads + kv, sh.k_full[key.slot]);
                key.advance();
                barrier_wait(ag, sh.v_empty[value.slot], value.phase ^ 1);
                barrier_expect(ag, sh.v_full[value.slot], 32768);
                load_boxes<64, head_dim, bf16>(ag, sh.v_stage[value.slot], args.v_map[0], 0, start + key_block, sequence * kv_heads + kv, sh.v_full[value.slot]);
                value.advance();
            }
            barrier_wait(ag, sh.v_empty[value.slot], value.phase ^ 1);
            barrier_expect(ag, sh.v_full[value.slot], 32768);
            load_boxes<64, head_dim, bf16>(ag, sh.v_stage[value.slot], args.v_map[0], 0, 0, sequence * kv_heads + kv, sh.v_full[value.slot]);
            value.advance();
        }
    }
    trace(ag, TraceKind::Idle, 0);
}

// ---- role compute, agent consumer0, consumer1, every CTA
PLAIT_AGENT void compute_consumer(Agent& ag, const Args& args, Shared& sh) {
    const i64 warpgroup = ag.warpgroup;
    const i64 keys = args.keys;
    const i64 consumer = warpgroup - 1;
    const i64 offset = consumer * 64;
    Pipe<1> query;
    Pipe<stages> key;
    Pipe<stages> value;
    Pipe<2> ring;
    for (;;) {
        barrier_wait(ag, sh.tile_full[ring.slot], ring.phase);
        const i64 row = ring_get(ag, sh.tile_slot[ring.slot * 2]);
        if (row < 0) break;
        const i64 blocks = ceil_div(keys, key_block);
        trace(ag, TraceKind::Compute, row);
        // unscaled result, running maximum and partial row sums
        Acc<64, head_dim> out;
        acc_fill(ag, out, 0.0f);
        Row<64> maximum(ag, kLowest);
        RowPart<64> total(ag);
        Row<64> factor(ag, 1.0f);
        Acc<64, key_block> score;
        Operand<64, key_block, bf16> weights0(ag);
        Operand<64, key_block, bf16> weights1(ag);
        if (blocks > 0) {
            const i64 seen = blocks;
            // blocks that need no mask; the first one is always masked
            const i64 plain = max(0, min(keys / key_block, seen - 1)) / 2 * 2;
            barrier_wait(ag, sh.q_full[query.slot], query.phase);
            barrier_wait(ag, sh.k_full[key.slot], key.phase);
            mma_begin(ag, score);
            mma_issue<key_block, 0, bf16, 4>(ag, score, sh.q_stage[0], offset, sh.k_stage[key.slot * 4], 0);
            mma_commit(ag);
            mma_wait<0>(ag, score);
            barrier_arrive(ag, sh.k_empty[key.slot]);
            key.advance();
            const i64 last = (seen - 1) * key_block;
            mask_cols(ag, score, key_block, keys - last);
            row_rescale(ag, factor, maximum, score, 0.09016844f, 8.0f);
            exp2_rows(ag, score, 0.09016844f, maximum);
            row_sum(ag, total, factor, score);
            as_operand(ag, weights0, score);
            for (i64 i = 1; i < seen - plain; i += 1) {
                barrier_wait(ag, sh.k_full[key.slot], key.phase);
                mma_begin(ag, score);
                mma_issue<key_block, 0, bf16, 4>(ag, score, sh.q_stage[0], offset, sh.k_stage[key.slot * 4], 0);
                mma_commit(ag);
                scale_rows(ag, out, factor);
                barrier_wait(ag, sh.v_full[value.slot], value.phase);
                mma_begin(ag, out);
                mma_issue_operand<head_dim, 1, bf16>(ag, out, weights0, sh.v_stage[value.slot], 1);
                mma_commit(ag);
                mma_wait<1>(ag, score);
                barrier_arrive(ag, sh.k_empty[key.slot]);
                key.advance();
                const i64 start = (seen - 1 - i) * key_block;
                mask_cols(ag, score, key_block, keys - start);
                row_rescale(ag, factor, maximum, score, 0.09016844f, 8.0f);
                exp2_rows(ag, score, 0.09016844f, maximum);
                row_sum(ag, total, factor, score);
                settle(ag, total);
                mma_wait<0>(ag, out, weights0);
                barrier_arrive(ag, sh.v_empty[value.slot]);
                value.advance();
                as_operand(ag, weights0, score);
            }
            for (i64 i = 0; i < plain; i += 2) {
                barrier_wait(ag, sh.k_full[key.slot], key.phase);
                mma_begin(ag, score);
                mma_issue<key_block, 0, bf16, 4>(ag, score, sh.q_stage[0], offset, sh.k_stage[key.slot * 4], 0);
                mma_commit(ag);
                scale_rows(ag, out, factor);
                barrier_wait(ag, sh.v_full[value.slot], value.phase);
                mma_begin(ag, out);
                mma_issue_operand<head_dim, 1, bf16>(ag, out, weights0, sh.v_stage[value.slot], 1);
                mma_commit(ag);
                mma_wait<1>(ag, score);
                barrier_arrive(ag, sh.k_empty[key.slot]);
                key.advance();
                softmax_operand(ag, weights1, factor, maximum, total, score, 0.09016844f, 8.0f);
                mma_wait<0>(ag, out, weights0);
                barrier_arrive(ag, sh.v_empty[value.slot]);
                value.advance();
                barrier_wait(ag, sh.k_full[key.slot], key.phase);
                mma_begin(ag, score);
                mma_issue<key_block, 0, bf16, 4>(ag, score, sh.q_stage[0], offset, sh.k_stage[key.slot * 4], 0);
                mma_commit(ag);
                scale_rows(ag, out, factor);
                barrier_wait(ag, sh.v_full[value.slot], value.phase);
                mma_begin(ag, out);
                mma_issue_operand<head_dim, 1, bf16>(ag, out, weights1, sh.v_stage[value.slot], 1);
                mma_commit(ag);
                mma_wait<1>(ag, score);
                barrier_arrive(ag, sh.k_empty[key.slot]);
                key.advance();
                softmax_operand(ag, weights0, factor, maximum, total, score, 0.09016844f, 8.0f);
                mma_wait<0>(ag, out, weights1);
                barrier_arrive(ag, sh.v_empty[value.slot]);
                value.advance();
            }
            barrier_arrive(ag, sh.q_empty[query.slot]);
            query.advance();
            scale_rows(ag, out, factor);
            barrier_wait(ag, sh.v_full[value.slot], value.phase);
            mma_begin(ag, out);
            mma_issue_operand<head_dim, 1, bf16>(ag, out, weights0, sh.v_stage[value.slot], 1);
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
        divide_rows(ag, out, sum);
        bulk_wait_read<1>(ag);
        agent_sync(ag);
        stage_box<bf16>(ag, sh.o_box[consumer * 2 + 0], out, 0, 0);
        fence_async_shared(ag);
        agent_sync(ag);
        store_box<64, 64, bf16>(ag, args.o_map[0], sh.o_box[consumer * 2 + 0], 0, first, head);
        bulk_commit(ag);
        bulk_wait_read<1>(ag);
        agent_sync(ag);
        stage_box<bf16>(ag, sh.o_box[consumer * 2 + 1], out, 0, 64);
        fence_async_shared(ag);
        agent_sync(ag);
        store_box<64, 64, bf16>(ag, args.o_map[0], sh.o_box[consumer * 2 + 1], 64, first, head);
        bulk_commit(ag);
        bulk_wait_read<1>(ag);
        agent_sync(ag);
        stage_box<bf16>(ag, sh.o_box[consumer * 2 + 0], out, 0, 128);
        fence_async_shared(ag);
        agent_sync(ag);
        store_box<64, 64, bf16>(ag, args.o_map[0], sh.o_box[consumer * 2 + 0], 128, first, head);
        bulk_commit(ag);
        bulk_wait_read<1>(ag);
        agent_sync(ag);
        stage_box<bf16>(ag, sh.o_box[consumer * 2 + 1], out, 0, 192);
        fence_async_shared(ag);
        agent_sync(ag);
        store_box<64, 64, bf16>(ag, args.o_map[0], sh.o_box[consumer * 2 + 1], 192, first, head);
        bulk_commit(ag);
    }
    trace(ag, TraceKind::Idle, 0);
    // the kernel ends only after every store is complete
    bulk_wait<0>(ag);
}

// ---- outputs of a launch that was given up
PLAIT_AGENT void invalidate_outputs(Agent& ag, const Args& args) {
    const i64 M = args.launch.m;
    const i64 batch = args.batch;
    fill_nan(ag, args.o, batch * heads * M * head_dim);
}

}  // namespace

// ---- entry
extern "C" void plait_kernel(const plait::HostCta* host_cta, const void* launch_args) {
    const Args& args = *static_cast<const Args*>(launch_args);
    Shared& sh = *static_cast<Shared*>(host_cta->shared);
    constexpr bool thread_agents[] = {true, false, false};
    Agent ag = make_agent(*host_cta, thread_agents[host_cta->agent_index]);
    if (host_cta->agent_index == 0) {
        count_in(ag, args);
        for (i64 i = 0; i < 1; i += 1) barrier_init(ag, sh.q_full[i], 1);
        for (i64 i = 0; i < 1; i += 1) barrier_init(ag, sh.q_empty[i], 2 * kWarpgroupArrivals);
        for (i64 i = 0; i < 2; i += 1) barrier_init(ag, sh.k_full[i], 1);
        for (i64 i = 0; i < 2; i += 1) barrier_init(ag, sh.k_empty[i], 2 * kWarpgroupArrivals);
        for (i64 i = 0; i < 2; i += 1) barrier_init(ag, sh.v_full[i], 1);
        for (i64 i = 0; i < 2; i += 1) barrier_init(ag, sh.v_empty[i], 2 * kWarpgroupArrivals);
        for (i64 i = 0; i < 2; i += 1) barrier_init(ag, sh.tile_full[i], 1);
        for (i64 i = 0; i < 2; i += 1) barrier_init(ag, sh.tile_empty[i], 2 * kWarpgroupArrivals);
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
            ag.warpgroup = 1;
            compute_consumer(ag, args, sh);
            break;
        }
        case 2: {
            // consumer1
            ag.warpgroup = 2;
            compute_consumer(ag, args, sh);
            break;
        }
    }
    cta_barrier(ag);
    if (cta_any(ag, host_cta->agent_index == 0 && leave(ag, args))) invalidate_outputs(ag, args);
}
