// Whether this machine has NVRTC; tests that compile for sm_90a are skipped where it has none.
#pragma once
#include "compiler/backend/nvrtc_compiler.h"
#include "runtime/base/error.h"

namespace plait::testing {

inline bool have_nvrtc() {
    try {
        nvrtc_version();
        return true;
    } catch (const CompileError&) {
        return false;
    }
}

}  // namespace plait::testing
