#include "runtime/base/files.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <filesystem>
#include <thread>
#include <vector>

#include "runtime/base/error.h"
#include "tests/runtime/base/temporary_directory.h"

namespace plait {
namespace {

using namespace std::chrono_literals;
using testing::TemporaryDirectory;

std::size_t entries(const std::string& folder) {
    return static_cast<std::size_t>(
        std::distance(std::filesystem::directory_iterator(folder), std::filesystem::directory_iterator()));
}

TEST(Files, WritesAndReadsBytes) {
    const TemporaryDirectory folder;
    const std::string content("a\0b\n", 4);
    write_file_atomically(folder / "x", content);
    EXPECT_EQ(read_file(folder / "x"), content);
    write_file_atomically(folder / "x", "");
    EXPECT_EQ(read_file(folder / "x"), "");
    EXPECT_EQ(entries(folder.path()), 1u);  // no temporary file is left
    EXPECT_TRUE(file_exists(folder / "x"));
    EXPECT_FALSE(file_exists(folder / "y"));
}

TEST(Files, ErrorsNamePathAndReason) {
    const TemporaryDirectory folder;
    try {
        read_file(folder / "missing");
        FAIL();
    } catch (const ArgumentError& error) {
        EXPECT_EQ(error.message(), "cannot read " + (folder / "missing") + ": No such file or directory");
    }
    EXPECT_THROW(write_file_atomically(folder / "no/such/folder", "x"), ArgumentError);
    EXPECT_THROW(read_file(folder.path()), ArgumentError);
}

TEST(Files, FailedReplaceLeavesNoTemporaryFile) {
    const TemporaryDirectory folder;
    make_directories(folder / "target/full");
    EXPECT_THROW(write_file_atomically(folder / "target", "x"), ArgumentError);
    EXPECT_EQ(entries(folder.path()), 1u);
}

// A disk that is full in the middle of a write; the limit of a process fails at the same call.
TEST(Files, FullDiskKeepsTheOldContentAndLeavesNoTemporaryFile) {
    const TemporaryDirectory folder;
    write_file_atomically(folder / "file", "old");
    const pid_t child = ::fork();
    if (child == 0) {
        ::signal(SIGXFSZ, SIG_IGN);
        const rlimit limit{100, 100};
        ::setrlimit(RLIMIT_FSIZE, &limit);
        try {
            write_file_atomically(folder / "file", std::string(1000, 'x'));
        } catch (const ArgumentError& error) {
            const bool said = error.message().starts_with("cannot write " + (folder / "file")) &&
                              error.message().ends_with("File too large");
            ::_exit(said ? 0 : 1);
        }
        ::_exit(2);
    }
    int status = 0;
    ::waitpid(child, &status, 0);
    EXPECT_EQ(status, 0);
    EXPECT_EQ(read_file(folder / "file"), "old");
    EXPECT_EQ(entries(folder / "."), 1u);
}

TEST(Files, ReadersNeverSeeATornFile) {
    const TemporaryDirectory folder;
    const std::string path = folder / "x";
    write_file_atomically(path, std::string(100000, 'a'));
    std::atomic<bool> stop{false};
    std::thread writer([&] {
        for (int i = 0; i < 40; ++i)
            write_file_atomically(path, std::string(i % 2 == 0 ? 200000 : 100000, i % 2 == 0 ? 'b' : 'a'));
        stop = true;
    });
    while (!stop) {
        const std::string content = read_file(path);
        ASSERT_EQ(content, std::string(content[0] == 'a' ? 100000 : 200000, content[0]));
    }
    writer.join();
}

TEST(Files, FirstPublisherWins) {
    const TemporaryDirectory folder;
    const std::string target = folder / "target";
    for (const char* who : {"first", "second"}) {
        const std::string staged = make_temporary_directory(folder.path());
        make_directories(staged + "/deep");
        write_file_atomically(staged + "/deep/who", who);
        EXPECT_EQ(publish_directory(staged, target), std::string(who) == "first");
        EXPECT_FALSE(file_exists(staged));
    }
    EXPECT_EQ(read_file(target + "/deep/who"), "first");
}

TEST(Files, PublishingNothingIsAnError) {
    const TemporaryDirectory folder;
    EXPECT_THROW(publish_directory(folder / "missing", folder / "target"), ArgumentError);
}

TEST(FileLock, ExcludesThreads) {
    const TemporaryDirectory folder;
    std::atomic<int> inside{0}, most{0};
    std::vector<std::thread> threads;
    for (int t = 0; t < 4; ++t) {
        threads.emplace_back([&] {
            for (int i = 0; i < 5; ++i) {
                const FileLock lock(folder / "lock");
                most = std::max(most.load(), ++inside);
                std::this_thread::sleep_for(1ms);
                --inside;
            }
        });
    }
    for (std::thread& thread : threads) thread.join();
    EXPECT_EQ(most, 1);
}

TEST(FileLock, TimeoutNamesTheHolder) {
    const TemporaryDirectory folder;
    const FileLock held(folder / "lock");
    try {
        const FileLock second(folder / "lock", 20ms);
        FAIL();
    } catch (const ArgumentError& error) {
        EXPECT_EQ(error.message(), "lock " + (folder / "lock") + " is still held by process " +
                                       std::to_string(::getpid()) + " after 20 ms");
    }
}

TEST(FileLock, KilledHolderBlocksNobody) {
    const TemporaryDirectory folder;
    const std::string path = folder / "lock";
    int ready[2];
    ASSERT_EQ(::pipe(ready), 0);
    const pid_t child = ::fork();
    if (child == 0) {
        const FileLock lock(path);
        const char byte = 1;
        (void)!::write(ready[1], &byte, 1);
        ::pause();
        ::_exit(0);
    }
    char byte = 0;
    ASSERT_EQ(::read(ready[0], &byte, 1), 1);
    EXPECT_THROW(FileLock(path, 20ms), ArgumentError);
    ::kill(child, SIGKILL);
    ::waitpid(child, nullptr, 0);
    EXPECT_NO_THROW(FileLock(path, 1000ms));
    ::close(ready[0]);
    ::close(ready[1]);
}

TEST(AddLineOnce, KeepsEveryLineOfManyProcessesOnce) {
    const TemporaryDirectory folder;
    const std::string path = folder.path() + "/made/lines.jsonl";
    std::vector<pid_t> children;
    for (int i = 0; i < 8; ++i) {
        const pid_t child = ::fork();
        if (child == 0) {
            for (int line = 0; line < 5; ++line) add_line_once(path, "line " + std::to_string(line));
            add_line_once(path, "own " + std::to_string(i));
            ::_exit(0);
        }
        children.push_back(child);
    }
    for (const pid_t child : children) ::waitpid(child, nullptr, 0);
    const std::string text = read_file(path);
    EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 13) << text;
    for (int line = 0; line < 5; ++line) EXPECT_NE(text.find("line " + std::to_string(line) + "\n"), std::string::npos);
    for (int i = 0; i < 8; ++i) EXPECT_NE(text.find("own " + std::to_string(i) + "\n"), std::string::npos);
}

// A writer killed in the middle of a line leaves a part without an end.
TEST(AddLineOnce, RemovesWhatADeadWriterLeftOfALine) {
    const TemporaryDirectory folder;
    const std::string path = folder.path() + "/lines.jsonl";
    write_file_atomically(path, "whole\nhal");
    add_line_once(path, "half");
    EXPECT_EQ(read_file(path), "whole\nhalf\n");
    add_line_once(path, "whole");
    EXPECT_EQ(read_file(path), "whole\nhalf\n");
}

}  // namespace
}  // namespace plait
