#include "compiler/backend/cache.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "runtime/base/error.h"
#include "runtime/base/files.h"
#include "templates/abi/kernel_args.h"

namespace plait {
namespace {

namespace fs = std::filesystem;
const std::string kKey(64, 'a');

BuiltEntry entry(const std::string& key, const std::string& code = "code bytes") {
    BuiltEntry built;
    Manifest& m = built.artifact.manifest;
    m.abi_version = kAbiVersion;
    m.name = "small";
    m.arch = "host";
    m.key = key;
    m.compiler = "clang 19.1.7";
    m.semantics = key;
    m.m_max = m.n = m.k = 64;
    m.threads = 128;
    m.shared_bytes = 1024;
    m.args_bytes = sizeof(Launch);
    m.agents = {"loader"};
    built.artifact.source = "// source\n";
    built.artifact.code = code;
    built.code_name = "kernel.o";
    return built;
}

class Cache : public ::testing::Test {
protected:
    void SetUp() override { root_ = make_temporary_directory(fs::temp_directory_path().string()); }
    void TearDown() override { remove_recursively(root_); }
    Artifact get(const std::string& key = kKey) {
        return ArtifactCache(root_).find_or_build(
            key,
            [&] {
                ++builds_;
                return entry(key);
            },
            &hit_);
    }
    std::string file(const std::string& name) const { return ArtifactCache(root_).directory(kKey) + "/" + name; }

