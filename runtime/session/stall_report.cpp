#include "runtime/session/stall_report.h"

#include <fmt/format.h>

#include <cstddef>

namespace plait {
namespace {

const StallArea* area_at(std::uint64_t offset, const StallPlaces& places) {
    for (const StallArea& area : places.areas) {
        if (area.offset == offset) return &area;
    }
    return nullptr;
}

std::string program_name(std::uint64_t offset, const StallPlaces& places) {
    const StallArea* area = area_at(offset, places);
    return area != nullptr ? area->manifest->name : fmt::format("an artifact of another session (area {})", offset);
}

std::string launch_text(const StallRecord& record, const StallPlaces& places) {
    if (record.epoch == 0) return "";
    return fmt::format(", launch {} of {} (M = {})", record.epoch, program_name(record.artifact, places),
                       static_cast<std::int64_t>(record.m));
}

// A flag by its array's name and index.
std::string flag_name(std::uint64_t flag, const StallPlaces& places) {
    if (flag == kInDeviceState + offsetof(DeviceState, fifo_completed)) return "fifo_completed";
    if (flag >= kInDeviceState) return fmt::format("byte {} of the device state", flag - kInDeviceState);
    if (flag < places.world * kFlagLineBytes) return fmt::format("entered[{}]", flag / kFlagLineBytes);
    for (const StallArea& area : places.areas) {
        if (flag < area.offset || flag - area.offset >= area.manifest->workspace_bytes) continue;
        const std::uint64_t byte = flag - area.offset;
        for (const ManifestFlags& flags : area.manifest->flags) {
            if (byte >= flags.offset && byte - flags.offset < kFlagBytes * flags.count)
                return fmt::format("{}[{}]", flags.name, (byte - flags.offset) / kFlagBytes);
        }
        return fmt::format("byte {} of the area of {}", byte, area.manifest->name);
    }
    return fmt::format("byte {} of the workspace", flag);
}

bool is_entered(std::uint64_t flag, const StallPlaces& places) {
    return flag < places.world * kFlagLineBytes && flag % kFlagLineBytes == 0;
}

const WaitSite* site_of(const StallRecord& record, const StallPlaces& places) {
    const StallArea* area = area_at(record.artifact, places);
    if (area == nullptr) return nullptr;
    for (const WaitSite& site : area->manifest->wait_sites) {
        if (site.id == static_cast<std::int64_t>(record.site)) return &site;
    }
    return nullptr;
}

std::string seconds(std::uint64_t ns) { return fmt::format("{:.3g} s", static_cast<double>(ns) / 1e9); }

StallStory describe_wait(const StallRecord& record, const StallPlaces& places) {
    const WaitSite* site = site_of(record, places);
    const std::string role = site != nullptr ? site->role : "unknown";
    std::string who = site != nullptr ? fmt::format("role {}, agent {}", site->role, site->agent)
                                      : fmt::format("wait site {}", record.site);
    who += fmt::format(", CTA {}", record.cta);
    if (record.work != kNoWork) who += fmt::format(", {} {}", role == "compute" ? "tile" : "chunk", record.work);
    std::uint64_t expected = record.expected, seen = record.seen;
    std::string last;
    if (is_entered(record.flag, places)) {  // the signature is not what a wait looks at
        expected = entered_epoch(expected), seen = entered_epoch(seen);
        last = fmt::format("; rank {} signals it", record.flag / kFlagLineBytes);
    }
    return {fmt::format("{} waits for {} = {}, sees {}, {} after all ranks had entered{}", who,
                        flag_name(record.flag, places), expected, seen, seconds(places.wait_deadline_ns), last),
            "a rank died, hangs or is stopped in a debugger; wait_deadline_s says how long to wait"};
}

StallStory describe_entry(const StallRecord& record, const StallPlaces& places) {
    const std::string within = seconds(places.entry_deadline_ns);
    if (!is_entered(record.flag, places)) {
        return {fmt::format("rank {} did not see all ranks of other nodes enter within {}: its entered word is {}, sees {}",
                            record.peer, within, record.expected, record.seen),
                "look for the rank that is missing in what the other ranks say"};
    }
    return {fmt::format("rank {} has not entered within {}: waits for entered[{}] = {}, sees {}", record.peer, within,
                        record.peer, entered_epoch(record.expected), entered_epoch(record.seen)),
            "did that rank die, launch less often, or take another path; entry_deadline_s says how long to wait"};
}

StallStory describe_disagreement(const StallRecord& record, const StallPlaces& places) {
    const std::string here = fmt::format("rank {} enters {} with M = {}", record.rank,
                                         program_name(record.artifact, places), static_cast<std::int64_t>(record.m));
    const std::string hint = "call the same functions in the same order with the same M on all ranks";
    const StallRecord* peer = record.peer < places.told.size() ? &places.told[record.peer] : nullptr;
    if (peer == nullptr || peer->taken < kStallFilled) {
        return {fmt::format("{}, rank {} another launch (signatures {:#07x} and {:#07x})", here, record.peer,
                            record.expected & kSignatureMask, record.seen & kSignatureMask),
                hint};
    }
    if (peer->rank != record.peer) {  // it heard of this before it saw it, and tells of its M alone
        const bool same = peer->teller_m == record.m;
        return {fmt::format("{}, rank {} {} M = {}", here, record.peer, same ? "another artifact or other arguments with" : "with",
                            static_cast<std::int64_t>(peer->teller_m)),
                hint};
    }
    std::string there = fmt::format("{} with M = {}", program_name(peer->artifact, places),
                                    static_cast<std::int64_t>(peer->m));
    if (peer->m == record.m && peer->artifact == record.artifact) there += " and other launch arguments";
    return {fmt::format("{}, rank {} {}", here, record.peer, there), hint};
}

StallStory describe_cause(const StallRecord& record, const StallPlaces& places) {
    const auto cause = static_cast<AbortCause>(record.cause);
    // A wait that outlasted the entry deadline beside CTAs that are missing: the relay's may be among them.
    const bool not_all_started = cause == AbortCause::Wait && record.ctas_in < record.ctas;
    switch (not_all_started ? AbortCause::Ctas : cause) {
        case AbortCause::Wait:
            return describe_wait(record, places);
        case AbortCause::Entry:
            return describe_entry(record, places);
        case AbortCause::Ctas:
            return {fmt::format("{} of {} CTAs started within {}", record.ctas_in, record.ctas,
                                seconds(places.entry_deadline_ns)),
                    "another kernel, MIG or MPS holds the other SMs: lower sm_budget, or keep them free"};
        case AbortCause::Disagree:
            return describe_disagreement(record, places);
        case AbortCause::Host:
            return {"abort() was called", "make a new session on all ranks"};
        case AbortCause::Network:
            return {"its network proxy failed", "that rank's check() says of what"};
        case AbortCause::None:
            break;
    }
    return {fmt::format("gave up for an unknown reason ({})", record.cause), "make a new session"};
}

}  // namespace

StallRecord placed_record(StallRecord record, std::uint64_t rank, std::uint64_t workspace, std::uint64_t state) {
    // An agent found it in a launch whose relay, which says what launch it is, never started.
    if (record.cause == static_cast<u64>(AbortCause::Wait) && record.epoch == 0) record.rank = rank;
    if (record.rank != rank) return record;
    if (record.flag - state < sizeof(DeviceState))
        record.flag = kInDeviceState + (record.flag - state);
    else if (record.flag >= workspace && record.flag < kInDeviceState)
        record.flag -= workspace;
    return record;
}

StallStory describe_stall(int rank, const StallRecord& record, const StallPlaces& places) {
    StallStory story = describe_cause(record, places);
    story.message = fmt::format("rank {}{}: {}", record.rank, launch_text(record, places), story.message);
    if (record.rank != static_cast<u64>(rank))
        story.message = fmt::format("rank {} left because of rank {}: {}", rank, record.rank, story.message);
    return story;
}

}  // namespace plait
