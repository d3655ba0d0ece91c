#include "runtime/sim/shadow.h"

namespace plait {

std::uint64_t Shadow::first_unwritten(std::uint64_t offset, std::uint64_t bytes) const {
    while (offset < bytes) {
        const std::uint64_t index = offset / kPageBytes, base = index * kPageBytes;
        if (index >= pages_.size() || pages_[index].empty()) {
            if (!initialised_) return offset;
            offset = base + kPageBytes;
            continue;
        }
        const Page& page = pages_[index];
        const std::size_t i = find(page, static_cast<std::uint32_t>(offset - base));
        if (!page[i].written) return offset;
        offset = base + end_of(page, i);
    }
    return bytes;
}

std::uint64_t Shadow::unwritten_bytes(std::uint64_t bytes) const {
    std::uint64_t count = 0;
    for (std::uint64_t base = 0; base < bytes; base += kPageBytes) {
        const std::uint64_t index = base / kPageBytes, size = std::min(bytes - base, kPageBytes);
        if (index >= pages_.size() || pages_[index].empty()) {
            count += initialised_ ? 0 : size;
            continue;
        }
        const Page& page = pages_[index];
        for (std::size_t i = 0; i < page.size(); ++i) {
            const std::uint64_t end = std::min<std::uint64_t>(end_of(page, i), size);
            if (!page[i].written && page[i].begin < end) count += end - page[i].begin;
        }
    }
    return count;
}

}  // namespace plait
