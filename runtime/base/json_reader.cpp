#include "runtime/base/json_reader.h"

#include <limits>

#include "runtime/base/nearest.h"

namespace plait {

using nlohmann::json;

void JsonFindings::add(std::string pointer, std::string message, std::string hint) {
    findings_.push_back({std::move(pointer), std::move(message), std::move(hint)});
}

std::string JsonFindings::print(const std::string& origin) const {
    std::string text;
    if (findings_.size() > 1) text = fmt::format("{} findings in {}", findings_.size(), origin);
    for (const Finding& finding : findings_) {
        if (!text.empty()) text += '\n';
        text +=
            fmt::format("{}, {}: {}", origin, finding.pointer.empty() ? "top level" : finding.pointer, finding.message);
        if (!finding.hint.empty()) text += "\n  | " + finding.hint;
    }
    return text;
}

std::string escape_pointer(const std::string& key) {
    std::string out;
    for (const char c : key) out += c == '~' ? "~0" : c == '/' ? "~1" : std::string(1, c);
    return out;
}

std::optional<json> parse_json(const std::string& text, JsonFindings& findings) {
    std::vector<std::set<std::string>> keys;  // of the objects that are open
    const auto watch = [&](int, json::parse_event_t event, json& parsed) {
        if (event == json::parse_event_t::object_start) keys.emplace_back();
        if (event == json::parse_event_t::object_end) keys.pop_back();
        if (event == json::parse_event_t::key && !keys.back().insert(parsed.get<std::string>()).second) {
            findings.add("", fmt::format("key `{}` stands twice in one object", parsed.get<std::string>()));
        }
        return true;
    };
    try {
        return json::parse(text, watch);
    } catch (const json::parse_error& error) {
        findings.add("", fmt::format("not JSON: {}", error.what()));
        return std::nullopt;
    }
}

namespace {

std::string describe(const json& value) {
    if (value.is_structured()) return value.is_array() ? "an array" : "an object";
    return fmt::format("`{}`", value.dump(-1, ' ', false, json::error_handler_t::replace));
}

template <class Integer>
bool read_integer(const json& value, Integer* out) {
    if (!value.is_number_integer()) return false;
    if (value.is_number_unsigned()) {
        const auto wide = value.get<std::uint64_t>();
        *out = static_cast<Integer>(wide);
        return wide <= static_cast<std::uint64_t>(std::numeric_limits<Integer>::max());
    }
    const auto wide = value.get<std::int64_t>();
    *out = static_cast<Integer>(wide);
    if (std::numeric_limits<Integer>::is_signed)
        return wide >= static_cast<std::int64_t>(std::numeric_limits<Integer>::min());
    return wide >= 0;
}

template <class Integer>
void read_integer_or_reject(const JsonValue& value, Integer* out, const char* what) {
    const Integer before = *out;
    if (read_integer(value.json(), out)) return;
    *out = before;
    value.reject(fmt::format("expected {}, found {}", what, describe(value.json())));
}

}  // namespace

void JsonValue::read(std::string& value) const {
    if (!json_->is_string()) return reject(fmt::format("expected text, found {}", describe(*json_)));
    value = json_->get<std::string>();
}

void JsonValue::read(bool& value) const {
    if (!json_->is_boolean()) return reject(fmt::format("expected true or false, found {}", describe(*json_)));
    value = json_->get<bool>();
}

void JsonValue::read(double& value) const {
    if (!json_->is_number()) return reject(fmt::format("expected a number, found {}", describe(*json_)));
    value = json_->get<double>();
}

void JsonValue::read(std::int64_t& value) const { read_integer_or_reject(*this, &value, "a 64-bit integer"); }
void JsonValue::read(std::uint64_t& value) const {
    read_integer_or_reject(*this, &value, "an unsigned 64-bit integer");
}
void JsonValue::read(int& value) const { read_integer_or_reject(*this, &value, "a 32-bit integer"); }

void JsonValue::read(Expr& value) const {
    if (json_->is_number_integer()) {
        std::int64_t number = 0;
        read(number);
        value = Expr(number);
        return;
    }
    if (!json_->is_string())
        return reject(fmt::format("expected an integer or an expression, found {}", describe(*json_)));
    try {
        value = Expr::parse(json_->get<std::string>());
    } catch (const ExprSyntaxError& error) {
        reject(error.message());
    }
}

std::vector<JsonValue> JsonValue::elements() const {
    std::vector<JsonValue> values;
    if (!json_->is_array()) {
        reject(fmt::format("expected an array, found {}", describe(*json_)));
        return values;
    }
    for (std::size_t i = 0; i < json_->size(); ++i)
        values.emplace_back((*json_)[i], fmt::format("{}/{}", pointer_, i), *findings_);
    return values;
}

JsonObject::JsonObject(const JsonValue& value) : value_(value), is_object_(value.json().is_object()) {
    if (!is_object_) value_.reject(fmt::format("expected an object, found {}", describe(value.json())));
}

std::optional<JsonValue> JsonObject::find(const std::string& key) {
    known_.insert(key);
    if (!is_object_) return std::nullopt;
    const auto found = value_.json().find(key);
    if (found == value_.json().end()) return std::nullopt;
    return JsonValue(*found, value_.pointer() + "/" + escape_pointer(key), value_.findings());
}

std::optional<JsonValue> JsonObject::require(const std::string& key) {
    auto found = find(key);
    if (!found && is_object_) value_.reject(fmt::format("`{}` is missing", key));
    return found;
}

void JsonObject::reject(const std::string& key, const std::string& message, const std::string& hint) {
    value_.findings().add(value_.pointer() + "/" + escape_pointer(key), message, hint);
}

std::vector<std::string> JsonObject::keys() const {
    std::vector<std::string> keys;
    if (!is_object_) return keys;
    for (const auto& [key, value] : value_.json().items()) keys.push_back(key);
    return keys;
}

void JsonObject::finish() {
    if (!is_object_) return;
    const std::vector<std::string> names(known_.begin(), known_.end());
    for (const auto& [key, value] : value_.json().items()) {
        if (known_.count(key) == 0)
            reject(key, fmt::format("no field `{}` here", key),
                   fmt::format("the nearest is `{}`", nearest(key, names)));
    }
}

}  // namespace plait
