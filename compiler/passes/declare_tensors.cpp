#include "compiler/passes/declare_tensors.h"

#include <fmt/format.h>

#include "compiler/ir/plan_sizes.h"

namespace plait {
namespace {

using Exprs = std::vector<Expr>;

// Whole tensor of `rows` rows: one map, z is 0.
MapDef flat_map(const char* name, const std::string& memory, const std::string& dtype, const char* columns,
                const char* rows, std::vector<std::int64_t> box) {
    const Expr pitch(memory + "_pitch");
    return {name,
            0,
            memory,
            dtype,
            0,
            {Expr(columns), Expr(rows), Expr(1)},
            {pitch, Expr(fmt::format("{}_pitch * {}", memory, rows))},
            std::move(box)};
}

// Two halves of the columns of b, z: 0 the gate, 1 what it multiplies.
MapDef gated_map(const FusedPattern& p, std::vector<std::int64_t> box) {
    const Expr pitch(p.b + "_pitch");
    if (p.transpose_b)
        return {"b_map",       0, p.b, p.dtype, 0, {Expr("K"), Expr("N"), Expr(2)}, {pitch, Expr(p.b + "_pitch * N")},
                std::move(box)};
    return {"b_map", 0, p.b, p.dtype, 0, {Expr("N"), Expr("K"), Expr(2)}, {pitch, Expr("N * 2")}, std::move(box)};
}

// What one instruction loads: all of the tile's extent, or 64 of it, times 64 of k. Of an operand that a cluster loads
// together, a CTA's share of the rows.
std::vector<std::int64_t> operand_box(bool k_rows, std::int64_t extent, std::int64_t sharers) {
    return {64, (k_rows ? 64 : extent) / sharers, 1};
}

void operand_maps(const Choices& c, Plan* plan) {
    const FusedPattern& p = c.pattern;
    const std::vector<std::int64_t> box = operand_box(p.transpose_a, c.tile_m, c.shares_a ? c.cluster : 1),
                                    b_box = operand_box(!p.transpose_b, c.tile_n, c.shares_b ? c.cluster : 1);
    plan->maps.push_back(p.transpose_a ? flat_map("a_map", p.a, p.dtype, "a_rows", "K", box)
                                       : flat_map("a_map", p.a, p.dtype, "K", "a_rows", box));
    if (c.communicates) {
        // z = bank * world + shard. The short shard has a map of its own: its rows end earlier.
        const Exprs strides = {Expr("K * 2"), Expr("shard_max * K * 2")};
        plan->maps.push_back(
            {"a_map", 1, "a_full", p.dtype, 0, {Expr("K"), Expr("shard"), Expr("2 * world")}, strides, box});
        plan->maps.push_back(
            {"a_map", 2, "a_full", p.dtype, 0, {Expr("K"), Expr("tail_rows"), Expr("2 * world")}, strides, box});
    }
    if (p.gated)
        plan->maps.push_back(gated_map(p, b_box));
    else if (p.transpose_b)
        plan->maps.push_back(flat_map("b_map", p.b, p.dtype, "K", "N", b_box));
    else
        plan->maps.push_back(flat_map("b_map", p.b, p.dtype, "N", "K", b_box));
}

// Where boxes do not divide a tile: z is the column of tiles, so that TMA clips the last box of a row at the tile's edge
// and each element has one writer. The last column, narrower where tile_n does not divide N, has a map of its own.
void column_maps(const Choices& c, Plan* plan) {
    const FusedPattern& p = c.pattern;
    const std::int64_t size = element_bytes(p.output_dtype);
    const std::vector<std::int64_t> box = {c.box_cols, 64, 1};
    const Exprs strides = {Expr(p.output + "_pitch"), Expr(fmt::format("tile_n * {}", size))};
    plan->maps.push_back({"c_map", 0, p.output, p.output_dtype, 0, {Expr("tile_n"), Expr("a_rows"), Expr("N / tile_n")}, strides, box});
    if (c.n % c.tile_n == 0) return;
    const Expr base(fmt::format("N / tile_n * tile_n * {}", size));
    plan->maps.push_back({"c_map", 1, p.output, p.output_dtype, base, {Expr("N % tile_n"), Expr("a_rows"), Expr(1)}, strides, box});
}

void output_maps(const Choices& c, Plan* plan) {
    const FusedPattern& p = c.pattern;
    const std::vector<std::int64_t> box = {c.box_cols, 64, 1};
    if (c.ragged_columns()) return column_maps(c, plan);
    if (!c.communicates) {
        plan->maps.push_back(flat_map("c_map", p.output, p.output_dtype, "N", "a_rows", box));
        return;
    }
    const std::string pitch = p.output + "_pitch";
    const Exprs strides = {Expr(pitch), Expr("shard * " + pitch)};
    plan->maps.push_back(
        {"c_map", 0, p.output, p.output_dtype, 0, {Expr("N"), Expr("shard"), Expr("tail")}, strides, box});
    plan->maps.push_back({"c_map",
                          1,
                          p.output,
                          p.output_dtype,
                          Expr("tail * shard * " + pitch),
                          {Expr("N"), Expr("tail_rows"), Expr(1)},
                          strides,
                          box});
}

}  // namespace

void declare_tensors(const Graph& graph, const Choices& c, Plan* plan) {
    const char* output_rows = c.communicates || !c.pattern.row_shard ? "M" : "a_rows";
    for (const GraphTensor& tensor : graph.inputs) {
        Exprs shape = tensor.shape;
        if (tensor.name == c.pattern.a)
            shape[c.pattern.transpose_a ? 1 : 0] = Expr("a_rows");
        else if (tensor.shard == 0)
            shape[0] = Expr(output_rows);
        const bool matrix = shape.size() > 1;
        plan->tensors.push_back({tensor.name, tensor.dtype, std::move(shape), false, matrix});
    }
    plan->tensors.push_back({c.pattern.output, c.pattern.output_dtype, {Expr(output_rows), Expr("N")}, true, true});
    operand_maps(c, plan);
    output_maps(c, plan);
}

}  // namespace plait
