#include "compiler/verify/interpreter/code.h"

#include "runtime/base/error.h"

namespace plait::interpreter {
namespace {

template <class T>
int position(const std::vector<T>& list, const std::string& name) {
    for (std::size_t i = 0; i < list.size(); ++i) {
        if (list[i].name == name) return int(i);
    }
    throw ScheduleError("`" + name + "` is not declared");
}

class Compiler {
public:
    explicit Compiler(const Plan& plan) : plan_(plan) {
        code_.plan = &plan;
        code_.globals = {"M", "rank", "world", "node", "nodes", "local", "locals", "cta", "ctas"};
        for (const Constant& c : plan.consts) code_.globals.push_back(c.name);
        for (const ParamDef& param : plan.params) code_.globals.push_back(param.name);
        for (const LetDef& let : plan.lets) code_.globals.push_back(let.name);
        for (const TensorDef& tensor : plan.tensors) {
            if (tensor.strided) code_.globals.push_back(tensor.pitch());
        }
        for (std::size_t i = 0; i < code_.globals.size(); ++i) global_[code_.globals[i]] = int(i);
        for (const SharedDef& s : plan.shared)
            code_.first_shared.push_back(code_.shared_slots), code_.shared_slots += int(s.count);
        for (const BarrierDef& b : plan.barriers)
            code_.first_barrier.push_back(code_.barriers), code_.barriers += int(b.count);
        for (const FlagDef& f : plan.flags) code_.first_flag.push_back(code_.flags), code_.flags += int(f.count);
        code_.warpgroup = global_["warpgroup"] = int(code_.globals.size());
        code_.slots = code_.warpgroup + 1;
    }

    Code run() {
        for (const std::vector<Step>& steps : walk(plan_)) numbers_from(steps);
        for (const ProgramDef& program : plan_.programs) {
            local_ = global_;
            next_ = code_.warpgroup + 1;
            out_ = {};
            out_.definition = &program;
            out_.first_cta = expr(program.first_cta);
            out_.last_cta = expr(program.last_cta);
            values_.clear();
            block(program.body);
            code_.values = std::max(code_.values, int(values_.size()));
            code_.programs.push_back(std::move(out_));
            code_.slots = std::max(code_.slots, next_);
        }
        return std::move(code_);
    }

private:
    void numbers_from(const std::vector<Step>& steps) {
        for (const Step& step : steps) steps_[step.statement] = step;
    }

    CompiledExpr expr(const Expr& e) {
        return CompiledExpr(e, [&](const std::string& name) {
            const auto found = local_.find(name);
            if (found == local_.end()) throw ScheduleError("`" + name + "` is not declared");
            return found->second;
        });
    }
    // One slot per name of a program: blocks that declare it again reuse it, they never see each other's value.
    int declare(const std::string& name) {
        const auto [entry, fresh] = local_.insert({name, next_});
        if (fresh) next_ += 1;
        return entry->second;
    }

    Instruction& emit(const Statement& s) {
        Instruction i;
        i.op = s.op;
        i.step = steps_.at(&s);
        out_.code.push_back(std::move(i));
        return out_.code.back();
    }
    int here() const { return int(out_.code.size()); }

    void block(const std::vector<Statement>& statements) {
        for (const Statement& s : statements) statement(s);
    }

    void statement(const Statement& s) {
        switch (s.op) {
            case Op::For:
                counted_loop(s);
                return;
            case Op::Loop:
                endless_loop(s);
                return;
            case Op::If:
                condition(s);
                return;
            case Op::BreakIf: {
                Instruction& i = emit(s);
                i.control = Control::JumpIf;
                i.operands = {expr(s.expr("cond"))};
                breaks_.back().push_back(here() - 1);
                return;
            }
            case Op::Let:
            case Op::Var:
            case Op::Assign: {
                const CompiledExpr value = expr(s.expr("value"));
                Instruction& i = emit(s);
                i.control = Control::Set;
                i.operands = {value};
                i.slot = declare(s.word("name"));
                return;
            }
            case Op::Map:
                emit(s).values = {register_value(s.word("acc"))};
                return;  // its body is pointwise and touches the accumulator alone
            default:
                simple(s);
                return;
        }
    }

    void counted_loop(const Statement& s) {
        const CompiledExpr from = expr(s.expr("from"));
        const int var = declare(s.word("var"));
        Instruction& init = emit(s);
        init.control = Control::Set, init.operands = {from}, init.slot = var;
        const int test = here();
        Instruction& compare = emit(s);
        compare.control = Control::JumpUnless;
        compare.operands = {expr(Expr(s.word("var") + " < (" + s.expr("to").print() + ")"))};
        breaks_.push_back({test});
        block(s.body);
        const CompiledExpr next = expr(Expr::name(s.word("var")) + s.expr("step"));
        Instruction& advance = emit(s);
        advance.control = Control::Set, advance.operands = {next}, advance.slot = var;
        emit(s).control = Control::Jump;
        out_.code.back().jump = test;
        close();
    }

    void endless_loop(const Statement& s) {
        const int top = here();
        breaks_.push_back({});
        block(s.body);
        emit(s).control = Control::Jump;
        out_.code.back().jump = top;
        close();
    }

    void condition(const Statement& s) {
        Instruction& test = emit(s);
        test.control = Control::JumpUnless;
        test.operands = {expr(s.expr("cond"))};
        const int at = here() - 1;
        block(s.body);
        out_.code[at].jump = here();
    }

    void close() {
        for (int at : breaks_.back()) out_.code[at].jump = here();
        breaks_.pop_back();
    }

