#include <fmt/format.h>

#include "compiler/ir/field_text.h"
#include "compiler/ir/line_reader.h"
#include "compiler/ir/text.h"
#include "runtime/base/nearest.h"

namespace plait {
namespace {

template <class Visitor, class Attributes>
void visit_attention(Visitor& visit, Attributes& attention) {
    visit("causal", attention.causal);
    visit("causal_offset", attention.causal_offset);
    visit("scale", attention.scale);
    visit("layout", attention.layout);
    visit("key_block", attention.key_block);
    visit("rescale_threshold", attention.rescale_threshold);
    visit("lse", attention.lse);
}

std::string op_line(const GraphOp& op) {
    std::string line = fmt::format("op {} {} inputs=[{}]", op.result, op.op, fmt::join(op.inputs, ", "));
    const GraphOpSpec* spec = find_graph_op(op.op);
    if (spec == nullptr) throw InternalError(fmt::format("graph op `{}` is not in ops.def", op.op));
    if (spec->attribute == "dim") line += fmt::format(", dim={}", op.dim);
    if (spec->attribute == "transpose" && op.transpose_a) line += ", transpose_a=1";
    if (spec->attribute == "transpose" && op.transpose_b) line += ", transpose_b=1";
    if (spec->attribute == "value") line += fmt::format(", value={}", op.value);
    if (spec->attribute == "dtype") line += fmt::format(", dtype={}", op.dtype);
    if (spec->attribute == "attention") {
        FieldPrinter printer;
        visit_attention(printer, op.attention);
        line += ", " + printer.text();
    }
    return line;
}

template <class Visitor, class Tensor>
void visit_tensor(Visitor& visit, Tensor& tensor) {
    visit("dtype", tensor.dtype);
    visit("shape", tensor.shape);
    visit("shard", tensor.shard);
}

template <class Visitor, class AnyProblem>
void visit_problem(Visitor& visit, AnyProblem& problem) {
    visit("m_max", problem.m_max);
    visit("n", problem.n);
    visit("k", problem.k);
}

struct ScheduleParser {
    LineReader in;
    ScheduleFile file;

    explicit ScheduleParser(const std::string& text) : in("schedule text", text) {}

    void input() {
        GraphTensor tensor;
        tensor.name = in.identifier("a name");
        FieldReader reader(in);
        visit_tensor(reader, tensor);
        file.graph.inputs.push_back(std::move(tensor));
    }

    void op() {
        GraphOp op;
        op.result = in.identifier("the name of the result");
        const std::size_t start = in.position();
        op.op = in.identifier("an op");
        const GraphOpSpec* spec = find_graph_op(op.op);
        if (spec == nullptr) {
            std::vector<std::string> names;
            for (const GraphOpSpec& known : graph_ops()) names.push_back(known.name);
            in.fail_at(start + 1, fmt::format("no op `{}`, the nearest is `{}`", op.op, nearest(op.op, names)));
        }
        FieldReader reader(in);
        reader("inputs", op.inputs);
        if (spec->attribute == "dim") reader("dim", op.dim);
        if (spec->attribute == "transpose") {
            reader("transpose_a", op.transpose_a);
            reader("transpose_b", op.transpose_b);
        }
        if (spec->attribute == "value") reader("value", op.value);
        if (spec->attribute == "dtype") reader("dtype", op.dtype);
        if (spec->attribute == "attention") visit_attention(reader, op.attention);
        file.graph.ops.push_back(std::move(op));
    }

    // The first line is the graph's output, further ones are side results.
    void output() {
        GraphOutput output{in.identifier("the name of the output"), ""};
        FieldReader reader(in);
        reader("dtype", output.dtype);
        if (!file.graph.output.empty()) {
            file.graph.more_outputs.push_back(std::move(output));
            return;
        }
        file.graph.output = output.name;
        file.graph.output_dtype = output.dtype;
    }

    void numerics() {
        FieldReader reader(in);
        reader("accumulate", file.graph.numerics.accumulate);
        reader("k_order", file.graph.numerics.k_order);
    }

    void knob() {
        in.at_end();
        const std::size_t start = in.position();
        const std::string name = in.identifier("a knob");
        in.expect("=");
        const std::string value = in.word("the knob's value");
        try {
            // At its default a knob counts as not given: what is printed does not tell the two apart.
            const KnobSpec* spec = find_knob(name);
            if (spec == nullptr || spec->default_value != value) file.schedule.set(name, value);
        } catch (const ScheduleError& error) {
            in.fail_at(start, error.message() + (error.hint().empty() ? "" : ", " + error.hint()));
        }
    }

    void problem() {
        FieldReader reader(in);
        visit_problem(reader, file.problem);
    }

    void limit() {
        const std::string name = in.identifier("the name of a launch argument");
        FieldReader reader(in);
        reader("max", file.problem.limits[name]);
    }

    void definition() {
        if (in.take_name("input")) return input();
        if (in.take_name("op")) return op();
        if (in.take_name("output")) return output();
        if (in.take_name("numerics")) return numerics();
        if (in.take_name("knob")) return knob();
        if (in.take_name("problem")) return problem();
        if (in.take_name("limit")) return limit();
        if (in.take_name("topology")) {
            file.topology = in.path("the topology");
            return;
        }
        in.fail("expected input, op, output, numerics, knob, problem, limit or topology");
    }
};

}  // namespace

std::string print_schedule(const ScheduleFile& file) {
    const Graph& graph = file.graph;
    std::string out = fmt::format("graph {}\n", graph.name);
    for (const GraphTensor& tensor : graph.inputs) {
        FieldPrinter printer;
        visit_tensor(printer, tensor);
        out += fmt::format("input {} {}\n", tensor.name, printer.text());
    }
    for (const GraphOp& op : graph.ops) {
        out += op_line(op);
        out += op.source.empty() ? "\n" : fmt::format("   // {}\n", op.source);
    }
    if (!graph.output.empty()) out += fmt::format("output {} dtype={}\n", graph.output, graph.output_dtype);
    for (const GraphOutput& more : graph.more_outputs) out += fmt::format("output {} dtype={}\n", more.name, more.dtype);
    out += fmt::format("numerics accumulate={}, k_order={}\n\n", graph.numerics.accumulate, graph.numerics.k_order);
    for (const KnobSpec& spec : knob_specs())
        out += fmt::format("knob {} = {}\n", spec.name, file.schedule.values().at(spec.name));
    FieldPrinter problem;
    visit_problem(problem, file.problem);
    out += fmt::format("\nproblem {}\n", problem.text());
    for (const auto& [name, max] : file.problem.limits) out += fmt::format("limit {} max={}\n", name, max);
    if (!file.topology.empty()) out += fmt::format("topology {}\n", file.topology);
    return out;
}

ScheduleFile parse_schedule(const std::string& text) {
    ScheduleParser parser(text);
    if (!parser.in.next_line() || !parser.in.take_name("graph"))
        parser.in.fail("expected `graph NAME` on the first line");
    parser.file.graph.name = parser.in.identifier("the graph's name");
    parser.in.expect_end();
    while (parser.in.next_line()) {
        parser.definition();
        parser.in.expect_end();
    }
    return std::move(parser.file);
}

}  // namespace plait
