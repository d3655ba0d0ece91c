// The words of each enum of the Plan, once: printing and parsing read the same lists.
#pragma once
#include <string_view>

#include "compiler/ir/plan.h"

namespace plait {

template <class Enum>
struct EnumWord {
    Enum value;
    std::string_view word;
};

inline constexpr EnumWord<ProducerKind> kProducerWords[] = {
    {ProducerKind::Store, "store"}, {ProducerKind::Bulk, "bulk"}, {ProducerKind::CopyEngine, "copy_engine"},
    {ProducerKind::Nic, "nic"},     {ProducerKind::Host, "host"}, {ProducerKind::Arrive, "arrive"},
    {ProducerKind::Mma, "mma"},     {ProducerKind::Gather, "gather"},
};
inline constexpr EnumWord<SignalKind> kSignalWords[] = {
    {SignalKind::Flag, "flag"},       {SignalKind::Counter, "counter"}, {SignalKind::InlineTag, "inline_tag"},
    {SignalKind::Barrier, "barrier"}, {SignalKind::Fifo, "fifo"},
};
inline constexpr EnumWord<EdgeScope> kScopeWords[] = {
    {EdgeScope::Cta, "cta"},
    {EdgeScope::Cluster, "cluster"},
    {EdgeScope::Gpu, "gpu"},
    {EdgeScope::System, "system"},
    {EdgeScope::Network, "network"},
};
inline constexpr EnumWord<ConsumerKind> kConsumerWords[] = {
    {ConsumerKind::Load, "load"},
    {ConsumerKind::Tma, "tma"},
    {ConsumerKind::Mma, "mma"},
    {ConsumerKind::Nic, "nic"},
    {ConsumerKind::Overwrite, "overwrite"},
};
inline constexpr EnumWord<AgentKind> kAgentWords[] = {
    {AgentKind::Thread, "thread"},
    {AgentKind::Warpgroup, "warpgroup"},
};
inline constexpr EnumWord<Effect> kEffectWords[] = {
    {Effect::Control, "control"}, {Effect::Value, "value"},   {Effect::Copy, "copy"},
    {Effect::Signal, "signal"},   {Effect::Wait, "wait"},     {Effect::Fence, "fence"},
    {Effect::Math, "math"},       {Effect::Output, "output"}, {Effect::Trace, "trace"},
};

inline constexpr const auto& words_of(ProducerKind) { return kProducerWords; }
inline constexpr const auto& words_of(SignalKind) { return kSignalWords; }
inline constexpr const auto& words_of(EdgeScope) { return kScopeWords; }
inline constexpr const auto& words_of(ConsumerKind) { return kConsumerWords; }
inline constexpr const auto& words_of(AgentKind) { return kAgentWords; }
inline constexpr const auto& words_of(Effect) { return kEffectWords; }

}  // namespace plait
