#include "compiler/backend/clang_jit.h"

#include <clang/Basic/Diagnostic.h>
#include <clang/Basic/Version.h>
#include <clang/CodeGen/CodeGenAction.h>
#include <clang/Frontend/CompilerInstance.h>
#include <clang/Frontend/CompilerInvocation.h>
#include <clang/Frontend/TextDiagnosticPrinter.h>
#include <fmt/format.h>
#include <llvm/IR/LLVMContext.h>
#include <llvm/Support/MemoryBuffer.h>
#include <llvm/Support/TargetSelect.h>
#include <llvm/Support/VirtualFileSystem.h>
#include <llvm/TargetParser/Host.h>

#include <algorithm>
#include <mutex>

#include "compiler/codegen/templates.h"
#include "runtime/base/error.h"

namespace plait {
namespace {

// Names of files that exist in memory only; they show in diagnostics.
constexpr const char* kRoot = "/plait";
constexpr const char* kKernel = "/plait/kernel.cpp";

void initialize_target() {
    static std::once_flag once;
    std::call_once(once, [] {
        llvm::InitializeNativeTarget();
        llvm::InitializeNativeTargetAsmPrinter();
        llvm::InitializeNativeTargetAsmParser();
    });
}

std::vector<std::string> cpu_flags() {
    std::vector<std::string> flags{"-target-cpu", llvm::sys::getHostCPUName().str()};
    std::vector<std::string> features;
    for (const auto& feature : llvm::sys::getHostCPUFeatures()) {
        features.push_back((feature.second ? "+" : "-") + feature.first().str());
    }
    std::sort(features.begin(), features.end());
    for (const std::string& feature : features) flags.insert(flags.end(), {"-target-feature", feature});
    return flags;
}

llvm::IntrusiveRefCntPtr<llvm::vfs::FileSystem> make_files(const Source& source) {
    auto files = llvm::makeIntrusiveRefCnt<llvm::vfs::InMemoryFileSystem>();
    auto add = [&](const std::string& path, const std::string& text) {
        files->addFile(path, 0, llvm::MemoryBuffer::getMemBufferCopy(text, path));
    };
    for (const EmbeddedTemplate& file : embedded_templates()) add(fmt::format("{}/{}", kRoot, file.path), file.text);
    add(fmt::format("{}/kernel_shapes.h", kRoot), source.shapes);
    add(kKernel, source.kernel);
    return files;
}

}  // namespace

std::string clang_version() { return "clang " CLANG_VERSION_STRING; }

std::string clang_build() { return clang::getClangFullVersion(); }

std::vector<std::string> clang_flags(bool portable) {
    std::vector<std::string> flags{
        "-triple",
        llvm::sys::getDefaultTargetTriple(),
        "-emit-obj",
        "-x",
        "c++",
        "-std=c++20",
        "-ffreestanding",
        "-O2",
        "-vectorize-loops",
        "-vectorize-slp",
        "-mrelocation-model",
        "pic",
        "-pic-level",
        "2",
        // An expression has the same bits whatever code surrounds it: no contraction into fma, no trap, no errno.
        "-ffp-contract=off",
        "-fno-rounding-math",
        // No header of the machine takes part: the templates are complete.
        "-nostdsysteminc",
        "-nobuiltininc",
        "-nostdinc++",
    };
    if (!portable) {
        std::vector<std::string> cpu = cpu_flags();
        flags.insert(flags.end(), cpu.begin(), cpu.end());
    }
    return flags;
}

std::string compile_host_object(const Source& source, bool portable) {
    initialize_target();
    std::vector<std::string> flags = clang_flags(portable);
    flags.insert(flags.end(), {"-I", kRoot, "-main-file-name", "kernel.cpp", kKernel});
    std::vector<const char*> arguments;
    for (const std::string& flag : flags) arguments.push_back(flag.c_str());

    std::string messages;
    llvm::raw_string_ostream message_stream(messages);
    llvm::IntrusiveRefCntPtr<clang::DiagnosticOptions> options(new clang::DiagnosticOptions());
    auto printer = std::make_unique<clang::TextDiagnosticPrinter>(message_stream, options.get());
    clang::DiagnosticsEngine early(new clang::DiagnosticIDs(), options, printer.get(), false);
    auto invocation = std::make_shared<clang::CompilerInvocation>();
    bool legal = clang::CompilerInvocation::CreateFromArgs(*invocation, arguments, early, "plait");
    if (!legal) throw InternalError("Clang refuses plait's own flags: " + message_stream.str());

    clang::CompilerInstance compiler;
    compiler.setInvocation(invocation);
    compiler.createDiagnostics(printer.get(), false);
    compiler.setVerboseOutputStream(message_stream);  // `1 error generated.` goes where the errors go
    compiler.createFileManager(make_files(source));
    llvm::SmallString<0> object;
    compiler.setOutputStream(std::make_unique<llvm::raw_svector_ostream>(object));
    llvm::LLVMContext context;
    clang::EmitObjAction action(&context);
    if (!compiler.ExecuteAction(action)) {
        throw CompileError("Clang refuses the source: " + message_stream.str(),
                           "PLAIT_DUMP=all keeps the source beside the plan");
    }
    return std::string(object.data(), object.size());
}

}  // namespace plait
