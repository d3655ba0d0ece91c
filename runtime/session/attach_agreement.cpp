#include "runtime/session/attach_agreement.h"

#include <fmt/format.h>

#include <exception>

#include "runtime/base/error.h"
#include "runtime/memory/collective.h"

namespace plait {

void agree_on_artifact(RankGroup& group, const Manifest& manifest, std::uint64_t area,
                       const std::function<void()>& load) {
    std::exception_ptr own_failure;
    const std::string loaded = outcome_of([&] {
        try {
            load();
        } catch (const Error&) {
            own_failure = std::current_exception();
            throw;
        }
        return fmt::format("{} {} {}", manifest.semantics, manifest.workspace_bytes, area);
    });
    const std::vector<std::string> outcomes = group.all_gather("attach", loaded);
    if (own_failure) std::rethrow_exception(own_failure);
    throw_failures(outcomes, fmt::format("attaching {}", manifest.name));
    for (std::size_t rank = 0; rank < outcomes.size(); ++rank) {
        if (outcomes[rank] == loaded) continue;
        throw ArgumentError(
            fmt::format("rank {} attaches another artifact than this rank: `{}` and `{}` (semantics, workspace bytes, "
                        "area)",
                        rank, outcomes[rank], loaded),
            "attach the same artifacts in the same order on all ranks");
    }
}

}  // namespace plait
