// The host machine on the engine, a few calls at a time.
#include "tests/templates/host_machine.h"

namespace plait {
namespace {

TEST_F(HostMachine, AnAgentThatGaveUpPutsNothing) {
    u8* const target = memory_.workspace() + 4096;
    std::memset(target, 7, 64);
    for (const bool stopped : {true, false}) {
        run(true, [&](Agent& ag, const Args&, Shared& sh) {
            declare_access(ag, Access::Write, sh.a[0].data, 64);
            std::memset(sh.a[0].data, 0, 64);
            fence_async_shared(ag);
            ag.stopped = stopped;
            put_bytes(ag, target, sh.a[0], 64);
            bulk_commit(ag);
            bulk_wait<0>(ag);
        });
        EXPECT_EQ(target[0], stopped ? 7 : 0);
    }
}

void fill_operands(Agent& ag, Shared& sh) {
    Random random(3);
    for (Bytes<64 * 128>& a : sh.a) {
        declare_access(ag, Access::Write, &a, sizeof(a));
        for (i64 i = 0; i < 64 * 64; ++i)
            reinterpret_cast<bf16*>(a.data)[i] = from_f32<bf16>(static_cast<f32>(random.below(2000)) / 1000 - 1);
    }
    for (Bytes<256 * 128>& b : sh.b) {
        declare_access(ag, Access::Write, &b, sizeof(b));
        for (i64 i = 0; i < 256 * 64; ++i)
            reinterpret_cast<bf16*>(b.data)[i] = from_f32<bf16>(static_cast<f32>(random.below(2000)) / 1000 - 1);
    }
    fence_async_shared(ag);
}

// Columns [0, N) of two k blocks.
template <i64 N, i64 TransposeB>
std::vector<f32> product(Agent& ag, Shared& sh) {
    Acc<64, N> acc;
    for (i64 k = 0; k < 2; ++k) {
        mma_begin(ag, acc);
        mma_issue<N, TransposeB, bf16>(ag, acc, sh.a[k], 0, sh.b[k], k != 0);
        mma_commit(ag);
    }
    mma_wait<0>(ag, acc);
    std::vector<f32> out;
    map(ag, acc, 0, 0, [&](i64, i64 c, f32 x) {
        if (c < 64) out.push_back(x);
        return x;
    });
    return out;
}

TEST_F(HostMachine, MmaGivesTheSameBitsForEveryTileWidth) {
    run(false, [](Agent& ag, const Args&, Shared& sh) {
        fill_operands(ag, sh);
        const std::vector<f32> narrow = product<64, 1>(ag, sh);
        EXPECT_EQ((product<128, 1>(ag, sh)), narrow);
        EXPECT_EQ((product<256, 1>(ag, sh)), narrow);
        EXPECT_EQ((product<72, 1>(ag, sh)), narrow);  // a remainder narrower than the register block
        const std::vector<f32> k_major = product<64, 0>(ag, sh);
        EXPECT_EQ((product<192, 0>(ag, sh)), k_major);
    });
}

TEST_F(HostMachine, MmaMultiplies) {
    run(false, [](Agent& ag, const Args&, Shared& sh) {
        fill_operands(ag, sh);
        const std::vector<f32> n_major = product<128, 1>(ag, sh), k_major = product<128, 0>(ag, sh);
        const auto at = [](const u8* data, i64 i) {
            return static_cast<double>(to_f32(reinterpret_cast<const bf16*>(data)[i]));
        };
        for (i64 r = 0; r < 64; ++r) {
            for (i64 c = 0; c < 64; ++c) {
                double first = 0, second = 0;
                for (i64 k = 0; k < 128; ++k) {
                    const double a = at(sh.a[k / 64].data, r * 64 + k % 64);
                    first += a * at(sh.b[k / 64].data, k % 64 * 64 + c);
                    second += a * at(sh.b[k / 64].data, c * 64 + k % 64);
                }
                EXPECT_NEAR(n_major[static_cast<std::size_t>(r * 64 + c)], first, 1e-4);
                EXPECT_NEAR(k_major[static_cast<std::size_t>(r * 64 + c)], second, 1e-4);
            }
        }
    });
}

TEST_F(HostMachine, LoadsFillOutsideOfTheTensorWithZero) {
    std::vector<u16> tensor(30 * 80);
    for (std::size_t i = 0; i < tensor.size(); ++i) tensor[i] = static_cast<u16>(i + 1);
    engine_.memory().add(reinterpret_cast<u8*>(tensor.data()), tensor.size() * 2, MemoryKind::Input, 0, "x");
    const TensorMap map = map_of(tensor.data(), 72, 30, 160, 64, 64);
    run(true, [&](Agent& ag, const Args&, Shared& sh) {
        barrier_init(ag, sh.full[0], 1);
        fence_barrier_init(ag);
        barrier_expect(ag, sh.full[0], 2 * 64 * 128);
        load_boxes<64, 128, bf16>(ag, sh.b[0], map, 0, 10, 0, sh.full[0]);
        barrier_wait(ag, sh.full[0], 0);
        const u16* box = reinterpret_cast<const u16*>(sh.b[0].data);
        for (i64 r = 0; r < 64; ++r) {
            for (i64 c = 0; c < 128; ++c) {
                const u16 expected = r < 20 && c < 72 ? tensor[static_cast<std::size_t>((r + 10) * 80 + c)] : 0;
                EXPECT_EQ(box[c / 64 * 4096 + r * 64 + c % 64], expected) << r << " " << c;
            }
        }
    });
}

TEST_F(HostMachine, StoresLeaveWhatIsOutsideOfTheTensor) {
    std::vector<u16> tensor(30 * 80, 7);
    engine_.memory().add(reinterpret_cast<u8*>(tensor.data()), tensor.size() * 2, MemoryKind::Output, 0, "x");
    const TensorMap map = map_of(tensor.data(), 72, 30, 160, 64, 64);
    run(true, [&](Agent& ag, const Args&, Shared& sh) {
        declare_access(ag, Access::Write, &sh.box, sizeof(sh.box));
        for (i64 i = 0; i < 64 * 64; ++i) reinterpret_cast<u16*>(sh.box.data)[i] = static_cast<u16>(1000 + i);
        fence_async_shared(ag);
        store_box<64, 64, bf16>(ag, map, sh.box, 64, 20, 0);
        bulk_commit(ag);
        bulk_wait<0>(ag);
    });
    for (i64 r = 0; r < 30; ++r) {
        for (i64 c = 0; c < 80; ++c) {
            const bool inside = r >= 20 && c >= 64 && c < 72;
            EXPECT_EQ(tensor[static_cast<std::size_t>(r * 80 + c)], inside ? 1000 + (r - 20) * 64 + c - 64 : 7)
                << r << " " << c;
        }
    }
}

TEST_F(HostMachine, AccumulatorInFlightMayNotBeTouched) {
    EXPECT_THROW(run(false,
                     [](Agent& ag, const Args&, Shared& sh) {
                         fill_operands(ag, sh);
                         Acc<64, 64> acc;
                         mma_begin(ag, acc);
                         mma_issue<64, 1, bf16>(ag, acc, sh.a[0], 0, sh.b[0], false);
                         mma_commit(ag);
                         map(ag, acc, 0, 0, [](i64, i64, f32 x) { return x; });
                     }),
                 SimulationFault);
}

}  // namespace
}  // namespace plait
