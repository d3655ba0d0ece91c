// Roles that copy in the loader (sms, phase) use operand slots of a: given sizes must fit them.
#include <fmt/format.h>

#include "compiler/verify/rules.h"

namespace plait {

Diagnostics check_pieces(const Request& request) {
    Diagnostics findings;
    const Schedule& s = request.schedule;
    bool in_loader = false;
    for (const char* role : {"intra_comm", "inter_send"}) {
        const std::string& placement = s.word(role);
        in_loader = in_loader || placement == "sms" || placement == "phase";
    }
    const auto pattern = pattern_as<FusedPattern>(request.graph);
    if (!in_loader || !pattern || !pattern->all_gather || request.topology.world() == 1) return findings;
    const std::int64_t slot = s.integer("tile_m") * 64 * 2;
    const std::int64_t stages = s.integer("stages"), pieces = s.integer("pieces"), bytes = s.integer("piece_bytes");
    if (s.is_set("piece_bytes") && bytes > slot) {
        findings.push_back({"check_pieces",
                            fmt::format("piece_bytes = {} exceeds an operand slot of {} bytes (tile_m {} x 64 x 2), which "
                                        "holds the piece",
                                        bytes, slot, s.integer("tile_m")),
                            "/schedule/piece_bytes", fmt::format("use {}, or place the role as warp", slot)});
    }
    if (s.is_set("pieces") && pieces > stages) {
        findings.push_back({"check_pieces",
                            fmt::format("pieces = {} exceeds the {} operand slots that hold them", pieces, stages),
                            "/schedule/pieces", fmt::format("use {}, more stages, or place the role as warp", stages)});
    }
    return findings;
}

}  // namespace plait
