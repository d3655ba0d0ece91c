#include "compiler/ir/line_reader.h"

#include <fmt/format.h>

#include <cctype>
#include <charconv>

#include "compiler/ir/operand.h"

namespace plait {
namespace {

bool is_name_character(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_'; }
bool is_name_start(char c) { return is_name_character(c) && std::isdigit(static_cast<unsigned char>(c)) == 0; }

}  // namespace

bool LineReader::next_line() {
    while (next_start_ < text_.size()) {
        const std::size_t end = std::min(text_.find('\n', next_start_), text_.size());
        line_ = text_.substr(next_start_, end - next_start_);
        line_ = line_.substr(0, line_.find("//"));
        while (!line_.empty() && std::isspace(static_cast<unsigned char>(line_.back())) != 0) line_.remove_suffix(1);
        next_start_ = end + 1;
        ++line_number_;
        at_ = 0;
        if (!at_end()) return true;
    }
    return false;
}

void LineReader::skip_space() {
    while (at_ < line_.size() && (line_[at_] == ' ' || line_[at_] == '\t')) ++at_;
}

bool LineReader::at_end() {
    skip_space();
    return at_ >= line_.size();
}

std::string LineReader::found() const {
    if (at_ >= line_.size()) return "the end of the line";
    std::size_t end = at_ + 1;
    if (is_name_character(line_[at_])) {
        while (end < line_.size() && is_name_character(line_[end])) ++end;
    }
    return fmt::format("`{}`", line_.substr(at_, end - at_));
}

void LineReader::fail(const std::string& problem) {
    skip_space();
    fail_at(at_, problem);
}

void LineReader::fail_at(std::size_t position, const std::string& problem) const {
    throw ScheduleError(fmt::format("{}, line {}, column {}: {}", what_, line_number_, position + 1, problem));
}

bool LineReader::take(std::string_view literal) {
    skip_space();
    if (line_.substr(std::min(at_, line_.size()), literal.size()) != literal) return false;
    at_ += literal.size();
    return true;
}

bool LineReader::take_name(std::string_view name) {
    skip_space();
    const std::size_t end = at_ + name.size();
    if (line_.substr(std::min(at_, line_.size()), name.size()) != name) return false;
    if (end < line_.size() && is_name_character(line_[end])) return false;
    at_ = end;
    return true;
}

void LineReader::expect(std::string_view literal) {
    if (!take(literal)) fail(fmt::format("expected `{}`, found {}", literal, found()));
}

void LineReader::expect_end() {
    if (!at_end()) fail(fmt::format("expected the end of the line, found {}", found()));
}

std::string LineReader::take_while(bool (*accept)(char)) {
    const std::size_t start = at_;
    while (at_ < line_.size() && accept(line_[at_])) ++at_;
    return std::string(line_.substr(start, at_ - start));
}

std::string LineReader::identifier(std::string_view what) {
    skip_space();
    if (at_ >= line_.size() || !is_name_start(line_[at_])) fail(fmt::format("expected {}, found {}", what, found()));
    return take_while(is_name_character);
}

std::string LineReader::word(std::string_view what) {
    skip_space();
    if (at_ >= line_.size() || !is_word_character(line_[at_]))
        fail(fmt::format("expected {}, found {}", what, found()));
    return take_while(is_word_character);
}

std::string LineReader::path(std::string_view what) {
    if (at_end()) fail(fmt::format("expected {}, found the end of the line", what));
    const std::string rest(line_.substr(at_));
    at_ = line_.size();
    return rest;
}

namespace {

template <class Number>
bool convert(const std::string& text, Number* value) {
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), *value);
    return error == std::errc() && end == text.data() + text.size();
}

}  // namespace

std::int64_t LineReader::integer(std::string_view what) {
    skip_space();
    const std::size_t start = at_;
    std::int64_t value = 0;
    if (const std::string text = word(what); !convert(text, &value)) {
        fail_at(start, fmt::format("{}: `{}` is not a 64-bit integer", what, text));
    }
    return value;
}

std::uint64_t LineReader::unsigned_integer(std::string_view what) {
    skip_space();
    const std::size_t start = at_;
    std::uint64_t value = 0;
    if (const std::string text = word(what); !convert(text, &value)) {
        fail_at(start, fmt::format("{}: `{}` is not an unsigned 64-bit integer", what, text));
    }
    return value;
}

double LineReader::number(std::string_view what) {
    skip_space();
    const std::size_t start = at_;
    double value = 0;
    if (const std::string text = word(what); !convert(text, &value)) {
        fail_at(start, fmt::format("{}: `{}` is not a number", what, text));
    }
    return value;
}

Expr LineReader::expr(std::string_view what) {
    skip_space();
    std::size_t used = 0;
    try {
        Expr result = Expr::parse_prefix(line_.substr(std::min(at_, line_.size())), &used);
        at_ += used;
        return result;
    } catch (const ExprSyntaxError& error) {
        fail_at(at_ + error.column() - 1, fmt::format("{}: {}", what, error.problem()));
    }
}

}  // namespace plait
