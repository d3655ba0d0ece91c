// Prints the body of one program, one call a statement. The forms are listed in templates/machine.h; both machines
// read the same text.
#pragma once
#include <cstdint>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "compiler/codegen/source_writer.h"
#include "compiler/ir/plan.h"

namespace plait {

// A C++ form of an expression. Sizes reach past 32 bits and C++ computes literals as int: a part without names
// that leaves 32 bits is an error here, because it would be one, silently, in the source.
std::string print_source_expr(const Expr& expr);

// Names that expressions of the statements, and what is printed for them, depend on.
std::set<std::string> names_used(const Plan& plan, const std::vector<Statement>& body);

class StatementPrinter {
public:
    // first_wait: number of the first abortable wait printed; next_wait() continues the count. one_thread: the program is
    // of one-thread agents.
    StatementPrinter(const Plan& plan, SourceWriter& writer, std::int64_t first_wait, bool one_thread)
        : plan_(plan), writer_(writer), next_wait_(first_wait), one_thread_(one_thread) {}

    // lets_after_enter: lets that depend on the epoch, printed when it is known.
    void print(const std::vector<Statement>& body, std::vector<LetDef> lets_after_enter = {});
    std::int64_t next_wait() const { return next_wait_; }

private:
    void statement(const Statement& s);
    // `pattern` is the line with operands in braces; {$name} is what needs more than the operand to be printed.
    void form(const Statement& s, std::string_view pattern);
    void counted_loop(const Statement& s);
    void block(const Statement& s, std::string_view heading, std::string_view end = "}");
    std::string filled(const Statement& s, std::string_view pattern);
    std::string value_of(const Statement& s, const std::string& name);
    void enter(const Statement& s);
    void map(const Statement& s);
    void join(const Statement& s);
    void pointwise(const Statement& s);
    void relay_take(const Statement& s);

    std::string source_address(const Statement& s) const;
    std::string row_source(const Statement& s) const;
    std::string peer_flag(const Statement& s) const;
    std::string own_flag(const Statement& s) const;
    std::string flag_offset(const Statement& s) const;
    std::string flag_value(const Statement& s) const;

    const Plan& plan_;
    SourceWriter& writer_;
    std::int64_t next_wait_;
    bool one_thread_;
    std::vector<LetDef> lets_after_enter_;
};

}  // namespace plait
