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

std::uint64_t Shadow::unwritten_bytes(std::uint64_t begin, std::uint64_t end) const {
    std::uint64_t count = 0;
    while ((begin = first_unwritten(begin, end)) < end) {
        const std::uint64_t index = begin / kPageBytes, base = index * kPageBytes;
        std::uint64_t next = base + kPageBytes;
        if (index < pages_.size() && !pages_[index].empty())
            next = base + end_of(pages_[index], find(pages_[index], static_cast<std::uint32_t>(begin - base)));
        count += std::min(next, end) - begin;
        begin = next;
    }
    return count;
}

}  // namespace plait
