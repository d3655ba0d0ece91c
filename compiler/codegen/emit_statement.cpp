#include "compiler/codegen/emit_statement.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <limits>

#include "runtime/base/error.h"

namespace plait {
namespace {

std::string e(const Statement& s, std::string_view operand) { return print_source_expr(s.expr(operand)); }
std::string shared(const Statement& s, std::string_view operand) { return "sh." + e(s, operand); }
std::string scope(const Statement& s) { return "Scope::" + s.word("scope"); }

std::string trace_kind(const Statement& s) {
    std::string kind = s.word("kind");
    kind[0] = char(std::toupper(static_cast<unsigned char>(kind[0])));
    return "TraceKind::" + kind;
}

template <class Def>
const Def* find_named(const std::vector<Def>& defs, const std::string& name) {
    auto found = std::find_if(defs.begin(), defs.end(), [&](const Def& def) { return def.name == name; });
    return found == defs.end() ? nullptr : &*found;
}

const FlagDef& flag_of(const Plan& plan, const Statement& s) {
    const FlagDef* flag = find_named(plan.flags, s.word("flag"));
    if (!flag) throw InternalError("plan " + plan.name + " has no flag array " + s.word("flag"));
    return *flag;
}

const TensorDef& tensor_of(const Plan& plan, const std::string& name) {
    const TensorDef* tensor = find_named(plan.tensors, name);
    if (!tensor) throw InternalError("plan " + plan.name + " has no tensor " + name);
    return *tensor;
}

// `0.5` -> 0.5f; the shortest text that reads back as the same float.
std::string float_literal(const std::string& word) {
    char* end = nullptr;
    float value = std::strtof(word.c_str(), &end);
    if (end == word.c_str() || *end) throw InternalError("pointwise value `" + word + "` is not a number");
    std::string text = fmt::format("{}", value);
    if (text.find_first_of(".en") == std::string::npos) text += ".0";
    return text + "f";
}

}  // namespace

std::string print_source_expr(const Expr& expr) {
    for (const Expr& operand : expr.operands()) print_source_expr(operand);
    if (expr.kind() != ExprKind::Integer && expr.names().empty()) {
        std::int64_t value = expr.evaluate(nullptr);
        if (value > std::numeric_limits<int>::max() || value < std::numeric_limits<int>::min()) {
            throw InternalError("expression " + expr.print() + " leaves 32 bits before it meets a 64-bit name");
        }
    }
    return expr.print();
}

std::set<std::string> names_used(const Plan& plan, const std::vector<Statement>& body) {
    std::set<std::string> names;
    for (const Statement& s : body) {
        for (const Operand& operand : s.operands) names.merge(operand.expr.names());
        if (s.op == Op::Pointwise && s.has("tensor")) {
            for (const Expr& extent : tensor_of(plan, s.word("tensor")).shape) names.merge(extent.names());
        }
        names.merge(names_used(plan, s.body));
    }
    return names;
}

void StatementPrinter::print(const std::vector<Statement>& body, std::vector<LetDef> lets_after_enter) {
    lets_after_enter_ = std::move(lets_after_enter);
    for (const Statement& s : body) statement(s);
    if (!lets_after_enter_.empty()) {
        throw InternalError("let " + lets_after_enter_.front().name + " depends on a name that this program never declares");
    }
}

// Every op of plan_ops.def has its line here: the compiler lists what a new op lacks.
void StatementPrinter::statement(const Statement& s) {
    writer_.comment(s.comment);
    switch (s.op) {
        case Op::For: return block(fmt::format("for (i64 {0} = {1}; {0} < {2}; {0} += {3})", s.word("var"), e(s, "from"), e(s, "to"), e(s, "step")), s);
        case Op::Loop: return block("for (;;)", s);
        case Op::BreakIf: return writer_.line(fmt::format("if ({}) break;", e(s, "cond")));
        case Op::If: return block(fmt::format("if ({})", e(s, "cond")), s);
        case Op::Let: return writer_.line(fmt::format("const i64 {} = {};", s.word("name"), e(s, "value")));
        case Op::Var: return writer_.line(fmt::format("i64 {} = {};", s.word("name"), e(s, "value")));
        case Op::Assign: return writer_.line(fmt::format("{} = {};", s.word("name"), e(s, "value")));
        case Op::Pipe: return writer_.line(fmt::format("Pipe<{}> {};", e(s, "slots"), s.word("name")));
        case Op::Advance: return writer_.line(s.word("pipe") + ".advance();");
        case Op::Enter: return enter(s);
        case Op::FetchTile: return writer_.line(fmt::format("const i64 {} = fetch_tile(ag, args);", s.word("name")));
        case Op::RingPut: return call("ring_put", {shared(s, "slot"), e(s, "value")});
        case Op::RingGet: return writer_.line(fmt::format("const i64 {} = ring_get(ag, {});", s.word("name"), shared(s, "slot")));
        case Op::BarrierWait: return call("barrier_wait", {shared(s, "bar"), e(s, "parity")});
        case Op::BarrierArrive: return call("barrier_arrive", {shared(s, "bar")});
        case Op::BarrierExpect: return call("barrier_expect", {shared(s, "bar"), e(s, "bytes")});
        case Op::CtaBarrier: return call("cta_barrier", {});
        case Op::AgentSync: return call("agent_sync", {});
        case Op::LoadBoxes: return call("load_boxes", {shared(s, "dst"), "args." + e(s, "map"), e(s, "x"), e(s, "y"), e(s, "z"), shared(s, "bar")}, {e(s, "rows"), e(s, "cols"), s.word("dtype")});
        case Op::StoreBox: return call("store_box", {"args." + e(s, "map"), shared(s, "src"), e(s, "x"), e(s, "y"), e(s, "z")}, {e(s, "rows"), e(s, "cols"), s.word("dtype")});
        case Op::LoadBytes: return call("load_bytes", {shared(s, "dst"), source_address(s), e(s, "bytes"), shared(s, "bar")});
        case Op::PutBytes: return call("put_bytes", {fmt::format("peer_bytes(args, {}_offset, {}, {})", s.word("buffer"), e(s, "peer"), e(s, "offset")), shared(s, "src"), e(s, "bytes")});
        case Op::BulkCommit: return call("bulk_commit", {});
        case Op::BulkWaitRead: return call("bulk_wait_read", {}, {e(s, "pending")});
        case Op::BulkWait: return call("bulk_wait", {}, {e(s, "pending")});
        case Op::FenceAsyncShared: return call("fence_async_shared", {});
        case Op::FenceAsyncGlobal: return call("fence_async_global", {});
        case Op::AccDeclare: return writer_.line(fmt::format("Acc<{}, {}> {};", e(s, "rows"), e(s, "cols"), s.word("name")));
        case Op::MmaBegin: return call("mma_begin", {s.word("acc")});
        case Op::MmaIssue: return call("mma_issue", {s.word("acc"), shared(s, "a"), e(s, "a_rows"), shared(s, "b"), e(s, "accumulate")}, {e(s, "cols"), e(s, "transpose_b"), s.word("dtype")});
        case Op::MmaCommit: return call("mma_commit", {});
        case Op::MmaWait: return call("mma_wait", {s.word("acc")}, {e(s, "pending")});
        case Op::Map: return map(s);
        case Op::Pointwise: return pointwise(s);
        case Op::StageBox: return call("stage_box", {shared(s, "dst"), s.word("acc"), e(s, "block"), e(s, "column")}, {s.word("dtype")});
        case Op::SignalSet: return call("signal_set", {peer_flag(s), e(s, "value"), scope(s)});
        case Op::SignalAdd: return call("signal_add", {peer_flag(s), e(s, "value"), scope(s)});
        case Op::WaitFlag: return call("wait_flag", {"args", own_flag(s), e(s, "value"), scope(s), wait_number()});
        case Op::WaitFlags: return call("wait_flags", {"args", own_flag(s), e(s, "count"), e(s, "value"), scope(s), wait_number()});
        case Op::FifoReserve: return writer_.line(fmt::format("const i64 {} = fifo_reserve(ag, args, {});", s.word("name"), wait_number()));
        case Op::FifoWrite: return fifo_write(s);
        case Op::FifoPublish: return call("fifo_publish", {"args", s.word("position"), scope(s)});
        case Op::FifoWait: return call("fifo_wait", {"args", e(s, "position"), wait_number()});
        case Op::RelayDeclare: return writer_.line(fmt::format("Relay {}(args);", s.word("name")));
        case Op::RelayPoll: return call("relay_poll", {"args", s.word("relay")});
        case Op::RelayTake: return relay_take(s);
        case Op::RelayForward: return call("relay_forward", {"args", s.word("relay"), scope(s)});
        case Op::RelayIdle: return call("relay_idle", {});
        case Op::AgentFinished: return call("agent_finished", {"args"});
        case Op::Leave: return call("leave", {"args"});
        case Op::Trace: return call("trace", {trace_kind(s), e(s, "value")});
        // Plans may say these; neither machine has the primitive yet.
        case Op::LoadValue: case Op::GatherRows: case Op::StoreRows: case Op::AccFill: case Op::AddBox: case Op::RowDeclare:
        case Op::MaskCols: case Op::RowRescale: case Op::Exp2Rows: case Op::RowSum: case Op::ScaleRows: case Op::DivideRows:
        case Op::AsOperand: case Op::MmaIssueOperand: case Op::StoreLogSumExp:
            throw CompileError("plan op " + op_spec(s.op).mnemonic + " has no primitive in the tile machine yet", "the plan verifies, it cannot be compiled");
    }
    throw InternalError("emit: op without a printed form");
}

void StatementPrinter::call(const std::string& name, std::vector<std::string> arguments, std::vector<std::string> templates) {
    arguments.insert(arguments.begin(), "ag");
    std::string list = templates.empty() ? "" : fmt::format("<{}>", fmt::join(templates, ", "));
    writer_.line(fmt::format("{}{}({});", name, list, fmt::join(arguments, ", ")));
}

void StatementPrinter::block(const std::string& heading, const Statement& s, const std::string& end) {
    writer_.open(heading);
    for (const Statement& inner : s.body) statement(inner);
    writer_.close(end);
}

void StatementPrinter::enter(const Statement& s) {
    writer_.line(fmt::format("const i64 {} = enter(ag, args);", s.word("name")));
    for (const LetDef& let : lets_after_enter_) {
        writer_.line(fmt::format("const i64 {} = {};", let.name, print_source_expr(let.value)));
    }
    lets_after_enter_.clear();
}

void StatementPrinter::map(const Statement& s) {
    writer_.open(fmt::format("map(ag, {}, {}, {}, [&](i64 r, i64 c, f32 x)", s.word("acc"), e(s, "row"), e(s, "col")));
    for (const Statement& inner : s.body) statement(inner);
    writer_.line("return x;");
    writer_.close("});");
}

// function(x), function(x, value) or function(x, tensor at this element), whose limits are the tensor's shape.
void StatementPrinter::pointwise(const Statement& s) {
    std::string function = s.word("function");
    if (function == "cast") return writer_.line(fmt::format("x = round_to<{}>(x);", s.word("value")));
    if (function == "bias" || function == "residual") function = "add";
    if (function == "scale") function = "mul";
    std::string second;
    if (s.has("tensor")) {
        const TensorDef& tensor = tensor_of(plan_, s.word("tensor"));
        std::string last = print_source_expr(tensor.shape.back());
        if (tensor.shape.size() == 1) {
            second = fmt::format(", col_at(ag, args.{}, c, {})", tensor.name, last);
        } else {
            second = fmt::format(", cell_at(ag, args.{}, r, c, {}, {})", tensor.name, print_source_expr(tensor.shape[0]), last);
        }
    } else if (s.has("value")) {
        second = ", " + float_literal(s.word("value"));
    }
    writer_.line(fmt::format("x = {}(x{});", function, second));
}

void StatementPrinter::relay_take(const Statement& s) {
    const std::string& relay = s.word("relay");
    writer_.open(fmt::format("while ({}.has_arrival())", relay));
    call("signal_set", {relay + ".arrival_flag(args)", relay + ".arrival_value()", scope(s)});
    call("relay_next", {"args", relay});
    writer_.close();
}

void StatementPrinter::fifo_write(const Statement& s) {
    std::string payload = fmt::format("area_offset(args, {}_offset, {})", s.word("buffer"), e(s, "offset"));
    call("fifo_write", {"args", s.word("position"), e(s, "rank"), payload, e(s, "bytes"), flag_offset(s), e(s, "value")});
}

std::string StatementPrinter::source_address(const Statement& s) const {
    const std::string& source = s.word("source");
    if (find_named(plan_.tensors, source)) return fmt::format("tensor_bytes(args.{}, {})", source, e(s, "offset"));
    if (!find_named(plan_.buffers, source)) throw InternalError("plan " + plan_.name + " has no tensor or buffer " + source);
    return fmt::format("own_bytes(args, {}_offset, {})", source, e(s, "offset"));
}

// The Session's flags stand one a line in front of every artifact's area, an artifact's own are packed inside it.
std::string StatementPrinter::peer_flag(const Statement& s) const {
    const FlagDef& flag = flag_of(plan_, s);
    if (flag.session) return fmt::format("peer_entered(args, {}, {})", e(s, "peer"), e(s, "index"));
    return fmt::format("peer_flag(args, {}_offset, {}, {})", flag.name, e(s, "peer"), e(s, "index"));
}

std::string StatementPrinter::own_flag(const Statement& s) const {
    const FlagDef& flag = flag_of(plan_, s);
    if (flag.session) {
        if (s.op == Op::WaitFlags) throw InternalError("wait_flags covers packed flags, " + flag.name + " stands one a line");
        return fmt::format("own_entered(args, {})", e(s, "index"));
    }
    return fmt::format("own_flag(args, {}_offset, {})", flag.name, e(s, "index"));
}

std::string StatementPrinter::flag_offset(const Statement& s) const {
    const FlagDef& flag = flag_of(plan_, s);
    if (flag.session) return fmt::format("entered_offset({})", e(s, "index"));
    return fmt::format("flag_offset(args, {}_offset, {})", flag.name, e(s, "index"));
}

}  // namespace plait
