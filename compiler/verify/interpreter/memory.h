// What the interpreter remembers of memory: events instead of data.
#pragma once
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "compiler/verify/interpreter/clock.h"

namespace plait::interpreter {

// A slot of shared memory. The CTAs of a cluster write a part each, all of which are read together.
struct SharedSlot {
    struct Part {
        int write = -1;          // event number, -1: never written
        std::vector<int> reads;  // since then
    };
    std::vector<Part> parts{1};
    std::int64_t value = 0;  // of a ring word
};

// A buffer of one rank: which bytes were written in this launch, and by which event.
class Region {
public:
    void write(std::int64_t first, std::int64_t last, int event);
    // Calls use(event or -1, first, last) for each piece of [first, last); -1: not written in this launch.
    template <class Use>
    void each(std::int64_t first, std::int64_t last, const Use& use) const {
        auto at = pieces_.upper_bound(first);
        if (at != pieces_.begin()) --at;
        while (first < last) {
            while (at != pieces_.end() && at->second.last <= first) ++at;
            if (at == pieces_.end() || at->first >= last) {
                use(-1, first, last);
                return;
            }
            if (at->first > first) use(-1, first, at->first);
            const std::int64_t from = std::max(first, at->first), to = std::min(last, at->second.last);
            use(at->second.event, from, to);
            first = to;
        }
    }

private:
    struct Piece {
        std::int64_t last;
        int event;
    };
    std::map<std::int64_t, Piece> pieces_;  // by first byte, disjoint
};

// Rectangles of an output tensor, in rows and columns.
class Cover {
public:
    std::int64_t columns = 0;  // of the matrix that the tensor's stores see; 0: its last dimension
    void add(std::int64_t row, std::int64_t rows, std::int64_t column, std::int64_t columns) {
        rectangles_.push_back({row, row + rows, column, column + columns});
    }
    // First element of [0, rows) x [0, columns) that is not written exactly once, or written outside; "" where there is
    // none.
    std::string problem(std::int64_t rows, std::int64_t columns) const;

private:
    struct Rectangle {
        std::int64_t row, row_end, column, column_end;
    };
    std::vector<Rectangle> rectangles_;
};

}  // namespace plait::interpreter
