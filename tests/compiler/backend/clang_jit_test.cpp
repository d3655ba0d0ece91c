#include "compiler/backend/clang_jit.h"

#include <dlfcn.h>
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <thread>

#include "runtime/base/error.h"

namespace plait {
namespace {

// Adds `addend` to erf of four floats: a symbol of libm takes part, the templates do too.
Source trivial(int addend) {
    Source source;
    source.kernel =
        "#include \"host/machine.h\"\n#include \"kernel_shapes.h\"\n"
        "extern \"C\" void plait_kernel(const plait::HostCta*, const void* args) {\n"
        "    float* x = static_cast<float*>(const_cast<void*>(args));\n"
        "    for (int i = 0; i < 4; ++i) x[i] = __builtin_erff(x[i]) + ADDEND;\n}\n";
    source.shapes = "#define ADDEND " + std::to_string(addend) + "\n";
    return source;
}

float call(HostKernel kernel, float x) {
    float values[4] = {x, x, x, x};
    kernel(nullptr, values);
    return values[3];
}

TEST(ClangJit, CompilesLoadsAndRuns) {
    const HostModule module = load_host_object(compile_host_object(trivial(2)));
    EXPECT_FLOAT_EQ(call(module.kernel, 0.5f), std::erf(0.5f) + 2);
}

TEST(ClangJit, TwoModulesOfOneProcessDoNotMeet) {
    const HostModule first = load_host_object(compile_host_object(trivial(1)));
    const HostModule second = load_host_object(compile_host_object(trivial(10)));
    EXPECT_FLOAT_EQ(call(first.kernel, 0), 1);
    EXPECT_FLOAT_EQ(call(second.kernel, 0), 10);
}

TEST(ClangJit, TwoThreadsCompileAtOnce) {
    float results[2] = {};
    std::vector<std::thread> threads;
    for (int i = 0; i < 2; ++i) {
        threads.emplace_back(
            [&results, i] { results[i] = call(load_host_object(compile_host_object(trivial(i + 3))).kernel, 0); });
    }
    for (std::thread& thread : threads) thread.join();
    EXPECT_FLOAT_EQ(results[0], 3);
    EXPECT_FLOAT_EQ(results[1], 4);
}

TEST(ClangJit, SameSourceGivesTheSameBytes) {
    EXPECT_EQ(compile_host_object(trivial(5)), compile_host_object(trivial(5)));
}

TEST(ClangJit, SaysWhereTheSourceIsWrong) {
    Source source;
    source.kernel = "int x;\nvoid f() { undeclared(); }\n";
    try {
        compile_host_object(source);
        FAIL() << "compiled";
    } catch (const CompileError& error) {
        EXPECT_NE(error.message().find("kernel.cpp:2"), std::string::npos) << error.message();
    }
}

TEST(ClangJit, ReadsNoHeaderOfTheMachine) {
    Source source;
    source.kernel = "#include <stdio.h>\n";
    EXPECT_THROW(compile_host_object(source), CompileError);
}

TEST(ClangJit, RefusesAnObjectThatIsNone) { EXPECT_THROW(load_host_object("not an object"), CompileError); }

TEST(ClangJit, SaysWhichSymbolAnObjectLacks) {
    Source source;
    source.kernel =
        "extern \"C\" void missing_function();\nextern \"C\" void plait_kernel(const void*, const void*) { "
        "missing_function(); }\n";
    try {
        load_host_object(compile_host_object(source));
        FAIL() << "loaded";
    } catch (const CompileError& error) {
        EXPECT_NE(error.message().find("missing_function"), std::string::npos) << error.message();
    }
}

TEST(ClangJit, PortableFlagsNameNoCpuOfThisMachine) {
    for (const std::string& flag : clang_flags(true)) EXPECT_EQ(flag.find("-target-cpu"), std::string::npos);
}

TEST(ClangLink, MakesASharedObjectThatOpens) {
    const std::string path =
        (std::filesystem::temp_directory_path() / ("plait_link_test_" + std::to_string(getpid()) + ".so")).string();
    std::ofstream(path) << link_shared_object(compile_host_object(trivial(7), true));
    void* library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
    ASSERT_NE(library, nullptr) << dlerror();
    EXPECT_FLOAT_EQ(call(reinterpret_cast<HostKernel>(dlsym(library, "plait_kernel")), 0), 7);
    dlclose(library);
    std::filesystem::remove(path);
}

}  // namespace
}  // namespace plait
