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
    Region* before = next == regions_.begin() ? nullptr : std::prev(next)->get();
    if (before && kind == MemoryKind::Input && before->kind == kind && before->begin == begin) {
        before->rank = -1;
        before->bytes = std::max(before->bytes, bytes);
        bytes = before->bytes;
    } else if (before && before->begin + before->bytes > begin) {
        throw ArgumentError(fmt::format("{} of rank {} overlaps {} of rank {}", name, rank, before->name, before->rank),
                            "give every rank tensors of its own; only a whole input may be shared");
    } else {
        before = nullptr;
    }
    if (next != regions_.end() && begin + bytes > (*next)->begin)
        throw ArgumentError(
            fmt::format("{} of rank {} overlaps {} of rank {}", name, rank, (*next)->name, (*next)->rank),
            "give every rank tensors of its own; only a whole input may be shared");
    if (before) return before;
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
