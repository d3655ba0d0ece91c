// Small sm90 kernels for compile tests: statements of emitted source in, PTX out. No GPU.
#pragma once
#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <vector>

#include "compiler/backend/nvrtc_compiler.h"
#include "compiler/codegen/wgmma_text.h"
#include "tests/compiler/nvrtc.h"

namespace plait {

// One kernel a statement, named k0, k1, ...; run by a thread agent (warpgroup 0) or by a consumer warpgroup.
struct Case {
    std::string statement;
    std::vector<std::string> expected;   // instructions that touch memory or order, operands left out
    bool warpgroup = false;
};

inline std::string kernel_of(const Case& c, std::size_t index) {
    return "extern \"C\" __global__ void __launch_bounds__(256, 1) k" + std::to_string(index) +
           "(const __grid_constant__ Args args) {\n    Shared& sh = shared_memory<Shared>();\n    Agent ag = make_agent();\n    if (" +
           (c.warpgroup ? "ag.warpgroup == 1" : "ag.warpgroup == 0) if (ag.is_thread(0, 0)") + ") {\n        " + c.statement + "\n    }\n}\n";
}

inline std::string case_prelude() {
    return R"(#include "sm90/machine.cuh"
#include "kernel_shapes.h"
using namespace plait;
struct Args { Launch launch; const u8* source; TensorMap map[1]; };
struct Shared { alignas(1024) Bytes<16384> slot[2]; i64 ring[1]; Barrier bar[1]; };
)";
}

// Instructions of kernel k<index> in PTX: mnemonics with all modifiers, in order, of those that `keep` names by prefix.
inline std::vector<std::string> instructions(const std::string& ptx, std::size_t index, const std::vector<std::string>& keep) {
    const std::string entry = ".entry k" + std::to_string(index) + "(";
    std::size_t at = ptx.find(entry);
    if (at == std::string::npos) throw InternalError("no " + entry + " in the PTX");
    const std::size_t end = std::min(ptx.find(".entry ", at + entry.size()), ptx.size());
    std::vector<std::string> found;
    while (at < end) {
        std::size_t line_end = std::min(ptx.find('\n', at), end);
        std::string line = ptx.substr(at, line_end - at);
        at = line_end + 1;
        line.erase(0, line.find_first_not_of(" \t{"));
        if (line.starts_with("@")) line.erase(0, line.find(' ') + 1);
        const std::string mnemonic = line.substr(0, line.find_first_of(" \t;"));
        for (const std::string& prefix : keep) {
            if (mnemonic.starts_with(prefix)) {
                // The count of a wait is part of what it promises.
                const bool counted = mnemonic.find("wait_group") != std::string::npos;
                found.push_back(counted ? line.substr(0, line.find(';')) : mnemonic);
                break;
            }
        }
    }
    return found;
}

}  // namespace plait
