#include "runtime/session/argument_binder.h"

#include <gtest/gtest.h>

#include <cstring>

#include "runtime/base/error.h"

namespace plait {
namespace {

// ag_gemm's tensors and maps, as lowering writes them.
Manifest gather_manifest() {
    Manifest manifest;
    manifest.abi_version = kAbiVersion;
    manifest.name = "ag_gemm";
    manifest.world = 4, manifest.nodes = 2, manifest.locals = 2;
    manifest.m_max = 64, manifest.n = 24, manifest.k = 32;
    manifest.workspace_bytes = 2 * 4 * 16 * 32 * 2 + 4096;
    manifest.lets = {{"shard", "max(ceil_div(M, world), 1)"},
                     {"own_rows", "min(max(M - rank * shard, 0), shard)"},
                     {"full_shards", "M / shard"},
                     {"kernel_only", "cta * 2"}};
    std::uint64_t offset = sizeof(Launch);
    const auto add_tensor = [&](const char* name, std::vector<Expr> shape, bool output) {
        manifest.tensors.push_back({name, "bf16", std::move(shape), output, offset});
        offset += 8;
    };
    add_tensor("a", {"own_rows", 32}, false);
    add_tensor("b", {32, 24}, false);
    add_tensor("c", {"M", 24}, true);
    offset = (offset + 63) / 64 * 64;
    const auto add_map = [&](const char* name, std::int64_t index, const char* memory, Expr base,
                             std::vector<Expr> extent, std::vector<Expr> stride) {
        manifest.maps.push_back(
            {name, "bf16", index, memory, std::move(base), std::move(extent), std::move(stride), {64, 64, 1}, offset});
        offset += sizeof(TensorMap);
    };
    add_map("a_map", 0, "a", 0, {32, "own_rows", 1}, {64, "own_rows * 64"});
    add_map("a_map", 1, "workspace", 4096, {32, "shard", 8}, {64, 16 * 64});
    add_map("c_map", 0, "c", 0, {24, "shard", "full_shards"}, {48, "shard * 48"});
    add_map("c_map", 1, "c", "full_shards * shard * 48", {24, "M % shard", 1}, {48, "shard * 48"});
    manifest.args_bytes = static_cast<std::int64_t>(offset);
    return manifest;
}

struct Bound {
    Manifest manifest = gather_manifest();
    RankPlace place = place_of(3, 2, 2);
    std::vector<unsigned char> memory = std::vector<unsigned char>(1 << 16);
    RankTensors tensors;
    Launch launch = {};

