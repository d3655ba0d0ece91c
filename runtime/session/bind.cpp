#include "runtime/session/bind.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cstring>
#include <map>
#include <set>

#include "runtime/base/error.h"

namespace plait {
namespace {

constexpr std::uint64_t kBulkAlignment = 16;  // PTX ISA, cp.async.bulk and tensor maps: addresses and strides

std::int64_t bytes_of_dtype(const std::string& dtype) {
    if (dtype == "bf16" || dtype == "f16") return 2;
    if (dtype == "f32" || dtype == "i32") return 4;
    throw ArgumentError(fmt::format("dtype `{}` is not known", dtype), "use bf16, f16, f32 or i32");
}

// The values of a manifest's names for one rank and M. A let is evaluated when something asks for it: lets that only
// the kernel can evaluate (they name a CTA) may stand in the list.
class LaunchNames {
public:
    LaunchNames(const Manifest& manifest, const RankPlace& place, std::int64_t m, const Params& params)
        : manifest_(manifest) {
        values_ = {{"M", m},
                   {"rank", place.rank},
                   {"world", place.world},
                   {"node", place.node},
                   {"nodes", place.nodes},
                   {"local", place.local},
                   {"locals", place.locals}};
        values_.insert(params.begin(), params.end());
    }

    void define(const std::string& name, std::int64_t value) { values_[name] = value; }

    std::int64_t evaluate(const Expr& expr) {
        return expr.evaluate(
            [this](const std::string& name, bool has_index, std::int64_t) { return look_up(name, has_index); });
    }

private:
    std::int64_t look_up(const std::string& name, bool has_index) {
        if (auto found = values_.find(name); found != values_.end() && !has_index) return found->second;
        for (const ManifestLet& let : manifest_.lets) {
            if (let.name != name || has_index) continue;
            if (!open_.insert(name).second) {
                throw ArgumentError(fmt::format("manifest of {}: let `{}` depends on itself", manifest_.name, name));
            }
            const std::int64_t value = evaluate(let.value);
            open_.erase(name);
            values_[name] = value;
            return value;
        }
        throw ArgumentError(fmt::format("manifest of {}: name `{}` has no value at launch", manifest_.name, name),
                            "known are M rank world node nodes local locals and the manifest's params and lets");
    }

