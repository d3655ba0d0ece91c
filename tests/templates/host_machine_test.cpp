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

// A column box of six rows, named by a list; the third row is asked for twice.
TEST_F(HostMachine, GatherCopiesTheRowsThatAreNamedAndRepeatsTheLast) {
    std::vector<u16> x(10 * 72), more(4 * 72);
    for (std::size_t i = 0; i < x.size(); ++i) x[i] = static_cast<u16>(i + 1);
    for (std::size_t i = 0; i < more.size(); ++i) more[i] = static_cast<u16>(5000 + i);
    const i32 rows[] = {9, 9, 12, 3, 0, 7};
    const auto add = [&](auto* data, std::size_t bytes, const char* name) {
        engine_.memory().add(reinterpret_cast<u8*>(const_cast<void*>(static_cast<const void*>(data))), bytes, MemoryKind::Input, 0, name);
    };
    add(x.data(), x.size() * 2, "x"), add(more.data(), more.size() * 2, "more"), add(rows, sizeof(rows), "rows");
    run(false, [&](Agent& ag, const Args& args, Shared& sh) {
        const RowSource source = row_source(reinterpret_cast<const u8*>(x.data()), 72, reinterpret_cast<const u8*>(more.data()), 10);
        const RowGather<64> gather = gather_index<64>(ag, args, source, rows, 1, 4, 0, 0, 14, 0);
        gather_rows<64, 64, bf16>(ag, sh.box, gather, 64);
        gather_wait<0>(ag);
        declare_access(ag, Access::Read, sh.box.data, sizeof(sh.box));
        const u16* box = reinterpret_cast<const u16*>(sh.box.data);
        const int expected[] = {9, 12, 3, 0};
        for (i64 r = 0; r < 64; ++r) {
            const int row = expected[r < 4 ? r : 3];
            for (i64 c = 0; c < 64; ++c) {
                const u16 value = c >= 8 ? u16{0} : row < 10 ? x[static_cast<std::size_t>(row * 72 + 64 + c)] : more[static_cast<std::size_t>((row - 10) * 72 + 64 + c)];
                ASSERT_EQ(box[r * 64 + c], value) << r << " " << c;
            }
        }
    });
}

class GatherFault : public HostMachine, public ::testing::WithParamInterface<std::pair<bool, bool>> {};

// The wait makes the rows the threads' own, the fence takes them into the async proxy.
TEST_P(GatherFault, RowsAreReadByMatrixOperationsAfterWaitAndFenceOnly) {
    const auto [waits, fences] = GetParam();
    std::vector<u16> x(64, 1);
    const i32 rows[] = {0};
    engine_.memory().add(reinterpret_cast<u8*>(x.data()), x.size() * 2, MemoryKind::Input, 0, "x");
    engine_.memory().add(reinterpret_cast<u8*>(const_cast<i32*>(rows)), sizeof(rows), MemoryKind::Input, 0, "rows");
    const Body body = [&, waits = waits, fences = fences](Agent& ag, const Args& args, Shared& sh) {
        const RowSource source = row_source(reinterpret_cast<const u8*>(x.data()), 64);
        gather_rows<64, 64, bf16>(ag, sh.a[0], gather_index<64>(ag, args, source, rows, 0, 1, 0, 0, 1, 0), 0);
        if (waits) gather_wait<0>(ag);
        if (fences) fence_async_shared(ag);
        ag.engine->mma_read(ag.handle, sh.a[0].data, 64, 1, 64);
        mma_commit(ag);
        ag.engine->mma_wait(ag.handle, 0, nullptr, 0);
        gather_wait<0>(ag);
    };
    if (waits && fences)
        EXPECT_NO_THROW(run(false, body));
    else
        EXPECT_THROW(run(false, body), SimulationFault);
}

INSTANTIATE_TEST_SUITE_P(Orders, GatherFault,
                         ::testing::Values(std::pair{true, true}, std::pair{false, true}, std::pair{true, false}, std::pair{false, false}));

TEST_F(HostMachine, StoreRowsLeavesOtherRowsAndColumns) {
    std::vector<u16> tensor(30 * 80, 7);
    engine_.memory().add(reinterpret_cast<u8*>(tensor.data()), tensor.size() * 2, MemoryKind::Output, 0, "y");
    run(false, [&](Agent& ag, const Args&, Shared& sh) {
        declare_access(ag, Access::Write, &sh.box, sizeof(sh.box));
        for (i64 i = 0; i < 64 * 64; ++i) reinterpret_cast<u16*>(sh.box.data)[i] = static_cast<u16>(1000 + i);
        store_rows<bf16>(ag, reinterpret_cast<bf16*>(tensor.data()), sh.box, 20, 64, 3, 80);
    });
    for (i64 r = 0; r < 30; ++r) {
        for (i64 c = 0; c < 80; ++c) {
            const bool inside = r >= 20 && r < 23 && c >= 64;
            ASSERT_EQ(tensor[static_cast<std::size_t>(r * 80 + c)], inside ? 1000 + (r - 20) * 64 + c - 64 : 7) << r << " " << c;
        }
    }
}

TEST_F(HostMachine, ValueOutsideItsPromiseIsRecordedOnceAndBounded) {
    const i32 list[] = {5, -3, 90};
    engine_.memory().add(reinterpret_cast<u8*>(const_cast<i32*>(list)), sizeof(list), MemoryKind::Input, 0, "list");
    run(true, [&](Agent& ag, const Args& args, Shared&) {
        EXPECT_EQ(load_value(ag, args, list, 0, 5, 5, 4), 5);
        EXPECT_EQ(memory_.state()->abort, 0u);
        EXPECT_EQ(load_value(ag, args, list, 2, 6, 80, 4), 80);
        EXPECT_EQ(load_value(ag, args, list, 1, 6, 80, 4), 6);
    });
    const StallRecord& record = memory_.state()->stall;
    EXPECT_NE(memory_.state()->abort, 0u);
    EXPECT_EQ(record.cause, static_cast<u64>(AbortCause::Value));
    EXPECT_EQ(record.site, 4u);
    EXPECT_EQ(record.flag, 2u) << "the first one stands";
    EXPECT_EQ(record.expected, 6u);
    EXPECT_EQ(record.peer, 80u);
    EXPECT_EQ(record.seen, 90u);
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
