// Log lines on a sink of the owner's choice. A Log is passed, never global; a Session or a compilation holds one.
// Thread-safe: a line is written whole.
#pragma once
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>

namespace plait {

enum class LogLevel { Error, Warning, Info, Debug };

class Log {
public:
    using Sink = std::function<void(LogLevel level, std::string_view line)>;
    Log(LogLevel least, Sink sink);
    static Log to_standard_error(const std::string& least_level);  // word of the setting PLAIT_LOG

    bool wants(LogLevel level) const { return level <= least_; }
    void write(LogLevel level, std::string_view message) const;
    void error(std::string_view message) const { write(LogLevel::Error, message); }
    void warning(std::string_view message) const { write(LogLevel::Warning, message); }
    void info(std::string_view message) const { write(LogLevel::Info, message); }
    void debug(std::string_view message) const { write(LogLevel::Debug, message); }

private:
    LogLevel least_;
    Sink sink_;
    std::shared_ptr<std::mutex> mutex_;  // copies of a Log share the sink
};

LogLevel log_level(const std::string& word);  // ArgumentError
std::string_view word_of(LogLevel level);

}  // namespace plait
