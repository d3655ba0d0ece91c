// Strict reading of JSON files: every finding at once, each with a JSON pointer; unknown and repeated keys are
// findings.
#pragma once
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <cstdint>
#include <functional>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "runtime/base/expr.h"

namespace plait {

class JsonFindings {
public:
    void add(std::string pointer, std::string message, std::string hint = "");
    bool empty() const { return findings_.empty(); }
    std::string print(const std::string& origin) const;
    template <class ErrorType>
    void throw_if_any(const std::string& origin) const {
        if (!empty()) throw ErrorType(print(origin));
    }

private:
    struct Finding {
        std::string pointer, message, hint;
    };
    std::vector<Finding> findings_;
};

// nullopt and a finding where text is not JSON or repeats a key.
std::optional<nlohmann::json> parse_json(const std::string& text, JsonFindings& findings);

// One value of the file and where it stands. Readers return the fallback after adding a finding.
class JsonValue {
public:
    JsonValue(const nlohmann::json& json, std::string pointer, JsonFindings& findings)
        : json_(&json), pointer_(std::move(pointer)), findings_(&findings) {}

    const std::string& pointer() const { return pointer_; }
    const nlohmann::json& json() const { return *json_; }
    JsonFindings& findings() const { return *findings_; }
    void reject(const std::string& message, const std::string& hint = "") const {
        findings_->add(pointer_, message, hint);
    }

    void read(std::string& value) const;
    void read(bool& value) const;
    void read(double& value) const;
    void read(std::int64_t& value) const;
    void read(std::uint64_t& value) const;
    void read(int& value) const;
    void read(Expr& value) const;  // an integer or text
    template <class T>
    void read(std::vector<T>& values) const {
        for (const JsonValue& element : elements()) {
            values.emplace_back();
            element.read(values.back());
        }
    }
    std::vector<JsonValue> elements() const;  // of an array; a finding and none where it is not one

private:
    const nlohmann::json* json_;
    std::string pointer_;
    JsonFindings* findings_;
};

// Reads the members of one object; finish() reports those that nobody asked for.
class JsonObject {
public:
    explicit JsonObject(const JsonValue& value);

    std::optional<JsonValue> find(const std::string& key);
    std::optional<JsonValue> require(const std::string& key);  // a finding where it is missing
    template <class T>
    void read(const std::string& key, T& value) {
        if (const auto found = require(key)) found->read(value);
    }
    template <class T>
    void read_optional(const std::string& key, T& value) {
        if (const auto found = find(key)) found->read(value);
    }
    template <class Visit>
    void each(const std::string& key, Visit visit) {  // elements of an optional array of objects
        const auto found = find(key);
        if (!found) return;
        for (const JsonValue& element : found->elements()) {
            JsonObject object(element);
            visit(object);
            object.finish();
        }
    }
    std::vector<std::string> keys() const;   // of its members, in file order; none where it is no object
    void reject(const std::string& key, const std::string& message, const std::string& hint = "");
    void finish();

private:
    JsonValue value_;
    bool is_object_;
    std::set<std::string> known_;
};

std::string escape_pointer(const std::string& key);  // RFC 6901: ~ and /

}  // namespace plait