    explicit Bound(std::int64_t m) {
        launch.m = m;
        launch.workspace[1] = aligned(0);
        launch.artifact_offset = 512;
        if (m < 0 || m > manifest.m_max) return;
        std::size_t start = 32768;
        for (const auto& shape : tensor_shapes(manifest, place, m)) {
            tensors.push_back({aligned(start), "bf16", shape});
            start += 8192;
        }
    }
    unsigned char* aligned(std::size_t offset) {
        return memory.data() + (64 - reinterpret_cast<std::uintptr_t>(memory.data()) % 64) % 64 + offset;
    }
    std::vector<unsigned char> bind() { return bind_arguments(manifest, launch, place, tensors, encode_host_map); }
    HostTensorMap map(const std::vector<unsigned char>& args, std::size_t index) {
        HostTensorMap map;
        std::memcpy(&map, args.data() + manifest.maps[index].args_offset, sizeof(map));
        return map;
    }
    std::string refusal() {
        try {
            bind();
        } catch (const ArgumentError& error) {
            return error.what();
        }
        return "nothing thrown";
    }
};

bool contains(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

TEST(PlaceOf, OrdersRanksByNodeThenLocalRank) {
    const RankPlace place = place_of(5, 3, 2);
    EXPECT_EQ(place.node, 2);
    EXPECT_EQ(place.local, 1);
    EXPECT_EQ(place.world, 6);
    EXPECT_THROW(place_of(6, 3, 2), ArgumentError);
    EXPECT_THROW(place_of(-1, 3, 2), ArgumentError);
}

TEST(TensorShapes, ShortAndEmptyShardsOfTheLastRanks) {
    const Manifest manifest = gather_manifest();
    using Shapes = std::vector<std::int64_t>;
    EXPECT_EQ(tensor_shapes(manifest, place_of(0, 2, 2), 50)[0], (Shapes{13, 32}));
    EXPECT_EQ(tensor_shapes(manifest, place_of(3, 2, 2), 50)[0], (Shapes{11, 32}));
    EXPECT_EQ(tensor_shapes(manifest, place_of(3, 2, 2), 2)[0], (Shapes{0, 32}));
    EXPECT_EQ(tensor_shapes(manifest, place_of(3, 2, 2), 2)[2], (Shapes{2, 24}));
}

TEST(LaunchSignature, TellsValuesOfMAndArtifactsApart) {
    Manifest manifest = gather_manifest();
    const std::uint64_t at_50 = launch_signature(manifest, 50);
    EXPECT_EQ(at_50, launch_signature(manifest, 50));
    EXPECT_LE(at_50, kSignatureMask);
    for (std::int64_t m : {0, 49, 51, 50 + (1 << 19), 50 + (1 << 20) - 1}) EXPECT_NE(launch_signature(manifest, m), at_50) << m;
    for (std::int64_t keys : {0, 1, 2, 1 << 19}) {
        const std::uint64_t here = launch_signature(manifest, 50, {{"batch", 3}, {"keys", keys}});
        EXPECT_NE(here, launch_signature(manifest, 50, {{"batch", 3}, {"keys", keys + 1}}));
        EXPECT_NE(here, launch_signature(manifest, 50, {{"batch", keys + 7}, {"keys", 3}}));
    }
    manifest.semantics = "another";
    EXPECT_NE(launch_signature(manifest, 50), at_50);
    EXPECT_EQ(entered_epoch(entered_word(7, at_50)), 7u);
    EXPECT_LT(entered_word(7, kSignatureMask), entered_word(8, 0));
}

TEST(BindArguments, WritesLaunchPointersAndMaps) {
    Bound bound(50);
    bound.launch.rank = 3;
    const auto args = bound.bind();
    ASSERT_EQ(args.size(), static_cast<std::size_t>(bound.manifest.args_bytes));
    bound.launch.signature = launch_signature(bound.manifest, 50);
    EXPECT_EQ(std::memcmp(args.data(), &bound.launch, sizeof(Launch)), 0);
    for (std::size_t i = 0; i < 3; ++i) {
        void* pointer;
        std::memcpy(&pointer, args.data() + bound.manifest.tensors[i].args_offset, sizeof(pointer));
        EXPECT_EQ(pointer, bound.tensors[i].data);
    }
    const HostTensorMap own = bound.map(args, 0), gathered = bound.map(args, 1), tail = bound.map(args, 3);
    EXPECT_EQ(own.base, bound.tensors[0].data);
    EXPECT_EQ(own.extent[1], 11u);
    EXPECT_EQ(gathered.base, bound.launch.workspace[1] + 512 + 4096);
    EXPECT_EQ(gathered.extent[2], 8u);
    EXPECT_EQ(gathered.stride_bytes[1], 1024u);
    EXPECT_EQ(tail.base, static_cast<u8*>(bound.tensors[2].data) + 3 * 13 * 48);
    EXPECT_EQ(tail.extent[1], 11u);
    EXPECT_EQ(tail.box[0], 64u);
    EXPECT_EQ(tail.element_bytes, 2u);
}

TEST(BindArguments, MapWithoutRowsIsEncodedButPointsAtTheTensor) {
    Bound bound(52);  // no short shard: c_map[1] has no rows and its base is the tensor's end
    const HostTensorMap tail = bound.map(bound.bind(), 3);
    EXPECT_EQ(tail.base, bound.tensors[2].data);
    EXPECT_EQ(tail.extent[0] * tail.extent[1] * tail.extent[2], 1u);
    EXPECT_EQ(tail.stride_bytes[0] % 16, 0u);
    EXPECT_GT(tail.stride_bytes[1], 0u);
}

TEST(BindArguments, EmptyTensorWithoutMemoryIsAccepted) {
    Bound bound(2);
    bound.tensors[0].data = nullptr;
    EXPECT_EQ(bound.map(bound.bind(), 0).base, bound.launch.workspace[1] + 512);
}

TEST(BindArguments, RefusesWrongTensorsByName) {
    Bound shape(50), dtype(50), count(50), missing(50), misaligned(50);
    shape.tensors[2].shape = {50, 32};
    EXPECT_TRUE(contains(shape.refusal(), "tensor `c` has shape [50, 32], expected [50, 24]")) << shape.refusal();
    dtype.tensors[1].dtype = "f16";
    EXPECT_TRUE(contains(dtype.refusal(), "tensor `b` is f16, expected bf16")) << dtype.refusal();
    count.tensors.pop_back();
    EXPECT_TRUE(contains(count.refusal(), "takes 3 tensors, 2 given")) << count.refusal();
    missing.tensors[0].data = nullptr;
    EXPECT_TRUE(contains(missing.refusal(), "tensor `a` of shape [11, 32] has no memory")) << missing.refusal();
    misaligned.tensors[0].data = misaligned.aligned(32768 + 2);
    EXPECT_TRUE(contains(misaligned.refusal(), "not a multiple of 16 bytes")) << misaligned.refusal();
}

TEST(BindArguments, RefusesMBeyondTheArtifact) {
    EXPECT_TRUE(contains(Bound(65).refusal(), "M = 65 is outside of 0..64"));
    EXPECT_TRUE(contains(Bound(-1).refusal(), "M = -1"));
}

// b's rows may lie apart; a's may not.
struct BoundApart : Bound {
    explicit BoundApart(std::int64_t pitch) : Bound(50) {
        manifest.tensors[1].pitch = "b_pitch";
        manifest.tensors[1].pitch_offset = static_cast<std::uint64_t>(manifest.args_bytes);
        manifest.args_bytes += 8;
        manifest.maps.resize(1);
        manifest.maps[0].memory = "b";
        manifest.maps[0].extent = {24, 32, 1};
        manifest.maps[0].stride_bytes = {"b_pitch", "b_pitch * 32"};
        tensors[1].pitch = pitch;
    }
};

TEST(BindArguments, RowsThatLieApartGiveMapsAndKernelTheirDistance) {
    for (const auto& [pitch, expected] : {std::pair{64, 64u}, {0, 48u}, {48, 48u}, {4096, 4096u}}) {
        BoundApart bound(pitch);
        const std::vector<unsigned char> args = bound.bind();
        std::int64_t given = 0;
        std::memcpy(&given, args.data() + bound.manifest.tensors[1].pitch_offset, sizeof(given));
        EXPECT_EQ(given, expected);
        EXPECT_EQ(bound.map(args, 0).stride_bytes[0], expected);
    }
    BoundApart one_row(4096);  // nothing steps from row to row: its stride says nothing
    one_row.manifest.tensors[1].shape = {1, 24};
    one_row.tensors[1].shape = {1, 24};
    one_row.manifest.maps[0].extent[1] = 1;
    EXPECT_EQ(one_row.map(one_row.bind(), 0).stride_bytes[0], 48u);
}

TEST(BindArguments, RefusesDistancesOfRowsThatNoMapTakes) {
    EXPECT_TRUE(contains(BoundApart(56).refusal(), "rows of tensor `b` are 48 bytes long and lie 56 bytes apart, not a multiple of 16"));
    EXPECT_TRUE(contains(BoundApart(32).refusal(), "lie 32 bytes apart: they overlap"));
    Bound contiguous(50);
    contiguous.tensors[1].pitch = 64;
    EXPECT_TRUE(contains(contiguous.refusal(), "lie 64 bytes apart, and this artifact takes contiguous rows"));
    EXPECT_TRUE(contains(contiguous.refusal(), "pass a contiguous copy"));
    // Also of tensors of more dims, whose distance of rows no manifest names.
    Bound batched(50);
    batched.manifest.tensors[1].shape = {32, 1, 24};
    batched.tensors[1].shape = {32, 1, 24};
    EXPECT_NO_THROW(batched.bind());
    batched.tensors[1].pitch = 64;
    EXPECT_TRUE(contains(batched.refusal(), "lie 64 bytes apart, and this artifact takes contiguous rows")) << batched.refusal();
}

TEST(BindArguments, SpansOfTensorsIncludeTheGapsBetweenRows) {
    EXPECT_EQ(bytes_spanned({nullptr, "bf16", {3, 24}, 0}), 144u);
    EXPECT_EQ(bytes_spanned({nullptr, "bf16", {3, 24}, 64}), 2 * 64 + 48u);
    EXPECT_EQ(bytes_spanned({nullptr, "f32", {70, 64}, 64ll << 20}), (69ull << 26) + 256);
    EXPECT_EQ(bytes_spanned({nullptr, "bf16", {0, 24}, 64}), 0u);
}

// What lies between rows belongs to somebody else.
TEST(SpoilTensor, LeavesTheGapsBetweenRowsAsTheyAre) {
    const auto set = [](void* first, std::uint64_t bytes) { std::memset(first, 0xff, bytes); };
    std::vector<unsigned char> apart(2 * 32 + 16), whole(3 * 16 + 1);
    spoil_tensor({apart.data(), "bf16", {3, 8}, 32}, set);
    for (std::size_t i = 0; i < apart.size(); ++i) EXPECT_EQ(apart[i], i % 32 < 16 ? 0xff : 0) << i;
    spoil_tensor({whole.data(), "bf16", {3, 8}, 0}, set);
    for (std::size_t i = 0; i < whole.size(); ++i) EXPECT_EQ(whole[i], i < 48 ? 0xff : 0) << i;
    spoil_tensor({nullptr, "bf16", {0, 8}, 32}, [](void*, std::uint64_t) { FAIL() << "nothing to fill"; });
}

// `keys` is read off the tensors whose extent it is, and everything that names it follows.
struct BoundKeys : Bound {
    explicit BoundKeys(std::int64_t keys) : Bound(50) {
        manifest.params = {{"keys", 40, static_cast<std::uint64_t>(manifest.args_bytes)}};
        manifest.args_bytes += 8;
        manifest.tensors[1].shape = {"keys", 24};
        manifest.tensors[2].shape = {"keys", 24};
        tensors[1].shape = tensors[2].shape = {keys, 24};
        manifest.maps.resize(2);
        manifest.maps[0].extent[1] = Expr("min(keys, own_rows)");
    }
};

TEST(BindArguments, ReadsLaunchArgumentsOffTheTensorsThatTheyShape) {
    BoundKeys bound(7);
    const std::vector<unsigned char> args = bound.bind();
    std::int64_t keys = 0;
    std::memcpy(&keys, args.data() + bound.manifest.params[0].args_offset, sizeof(keys));
    EXPECT_EQ(keys, 7);
    EXPECT_EQ(bound.map(args, 0).extent[1], 7u);
    EXPECT_EQ(tensor_shapes(bound.manifest, bound.place, 50, {{"keys", 9}})[2], (std::vector<std::int64_t>{9, 24}));
}

TEST(BindArguments, RefusesLaunchArgumentsThatDisagreeOrAreTooLarge) {
    BoundKeys disagree(7), large(41);
    disagree.tensors[2].shape[0] = 8;
    EXPECT_TRUE(contains(disagree.refusal(), "keys is 7 by dimension 0 of `b`, but 8 by dimension 0 of `c`")) << disagree.refusal();
    EXPECT_TRUE(contains(large.refusal(), "keys = 41 (dimension 0 of `b`) is outside of 0..40")) << large.refusal();
}

TEST(BindArguments, RefusesNothingOfALaunchArgumentThatMayNotBeZero) {
    BoundKeys none(0);
    none.tensors[1].data = none.tensors[2].data = nullptr;
    EXPECT_NO_THROW(none.bind());
    none.manifest.params[0].positive = true;
    EXPECT_TRUE(contains(none.refusal(), "keys = 0 (dimension 0 of `b`) is outside of 1..40")) << none.refusal();
}

// A gather copies 16 bytes at a time: no map over the tensor asks for it.
TEST(BindArguments, RefusesAMisalignedTensorWhoseRowsAreGathered) {
    BoundKeys bound(7);
    bound.manifest.maps.clear();
    bound.tensors[1].data = bound.aligned(32768 + 4);
    EXPECT_NO_THROW(bound.bind());
    bound.manifest.tensors[1].aligned = true;
    EXPECT_TRUE(contains(bound.refusal(), "tensor `b` starts at")) << bound.refusal();
    EXPECT_TRUE(contains(bound.refusal(), "not a multiple of 16 bytes")) << bound.refusal();
}

TEST(BindArguments, RefusesAnotherTopologyOrAbi) {
    Bound world(50), abi(50);
    world.place = place_of(3, 1, 4);
    EXPECT_TRUE(contains(world.refusal(), "compiled for 2x2 ranks, this session has 1x4")) << world.refusal();
    abi.manifest.abi_version += 1;
    EXPECT_TRUE(contains(abi.refusal(), "ABI version")) << abi.refusal();
}

TEST(BindArguments, RefusesMapsThatLeaveTheirMemory) {
    Bound bound(50), field(50), cycle(50);
    bound.manifest.maps[1].base_bytes = Expr(4096 + 256);
    EXPECT_TRUE(contains(bound.refusal(), "map a_map[1] reaches byte")) << bound.refusal();
    field.manifest.args_bytes -= 64;
    EXPECT_TRUE(contains(field.refusal(), "field `c_map[1]` ends at byte")) << field.refusal();
    cycle.manifest.lets[0].value = Expr("full_shards + 1");
    EXPECT_TRUE(contains(cycle.refusal(), "depends on itself")) << cycle.refusal();
}

// A launch that repeats M and shapes only puts addresses in; any other is checked and evaluated as the first was.
TEST(ArgumentBinder, LaunchesThatRepeatGiveWhatAFirstOneGives) {
    Bound bound(50), other(49);
    other.tensors[0].data = bound.tensors[0].data, other.tensors[1].data = bound.tensors[1].data;
    other.tensors[2].data = bound.tensors[2].data, other.launch.workspace[1] = bound.launch.workspace[1];
    ArgumentBinder binder(bound.manifest, bound.place);
    int encoded = 0;
    const EncodeMap encode = [&](const MapRequest& request) {
        ++encoded;
        return encode_host_map(request);
    };
    const auto again = [&](const Bound& from) {
        encoded = 0;
        EXPECT_EQ(binder.bind(from.launch, from.tensors, encode),
                  bind_arguments(bound.manifest, from.launch, bound.place, from.tensors, encode_host_map));
        return encoded;
    };
    EXPECT_EQ(again(bound), 4);
    EXPECT_EQ(again(bound), 0);
    bound.tensors[2].data = bound.aligned(32768 + 3 * 8192);
    EXPECT_EQ(again(bound), 2) << "the maps of c alone";
    bound.launch.artifact_offset = 1024;
    EXPECT_EQ(again(bound), 1) << "the workspace's map alone";
    EXPECT_EQ(again(other), 4) << "another M";
    EXPECT_EQ(again(bound), 4);
}

TEST(ArgumentBinder, ChecksALaunchThatDoesNotRepeatTheLastOne) {
    Bound bound(50);
    ArgumentBinder binder(bound.manifest, bound.place);
    const auto refusal = [&](const Launch& launch, const RankTensors& tensors) {
        try {
            binder.bind(launch, tensors, encode_host_map);
        } catch (const ArgumentError& error) {
            return std::string(error.what());
        }
        return std::string("nothing thrown");
    };
    Launch below = bound.launch;
    below.m = -1;
    EXPECT_TRUE(contains(refusal(below, {}), "M = -1 is outside of 0..64")) << "before any launch";
    EXPECT_EQ(refusal(bound.launch, bound.tensors), "nothing thrown");
    RankTensors wrong = bound.tensors;
    wrong[1].dtype = "f16";
    EXPECT_TRUE(contains(refusal(bound.launch, wrong), "tensor `b` is f16, expected bf16"));
    wrong = bound.tensors, wrong[1].shape = {24, 32};
    EXPECT_TRUE(contains(refusal(bound.launch, wrong), "tensor `b` has shape [24, 32], expected [32, 24]"));
    wrong = bound.tensors, wrong[1].pitch = 64;
    EXPECT_TRUE(contains(refusal(bound.launch, wrong), "takes contiguous rows"));
    wrong = bound.tensors, wrong[0].data = bound.aligned(32768 + 8);
    EXPECT_TRUE(contains(refusal(bound.launch, wrong), "not a multiple of 16 bytes")) << "addresses are checked each time";
    wrong = bound.tensors, wrong[1].data = nullptr;
    EXPECT_TRUE(contains(refusal(bound.launch, wrong), "has no memory"));
    wrong.pop_back();
    EXPECT_TRUE(contains(refusal(bound.launch, wrong), "takes 3 tensors, 2 given"));
    EXPECT_EQ(refusal(bound.launch, bound.tensors), "nothing thrown");
}

// What could not be encoded is encoded again.
TEST(ArgumentBinder, AnEncodingThatFailedLeavesNothingBehind) {
    Bound bound(50);
    ArgumentBinder binder(bound.manifest, bound.place);
    binder.bind(bound.launch, bound.tensors, encode_host_map);
    bound.tensors[0].data = bound.aligned(32768 + 3 * 8192);
    const EncodeMap fails = [](const MapRequest&) -> TensorMap { throw DeviceError("no"); };
    EXPECT_THROW(binder.bind(bound.launch, bound.tensors, fails), DeviceError);
    EXPECT_EQ(binder.bind(bound.launch, bound.tensors, encode_host_map), bound.bind());
}

}  // namespace
}  // namespace plait
