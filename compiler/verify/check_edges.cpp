// Every wait has a signal on its edge, of the edge's scope, and the fences of the edge table stand where they must:
// producer's between the last access and the signal, consumer's between the wait and the first use.
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

#include "compiler/ir/edge_table.h"
#include "compiler/verify/rules.h"
#include "compiler/verify/walk.h"

namespace plait {
namespace {

using Program = std::vector<Step>;

bool contains(const std::vector<Op>& ops, Op op) { return std::find(ops.begin(), ops.end(), op) != ops.end(); }

// Rank of a scope word; edges over the network are reached at System scope.
int reach(const std::string& scope) { return scope == "Cta" ? 0 : scope == "Gpu" ? 1 : 2; }

class Edges {
public:
    explicit Edges(const Plan& plan) : plan_(plan), programs_(walk(plan)) {}

    Diagnostics run() {
        for (const EdgeDef& edge : plan_.edges) definition(edge);
        for (const Program& program : programs_) {
            for (std::size_t i = 0; i < program.size(); ++i) statement(program, i);
        }
        for (const EdgeDef& edge : plan_.edges) pairing(edge);
        return std::move(findings_);
    }

private:
    void report(std::string message, std::string where, std::string hint) {
        findings_.push_back({"check_edges", std::move(message), std::move(where), std::move(hint)});
    }

    void definition(const EdgeDef& edge) {
        if (find_edge_row(edge) == nullptr) {
            report(fmt::format("edge {} cannot be lowered: the edge table has no such row", describe(edge)),
                   "edge " + edge.name, "change its producer, signal, scope or consumer");
        }
    }

    void statement(const Program& program, std::size_t i) {
        const Step& step = program[i];
        const Statement& s = *step.statement;
        if (!s.has("edge")) return;
        const EdgeDef* edge = find_edge(plan_, s.word("edge"));
        const EdgeRow* row = edge == nullptr ? nullptr : find_edge_row(*edge);
        if (row == nullptr) return;
        scope(step, *edge);
        const Effect effect = op_spec(s.op).effect;
        if (contains(row->signals, s.op)) {
            signals_[edge->name] += 1;
            producer_fences(program, i, *edge, *row);
        } else if (contains(row->waits, s.op)) {
            waits_[edge->name].push_back(&step);
            consumer_fences(program, i, *edge, *row);
        } else if (effect == Effect::Signal || effect == Effect::Wait) {
            report(fmt::format("{} on edge {}, which it cannot {}", mnemonic(step), describe(*edge),
                               effect == Effect::Signal ? "signal" : "wait for"),
                   step.where(), "use an op of the edge's row in the edge table");
        }
    }

    void scope(const Step& step, const EdgeDef& edge) {
        const Statement& s = *step.statement;
        if (!s.has("scope")) return;
        // The relay writes this GPU's memory for agents of this GPU.
        const bool relay = s.op == Op::RelayTake || s.op == Op::RelayForward;
        const std::string needed = relay ? "Gpu" : scope_word(edge.scope);
        if (reach(s.word("scope")) >= reach(needed)) return;
        report(fmt::format("{} at scope {}, edge {} needs {}", mnemonic(step), s.word("scope"), describe(edge), needed),
               step.where(), fmt::format("use scope {}", needed));
    }

    // What the producer of this edge did last: the accesses that its fences must cover.
    static bool is_producer_access(const EdgeDef& edge, Op op) {
        switch (edge.producer) {
            case ProducerKind::Bulk:
                return op == Op::PutBytes || op == Op::StoreBox;
            case ProducerKind::Mma:
                return op == Op::MmaIssue || op == Op::MmaIssueOperand;
            case ProducerKind::Store:
                return op == Op::StageBox || op == Op::RingPut || op == Op::RingGet;
            case ProducerKind::Gather:
                return op == Op::GatherRows;
            default:
                return false;
        }
    }

    void producer_fences(const Program& program, std::size_t at, const EdgeDef& edge, const EdgeRow& row) {
        for (Op fence : row.producer_fences) {
            for (std::size_t i = at; i-- > 0;) {
                const Statement& s = *program[i].statement;
                const bool pending_ok =
                    fence != Op::BulkWait || (s.has("pending") && constant_value(plan_, s.expr("pending")) == 0);
                if (s.op == fence && pending_ok) break;
                if (!is_producer_access(edge, s.op)) continue;
                report(fmt::format("{} signals edge {} after {} (statement {}) without {}{} between",
                                   mnemonic(program[at]), describe(edge), mnemonic(program[i]), program[i].number,
                                   op_spec(fence).mnemonic, fence == Op::BulkWait ? " of 0 pending groups" : ""),
                       program[at].where(), row.why);
                break;
            }
        }
    }

    bool is_consumer_access(const EdgeDef& edge, const Statement& s) const {
        switch (edge.consumer) {
            case ConsumerKind::Tma:
                return s.op == Op::LoadBoxes || s.op == Op::LoadMulticast || s.op == Op::PutBytes ||
                       s.op == Op::StoreBox ||
                       (s.op == Op::LoadBytes && find_buffer(plan_, s.word("source")) != nullptr);
            case ConsumerKind::Mma:
                return s.op == Op::MmaIssue || s.op == Op::MmaIssueOperand;
            default:
                return false;
        }
    }

    void consumer_fences(const Program& program, std::size_t at, const EdgeDef& edge, const EdgeRow& row) {
        for (Op fence : row.consumer_fences) {
            for (std::size_t i = at + 1; i < program.size(); ++i) {
                const Statement& s = *program[i].statement;
                if (s.op == fence) break;
                if (!is_consumer_access(edge, s)) continue;
                report(fmt::format("{} (statement {}) uses what {} on edge {} waited for, without {} between",
                                   mnemonic(program[i]), program[i].number, mnemonic(program[at]), describe(edge),
                                   op_spec(fence).mnemonic),
                       program[at].where(), row.why);
                break;
            }
        }
    }

    void pairing(const EdgeDef& edge) {
        const EdgeRow* row = find_edge_row(edge);
        if (row == nullptr) return;
        for (const Step* wait : waits_[edge.name]) {
            if (row->signals.empty() || signals_[edge.name] > 0) continue;
            report(fmt::format("{} waits on edge {}, which nothing signals", mnemonic(*wait), describe(edge)),
                   wait->where(), "signal it after its producer is complete");
        }
        // Counts that only the launch protocol reads have no wait in the Plan.
        const bool counted = edge.signal == SignalKind::Counter;
        if (signals_[edge.name] > 0 && waits_[edge.name].empty() && !row->waits.empty() && !counted) {
            report(fmt::format("edge {} is signalled and never waited for", describe(edge)), "edge " + edge.name,
                   "wait before the use, or remove the edge");
        }
        if (signals_[edge.name] == 0 && waits_[edge.name].empty()) {
            report(fmt::format("edge {} is neither signalled nor waited for", describe(edge)), "edge " + edge.name,
                   "remove it");
        }
    }

    const Plan& plan_;
    std::vector<Program> programs_;
    Diagnostics findings_;
    std::map<std::string, int> signals_;
    std::map<std::string, std::vector<const Step*>> waits_;
};

}  // namespace

Diagnostics check_edges(const Plan& plan) { return Edges(plan).run(); }

}  // namespace plait
