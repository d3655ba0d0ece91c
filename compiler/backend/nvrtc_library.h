// libnvrtc.so.13, opened at run time. Declarations by hand: building plait needs no CUDA header (NVRTC API reference).
#pragma once
#include <cstddef>
#include <string>
#include <vector>

namespace plait {

// nvrtcProgram is an opaque pointer, nvrtcResult an int with 0 for success and 6 for a compilation error.
using NvrtcProgram = struct _nvrtcProgram*;
inline constexpr int kNvrtcSuccess = 0;
inline constexpr int kNvrtcCompilation = 6;

// Several NVRTC with one soname may live on a machine: `version` is asked from the one that answers.
struct NvrtcLibrary {
    std::string path;
    std::string version;  // nvrtc 13.0
    int (*create_program)(NvrtcProgram*, const char* source, const char* name, int headers, const char* const* texts,
                          const char* const* names);
    int (*destroy_program)(NvrtcProgram*);
    int (*compile_program)(NvrtcProgram, int options, const char* const*);
    int (*get_log_size)(NvrtcProgram, std::size_t*);
    int (*get_log)(NvrtcProgram, char*);
    int (*get_cubin_size)(NvrtcProgram, std::size_t*);
    int (*get_cubin)(NvrtcProgram, char*);
    int (*get_ptx_size)(NvrtcProgram, std::size_t*);
    int (*get_ptx)(NvrtcProgram, char*);
    const char* (*get_error_string)(int);
};

// The setting PLAIT_NVRTC_LIBRARY, or else the first of nvrtc_candidates() that opens; stays loaded. CompileError: none
// does, with what was tried and what to install.
NvrtcLibrary open_nvrtc();

// In order: the wheel's folders near the program and near this library, /usr/local/cuda/lib64, the loader's own search
// path (a bare name). Needs no environment.
std::vector<std::string> nvrtc_candidates();
// Of the wheel, in site-packages and virtual environments beside `file` and its parent folders; only what exists.
std::vector<std::string> nvrtc_candidates_near(const std::string& file);

}  // namespace plait