    void simple(const Statement& s) {
        Instruction i;
        i.op = s.op;
        i.step = steps_.at(&s);
        for (const OperandSpec& spec : op_spec(s.op).operands) {
            if (!s.has(spec.name)) continue;
            if (spec.kind == 'e' || spec.kind == 't') i.operands.push_back(expr(s.expr(spec.name)));
            if (spec.kind == 's') shared(s.expr(spec.name), &i);
            if (spec.kind == 'b') object(s.expr(spec.name), code_.first_barrier, plan_.barriers, &i);
            if (spec.kind == 'f') flag(s.word(spec.name), &i);
            if (holds_registers(s.op, spec.name)) i.values.push_back(register_value(s.word(spec.name)));
            if (spec.kind == 'u') i.buffer = position(plan_.buffers, s.word(spec.name));
            if (spec.name == "source" && find_buffer(plan_, s.word("source")) != nullptr)
                i.buffer = position(plan_.buffers, s.word("source"));
            if (spec.kind == 'm')
                i.map = position(plan_.maps, ref_name(s.expr("map"))), i.map_index = expr(ref_index(s.expr("map")));
        }
        switch (s.op) {
            case Op::Enter:
            case Op::FetchTile:
            case Op::RingGet:
            case Op::FifoReserve:
            case Op::LoadValue:
                i.slot = declare(s.word("name"));
                break;
            case Op::GatherDeclare:
                i.slot = gather(s.word("name")), gather_buffers_[s.word("name")] = -1;
                break;
            case Op::GatherIndex:
                i.slot = gather(s.word("gather"));
                gather_buffers_[s.word("gather")] = i.buffer;
                break;
            case Op::GatherTake:
                i.slot = gather(s.word("gather")), i.object = gather(s.word("from"));
                gather_buffers_[s.word("gather")] = gather_buffers_[s.word("from")];
                break;
            case Op::GatherRows:
                i.slot = gather(s.word("gather")), i.buffer = gather_buffers_[s.word("gather")];
                break;
            case Op::Pipe: {
                const std::string& name = s.word("name");
                i.slot = declare(name + ".slot");
                if (declare(name + ".phase") != i.slot + Code::kPhase)
                    throw InternalError("pipe slots are not adjacent");
                pipe_slots_[name] = i.operands[0];
                break;
            }
            case Op::Advance:
                i.slot = local_.at(s.word("pipe") + ".slot"), i.operands = {pipe_slots_.at(s.word("pipe"))};
                break;
            case Op::RelayDeclare:
                i.slot = declare(s.word("name") + ".finished");
                break;
            case Op::RelayPoll:
            case Op::RelayTake:
            case Op::RelayForward:
                i.slot = local_.at(s.word("relay") + ".finished");
                break;
            case Op::OperandDeclare:
                boxes_[s.word("name")] = int(constant_value(plan_, s.expr("cols")) / 64);
                break;
            case Op::MmaIssue:
                if (s.has("boxes")) i.boxes = int(constant_value(plan_, s.expr("boxes")));
                break;
            case Op::MmaIssueOperand:
                i.boxes = boxes_.at(s.word("operand"));
                break;
            case Op::FifoWrite:
            case Op::FifoPublish:
                i.slot = local_.at(s.word("position"));
                break;
            default:
                break;
        }
        out_.code.push_back(std::move(i));
    }

    // Slots of a gather: number of rows, and the range that its indices were promised in.
    int gather(const std::string& name) {
        const int slot = declare(name + ".count");
        if (declare(name + ".low") != slot + 1 || declare(name + ".high") != slot + 2)
            throw InternalError("slots of a gather are not adjacent");
        return slot;
    }

    // Operands that name an accumulator or a register operand, which a matrix operation may be using.
    static bool holds_registers(Op op, const std::string& operand) {
        if (operand == "name") return op == Op::AccDeclare || op == Op::OperandDeclare;
        return operand == "acc" || operand == "operand" || operand == "second" || operand == "third";
    }
    int register_value(const std::string& name) {
        return values_.insert({name, int(values_.size())}).first->second;
    }

    void shared(const Expr& ref, Instruction* i) {
        const int array = position(plan_.shared, ref_name(ref));
        const bool second = i->shared >= 0;
        (second ? i->shared2 : i->shared) = code_.first_shared[array];
        (second ? i->shared2_count : i->shared_count) = int(plan_.shared[array].count);
        (second ? i->shared2_index : i->shared_index) = expr(ref_index(ref));
    }
    template <class T>
    void object(const Expr& ref, const std::vector<int>& first, const std::vector<T>& list, Instruction* i) {
        const int array = position(list, ref_name(ref));
        i->object = first[array], i->object_count = int(list[array].count), i->index = expr(ref_index(ref));
    }
    void flag(const std::string& name, Instruction* i) {
        const int array = position(plan_.flags, name);
        i->object = code_.first_flag[array], i->object_count = int(plan_.flags[array].count);
    }
    const Plan& plan_;
    Code code_;
    Program out_;
    std::map<std::string, int> global_, local_, values_, boxes_;  // boxes_: of a register operand
    std::map<std::string, CompiledExpr> pipe_slots_;
    std::map<std::string, int> gather_buffers_;  // -1: a tensor, whose rows need no flag
    std::map<const Statement*, Step> steps_;
    std::vector<std::vector<int>> breaks_;
    int next_ = 0;
};

}  // namespace

Code compile(const Plan& plan) { return Compiler(plan).run(); }

}  // namespace plait::interpreter
