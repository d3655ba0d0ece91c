// Random but well-formed plans: every op, every definition, every optional part.
#pragma once
#include <random>
#include <string>

#include "compiler/ir/operand.h"
#include "compiler/ir/plan.h"
#include "compiler/ir/words.h"

namespace plait::testing {

class RandomPlan {
public:
    explicit RandomPlan(unsigned seed) : rng_(seed) {}

    int pick(int n) { return static_cast<int>(rng_() % static_cast<unsigned>(n)); }
    std::string name() { return std::string(1, static_cast<char>('a' + pick(26))) + "_" + std::to_string(pick(100)); }
    std::string expr_text(int depth = 2) {
        if (depth == 0 || pick(4) == 0) return pick(2) != 0 ? name() : std::to_string(pick(1000) - 500);
        static const char* const kOperators[] = {" + ", " - ",  " * ",  " / ", " % ",
                                                 " < ", " >= ", " == ", " ^ ", " && "};
        switch (pick(6)) {
            case 0:
                return "min(" + expr_text(depth - 1) + ", " + expr_text(depth - 1) + ")";
            case 1:
                return name() + "[" + expr_text(depth - 1) + "]";
            case 2:
                return "(" + expr_text(depth - 1) + ") ? " + expr_text(depth - 1) + " : " + expr_text(depth - 1);
            case 3:
                return name() + ".slot";
            default:
                return "(" + expr_text(depth - 1) + ")" + kOperators[pick(10)] + "(" + expr_text(depth - 1) + ")";
        }
    }
    std::string operand(const OperandSpec& spec) {
        if (spec.name == "scope") return std::string(pick(2) != 0 ? "Gpu" : "System");
        if (spec.name == "dtype") return std::string(pick(2) != 0 ? "bf16" : "f32");
        if (spec.name == "value" && spec.kind == 'w') return "-1.5e-3";
        if (is_word_kind(spec.kind)) return name();
        if (spec.kind == 's' || spec.kind == 'b' || spec.kind == 'm')
            return pick(2) != 0 ? name() : name() + "[" + expr_text() + "]";
        return expr_text();
    }
    Statement statement(const OpSpec& spec, int depth) {
        std::vector<std::string> operands;
        for (const OperandSpec& o : spec.operands) operands.push_back(o.optional && pick(2) != 0 ? "" : operand(o));
        Statement s = make_statement(spec.op, operands);
        if (pick(5) == 0) s.comment = "why {this} is = here\nsecond, line";
        if (spec.has_body && depth > 0) s.body = statements(pick(4), depth - 1);
        return s;
    }
    std::vector<Statement> statements(int count, int depth) {
        std::vector<Statement> body;
        for (int i = 0; i < count; ++i)
            body.push_back(
                statement(all_ops()[static_cast<std::size_t>(pick(static_cast<int>(all_ops().size())))], depth));
        return body;
    }
    std::vector<Expr> exprs(int count) {
        std::vector<Expr> values;
        for (int i = 0; i < count; ++i) values.emplace_back(expr_text());
        return values;
    }
    template <class Enum>
    Enum any() {
        const auto& words = words_of(Enum{});
        return words[rng_() % std::size(words)].value;
    }
    template <class Make>
    auto some(Make make) {
        std::vector<decltype(make())> values;
        for (int i = pick(4); i > 0; --i) values.push_back(make());
        return values;
    }

    Plan plan() {
        Plan p;
        p.name = name();
        p.target = pick(2) != 0 ? "sm_90a" : "host";
        p.world = pick(9), p.nodes = pick(9), p.locals = pick(9), p.m_max = std::int64_t{1} << pick(62);
        p.threads = pick(512), p.producer_registers = pick(256), p.consumer_registers = pick(256);
        p.consts = some([&] { return Constant{name(), pick(2) != 0 ? INT64_MIN : pick(1000)}; });
        p.params = some([&] { return ParamDef{name(), 1 + pick(1000)}; });
        p.lets = some([&] { return LetDef{name(), expr_text()}; });
        p.tensors = some([&] { return TensorDef{name(), "bf16", exprs(pick(4)), pick(2) != 0}; });
        p.buffers = some([&] {
            return BufferDef{name(), "f32", {1, pick(99)}, UINT64_MAX - static_cast<unsigned>(pick(99))};
        });
        p.flags = some([&] { return FlagDef{name(), pick(99), static_cast<unsigned>(pick(99)), pick(2) != 0}; });
        p.maps = some([&] {
            return MapDef{name(), pick(3), name(), "f16", expr_text(), exprs(3), exprs(2), {64, 64, 1}};
        });
        p.shared = some([&] { return SharedDef{name(), pick(99), pick(9), 1024}; });
        p.barriers = some([&] { return BarrierDef{name(), pick(9), pick(9), pick(9)}; });
        p.edges = some([&] {
            return EdgeDef{name(),           any<ProducerKind>(), any<SignalKind>(),
                           any<EdgeScope>(), any<ConsumerKind>(), pick(2) != 0 ? name() : ""};
        });
        p.roles = some([&] { return RoleDef{name(), "phase", pick(99)}; });
        p.agents = some([&] {
            return AgentDef{name(), any<AgentKind>(), pick(4), pick(4), some([&] { return name(); })};
        });
        p.programs = some([&] {
            return ProgramDef{
                name(), "compute", expr_text(), expr_text(), "ag_gemm.py:12: c = a @ b", statements(pick(8), 3)};
        });
        return p;
    }

private:
    std::mt19937 rng_;
};

}  // namespace plait::testing
