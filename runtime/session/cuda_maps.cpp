#include "runtime/session/cuda_maps.h"

#include <fmt/format.h>

#include <cstring>

#include "runtime/base/error.h"

namespace plait {
namespace {

constexpr std::uint64_t kAlignment = 16;
constexpr std::uint64_t kExtentLimit = 1ull << 32;
constexpr std::uint64_t kStrideLimit = 1ull << 40;
constexpr std::uint32_t kBoxLimit = 256;
constexpr std::uint32_t kSwizzleBytes = 128;

int type_of(const MapRequest& request) {
    if (request.dtype == "bf16") return cu::kTensorBfloat16;
    if (request.dtype == "f16") return cu::kTensorFloat16;
    if (request.dtype == "f32") return cu::kTensorFloat32;
    throw ArgumentError(fmt::format("tensor map {}: dtype `{}` is not one TMA knows", request.name, request.dtype));
}

void check_map(const MapRequest& request) {
    const auto refuse = [&](const std::string& why, const std::string& hint = "") {
        throw ArgumentError(fmt::format("tensor map {}: {}", request.name, why), hint);
    };
    const auto address = reinterpret_cast<std::uintptr_t>(request.base);
    if (address == 0 || address % kAlignment != 0) {
        refuse(fmt::format("its memory starts at {:#x}, TMA needs a multiple of {}", address, kAlignment),
               "pass a tensor whose storage is 16-byte aligned");
    }
    for (int d = 0; d < 3; ++d) {
        if (request.extent[d] < 1 || request.extent[d] > kExtentLimit) {
            refuse(fmt::format("dimension {} has {} elements, TMA takes 1 to {}", d, request.extent[d], kExtentLimit));
        }
        if (request.box[d] < 1 || request.box[d] > kBoxLimit) {
            refuse(fmt::format("its box has {} elements in dimension {}, TMA takes 1 to {}", request.box[d], d,
                               kBoxLimit));
        }
    }
    for (int d = 0; d < 2; ++d) {
        if (request.stride_bytes[d] % kAlignment != 0 || request.stride_bytes[d] >= kStrideLimit) {
            refuse(fmt::format("dimension {} steps by {} bytes, TMA needs a multiple of {} below {}", d + 1,
                               request.stride_bytes[d], kAlignment, kStrideLimit),
                   "N and K must be multiples of 8 elements of 2 bytes");
        }
    }
    if (request.box[0] * request.element_bytes > kSwizzleBytes ||
        request.box[0] * request.element_bytes % kAlignment != 0) {
        refuse(fmt::format("a row of its box has {} bytes, the 128-byte swizzle takes a multiple of 16 up to 128",
                           request.box[0] * request.element_bytes));
    }
}

}  // namespace

TensorMap encode_cuda_map(const Driver& driver, const MapRequest& request) {
    const int type = type_of(request);
    check_map(request);
    std::uint64_t extent[3], stride[2];
    for (int d = 0; d < 3; ++d) extent[d] = request.extent[d];
    for (int d = 0; d < 2; ++d) stride[d] = request.stride_bytes[d];
    const unsigned element_stride[3] = {1, 1, 1};
    cu::EncodedTensorMap encoded = {};
    check_driver(driver,
                 driver.encode_tiled(&encoded, type, 3, request.base, extent, stride, request.box, element_stride,
                                     cu::kInterleaveNone, cu::kSwizzle128B, cu::kL2Promotion128B, cu::kOutOfBoundsZero),
                 fmt::format("encoding tensor map {} of {} x {} x {}", request.name, extent[0], extent[1], extent[2]));
    TensorMap map = {};
    std::memcpy(&map, &encoded, sizeof(map));
    return map;
}

}  // namespace plait
