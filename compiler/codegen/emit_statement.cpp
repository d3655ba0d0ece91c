#include "compiler/codegen/emit_statement.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <limits>

#include "compiler/ir/operand.h"
#include "compiler/ir/plan_sizes.h"
#include "runtime/base/error.h"

namespace plait {
namespace {

std::string e(const Statement& s, std::string_view operand) { return print_source_expr(s.expr(operand)); }

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

// Of those that may be absent: the operand settled, the second and third value waited for.
std::string more_values(const Statement& s) {
    std::string text;
    for (const char* name : {"operand", "second", "third"}) {
        if (s.has(name)) text += ", " + s.word(name);
    }
    return text;
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
        if ((s.op == Op::Pointwise || s.op == Op::StoreRows) && s.has("tensor")) {
            for (const Expr& extent : tensor_of(plan, s.word("tensor")).shape) names.merge(extent.names());
        }
        if (s.op == Op::GatherIndex) {
            if (const TensorDef* source = find_named(plan.tensors, s.word("source"))) names.merge(source->shape.back().names());
        }
        names.merge(names_used(plan, s.body));
    }
    return names;
}

void StatementPrinter::print(const std::vector<Statement>& body, std::vector<LetDef> lets_after_enter) {
    lets_after_enter_ = std::move(lets_after_enter);
    for (const Statement& s : body) statement(s);
    if (!lets_after_enter_.empty()) {
        throw InternalError("let " + lets_after_enter_.front().name +
                            " depends on a name that this program never declares");
    }
}

// Every op of plan_ops.def has its line here: the compiler lists what a new op lacks.
// clang-format off
void StatementPrinter::statement(const Statement& s) {
    writer_.comment(s.comment);
    switch (s.op) {
        case Op::For: return counted_loop(s);
        case Op::Loop: return block(s, "for (;;)");
        case Op::BreakIf: return form(s, "if ({cond}) break;");
        case Op::If: return block(s, "if ({cond})");
        case Op::Let: return form(s, "const i64 {name} = {value};");
        case Op::Var: return form(s, "i64 {name} = {value};");
        case Op::Assign: return form(s, "{name} = {value};");
        case Op::Pipe: return form(s, "Pipe<{slots}> {name};");
        case Op::Advance: return form(s, "{pipe}.advance();");
        case Op::Enter: return enter(s);
        case Op::FetchTile: return form(s, "const i64 {name} = fetch_tile(ag, args);");
        case Op::RingPut: return form(s, "ring_put(ag, sh.{slot}, {value});");
        case Op::RingGet: return form(s, "const i64 {name} = ring_get(ag, sh.{slot});");
        case Op::BarrierWait: return form(s, "barrier_wait(ag, sh.{bar}, {parity});");
        case Op::BarrierArrive: return form(s, "barrier_arrive(ag, sh.{bar});");
        case Op::ClusterArrive: return form(s, "cluster_arrive<{ctas}>(ag, sh.{bar});");
        case Op::BarrierExpect: return form(s, "barrier_expect(ag, sh.{bar}, {bytes});");
        case Op::CtaBarrier: return form(s, "cta_barrier(ag);");
        case Op::AgentSync: return form(s, "agent_sync(ag);");
        case Op::LoadBoxes:
            return form(s, "load_boxes<{rows}, {cols}, {dtype}>(ag, sh.{dst}, args.{map}, {x}, {y}, {z}, sh.{bar});");
        case Op::LoadMulticast:
            return form(s, "load_multicast<{ctas}, {rows}, {cols}, {dtype}>(ag, sh.{dst}, args.{map}, {x}, {y}, {z}, sh.{bar});");
        case Op::StoreBox:
            return form(s, "store_box<{rows}, {cols}, {dtype}>(ag, args.{map}, sh.{src}, {x}, {y}, {z});");
        case Op::LoadBytes: return form(s, "load_bytes(ag, sh.{dst}, {$source_address}, {bytes}, sh.{bar});");
        case Op::PutBytes:
            return form(s, "put_bytes(ag, peer_bytes(args, {buffer}_offset, {peer}, {offset}), sh.{src}, {bytes});");
        case Op::BulkCommit: return form(s, "bulk_commit(ag);");
        case Op::BulkWaitRead: return form(s, "bulk_wait_read<{pending}>(ag);");
        case Op::BulkWait: return form(s, "bulk_wait<{pending}>(ag);");
        case Op::FenceAsyncShared: return form(s, "fence_async_shared(ag);");
        case Op::FenceAsyncGlobal: return form(s, "fence_async_global(ag);");
        case Op::AccDeclare: return form(s, "Acc<{rows}, {cols}> {name};");
        case Op::MmaBegin: return form(s, "mma_begin(ag, {acc});");
        case Op::MmaIssue:
            return form(s, "mma_issue<{cols}, {transpose_b}, {dtype}{$boxes}>(ag, {acc}, sh.{a}, {a_rows}, sh.{b}, "
                           "{accumulate});");
        case Op::MmaCommit: return form(s, "mma_commit(ag);");
        case Op::MmaWait: return form(s, "mma_wait<{pending}>(ag, {acc}{$more_values});");
        case Op::Map: return map(s);
        case Op::Pointwise: return pointwise(s);
        case Op::AccJoin: return join(s);
        case Op::StageBox: return form(s, "stage_box<{dtype}>(ag, sh.{dst}, {acc}, {block}, {column});");
        case Op::SignalSet: return form(s, "signal_set(ag, {$peer_flag}, {$flag_value}, Scope::{scope});");
        case Op::SignalAdd: return form(s, "signal_add(ag, {$peer_flag}, {value}, Scope::{scope});");
        case Op::WaitFlag: return form(s, "wait_flag(ag, args, {$own_flag}, {$flag_value}, Scope::{scope}, {$wait});");
        case Op::WaitFlags:
            return form(s, "wait_flags(ag, args, {$own_flag}, {count}, {value}, Scope::{scope}, {$wait});");
        case Op::FifoReserve: return form(s, "const i64 {name} = fifo_reserve(ag, args, {$wait});");
        case Op::FifoWrite:
            return form(s, "fifo_write(ag, args, {position}, {rank}, area_offset(args, {buffer}_offset, "
                           "{offset}), {bytes}, {$flag_offset}, {$flag_value});");
        case Op::FifoPublish: return form(s, "fifo_publish(ag, args, {position}, Scope::{scope});");
        case Op::FifoWait: return form(s, "fifo_wait(ag, args, {position}, {$wait});");
        case Op::RelayDeclare: return form(s, "Relay {name}(args);");
        case Op::RelayPoll: return form(s, "relay_poll(ag, args, {relay});");
        case Op::RelayTake: return relay_take(s);
        case Op::RelayForward: return form(s, "relay_forward(ag, args, {relay}, Scope::{scope});");
        case Op::RelayIdle: return form(s, "relay_idle(ag);");
        case Op::AgentFinished: return form(s, "agent_finished(ag, args);");
        case Op::Leave: return form(s, "leave(ag, args);");
        case Op::Trace: return form(s, "trace(ag, {$trace_kind}, {value});");
        case Op::LoadValue:
            return form(s, "const i64 {name} = load_value(ag, args, args.{source}, {index}, {low}, {high}, {$wait});");
        case Op::GatherIndex:
            return form(s, "{gather} = gather_index<{rows}>(ag, args, {$row_source}, args.{indices}, {first}, {count}, {base}, "
                           "{low}, {high}, {$wait});");
        case Op::GatherDeclare: return form(s, "RowGather<{rows}> {name};");
        case Op::GatherTake: return form(s, "{gather} = {from};");
        case Op::GatherRows:
            return form(s, "gather_rows<{rows}, {cols}, {dtype}>(ag, sh.{dst}, {gather}, {column});");
        case Op::GatherWait: return form(s, "gather_wait<{pending}>(ag);");
        case Op::StoreRows:
            return form(s, "store_rows<{dtype}>(ag, args.{tensor}, sh.{src}, {row}, {col}, {rows}, {$width});");
        case Op::RowDeclare: return form(s, "Row<{rows}> {name}(ag, {$row_value});");
        case Op::PartDeclare: return form(s, "RowPart<{rows}> {name}(ag);");
        case Op::MaskCols: return form(s, "mask_cols(ag, {acc}, {diagonal}, {cols});");
        case Op::RowRescale:
            return form(s, "row_rescale(ag, {factor}, {max}, {acc}, {$scale}, {$threshold});");
        case Op::Exp2Rows: return form(s, "exp2_rows(ag, {acc}, {$scale}, {max});");
        case Op::RowSum: return form(s, "row_sum(ag, {sum}, {factor}, {acc});");
        case Op::FinishRows: return form(s, "finish_rows(ag, {sum}, {part});");
        case Op::ScaleRows: return form(s, "scale_rows(ag, {acc}, {factor});");
        case Op::DivideRows: return form(s, "divide_rows(ag, {acc}, {sum});");
        case Op::OperandDeclare: return form(s, "Operand<{rows}, {cols}, {dtype}> {name}(ag);");
        case Op::AsOperand: return form(s, "as_operand(ag, {operand}, {acc});");
        case Op::SoftmaxOperand:
            return form(s, "softmax_operand(ag, {operand}, {factor}, {max}, {part}, {acc}, {$scale}, {$threshold});");
        case Op::MmaIssueOperand:
            return form(s, "mma_issue_operand<{cols}, {transpose_b}, {dtype}>(ag, {acc}, {operand}, sh.{b}, "
                           "{accumulate});");
        case Op::AccFill: return form(s, "acc_fill(ag, {acc}, {$value});");
        case Op::Settle: return form(s, "settle(ag, {part}{$more_values});");
        case Op::TurnWait: return form(s, "turn_wait(ag, {turn});");
        case Op::TurnPass: return form(s, "turn_pass(ag, {turn});");
        case Op::StoreLogSumExp:
            return form(s, "store_log_sum_exp(ag, args.{tensor}, {max}, {sum}, {index}, {rows});");
        // Plans may say these; neither machine has the primitive yet.
        case Op::AddBox:
            throw CompileError("plan op " + op_spec(s.op).mnemonic + " has no primitive in the tile machine yet",
                               "the plan verifies, it cannot be compiled");
    }
    throw InternalError("emit: op without a printed form");
}
// clang-format on

std::string StatementPrinter::filled(const Statement& s, std::string_view pattern) {
    std::string text;
    while (!pattern.empty()) {
        std::size_t open = std::min(pattern.find('{'), pattern.size());
        text += pattern.substr(0, open);
        pattern.remove_prefix(open);
        if (pattern.empty()) break;
        std::size_t close = pattern.find('}');
        text += value_of(s, std::string(pattern.substr(1, close - 1)));
        pattern.remove_prefix(close + 1);
    }
    return text;
}

std::string StatementPrinter::value_of(const Statement& s, const std::string& name) {
    if (name == "$source_address") return source_address(s);
    if (name == "$row_source") return row_source(s);
    if (name == "$width") return print_source_expr(tensor_of(plan_, s.word("tensor")).shape.back());
    if (name == "$peer_flag") return peer_flag(s);
    if (name == "$own_flag") return own_flag(s);
    if (name == "$flag_offset") return flag_offset(s);
    if (name == "$flag_value") return flag_value(s);
    if (name == "$wait") return std::to_string(next_wait_++);
    if (name == "$trace_kind") return trace_kind(s);
    if (name == "$more_values") return more_values(s);
    if (name == "$boxes" && s.has("transpose_a")) return fmt::format(", {}, {}", s.has("boxes") ? e(s, "boxes") : "1", e(s, "transpose_a"));
    if (name == "$boxes") return s.has("boxes") ? ", " + e(s, "boxes") : "";
    if (name == "$row_value" && s.word("value") == "lowest") return "kLowest";
    if (name == "$row_value" || name == "$value") return float_literal(s.word("value"));
    if (name == "$scale" || name == "$threshold") return float_literal(s.word(name.substr(1)));
    for (const OperandSpec& spec : op_spec(s.op).operands) {
        if (spec.name == name) return is_word_kind(spec.kind) ? s.word(name) : print_source_expr(s.expr(name));
    }
    throw InternalError("emit: " + op_spec(s.op).mnemonic + " has no operand " + name);
}

void StatementPrinter::form(const Statement& s, std::string_view pattern) { writer_.line(filled(s, pattern)); }

// A thread has few registers and all the time of its CTA: unrolled over a short depth, a loader spills hundreds of bytes.
void StatementPrinter::counted_loop(const Statement& s) {
    const auto is_bound = [&](const Constant& constant) { return constant.name == s.expr("to").print(); };
    if (one_thread_ && std::any_of(plan_.consts.begin(), plan_.consts.end(), is_bound)) writer_.line("#pragma unroll 1");
    block(s, "for (i64 {var} = {from}; {var} < {to}; {var} += {step})");
}

void StatementPrinter::block(const Statement& s, std::string_view heading, std::string_view end) {
    writer_.open(filled(s, heading));
    for (const Statement& inner : s.body) statement(inner);
    writer_.close(end);
}

void StatementPrinter::enter(const Statement& s) {
    form(s, "const i64 {name} = enter(ag, args);");
    for (const LetDef& let : lets_after_enter_) {
        writer_.line(fmt::format("const i64 {} = {};", let.name, print_source_expr(let.value)));
    }
    lets_after_enter_.clear();
}

void StatementPrinter::map(const Statement& s) {
    writer_.open(filled(s, "map(ag, {acc}, {row}, {col}, [&](i64 r, i64 c, f32 x)"));
    for (const Statement& inner : s.body) statement(inner);
    writer_.line("return x;");
    writer_.close("});");
}

void StatementPrinter::join(const Statement& s) {
    writer_.open(filled(s, "join(ag, {acc}, {second}, [&](f32 x, f32 y)"));
    form(s, "return {function}(x, y);");
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
            const std::string pitch =
                tensor.strided ? fmt::format("args.{} / {}", tensor.pitch(), element_bytes(tensor.dtype)) : last;
            second = fmt::format(", cell_at(ag, args.{}, r, c, {}, {}, {})", tensor.name,
                                 print_source_expr(tensor.shape[0]), last, pitch);
        }
    } else if (s.has("value")) {
        second = ", " + float_literal(s.word("value"));
    }
    writer_.line(fmt::format("x = {}(x{});", function, second));
}

