// A cluster of two CTAs that load a slot together and read it, round after round, in the form that codegen prints. One
// template per planted fault; what each fault breaks is marked `planted`.
#pragma once
#include "templates/host/machine.h"

namespace plait::testing {

enum class ClusterFault {
    None,
    OwnArrive,        // a consumer frees the slot at its own CTA only, and the loader waits for no more
    NoPeerArrive,     // the same, but the loader still waits for the peer
    ArriveTooEarly,   // the slot is freed while a matrix operation reads it
    OneCta,           // the peer is left out of the mask
    NoStartBarrier,   // barriers of the peer used before they are known to be there
    NoInitFence,      // barriers not made known to the async proxy
    NoLastWait,       // a CTA ends while its peer still arrives there
    HandsOnStores,    // an ordinary store relied on behind a remote arrive
};

struct ClusterShared {
    alignas(1024) Bytes<64 * 128> slot[1];
    Barrier full[1], empty[1];
};
struct ClusterArgs {
    Launch launch;
    TensorMap map[1];
    u64* seen;     // by CTA: sum of the first elements of both halves of the slot, over all rounds
    u64* message;  // by CTA
};

template <ClusterFault F>
struct ClusterKernel {
    using C = ClusterFault;
    static constexpr i64 rounds = 5;

    static void loader(Agent& ag, const ClusterArgs& args, ClusterShared& sh) {
        Pipe<1> pipe;
        for (i64 k = 0; k < rounds; k += 1) {
            barrier_wait(ag, sh.empty[pipe.slot], pipe.phase ^ 1);
            if (F == C::HandsOnStores && k == 1) {  // planted
                declare_access(ag, Access::Read, args.message + (ag.cta ^ 1), sizeof(u64));
            }
            barrier_expect(ag, sh.full[pipe.slot], 64 * 128);
            if (F == C::OneCta) {  // planted
                const i64 first = ag.cta % 2 * 32;
                u8* memory;
                BulkCopy copy = clipped_box(ag, args.map[0], 0, 64 * k + first, 0, memory);
                copy.destination = sh.slot[0].data + first * 128, copy.source = memory;
                ag.engine->bulk_multicast(ag.handle, ag.elected, &copy, &sh.full[0], 1u << (ag.cta % 2));
            } else {
                load_multicast<2, 64, 64, bf16>(ag, sh.slot[pipe.slot], args.map[0], 0, 64 * k, 0, sh.full[pipe.slot]);
            }
            pipe.advance();
        }
        if (F != C::NoLastWait) barrier_wait(ag, sh.empty[pipe.slot], pipe.phase ^ 1);  // planted
    }

    static void arrive(Agent& ag, ClusterShared& sh) {
        if (F == C::OwnArrive || F == C::NoPeerArrive)
            barrier_arrive(ag, sh.empty[0]);  // planted
        else
            cluster_arrive<2>(ag, sh.empty[0]);
    }

    static void consumer(Agent& ag, const ClusterArgs& args, ClusterShared& sh) {
        Pipe<1> pipe;
        u64 sum = 0;
        for (i64 k = 0; k < rounds; k += 1) {
            barrier_wait(ag, sh.full[pipe.slot], pipe.phase);
            ag.engine->mma_read(ag.handle, sh.slot[0].data, 128, 64, 128);
            mma_commit(ag);
            const u16* slot = reinterpret_cast<const u16*>(sh.slot[0].data);
            sum += slot[0] + slot[32 * 64];
            if (F == C::ArriveTooEarly) arrive(ag, sh);  // planted
            ag.engine->mma_wait(ag.handle, 0, nullptr, 0);
            if (F == C::HandsOnStores && k == 0) {
                declare_access(ag, Access::Write, args.message + ag.cta, sizeof(u64));
                args.message[ag.cta] = 1;
            }
            if (F != C::ArriveTooEarly) arrive(ag, sh);
            pipe.advance();
        }
        declare_access(ag, Access::Write, args.seen + ag.cta, sizeof(u64));
        args.seen[ag.cta] = sum;
    }

    static void entry(const HostCta* host_cta, const void* launch_args) {
        const ClusterArgs& args = *static_cast<const ClusterArgs*>(launch_args);
        ClusterShared& sh = *static_cast<ClusterShared*>(host_cta->shared);
        Agent ag = make_agent(*host_cta, host_cta->agent_index == 0);
        if (host_cta->agent_index == 0) {
            barrier_init(ag, sh.full[0], 1);
            barrier_init(ag, sh.empty[0], F == C::OwnArrive ? 1 : 2);
            if (F != C::NoInitFence) fence_barrier_init(ag);  // planted
        }
        if (F == C::NoStartBarrier)
            cta_barrier(ag);  // planted
        else
            cluster_barrier(ag);
        if (host_cta->agent_index == 0)
            loader(ag, args, sh);
        else
            consumer(ag, args, sh);
    }
};

}  // namespace plait::testing
