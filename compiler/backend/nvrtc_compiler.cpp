#include "compiler/backend/nvrtc_compiler.h"

#include <fmt/format.h>

#include <filesystem>
#include <memory>
#include <sstream>

#include "compiler/backend/nvrtc_library.h"
#include "compiler/codegen/templates.h"
#include "runtime/base/error.h"

namespace plait {
namespace {

struct Program {
    const NvrtcLibrary& nvrtc;
    NvrtcProgram handle = nullptr;
    explicit Program(const NvrtcLibrary& library) : nvrtc(library) {}
    Program(const Program&) = delete;
    Program& operator=(const Program&) = delete;
    ~Program() {
        if (handle) nvrtc.destroy_program(&handle);
    }
};

void check(const NvrtcLibrary& nvrtc, int result, const char* call) {
    if (result != kNvrtcSuccess)
        throw CompileError(fmt::format("{} failed: {} ({})", call, nvrtc.get_error_string(result), nvrtc.path));
}

std::string fetch(const NvrtcLibrary& nvrtc, NvrtcProgram program, int (*size_of)(NvrtcProgram, std::size_t*),
                  int (*get)(NvrtcProgram, char*), const char* what) {
    std::size_t size = 0;
    check(nvrtc, size_of(program, &size), what);
    std::string text(size, '\0');
    if (size > 0) check(nvrtc, get(program, text.data()), what);
    return text;
}

std::string text_of(std::string raw) {
    while (!raw.empty() && raw.back() == '\0') raw.pop_back();
    return raw;
}

void create(Program& program, const Source& source) {
    std::vector<std::string> names, texts;
    for (const EmbeddedTemplate& file : embedded_templates()) {
        if (file.path.starts_with("host/")) continue;
        names.push_back(file.path);
        texts.push_back(root_relative_includes(file.path, file.text));
    }
    names.push_back("kernel_shapes.h");
    texts.push_back(source.shapes);
    std::vector<const char*> name_pointers, text_pointers;
    for (const std::string& name : names) name_pointers.push_back(name.c_str());
    for (const std::string& text : texts) text_pointers.push_back(text.c_str());
    check(program.nvrtc,
          program.nvrtc.create_program(&program.handle, source.kernel.c_str(), "kernel.cu", int(names.size()),
                                       text_pointers.data(), name_pointers.data()),
          "nvrtcCreateProgram");
}

}  // namespace

std::string nvrtc_version() { return open_nvrtc().version; }

const std::vector<std::string>& nvrtc_flags() {
    static const std::vector<std::string> flags = {
        "--gpu-architecture=sm_90a",
        "-std=c++20",
        // An expression has the same bits whatever code surrounds it; fma is written by name where it is wanted.
        "--fmad=false",
        "--diag-suppress=177",  // constants that a kernel does not use are there for its reader
        "--ptxas-options=-v",
        "--ptxas-options=-warn-spills",
    };
    return flags;
}

std::string root_relative_includes(const std::string& path, const std::string& text) {
    const std::string directive = "#include \"";
    std::filesystem::path folder = std::filesystem::path(path).parent_path();
    std::istringstream lines(text);
    std::string result;
    for (std::string line; std::getline(lines, line);) {
        std::size_t start = line.find(directive);
        std::size_t end = start == std::string::npos ? start : line.find('"', start + directive.size());
        if (end != std::string::npos && line.find_first_not_of(" \t") == start) {
            std::string name = line.substr(start + directive.size(), end - start - directive.size());
            // The generated header has no folder: every template that needs it names it plainly.
            if (name != "kernel_shapes.h")
                line = directive + (folder / name).lexically_normal().generic_string() + line.substr(end);
        }
        result += line;
        result += '\n';
    }
    return result;
}

CubinResult compile_cubin(const Source& source) {
    NvrtcLibrary nvrtc = open_nvrtc();
    Program program(nvrtc);
    create(program, source);
    std::vector<const char*> options;
    for (const std::string& flag : nvrtc_flags()) options.push_back(flag.c_str());
    int result = nvrtc.compile_program(program.handle, int(options.size()), options.data());
    std::string log = text_of(fetch(nvrtc, program.handle, nvrtc.get_log_size, nvrtc.get_log, "nvrtcGetProgramLog"));
    if (result == kNvrtcCompilation)
        throw CompileError("NVRTC refuses the source: " + log, "PLAIT_DUMP=all keeps the source beside the plan");
    check(nvrtc, result, "nvrtcCompileProgram");
    CubinResult compiled;
    compiled.version = nvrtc.version;
    compiled.report = parse_ptxas_log(log);
    check_ptxas_messages(compiled.report);
    compiled.cubin = fetch(nvrtc, program.handle, nvrtc.get_cubin_size, nvrtc.get_cubin, "nvrtcGetCUBIN");
    if (compiled.cubin.empty()) throw CompileError("NVRTC made no cubin for sm_90a (" + nvrtc.path + ")");
    std::size_t ptx_size = 0;
    if (nvrtc.get_ptx_size(program.handle, &ptx_size) == kNvrtcSuccess && ptx_size > 1) {
        compiled.ptx = text_of(fetch(nvrtc, program.handle, nvrtc.get_ptx_size, nvrtc.get_ptx, "nvrtcGetPTX"));
    }
    return compiled;
}

}  // namespace plait