    std::string root_;
    int builds_ = 0;
    bool hit_ = false;
};

TEST_F(Cache, BuildsOnceAndFindsAfterwards) {
    get();
    EXPECT_FALSE(hit_);
    const Artifact found = get();
    EXPECT_TRUE(hit_);
    EXPECT_EQ(builds_, 1);
    EXPECT_EQ(found.code, "code bytes");
    EXPECT_EQ(found.source, "// source\n");
    EXPECT_EQ(found.manifest.key, kKey);
    EXPECT_EQ(read_file(found.code_file), "code bytes");
}

TEST_F(Cache, KeysDoNotMeet) {
    get();
    get(std::string(64, 'b'));
    EXPECT_EQ(builds_, 2);
    EXPECT_EQ(ArtifactCache(root_).statistics().entries, 2u);
}

TEST_F(Cache, CountsHitsMissesAndHealedEntries) {
    get();
    get();
    get();
    fs::resize_file(file("kernel.o"), 3);
    get();
    const CacheStatistics statistics = ArtifactCache(root_).statistics();
    EXPECT_EQ(statistics.misses, 1u);
    EXPECT_EQ(statistics.hits, 2u);
    EXPECT_EQ(statistics.healed, 1u);
    EXPECT_EQ(statistics.entries, 1u);
    EXPECT_GT(statistics.bytes, 0u);
}

// Every way in which a file of an entry can be damaged is a miss that leaves a whole entry behind.
TEST_F(Cache, DamagedEntryHealsAsAMiss) {
    const auto truncate = [](const std::string& path) { fs::resize_file(path, fs::file_size(path) / 2); };
    const auto alter = [](const std::string& path) {
        std::string text = read_file(path);
        text[text.size() / 2] ^= 1;
        std::ofstream(path, std::ios::binary) << text;
    };
    const auto remove = [](const std::string& path) { fs::remove(path); };
    int expected = 1;
    get();
    for (const char* name : {"kernel.cu", "kernel.o", "manifest.json", "entry.json"}) {
        for (const std::function<void(const std::string&)>& damage :
             {std::function<void(const std::string&)>(truncate), {alter}, {remove}}) {
            damage(file(name));
            EXPECT_EQ(get().code, "code bytes") << name;
            EXPECT_EQ(builds_, ++expected) << name;
            get();
            EXPECT_TRUE(hit_) << name;
        }
    }
}

TEST_F(Cache, EntryUnderAForeignKeyIsDamaged) {
    get();
    const std::string other(64, 'b');
    fs::create_directories(fs::path(ArtifactCache(root_).directory(other)).parent_path());
    fs::copy(ArtifactCache(root_).directory(kKey), ArtifactCache(root_).directory(other), fs::copy_options::recursive);
    EXPECT_FALSE(ArtifactCache(root_).find(other));
    EXPECT_EQ(get(other).manifest.key, other);
}

TEST_F(Cache, FailedBuildLeavesNothingAndIsTriedAgain) {
    const auto fail = []() -> BuiltEntry { throw CompileError("refused"); };
    EXPECT_THROW(ArtifactCache(root_).find_or_build(kKey, fail, &hit_), CompileError);
    EXPECT_FALSE(fs::exists(ArtifactCache(root_).directory(kKey)));
    get();
    EXPECT_EQ(builds_, 1);
}

// Processes that want one key at once: one builds, the others take its result.
TEST_F(Cache, OneOfManyProcessesBuilds) {
    std::vector<pid_t> children;
    for (int i = 0; i < 6; ++i) {
        pid_t child = fork();
        if (child == 0) {
            bool hit = false;
            const Artifact artifact = ArtifactCache(root_).find_or_build(
                kKey,
                [&] {
                    usleep(100'000);
                    return entry(kKey);
                },
                &hit);
            _exit(artifact.code == "code bytes" ? (hit ? 0 : 1) : 2);
        }
        children.push_back(child);
    }
    int built = 0;
    for (pid_t child : children) {
        int status = 0;
        waitpid(child, &status, 0);
        ASSERT_TRUE(WIFEXITED(status));
        ASSERT_NE(WEXITSTATUS(status), 2);
        built += WEXITSTATUS(status);
    }
    EXPECT_EQ(built, 1);
}

// A builder killed in the middle neither blocks the key nor leaves its half in place.
TEST_F(Cache, KilledBuilderBlocksNobody) {
    int ready[2];
    ASSERT_EQ(pipe(ready), 0);
    pid_t child = fork();
    if (child == 0) {
        bool hit = false;
        ArtifactCache(root_).find_or_build(
            kKey,
            [&]() -> BuiltEntry {
                const std::string staging = ArtifactCache(root_).directory(kKey) + ".staging/half";
                fs::create_directories(staging);
                std::ofstream(staging + "/kernel.cu") << "half";
                if (write(ready[1], "x", 1) != 1) _exit(3);
                for (;;) pause();
            },
            &hit);
    }
    char byte = 0;
    ASSERT_EQ(read(ready[0], &byte, 1), 1);
    kill(child, SIGKILL);
    waitpid(child, nullptr, 0);
    EXPECT_EQ(get().code, "code bytes");
    EXPECT_EQ(builds_, 1);
    EXPECT_FALSE(fs::exists(ArtifactCache(root_).directory(kKey) + ".staging"));
}

TEST_F(Cache, FolderThatCannotBeMadeIsAnErrorWithAHint) {
    std::ofstream(root_ + "/file") << "in the way";
    ArtifactCache cache(root_ + "/file/cache");
    try {
        cache.find_or_build(
            kKey, [] { return entry(kKey); }, &hit_);
        FAIL() << "built";
    } catch (const ArgumentError& error) {
        EXPECT_NE(error.hint().find("PLAIT_CACHE_DIR"), std::string::npos) << error.hint();
    }
}

TEST_F(Cache, LockThatCannotBeOpenedIsAnErrorWithAHint) {
    fs::create_directories(ArtifactCache(root_).directory(kKey) + ".lock");
    try {
        get();
        FAIL() << "built";
    } catch (const ArgumentError& error) {
        EXPECT_NE(error.message().find("the cache " + root_ + " cannot be written: cannot open lock "), std::string::npos)
            << error.message();
        EXPECT_NE(error.hint().find("PLAIT_CACHE_DIR"), std::string::npos) << error.hint();
    }
}

// A disk that takes no more, at every size from nothing up: an error that says so, nothing left behind, and a build that
// works once there is room. The limit of a process stands in for the disk's: write(2) fails in the same place.
TEST_F(Cache, FullDiskIsAnErrorAndLeavesNothing) {
    for (const rlim_t room : {0, 5, 300, 1000}) {
        const pid_t child = fork();
        if (child == 0) {
            signal(SIGXFSZ, SIG_IGN);
            const rlimit limit{room, room};
            setrlimit(RLIMIT_FSIZE, &limit);
            int verdict = 1;
            try {
                BuiltEntry large = entry(kKey);
                large.artifact.code = std::string(5000, 'x');
                ArtifactCache(root_).find_or_build(kKey, [&] { return large; }, &hit_);
            } catch (const ArgumentError& error) {
                const bool said = error.message().find("the cache " + root_ + " cannot be written: ") == 0 &&
                                  error.message().find("File too large") != std::string::npos &&
                                  error.hint().find("PLAIT_CACHE_DIR") != std::string::npos;
                verdict = said ? 0 : 2;
            }
            _exit(verdict);
        }
        int status = 0;
        waitpid(child, &status, 0);
        EXPECT_EQ(status, 0) << "room for " << room << " bytes";
        EXPECT_FALSE(fs::exists(ArtifactCache(root_).directory(kKey)));
        EXPECT_FALSE(fs::exists(ArtifactCache(root_).directory(kKey) + ".staging"));
    }
    EXPECT_EQ(get().code, "code bytes");
}

// A cache that was filled elsewhere serves without being written.
TEST_F(Cache, EntriesAreFoundWhereNothingCanBeWritten) {
    get();
    const pid_t child = fork();
    if (child == 0) {
        signal(SIGXFSZ, SIG_IGN);
        const rlimit none{0, 0};
        setrlimit(RLIMIT_FSIZE, &none);
        _exit(get().code == "code bytes" && hit_ ? 0 : 1);
    }
    int status = 0;
    waitpid(child, &status, 0);
    EXPECT_EQ(status, 0);
}

// Two compilers made the same thing: strict mode takes one of them, the same on every rank.
TEST_F(Cache, FindsByWhatAnEntryComputesWhoeverCompiledIt) {
    const std::string other(64, 'b'), meaning(64, 'c');
    const auto build = [&](const std::string& key, const std::string& name) {
        BuiltEntry built = entry(key, "code of " + key);
        built.artifact.manifest.semantics = meaning;
        built.code_name = name;
        ArtifactCache(root_).find_or_build(key, [&] { return built; }, &hit_);
    };
    const ArtifactCache cache(root_);
    EXPECT_FALSE(cache.find_by_semantics(meaning, {"kernel.o"}));
    build(other, "kernel.o");
    EXPECT_EQ(cache.find_by_semantics(meaning, {"kernel.so", "kernel.o"})->manifest.key, other);
    build(kKey, "kernel.o");
    EXPECT_EQ(cache.find_by_semantics(meaning, {"kernel.o"})->manifest.key, kKey);
    build(std::string(64, 'd'), "kernel.so");
    EXPECT_EQ(cache.find_by_semantics(meaning, {"kernel.so", "kernel.o"})->manifest.key, std::string(64, 'd'));
    EXPECT_FALSE(cache.find_by_semantics(meaning, {"kernel.cubin"}));
    EXPECT_FALSE(cache.find_by_semantics(kKey, {"kernel.o"}));
}

TEST_F(Cache, DamagedEntryIsNoAnswerByMeaningAndIsCounted) {
    get();
    fs::resize_file(file("kernel.o"), 3);
    int damaged = 0;
    EXPECT_FALSE(ArtifactCache(root_).find_by_semantics(kKey, {"kernel.o"}, &damaged));
    EXPECT_EQ(damaged, 1);
    get();
    EXPECT_TRUE(ArtifactCache(root_).find_by_semantics(kKey, {"kernel.o"}, &damaged));
    EXPECT_EQ(damaged, 0);
}

TEST_F(Cache, ExtraFilesTakeNoPartInTheSums) {
    get();
    ArtifactCache(root_).add_extra(kKey, {{"plan.txt", "plan"}});
    EXPECT_EQ(read_file(file("plan.txt")), "plan");
    get();
    EXPECT_TRUE(hit_);
}

TEST_F(Cache, ClearRemovesEntriesAndCounts) {
    get();
    ArtifactCache(root_).clear();
    const CacheStatistics statistics = ArtifactCache(root_).statistics();
    EXPECT_EQ(statistics.entries, 0u);
    EXPECT_EQ(statistics.misses, 0u);
    get();
    EXPECT_EQ(builds_, 2);
}

}  // namespace
}  // namespace plait
