// What a manifest says of one rank's launch: shapes, launch arguments, tensor maps. Shared by the simulated and the real Sessions; only
// the encoding of a tensor map differs. argument_binder.h makes the kernel's arguments of it.
#pragma once
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "runtime/session/cluster.h"
#include "templates/abi/kernel_args.h"

namespace plait {

struct RankPlace {
    int rank = 0, world = 1, node = 0, nodes = 1, local = 0, locals = 1;
};
RankPlace place_of(int rank, int nodes, int gpus_per_node);

std::int64_t bytes_of_dtype(const std::string& dtype);  // ArgumentError: not known
std::int64_t elements_of(const std::vector<std::int64_t>& shape);
// From its first byte to its last, gaps between rows included.
std::uint64_t bytes_spanned(const TensorView& view);
// Fills the tensor's elements with bytes 0xff, a NaN of every dtype, by set(first byte, bytes): in one piece, or row by row
// where rows lie apart, since what lies between them is not the tensor's.
void spoil_tensor(const TensorView& view, const std::function<void(void*, std::uint64_t)>& set);

// One tensor map, all expressions evaluated.
struct MapRequest {
    std::string name, dtype;
    void* base = nullptr;
    std::uint64_t extent[3] = {};  // never 0: unusable maps (an extent of 0) come as extents of 1 on `base`
    std::uint64_t stride_bytes[2] = {};
    std::uint32_t box[3] = {};
    std::uint32_t element_bytes = 2;
};
using EncodeMap = std::function<TensorMap(const MapRequest&)>;
TensorMap encode_host_map(const MapRequest& request);

// Refuses an artifact of another ABI version or another world. ArgumentError.
void check_artifact(const Manifest& manifest, const RankPlace& place);
// That, and M. ArgumentError.
void check_launch(const Manifest& manifest, const RankPlace& place, std::int64_t m);
// Launch arguments beside M, by name.
using Params = std::map<std::string, std::int64_t>;
// Their values, read off the given tensors: wherever a tensor's extent is exactly a param's name. ArgumentError: two
// tensors that disagree, a value above the param's maximum, a tensor of another rank.
Params infer_params(const Manifest& manifest, const RankTensors& tensors);
// What all ranks must agree on for one launch, in kSignatureBits: the artifact, M and the params. Where only M differs,
// values less than 2^kSignatureBits apart never look alike.
std::uint64_t launch_signature(const Manifest& manifest, std::int64_t m, const Params& params = {});
// Shapes of this rank's tensors for a given M and params.
std::vector<std::vector<std::int64_t>> tensor_shapes(const Manifest& manifest, const RankPlace& place, std::int64_t m,
                                                     const Params& params = {});

}  // namespace plait
