#include "compiler/ir/edge_table.h"

#include <fmt/format.h>

#include "compiler/ir/words.h"

namespace plait {
namespace {

using P = ProducerKind;
using S = SignalKind;
using E = EdgeScope;
using C = ConsumerKind;

template <class Enum>
std::string word(Enum value) {
    for (const auto& entry : words_of(value)) {
        if (entry.value == value) return std::string(entry.word);
    }
    return "?";
}

const std::vector<Op> kFlagWaits = {Op::WaitFlag, Op::WaitFlags};
const std::vector<Op> kFlagSignals = {Op::SignalSet, Op::SignalAdd};
const std::vector<Op> kArrival = {Op::FifoWrite, Op::RelayTake};

// Bulk (TMA) stores are asynchronous: cp.async.bulk.wait_group (not .read) makes them complete and visible to the
// thread that issued them, whose release then covers them (PTX ISA, "cp.async.bulk.wait_group"). A consumer in the
// async proxy needs fence.proxy.async after its acquire (PTX ISA, "membar / fence.proxy").
std::vector<EdgeRow> make_rows() {
    std::vector<EdgeRow> rows;
    for (E scope : {E::Gpu, E::System}) {
        rows.push_back({P::Bulk,
                        S::Flag,
                        scope,
                        C::Tma,
                        {Op::BulkWait},
                        kFlagSignals,
                        kFlagWaits,
                        {Op::FenceAsyncGlobal},
                        "bulk stores complete before the release; acquire is generic, the load is async"});
        rows.push_back({P::Bulk,
                        S::Flag,
                        scope,
                        C::Load,
                        {Op::BulkWait},
                        kFlagSignals,
                        kFlagWaits,
                        {},
                        "bulk stores complete before the release"});
        rows.push_back({P::Store, S::Flag, scope, C::Load, {}, kFlagSignals, kFlagWaits, {}, "release, acquire"});
        rows.push_back({P::Store,
                        S::Flag,
                        scope,
                        C::Tma,
                        {},
                        kFlagSignals,
                        kFlagWaits,
                        {Op::FenceAsyncGlobal},
                        "acquire is generic, the load is async"});
        rows.push_back({P::Arrive,
                        S::Flag,
                        scope,
                        C::Overwrite,
                        {},
                        kFlagSignals,
                        kFlagWaits,
                        {},
                        "all accesses of an earlier launch end before it"});
        rows.push_back({P::Arrive,
                        S::Counter,
                        scope,
                        C::Overwrite,
                        {},
                        {Op::AgentFinished, Op::Leave, Op::SignalAdd},
                        kFlagWaits,
                        {},
                        "release add"});
    }
    rows.push_back({P::CopyEngine,
                    S::Flag,
                    E::System,
                    C::Tma,
                    {},
                    {},
                    kFlagWaits,
                    {Op::FenceAsyncGlobal},
                    "stream order: the copy is complete before the stream write"});
    rows.push_back({P::Nic,
                    S::Fifo,
                    E::Network,
                    C::Tma,
                    {},
                    kArrival,
                    kFlagWaits,
                    {Op::FenceAsyncGlobal},
                    "a visible signal implies a visible payload; acquire is generic, the load is async"});
    rows.push_back({P::Nic,
                    S::Fifo,
                    E::Network,
                    C::Load,
                    {},
                    kArrival,
                    kFlagWaits,
                    {},
                    "a visible signal implies a visible payload"});
    rows.push_back({P::Arrive,
                    S::Fifo,
                    E::Network,
                    C::Overwrite,
                    {},
                    {Op::FifoWrite, Op::FifoPublish, Op::RelayTake},
                    kFlagWaits,
                    {},
                    "all accesses of an earlier launch end before it"});
    rows.push_back({P::Bulk,
                    S::Fifo,
                    E::System,
                    C::Nic,
                    {Op::BulkWait},
                    {Op::FifoPublish},
                    {},
                    {},
                    "bulk stores complete before the release that the proxy acquires"});
    rows.push_back(
        {P::Store, S::Fifo, E::System, C::Nic, {}, {Op::FifoPublish}, {}, {}, "the proxy acquires the release"});
    rows.push_back({P::Nic,
                    S::Counter,
                    E::System,
                    C::Overwrite,
                    {},
                    {Op::RelayForward},
                    {Op::FifoReserve, Op::FifoWait},
                    {},
                    "the proxy counts a put after its local completion; the relay passes the count on"});
    rows.push_back({P::Host,
                    S::Counter,
                    E::System,
                    C::Load,
                    {},
                    {},
                    {Op::RelayPoll},
                    {},
                    "the proxy's release, acquired by the relay"});

    const std::vector<Op> wait = {Op::BarrierWait};
    const std::vector<Op> loads = {Op::LoadBoxes, Op::LoadBytes};
    for (C consumer : {C::Mma, C::Tma, C::Load}) {
        rows.push_back(
            {P::Bulk, S::Barrier, E::Cta, consumer, {}, loads, wait, {}, "complete_tx: the barrier counts the bytes"});
    }
    rows.push_back({P::Bulk,
                    S::Barrier,
                    E::Cluster,
                    C::Mma,
                    {},
                    {Op::LoadBoxes, Op::LoadMulticast},
                    wait,
                    {},
                    "complete_tx: the barrier of each CTA counts the bytes that every CTA brings it"});
    rows.push_back({P::Mma,
                    S::Barrier,
                    E::Cluster,
                    C::Overwrite,
                    {Op::MmaWait},
                    {Op::ClusterArrive},
                    wait,
                    {},
                    "every CTA of the cluster writes the slot: each waits for the readers of all of them"});
    rows.push_back({P::Mma,
                    S::Barrier,
                    E::Cta,
                    C::Overwrite,
                    {Op::MmaWait},
                    {Op::BarrierArrive},
                    wait,
                    {},
                    "wgmma reads shared memory until its group has been waited for"});
    rows.push_back(
        {P::Store, S::Barrier, E::Cta, C::Load, {}, {Op::BarrierArrive}, wait, {}, "arrive releases, wait acquires"});
    rows.push_back({P::Store,
                    S::Barrier,
                    E::Cta,
                    C::Overwrite,
                    {},
                    {Op::BarrierArrive},
                    wait,
                    {},
                    "arrive releases, wait acquires"});
    rows.push_back({P::Gather,
                    S::Barrier,
                    E::Cta,
                    C::Mma,
                    {Op::GatherWait, Op::FenceAsyncShared},
                    {Op::BarrierArrive},
                    wait,
                    {},
                    "asynchronous copies are complete for their thread at its wait, and ordinary stores from then on"});
    for (C consumer : {C::Mma, C::Tma}) {
        rows.push_back({P::Store,
                        S::Barrier,
                        E::Cta,
                        consumer,
                        {Op::FenceAsyncShared},
                        {Op::BarrierArrive},
                        wait,
                        {},
                        "ordinary stores enter the async proxy before the arrive"});
    }
    return rows;
}

}  // namespace

const std::vector<EdgeRow>& edge_rows() {
    static const std::vector<EdgeRow> rows = make_rows();
    return rows;
}

const EdgeRow* find_edge_row(ProducerKind producer, SignalKind signal, EdgeScope scope, ConsumerKind consumer) {
    for (const EdgeRow& row : edge_rows()) {
        if (row.producer == producer && row.signal == signal && row.scope == scope && row.consumer == consumer)
            return &row;
    }
    return nullptr;
}

const EdgeRow* find_edge_row(const EdgeDef& edge) {
    return find_edge_row(edge.producer, edge.signal, edge.scope, edge.consumer);
}

std::string describe(const EdgeDef& edge) {
    return fmt::format("{} ({}, {}, {}, {})", edge.name, word(edge.producer), word(edge.signal), word(edge.scope),
                       word(edge.consumer));
}

std::string scope_word(EdgeScope scope) {
    switch (scope) {
        case EdgeScope::Cta:
            return "Cta";
        case EdgeScope::Cluster:  // barriers have no scope operand, and flags none between these two
        case EdgeScope::Gpu:
            return "Gpu";
        case EdgeScope::System:
        case EdgeScope::Network:
            return "System";
    }
    return "System";
}

}  // namespace plait
