// Object bytes to a function of this process, through ORC; or to a shared object, through the system's linker.
#include <llvm/ExecutionEngine/Orc/ExecutionUtils.h>
#include <llvm/ExecutionEngine/Orc/LLJIT.h>
#include <llvm/Support/MemoryBuffer.h>
#include <llvm/Support/TargetSelect.h>

#include <mutex>

#include "compiler/backend/clang_jit.h"
#include "runtime/base/error.h"

namespace plait {
namespace {

template <class T>
T take(llvm::Expected<T> value, const char* what) {
    if (value) return std::move(*value);
    throw CompileError(std::string(what) + ": " + llvm::toString(value.takeError()));
}

void check(llvm::Error error, const char* what) {
    if (error) throw CompileError(std::string(what) + ": " + llvm::toString(std::move(error)));
}

}  // namespace

HostModule load_host_object(const std::string& object) {
    static std::once_flag once;
    std::call_once(once, [] {
        llvm::InitializeNativeTarget();
        llvm::InitializeNativeTargetAsmPrinter();
    });
    std::shared_ptr<llvm::orc::LLJIT> jit = take(llvm::orc::LLJITBuilder().create(), "cannot start the JIT's linker");
    // ORC reports why (which symbol is missing) apart from the error that lookup returns.
    auto reasons = std::make_shared<std::string>();
    jit->getExecutionSession().setErrorReporter(
        [reasons](llvm::Error error) { *reasons += "; " + llvm::toString(std::move(error)); });
    char prefix = jit->getDataLayout().getGlobalPrefix();
    llvm::orc::JITDylib& library = jit->getMainJITDylib();
    library.addGenerator(
        take(llvm::orc::DynamicLibrarySearchGenerator::GetForCurrentProcess(prefix), "symbols of this process"));
    // Under Python this library is loaded locally: what it links against is not among the process's symbols.
    library.addGenerator(take(llvm::orc::DynamicLibrarySearchGenerator::Load("libm.so.6", prefix), "libm"));
    check(jit->addObjectFile(llvm::MemoryBuffer::getMemBufferCopy(object, "kernel.o")), "cannot load host code");
    llvm::Expected<llvm::orc::ExecutorAddr> address = jit->lookup("plait_kernel");
    if (!address) {
        throw CompileError("host code does not load: " + llvm::toString(address.takeError()) + *reasons);
    }
    return {address->toPtr<HostKernel>(), jit};
}

}  // namespace plait
