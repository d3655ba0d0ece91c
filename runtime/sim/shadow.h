// Shadow of a memory region: who wrote each byte last and who has read it since. Kept as runs of equal state in pages,
// because accesses are boxes and pieces: a stage of 16 KiB is a handful of runs, not 16384 cells.
#pragma once
#include <algorithm>
#include <cstdint>
#include <memory>
#include <vector>

#include "runtime/sim/clock.h"

namespace plait {

// One epoch per component that read: a later read of a component stands for its earlier ones.
class ReadSet {
public:
    ReadSet() = default;
    ReadSet(const ReadSet& other) { *this = other; }
    ReadSet(ReadSet&&) = default;
    ReadSet& operator=(ReadSet&&) = default;
    ReadSet& operator=(const ReadSet& other) {
        count_ = other.count_;
        for (int i = 0; i < kInline; ++i) near_[i] = other.near_[i];
        far_ = other.far_ ? std::make_unique<std::vector<Epoch>>(*other.far_) : nullptr;
        return *this;
    }
    bool empty() const { return count_ == 0; }
    bool contains(const Epoch& epoch) const {
        return any([&](const Epoch& e) { return e == epoch; });
    }
    void add(const Epoch& epoch) {
        for (std::uint32_t i = 0; i < count_; ++i) {
            if (at(i).component == epoch.component) {
                at(i).time = std::max(at(i).time, epoch.time);
                return;
            }
        }
        if (count_ < kInline)
            near_[count_] = epoch;
        else {
            if (!far_) far_ = std::make_unique<std::vector<Epoch>>();
            far_->push_back(epoch);
        }
        ++count_;
    }
    template <class Predicate>
    bool any(Predicate predicate) const {
        for (std::uint32_t i = 0; i < count_; ++i) {
            if (predicate(const_cast<ReadSet*>(this)->at(i))) return true;
        }
        return false;
    }
    void clear() {
        count_ = 0;
        far_.reset();
    }

private:
    static constexpr int kInline = 3;
    Epoch& at(std::uint32_t i) { return i < kInline ? near_[i] : (*far_)[i - kInline]; }
    std::uint32_t count_ = 0;
    Epoch near_[kInline];
    std::unique_ptr<std::vector<Epoch>> far_;
};

struct ShadowRun {
    std::uint32_t begin = 0;  // in the page; the run ends where the next one begins
    bool written = false;     // holds a value: written since the region was added, or initialised then
    Epoch write;
    ReadSet reads;
};

class Shadow {
public:
    static constexpr std::uint64_t kPageBytes = 4096;

    explicit Shadow(bool initialised) : initialised_(initialised) {}

    // check(run, offset) sees every run that [offset, offset + bytes) touches, before it changes; it throws on a fault.
    template <class Check>
    void read(std::uint64_t offset, std::uint64_t bytes, const Epoch& tag, Check check) {
        each_page(offset, bytes, [&](Page& page, std::uint64_t base, std::uint32_t low, std::uint32_t high) {
            for (std::size_t i = find(page, low); i < page.size() && page[i].begin < high; ++i) {
                check(page[i], base + std::max(page[i].begin, low));
                if (page[i].reads.contains(tag)) continue;
                if (page[i].begin < low) i = split(page, i, low);
                if (end_of(page, i) > high) split(page, i, high);
                page[i].reads.add(tag);
            }
        });
    }
    template <class Check>
    void write(std::uint64_t offset, std::uint64_t bytes, const Epoch& tag, Check check) {
        each_page(offset, bytes, [&](Page& page, std::uint64_t base, std::uint32_t low, std::uint32_t high) {
            std::size_t first = find(page, low);
            for (std::size_t i = first; i < page.size() && page[i].begin < high; ++i)
                check(page[i], base + std::max(page[i].begin, low));
            if (page[first].begin < low) first = split(page, first, low);
            std::size_t last = first;
            while (last + 1 < page.size() && page[last + 1].begin < high) ++last;
            if (end_of(page, last) > high) split(page, last, high);
            page.erase(page.begin() + static_cast<std::ptrdiff_t>(first) + 1,
                       page.begin() + static_cast<std::ptrdiff_t>(last) + 1);
            page[first].written = true;
            page[first].write = tag;
            page[first].reads.clear();
            merge_with_previous(page, first);
        });
    }
    // First unwritten byte at or after `offset` and below `bytes`, or `bytes`.
    std::uint64_t first_unwritten(std::uint64_t offset, std::uint64_t bytes) const;
    std::uint64_t unwritten_bytes(std::uint64_t begin, std::uint64_t end) const;

private:
    using Page = std::vector<ShadowRun>;

    static std::uint32_t end_of(const Page& page, std::size_t i) {
        return i + 1 < page.size() ? page[i + 1].begin : static_cast<std::uint32_t>(kPageBytes);
    }
    static std::size_t find(const Page& page, std::uint32_t offset) {
        auto next = std::upper_bound(page.begin(), page.end(), offset,
                                     [](std::uint32_t o, const ShadowRun& run) { return o < run.begin; });
        return static_cast<std::size_t>(next - page.begin()) - 1;
    }
    static std::size_t split(Page& page, std::size_t i, std::uint32_t at) {
        ShadowRun right = page[i];
        right.begin = at;
        page.insert(page.begin() + static_cast<std::ptrdiff_t>(i) + 1, std::move(right));
        return i + 1;
    }
    static void merge_with_previous(Page& page, std::size_t i) {
        if (i == 0) return;
        const ShadowRun& before = page[i - 1];
        if (before.written && before.write == page[i].write && before.reads.empty())
            page.erase(page.begin() + static_cast<std::ptrdiff_t>(i));
    }
    template <class Visit>
    void each_page(std::uint64_t offset, std::uint64_t bytes, Visit visit) {
        const std::uint64_t end = offset + bytes;
        while (offset < end) {
            const std::uint64_t index = offset / kPageBytes, base = index * kPageBytes;
            if (index >= pages_.size()) pages_.resize(index + 1);
            Page& page = pages_[index];
            if (page.empty()) {
                page.emplace_back();
                page.front().written = initialised_;
            }
            const std::uint64_t high = std::min(end - base, kPageBytes);
            visit(page, base, static_cast<std::uint32_t>(offset - base), static_cast<std::uint32_t>(high));
            offset = base + high;
        }
    }

    bool initialised_;
    std::vector<Page> pages_;
};

}  // namespace plait
