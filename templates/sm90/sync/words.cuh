// Words that agents, ranks and the host share, as templates/launch_watch.h takes them.
#pragma once
#include "../ptx/memory.cuh"
#include "agent.cuh"

namespace plait {

PLAIT_DEVICE u64 word_peek(Agent&, const u64* word, Scope scope) {
    return scope == Scope::System ? ptx::load_relaxed_sys(word) : ptx::load_relaxed_gpu(word);
}
PLAIT_DEVICE u64 word_peek_acquire(Agent&, const u64* word, Scope scope) { return ptx::load_acquire(word, scope); }
PLAIT_DEVICE void word_poke(Agent&, u64* word, u64 value, Scope scope) {
    scope == Scope::System ? ptx::store_relaxed_sys(word, value) : ptx::store_relaxed_gpu(word, value);
}
PLAIT_DEVICE void word_publish(Agent&, u64* word, u64 value, Scope scope) { ptx::store_release(word, value, scope); }
PLAIT_DEVICE void word_add(Agent&, u64* word, u64 value) { ptx::add_relaxed_gpu(word, value); }
PLAIT_DEVICE bool word_claim(Agent&, u64* word) { return ptx::claim(word); }
PLAIT_DEVICE u64 clock_ns(Agent&) { return ptx::globaltimer_ns(); }

}  // namespace plait
