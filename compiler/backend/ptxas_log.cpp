#include "compiler/backend/ptxas_log.h"

#include <fmt/format.h>

#include <algorithm>
#include <regex>
#include <sstream>

#include "runtime/base/error.h"

namespace plait {
namespace {

std::int64_t number_before(const std::string& line, const std::string& words) {
    std::smatch match;
    return std::regex_search(line, match, std::regex("(\\d+) " + words)) ? std::stoll(match[1]) : 0;
}

bool is_account(const std::string& line) {
    static const std::regex account(
        "Compiling entry function|Function properties for|bytes stack frame|Used \\d+ registers|"
        "bytes gmem|Compile time|bytes cmem|Overriding maximum register|Function .*: ");
    return std::regex_search(line, account);
}

}  // namespace

PtxasReport parse_ptxas_log(const std::string& log) {
    PtxasReport report;
    std::istringstream lines(log);
    std::smatch match;
    static const std::regex used("Used (\\d+) registers");
    for (std::string line; std::getline(lines, line);) {
        if (!line.starts_with("ptxas")) continue;  // NVRTC's own warnings
        if (line.find("bytes stack frame") != std::string::npos) {
            report.local_bytes += number_before(line, "bytes stack frame");
            report.spill_bytes +=
                std::max(number_before(line, "bytes spill stores"), number_before(line, "bytes spill loads"));
        } else if (std::regex_search(line, match, used)) {
            report.registers = std::max<std::int64_t>(report.registers, std::stoll(match[1]));
        } else if (!is_account(line)) {
            report.messages.push_back(line);
        }
    }
    return report;
}

void check_ptxas_report(const PtxasReport& report) {
    static const std::regex broken("C75(08|12|13|14)\\b|are serialized");
    for (const std::string& message : report.messages) {
        if (std::regex_search(message, broken)) {
            throw CompileError("ptxas gives up speed: " + message,
                               "lower tile_n or consumer_warpgroups so that accumulators fit in registers");
        }
    }
    if (report.spill_bytes > kMaxSpillBytes) {
        throw CompileError(fmt::format("kernel spills {} bytes of registers ({} used), {} are allowed",
                                       report.spill_bytes, report.registers, kMaxSpillBytes),
                           "lower tile_n or tile_m");
    }
}

}  // namespace plait
