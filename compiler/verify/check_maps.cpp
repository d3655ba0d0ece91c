// Tensor maps keep the limits of cuTensorMapEncodeTiled, and copies use them as they are encoded.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <set>

#include "compiler/ir/plan_sizes.h"
#include "compiler/verify/environment.h"
#include "compiler/verify/rules.h"
#include "compiler/verify/walk.h"
#include "runtime/base/error.h"

namespace plait {
namespace {

constexpr std::int64_t kMaxBox = 256, kSwizzleBytes = 128, kAlignment = 16;

class Maps {
public:
    explicit Maps(const Plan& plan) : plan_(plan) {}

    Diagnostics run() {
        std::map<std::string, std::int64_t> next;
        for (const MapDef& map : plan_.maps) {
            if (map.index != next[map.name]++)
                report(fmt::format("map {}[{}] is out of order", map.name, map.index), map,
                       "entries of a map stand together, from index 0");
            shape(map);
            for (std::int64_t m : {plan_.m_max, plan_.m_max / 2 + 1, std::int64_t{1}}) sizes(map, legal_rows(plan_, m));
        }
        for (const std::vector<Step>& program : walk(plan_)) {
            for (const Step& step : program) copy(step);
        }
        return std::move(findings_);
    }

private:
    void report(std::string message, const MapDef& map, std::string hint) {
        const std::string where = fmt::format("map {}[{}]", map.name, map.index);
        if (seen_.insert(where + message).second)
            findings_.push_back({"check_maps", std::move(message), where, std::move(hint)});
    }

    void shape(const MapDef& map) {
        if (map.extent.size() != 3 || map.stride.size() != 2 || map.box.size() != 3) {
            report(fmt::format("{} extents, {} strides and a box of {} dimensions", map.extent.size(),
                               map.stride.size(), map.box.size()),
                   map, "maps have 3 dimensions, 2 strides");
            return;
        }
        for (std::int64_t edge : map.box) {
            if (edge < 1 || edge > kMaxBox)
                report(fmt::format("box [{}] has an edge outside 1..{}", fmt::join(map.box, ", "), kMaxBox), map,
                       "TMA boxes have at most 256 elements along an edge");
        }
        const std::int64_t inner = map.box[0] * element_bytes(map.dtype);
        if (inner > kSwizzleBytes || inner % kAlignment != 0) {
            report(fmt::format("a box row has {} bytes, the 128-byte swizzle takes multiples of 16 up to {}", inner,
                               kSwizzleBytes),
                   map, "use 64 columns of 16-bit elements");
        }
    }

    void sizes(const MapDef& map, std::int64_t m) {
        for (std::int64_t rank : {std::int64_t{0}, plan_.world - 1}) {
            try {
                const Environment env(plan_, m, rank);
                for (const Expr& stride : map.stride) aligned(map, "stride", stride, env);
                aligned(map, "base", map.base, env);
            } catch (const Error& error) {
                report(error.message(), map, "sizes must have a value for every M");
            }
        }
    }

    void aligned(const MapDef& map, const char* what, const Expr& expr, const Environment& env) {
        const std::int64_t value = env.value(expr);
        if (value % kAlignment == 0) return;
        report(fmt::format("{} `{}` is {} bytes, not a multiple of {}", what, expr.print(), value, kAlignment), map,
               "N and K must be multiples of 8");
    }

    void copy(const Step& step) {
        const Statement& s = *step.statement;
        const bool multicast = s.op == Op::LoadMulticast, load = s.op == Op::LoadBoxes || multicast;
        if (!load && s.op != Op::StoreBox) return;
        const MapDef* map = find_map(plan_, ref_name(s.expr("map")));
        const SharedDef* shared = find_shared(plan_, ref_name(s.expr(load ? "dst" : "src")));
        if (map == nullptr || shared == nullptr || map->box.size() != 3) return;
        const std::int64_t rows = constant_value(plan_, s.expr("rows")), cols = constant_value(plan_, s.expr("cols"));
        const std::int64_t box_rows = multicast ? rows / std::max<std::int64_t>(constant_value(plan_, s.expr("ctas")), 1) : rows;
        if (box_rows != map->box[1] || (load ? 64 : cols) != map->box[0]) {
            findings_.push_back(
                {"check_maps",
                 fmt::format("{} copies boxes of {} x {}, map {} is encoded for {} x {}", mnemonic(step), box_rows,
                             load ? 64 : cols, map->name, map->box[1], map->box[0]),
                 step.where(), "rows and columns must be the map's box"});
        }
        const std::int64_t width = load ? (cols + 63) / 64 * 64 : cols;
        const std::int64_t bytes = width * rows * element_bytes(s.word("dtype"));
        if (bytes > shared->bytes) {
            findings_.push_back({"check_maps",
                                 fmt::format("{} of {} x {} has {} bytes, a slot of {} holds {}", mnemonic(step), rows,
                                             cols, bytes, shared->name, shared->bytes),
                                 step.where(), "give the slot room for whole boxes"});
        }
        if (shared->align % 1024 != 0)
            findings_.push_back(
                {"check_maps",
                 fmt::format("slots of {} are aligned to {}, swizzled boxes need 1024", shared->name, shared->align),
                 step.where(), "align them to 1024"});
    }

    const Plan& plan_;
    Diagnostics findings_;
    std::set<std::string> seen_;
};

}  // namespace

Diagnostics check_maps(const Plan& plan) { return Maps(plan).run(); }

}  // namespace plait
