#include "compiler/backend/toolchain.h"

#include "compiler/codegen/templates.h"
#include "runtime/base/error.h"
#include "runtime/base/hash.h"

#ifdef PLAIT_WITH_CUDA
#include "compiler/backend/nvrtc_compiler.h"
#include "compiler/backend/nvrtc_spills.h"
#endif
#ifdef PLAIT_WITH_HOST_JIT
#include "compiler/backend/clang_jit.h"
#endif

namespace plait {
namespace {

std::string hash_templates(const std::string& without) {
    std::string all;
    for (const EmbeddedTemplate& file : embedded_templates()) {
        if (!file.path.starts_with(without))
            all += file.path + "\n" + std::to_string(file.text.size()) + "\n" + file.text;
    }
    return sha256_hex(all);
}

Toolchain cuda_toolchain() {
#ifdef PLAIT_WITH_CUDA
    return {CodeKind::Cubin, nvrtc_version(), nvrtc_flags(), hash_templates("host/")};
#else
    throw CompileError("this build of plait has no NVRTC (PLAIT_CUDA=OFF)",
                       "build with -DPLAIT_CUDA=ON for target sm_90a");
#endif
}

Toolchain host_toolchain([[maybe_unused]] bool shared_object) {
#ifdef PLAIT_WITH_HOST_JIT
    CodeKind kind = shared_object ? CodeKind::SharedObject : CodeKind::Object;
    return {kind, clang_build(), clang_flags(shared_object), hash_templates("sm90/")};
#else
    throw CompileError(
        "this build of plait has no compiler for the host machine (PLAIT_HOST_JIT=OFF)",
        "install libclang-19-dev and llvm-19-dev and build again, or load a directory that plaitc wrote");
#endif
}

}  // namespace

const char* code_file_name(CodeKind kind) {
    switch (kind) {
        case CodeKind::Cubin:
            return "kernel.cubin";
        case CodeKind::Object:
            return "kernel.o";
        case CodeKind::SharedObject:
            return "kernel.so";
    }
    throw InternalError("code kind without a file name");
}

Toolchain find_toolchain(const Target& target, bool shared_object) {
    return target.is_host() ? host_toolchain(shared_object) : cuda_toolchain();
}

BuiltCode build_code(const Toolchain& toolchain, [[maybe_unused]] const Plan& plan, [[maybe_unused]] const Source& source) {
#ifdef PLAIT_WITH_CUDA
    if (toolchain.kind == CodeKind::Cubin) {
        CubinResult result = compile_cubin(source);
        check_spills(plan, result.report);
        return {result.cubin, result.ptx, result.version, result.report};
    }
#endif
#ifdef PLAIT_WITH_HOST_JIT
    if (toolchain.kind == CodeKind::Object) return {compile_host_object(source), "", clang_version(), {}};
    if (toolchain.kind == CodeKind::SharedObject) {
        return {link_shared_object(compile_host_object(source, true)), "", clang_version(), {}};
    }
#endif
    throw InternalError("build_code without a compiler for " + std::string(code_file_name(toolchain.kind)));
}

}  // namespace plait
