// What ptxas says of a kernel (-v): registers, spills, local memory, and messages that break a rule.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

namespace plait {

struct PtxasReport {
    std::int64_t registers = 0;         // a thread, of the kernel
    std::int64_t spill_bytes = 0;       // stores or loads, the larger, summed over functions
    std::int64_t local_bytes = 0;       // stack frames, summed over functions
    std::vector<std::string> messages;  // of ptxas, all that is no plain account of resources or time
};
PtxasReport parse_ptxas_log(const std::string& log);

// CompileError: a message says that matrix operations were serialised or a register request ignored (C7508, C7512 to C7514,
// C7520): the result is right and 25 to 40 % slower.
void check_ptxas_messages(const PtxasReport& report);

}  // namespace plait
