// Bulk stores from shared memory: what a warpgroup stages is fenced and met before the elected thread stores it, a box
// is restaged only after its store has read it, groups are closed, and an agent ends with nothing in flight. Matrix
// operations begin with their fence.
#include <fmt/format.h>

#include "compiler/verify/rules.h"
#include "compiler/verify/walk.h"

namespace plait {
namespace {

using Program = std::vector<Step>;

class Reuse {
public:
    explicit Reuse(const Plan& plan) : plan_(plan) {}

    Diagnostics run() {
        for (const Program& program : walk(plan_)) {
            for (std::size_t i = 0; i < program.size(); ++i) {
                const Op op = program[i].statement->op;
                if (op == Op::StageBox) before_stage(program, i), after_stage(program, i);
                if (op == Op::StoreBox || op == Op::PutBytes) commit(program, i);
                if (is_issue(op)) begin(program, i);
            }
            end(program);
        }
        return std::move(findings_);
    }

private:
    void report(std::string message, const Step& step, std::string hint) {
        findings_.push_back({"check_reuse", std::move(message), step.where(), std::move(hint)});
    }

    // Backwards: agent_sync, then bulk_wait_read, before anything else is stored. Where that waited for all groups it
    // covers the boxes of several stage_box alike.
    void before_stage(const Program& program, std::size_t at) {
        bool synced = false, read = false, several = false;
        for (std::size_t i = at; i-- > 0 && !read;) {
            const Statement& s = *program[i].statement;
            if (s.op == Op::AgentSync) synced = true;
            if (s.op == Op::BulkWaitRead || s.op == Op::BulkWait) {
                if (several && constant_value(plan_, s.expr("pending")) != 0) break;
                read = true;
                if (!synced) break;
            }
            if (s.op == Op::StoreRows && synced) read = true;  // ordinary loads of the box: the sync orders them
            const bool other_box =
                s.op == Op::StageBox && s.expr("dst").print() != program[at].statement->expr("dst").print();
            several = several || other_box;
            if (s.op == Op::StoreBox || (s.op == Op::StageBox && !other_box)) break;
        }
        if (!read && !stored_in_bulk(program)) read = true;
        if (!read)
            report("stage_box overwrites a box without waiting until its last store has read it", program[at],
                   "bulk_wait_read, then agent_sync, before it");
        else if (!synced)
            report(
                "stage_box after bulk_wait_read without agent_sync: only the elected thread knows that the box is free",
                program[at], "agent_sync between them");
    }

    static bool stored_in_bulk(const Program& program) {
        for (const Step& step : program) {
            if (step.statement->op == Op::StoreBox || step.statement->op == Op::PutBytes) return true;
        }
        return false;
    }

    // Forwards: fence_async_shared, then agent_sync, before the box is stored in bulk; agent_sync alone before its rows are.
    void after_stage(const Program& program, std::size_t at) {
        bool fenced = false, synced = false, met = false;
        const std::string slot = program[at].statement->expr("dst").print();
        for (std::size_t i = at + 1; i < program.size(); ++i) {
            const Statement& s = *program[i].statement;
            if (s.op == Op::FenceAsyncShared) fenced = true;
            if (s.op == Op::AgentSync) met = true, synced = fenced;
            if (s.op == Op::StoreRows && s.expr("src").print() == slot) {
                if (!met)
                    report(fmt::format("store_rows (statement {}) without agent_sync after stage_box: other threads may "
                                       "still stage",
                                       program[i].number),
                           program[at], "agent_sync between them");
                return;
            }
            if (s.op != Op::StoreBox || s.expr("src").print() != slot) continue;
            if (!fenced)
                report(fmt::format(
                           "store_box (statement {}) reads what stage_box wrote without fence_async_shared between",
                           program[i].number),
                       program[at], "ordinary stores enter the async proxy by the fence");
            else if (!synced)
                report(fmt::format("store_box (statement {}) without agent_sync after fence_async_shared: other "
                                   "threads may still stage",
                                   program[i].number),
                       program[at], "agent_sync between them");
            return;
        }
        report(fmt::format("box {} is staged and never stored", slot), program[at], "store it");
    }

