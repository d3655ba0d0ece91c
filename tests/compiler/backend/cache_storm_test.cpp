// Many processes on one cache folder, killed at random points: nothing torn is ever seen, one builder a key at a time,
// and nobody waits for the dead.
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <random>

#include "compiler/backend/cache.h"
#include "runtime/base/files.h"
#include "runtime/base/hash.h"
#include "templates/abi/kernel_args.h"

namespace plait {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

constexpr int kProcesses = 64, kKeys = 4;
enum Verdict { kHit = 0, kBuilt = 1, kTorn = 2, kFailed = 3 };

std::string key_of(int number) { return sha256_hex("key " + std::to_string(number)); }

// Code that proves itself whole: its last line is the hash of the rest, which names key and builder.
std::string code_of(const std::string& key) {
    std::string code = key + " built by " + std::to_string(getpid()) + "\n" + std::string(50'000, 'x') + "\n";
    return code + sha256_hex(code);
}

bool is_whole(const Artifact& artifact, const std::string& key) {
    const std::string& code = artifact.code;
    return code.size() > 64 && code.starts_with(key) &&
           sha256_hex(code.substr(0, code.size() - 64)) == code.substr(code.size() - 64);
}

BuiltEntry entry_of(const std::string& key) {
    BuiltEntry built;
    Manifest& m = built.artifact.manifest;
    m.abi_version = kAbiVersion;
    m.name = "storm", m.arch = "host", m.key = key, m.compiler = "none", m.semantics = key;
    m.m_max = m.n = m.k = 64;
    m.threads = 128, m.args_bytes = sizeof(Launch);
    built.artifact.source = "// source\n";
    built.artifact.code = code_of(key);
    built.code_name = "kernel.o";
    return built;
}

// One line a build, appended by the builder: at its start and once its entry is published.
void note(const std::string& root, const std::string& line) {
    std::ofstream(root + "/log", std::ios::app) << line + "\n" << std::flush;
}

int count_lines(const std::string& root, const std::string& line) {
    std::ifstream log(root + "/log");
    int count = 0;
    for (std::string text; std::getline(log, text);) count += text == line;
    return count;
}

// What each process does: wants every key, in an order of its own.
[[noreturn]] void want_all_keys(const std::string& root, unsigned seed) {
    std::mt19937 random(seed);
    const int first = static_cast<int>(random() % kKeys);
    int verdict = kHit;
    try {
        for (int i = 0; i < kKeys; ++i) {
            const int number = (first + i) % kKeys;
            const std::string key = key_of(number);
            bool hit = false, damaged = false;
            ArtifactCache cache(root + "/cache");
            if (cache.find(key, &damaged); damaged) _exit(kTorn);
            const Artifact artifact = cache.find_or_build(
                key,
                [&] {
                    note(root, "start " + std::to_string(number));
                    usleep(20'000);
                    return entry_of(key);
                },
                &hit);
            if (!is_whole(artifact, key)) _exit(kTorn);
            if (!hit) {
                note(root, "done " + std::to_string(number));
                verdict = kBuilt;
            }
        }
    } catch (const std::exception& error) {
        note(root, error.what());
        _exit(kFailed);
    }
    _exit(verdict);
}

class CacheStorm : public ::testing::Test {
protected:
    void SetUp() override { root_ = make_temporary_directory(fs::temp_directory_path().string()); }
    void TearDown() override { remove_recursively(root_); }

    void start_all(unsigned seed) {
        for (int i = 0; i < kProcesses; ++i) {
            const pid_t child = fork();
            if (child == 0) want_all_keys(root_, seed + static_cast<unsigned>(i));
            ASSERT_GT(child, 0);
            children_.push_back(child);
        }
    }
    // Waits for all; the number of the killed. A test that hangs here fails by the alarm, with the children ended.
    int join_all() {
        int killed = 0;
        for (const pid_t child : children_) {
            int status = 0;
            while (waitpid(child, &status, WNOHANG) == 0) {
                if (Clock::now() > deadline_) {
                    ADD_FAILURE() << "process " << child << " waits for the dead";
                    kill(child, SIGKILL);
                    waitpid(child, &status, 0);
                    break;
                }
                usleep(2'000);
            }
            if (WIFSIGNALED(status)) ++killed;
            if (WIFEXITED(status)) {
                EXPECT_NE(WEXITSTATUS(status), kTorn);
                EXPECT_NE(WEXITSTATUS(status), kFailed) << read_file(root_ + "/log");
            }
        }
        children_.clear();
        return killed;
    }

    std::string root_;
    std::vector<pid_t> children_;
    const Clock::time_point deadline_ = Clock::now() + std::chrono::seconds(120);
};

TEST_F(CacheStorm, OneProcessOfManyBuildsEachKey) {
    start_all(1);
    EXPECT_EQ(join_all(), 0);
    for (int number = 0; number < kKeys; ++number) {
        EXPECT_EQ(count_lines(root_, "start " + std::to_string(number)), 1);
        EXPECT_EQ(count_lines(root_, "done " + std::to_string(number)), 1);
    }
    const CacheStatistics statistics = ArtifactCache(root_ + "/cache").statistics();
    EXPECT_EQ(statistics.entries, std::uint64_t{kKeys});
    EXPECT_EQ(statistics.healed, 0u);
}

TEST_F(CacheStorm, KillsAtRandomPointsTearNothingAndBlockNobody) {
    int killed = 0;
    for (unsigned round = 0; round < 4; ++round) {
        std::mt19937 random(round);
        start_all(100 * round);
        // Two thirds of them die somewhere within the time that the keys take to build.
        for (std::size_t i = 0; i < children_.size(); ++i) {
            usleep(random() % 3'000);
            if (random() % 3 != 0) kill(children_[random() % children_.size()], SIGKILL);
        }
        killed += join_all();
        for (int number = 0; number < kKeys; ++number) {
            // Who started and did not finish was killed; while a key's entry stands, nobody builds it again.
            EXPECT_LE(count_lines(root_, "done " + std::to_string(number)), 1);
            bool hit = false, damaged = false;
            ArtifactCache cache(root_ + "/cache");
            cache.find(key_of(number), &damaged);
            EXPECT_FALSE(damaged);
            const Artifact artifact = cache.find_or_build(
                key_of(number), [&] { return entry_of(key_of(number)); }, &hit);
            EXPECT_TRUE(is_whole(artifact, key_of(number)));
            EXPECT_FALSE(fs::exists(cache.directory(key_of(number)) + ".staging"));
            EXPECT_TRUE(cache.find_by_semantics(key_of(number), {"kernel.o"}));
        }
        remove_recursively(root_ + "/cache");
        fs::remove(root_ + "/log");
    }
    EXPECT_GT(killed, kProcesses / 2) << "the storm killed too few to mean anything";
}

}  // namespace
}  // namespace plait