void StatementPrinter::relay_take(const Statement& s) {
    writer_.open(filled(s, "while ({relay}.has_arrival())"));
    form(s, "signal_set(ag, {relay}.arrival_flag(args), {relay}.arrival_value(), Scope::{scope});");
    form(s, "relay_next(ag, args, {relay});");
    writer_.close();
}

std::string StatementPrinter::source_address(const Statement& s) const {
    const std::string& source = s.word("source");
    if (find_named(plan_.tensors, source)) return fmt::format("tensor_bytes(args.{}, {})", source, e(s, "offset"));
    if (!find_named(plan_.buffers, source)) {
        throw InternalError("plan " + plan_.name + " has no tensor or buffer " + source);
    }
    return fmt::format("own_bytes(args, {}_offset, {})", source, e(s, "offset"));
}

// Where a gather's rows lie: one memory or two, and the columns of a row.
std::string StatementPrinter::row_source(const Statement& s) const {
    const auto start = [&](const std::string& memory) {
        return find_named(plan_.tensors, memory) ? fmt::format("tensor_bytes(args.{}, 0)", memory)
                                                 : fmt::format("own_bytes(args, {}_offset, 0)", memory);
    };
    const std::string& source = s.word("source");
    const BufferDef* buffer = find_named(plan_.buffers, source);
    const std::string columns =
        buffer != nullptr ? std::to_string(buffer->shape.back()) : print_source_expr(tensor_of(plan_, source).shape.back());
    if (!s.has("more_source")) return fmt::format("row_source({}, {})", start(source), columns);
    return fmt::format("row_source({}, {}, {}, {})", start(source), columns, start(s.word("more_source")), e(s, "split"));
}

