// Which compiler makes a target's code, and everything about it that the code depends on.
#pragma once
#include <string>
#include <vector>

#include "compiler/backend/ptxas_log.h"
#include "compiler/codegen/emit.h"
#include "compiler/ir/target.h"

namespace plait {

enum class CodeKind { Cubin, Object, SharedObject };
const char* code_file_name(CodeKind kind);  // kernel.cubin, kernel.o, kernel.so

struct Toolchain {
    CodeKind kind = CodeKind::Cubin;
    std::string version;             // as the compiler gives it
    std::vector<std::string> flags;  // no paths
    std::string templates_hash;      // of the templates that this target's source may include
};
// CompileError where this build or this machine lacks the compiler, with what to install.
Toolchain find_toolchain(const Target& target, bool shared_object);

struct BuiltCode {
    std::string code, ptx, compiler;
    PtxasReport report;
};
// `source` is emit(plan). CompileError: what the compiler says, spills that are not allowed.
BuiltCode build_code(const Toolchain& toolchain, const Plan& plan, const Source& source);

}  // namespace plait
