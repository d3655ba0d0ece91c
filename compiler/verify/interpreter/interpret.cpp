#include "compiler/verify/interpreter/interpret.h"

#include <fmt/format.h>

#include <algorithm>
#include <random>
#include <set>

#include "compiler/ir/plan_sizes.h"

namespace plait::interpreter {
namespace {

constexpr std::int64_t kBudgetSteps = 1'500'000;  // about 0.1 s
constexpr std::int64_t kRowGap = 16;               // bytes; the least that a pitch may add
constexpr std::int64_t kParamCap = 300;            // of launch arguments beside M: a few blocks and a rest

std::int64_t* find_const(Plan* plan, const std::string& name) {
    for (Constant& c : plan->consts) {
        if (c.name == name) return &c.value;
    }
    return nullptr;
}

std::int64_t const_or(const Plan& plan, const std::string& name, std::int64_t otherwise) {
    for (const Constant& c : plan.consts) {
        if (c.name == name) return c.value;
    }
    return otherwise;
}

// A chunk of shorter rows keeps more pieces than there are slots, where it had more.
void shrink_pieces(Plan* plan, std::int64_t old_k) {
    std::int64_t *row_bytes = find_const(plan, "row_bytes"), *piece_bytes = find_const(plan, "piece_bytes");
    if (row_bytes == nullptr || piece_bytes == nullptr) return;
    const std::int64_t rows = const_or(*plan, "chunk_rows", 1), slots = const_or(*plan, "pieces", 2);
    const std::int64_t count = std::min((rows * *row_bytes + *piece_bytes - 1) / *piece_bytes, 2 * slots + 1);
    *row_bytes = *row_bytes / old_k * *find_const(plan, "K");
    *piece_bytes = std::min(*piece_bytes, (rows * *row_bytes / count + 15) / 16 * 16);
}

// K keeps its remainder within a block; rings still wrap.
void shrink_depth(Plan* plan, std::string* note) {
    std::int64_t *k = find_const(plan, "K"), *blocks = find_const(plan, "k_blocks");
    if (k == nullptr || blocks == nullptr) return;
    const std::int64_t keep = const_or(*plan, "stages", 4) + 1;
    if (*blocks <= keep) return;
    const std::int64_t old = *k;
    *k -= (*blocks - keep) * const_or(*plan, "tile_k", 64);
    *note += fmt::format("K {} for {}", *k, old);
    *blocks = keep;
    shrink_pieces(plan, old);
    for (BufferDef& buffer : plan->buffers) {
        if (!buffer.shape.empty() && buffer.shape.back() == old) buffer.shape.back() = *k;
    }
}

// N keeps its remainder within a tile.
void shrink_columns(Plan* plan, std::int64_t keep, std::string* note) {
    std::int64_t *n = find_const(plan, "N"), *tiles = find_const(plan, "col_tiles");
    if (n == nullptr || tiles == nullptr || *tiles <= keep) return;
    const std::int64_t old = *n;
    *n -= (*tiles - keep) * const_or(*plan, "tile_n", 64);
    *tiles = keep;
    *note += fmt::format("{}N {} for {}", note->empty() ? "" : ", ", *n, old);
}

// Heads of attention repeat the same steps; two that share keys and two that do not are all kinds there are.
void shrink_heads(Plan* plan, std::string* note) {
    std::int64_t *heads = find_const(plan, "heads"), *kv_heads = find_const(plan, "kv_heads"),
                 *heads_per_kv = find_const(plan, "heads_per_kv");
    if (heads == nullptr || kv_heads == nullptr || heads_per_kv == nullptr) return;
    const std::int64_t old = *heads;
    *kv_heads = std::min<std::int64_t>(*kv_heads, 2), *heads_per_kv = std::min<std::int64_t>(*heads_per_kv, 2);
    *heads = *kv_heads * *heads_per_kv;
    if (*heads != old) *note += fmt::format("{}{} heads for {}", note->empty() ? "" : ", ", *heads, old);
}

std::vector<std::int64_t> choose_rows(const Plan& plan) {
    const std::int64_t world = plan.world, tile = cluster_ctas(plan) * const_or(plan, "tile_m", 64),
                       chunk = const_or(plan, "chunk_rows", tile);
    const std::int64_t cap = std::min(plan.m_max, world * (2 * tile + std::min(chunk, tile)) - 3);
    std::vector<std::int64_t> rows = {world * (tile + 1) - 1,
                                      0,
                                      1,
                                      world * chunk + 1,
                                      world - 1,
                                      cap,
                                      world + 1,
                                      world * chunk - 1,
                                      world * tile,
                                      world * tile - 1,
                                      world * chunk};
    std::mt19937_64 random(plan.m_max * 31 + world);
    for (int i = 0; i < 3; ++i) rows.push_back(std::int64_t(random() % std::uint64_t(std::max<std::int64_t>(cap, 1))));
    std::set<std::int64_t> seen;
    std::vector<std::int64_t> chosen;
    for (std::int64_t m : rows) {
        m = legal_rows(plan, std::min(m, plan.m_max));
        if (m >= 0 && seen.insert(m).second) chosen.push_back(m);
    }
    return chosen;
}

// Launch arguments beside M turn through their border values, each at its own pace, so that pairs differ from run to run.
std::map<std::string, std::int64_t> choose_params(const Plan& plan, std::size_t run) {
    std::map<std::string, std::int64_t> params;
    std::size_t pace = 1;
    for (const ParamDef& param : plan.params) {
        const std::int64_t cap = std::min<std::int64_t>(param.max, kParamCap);
        const std::int64_t values[] = {std::min<std::int64_t>(cap, 3), cap, 1, 0, (cap + 1) / 2};
        params[param.name] = std::max<std::int64_t>(values[run / pace % std::size(values)], param.positive ? 1 : 0);
        pace = pace == 1 ? 2 : pace + 1;
    }
    return params;
}

// Attention: rows and keys that make the rings come round, then borders of tiles and blocks, and nothing at all.
std::vector<Run> attention_runs(const Plan& plan, std::int64_t most_ctas) {
    const std::int64_t tile = const_or(plan, "tile_m", 64), block = const_or(plan, "key_block", 64);
    const std::int64_t most = block * (2 * const_or(plan, "stages", 2) + 1) + 3;
    const std::int64_t shapes[][3] = {{most, 1, most}, {tile + 1, 2, block + 1}, {2 * tile, 1, 2 * block}, {1, 1, 1},
                                      {3, 3, 0},       {0, 2, block},            {tile - 1, 0, 3},         {3, 1, most},
                                      {most, 2, 3},    {2 * tile - 1, 2, 2 * block - 1}};
    std::vector<Run> runs;
    for (const auto& [m, batch, keys] : shapes) {
        Run run{std::min(m, plan.m_max), std::min<std::int64_t>(1 + std::int64_t(runs.size()) % 3, most_ctas)};
        run.reverse = runs.size() % 2 == 1;
        for (const ParamDef& param : plan.params) run.params[param.name] = std::min(param.name == "keys" ? keys : batch, param.max);
        runs.push_back(run);
    }
    return runs;
}

}  // namespace

Runs choose_runs(const Plan& plan, const Target& target) {
    Runs runs;
    runs.plan = plan;
    shrink_depth(&runs.plan, &runs.scaled);
    const std::int64_t cluster = cluster_ctas(plan);
    std::int64_t columns = plan.world > 4 ? 1 : 2;
    if (cluster > 1)
        columns = cluster + const_or(plan, "col_tiles", 0) % cluster;  // where it is odd a tile lies beyond
    shrink_columns(&runs.plan, columns, &runs.scaled);
    shrink_heads(&runs.plan, &runs.scaled);
    const std::int64_t least = min_ctas(plan), most = std::max<std::int64_t>(target.sms, least);
    const std::int64_t usual = std::min(most, least + (plan.world > 8 ? 1 : 2)) / cluster * cluster;
    runs.budget = kBudgetSteps;
    if (const_or(plan, "key_block", 0) > 0) {
        runs.runs = attention_runs(plan, most);
        return runs;
    }
    bool reverse = false;
    for (std::int64_t m : choose_rows(plan)) {
        const std::int64_t ctas = runs.runs.size() % 3 == 1 ? least : usual;
        runs.runs.push_back({m, ctas, reverse});
        runs.runs.back().table = int(runs.runs.size()) / 2 % 4;
        runs.runs.back().params = choose_params(plan, runs.runs.size() - 1);
        // Rows that lie apart take other paths through the copies: in the first small run, and once in five.
        if (runs.runs.size() % 5 == 4) runs.runs.back().row_gap = kRowGap;
        reverse = !reverse;
    }
    return runs;
}

Diagnostics interpret(const Runs& runs) {
    const Code code = compile(runs.plan);
    std::int64_t steps = 0;
    for (const Run& run : runs.runs) {
        World world(code, run);
        Diagnostics findings = world.interpret();
        if (!findings.empty()) {
            if (!runs.scaled.empty())
                findings.back().hint += fmt::format(" (interpreted with {}; {} CTAs)", runs.scaled, run.ctas);
            return findings;
        }
        steps += world.cost();
        if (steps > runs.budget) break;
    }
    return {};
}

}  // namespace plait::interpreter
