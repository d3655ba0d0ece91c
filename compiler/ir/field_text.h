// `key=value, key=value` lines of the text forms: a printer and a reader for visit_fields() (plan_fields.h).
//
// Booleans print only where they are true. An empty word prints as `-`.
#pragma once
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <concepts>
#include <string>
#include <vector>

#include "compiler/ir/line_reader.h"
#include "compiler/ir/words.h"

namespace plait {

class FieldPrinter {
public:
    void operator()(const char* key, const bool& value) {
        if (value) field(key, "1");
    }
    template <class T>
    void operator()(const char* key, const T& value) {
        field(key, print(value));
    }
    const std::string& text() const { return text_; }

private:
    void field(const char* key, const std::string& value) {
        if (!text_.empty()) text_ += ", ";
        text_ += fmt::format("{}={}", key, value);
    }
    static std::string print(const std::string& word) { return word.empty() ? "-" : word; }
    static std::string print(const Expr& expr) { return expr.print(); }
    template <std::integral T>
    static std::string print(T value) {
        return std::to_string(value);
    }
    static std::string print(double value) { return fmt::format("{}", value); }
    template <class T>
    requires std::is_enum_v<T>
    static std::string print(T value) { return std::string(word_of(value)); }
    template <class T>
    static std::string print(const std::vector<T>& values) {
        std::string text = "[";
        for (const T& value : values) text += (text.size() > 1 ? ", " : "") + print(value);
        return text + "]";
    }

    std::string text_;
};

class FieldReader {
public:
    explicit FieldReader(LineReader& in) : in_(in) {}

    void operator()(const char* key, bool& value) {
        const std::size_t start = in_.position();
        if (!try_key(key)) {
            in_.return_to(start);
            return;
        }
        value = in_.integer(key) != 0;
    }
    template <class T>
    void operator()(const char* key, T& value) {
        if (!try_key(key)) in_.fail(fmt::format("expected `{}{}=`", first_ ? "" : ", ", key));
        first_ = false;
        read(key, value);
    }

private:
    bool try_key(const char* key) {
        const std::size_t start = in_.position();
        if ((first_ || in_.take(",")) && in_.take_name(key) && in_.take("=")) {
            first_ = false;
            return true;
        }
        in_.return_to(start);
        return false;
    }
    void read(const char* key, std::string& value) {
        value = in_.word(key);
        if (value == "-") value.clear();
    }
    void read(const char* key, Expr& value) { value = in_.expr(key); }
    void read(const char* key, std::int64_t& value) { value = in_.integer(key); }
    void read(const char* key, std::uint64_t& value) { value = in_.unsigned_integer(key); }
    void read(const char* key, double& value) { value = in_.number(key); }
    template <class T>
    requires(std::is_integral_v<T> && !std::is_same_v<T, std::int64_t> &&
             !std::is_same_v<T, std::uint64_t>) void read(const char* key, T& value) {
        const std::size_t start = in_.position();
        const std::int64_t wide = in_.integer(key);
        value = static_cast<T>(wide);
        if (value != wide) in_.fail_at(start, fmt::format("{}: {} is out of range", key, wide));
    }
    template <class T>
    requires std::is_enum_v<T>
    void read(const char* key, T& value) {
        const std::size_t start = in_.position();
        const std::string word = in_.word(key);
        std::string legal;
        for (const auto& entry : words_of(value)) {
            if (entry.word == word) {
                value = entry.value;
                return;
            }
            legal += (legal.empty() ? "" : ", ") + std::string(entry.word);
        }
        in_.fail_at(start, fmt::format("{}: `{}` is none of {}", key, word, legal));
    }
    template <class T>
    void read(const char* key, std::vector<T>& values) {
        values.clear();
        in_.expect("[");
        if (in_.take("]")) return;
        do {
            values.emplace_back();
            read(key, values.back());
        } while (in_.take(","));
        in_.expect("]");
    }

    LineReader& in_;
    bool first_ = true;
};

}  // namespace plait
