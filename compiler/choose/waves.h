// How tiles fill the SMs, in words.
#pragma once
#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <string>

#include "compiler/ir/integers.h"

namespace plait {

inline std::string fill_of(std::int64_t tiles, std::int64_t sms) {
    const std::int64_t waves = std::max<std::int64_t>(ceil_div(tiles, sms), 1);
    return fmt::format("{} tiles fill {:.2f} of {} wave{}", tiles, double(tiles) / double(sms), waves, waves == 1 ? "" : "s");
}

}  // namespace plait