    const Manifest& manifest_;
    std::map<std::string, std::int64_t> values_;
    std::set<std::string> open_;
};

std::vector<std::int64_t> shape_of(const ManifestTensor& tensor, LaunchNames& scope) {
    std::vector<std::int64_t> shape;
    for (const Expr& extent : tensor.shape) shape.push_back(scope.evaluate(extent));
    return shape;
}

std::int64_t elements_of(const std::vector<std::int64_t>& shape) {
    std::int64_t elements = 1;
    for (std::int64_t extent : shape) elements *= extent;
    return elements;
}

void check_count(const Manifest& manifest, const RankTensors& tensors) {
    if (tensors.size() != manifest.tensors.size()) {
        throw ArgumentError(
            fmt::format("{} takes {} tensors, {} given", manifest.name, manifest.tensors.size(), tensors.size()));
    }
}

void check_m(const Manifest& manifest, std::int64_t m) {
    if (m < 0 || m > manifest.m_max) {
        throw ArgumentError(fmt::format("M = {} is outside of 0..{} of artifact {}", m, manifest.m_max, manifest.name),
                            "compile it for a larger M");
    }
}

void check_tensor(const Manifest& manifest, const ManifestTensor& expected, const TensorView& given,
                  const std::vector<std::int64_t>& shape, const RankPlace& place, bool mapped) {
    const std::string where = fmt::format("{}: rank {}'s tensor `{}`", manifest.name, place.rank, expected.name);
    if (given.dtype != expected.dtype) {
        throw ArgumentError(fmt::format("{} is {}, expected {}", where, given.dtype, expected.dtype));
    }
    if (given.shape != shape) {
        throw ArgumentError(fmt::format("{} has shape [{}], expected [{}]", where, fmt::join(given.shape, ", "),
                                        fmt::join(shape, ", ")),
                            "shapes are those of this rank's part");
    }
    if (elements_of(shape) > 0 && given.data == nullptr) {
        throw ArgumentError(fmt::format("{} of shape [{}] has no memory", where, fmt::join(shape, ", ")));
    }
    const auto address = reinterpret_cast<std::uintptr_t>(given.data);
    // The epilogue reads bias and residual in pairs of elements.
    const std::uint64_t alignment = mapped                    ? kBulkAlignment
                                    : expected.dtype == "i32" ? 4u
                                                              : 2 * static_cast<std::uint64_t>(bytes_of_dtype(expected.dtype));
    if (address % alignment != 0) {
        throw ArgumentError(
            fmt::format("{} starts at {:#x}, which is not a multiple of {} bytes", where, address, alignment),
            "pass a tensor whose storage offset keeps that alignment");
    }
}

// Bytes from row to row. Rows that lie apart are taken as they are where the artifact says so, and never copied.
std::int64_t checked_pitch(const Manifest& manifest, const ManifestTensor& expected, const TensorView& given) {
    const std::int64_t row = given.shape.empty() ? 0 : given.shape.back() * bytes_of_dtype(given.dtype);
    if (given.pitch == 0 || given.pitch == row || row == 0 || (given.shape.size() == 2 && given.shape[0] <= 1)) return row;
    const std::string where = fmt::format("{}: rows of tensor `{}` are {} bytes long and lie {} bytes apart", manifest.name,
                                          expected.name, row, given.pitch);
    if (expected.pitch.empty()) throw ArgumentError(where + ", and this artifact takes contiguous rows", "pass a contiguous copy");
    if (given.pitch < row) throw ArgumentError(where + ": they overlap", "pass a contiguous copy");
    if (given.pitch % static_cast<std::int64_t>(kBulkAlignment) != 0)
        throw ArgumentError(fmt::format("{}, not a multiple of {}", where, kBulkAlignment),
                            "pad the rows of the buffer to a multiple of 16 bytes, or pass a contiguous copy");
    return given.pitch;
}

void put(const Manifest& manifest, std::vector<unsigned char>& args, std::uint64_t offset, const std::string& field,
         const void* value, std::uint64_t bytes) {
    if (offset > args.size() || bytes > args.size() - offset) {
        throw ArgumentError(fmt::format("manifest of {}: field `{}` ends at byte {} of {} bytes of arguments",
                                        manifest.name, field, offset + bytes, args.size()),
                            "the artifact is damaged: compile it again");
    }
    std::memcpy(args.data() + offset, value, bytes);
}

// What a map may reach.
struct MapMemory {
    unsigned char* start = nullptr;
    std::uint64_t bytes = 0;
    unsigned char* fallback = nullptr;  // always a mapped address: where an unusable map points
};

// Fits an unusable map or an unused dimension to what the encoder accepts: it checks strides even where the extent of 1
// means that nothing steps along them.
void fill_unused_strides(MapRequest& request) {
    std::uint64_t bytes = request.extent[0] * request.element_bytes;
    for (int d = 0; d < 2; ++d) {
        if (request.extent[d + 1] == 1)
            request.stride_bytes[d] = (bytes + kBulkAlignment - 1) / kBulkAlignment * kBulkAlignment;
        bytes = request.stride_bytes[d] * request.extent[d + 1];
    }
}

MapRequest evaluate_map(const Manifest& manifest, const ManifestMap& map, const MapMemory& memory, LaunchNames& scope) {
    MapRequest request;
    request.name = fmt::format("{}[{}]", map.name, map.index);
    request.dtype = map.dtype;
    request.element_bytes = static_cast<std::uint32_t>(bytes_of_dtype(map.dtype));
    if (map.extent.size() != 3 || map.stride_bytes.size() != 2 || map.box.size() != 3) {
        throw ArgumentError(fmt::format("manifest of {}: map {} is not 3-dimensional", manifest.name, request.name));
    }
    const auto value_of = [&](const Expr& expr, const char* what) {
        const std::int64_t value = scope.evaluate(expr);
        if (value < 0) {
            throw ArgumentError(fmt::format("manifest of {}: {} of map {} is {} = {}", manifest.name, what,
                                            request.name, expr.print(), value));
        }
        return static_cast<std::uint64_t>(value);
    };
    bool usable = true;
    for (int d = 0; d < 3; ++d) {
        request.extent[d] = value_of(map.extent[d], "an extent");
        request.box[d] = static_cast<std::uint32_t>(map.box[d]);
        usable = usable && request.extent[d] > 0;
    }
    if (!usable) {
        for (std::uint64_t& extent : request.extent) extent = 1;
        request.base = memory.start != nullptr ? memory.start : memory.fallback;
        fill_unused_strides(request);
        return request;
    }
    const std::uint64_t base = value_of(map.base_bytes, "the base");
    for (int d = 0; d < 2; ++d) request.stride_bytes[d] = value_of(map.stride_bytes[d], "a stride");
    fill_unused_strides(request);
    for (int d = 0; d < 2; ++d) {
        if (request.stride_bytes[d] % kBulkAlignment == 0) continue;
        throw ArgumentError(fmt::format("map {} of `{}`: {} = {} bytes, TMA steps by multiples of {}", request.name, map.memory,
                                        map.stride_bytes[d].print(), request.stride_bytes[d], kBulkAlignment),
                            "the rows of a transposed matrix are columns in memory: pass a multiple of 8 rows");
    }
    const std::uint64_t end = base + (request.extent[2] - 1) * request.stride_bytes[1] +
                              (request.extent[1] - 1) * request.stride_bytes[0] +
                              request.extent[0] * request.element_bytes;
    if (end > memory.bytes) {
        throw ArgumentError(fmt::format("manifest of {}: map {} reaches byte {} of `{}`, which has {}", manifest.name,
                                        request.name, end, map.memory, memory.bytes),
                            "the artifact is damaged: compile it again");
    }
    request.base = memory.start + base;
    return request;
}

}  // namespace

RankPlace place_of(int rank, int nodes, int gpus_per_node) {
    const int world = nodes * gpus_per_node;
    if (nodes < 1 || gpus_per_node < 1 || rank < 0 || rank >= world) {
        throw ArgumentError(fmt::format("rank {} does not exist in a world of {}x{}", rank, nodes, gpus_per_node));
    }
    return {rank, world, rank / gpus_per_node, nodes, rank % gpus_per_node, gpus_per_node};
}

void check_artifact(const Manifest& manifest, const RankPlace& place) {
    if (manifest.abi_version != std::int64_t{kAbiVersion}) {
        throw ArgumentError(fmt::format("artifact {} has ABI version {}, this runtime has {}", manifest.name,
                                        manifest.abi_version, kAbiVersion),
                            "compile it again");
    }
    if (manifest.world != place.world || manifest.nodes != place.nodes || manifest.locals != place.locals) {
        throw ArgumentError(fmt::format("artifact {} was compiled for {}x{} ranks, this session has {}x{}",
                                        manifest.name, manifest.nodes, manifest.locals, place.nodes, place.locals),
                            "compile it for this topology");
    }
}

std::uint64_t bytes_spanned(const TensorView& view) {
    const std::int64_t elements = elements_of(view.shape), size = bytes_of_dtype(view.dtype);
    if (elements == 0 || view.pitch == 0 || view.shape.size() != 2) return static_cast<std::uint64_t>(elements * size);
    return static_cast<std::uint64_t>((view.shape[0] - 1) * view.pitch + view.shape[1] * size);
}

void spoil_tensor(const TensorView& view, const std::function<void(void*, std::uint64_t)>& set) {
    const auto bytes = static_cast<std::uint64_t>(elements_of(view.shape) * bytes_of_dtype(view.dtype));
    if (bytes == 0) return;
    if (bytes_spanned(view) == bytes) return set(view.data, bytes);
    const std::uint64_t row = bytes / static_cast<std::uint64_t>(view.shape[0]);
    for (std::int64_t r = 0; r < view.shape[0]; ++r) set(static_cast<unsigned char*>(view.data) + r * view.pitch, row);
}

TensorMap encode_host_map(const MapRequest& request) {
    HostTensorMap host = {};
    host.base = static_cast<u8*>(request.base);
    for (int d = 0; d < 3; ++d) {
        host.extent[d] = request.extent[d];
        host.box[d] = request.box[d];
    }
    for (int d = 0; d < 2; ++d) host.stride_bytes[d] = request.stride_bytes[d];
    host.element_bytes = request.element_bytes;
    TensorMap map = {};
    std::memcpy(&map, &host, sizeof(host));
    return map;
}

// Added, not hashed: M itself is told apart. The other arguments each with a weight of its own, odd so that none is lost.
std::uint64_t launch_signature(const Manifest& manifest, std::int64_t m, const Params& params) {
    std::uint64_t signature = 0xcbf29ce484222325ull;  // FNV-1a
    for (unsigned char c : manifest.semantics) signature = (signature ^ c) * 0x100000001b3ull;
    signature += static_cast<std::uint64_t>(m);
    std::uint64_t weight = 1;
    for (const auto& [name, value] : params) signature += (weight += 0x9e3c2) * static_cast<std::uint64_t>(value);
    return signature & kSignatureMask;
}

Params infer_params(const Manifest& manifest, const RankTensors& tensors) {
    check_count(manifest, tensors);
    Params params;
    std::map<std::string, std::string> given_by;
    for (std::size_t i = 0; i < tensors.size(); ++i) {
        const ManifestTensor& expected = manifest.tensors[i];
        for (std::size_t d = 0; d < expected.shape.size() && d < tensors[i].shape.size(); ++d) {
            for (const ManifestParam& param : manifest.params) {
                if (expected.shape[d].kind() != ExprKind::Name || expected.shape[d].text() != param.name) continue;
                const std::int64_t value = tensors[i].shape[d];
                const std::string place = fmt::format("dimension {} of `{}`", d, expected.name);
                const auto [known, is_new] = params.insert({param.name, value});
                if (is_new) given_by[param.name] = place;
                if (known->second != value) {
                    throw ArgumentError(fmt::format("{}: {} is {} by {}, but {} by {}", manifest.name, param.name,
                                                    known->second, given_by[param.name], value, place),
                                        "give tensors whose shapes agree");
                }
                const std::int64_t least = param.positive ? 1 : 0;
                if (value < least || value > param.max) {
                    throw ArgumentError(fmt::format("{}: {} = {} ({}) is outside of {}..{}", manifest.name, param.name,
                                                    value, place, least, param.max),
                                        value < least ? "" : fmt::format("compile it for a larger {}", param.name));
                }
            }
        }
    }
    return params;
}

std::vector<std::vector<std::int64_t>> tensor_shapes(const Manifest& manifest, const RankPlace& place, std::int64_t m,
                                                     const Params& params) {
    check_artifact(manifest, place);
    check_m(manifest, m);
    LaunchNames scope(manifest, place, m, params);
    std::vector<std::vector<std::int64_t>> shapes;
    for (const ManifestTensor& tensor : manifest.tensors) shapes.push_back(shape_of(tensor, scope));
    return shapes;
}

namespace {

struct LaunchShapes {
    Params params;
    std::vector<std::vector<std::int64_t>> tensors;
};

LaunchShapes checked_shapes(const Manifest& manifest, const RankPlace& place, std::int64_t m,
                            const RankTensors& tensors) {
    check_artifact(manifest, place);
    check_m(manifest, m);
    LaunchShapes shapes;
    shapes.params = infer_params(manifest, tensors);
    shapes.tensors = tensor_shapes(manifest, place, m, shapes.params);
    std::set<std::string> mapped;
    for (const ManifestMap& map : manifest.maps) mapped.insert(map.memory);
    for (std::size_t i = 0; i < tensors.size(); ++i) {
        const ManifestTensor& expected = manifest.tensors[i];
        check_tensor(manifest, expected, tensors[i], shapes.tensors[i], place,
                     expected.aligned || mapped.count(expected.name) > 0);
    }
    return shapes;
}

}  // namespace

void check_tensors(const Manifest& manifest, const RankPlace& place, std::int64_t m, const RankTensors& tensors) {
    checked_shapes(manifest, place, m, tensors);
}

std::vector<unsigned char> bind_arguments(const Manifest& manifest, const Launch& launch, const RankPlace& place,
                                          const RankTensors& tensors, const EncodeMap& encode) {
    const auto [params, shapes] = checked_shapes(manifest, place, launch.m, tensors);
    unsigned char* const area = launch.workspace[place.local] + launch.artifact_offset;
    std::map<std::string, MapMemory> memories = {{"workspace", {area, manifest.workspace_bytes, area}}};

    LaunchNames scope(manifest, place, launch.m, params);
    std::vector<unsigned char> args(static_cast<std::size_t>(manifest.args_bytes));
    Launch signed_launch = launch;
    signed_launch.signature = launch_signature(manifest, launch.m, params);
    put(manifest, args, 0, "launch", &signed_launch, sizeof(signed_launch));
    for (std::size_t i = 0; i < tensors.size(); ++i) {
        const ManifestTensor& expected = manifest.tensors[i];
        put(manifest, args, expected.args_offset, expected.name, &tensors[i].data, sizeof(void*));
        const std::int64_t pitch = checked_pitch(manifest, expected, tensors[i]);
        if (!expected.pitch.empty()) {
            put(manifest, args, expected.pitch_offset, expected.pitch, &pitch, sizeof(pitch));
            scope.define(expected.pitch, pitch);
        }
        const std::uint64_t bytes = bytes_spanned(tensors[i]);
        memories[expected.name] = {static_cast<unsigned char*>(tensors[i].data), bytes, area};
    }
    for (const ManifestParam& param : manifest.params) {
        const std::int64_t value = params.at(param.name);
        put(manifest, args, param.args_offset, param.name, &value, sizeof(value));
    }
    for (const ManifestMap& map : manifest.maps) {
        const auto memory = memories.find(map.memory);
        if (memory == memories.end()) {
            throw ArgumentError(fmt::format("manifest of {}: map {}[{}] is of `{}`, which is no tensor", manifest.name,
                                            map.name, map.index, map.memory),
                                "the artifact is damaged: compile it again");
        }
        const TensorMap encoded = encode(evaluate_map(manifest, map, memory->second, scope));
        put(manifest, args, map.args_offset, map.name, &encoded, sizeof(encoded));
    }
    return args;
}

}  // namespace plait
