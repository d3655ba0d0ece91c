#include "compiler/choose/choose_attention.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>

#include "compiler/choose/waves.h"

namespace plait {
namespace {

constexpr std::int64_t kRows = 64;                    // of a warpgroup
constexpr std::int64_t kBeside = 32;                  // registers a thread: addresses, descriptors, row vectors
constexpr std::int64_t kConsumerRegisters[] = {240, 232, 160};  // of one, two, three: passes/attention/choices.cpp

constexpr std::int64_t kSmallHeadDim = 64;

// fp32 scores and result, 16-bit weights of 64 rows, over the 128 threads of a warpgroup; a second set of weights where
// they are packed while the first are multiplied, which is what larger heads do by themselves.
std::int64_t registers_of(const AttentionPattern& p, const std::string& overlap) {
    const bool second = overlap == "operands" || (overlap == "auto" && p.head_dim > kSmallHeadDim);
    return p.key_block / 2 + p.head_dim / 2 + (second ? 2 : 1) * p.key_block / 4;
}

std::int64_t room_of(std::int64_t consumers) { return kConsumerRegisters[consumers - 1] - kBeside; }

}  // namespace

Chosen choose_attention(const AttentionPattern& pattern, const Schedule& given, const Problem& problem, const Target& target) {
    const std::int64_t rows = problem.m_max;
    const std::int64_t needed = registers_of(pattern, given.word("overlap"));
    std::int64_t fitting = pattern.head_dim > kSmallHeadDim ? 2 : 3;  // three of larger heads would fit with short key blocks; not tried
    while (fitting > 1 && needed > room_of(fitting)) fitting -= 1;
    const std::int64_t consumers = std::min(fitting, std::max<std::int64_t>(ceil_div(rows, kRows), 1));
    const auto batch = problem.limits.find("batch");
    const std::int64_t batches = batch == problem.limits.end() ? 1 : batch->second;
    const std::int64_t tiles = batches * pattern.heads * ceil_div(rows, kRows * consumers);

    Chosen chosen{given, ""};
    chosen.schedule.set("consumer_warpgroups", std::to_string(consumers));
    const std::string why = consumers < fitting ? fmt::format("M = {} has no more rows", rows)
                            : fitting == 3 || needed <= room_of(fitting + 1)
                                ? fmt::format("scores, result and weights take {} of {} registers a thread", needed, room_of(fitting))
                                : fmt::format("scores, result and weights take {} registers a thread, {} warpgroups leave {}", needed,
                                              fitting + 1, room_of(fitting + 1));
    chosen.reason = fmt::format("{} consumer warpgroup{} of 64 rows ({}), {} keys at a time: at M = {}, batch {} {}", consumers,
                                consumers == 1 ? "" : "s", why, pattern.key_block, rows, batches, fill_of(tiles, target.sms));
    return chosen;
}

}  // namespace plait
