// sm_90a source to a cubin, by NVRTC. No include path, no environment: templates and source are handed over as text.
#pragma once
#include <string>
#include <vector>

#include "compiler/backend/ptxas_log.h"
#include "compiler/codegen/emit.h"

namespace plait {

struct CubinResult {
    std::string cubin;
    std::string ptx;      // empty where NVRTC gives none
    std::string version;  // of the NVRTC that compiled: nvrtc 13.0
    PtxasReport report;
};

std::string nvrtc_version();                    // CompileError: no NVRTC
const std::vector<std::string>& nvrtc_flags();  // for sm_90a, all that is passed

// CompileError: NVRTC's log, or messages that check_ptxas_messages refuses; nvrtc_spills.h judges spills. Any thread.
CubinResult compile_cubin(const Source& source);

// `#include "x.h"` in the template at `path` names a file relative to it; NVRTC finds headers by whole name alone.
std::string root_relative_includes(const std::string& path, const std::string& text);

}  // namespace plait
