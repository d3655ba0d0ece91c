// Plan in, source text out. Prints one readable call per statement and adds nothing that orders. Role bodies (between
// `// ---- role` lines and the entry) are the same bytes for both machines; identical text for identical input.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "compiler/ir/plan.h"

namespace plait {

struct Source {
    std::string kernel;    // kernel.cu
    std::string shapes;    // kernel_shapes.h, per machine
    std::string key_text;  // kernel + shapes without provenance comments: what the cache key hashes
};
Source emit(const Plan& plan);

// Byte offsets of the emitted struct Args: launch first, then tensors in the plan's order, then maps.
struct ArgsField {
    std::string name;
    std::string kind;
    std::uint64_t offset = 0, bytes = 0;
};                                                     // kind: launch tensor map
std::vector<ArgsField> args_layout(const Plan& plan);  // one field a map array: `a_map`, 128 bytes an element
std::uint64_t args_bytes(const Plan& plan);            // sizeof(Args)
std::uint64_t shared_bytes(const Plan& plan);          // sizeof(Shared)

// Every abortable wait and every checked load, numbered in the order in which the source prints them: the last argument
// of their call.
struct PrintedWait {
    std::int64_t id = 0;
    std::string role, agent, flag;  // flag: of a checked load the list that it reads
    std::string kind;               // wait, value
};
std::vector<PrintedWait> printed_waits(const Plan& plan);
bool is_abortable_wait(Op op);
bool is_checked_load(Op op);  // reports a value that breaks its promise

}  // namespace plait
