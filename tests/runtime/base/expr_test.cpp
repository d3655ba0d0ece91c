#include "runtime/base/expr.h"

#include <gtest/gtest.h>

#include <map>
#include <random>

namespace plait {
namespace {

bool same_tree(const Expr& a, const Expr& b) {
    if (a.kind() != b.kind() || a.text() != b.text() || a.operands().size() != b.operands().size()) return false;
    if (a.kind() == ExprKind::Integer && a.integer() != b.integer()) return false;
    for (std::size_t i = 0; i < a.operands().size(); ++i)
        if (!same_tree(a.operands()[i], b.operands()[i])) return false;
    return true;
}

std::int64_t value_of(const Expr& expr) {
    return expr.evaluate([](const std::string& name, bool has_index, std::int64_t index) -> std::int64_t {
        static const std::map<std::string, std::int64_t> values = {{"a", 7}, {"b", -3}, {"c", 0}, {"ab.slot", 2}};
        if (has_index) return index * 10 + 1;
        const auto found = values.find(name);
        if (found == values.end()) throw ScheduleError("name " + name + " is not known");
        return found->second;
    });
}

std::string message_of(const std::string& text) {
    try {
        Expr::parse(text);
    } catch (const ScheduleError& error) {
        return error.message();
    }
    return "no error";
}

std::string evaluation_error(const std::string& text) {
    try {
        value_of(Expr::parse(text));
    } catch (const ScheduleError& error) {
        return error.message();
    }
    return "no error";
}

TEST(Expr, PrintsWithTheFewestParentheses) {
    EXPECT_EQ(Expr::parse("((a+b)*(c))").print(), "(a + b) * c");
    EXPECT_EQ(Expr::parse("a-(b-c)").print(), "a - (b - c)");
    EXPECT_EQ(Expr::parse("(a-b)-c").print(), "a - b - c");
    EXPECT_EQ(Expr::parse("a*(b/c)").print(), "a * (b / c)");
    EXPECT_EQ(Expr::parse("(a<b)?(c):((a)?b:c)").print(), "a < b ? c : a ? b : c");
    EXPECT_EQ(Expr::parse("(a?b:c)?1:2").print(), "(a ? b : c) ? 1 : 2");
    EXPECT_EQ(Expr::parse("-(-a)").print(), "-(-a)");
    EXPECT_EQ(Expr::parse("!(!a)").print(), "!!a");
    EXPECT_EQ(Expr::parse("-(5)").print(), "-5");
    EXPECT_EQ(Expr::parse("a- -5").print(), "a - -5");
    EXPECT_EQ(Expr::parse("!(a&&b)||c").print(), "!(a && b) || c");
    EXPECT_EQ(Expr::parse("ab.phase^1").print(), "ab.phase ^ 1");
    EXPECT_EQ(Expr::parse("x [ ab . slot + 1 ]").print(), "x[ab.slot + 1]");
    EXPECT_EQ(Expr::parse("raster_row(a,b,max(c,1),8)*tile_m").print(), "raster_row(a, b, max(c, 1), 8) * tile_m");
}

TEST(Expr, LevelsAreThoseOfC) {
    EXPECT_EQ(value_of("1 + 2 * 3 % 4 - 8 / 3"), 1 + 2 * 3 % 4 - 8 / 3);
    EXPECT_EQ(value_of("1 < 2 == 2 > 1 ^ 1"), ((1 < 2) == (2 > 1)) ^ 1);
    EXPECT_EQ(value_of("0 && 1 || 1 && 1"), 1);
    EXPECT_EQ(value_of("-7 / 2"), -3);
    EXPECT_EQ(value_of("-7 % 2"), -1);
    EXPECT_EQ(value_of("- a * b"), 21);
    EXPECT_EQ(value_of("!c + !a"), 1);
}

TEST(Expr, EvaluatesFunctions) {
    EXPECT_EQ(value_of("min(a, b) + max(a, b) * 100"), -3 + 700);
    EXPECT_EQ(value_of("ceil_div(0, 8)"), 0);
    EXPECT_EQ(value_of("ceil_div(1, 8)"), 1);
    EXPECT_EQ(value_of("ceil_div(16, 8)"), 2);
    EXPECT_EQ(value_of("ceil_div(17, 8)"), 3);
}

TEST(Expr, RasterVisitsEveryTileOnceInGroups) {
    for (const auto& [rows, cols, group] :
         {std::array{5, 3, 2}, std::array{1, 1, 8}, std::array{7, 4, 3}, std::array{3, 9, 8}}) {
        std::map<std::pair<std::int64_t, std::int64_t>, int> seen;
        std::int64_t last_group = 0;
        for (int u = 0; u < rows * cols; ++u) {
            const std::string arguments = "(" + std::to_string(u) + ", " + std::to_string(rows) + ", " +
                                          std::to_string(cols) + ", " + std::to_string(group) + ")";
            const auto row = value_of("raster_row" + arguments), col = value_of("raster_col" + arguments);
            EXPECT_TRUE(row >= 0 && row < rows && col >= 0 && col < cols) << arguments;
            EXPECT_GE(row / group, last_group);
            last_group = row / group;
            ++seen[{row, col}];
        }
        EXPECT_EQ(seen.size(), static_cast<std::size_t>(rows * cols));
    }
    EXPECT_EQ(value_of("raster_row(1, 5, 3, 2)"), 1);  // rows first
    EXPECT_EQ(value_of("raster_col(2, 5, 3, 2)"), 1);
}

TEST(Expr, EvaluatesOnlyWhatItNeeds) {
    EXPECT_EQ(value_of("c != 0 && 1 / c"), 0);
    EXPECT_EQ(value_of("c == 0 || 1 / c"), 1);
    EXPECT_EQ(value_of("c ? 1 / c : 5"), 5);
}

TEST(Expr, LooksUpFieldsAndIndices) {
    EXPECT_EQ(value_of("ab.slot + x[ab.slot]"), 2 + 21);
    EXPECT_EQ(Expr::parse("x[ab.slot] + min(q, q)").names(), (std::set<std::string>{"x", "ab.slot", "q"}));
}

TEST(Expr, RejectsWithColumn) {
    EXPECT_EQ(message_of(""), "bad expression ``, column 1: expected a value, found the end");
    EXPECT_EQ(message_of("a + "), "bad expression `a + `, column 5: expected a value, found the end");
    EXPECT_EQ(message_of("a b"), "bad expression `a b`, column 3: expected an operator or the end, found `b`");
    EXPECT_EQ(message_of("(a"), "bad expression `(a`, column 3: expected `)`, found the end");
    EXPECT_EQ(message_of("a ? b"), "bad expression `a ? b`, column 6: expected `:`, found the end");
    EXPECT_EQ(message_of("12x"), "bad expression `12x`, column 1: `12x` is neither a number nor a name");
    EXPECT_EQ(message_of("99999999999999999999"),
              "bad expression `99999999999999999999`, column 1: 99999999999999999999 does not fit in 64 bits");
    EXPECT_EQ(message_of("1 + min(a)"), "bad expression `1 + min(a)`, column 5: min takes 2 arguments, 1 given");
    EXPECT_EQ(
        message_of("mix(a)"),
        "bad expression `mix(a)`, column 1: no function `mix`, there are min, max, ceil_div, raster_row, raster_col");
    EXPECT_EQ(message_of("a.1"), "bad expression `a.1`, column 3: expected a field, found `1`");
    EXPECT_EQ(message_of("a = b"), "bad expression `a = b`, column 3: expected an operator or the end, found `=`");
    EXPECT_NE(message_of(std::string(1000, '(')).find("nested more than 200 deep"), std::string::npos);
    EXPECT_NE(message_of(std::string(1000, '!')).find("nested more than 200 deep"), std::string::npos);
}

TEST(Expr, EvaluationErrorsSayWhat) {
    EXPECT_EQ(evaluation_error("a / c"), "7 / 0: division by zero");
    EXPECT_EQ(evaluation_error("a % c"), "7 % 0: division by zero");
    EXPECT_EQ(evaluation_error("ceil_div(a, c)"), "6 / 0: division by zero");
    EXPECT_EQ(evaluation_error("9223372036854775807 + 1"), "9223372036854775807 + 1 overflows 64 bits");
    EXPECT_EQ(evaluation_error("4611686018427387904 * 2"), "4611686018427387904 * 2 overflows 64 bits");
    EXPECT_EQ(evaluation_error("-9223372036854775808 / -1"), "-9223372036854775808 / -1 overflows 64 bits");
    EXPECT_EQ(evaluation_error("nobody"), "name nobody is not known");
    EXPECT_THROW(Expr::parse("x").evaluate(nullptr), ScheduleError);
}

// Random text with more parentheses than needed.
std::string random_text(std::mt19937& rng, int depth) {
    const auto pick = [&](int n) { return static_cast<int>(rng() % static_cast<unsigned>(n)); };
    const auto sub = [&] { return random_text(rng, depth - 1); };
    if (depth == 0) {
        static const char* const kLeaves[] = {
            "0", "1", "42", "-7", "a", "b", "c", "ab.slot", "9223372036854775807", "-9223372036854775808"};
        return kLeaves[pick(10)];
    }
    static const char* const kOperators[] = {
        "+", "-", "*", "/", "%", "<", "<=", ">", ">=", "==", "!=", "^", "&&", "||"};
    switch (pick(8)) {
        case 0:
            return "(" + sub() + ")";
        case 1:
            return "x[" + sub() + "]";
        case 2:
            return "-(" + sub() + ")";
        case 3:
            return "! " + std::string(pick(2) ? "(" + sub() + ")" : "a");
        case 4:
            return "(" + sub() + ")?(" + sub() + "):" + sub();
        case 5:
            return "ceil_div(" + sub() + ",max(" + sub() + "," + sub() + "))";
        default:
            return (pick(2) ? "(" + sub() + ")" : sub()) + kOperators[pick(14)] + (pick(2) ? "(" + sub() + ")" : sub());
    }
}

// Every pair of grouping parentheses of `text` is needed: without it the tree differs.
void expect_minimal(const std::string& text) {
    const Expr tree = Expr::parse(text);
    for (std::size_t open = 0; open < text.size(); ++open) {
        const bool call =
            open > 0 && (std::isalnum(static_cast<unsigned char>(text[open - 1])) != 0 || text[open - 1] == '_');
        if (text[open] != '(' || call) continue;
        std::size_t close = open;
        for (int depth = 0; close < text.size(); ++close) {
            depth += text[close] == '(' ? 1 : text[close] == ')' ? -1 : 0;
            if (depth == 0) break;
        }
        if (text.substr(open - (open > 0 ? 1 : 0), 3).find("-(-") != std::string::npos)
            continue;  // C's decrement, see print
        std::string without = text;
        without.erase(close, 1).erase(open, 1);
        EXPECT_FALSE(same_tree(Expr::parse(without), tree)) << text << " says the same as " << without;
    }
}

TEST(Expr, RandomExpressionsRoundTrip) {
    std::mt19937 rng(1);
    for (int i = 0; i < 4000; ++i) {
        const std::string text = random_text(rng, 1 + i % 5);
        const Expr tree = Expr::parse(text);
        const std::string printed = tree.print();
        const Expr again = Expr::parse(printed);
        ASSERT_TRUE(same_tree(tree, again)) << text << " -> " << printed;
        ASSERT_EQ(again.print(), printed);
        ASSERT_EQ(tree, again);
        ASSERT_EQ(evaluation_error(text), evaluation_error(printed));
        if (evaluation_error(text) == "no error") {
            ASSERT_EQ(value_of(tree), value_of(again));
        }
        expect_minimal(printed);
    }
}

TEST(Expr, OperatorsBuildTrees) {
    const Expr a("a"), b("b");
    EXPECT_EQ(((a + b) * 2 - a / b % 3).print(), "(a + b) * 2 - a / b % 3");
    EXPECT_EQ((a - (b - 1)).print(), "a - (b - 1)");
    EXPECT_EQ((a * -1).print(), "a * -1");
    EXPECT_THROW(Expr::name("1x"), InternalError);
    EXPECT_THROW(a.integer(), InternalError);
}

TEST(Error, CarriesKindMessageAndHint) {
    const ArgumentError error("n is 12, a multiple of 8 is needed", "pad n to 16");
    EXPECT_EQ(error.kind(), "ArgumentError");
    EXPECT_STREQ(error.what(), "n is 12, a multiple of 8 is needed\n  | pad n to 16");
    EXPECT_STREQ(InternalError("no").what(), "internal error (a bug in plait): no");
}

}  // namespace
}  // namespace plait
