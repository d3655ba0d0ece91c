#include "tests/sim/mutants.h"

#include "runtime/base/error.h"

namespace plait::testing {
namespace {

bool orders(const Statement& s) {
    const Effect e = op_spec(s.op).effect;
    return e == Effect::Signal || e == Effect::Wait || e == Effect::Fence;
}

// Statements that order nothing and touch no memory: moving past them changes nothing, so the neighbour lies behind them.
bool transparent(const Statement& s) {
    const Effect e = op_spec(s.op).effect;
    return e == Effect::Trace || s.op == Op::Let || s.op == Op::Var || s.op == Op::Pipe || s.op == Op::AccDeclare;
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
    int to = at + direction;
    while (to >= 0 && to < static_cast<int>(body.size()) && transparent(body[to])) to += direction;
    if (to < 0 || to >= static_cast<int>(body.size()) || declares(body[to])) return -1;
    return to;
}

void walk(const std::string& program, const std::vector<Statement>& body, std::vector<int> path, std::vector<Mutant>* out) {
    for (int i = 0; i < static_cast<int>(body.size()); ++i) {
        path.push_back(i);
        const Statement& s = body[i];
        if (orders(s)) {
            std::string place = program;
            for (std::size_t n = 0; n < path.size(); ++n) place += (n ? "." : "/") + std::to_string(path[n]);
            const auto add = [&](Mutation m, const std::string& verb) {
                out->push_back({m, program, path, verb + " " + place + " " + describe(s)});
            };
            if (!declares(s)) add(Mutation::Remove, "remove");
            if (s.has("scope") && narrower(s.word("scope"))) add(Mutation::Narrow, "narrow");
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
