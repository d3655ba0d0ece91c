#include "runtime/memory/collective.h"

#include <fmt/format.h>

namespace plait {

void throw_failures(const std::vector<std::string>& outcomes, const std::string& what) {
    const std::string mark = kFailedStep;
    std::string message;
    for (std::size_t rank = 0; rank < outcomes.size(); ++rank) {
        if (outcomes[rank].rfind(mark, 0) != 0) continue;
        message += fmt::format("{}rank {}: {}", message.empty() ? "" : "; ", rank, outcomes[rank].substr(mark.size()));
    }
    if (!message.empty()) throw DeviceError(fmt::format("{} failed: {}", what, message));
}

}  // namespace plait
