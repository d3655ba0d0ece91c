#include "runtime/session/stall_report.h"

#include <gtest/gtest.h>

#include "runtime/base/error.h"

namespace plait {
namespace {

struct Places {
    Manifest one, two;
    StallPlaces places;
    Places() {
        one.name = "one", two.name = "two";
        one.workspace_bytes = two.workspace_bytes = 4096;
        one.wait_sites = {{3, "compute", "loader", "a_ready"}};
        two.wait_sites = {{3, "inter_send", "loader", "fifo"}};
        places.workspace = 0x100000, places.workspace_bytes = 0x10000, places.state = 0x900000;
        places.areas = {{&one, 4096}, {&two, 8192}};
        places.last_launched = &two;
    }
};

StallRecord record(u64 site, u64 flag) { return {1, site, flag, 5, 4, 17}; }

TEST(DescribeStall, TakesTheSitesOfTheArtifactWhoseAreaHoldsTheFlag) {
    const Places p;
    EXPECT_EQ(
        describe_stall(2, record(3, 0x100000 + 4096 + 40), p.places),
        "rank 2: role compute, agent loader of CTA 17 waits for a_ready (byte 40 of the area of one) = 5, sees 4");
    EXPECT_EQ(describe_stall(2, record(3, 0x100000 + 8192), p.places),
              "rank 2: role inter_send, agent loader of CTA 17 waits for fifo (byte 0 of the area of two) = 5, sees 4");
}

TEST(DescribeStall, WordsOutsideEveryAreaBelongToTheLastLaunch) {
    const Places p;
    EXPECT_EQ(
        describe_stall(0, record(3, 0x900000 + 56), p.places),
        "rank 0: role inter_send, agent loader of CTA 17 waits for fifo (byte 56 of the device state) = 5, sees 4");
    EXPECT_NE(describe_stall(0, record(3, 0x100000 + 3 * kFlagLineBytes), p.places).find("entered[3]"),
              std::string::npos);
}

TEST(DescribeStall, ValueOutsideItsPromiseIsNamedWithItsBounds) {
    Places p;
    p.two.wait_sites.push_back({4, "compute", "loader", "offs", "value"});
    const StallRecord value = {1, 4, 5, 100, static_cast<u64>(-7), 17, 512};
    const std::string what = "rank 2: offs[5] is -7, it must lie in 100..512 (read by role compute, agent loader of CTA 17)";
    EXPECT_EQ(describe_stall(2, value, p.places), what);
    try {
        throw_stall(2, value, p.places);
    } catch (const ArgumentError& error) {
        EXPECT_EQ(error.message(), what);
        EXPECT_NE(error.hint().find("ends of segments ascend"), std::string::npos);
    }
    EXPECT_THROW(throw_stall(2, record(3, 0x100000 + 8192), p.places), StallError);
}

TEST(DescribeStall, UnknownSitesAndAddressesAreShownAsTheyAre) {
    Places p;
    p.places.last_launched = nullptr;
    EXPECT_EQ(describe_stall(1, record(99, 0x10), p.places),
              "rank 1: wait site 99 of CTA 17 waits for a flag (address 0x10) = 5, sees 4");
}

}  // namespace
}  // namespace plait
