#include "compiler/ir/reference.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "compiler/ir/plan.h"
#include "compiler/ir/schedule.h"
#include "runtime/base/settings.h"

namespace plait {
namespace {

// A bar would end the cell.
std::string cell(const std::string& text) {
    std::string out;
    for (const char c : text) out += c == '|' ? std::string("\\|") : std::string(1, c);
    return out;
}

std::string graph_section() {
    std::string out = "## Graph ops\n\n| op | inputs | attribute | meaning |\n|---|---|---|---|\n";
    for (const GraphOpSpec& spec : graph_ops()) {
        out += fmt::format("| {} | {} | {} | {} |\n", spec.name, spec.inputs.print(),
                           spec.attribute == "none" ? "" : spec.attribute, cell(spec.doc));
    }
    return out;
}

std::string knob_section() {
    std::string out = "## Schedule knobs\n\n| knob | legal | default | meaning |\n|---|---|---|---|\n";
    for (const KnobSpec& spec : knob_specs()) {
        const std::string legal = spec.is_word ? fmt::format("{}", fmt::join(spec.words, ", "))
                                               : fmt::format("{} to {} in steps of {}", spec.low, spec.high, spec.step);
        out += fmt::format("| {} | {} | {} | {} |\n", spec.name, legal, spec.default_value, cell(spec.doc));
    }
    return out;
}

std::string operand_kind(char kind) {
    switch (kind) {
        case 's':
            return "shared";
        case 'b':
            return "barrier";
        case 'm':
            return "map";
        case 't':
            return "constant";
        case 'w':
            return "word";
        case 'f':
            return "flags";
        case 'u':
            return "buffer";
        case 'g':
            return "edge";
        default:
            return "expression";
    }
}

std::string plan_section() {
    std::string out =
        "## Plan ops\n\nOperands in print order; `?` may be absent, `{ }` has a body. An operand without a kind is an "
        "integer expression.\n\n"
        "| op | effect | operands | meaning |\n|---|---|---|---|\n";
    for (const OpSpec& spec : all_ops()) {
        std::vector<std::string> operands;
        for (const OperandSpec& operand : spec.operands) {
            const std::string kind = operand.kind == 'e' ? "" : " (" + operand_kind(operand.kind) + ")";
            operands.push_back(operand.name + (operand.optional ? "?" : "") +
                               (kind == " (" + operand.name + ")" ? "" : kind));
        }
        if (spec.has_body) operands.push_back("{ }");
        out += fmt::format("| {} | {} | {} | {} |\n", spec.mnemonic, word_of(spec.effect), fmt::join(operands, ", "),
                           cell(spec.doc));
    }
    return out;
}

std::string setting_section() {
    std::string out =
        "## Settings\n\nEnvironment variables; they never change a result.\n\n| name | values | default | meaning "
        "|\n|---|---|---|---|\n";
    for (const SettingSpec& spec : setting_specs()) {
        out += fmt::format("| {} | {} | {} | {} |\n", spec.name, cell(spec.values), spec.default_value, cell(spec.doc));
    }
    return out;
}

}  // namespace

std::string reference_text() {
    return fmt::format(
        "# Reference\n\nGenerated from the tables in `compiler/ir/` and `runtime/base/` (the test "
        "Reference.CheckedInFileIsUpToDate writes it with PLAIT_UPDATE_GOLDEN=1). Do not edit.\n\n{}\n{}\n{}\n{}",
        graph_section(), knob_section(), plan_section(), setting_section());
}

}  // namespace plait
