#include "runtime/base/log.h"

#include <fmt/format.h>

#include <cstdio>

#include "runtime/base/error.h"

namespace plait {
namespace {

constexpr std::string_view kWords[] = {"error", "warning", "info", "debug"};

}  // namespace

LogLevel log_level(const std::string& word) {
    for (std::size_t i = 0; i < std::size(kWords); ++i)
        if (kWords[i] == word) return static_cast<LogLevel>(i);
    throw ArgumentError(fmt::format("log level `{}` is none of error, warning, info, debug", word));
}

std::string_view word_of(LogLevel level) { return kWords[static_cast<std::size_t>(level)]; }

Log::Log(LogLevel least, Sink sink) : least_(least), sink_(std::move(sink)), mutex_(std::make_shared<std::mutex>()) {}

Log Log::to_standard_error(const std::string& least_level) {
    return Log(log_level(least_level), [](LogLevel, std::string_view line) { fmt::print(stderr, "{}\n", line); });
}

void Log::write(LogLevel level, std::string_view message) const {
    if (!wants(level)) return;
    const std::lock_guard<std::mutex> lock(*mutex_);
    sink_(level, fmt::format("plait {}: {}", word_of(level), message));
}

}  // namespace plait
