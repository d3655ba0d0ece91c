// The host machine's compiler: Clang and LLVM 19 as libraries of this process. Source text in, object bytes out;
// nothing is read from or written to disk but by link_shared_object. All functions may be called from any thread.
#pragma once
#include <string>
#include <vector>

#include "compiler/codegen/emit.h"
#include "runtime/artifact/host_module.h"

namespace plait {

std::string clang_version();  // clang 19.1.7
std::string clang_build();    // of the library that is loaded, its packager's revision included
std::vector<std::string> clang_flags(
    bool portable);  // what the code depends on, CPU included; portable: no CPU of this machine

// Relocatable object (ELF) with the symbol plait_kernel. CompileError carries Clang's diagnostics.
std::string compile_host_object(const Source& source, bool portable = false);

// Loads the object into this process. CompileError: not an object, or a symbol is missing.
HostModule load_host_object(const std::string& object);

// AOT: the object as a shared object, by the system's linker. CompileError: no linker on PATH, or what it printed.
std::string link_shared_object(const std::string& object);

}  // namespace plait
