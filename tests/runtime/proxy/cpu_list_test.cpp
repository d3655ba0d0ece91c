#include "runtime/proxy/cpu_list.h"

#include <gtest/gtest.h>

#include "runtime/base/error.h"

namespace plait {
namespace {

TEST(CpuList, ReadsWhatTheKernelPrints) {
    EXPECT_EQ(parse_cpu_list("0-3,8,10-11"), (std::vector<int>{0, 1, 2, 3, 8, 10, 11}));
    EXPECT_EQ(parse_cpu_list("5"), (std::vector<int>{5}));
}

// A fixed set of 1024 bits was written beyond its end on larger machines.
TEST(CpuList, TakesProcessorsBeyondTheOldLimit) { EXPECT_EQ(parse_cpu_list("1023-1025").back(), 1025); }

TEST(CpuList, RefusesEverythingElse) {
    for (const char* text : {"", "x", "1-", "3-1", "1,,2", "1 2", "-1", "0-99999999999", "4000000"}) {
        try {
            parse_cpu_list(text);
            FAIL() << text;
        } catch (const TransportError& error) {
            EXPECT_EQ(error.message(), "`" + std::string(text) + "` is not a list of processors");
        }
    }
}

}  // namespace
}  // namespace plait
