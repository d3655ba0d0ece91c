#include "compiler/ir/schedule.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>

#include "runtime/base/error.h"
#include "runtime/base/nearest.h"

namespace plait {
namespace {

bool read_integer(const std::string& text, std::int64_t* value) {
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), *value);
    return error == std::errc() && end == text.data() + text.size() && !text.empty();
}

// `low..high step`
bool read_range(const std::string& legal, KnobSpec* spec) {
    const std::size_t dots = legal.find(".."), space = legal.find(' ');
    if (dots == std::string::npos || space == std::string::npos || space < dots) return false;
    return read_integer(legal.substr(0, dots), &spec->low) &&
           read_integer(legal.substr(dots + 2, space - dots - 2), &spec->high) &&
           read_integer(legal.substr(space + 1), &spec->step) && spec->step > 0;
}

std::vector<std::string> split(const std::string& text, char separator) {
    std::vector<std::string> parts;
    for (std::size_t start = 0; start <= text.size();) {
        const std::size_t end = std::min(text.find(separator, start), text.size());
        parts.push_back(text.substr(start, end - start));
        start = end + 1;
    }
    return parts;
}

KnobSpec make_knob(const char* name, std::string_view kind, const char* default_value, const std::string& legal,
                   const char* doc) {
    KnobSpec spec;
    spec.name = name;
    spec.is_word = kind == "word";
    spec.default_value = default_value;
    spec.doc = doc;
    if (spec.is_word) {
        spec.words = split(legal, '|');
    } else if (kind != "int" || !read_range(legal, &spec)) {
        throw InternalError(fmt::format("knobs.def, row {}: `{} {}` is neither a range nor words", name, kind, legal));
    }
    return spec;
}

// What is wrong with `value`, or "".
std::string value_problem(const KnobSpec& spec, const std::string& value) {
    if (spec.is_word) {
        if (std::find(spec.words.begin(), spec.words.end(), value) != spec.words.end()) return "";
        return fmt::format("{} is `{}`, legal are {}", spec.name, value, fmt::join(spec.words, ", "));
    }
    std::int64_t number = 0;
    if (read_integer(value, &number) && number >= spec.low && number <= spec.high &&
        (number - spec.low) % spec.step == 0)
        return "";
    return fmt::format("{} is {}, legal are {} to {} in steps of {}", spec.name, value, spec.low, spec.high, spec.step);
}

const KnobSpec& require_knob(const std::string& name) {
    const KnobSpec* spec = find_knob(name);
    if (spec == nullptr) throw InternalError(fmt::format("no knob `{}` in knobs.def", name));
    return *spec;
}

}  // namespace

const std::vector<KnobSpec>& knob_specs() {
    static const std::vector<KnobSpec> table = {
#define PLAIT_KNOB(name, kind, default_value, legal, doc) make_knob(#name, #kind, default_value, legal, doc),
#include "compiler/ir/knobs.def"
    };
    return table;
}

const KnobSpec* find_knob(const std::string& name) {
    for (const KnobSpec& spec : knob_specs())
        if (spec.name == name) return &spec;
    return nullptr;
}

std::string nearest_knob(const std::string& name) {
    std::vector<std::string> names;
    for (const KnobSpec& spec : knob_specs()) names.push_back(spec.name);
    return nearest(name, names);
}

Schedule::Schedule() {
    for (const KnobSpec& spec : knob_specs()) values_[spec.name] = spec.default_value;
}

std::int64_t Schedule::integer(const std::string& knob) const {
    if (require_knob(knob).is_word) throw InternalError(fmt::format("knob {} is a word, not an integer", knob));
    std::int64_t value = 0;
    read_integer(values_.at(knob), &value);
    return value;
}

const std::string& Schedule::word(const std::string& knob) const {
    if (!require_knob(knob).is_word) throw InternalError(fmt::format("knob {} is an integer, not a word", knob));
    return values_.at(knob);
}

void Schedule::set(const std::string& knob, const std::string& value) {
    const KnobSpec* spec = find_knob(knob);
    if (spec == nullptr)
        throw ScheduleError(fmt::format("no knob `{}`", knob), fmt::format("the nearest is `{}`", nearest_knob(knob)));
    std::string canonical = value;
    std::int64_t number = 0;
    if (!spec->is_word && read_integer(value, &number)) canonical = std::to_string(number);
    if (const std::string problem = value_problem(*spec, canonical); !problem.empty())
        throw ScheduleError(problem, spec->doc);
    values_[knob] = canonical;
    given_[knob] = true;
}

bool Schedule::is_set(const std::string& knob) const {
    require_knob(knob);
    return given_.count(knob) != 0;
}

}  // namespace plait
