#include "runtime/base/dl.h"

#include <gtest/gtest.h>

#include "runtime/base/error.h"

namespace plait {
namespace {

std::string open_error(const std::vector<std::string>& candidates, const std::string& chosen = "") {
    try {
        Library::open("counting sheep", candidates, chosen, "install sheep, or set PLAIT_SHEEP_LIBRARY");
    } catch (const DeviceError& error) {
        EXPECT_EQ(error.hint(), "install sheep, or set PLAIT_SHEEP_LIBRARY");
        return error.message();
    }
    return "no error";
}

TEST(Library, OpensTheFirstThatWorks) {
    Library library = Library::open("the C library", {"libplait_missing.so", "libc.so.6"});
    EXPECT_EQ(library.path(), "libc.so.6");
    EXPECT_EQ(library.function<int(const char*)>("atoi")("42"), 42);
    EXPECT_EQ(library.find("no_such_symbol"), nullptr);
    Library moved = std::move(library);
    EXPECT_NE(moved.find("atoi"), nullptr);
}

TEST(Library, ErrorSaysWhichLibraryIsNeededForWhat) {
    const std::string message = open_error({"libsheep.so.1", "libsheep.so"});
    EXPECT_TRUE(
        message.starts_with("libsheep.so.1 is needed for counting sheep and does not open: libsheep.so.1: cannot open"))
        << message;
    EXPECT_NE(message.find("; libsheep.so: cannot open"), std::string::npos) << message;
}

TEST(Library, ChosenFileIsTheOnlyCandidate) {
    EXPECT_TRUE(open_error({"libc.so.6"}, "/nowhere/libsheep.so")
                    .starts_with("/nowhere/libsheep.so is needed for counting sheep"));
}

TEST(Library, MissingSymbolIsAnError) {
    const Library library = Library::open("the C library", {"libc.so.6"});
    EXPECT_THROW(library.function<void()>("no_such_symbol"), DeviceError);
    EXPECT_THROW(Library::open("nothing", {}), InternalError);
}

}  // namespace
}  // namespace plait
