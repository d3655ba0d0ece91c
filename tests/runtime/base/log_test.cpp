#include "runtime/base/log.h"

#include <gtest/gtest.h>

#include <vector>

#include "runtime/base/error.h"

namespace plait {
namespace {

TEST(Log, WritesWhatIsSevereEnough) {
    std::vector<std::string> lines;
    const Log log(LogLevel::Warning, [&](LogLevel, std::string_view line) { lines.emplace_back(line); });
    log.error("disk is full");
    log.warning("slow");
    log.info("fine");
    log.debug("x = 1");
    EXPECT_EQ(lines, (std::vector<std::string>{"plait error: disk is full", "plait warning: slow"}));
    EXPECT_TRUE(log.wants(LogLevel::Error));
    EXPECT_FALSE(log.wants(LogLevel::Info));
}

TEST(Log, LevelsHaveWords) {
    for (const LogLevel level : {LogLevel::Error, LogLevel::Warning, LogLevel::Info, LogLevel::Debug}) {
        EXPECT_EQ(log_level(std::string(word_of(level))), level);
    }
    EXPECT_THROW(log_level("loud"), ArgumentError);
}

}  // namespace
}  // namespace plait
