#include "compiler/backend/cache.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>
#include <thread>

#include "runtime/base/error.h"
#include "runtime/base/files.h"
#include "runtime/base/hash.h"
#include "templates/abi/kernel_args.h"

namespace plait {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
constexpr const char* kEntry = "entry.json";
constexpr const char* kWritable = "set PLAIT_CACHE_DIR to a folder that can be written and has room";

// What the file layer says, with what to do about a cache.
[[noreturn]] void throw_unwritable(const std::string& root, const ArgumentError& error) {
    throw ArgumentError(fmt::format("the cache {} cannot be written: {}", root, error.message()),
                        error.hint().empty() ? kWritable : error.hint());
}

std::string statistics_path(const std::string& root) { return root + "/statistics.json"; }

// Damaged or missing counts read as zero: they decide nothing.
CacheStatistics read_counts(const std::string& root) {
    CacheStatistics counts;
    if (!file_exists(statistics_path(root))) return counts;
    json file = json::parse(read_file(statistics_path(root)), nullptr, false);
    if (!file.is_object()) return counts;
    counts.hits = file.value("hits", std::uint64_t{0});
    counts.misses = file.value("misses", std::uint64_t{0});
    counts.healed = file.value("healed", std::uint64_t{0});
    return counts;
}

// The files of the entry by name, or nullopt where one is missing, cut short or altered.
std::optional<std::map<std::string, std::string>> read_checked(const std::string& directory) {
    json entry = json::parse(read_file(directory + "/" + kEntry), nullptr, false);
    if (!entry.is_object() || !entry.contains("files") || !entry["files"].is_object()) return std::nullopt;
    std::map<std::string, std::string> files;
    for (const auto& [name, sums] : entry["files"].items()) {
        std::string text = read_file(directory + "/" + name);
        if (!sums.is_object() || sums.value("bytes", std::uint64_t{0}) != text.size()) return std::nullopt;
        if (sums.value("sha256", std::string()) != sha256_hex(text)) return std::nullopt;
        files[name] = std::move(text);
    }
    return files;
}

std::optional<Artifact> read_entry(const std::string& directory, const std::string& key) {
    std::optional<std::map<std::string, std::string>> files = read_checked(directory);
    if (!files || !files->count("manifest.json") || !files->count("kernel.cu")) return std::nullopt;
    Artifact artifact;
    artifact.manifest = Manifest::from_json_text(files->at("manifest.json"), directory + "/manifest.json");
    if (artifact.manifest.key != key) return std::nullopt;
    artifact.source = files->at("kernel.cu");
    for (const char* name : {"kernel.cubin", "kernel.o", "kernel.so"}) {
        if (!files->count(name)) continue;
        artifact.code = files->at(name);
        artifact.code_file = directory + "/" + name;
    }
    if (artifact.code.empty()) return std::nullopt;
    return artifact;
}

}  // namespace

std::string ArtifactCache::directory(const std::string& key) const {
    return fmt::format("{}/{}/{}", root_, key.substr(0, 2), key);
}

std::optional<Artifact> ArtifactCache::find(const std::string& key, bool* damaged) const {
    std::string folder = directory(key);
    if (damaged) *damaged = false;
    std::error_code missing;
    if (!fs::exists(folder, missing)) return std::nullopt;
    std::optional<Artifact> artifact;
    try {
        artifact = read_entry(folder, key);
    } catch (const Error&) {
        // A file that is gone or a manifest that does not parse is damage like any other.
    } catch (const json::exception&) {
        // Sums of the wrong type.
    }
    if (!artifact && damaged) *damaged = true;
    return artifact;
}

std::optional<Artifact> ArtifactCache::find_by_semantics(const std::string& semantics,
                                                         const std::vector<std::string>& code_names,
                                                         int* damaged) const {
    std::vector<std::string> keys;
    std::error_code missing;
    for (const auto& entry : fs::directory_iterator(semantics_directory(semantics), missing))
        keys.push_back(entry.path().filename().string());
    std::sort(keys.begin(), keys.end());
    // An entry that another process heals at this moment is whole a moment later.
    for (int attempt = 0; attempt < 3; ++attempt) {
        int not_whole = 0;
        std::vector<Artifact> found;
        for (const std::string& key : keys) {
            bool is_damaged = false;
            std::optional<Artifact> artifact = find(key, &is_damaged);
            not_whole += is_damaged ? 1 : 0;
            if (artifact && artifact->manifest.semantics == semantics && artifact->manifest.abi_version == kAbiVersion)
                found.push_back(std::move(*artifact));
        }
        if (damaged) *damaged = not_whole;
        for (const std::string& name : code_names) {
            for (Artifact& artifact : found)
                if (fs::path(artifact.code_file).filename() == name) return std::move(artifact);
        }
        if (not_whole == 0) break;
        std::this_thread::sleep_for(std::chrono::milliseconds(20));
    }
    return std::nullopt;
}

