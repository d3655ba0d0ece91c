// Attention's primitives on the host machine: one tile against float64, and the faults of operations in flight.
#include <cmath>
#include <limits>

#include "tests/templates/host_machine.h"

namespace plait {
namespace {

constexpr i64 kKeys = 128;
constexpr f32 kScale = 0.18033688f;  // log2(e) / 8

void fill(Agent& ag, u8* data, i64 elements, u64 seed, f32 size) {
    Random random(seed);
    declare_access(ag, Access::Write, data, static_cast<u64>(elements) * 2);
    for (i64 i = 0; i < elements; ++i)
        reinterpret_cast<bf16*>(data)[i] = from_f32<bf16>((static_cast<f32>(random.below(2000)) / 1000 - 1) * size);
}

// Queries in a[0] [64][64]; of two key blocks the keys [128][64] and, behind them, the values as two boxes [64][64].
void fill_tile(Agent& ag, Shared& sh, f32 size = 1) {
    fill(ag, sh.a[0].data, 64 * 64, 1, size);
    for (i64 block = 0; block < 2; ++block) fill(ag, sh.b[block].data, 256 * 64, 2 + static_cast<u64>(block), 1);
    fence_async_shared(ag);
}

using KeyBox = Bytes<kKeys * 128>;
using ValueBox = Bytes<64 * 128>;
KeyBox& keys(Shared& sh, i64 block) { return reinterpret_cast<KeyBox&>(sh.b[block]); }
ValueBox& values(Shared& sh, i64 block) { return reinterpret_cast<ValueBox&>(sh.b[block].data[kKeys * 128]); }

struct Result {
    std::vector<f32> out, lse;
    std::vector<f32> factor;  // of the second block
};

// Blocks in the order 1, 0, as a consumer goes through them: query i sees key j where j <= i + offset and j < cols.
Result attend(Agent& ag, Shared& sh, i64 offset, i64 cols, f32 threshold, u8* workspace) {
    Result result;
    Acc<64, 64> out;
    Acc<64, kKeys> score;
    Operand<64, kKeys, bf16> weights(ag);
    Row<64> maximum(ag, kLowest), total(ag, 0.0f), factor(ag, 1.0f);
    RowPart<64> part(ag);
    acc_fill(ag, out, 0.0f);
    for (i64 block : {1, 0}) {
        mma_begin(ag, score);
        mma_issue<kKeys, 0, bf16>(ag, score, sh.a[0], 0, keys(sh, block), false);
        mma_commit(ag);
        mma_wait<0>(ag, score);
        mask_cols(ag, score, offset - block * kKeys, cols - block * kKeys);
        row_rescale(ag, factor, maximum, score, kScale, threshold);
        exp2_rows(ag, score, kScale, maximum);
        row_sum(ag, part, factor, score);
        as_operand(ag, weights, score);
        settle(ag, part, weights);
        scale_rows(ag, out, factor);
        mma_begin(ag, out);
        mma_issue_operand<64, 1, bf16>(ag, out, weights, values(sh, block), true);
        mma_commit(ag);
        mma_wait<0>(ag, out, weights);
    }
    finish_rows(ag, total, part);
    divide_rows(ag, out, total);
    f32* lse = reinterpret_cast<f32*>(workspace + 4096);
    std::memset(lse, 0xff, 64 * sizeof(f32));
    store_log_sum_exp(ag, lse, maximum, total, 0, 61);
    map(ag, out, 0, 0, [&](i64, i64, f32 x) {
        result.out.push_back(x);
        return x;
    });
    result.lse.assign(lse, lse + 64);
    result.factor.assign(factor.value, factor.value + 64);
    return result;
}

double element(const u8* data, i64 i) { return static_cast<double>(to_f32(reinterpret_cast<const bf16*>(data)[i])); }

// Softmax of one row in float64: the output's largest error, and the log-sum-exp.
double row_error(Shared& sh, const Result& result, i64 row, i64 seen, double* lse) {
    std::vector<double> weight(static_cast<std::size_t>(seen));
    double largest = -1e30, sum = 0;
    for (i64 j = 0; j < seen; ++j) {
        double dot = 0;
        for (i64 d = 0; d < 64; ++d)
            dot += element(sh.a[0].data, row * 64 + d) * element(sh.b[j / kKeys].data, j % kKeys * 64 + d);
        weight[static_cast<std::size_t>(j)] = dot / 8;
        largest = std::max(largest, dot / 8);
    }
    for (double& w : weight) sum += w = std::exp(w - largest);
    *lse = largest + std::log(sum);
    double error = 0;
    for (i64 d = 0; d < 64; ++d) {
        double expected = 0;
        for (i64 j = 0; j < seen; ++j)
            expected += weight[static_cast<std::size_t>(j)] / sum *
                        element(sh.b[j / kKeys].data + kKeys * 128, j % kKeys * 64 + d);
        error = std::max(error, std::abs(expected - static_cast<double>(result.out[static_cast<std::size_t>(row * 64 + d)])));
    }
    return error;
}

class HostAttention : public HostMachine {};

TEST_F(HostAttention, OneTileIsSoftmaxTimesValues) {
    for (const i64 offset : {i64{1} << 30, i64{180}, i64{40}, i64{-20}}) {
        run(false, [&](Agent& ag, const Args&, Shared& sh) {
            fill_tile(ag, sh);
            const Result result = attend(ag, sh, offset, 200, 8.0f, memory_.workspace());
            for (i64 row = 0; row < 61; ++row) {
                const i64 seen = max(0, min(row + offset + 1, 200));
                const auto at = static_cast<std::size_t>(row);
                if (seen == 0) {
                    EXPECT_EQ(result.lse[at], -std::numeric_limits<f32>::infinity()) << row;
                    for (i64 d = 0; d < 64; ++d) EXPECT_EQ(result.out[at * 64 + static_cast<std::size_t>(d)], 0.0f) << row;
                    continue;
                }
                double lse = 0;
                EXPECT_LT(row_error(sh, result, row, seen, &lse), 4e-3) << offset << " " << row;
                EXPECT_NEAR(result.lse[at], lse, 1e-5) << offset << " " << row;
            }
            for (std::size_t row = 61; row < 64; ++row)
                EXPECT_TRUE(std::isnan(result.lse[row])) << "a row beyond `rows` was stored";
        });
    }
}

TEST_F(HostAttention, MaximumRisesOnlyBeyondTheThreshold) {
    run(false, [&](Agent& ag, const Args&, Shared& sh) {
        fill_tile(ag, sh, 8);
        const Result always = attend(ag, sh, 1 << 30, 256, 0.0f, memory_.workspace());
        const Result lazy = attend(ag, sh, 1 << 30, 256, 8.0f, memory_.workspace());
        i64 raised = 0, kept = 0;
        for (std::size_t row = 0; row < 61; ++row) {
            raised += always.factor[row] != 1.0f ? 1 : 0;
            kept += lazy.factor[row] == 1.0f ? 1 : 0;
            EXPECT_NEAR(always.lse[row], lazy.lse[row], 1e-4) << row;
        }
        EXPECT_GT(raised, 10) << "the inputs raise no maximum in the second block";
        EXPECT_EQ(kept, 61);
        for (std::size_t i = 0; i < 61 * 64; ++i) EXPECT_NEAR(always.out[i], lazy.out[i], 2e-2) << i;
    });
}

// A wholly masked block in front changes no bit of a row: the first key block may lie beyond the row's diagonal.
TEST_F(HostAttention, MaskedBlocksLeaveARowAsItIs) {
    run(false, [&](Agent& ag, const Args&, Shared& sh) {
        fill_tile(ag, sh);
        Acc<64, kKeys> score;
        Row<64> maximum(ag, kLowest), factor(ag, 3.0f);
        RowPart<64> part(ag);
        acc_fill(ag, score, 0.25f);
        mask_cols(ag, score, -64, kKeys);
        row_rescale(ag, factor, maximum, score, kScale, 8.0f);
        exp2_rows(ag, score, kScale, maximum);
        row_sum(ag, part, factor, score);
        for (i64 row = 0; row < 64; ++row) {
            EXPECT_EQ(maximum.value[row], kLowest);
            EXPECT_EQ(factor.value[row], 1.0f);
            EXPECT_EQ(part.value[row], 0.0f);
        }
        map(ag, score, 0, 0, [](i64, i64, f32 x) {
            EXPECT_EQ(x, 0.0f);
            return x;
        });
    });
}

TEST_F(HostAttention, SoftmaxOperandGivesTheBitsOfTheFourSteps) {
    run(false, [&](Agent& ag, const Args&, Shared& sh) {
        fill_tile(ag, sh, 4);
        Acc<64, kKeys> steps, one;
        Row<64> maximum(ag, kLowest), factor(ag, 3.0f), other_maximum(ag, kLowest), other_factor(ag, 3.0f);
        RowPart<64> part(ag), other_part(ag);
        Operand<64, kKeys, bf16> weights(ag), other_weights(ag);
        for (i64 block : {0, 1}) {
            for (Acc<64, kKeys>* score : {&steps, &one}) {
                mma_begin(ag, *score);
                mma_issue<kKeys, 0, bf16>(ag, *score, sh.a[0], 0, keys(sh, block), false);
                mma_commit(ag);
                mma_wait<0>(ag, *score);
            }
            row_rescale(ag, factor, maximum, steps, kScale, 2.0f);
            exp2_rows(ag, steps, kScale, maximum);
            row_sum(ag, part, factor, steps);
            as_operand(ag, weights, steps);
            softmax_operand(ag, other_weights, other_factor, other_maximum, other_part, one, kScale, 2.0f);
            for (i64 row = 0; row < 64; ++row) {
                EXPECT_EQ(factor.value[row], other_factor.value[row]);
                EXPECT_EQ(maximum.value[row], other_maximum.value[row]);
                EXPECT_EQ(part.value[row], other_part.value[row]);
            }
            for (i64 i = 0; i < 64 * kKeys; ++i)
                ASSERT_EQ(weights.values()[i].bits, other_weights.values()[i].bits) << block << " " << i;
        }
    });
}

// Issues score = a b and out += weights b, in this order, each a group of its own.
struct InFlight {
    explicit InFlight(Agent& agent, Shared& memory) : ag(agent), sh(memory), weights(agent) {
        fill_tile(ag, sh);
        acc_fill(ag, out, 0.0f);
        acc_fill(ag, score, 0.0f);
        as_operand(ag, weights, score);
        mma_begin(ag, score);
        mma_issue<kKeys, 0, bf16>(ag, score, sh.a[0], 0, keys(sh, 0), false);
        mma_commit(ag);
        mma_begin(ag, out);
        mma_issue_operand<64, 1, bf16>(ag, out, weights, values(sh, 0), true);
        mma_commit(ag);
    }
    Agent& ag;
    Shared& sh;
    Acc<64, 64> out;
    Acc<64, kKeys> score;
    Operand<64, kKeys, bf16> weights;
};

TEST_F(HostAttention, OldestGroupIsSafeWhileTheYoungestRuns) {
    EXPECT_EQ(fault_of([](Agent& ag, const Args&, Shared& sh) {
                  InFlight x(ag, sh);
                  mma_wait<1>(ag, x.score);
                  acc_fill(ag, x.score, 1.0f);
                  mma_wait<0>(ag, x.out, x.weights);
                  as_operand(ag, x.weights, x.score);
                  acc_fill(ag, x.out, 1.0f);
              }),
              "none");
}

TEST_F(HostAttention, OperandInFlightMayNotBeWritten) {
    const std::string fault = fault_of([](Agent& ag, const Args&, Shared& sh) {
        InFlight x(ag, sh);
        mma_wait<1>(ag, x.score);
        as_operand(ag, x.weights, x.score);
    });
    EXPECT_NE(fault.find("operand: "), std::string::npos) << fault;
    EXPECT_NE(fault.find("a register operand is written while matrix group 2 reads it"), std::string::npos) << fault;
}

TEST_F(HostAttention, AccumulatorOfAYoungerGroupMayNotBeTouched) {
    const std::string fault = fault_of([](Agent& ag, const Args&, Shared& sh) {
        InFlight x(ag, sh);
        mma_wait<1>(ag, x.score);
        acc_fill(ag, x.out, 1.0f);
    });
    EXPECT_NE(fault.find("an accumulator is touched while matrix group 2 writes it"), std::string::npos) << fault;
}

TEST_F(HostAttention, WaitMakesSafeOnlyWhatItNames) {
    const std::string fault = fault_of([](Agent& ag, const Args&, Shared& sh) {
        InFlight x(ag, sh);
        mma_wait<0>(ag, x.score, x.weights);
        acc_fill(ag, x.out, 1.0f);
    });
    EXPECT_NE(fault.find("or after a wait that did not name it"), std::string::npos) << fault;
}

TEST_F(HostAttention, WaitMayNotNameWhatItsPendingGroupsUse) {
    const std::string fault = fault_of([](Agent& ag, const Args&, Shared& sh) {
        InFlight x(ag, sh);
        mma_wait<1>(ag, x.score, x.weights);
    });
    EXPECT_NE(fault.find("mma_wait<1> names a value that matrix group 2 of 2 still uses"), std::string::npos) << fault;
}

TEST_F(HostAttention, OperandIsFencedBeforeItIsRead) {
    const std::string fault = fault_of([](Agent& ag, const Args&, Shared& sh) {
        fill_tile(ag, sh);
        Acc<64, 64> out;
        Acc<64, kKeys> score;
        Operand<64, kKeys, bf16> weights(ag);
        acc_fill(ag, score, 0.0f);
        mma_begin(ag, out);
        as_operand(ag, weights, score);
        mma_issue_operand<64, 1, bf16>(ag, out, weights, values(sh, 0), false);
    });
    EXPECT_NE(fault.find("reads a register operand that was written since the last fence"), std::string::npos) << fault;
}

// The values' slot is handed back while the second product still reads it; the first one's wait says nothing of it.
TEST_F(HostAttention, SlotMayNotBeOverwrittenBeforeTheWaitOfItsReader) {
    const std::string fault = fault_of([](Agent& ag, const Args&, Shared& sh) {
        InFlight x(ag, sh);
        mma_wait<1>(ag, x.score);
        declare_access(ag, Access::Write, values(sh, 0).data, 64);
    });
    EXPECT_NE(fault.find("overwrite_unordered"), std::string::npos) << fault;
}

TEST_F(HostAttention, TurnsAlternateWhoeverStartsFirst) {
    i64 agents = 0;
    std::string order;
    run(
        false,
        [&](Agent& ag, const Args&, Shared&) {
            const i64 own = agents++;
            if (own == 1) turn_pass(ag, 0);
            for (i64 round = 0; round < 3; round += 1) {
                turn_wait(ag, own);
                order += own == 0 ? "0" : "1";
                turn_pass(ag, 1 - own);
            }
        },
        {"first", "second"});
    EXPECT_EQ(order, "010101");
}

TEST_F(HostAttention, TurnMayNotBePassedTwice) {
    const std::string fault = fault_of([](Agent& ag, const Args&, Shared&) {
        turn_pass(ag, 1);
        turn_pass(ag, 1);
    });
    EXPECT_NE(fault.find("turn 1 is passed twice before it is taken"), std::string::npos) << fault;
}

TEST_F(HostAttention, TurnThatIsNeverPassedIsReported) {
    try {
        run(false, [](Agent& ag, const Args&, Shared&) { turn_wait(ag, 2); });
        FAIL() << "the wait ended";
    } catch (const StallError& error) {
        EXPECT_NE(error.message().find("waits for turn 2 to be passed"), std::string::npos) << error.message();
    }
}

}  // namespace
}  // namespace plait
