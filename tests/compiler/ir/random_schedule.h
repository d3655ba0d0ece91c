// Random but well-formed schedule files.
#pragma once
#include <random>

#include "compiler/ir/schedule.h"
#include "tests/compiler/ir/random_plan.h"

namespace plait::testing {

inline ScheduleFile random_schedule(unsigned seed) {
    std::mt19937 rng(seed);
    RandomPlan random(seed);
    const auto pick = [&](std::size_t n) { return rng() % n; };
    ScheduleFile file;
    file.graph.name = random.name();
    for (std::size_t i = pick(4); i > 0; --i)
        file.graph.inputs.push_back({random.name(), "bf16", random.exprs(2), static_cast<int>(pick(3)) - 1});
    for (std::size_t i = pick(6); i > 0; --i) {
        const GraphOpSpec& spec = graph_ops()[pick(graph_ops().size())];
        GraphOp op{spec.name, random.name(), {}};
        const auto inputs = static_cast<std::size_t>(spec.inputs.least) + pick(static_cast<std::size_t>(spec.inputs.most - spec.inputs.least) + 1);
        for (std::size_t n = 0; n < inputs; ++n) op.inputs.push_back(random.name());
        if (spec.attribute == "dim") op.dim = static_cast<long>(pick(3));
        if (spec.attribute == "transpose") op.transpose_a = pick(2) != 0, op.transpose_b = pick(2) != 0;
        if (spec.attribute == "value")
            op.value = std::ldexp(static_cast<double>(rng()) - 2e9, static_cast<int>(pick(80)) - 60) / 3;
        if (spec.attribute == "dtype") op.dtype = "f32";
        if (spec.attribute == "attention") {
            op.attention.causal = pick(2) != 0;
            op.attention.causal_offset = static_cast<std::int64_t>(pick(3)) - 1;
            op.attention.scale = pick(2) == 0 ? 0 : static_cast<double>(rng()) / 7;
            op.attention.layout = pick(2) != 0 ? "bshd" : "bhsd";
            op.attention.key_block = 64 * static_cast<std::int64_t>(pick(3));
            op.attention.rescale_threshold = pick(2) != 0 ? 8 : static_cast<double>(rng()) / 3;
            op.attention.lse = pick(2) != 0 ? random.name() : "";
        }
        op.source = pick(2) != 0 ? "ag_gemm.py:12" : "";
        file.graph.ops.push_back(op);
    }
    file.graph.output = random.name();
    file.graph.output_dtype = pick(2) != 0 ? "bf16" : "f16";
    for (std::size_t i = pick(3); i > 0; --i) file.graph.more_outputs.push_back({random.name(), "f32"});
    for (const KnobSpec& spec : knob_specs()) {
        if (pick(2) == 0) continue;
        const std::int64_t steps = (spec.high - spec.low) / spec.step + 1;
        file.schedule.set(spec.name,
                          spec.is_word ? spec.words[pick(spec.words.size())]
                                       : std::to_string(spec.low + spec.step * static_cast<std::int64_t>(pick(
                                                                                   static_cast<std::size_t>(steps)))));
    }
    file.problem = {static_cast<std::int64_t>(rng()), static_cast<std::int64_t>(pick(10000)),
                    static_cast<std::int64_t>(pick(10000)), {}};
    for (std::size_t i = pick(3); i > 0; --i) file.problem.limits[random.name()] = 1 + static_cast<std::int64_t>(pick(10000));
    file.topology = pick(3) == 0 ? "" : pick(2) != 0 ? "2x2" : "topologies/sim 2x2-a.json";
    return file;
}

}  // namespace plait::testing
