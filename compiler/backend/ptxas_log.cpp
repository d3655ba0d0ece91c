#include "compiler/backend/ptxas_log.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <sstream>

#include "runtime/base/error.h"

namespace plait {
namespace {

// No std::regex here: inside a Python process other libraries export its templates, and theirs are taken for ours.

// The number that stands in front of `words`, 0 where there is none.
std::int64_t number_before(const std::string& line, const std::string& words) {
    const std::size_t at = line.find(" " + words);
    if (at == std::string::npos) return 0;
    std::size_t first = at;
    while (first > 0 && std::isdigit(static_cast<unsigned char>(line[first - 1]))) --first;
    return first == at ? 0 : std::stoll(line.substr(first, at - first));
}

template <std::size_t N>
bool contains_any(const std::string& line, const std::array<const char*, N>& words) {
    return std::any_of(words.begin(), words.end(), [&](const char* word) { return line.find(word) != std::string::npos; });
}

bool is_account(const std::string& line) {
    static constexpr std::array<const char*, 7> account = {
        "Compiling entry function", "Function properties for", "bytes stack frame", "bytes gmem",
        "Compile time", "bytes cmem", "Overriding maximum register"};
    const std::size_t function = line.find("Function ");
    return contains_any(line, account) || (function != std::string::npos && line.find(": ", function) != std::string::npos);
}

}  // namespace

PtxasReport parse_ptxas_log(const std::string& log) {
    PtxasReport report;
    std::istringstream lines(log);
    for (std::string line; std::getline(lines, line);) {
        if (!line.starts_with("ptxas")) continue;  // NVRTC's own warnings
        if (line.find("bytes stack frame") != std::string::npos) {
            report.local_bytes += number_before(line, "bytes stack frame");
            report.spill_bytes +=
                std::max(number_before(line, "bytes spill stores"), number_before(line, "bytes spill loads"));
        } else if (line.find("Used ") != std::string::npos && line.find(" registers") != std::string::npos) {
            report.registers = std::max(report.registers, number_before(line, "registers"));
        } else if (!is_account(line)) {
            report.messages.push_back(line);
        }
    }
    return report;
}

void check_ptxas_messages(const PtxasReport& report) {
    static constexpr std::array<const char*, 6> broken = {"C7508", "C7512", "C7513", "C7514", "C7520", "erialized"};
    for (const std::string& message : report.messages) {
        if (contains_any(message, broken)) {
            throw CompileError("ptxas gives up speed: " + message,
                               "lower tile_n or consumer_warpgroups so that accumulators fit in registers");
        }
    }
}

}  // namespace plait
