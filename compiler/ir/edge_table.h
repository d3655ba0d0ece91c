// The edge table: what it takes that a consumer may rely on what a producer did. One row per (producer, signal, scope,
// consumer). Lowering emits signals and waits through it; check_edges reads the same rows backwards.
#pragma once
#include <string>
#include <vector>

#include "compiler/ir/plan.h"

namespace plait {

struct EdgeRow {
    ProducerKind producer;
    SignalKind signal;
    EdgeScope scope;
    ConsumerKind consumer;
    std::vector<Op> producer_fences;  // after the last access of the producer, before the signal
    std::vector<Op> signals;          // ops that may signal; empty: the signal comes from outside the Plan
    std::vector<Op> waits;            // ops that may wait; empty: the waiter is outside the Plan (NIC, proxy)
    std::vector<Op> consumer_fences;  // after the wait, before the first access of the consumer
    std::string why;                  // the rule of the memory model behind it
};

const std::vector<EdgeRow>& edge_rows();
// nullptr where the combination cannot be lowered.
const EdgeRow* find_edge_row(ProducerKind producer, SignalKind signal, EdgeScope scope, ConsumerKind consumer);
const EdgeRow* find_edge_row(const EdgeDef& edge);
std::string describe(const EdgeDef& edge);  // a_ready (bulk, flag, system, tma)
// The word that the scope operand of this edge's signals and waits carries; the network is reached at System scope.
std::string scope_word(EdgeScope scope);

}  // namespace plait
