#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "runtime/base/error.h"
#include "runtime/session/cluster.h"

namespace plait {
namespace {

// Builds `text` into a shared object; empty where this machine has no compiler.
std::string shared_object(const std::string& directory, const std::string& name, const std::string& text) {
    const std::string source = directory + "/" + name + ".cpp", object = directory + "/" + name + ".so";
    std::ofstream(source) << text;
    return std::system(("c++ -shared -fPIC -o " + object + " " + source + " 2>/dev/null").c_str()) == 0 ? object : "";
}

struct HostModuleTest : testing::Test {
    std::string directory = "/tmp/plait-module-XXXXXX";
    void SetUp() override { ASSERT_NE(mkdtemp(directory.data()), nullptr); }
    void TearDown() override { std::filesystem::remove_all(directory); }
};

TEST_F(HostModuleTest, LoadsTwoObjectsWithTheSameSymbol) {
    const std::string one = shared_object(
        directory, "one", "extern \"C\" void plait_kernel(const void*, const void* args) { *(int*)args = 1; }");
    const std::string two = shared_object(
        directory, "two", "extern \"C\" void plait_kernel(const void*, const void* args) { *(int*)args = 2; }");
    if (one.empty() || two.empty()) GTEST_SKIP() << "no compiler";
    const HostModule first = open_shared_object(one), second = open_shared_object(two);
    int value = 0;
    second.kernel(nullptr, &value);
    EXPECT_EQ(value, 2);
    first.kernel(nullptr, &value);
    EXPECT_EQ(value, 1);
}

TEST_F(HostModuleTest, SaysWhatIsMissing) {
    try {
        open_shared_object(directory + "/nowhere.so");
        FAIL();
    } catch (const DeviceError& error) {
        EXPECT_NE(std::string(error.what()).find("nowhere.so"), std::string::npos) << error.what();
    }
    const std::string other = shared_object(directory, "other", "int something;");
    if (other.empty()) GTEST_SKIP() << "no compiler";
    try {
        open_shared_object(other);
        FAIL();
    } catch (const DeviceError& error) {
        EXPECT_NE(std::string(error.what()).find("no symbol plait_kernel"), std::string::npos) << error.what();
    }
}

}  // namespace
}  // namespace plait
