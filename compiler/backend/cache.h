// The artifact cache on disk, shared by all processes of a machine (or of a file system).
//
//   root/ab/abcdef../          one artifact: kernel.cu, its code, manifest.json, entry.json (sizes and SHA-256 of them)
//   root/ab/abcdef...lock      held by the one process that builds this key
//   root/ab/abcdef...staging/  what it has written so far; a rename publishes it
//   root/by_semantics/SEM/KEY  empty: the entry KEY computes SEM. Written before its entry, read by strict mode
//   root/statistics.json      hits, misses, healed
//
// Readers take no lock: a published folder never changes, and a folder whose sums do not agree counts as absent. The
// builder of a key holds its lock, looks again, and publishes by rename; a killed builder frees its lock by dying and
// leaves a staging folder that the next builder of the key removes.
#pragma once
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "runtime/artifact/artifact.h"

namespace plait {

struct CacheStatistics {
    std::uint64_t hits = 0, misses = 0, healed = 0;  // since the cache was made or cleared
    std::uint64_t entries = 0, bytes = 0;            // on disk now
};

// What is stored beside kernel.cu, the code and manifest.json: no part of the artifact (schedule.txt, plan.txt).
using ExtraFiles = std::map<std::string, std::string>;

struct BuiltEntry {
    Artifact artifact;
    std::string code_name;  // kernel.cubin, kernel.o, kernel.so
    ExtraFiles extra;
};

class ArtifactCache {
public:
    explicit ArtifactCache(std::string root) : root_(std::move(root)) {}

    // nullopt: absent or damaged. `damaged` says which, where given.
    std::optional<Artifact> find(const std::string& key, bool* damaged = nullptr) const;
    // An entry that computes this, whoever compiled it: the first by code name (in the order given), then by key, so
    // that ranks agree. nullopt: none that is whole. Never writes. *damaged counts entries that are there and not
    // whole.
    std::optional<Artifact> find_by_semantics(const std::string& semantics, const std::vector<std::string>& code_names,
                                              int* damaged = nullptr) const;
    // The entry, built by this process or by the one that had the lock first. *hit: nothing was built here.
    // ArgumentError: the cache cannot be written. Errors of `build` pass through and leave nothing behind.
    Artifact find_or_build(const std::string& key, const std::function<BuiltEntry()>& build, bool* hit);
    // Adds files that the entry lacks; they are for people and take no part in its sums.
    void add_extra(const std::string& key, const ExtraFiles& extra) const;

    std::string directory(const std::string& key) const;
    CacheStatistics statistics() const;
    void clear();  // removes entries and counts; builders at work publish afterwards as usual

private:
    void count(std::uint64_t CacheStatistics::*counter);
    Artifact publish(const std::string& key, const BuiltEntry& entry);
    std::string semantics_directory(const std::string& semantics) const { return root_ + "/by_semantics/" + semantics; }

    std::string root_;
};

}  // namespace plait