Artifact ArtifactCache::find_or_build(const std::string& key, const std::function<BuiltEntry()>& build, bool* hit) {
    *hit = true;
    if (std::optional<Artifact> found = find(key)) {
        count(&CacheStatistics::hits);
        return *found;
    }
    std::string folder = directory(key);
    std::error_code error;
    fs::create_directories(fs::path(folder).parent_path(), error);
    if (error)
        throw ArgumentError(fmt::format("cannot make the cache folder {}: {}", folder, error.message()), kWritable);
    std::unique_ptr<FileLock> lock;
    try {
        lock = std::make_unique<FileLock>(folder + ".lock");
    } catch (const ArgumentError& cause) {
        throw_unwritable(root_, cause);
    }
    bool damaged = false;
    if (std::optional<Artifact> found = find(key, &damaged)) {
        count(&CacheStatistics::hits);
        return *found;
    }
    *hit = false;
    BuiltEntry entry = build();
    try {
        if (damaged) remove_recursively(folder);
        Artifact artifact = publish(key, entry);
        count(damaged ? &CacheStatistics::healed : &CacheStatistics::misses);
        return artifact;
    } catch (const ArgumentError& cause) {
        throw_unwritable(root_, cause);
    }
}

// The caller holds the key's lock, so whatever lies in the staging folder belongs to a builder that died.
Artifact ArtifactCache::publish(const std::string& key, const BuiltEntry& entry) {
    std::string folder = directory(key), staged = folder + ".staging";
    remove_recursively(staged);
    // Whatever fails below, no half of an entry stays on a disk that may be full.
    struct Staging {
        std::string path;
        ~Staging() {
            std::error_code ignored;
            fs::remove_all(path, ignored);
        }
    } const cleanup{staged};
    make_directories(staged);  // what is renamed is the staging folder itself: a kill behind the rename leaves nothing
    std::map<std::string, std::string> files = {
        {"kernel.cu", entry.artifact.source},
        {"manifest.json", entry.artifact.manifest.to_json_text()},
        {entry.code_name, entry.artifact.code},
    };
    json sums = {{"key", key}, {"files", json::object()}};
    for (const auto& [name, text] : files) {
        sums["files"][name] = {{"bytes", text.size()}, {"sha256", sha256_hex(text)}};
        write_file_atomically(staged + "/" + name, text);
    }
    // Before the entry: a name without an entry leads nowhere, an entry without its name would be lost to strict mode.
    const std::string names = semantics_directory(entry.artifact.manifest.semantics);
    make_directories(names);
    write_file_atomically(names + "/" + key, "");
    for (const auto& [name, text] : entry.extra) write_file_atomically(staged + "/" + name, text);
    write_file_atomically(staged + "/" + kEntry, sums.dump(2) + "\n");
    publish_directory(staged, folder);
    Artifact artifact = entry.artifact;
    artifact.code_file = folder + "/" + entry.code_name;
    return artifact;
}

void ArtifactCache::add_extra(const std::string& key, const ExtraFiles& extra) const {
    for (const auto& [name, text] : extra) {
        std::string path = directory(key) + "/" + name;
        if (!file_exists(path)) write_file_atomically(path, text);
    }
}

// Counts are for people: a cache that can be read and not written still serves, nobody waits long to count, and a crash of
// the machine may lose them.
void ArtifactCache::count(std::uint64_t CacheStatistics::*counter) {
    try {
        FileLock lock(root_ + "/statistics.lock", std::chrono::seconds(2));
        CacheStatistics counts = read_counts(root_);
        counts.*counter += 1;
        json file = {{"hits", counts.hits}, {"misses", counts.misses}, {"healed", counts.healed}};
        const std::string next = statistics_path(root_) + ".next";  // the lock's holder alone writes it
        std::ofstream(next) << file.dump() << "\n";
        std::error_code ignored;
        fs::rename(next, statistics_path(root_), ignored);
    } catch (const ArgumentError&) {
    }
}

CacheStatistics ArtifactCache::statistics() const {
    CacheStatistics statistics = read_counts(root_);
    std::error_code ignored;
    for (auto entry = fs::recursive_directory_iterator(root_, ignored); entry != fs::recursive_directory_iterator();
         entry.increment(ignored)) {
        if (!entry->is_regular_file(ignored)) continue;
        statistics.bytes += entry->file_size(ignored);
        bool staged = entry->path().string().find(".staging/") != std::string::npos;
        if (entry->path().filename() == kEntry && !staged) statistics.entries += 1;
    }
    return statistics;
}

void ArtifactCache::clear() {
    std::error_code ignored;
    for (const auto& group : fs::directory_iterator(root_, ignored)) {
        std::string name = group.path().filename().string();
        if (name.size() != 2 || !group.is_directory(ignored)) continue;
        for (const auto& entry : fs::directory_iterator(group.path(), ignored)) {
            // Locks stay: a builder may hold one, and a lock on a removed file excludes nobody.
            if (entry.is_directory(ignored) && entry.path().extension() != ".staging")
                remove_recursively(entry.path().string());
        }
    }
    // Names stay: they lead nowhere, and a builder at work has written its own already.
    fs::remove(statistics_path(root_), ignored);
}

}  // namespace plait
