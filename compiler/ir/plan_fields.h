// Fields of each definition of a Plan, in text order: the one list that both the printer and the parser walk.
#pragma once
#include "compiler/ir/plan.h"

namespace plait {

template <class Visitor>
void visit_fields(Visitor& visit, Plan& plan) {
    visit("target", plan.target);
    visit("world", plan.world);
    visit("nodes", plan.nodes);
    visit("locals", plan.locals);
    visit("m_max", plan.m_max);
    visit("threads", plan.threads);
    visit("producer_registers", plan.producer_registers);
    visit("consumer_registers", plan.consumer_registers);
}
template <class Visitor>
void visit_fields(Visitor& visit, ParamDef& param) {
    visit("max", param.max);
}
template <class Visitor>
void visit_fields(Visitor& visit, TensorDef& tensor) {
    visit("dtype", tensor.dtype);
    visit("shape", tensor.shape);
    visit("output", tensor.output);
    visit("strided", tensor.strided);
}
template <class Visitor>
void visit_fields(Visitor& visit, BufferDef& buffer) {
    visit("dtype", buffer.dtype);
    visit("shape", buffer.shape);
    visit("offset", buffer.offset);
}
template <class Visitor>
void visit_fields(Visitor& visit, FlagDef& flag) {
    visit("count", flag.count);
    visit("offset", flag.offset);
    visit("session", flag.session);
}
template <class Visitor>
void visit_fields(Visitor& visit, MapDef& map) {
    visit("index", map.index);
    visit("memory", map.memory);
    visit("dtype", map.dtype);
    visit("base", map.base);
    visit("extent", map.extent);
    visit("stride", map.stride);
    visit("box", map.box);
}
template <class Visitor>
void visit_fields(Visitor& visit, SharedDef& shared) {
    visit("bytes", shared.bytes);
    visit("count", shared.count);
    visit("align", shared.align);
}
template <class Visitor>
void visit_fields(Visitor& visit, BarrierDef& barrier) {
    visit("count", barrier.count);
    visit("thread_arrivals", barrier.thread_arrivals);
    visit("warpgroup_arrivals", barrier.warpgroup_arrivals);
}
template <class Visitor>
void visit_fields(Visitor& visit, EdgeDef& edge) {
    visit("producer", edge.producer);
    visit("signal", edge.signal);
    visit("scope", edge.scope);
    visit("consumer", edge.consumer);
    visit("memory", edge.memory);
}
template <class Visitor>
void visit_fields(Visitor& visit, RoleDef& role) {
    visit("placement", role.placement);
    visit("sms", role.sms);
}
template <class Visitor>
void visit_fields(Visitor& visit, AgentDef& agent) {
    visit("kind", agent.kind);
    visit("warpgroup", agent.warpgroup);
    visit("warp", agent.warp);
    visit("programs", agent.programs);
}
template <class Visitor>
void visit_fields(Visitor& visit, ProgramDef& program) {
    visit("role", program.role);
    visit("first_cta", program.first_cta);
    visit("last_cta", program.last_cta);
}

}  // namespace plait
