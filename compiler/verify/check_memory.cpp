// Shared memory of a CTA fits the target; what lies in the workspace does not overlap.
#include <fmt/format.h>

#include "compiler/ir/plan_sizes.h"
#include "compiler/verify/rules.h"

namespace plait {
namespace {

constexpr std::int64_t kSwizzleAlignment =
    1024;  // of a box with 128-byte swizzle, CUDA driver API, cuTensorMapEncodeTiled

bool power_of_two(std::int64_t x) { return x > 0 && (x & (x - 1)) == 0; }

void check_fit(const Plan& plan, const Target& target, Diagnostics* findings) {
    const std::int64_t bytes = shared_memory_bytes(plan);
    if (bytes <= target.shared_memory_bytes) return;
    std::string parts;
    for (const SharedDef& s : plan.shared)
        parts += fmt::format("{}{} {} x {}", parts.empty() ? "" : ", ", s.name, s.count, s.bytes);
    findings->push_back({"check_memory",
                         fmt::format("a CTA needs {} bytes of shared memory ({}), {} allows {}", bytes, parts,
                                     target.arch, target.shared_memory_bytes),
                         "/schedule/stages", "use fewer stages, a smaller tile, or fewer and smaller pieces"});
}

struct Span {
    std::string name;
    std::uint64_t first, last;
};

void check_workspace(const Plan& plan, Diagnostics* findings) {
    std::vector<Span> spans;
    for (const BufferDef& b : plan.buffers) {
        std::uint64_t bytes = std::uint64_t(element_bytes(b.dtype));
        for (std::int64_t dim : b.shape) bytes *= std::uint64_t(dim);
        spans.push_back({"buffer " + b.name, b.offset, b.offset + bytes});
        if (b.offset % 128 != 0)
            findings->push_back({"check_memory",
                                 fmt::format("buffer {} starts at {}, not a multiple of 128", b.name, b.offset),
                                 "buffer " + b.name, "align it"});
    }
    for (const FlagDef& f : plan.flags) {
        if (!f.session) spans.push_back({"flags " + f.name, f.offset, f.offset + 8 * std::uint64_t(f.count)});
    }
    for (std::size_t i = 0; i < spans.size(); ++i) {
        for (std::size_t j = 0; j < i; ++j) {
            if (spans[i].first >= spans[j].last || spans[j].first >= spans[i].last) continue;
            findings->push_back(
                {"check_memory",
                 fmt::format("{} [{}, {}) and {} [{}, {}) overlap in the workspace", spans[j].name, spans[j].first,
                             spans[j].last, spans[i].name, spans[i].first, spans[i].last),
                 spans[i].name, "give them separate offsets"});
        }
    }
}

}  // namespace

Diagnostics check_memory(const Plan& plan, const Target& target) {
    Diagnostics findings;
    for (const SharedDef& s : plan.shared) {
        const std::string where = "shared " + s.name;
        if (s.bytes <= 0 || s.count <= 0)
            findings.push_back({"check_memory", fmt::format("{} has {} x {} bytes", s.name, s.count, s.bytes), where,
                                "sizes are positive"});
        if (!power_of_two(s.align))
            findings.push_back({"check_memory",
                                fmt::format("alignment {} of {} is not a power of two", s.align, s.name), where,
                                "use 16, 128 or 1024"});
        else if (s.align == kSwizzleAlignment && s.bytes % kSwizzleAlignment != 0) {
            findings.push_back({"check_memory",
                                fmt::format("slots of {} have {} bytes, so not all start at multiples of {}", s.name,
                                            s.bytes, s.align),
                                where, "swizzled boxes need 1024-byte slots"});
        }
    }
    check_fit(plan, target, &findings);
    check_workspace(plan, &findings);
    return findings;
}

}  // namespace plait
