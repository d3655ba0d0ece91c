// Words that agents, ranks and the host share, as templates/launch_watch.h takes them.
#pragma once
#include "agent.h"

namespace plait {

static inline u64 word_peek(Agent& ag, const u64* word, Scope scope) {
    return ag.engine->load(ag.handle, Lane::Members, word, scope, Order::Relaxed);
}
static inline u64 word_peek_acquire(Agent& ag, const u64* word, Scope scope) {
    return ag.engine->load(ag.handle, Lane::Members, word, scope, Order::Ordered);
}
static inline void word_poke(Agent& ag, u64* word, u64 value, Scope scope) {
    ag.engine->signal(ag.handle, Lane::Members, word, value, Update::Set, scope, Order::Relaxed);
}
static inline void word_publish(Agent& ag, u64* word, u64 value, Scope scope) {
    ag.engine->signal(ag.handle, Lane::Members, word, value, Update::Set, scope, Order::Ordered);
}
static inline void word_add(Agent& ag, u64* word, u64 value) {
    ag.engine->signal(ag.handle, Lane::Members, word, value, Update::Add, Scope::Gpu, Order::Relaxed);
}
static inline bool word_claim(Agent& ag, u64* word) {
    return ag.engine->fetch_add(ag.handle, Lane::Members, word, 1, Scope::Gpu, Order::Relaxed) == 0;
}
static inline u64 clock_ns(Agent& ag) { return ag.engine->clock(ag.handle); }

}  // namespace plait
