#include "runtime/session/stall_report.h"

#include <gtest/gtest.h>

#include <cstddef>

namespace plait {
namespace {

struct Places {
    Manifest one, two;
    StallPlaces places;
    Places() {
        one.name = "one", two.name = "two";
        one.workspace_bytes = two.workspace_bytes = 4096;
        one.wait_sites = {{3, "compute", "loader", "a_ready"}, {4, "intra_comm", "loader", "entered"}};
        two.wait_sites = {{3, "inter_send", "loader", "fifo"}};
        one.flags = {{"a_ready", 1024, 32}};
        places.world = 4;
        places.areas = {{&one, 4096}, {&two, 8192}};
        places.entry_deadline_ns = 60'000'000'000, places.wait_deadline_ns = 2'500'000'000;
        places.told.resize(4);
    }
};

StallRecord record(AbortCause cause, u64 rank = 2) {
    StallRecord r = {};
    r.taken = kStallFilled;
    r.cause = static_cast<u64>(cause);
    r.rank = rank, r.epoch = 5, r.m = 512, r.artifact = 4096;
    r.site = 3, r.flag = 4096 + 1024 + 8 * 17, r.expected = 5, r.seen = 4, r.cta = 9, r.work = 77;
    r.ctas_in = r.ctas = 132;
    return r;
}

std::string told(const StallRecord& r, int rank = 2) { return describe_stall(rank, r, Places().places).message; }

TEST(DescribeStall, NamesRoleTileFlagAndValues) {
    EXPECT_EQ(told(record(AbortCause::Wait)),
              "rank 2, launch 5 of one (M = 512): role compute, agent loader, CTA 9, tile 77 waits for a_ready[17] = 5, "
              "sees 4, 2.5 s after all ranks had entered");
}

TEST(DescribeStall, SaysChunkOutsideOfComputeAndNothingBeforeTheFirst) {
    StallRecord r = record(AbortCause::Wait);
    r.artifact = 8192, r.flag = kInDeviceState + offsetof(DeviceState, fifo_completed);
    EXPECT_EQ(told(r),
              "rank 2, launch 5 of two (M = 512): role inter_send, agent loader, CTA 9, chunk 77 waits for "
              "fifo_completed = 5, sees 4, 2.5 s after all ranks had entered");
    r.work = kNoWork;
    EXPECT_NE(told(r).find("CTA 9 waits for"), std::string::npos) << told(r);
}

TEST(DescribeStall, ShowsEpochsOfEnteredFlagsAndWhoSignalsThem) {
    StallRecord r = record(AbortCause::Wait);
    r.site = 4, r.flag = 3 * kFlagLineBytes, r.expected = entered_word(4, 0), r.seen = entered_word(2, 0xabc);
    EXPECT_NE(told(r).find("role intra_comm, agent loader, CTA 9, chunk 77 waits for entered[3] = 4, sees 2, 2.5 s after "
                           "all ranks had entered; rank 3 signals it"),
              std::string::npos)
        << told(r);
}

TEST(DescribeStall, NamesTheRankThatHasNotEntered) {
    StallRecord r = record(AbortCause::Entry);
    r.flag = kFlagLineBytes, r.peer = 1, r.expected = entered_word(5, 0x123), r.seen = entered_word(3, 0x99);
    EXPECT_EQ(told(r),
              "rank 2, launch 5 of one (M = 512): rank 1 has not entered within 60 s: waits for entered[1] = 5, sees 3");
    r.flag += 8 * kRailsEnteredWord;
    EXPECT_NE(told(r).find("rank 1 did not see all ranks of other nodes enter within 60 s"), std::string::npos) << told(r);
}

TEST(DescribeStall, CountsTheCtasThatStarted) {
    StallRecord r = record(AbortCause::Ctas);
    r.ctas_in = 120;
    const StallStory story = describe_stall(2, r, Places().places);
    EXPECT_EQ(story.message, "rank 2, launch 5 of one (M = 512): 120 of 132 CTAs started within 60 s");
    EXPECT_NE(story.hint.find("MIG or MPS"), std::string::npos);
    r.cause = static_cast<u64>(AbortCause::Wait), r.epoch = 0;  // found by an agent, since the relay is not there
    EXPECT_EQ(told(r), "rank 2: 120 of 132 CTAs started within 60 s");
}

TEST(PlacedRecord, TurnsThisRanksAddressesIntoPlaces) {
    const u64 workspace = 0x7f0000000000, state = 0x7e0000000000;
    const auto flag_of = [&](u64 flag, u64 rank = 2) {
        StallRecord r = record(AbortCause::Wait, 2);
        r.flag = flag;
        return placed_record(r, rank, workspace, state).flag;
    };
    EXPECT_EQ(flag_of(workspace + 5000), 5000u);
    EXPECT_EQ(flag_of(state + 56), kInDeviceState + 56);
    EXPECT_EQ(flag_of(5000), 5000u);                            // placed already
    EXPECT_EQ(flag_of(kInDeviceState + 56), kInDeviceState + 56);
    StallRecord unknown = record(AbortCause::Wait, 0);
    unknown.epoch = 0;
    EXPECT_EQ(placed_record(unknown, 3, workspace, state).rank, 3u);
    EXPECT_EQ(flag_of(workspace + 5000, 1), workspace + 5000);  // another rank's: it is a place, whatever it looks like
}

TEST(DescribeStall, ShowsBothSidesOfADisagreement) {
    Places p;
    StallRecord r = record(AbortCause::Disagree);
    r.peer = 1, r.expected = entered_word(5, 0x123), r.seen = entered_word(5, 0x124);
    EXPECT_EQ(describe_stall(2, r, p.places).message,
              "rank 2, launch 5 of one (M = 512): rank 2 enters one with M = 512, rank 1 another launch (signatures "
              "0x00123 and 0x00124)");
    p.places.told[1] = record(AbortCause::Disagree, 3);  // handed on, rank 1 did not find it itself
    p.places.told[1].teller_m = 514;
    EXPECT_NE(describe_stall(2, r, p.places).message.find("enters one with M = 512, rank 1 with M = 514"), std::string::npos);
    p.places.told[1].teller_m = 512;
    EXPECT_NE(describe_stall(2, r, p.places).message.find("rank 1 another artifact or other arguments with M = 512"),
              std::string::npos);
    p.places.told[1] = record(AbortCause::Disagree, 1);
    p.places.told[1].m = 513;
    EXPECT_EQ(describe_stall(2, r, p.places).message,
              "rank 2, launch 5 of one (M = 512): rank 2 enters one with M = 512, rank 1 one with M = 513");
    p.places.told[1].artifact = 8192;
    EXPECT_NE(describe_stall(2, r, p.places).message.find("rank 1 two with M = 513"), std::string::npos);
    p.places.told[1] = record(AbortCause::Disagree, 1);
    EXPECT_NE(describe_stall(2, r, p.places).message.find("one with M = 512 and other launch arguments"),
              std::string::npos);
}

TEST(DescribeStall, GivesTheFirstCauseOfAnotherRank) {
    EXPECT_EQ(told(record(AbortCause::Host, 1), 3),
              "rank 3 left because of rank 1: rank 1, launch 5 of one (M = 512): abort() was called");
    StallRecord r = record(AbortCause::Network, 1);
    r.epoch = 0;
    EXPECT_EQ(told(r, 1), "rank 1: its network proxy failed");
}

TEST(DescribeStall, UnknownSitesAndPlacesAreShownAsTheyAre) {
    StallRecord r = record(AbortCause::Wait);
    r.site = 99, r.flag = 4096 + 8;
    EXPECT_NE(told(r).find("wait site 99, CTA 9, chunk 77 waits for byte 8 of the area of one"), std::string::npos) << told(r);
    r.artifact = 1, r.flag = 3000;
    EXPECT_NE(told(r).find("launch 5 of an artifact of another session (area 1)"), std::string::npos) << told(r);
    EXPECT_NE(told(r).find("waits for byte 3000 of the workspace"), std::string::npos) << told(r);
}

}  // namespace
}  // namespace plait
