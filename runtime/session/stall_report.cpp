#include "runtime/session/stall_report.h"

#include <fmt/format.h>

#include "runtime/base/error.h"

namespace plait {
namespace {

const StallArea* area_of(std::uint64_t flag, const StallPlaces& places) {
    for (const StallArea& area : places.areas) {
        const std::uint64_t start = places.workspace + area.offset;
        if (flag >= start && flag < start + area.manifest->workspace_bytes) return &area;
    }
    return nullptr;
}

const WaitSite* site_of(std::uint64_t id, const Manifest* manifest) {
    if (manifest == nullptr) return nullptr;
    for (const WaitSite& site : manifest->wait_sites) {
        if (site.id == static_cast<std::int64_t>(id)) return &site;
    }
    return nullptr;
}

std::string place_of_word(std::uint64_t flag, const StallArea* area, const StallPlaces& places) {
    if (area != nullptr)
        return fmt::format("byte {} of the area of {}", flag - places.workspace - area->offset, area->manifest->name);
    if (flag >= places.workspace && flag < places.workspace + places.workspace_bytes) {
        return fmt::format("entered[{}]: that rank has not entered its launch",
                           (flag - places.workspace) / kFlagLineBytes);
    }
    if (flag >= places.state && flag < places.state + sizeof(DeviceState)) {
        return fmt::format("byte {} of the device state", flag - places.state);
    }
    return fmt::format("address {:#x}", flag);
}

// An index into a list is no address of a word. Its site is one of the artifact launched last.
const WaitSite* value_site(const StallRecord& stall, const StallPlaces& places) {
    const bool state = stall.flag >= places.state && stall.flag < places.state + sizeof(DeviceState);
    const bool workspace = stall.flag >= places.workspace && stall.flag < places.workspace + places.workspace_bytes;
    if (state || workspace) return nullptr;
    const WaitSite* site = site_of(stall.site, places.last_launched);
    return site != nullptr && site->kind == "value" ? site : nullptr;
}

std::string describe_value(int rank, const StallRecord& stall, const WaitSite& site) {
    const auto number = [](u64 word) { return static_cast<std::int64_t>(word); };
    return fmt::format("rank {}: {}[{}] is {}, it must lie in {}..{} (read by role {}, agent {} of CTA {})", rank, site.flag,
                       stall.flag, number(stall.seen), number(stall.expected), number(stall.most), site.role, site.agent,
                       stall.cta);
}

}  // namespace

std::string describe_stall(int rank, const StallRecord& stall, const StallPlaces& places) {
    if (const WaitSite* site = value_site(stall, places)) return describe_value(rank, stall, *site);
    const StallArea* area = area_of(stall.flag, places);
    const WaitSite* site = site_of(stall.site, area != nullptr ? area->manifest : places.last_launched);
    const std::string who = site != nullptr ? fmt::format("role {}, agent {}", site->role, site->agent)
                                            : fmt::format("wait site {}", stall.site);
    const std::string what = site != nullptr && !site->flag.empty() ? site->flag : "a flag";
    return fmt::format("rank {}: {} of CTA {} waits for {} ({}) = {}, sees {}", rank, who, stall.cta, what,
                       place_of_word(stall.flag, area, places), stall.expected, stall.seen);
}

void throw_stall(int rank, const StallRecord& stall, const StallPlaces& places) {
    const std::string what = describe_stall(rank, stall, places);
    if (value_site(stall, places) == nullptr) throw StallError(what, "results since then are not valid; make a new session");
    throw ArgumentError(what,
                        "ends of segments ascend and the last one is the number of rows, row indices name rows that exist; "
                        "results since then are not valid; make a new session");
}

}  // namespace plait
