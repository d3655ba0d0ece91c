#include "runtime/session/bind.h"

#include <fmt/format.h>

#include <cstring>

#include "runtime/base/error.h"
#include "runtime/session/launch_names.h"

namespace plait {
namespace {

std::vector<std::int64_t> shape_of(const ManifestTensor& tensor, LaunchNames& scope) {
    std::vector<std::int64_t> shape;
    for (const Expr& extent : tensor.shape) shape.push_back(scope.evaluate(extent));
    return shape;
}

void check_count(const Manifest& manifest, const RankTensors& tensors) {
    if (tensors.size() != manifest.tensors.size()) {
        throw ArgumentError(
            fmt::format("{} takes {} tensors, {} given", manifest.name, manifest.tensors.size(), tensors.size()));
    }
}

}  // namespace

std::int64_t bytes_of_dtype(const std::string& dtype) {
    if (dtype == "bf16" || dtype == "f16") return 2;
    if (dtype == "f32" || dtype == "i32") return 4;
    throw ArgumentError(fmt::format("dtype `{}` is not known", dtype), "use bf16, f16, f32 or i32");
}

std::int64_t elements_of(const std::vector<std::int64_t>& shape) {
    std::int64_t elements = 1;
    for (std::int64_t extent : shape) elements *= extent;
    return elements;
}

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

void check_launch(const Manifest& manifest, const RankPlace& place, std::int64_t m) {
    check_artifact(manifest, place);
    if (m < 0 || m > manifest.m_max) {
        throw ArgumentError(fmt::format("M = {} is outside of 0..{} of artifact {}", m, manifest.m_max, manifest.name),
                            "compile it for a larger M");
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
    check_launch(manifest, place, m);
    LaunchNames scope(manifest, place, m, params);
    std::vector<std::vector<std::int64_t>> shapes;
    for (const ManifestTensor& tensor : manifest.tensors) shapes.push_back(shape_of(tensor, scope));
    return shapes;
}

}  // namespace plait
