#include "tests/sim/mutants.h"

#include <algorithm>

#include "runtime/base/error.h"

namespace plait::testing {
namespace {

bool orders(const Statement& s) {
    const Effect e = op_spec(s.op).effect;
    return e == Effect::Signal || e == Effect::Wait || e == Effect::Fence;
}

bool has_effect(const Statement& s, std::initializer_list<Effect> effects) {
    return std::find(effects.begin(), effects.end(), op_spec(s.op).effect) != effects.end();
}

// What an ordering action can be moved past so that something changes: what it orders. A signal or a fence covers what
// stands before it, a wait or a fence protects what stands behind it. Between the action and that statement stand only
// statements that touch no memory (values, trace) or other ordering actions with which the order is free.
bool covered(const Statement& mover, const Statement& s) {
    if (!s.body.empty()) return std::any_of(s.body.begin(), s.body.end(), [&](const Statement& in) { return covered(mover, in); });
    switch (mover.op) {
        case Op::BulkWait: case Op::BulkWaitRead: return s.op == Op::PutBytes || s.op == Op::StoreBox;
        case Op::MmaWait: return s.op == Op::MmaIssue || s.op == Op::MmaIssueOperand;
        case Op::GatherWait: return s.op == Op::GatherRows;
        case Op::MmaBegin: return false;   // registers: nothing before it but other matrix operations
        case Op::FenceAsyncGlobal: return has_effect(s, {Effect::Wait});
        default: return has_effect(s, {Effect::Copy, Effect::Math, Effect::Output, Effect::Wait}) || s.op == Op::BulkWait || s.op == Op::MmaWait;
    }
}
bool protected_by(const Statement& mover, const Statement& s) {
    if (!s.body.empty()) return std::any_of(s.body.begin(), s.body.end(), [&](const Statement& in) { return protected_by(mover, in); });
    if (mover.op == Op::MmaBegin) return s.op == Op::MmaIssue || s.op == Op::MmaIssueOperand;
    return has_effect(s, {Effect::Copy, Effect::Math, Effect::Output, Effect::Signal});
}

std::string describe(const Statement& s) {
    std::string text = op_spec(s.op).mnemonic;
    for (const Operand& o : s.operands) {
        if (o.name == "edge" || o.name == "bar" || o.name == "flag" || o.name == "scope" || o.name == "pending")
            text += " " + o.name + "=" + (o.word.empty() ? o.expr.print() : o.word);
    }
    return text;
}

const char* narrower(const std::string& scope) {
    return scope == "System" ? "Gpu" : scope == "Gpu" ? "Cta" : nullptr;
}

// A value that is declared here must stay in front of its uses: such a move is no program at all.
bool declares(const Statement& s) {
    for (const OperandSpec& o : op_spec(s.op).operands)
        if (o.name == "name") return true;
    return false;
}

int neighbour(const std::vector<Statement>& body, int at, int direction) {
    for (int to = at + direction; to >= 0 && to < static_cast<int>(body.size()); to += direction) {
        if (declares(body[to]) && body[to].op != Op::Let) return -1;
        if (body[to].op == Op::Advance || body[to].op == Op::BreakIf) return -1;
        if (direction < 0 ? covered(body[at], body[to]) : protected_by(body[at], body[to])) return to;
    }
    return -1;
}

void walk(const std::string& program, const std::vector<Statement>& body, std::vector<int> path, std::vector<Mutant>* out) {
    for (int i = 0; i < static_cast<int>(body.size()); ++i) {
        path.push_back(i);
        const Statement& s = body[i];
        if (orders(s)) {
            std::string place = program;
            for (std::size_t n = 0; n < path.size(); ++n) place += (n ? "." : "/") + std::to_string(path[n]);
            const auto add = [&](Mutation m, const std::string& verb) {
                const std::string key = verb + " " + program + " " + describe(s);
                const auto same = std::count_if(out->begin(), out->end(), [&](const Mutant& o) { return o.family == key; });
                out->push_back({m, program, path, verb + " " + place + " " + describe(s), key, key + " #" + std::to_string(same)});
            };
            if (!declares(s)) add(Mutation::Remove, "remove");
            if (s.has("scope") && narrower(s.word("scope"))) add(Mutation::Narrow, "narrow");
            if (s.op == Op::ClusterArrive) add(Mutation::Narrow, "narrow");
            const Effect e = op_spec(s.op).effect;
            // A signal or fence grows weaker by moving up, in front of what it covers; a wait or fence by moving down.
            if (e != Effect::Wait && !declares(s) && neighbour(body, i, -1) >= 0) add(Mutation::MoveEarlier, "move earlier");
            if (e != Effect::Signal && !declares(s) && neighbour(body, i, +1) >= 0) add(Mutation::MoveLater, "move later");
        }
        walk(program, s.body, path, out);
        path.pop_back();
    }
}

}  // namespace

std::vector<Mutant> enumerate_mutants(const Plan& plan) {
    std::vector<Mutant> mutants;
    for (const ProgramDef& p : plan.programs) walk(p.name, p.body, {}, &mutants);
    return mutants;
}

Plan apply(const Plan& plan, const Mutant& mutant) {
    Plan copy = plan;
    for (ProgramDef& p : copy.programs) {
        if (p.name != mutant.program) continue;
        std::vector<Statement>* body = &p.body;
        for (std::size_t n = 0; n + 1 < mutant.path.size(); ++n) body = &(*body)[mutant.path[n]].body;
        const int at = mutant.path.back();
        if (mutant.mutation == Mutation::Remove) {
            body->erase(body->begin() + at);
        } else if (mutant.mutation == Mutation::Narrow && (*body)[at].op == Op::ClusterArrive) {
            const Statement wide = (*body)[at];
            (*body)[at] = make_statement(Op::BarrierArrive, {wide.expr("bar").print(), wide.word("edge")});
        } else if (mutant.mutation == Mutation::Narrow) {
            for (Operand& o : (*body)[at].operands)
                if (o.name == "scope") o.word = narrower(o.word);
        } else {
            const int to = neighbour(*body, at, mutant.mutation == Mutation::MoveEarlier ? -1 : 1);
            const Statement moved = (*body)[at];
            body->erase(body->begin() + at);
            body->insert(body->begin() + to, moved);
        }
        return copy;
    }
    throw InternalError("no program " + mutant.program);
}

}  // namespace plait::testing
