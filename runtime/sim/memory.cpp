#include "runtime/sim/memory.h"

#include <fmt/format.h>

#include <algorithm>

#include "runtime/base/error.h"

namespace plait {

std::string Region::place(std::uint64_t offset) const {
    if (kind == MemoryKind::Shared) return fmt::format("{} of rank {}, cta {}, byte {}", name, rank, cta, offset);
    if (rank < 0) return fmt::format("{}, byte {}", name, offset);
    return fmt::format("{} of rank {}, byte {}", name, rank, offset);
}

Region* SimMemory::add(std::uint8_t* begin, std::uint64_t bytes, MemoryKind kind, int rank, const std::string& name,
                       int cta) {
    auto next =
        std::upper_bound(regions_.begin(), regions_.end(), begin,
                         [](const std::uint8_t* address, const auto& region) { return address < region->begin; });
    const auto refuse = [&](const Region& other) {
        throw ArgumentError(fmt::format("{} of rank {} overlaps {} of rank {}", name, rank, other.name, other.rank),
                            "give every rank tensors of its own; only inputs may share memory");
    };
    // Inputs that nobody writes may share memory: one of several ranks, or rows that interleave in one buffer.
    Region* shared = nullptr;
    if (next != regions_.begin()) {
        Region* before = std::prev(next)->get();
        if (before->begin + before->bytes > begin) shared = before;
    }
    if (!shared && next != regions_.end() && begin + bytes > (*next)->begin) shared = (next++)->get();
    if (shared && (kind != MemoryKind::Input || shared->kind != kind)) refuse(*shared);
    if (shared) {
        const std::uint8_t* end = std::max(begin + bytes, shared->begin + shared->bytes);
        begin = std::min(begin, shared->begin);
        bytes = static_cast<std::uint64_t>(end - begin);
    }
    if (next != regions_.end() && begin + bytes > (*next)->begin) refuse(**next);
    if (shared) {
        shared->begin = begin, shared->bytes = bytes, shared->rank = -1;
        return shared;
    }
    auto region = std::make_unique<Region>();
    region->begin = begin;
    region->bytes = bytes;
    region->kind = kind;
    region->rank = rank;
    region->cta = cta;
    region->name = name;
    const bool initialised = kind != MemoryKind::Output && kind != MemoryKind::Workspace && kind != MemoryKind::Shared;
    region->shadow = Shadow(initialised);
    return regions_.insert(next, std::move(region))->get();
}

void SimMemory::remove(const Region* region) {
    std::erase_if(regions_, [region](const auto& held) { return held.get() == region; });
}

Region* SimMemory::find(const void* address) const {
    const auto* byte = static_cast<const std::uint8_t*>(address);
    auto next = std::upper_bound(regions_.begin(), regions_.end(), byte,
                                 [](const std::uint8_t* a, const auto& region) { return a < region->begin; });
    if (next == regions_.begin()) return nullptr;
    Region* region = std::prev(next)->get();
    return byte < region->begin + region->bytes ? region : nullptr;
}

}  // namespace plait
