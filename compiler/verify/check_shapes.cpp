// N and K count whole 16-byte rows, for TMA and bulk copies; sizes stay inside the types that carry them.
#include <fmt/format.h>

#include "compiler/verify/rules.h"

namespace plait {
namespace {

constexpr std::int64_t kGranule = 8;  // 16-bit elements in 16 bytes

}  // namespace

Diagnostics check_shapes(const Request& request) {
    Diagnostics findings;
    auto report = [&](std::string message, std::string where, std::string hint) {
        findings.push_back({"check_shapes", std::move(message), std::move(where), std::move(hint)});
    };
    const Problem& p = request.problem;
    // Attention has no N and K; what it has instead is check_attention's.
    std::vector<std::pair<const char*, std::int64_t>> sizes = {{"n", p.n}, {"k", p.k}};
    if (is_attention(request.graph)) sizes.clear();
    for (const auto& [name, value] : sizes) {
        const std::string where = fmt::format("/problem/{}", name);
        if (value <= 0)
            report(fmt::format("{} is {}", name, value), where, "it must be a positive multiple of 8");
        else if (value % kGranule != 0) {
            report(fmt::format("{} = {} is not a multiple of {}: rows of 16-bit elements must be multiples of 16 bytes",
                               name, value, kGranule),
                   where, fmt::format("pad to {}", (value + kGranule - 1) / kGranule * kGranule));
        }
        if (value > kMaxTmaCoordinate)
            report(fmt::format("{} = {} exceeds 2^31 - 1", name, value), where, "TMA coordinates are 32-bit");
    }
    if (p.m_max <= 0)
        report(fmt::format("m_max is {}", p.m_max), "/problem/m", "give the largest number of rows of any launch");
    if (p.m_max > kMaxTmaCoordinate)
        report(fmt::format("m_max = {} exceeds 2^31 - 1", p.m_max), "/problem/m", "TMA coordinates are 32-bit");
    return findings;
}

}  // namespace plait
