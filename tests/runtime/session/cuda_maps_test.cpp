#include "runtime/session/cuda_maps.h"

#include <gtest/gtest.h>

#include "runtime/base/error.h"
#include "tests/runtime/device/fake_driver.h"

namespace plait {
namespace {

alignas(64) unsigned char memory[1024];

MapRequest good_map() {
    MapRequest request;
    request.name = "a_map[1]";
    request.dtype = "bf16";
    request.base = memory;
    request.extent[0] = 64, request.extent[1] = 4, request.extent[2] = 2;
    request.stride_bytes[0] = 128, request.stride_bytes[1] = 512;
    request.box[0] = 64, request.box[1] = 128, request.box[2] = 1;
    return request;
}

std::string refusal(const MapRequest& request) {
    FakeDriver fake;
    try {
        encode_cuda_map(*fake.table(), request);
    } catch (const ArgumentError& error) {
        EXPECT_EQ(fake.calls("encode_tiled"), 0);  // the driver would have said only `invalid value`
        return error.what();
    }
    return "nothing thrown";
}

TEST(EncodeCudaMap, HandsTheDriverAllOfIt) {
    FakeDriver fake;
    const TensorMap map = encode_cuda_map(*fake.table(), good_map());
    EXPECT_EQ(map.word[0], reinterpret_cast<u64>(memory));
    EXPECT_EQ(map.word[3], 2u);
}

TEST(EncodeCudaMap, NamesTheRuleThatAMapBreaks) {
    const auto broken = [](auto edit) {
        MapRequest request = good_map();
        edit(request);
        return refusal(request);
    };
    const auto expect = [](const std::string& text, const std::string& part) {
        EXPECT_NE(text.find("tensor map a_map[1]"), std::string::npos) << text;
        EXPECT_NE(text.find(part), std::string::npos) << text;
    };
    expect(broken([](MapRequest& r) { r.base = memory + 8; }), "needs a multiple of 16");
    expect(broken([](MapRequest& r) { r.base = nullptr; }), "starts at 0x0");
    expect(broken([](MapRequest& r) { r.extent[1] = 0; }), "dimension 1 has 0 elements");
    expect(broken([](MapRequest& r) { r.extent[0] = (1ull << 32) + 1; }), "dimension 0 has 4294967297 elements");
    expect(broken([](MapRequest& r) { r.stride_bytes[0] = 120; }), "dimension 1 steps by 120 bytes");
    expect(broken([](MapRequest& r) { r.stride_bytes[1] = 1ull << 40; }), "dimension 2 steps by 1099511627776 bytes");
    expect(broken([](MapRequest& r) { r.box[1] = 257; }), "its box has 257 elements in dimension 1");
    expect(broken([](MapRequest& r) { r.dtype = "f32", r.element_bytes = 4; }), "a row of its box has 256 bytes");
    expect(broken([](MapRequest& r) { r.dtype = "i8"; }), "dtype `i8`");
}

}  // namespace
}  // namespace plait
