#include "runtime/session/rendezvous.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <map>
#include <thread>

#include "runtime/base/error.h"

namespace plait {
namespace {

constexpr std::uint64_t kSecond = 1'000'000'000;

struct TemporaryDirectory {
    std::string path = "/tmp/plait-rendezvous-XXXXXX";
    TemporaryDirectory() { EXPECT_NE(mkdtemp(path.data()), nullptr); }
    ~TemporaryDirectory() { std::filesystem::remove_all(path); }
};

void check_store(Rendezvous& one, Rendezvous& other) {
    std::thread late([&] {
        std::this_thread::sleep_for(std::chrono::milliseconds(20));
        one.set("group/0/a", std::string("binary\0value\n", 13));
    });
    EXPECT_EQ(other.get("group/0/a", 10 * kSecond), std::string("binary\0value\n", 13));  // waits
    late.join();
    one.set("empty", "");
    EXPECT_EQ(other.get("empty", kSecond), "");
    try {
        other.get("missing/key", 10'000'000);
        FAIL();
    } catch (const TransportError& error) {
        EXPECT_NE(std::string(error.what()).find("`missing/key`"), std::string::npos) << error.what();
        EXPECT_NE(std::string(error.what()).find("10 ms"), std::string::npos) << error.what();
    }
    EXPECT_THROW(other.set("group/0/a", "again"), TransportError);
    EXPECT_EQ(one.get("group/0/a", kSecond), std::string("binary\0value\n", 13));
}

TEST(ProcessRendezvous, WaitsTimesOutAndRefusesToSetTwice) {
    auto rendezvous = make_process_rendezvous();
    check_store(*rendezvous, *rendezvous);
}

TEST(DirectoryRendezvous, WaitsTimesOutAndRefusesToSetTwice) {
    const TemporaryDirectory directory;
    check_store(*make_directory_rendezvous(directory.path + "/new"),
                *make_directory_rendezvous(directory.path + "/new"));
}

TEST(DirectoryRendezvous, KeysThatLookAlikeAreDifferentFiles) {
    const TemporaryDirectory directory;
    auto rendezvous = make_directory_rendezvous(directory.path);
    rendezvous->set("a/b", "slash");
    rendezvous->set("a%2fb", "percent");
    rendezvous->set("a_b", "line");
    EXPECT_EQ(rendezvous->get("a/b", kSecond), "slash");
    EXPECT_EQ(rendezvous->get("a%2fb", kSecond), "percent");
    rendezvous->set("../outside", "inside");
    EXPECT_FALSE(std::filesystem::exists(directory.path + "/../outside"));
}

TEST(DirectoryRendezvous, NoDraftIsLeftBehind) {
    const TemporaryDirectory directory;
    auto rendezvous = make_directory_rendezvous(directory.path);
    rendezvous->set("key", std::string(100'000, 'x'));
    EXPECT_EQ(rendezvous->get("key", kSecond).size(), 100'000u);
    EXPECT_THROW(rendezvous->set("key", "y"), TransportError);
    int files = 0;
    for (const auto& entry : std::filesystem::directory_iterator(directory.path)) files += entry.is_regular_file();
    EXPECT_EQ(files, 1);
}

TEST(DirectoryRendezvous, DirectoryThatCannotBeMadeIsNamed) {
    EXPECT_THROW(make_directory_rendezvous("/proc/plait"), TransportError);
}

TEST(CallbackRendezvous, HandsOverWithPrefix) {
    std::map<std::string, std::string> store;
    auto inner = make_callback_rendezvous([&](const std::string& key, const std::string& value) { store[key] = value; },
                                          [&](const std::string& key, std::uint64_t) { return store.at(key); });
    auto first = make_prefixed_rendezvous(inner, "first/"), second = make_prefixed_rendezvous(inner, "second/");
    first->set("key", "1");
    second->set("key", "2");
    EXPECT_EQ(first->get("key", 0), "1");
    EXPECT_EQ(store.at("second/key"), "2");
}

}  // namespace
}  // namespace plait