    void commit(const Program& program, std::size_t at) {
        for (std::size_t i = at + 1; i < program.size(); ++i) {
            const Op op = program[i].statement->op;
            if (op == Op::BulkCommit) return;
            if (op == Op::BulkWait || op == Op::BulkWaitRead) break;
        }
        report(fmt::format("{} is in no bulk group when groups are waited for", mnemonic(program[at])), program[at],
               "bulk_commit after it");
    }

    // wgmma.fence orders registers, accumulator and register operand alike, before the first wgmma, and again after
    // anything else has touched them; consecutive wgmmas of one shape are ordered among themselves (PTX ISA,
    // "wgmma.fence"). mma_wait touches what it names as far as ptxas can see. mma_begin names the accumulator.
    void begin(const Program& program, std::size_t at) {
        const Statement& issue = *program[at].statement;
        for (std::size_t i = at; i-- > 0;) {
            const Statement& s = *program[i].statement;
            const bool fence = s.op == Op::MmaBegin && s.word("acc") == issue.word("acc");
            if (fence) return;
            const bool same = is_issue(s.op) && s.word("acc") == issue.word("acc");
            if (touches(s, issue) && !same) break;
            const bool loop = s.op == Op::For || s.op == Op::Loop;
            if (loop && program[i].depth < program[at].depth && touched_later(program, i, at)) break;
        }
        report(fmt::format("{} without mma_begin before it: registers of the accumulator are not ordered before it",
                           mnemonic(program[at])),
               program[at],
               "mma_begin before the issue, in every round of a loop whose other statements name the accumulator");
    }

    static bool is_issue(Op op) { return op == Op::MmaIssue || op == Op::MmaIssueOperand; }

    // Whether `s` touches registers that `issue` uses. mma_begin of another accumulator fences, and pins nothing here.
    static bool touches(const Statement& s, const Statement& issue) {
        if (s.op == Op::MmaBegin) return false;
        const bool declares = s.op == Op::AccDeclare || s.op == Op::OperandDeclare;
        for (const char* operand : {"acc", "operand", "second", "third", "name"}) {
            if (!s.has(operand) || (operand == std::string("name") && !declares)) continue;
            const std::string& name = s.word(operand);
            const bool reads_operand = s.op == Op::MmaIssueOperand && operand == std::string("operand");
            if (name == issue.word("acc")) return true;
            if (issue.has("operand") && name == issue.word("operand") && !reads_operand) return true;
        }
        return false;
    }

    // Whether a statement of the loop at `header`, after `at`, touches the registers of the next round's issue.
    static bool touched_later(const Program& program, std::size_t header, std::size_t at) {
        const Statement& issue = *program[at].statement;
        for (std::size_t i = at + 1; i < program.size() && program[i].depth > program[header].depth; ++i) {
            const Statement& s = *program[i].statement;
            if (is_issue(s.op) || s.op == Op::AccDeclare || s.op == Op::OperandDeclare) continue;
            if (touches(s, issue)) return true;
        }
        return false;
    }

    void end(const Program& program) {
        for (std::size_t i = program.size(); i-- > 0;) {
            const Statement& s = *program[i].statement;
            if (s.op == Op::BulkWait && constant_value(plan_, s.expr("pending")) == 0) return;
            if (s.op != Op::StoreBox && s.op != Op::PutBytes) continue;
            report(
                fmt::format("program {} can end while {} is in flight", program[i].program->name, mnemonic(program[i])),
                program[i], "bulk_wait of 0 pending groups before the end");
            return;
        }
    }

    const Plan& plan_;
    Diagnostics findings_;
};

}  // namespace

Diagnostics check_reuse(const Plan& plan) { return Reuse(plan).run(); }

}  // namespace plait
