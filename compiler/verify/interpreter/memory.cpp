#include "compiler/verify/interpreter/memory.h"

#include <fmt/format.h>

#include <algorithm>

namespace plait::interpreter {

void Region::write(std::int64_t first, std::int64_t last, int event) {
    if (first >= last) return;
    auto at = pieces_.lower_bound(first);
    if (at != pieces_.begin()) {
        auto before = std::prev(at);
        if (before->second.last > first) {
            const Piece old = before->second;
            before->second.last = first;
            if (old.last > last) pieces_[last] = old;
        }
    }
    while (at != pieces_.end() && at->first < last) {
        const Piece old = at->second;
        at = pieces_.erase(at);
        if (old.last > last) pieces_[last] = old;
    }
    pieces_[first] = {last, event};
}

std::string Cover::problem(std::int64_t rows, std::int64_t columns) const {
    std::vector<std::int64_t> row_edges = {0, rows}, column_edges = {0, columns};
    for (const Rectangle& r : rectangles_) {
        row_edges.insert(row_edges.end(), {r.row, r.row_end});
        column_edges.insert(column_edges.end(), {r.column, r.column_end});
    }
    for (auto* edges : {&row_edges, &column_edges}) {
        std::sort(edges->begin(), edges->end());
        edges->erase(std::unique(edges->begin(), edges->end()), edges->end());
    }
    const auto index = [](const std::vector<std::int64_t>& edges, std::int64_t x) {
        return std::size_t(std::lower_bound(edges.begin(), edges.end(), x) - edges.begin());
    };
    const std::size_t width = column_edges.size() + 1;
    std::vector<int> count(width * (row_edges.size() + 1));  // differences, summed below
    for (const Rectangle& r : rectangles_) {
        const std::size_t top = index(row_edges, r.row), bottom = index(row_edges, r.row_end),
                          left = index(column_edges, r.column), right = index(column_edges, r.column_end);
        count[top * width + left] += 1, count[bottom * width + right] += 1;
        count[top * width + right] -= 1, count[bottom * width + left] -= 1;
    }
    for (std::size_t i = 0; i < row_edges.size(); ++i) {
        for (std::size_t j = 1; j < width; ++j) count[i * width + j] += count[i * width + j - 1];
        for (std::size_t j = 0; j < width; ++j) {
            if (i > 0) count[i * width + j] += count[(i - 1) * width + j];
        }
    }
    for (std::size_t i = 0; i + 1 < row_edges.size(); ++i) {
        for (std::size_t j = 0; j + 1 < column_edges.size(); ++j) {
            const bool inside =
                row_edges[i] >= 0 && row_edges[i] < rows && column_edges[j] >= 0 && column_edges[j] < columns;
            const int times = count[i * width + j];
            if (times == (inside ? 1 : 0)) continue;
            return fmt::format("rows [{}, {}) columns [{}, {}) are written {} times{}", row_edges[i], row_edges[i + 1],
                               column_edges[j], column_edges[j + 1], times,
                               inside ? "" : fmt::format(", outside {} x {}", rows, columns));
        }
    }
    return "";
}

}  // namespace plait::interpreter
