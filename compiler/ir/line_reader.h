// Reads the text forms line by line: identifiers, words, integers, expressions; errors carry line and column.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>

#include "runtime/base/expr.h"

namespace plait {

class LineReader {
public:
    LineReader(std::string what, std::string_view text) : what_(std::move(what)), text_(text) {}

    bool next_line();  // next line that is neither blank nor a comment; false at the end of the text
    bool at_end();     // of the line
    bool take(std::string_view literal);
    bool take_name(std::string_view name);  // the whole identifier `name`
    void expect(std::string_view literal);
    void expect_end();
    std::string identifier(std::string_view what);
    std::string word(std::string_view what);
    std::string path(std::string_view what);  // the rest of the line
    std::int64_t integer(std::string_view what);
    std::uint64_t unsigned_integer(std::string_view what);
    double number(std::string_view what);
    Expr expr(std::string_view what);

    std::size_t position() const { return at_; }
    void return_to(std::size_t position) { at_ = position; }
    [[noreturn]] void fail(const std::string& problem);  // at the current place
    [[noreturn]] void fail_at(std::size_t position, const std::string& problem) const;

private:
    void skip_space();
    std::string found() const;
    std::string take_while(bool (*accept)(char));

    std::string what_;  // plan text, schedule text
    std::string_view text_;
    std::size_t next_start_ = 0;  // of the line after this one
    std::string_view line_;       // without comment
    std::size_t line_number_ = 0;
    std::size_t at_ = 0;
};

}  // namespace plait
