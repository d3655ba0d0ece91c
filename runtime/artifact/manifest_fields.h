// Fields of the manifest in file order: the one list that the writer and the reader walk.
#pragma once
#include "runtime/artifact/artifact.h"

namespace plait {

template <class Visitor, class Any>
requires std::is_same_v<std::remove_const_t<Any>, ManifestTensor>
void visit_fields(Visitor& visit, Any& tensor) {
    visit("name", tensor.name);
    visit("dtype", tensor.dtype);
    visit("shape", tensor.shape);
    visit("output", tensor.output);
    visit("args_offset", tensor.args_offset);
    visit("pitch", tensor.pitch);
    visit("pitch_offset", tensor.pitch_offset);
    visit("aligned", tensor.aligned);
}
template <class Visitor, class Any>
requires std::is_same_v<std::remove_const_t<Any>, ManifestMap>
void visit_fields(Visitor& visit, Any& map) {
    visit("name", map.name);
    visit("index", map.index);
    visit("memory", map.memory);
    visit("dtype", map.dtype);
    visit("base_bytes", map.base_bytes);
    visit("extent", map.extent);
    visit("stride_bytes", map.stride_bytes);
    visit("box", map.box);
    visit("args_offset", map.args_offset);
}
template <class Visitor, class Any>
requires std::is_same_v<std::remove_const_t<Any>, ManifestParam>
void visit_fields(Visitor& visit, Any& param) {
    visit("name", param.name);
    visit("max", param.max);
    visit("args_offset", param.args_offset);
    visit("positive", param.positive);
}
template <class Visitor, class Any>
requires std::is_same_v<std::remove_const_t<Any>, ManifestLet>
void visit_fields(Visitor& visit, Any& let) {
    visit("name", let.name);
    visit("value", let.value);
}
template <class Visitor, class Any>
requires std::is_same_v<std::remove_const_t<Any>, WaitSite>
void visit_fields(Visitor& visit, Any& site) {
    visit("id", site.id);
    visit("role", site.role);
    visit("agent", site.agent);
    visit("flag", site.flag);
    visit("kind", site.kind);
}
template <class Visitor, class Any>
requires std::is_same_v<std::remove_const_t<Any>, ManifestFlags>
void visit_fields(Visitor& visit, Any& flags) {
    visit("name", flags.name);
    visit("offset", flags.offset);
    visit("count", flags.count);
}
template <class Visitor, class Any>
requires std::is_same_v<std::remove_const_t<Any>, Manifest>
void visit_fields(Visitor& visit, Any& manifest) {
    visit("abi_version", manifest.abi_version);
    visit("name", manifest.name);
    visit("arch", manifest.arch);
    visit("key", manifest.key);
    visit("semantics", manifest.semantics);
    visit("compiler", manifest.compiler);
    visit("world", manifest.world);
    visit("nodes", manifest.nodes);
    visit("locals", manifest.locals);
    visit("m_max", manifest.m_max);
    visit("n", manifest.n);
    visit("k", manifest.k);
    visit("threads", manifest.threads);
    visit("shared_bytes", manifest.shared_bytes);
    visit("args_bytes", manifest.args_bytes);
    visit("min_ctas", manifest.min_ctas);
    visit("cluster", manifest.cluster);
    visit("workspace_bytes", manifest.workspace_bytes);
    visit("receive_bytes", manifest.receive_bytes);
    visit("session_state", manifest.session_state);
    visit("agents", manifest.agents);
    visit("params", manifest.params);
    visit("lets", manifest.lets);
    visit("tensors", manifest.tensors);
    visit("maps", manifest.maps);
    visit("wait_sites", manifest.wait_sites);
    visit("flags", manifest.flags);
    visit("registers", manifest.registers);
    visit("spill_bytes", manifest.spill_bytes);
    visit("local_bytes", manifest.local_bytes);
    visit("ptxas_messages", manifest.ptxas_messages);
}

}  // namespace plait
