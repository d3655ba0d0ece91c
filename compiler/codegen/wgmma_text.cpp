#include "compiler/codegen/wgmma_text.h"

#include <fmt/format.h>

#include "runtime/base/error.h"

namespace plait {

namespace {

std::int64_t constant_value(const Plan& plan, const Expr& expr) {
    return expr.evaluate([&](const std::string& name, bool has_index, std::int64_t) -> std::int64_t {
        for (const Constant& constant : plan.consts) {
            if (!has_index && constant.name == name) return constant.value;
        }
        throw InternalError(fmt::format("mma_issue of plan {}: `{}` is no constant of the plan", plan.name, name));
    });
}

void collect(const Plan& plan, const std::vector<Statement>& body, std::set<WgmmaShapeKey>& shapes) {
    for (const Statement& statement : body) {
        if (statement.op == Op::MmaIssue || statement.op == Op::MmaIssueOperand) {
            shapes.insert({constant_value(plan, statement.expr("cols")), constant_value(plan, statement.expr("transpose_b")) != 0,
                           statement.word("dtype"), statement.op == Op::MmaIssueOperand,
                           statement.has("transpose_a") && constant_value(plan, statement.expr("transpose_a")) != 0});
        }
        collect(plan, statement.body, shapes);
    }
}

void check(const WgmmaShapeKey& shape) {
    if (shape.n < 8 || shape.n > 256 || shape.n % 8 != 0) {
        throw InternalError(fmt::format("wgmma has no shape m64n{}k16: N is a multiple of 8 from 8 to 256", shape.n));
    }
    if (shape.dtype != "bf16" && shape.dtype != "f16") {
        throw InternalError(fmt::format("wgmma text knows bf16 and f16 operands, not {}", shape.dtype));
    }
}

// "a, b, c, ..." in lines of eight; `item` prints one entry.
template <class Item>
std::string in_lines(std::int64_t count, const std::string& separator, Item item) {
    std::string text;
    for (std::int64_t i = 0; i < count; ++i) {
        if (i > 0) text += i % 8 == 0 ? separator : ", ";
        text += item(i);
    }
    return text;
}

std::string shape_text(const WgmmaShapeKey& shape) {
    const std::int64_t registers = shape.n / 2;
    const std::string operands =
        in_lines(registers, ", \"\n            \"", [](std::int64_t i) { return fmt::format("%{}", i); });
    const std::string outputs =
        in_lines(registers, ",\n              ", [](std::int64_t i) { return fmt::format("\"+f\"(d[{}])", i); });
    const auto numbered = [&](std::int64_t i) { return fmt::format("%{}", registers + i); };
    // A in registers is four of them, K-major; in shared memory it is a descriptor with a transposition of its own.
    const std::string a = shape.operand ? fmt::format("{{{}, {}, {}, {}}}", numbered(0), numbered(1), numbered(2), numbered(3)) : numbered(0);
    const std::int64_t used = shape.operand ? 4 : 1;
    return fmt::format(R"(
template <>
struct {name}<{n}, {transpose}, {type}{transpose_a}> {{
    static __device__ __forceinline__ void issue(f32 (&d)[{registers}], {a_type}, u64 b, bool accumulate) {{
        asm volatile(
            "{{.reg .pred p; setp.ne.b32 p, {accumulate}, 0;\n"
            "wgmma.mma_async.sync.aligned.m64n{n}k16.f32.{type}.{type} {{"
            "{operands}"
            "}}, {a}, {b}, p, 1, 1, {transpositions};}}\n"
            : {outputs}
            : {a_input}, "l"(b), "r"(static_cast<u32>(accumulate)));
    }}
}};
)",
                       fmt::arg("name", shape.operand ? "WgmmaOperandShape" : "WgmmaShape"), fmt::arg("n", shape.n),
                       fmt::arg("transpose", shape.transpose_b ? 1 : 0), fmt::arg("type", shape.dtype),
                       fmt::arg("transpose_a", shape.operand ? "" : shape.transpose_a ? ", 1" : ", 0"),
                       fmt::arg("registers", registers), fmt::arg("operands", operands), fmt::arg("outputs", outputs),
                       fmt::arg("a", a), fmt::arg("b", numbered(used)), fmt::arg("accumulate", numbered(used + 1)),
                       fmt::arg("a_type", shape.operand ? "const u32* a" : "u64 a"),
                       fmt::arg("a_input", shape.operand ? R"("r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]))" : R"("l"(a))"),
                       fmt::arg("transpositions", std::string(shape.operand ? "" : shape.transpose_a ? "1, " : "0, ") + (shape.transpose_b ? "1" : "0")));
}

}  // namespace

std::set<WgmmaShapeKey> wgmma_shapes(const Plan& plan) {
    std::set<WgmmaShapeKey> shapes;
    for (const ProgramDef& program : plan.programs) collect(plan, program.body, shapes);
    return shapes;
}

std::string wgmma_text(const std::set<WgmmaShapeKey>& shapes) {
    std::string text =
        "// The wgmma shapes of this kernel: scale-d is the predicate, a and b unnegated (PTX ISA, \"wgmma.mma_async\").\n"
        "#pragma once\n\nnamespace plait {\n";
    for (const WgmmaShapeKey& shape : shapes) {
        check(shape);
        text += shape_text(shape);
    }
    return text + "\n}  // namespace plait\n";
}

}  // namespace plait
