#include "runtime/session/argument_binder.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstring>

#include "runtime/base/error.h"
#include "runtime/session/launch_names.h"

namespace plait {
namespace {

constexpr std::uint64_t kBulkAlignment = 16;  // PTX ISA, cp.async.bulk and tensor maps: addresses and strides

// Bytes from row to row. Rows that lie apart are taken as they are where the artifact says so, and never copied.
std::int64_t checked_pitch(const Manifest& manifest, const ManifestTensor& expected, const TensorView& given) {
    const std::int64_t row = given.shape.empty() ? 0 : given.shape.back() * bytes_of_dtype(given.dtype);
    if (given.pitch == 0 || given.pitch == row || row == 0 || (given.shape.size() == 2 && given.shape[0] <= 1))
        return row;
    const std::string where = fmt::format("{}: rows of tensor `{}` are {} bytes long and lie {} bytes apart",
                                          manifest.name, expected.name, row, given.pitch);
    if (expected.pitch.empty())
        throw ArgumentError(where + ", and this artifact takes contiguous rows", "pass a contiguous copy");
    if (given.pitch < row) throw ArgumentError(where + ": they overlap", "pass a contiguous copy");
    if (given.pitch % static_cast<std::int64_t>(kBulkAlignment) != 0)
        throw ArgumentError(fmt::format("{}, not a multiple of {}", where, kBulkAlignment),
                            "pad the rows of the buffer to a multiple of 16 bytes, or pass a contiguous copy");
    return given.pitch;
}

// The epilogue reads bias and residual in pairs of elements.
std::uint64_t alignment_of(const Manifest& manifest, const ManifestTensor& tensor) {
    const auto is_mapped = [&](const ManifestMap& map) { return map.memory == tensor.name; };
    if (tensor.aligned || std::any_of(manifest.maps.begin(), manifest.maps.end(), is_mapped)) return kBulkAlignment;
    return tensor.dtype == "i32" ? 4u : 2 * static_cast<std::uint64_t>(bytes_of_dtype(tensor.dtype));
}

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

// bytes: of the map's memory. *offset: where the map begins in it. False: an extent is 0.
bool evaluate_map(const Manifest& manifest, const ManifestMap& map, std::uint64_t bytes, LaunchNames& scope,
                  MapRequest* request, std::uint64_t* offset) {
    request->name = fmt::format("{}[{}]", map.name, map.index);
    request->dtype = map.dtype;
    request->element_bytes = static_cast<std::uint32_t>(bytes_of_dtype(map.dtype));
    if (map.extent.size() != 3 || map.stride_bytes.size() != 2 || map.box.size() != 3) {
        throw ArgumentError(fmt::format("manifest of {}: map {} is not 3-dimensional", manifest.name, request->name));
    }
    const auto value_of = [&](const Expr& expr, const char* what) {
        const std::int64_t value = scope.evaluate(expr);
        if (value < 0) {
            throw ArgumentError(fmt::format("manifest of {}: {} of map {} is {} = {}", manifest.name, what,
                                            request->name, expr.print(), value));
        }
        return static_cast<std::uint64_t>(value);
    };
    bool usable = true;
    for (int d = 0; d < 3; ++d) {
        request->extent[d] = value_of(map.extent[d], "an extent");
        request->box[d] = static_cast<std::uint32_t>(map.box[d]);
        usable = usable && request->extent[d] > 0;
    }
    if (!usable) {
        for (std::uint64_t& extent : request->extent) extent = 1;
        fill_unused_strides(*request);
        return false;
    }
    *offset = value_of(map.base_bytes, "the base");
    for (int d = 0; d < 2; ++d) request->stride_bytes[d] = value_of(map.stride_bytes[d], "a stride");
    fill_unused_strides(*request);
    for (int d = 0; d < 2; ++d) {
        if (request->stride_bytes[d] % kBulkAlignment == 0) continue;
        throw ArgumentError(
            fmt::format("map {} of `{}`: {} = {} bytes, TMA steps by multiples of {}", request->name, map.memory,
                        map.stride_bytes[d].print(), request->stride_bytes[d], kBulkAlignment),
            "the rows of a transposed matrix are columns in memory: pass a multiple of 8 rows");
    }
    const std::uint64_t end = *offset + (request->extent[2] - 1) * request->stride_bytes[1] +
                              (request->extent[1] - 1) * request->stride_bytes[0] +
                              request->extent[0] * request->element_bytes;
    if (end > bytes) {
        throw ArgumentError(fmt::format("manifest of {}: map {} reaches byte {} of `{}`, which has {}", manifest.name,
                                        request->name, end, map.memory, bytes),
                            "the artifact is damaged: compile it again");
    }
    return true;
}

}  // namespace

std::string ArgumentBinder::where(const ManifestTensor& tensor) const {
    return fmt::format("{}: rank {}'s tensor `{}`", manifest_.name, place_.rank, tensor.name);
}

void ArgumentBinder::check_shape(const ManifestTensor& expected, const TensorView& given,
                                 const std::vector<std::int64_t>& shape) const {
    if (given.dtype != expected.dtype)
        throw ArgumentError(fmt::format("{} is {}, expected {}", where(expected), given.dtype, expected.dtype));
    if (given.shape != shape) {
        throw ArgumentError(fmt::format("{} has shape [{}], expected [{}]", where(expected),
                                        fmt::join(given.shape, ", "), fmt::join(shape, ", ")),
                            "shapes are those of this rank's part");
    }
}

void ArgumentBinder::check_address(const ManifestTensor& expected, const TensorView& given,
                                   std::uint64_t alignment) const {
    if (given.data == nullptr && elements_of(given.shape) > 0)
        throw ArgumentError(
            fmt::format("{} of shape [{}] has no memory", where(expected), fmt::join(given.shape, ", ")));
    const auto address = reinterpret_cast<std::uintptr_t>(given.data);
    if (address % alignment != 0) {
        throw ArgumentError(
            fmt::format("{} starts at {:#x}, which is not a multiple of {} bytes", where(expected), address, alignment),
            "pass a tensor whose storage offset keeps that alignment");
    }
}

void ArgumentBinder::put(std::vector<unsigned char>& args, std::uint64_t offset, const std::string& field,
                         const void* value, std::uint64_t bytes) const {
    if (offset > args.size() || bytes > args.size() - offset) {
        throw ArgumentError(fmt::format("manifest of {}: field `{}` ends at byte {} of {} bytes of arguments",
                                        manifest_.name, field, offset + bytes, args.size()),
                            "the artifact is damaged: compile it again");
    }
    std::memcpy(args.data() + offset, value, bytes);
}

bool ArgumentBinder::repeats(std::int64_t m, const RankTensors& tensors) const {
    return shapes_ && m == shapes_->m &&
           std::equal(tensors.begin(), tensors.end(), shapes_->tensors.begin(), shapes_->tensors.end(),
                      [](const TensorView& given, const Tensor& known) {
                          return given.pitch == known.pitch && given.shape == known.shape && given.dtype == known.dtype;
                      });
}

ArgumentBinder::Shapes ArgumentBinder::evaluate(std::int64_t m, const RankTensors& tensors) const {
    check_launch(manifest_, place_, m);
    const Params params = infer_params(manifest_, tensors);
    const std::vector<std::vector<std::int64_t>> expected_shapes = tensor_shapes(manifest_, place_, m, params);
    Shapes made;
    made.m = m;
    made.signature = launch_signature(manifest_, m, params);
    made.args.resize(static_cast<std::size_t>(manifest_.args_bytes));
    LaunchNames scope(manifest_, place_, m, params);
    for (std::size_t i = 0; i < tensors.size(); ++i) {
        const ManifestTensor& expected = manifest_.tensors[i];
        check_shape(expected, tensors[i], expected_shapes[i]);
        made.tensors.push_back(
            {tensors[i].dtype, tensors[i].shape, tensors[i].pitch, alignment_of(manifest_, expected)});
        const std::int64_t pitch = checked_pitch(manifest_, expected, tensors[i]);
        if (expected.pitch.empty()) continue;
        put(made.args, expected.pitch_offset, expected.pitch, &pitch, sizeof(pitch));
        scope.define(expected.pitch, pitch);
    }
    for (const ManifestParam& param : manifest_.params) {
        const std::int64_t value = params.at(param.name);
        put(made.args, param.args_offset, param.name, &value, sizeof(value));
    }
    for (const ManifestMap& map : manifest_.maps) {
        Map& entry = made.maps.emplace_back();
        std::uint64_t bytes = manifest_.workspace_bytes;
        if (map.memory != "workspace") {
            while (++entry.tensor < int(tensors.size()) && manifest_.tensors[entry.tensor].name != map.memory) continue;
            if (entry.tensor == int(tensors.size())) {
                throw ArgumentError(fmt::format("manifest of {}: map {}[{}] is of `{}`, which is no tensor",
                                                manifest_.name, map.name, map.index, map.memory),
                                    "the artifact is damaged: compile it again");
            }
            bytes = bytes_spanned(tensors[entry.tensor]);
        }
        entry.args_offset = map.args_offset;
        entry.usable = evaluate_map(manifest_, map, bytes, scope, &entry.request, &entry.offset);
    }
    return made;
}

void ArgumentBinder::check(std::int64_t m, const RankTensors& tensors) {
    if (!repeats(m, tensors)) shapes_ = evaluate(m, tensors);
    for (std::size_t i = 0; i < tensors.size(); ++i)
        check_address(manifest_.tensors[i], tensors[i], shapes_->tensors[i].alignment);
}

std::vector<unsigned char> ArgumentBinder::bind(const Launch& launch, const RankTensors& tensors,
                                                const EncodeMap& encode) {
    check(launch.m, tensors);
    std::vector<unsigned char> args = shapes_->args;
    Launch signed_launch = launch;
    signed_launch.signature = shapes_->signature;
    put(args, 0, "launch", &signed_launch, sizeof(signed_launch));
    for (std::size_t i = 0; i < tensors.size(); ++i)
        put(args, manifest_.tensors[i].args_offset, manifest_.tensors[i].name, &tensors[i].data, sizeof(void*));
    unsigned char* const area = launch.workspace[place_.local] + launch.artifact_offset;
    for (Map& map : shapes_->maps) {
        const auto memory = map.tensor < 0 ? area : static_cast<unsigned char*>(tensors[map.tensor].data);
        void* base = memory + map.offset;
        if (!map.usable && memory == nullptr) base = area;  // always a mapped address: nothing is read there
        if (!map.encoded || map.request.base != base) {
            map.encoded = false;
            map.request.base = base;
            map.value = encode(map.request);
            map.encoded = true;
        }
        put(args, map.args_offset, map.request.name, &map.value, sizeof(map.value));
    }
    return args;
}

std::vector<unsigned char> bind_arguments(const Manifest& manifest, const Launch& launch, const RankPlace& place,
                                          const RankTensors& tensors, const EncodeMap& encode) {
    return ArgumentBinder(manifest, place).bind(launch, tensors, encode);
}

}  // namespace plait