// The Session's flags stand one a line in front of every artifact's area, an artifact's own are packed inside it.
std::string StatementPrinter::peer_flag(const Statement& s) const {
    const FlagDef& flag = flag_of(plan_, s);
    if (flag.session && s.op == Op::SignalAdd) throw InternalError(flag.name + " holds epochs: it is set, never added to");
    if (flag.session) return fmt::format("peer_entered(args, {}, {})", e(s, "peer"), e(s, "index"));
    return fmt::format("peer_flag(args, {}_offset, {}, {})", flag.name, e(s, "peer"), e(s, "index"));
}

std::string StatementPrinter::own_flag(const Statement& s) const {
    const FlagDef& flag = flag_of(plan_, s);
    if (flag.session) {
        if (s.op == Op::WaitFlags)
            throw InternalError("wait_flags covers packed flags, " + flag.name + " stands one a line");
        return fmt::format("own_entered(args, {})", e(s, "index"));
    }
    return fmt::format("own_flag(args, {}_offset, {})", flag.name, e(s, "index"));
}

std::string StatementPrinter::flag_offset(const Statement& s) const {
    const FlagDef& flag = flag_of(plan_, s);
    if (flag.session) return fmt::format("entered_offset({})", e(s, "index"));
    return fmt::format("flag_offset(args, {}_offset, {})", flag.name, e(s, "index"));
}

// An entered flag says besides the epoch which launch its rank entered.
std::string StatementPrinter::flag_value(const Statement& s) const {
    const FlagDef& flag = flag_of(plan_, s);
    if (!flag.session) return e(s, "value");
    return fmt::format("{}{})", s.op == Op::WaitFlag ? "entered_since(" : "entered_value(args, ", e(s, "value"));
}

}  // namespace plait
