// Manifest, one rank's tensors and M -> the bytes of the kernel's Args. What does not depend on addresses (shapes,
// launch arguments, extents and strides of maps) is checked and evaluated once for as long as launches repeat M and
// shapes.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "runtime/session/bind.h"

namespace plait {

class ArgumentBinder {
public:
    // The manifest outlives the binder.
    ArgumentBinder(const Manifest& manifest, const RankPlace& place) : manifest_(manifest), place_(place) {}

    // Tensors against the manifest (ArgumentError: name, expected and given shape, dtype), M against m_max.
    void check(std::int64_t m, const RankTensors& tensors);
    // Checks them, too. Fills Launch::signature in.
    std::vector<unsigned char> bind(const Launch& launch, const RankTensors& tensors, const EncodeMap& encode);

private:
    struct Tensor {
        std::string dtype;
        std::vector<std::int64_t> shape;
        std::int64_t pitch = 0;
        std::uint64_t alignment = 1;  // bytes, of its address
    };
    struct Map {
        MapRequest request;  // base: of the last launch
        int tensor = -1;     // -1: the workspace
        std::uint64_t offset = 0, args_offset = 0;
        bool usable = true;
        bool encoded = false;
        TensorMap value = {};
    };
    // Of one M and one set of shapes.
    struct Shapes {
        std::int64_t m = 0;
        std::vector<Tensor> tensors;
        std::vector<Map> maps;
        std::vector<unsigned char> args;  // addresses and maps are zero
        std::uint64_t signature = 0;
    };

    bool repeats(std::int64_t m, const RankTensors& tensors) const;
    Shapes evaluate(std::int64_t m, const RankTensors& tensors) const;
    void check_shape(const ManifestTensor& expected, const TensorView& given,
                     const std::vector<std::int64_t>& shape) const;
    void check_address(const ManifestTensor& expected, const TensorView& given, std::uint64_t alignment) const;
    std::string where(const ManifestTensor& tensor) const;
    void put(std::vector<unsigned char>& args, std::uint64_t offset, const std::string& field, const void* value,
             std::uint64_t bytes) const;

    const Manifest& manifest_;
    RankPlace place_;
    std::optional<Shapes> shapes_;
};

// One launch alone.
std::vector<unsigned char> bind_arguments(const Manifest& manifest, const Launch& launch, const RankPlace& place,
                                          const RankTensors& tensors, const EncodeMap& encode);

}  // namespace plait
