// Accesses to memory: each must be ordered after what it conflicts with.
#include <fmt/format.h>

#include "compiler/ir/plan_sizes.h"
#include "compiler/verify/interpreter/world.h"
#include "runtime/base/error.h"

namespace plait::interpreter {

// Number of `first[index]`; throws where the index is outside.
int World::element(Agent* agent, const Instruction& i, int first, int count, const CompiledExpr& index,
                   const char* what) {
    const std::int64_t at = value(*agent, index);
    if (at < 0 || at >= count)
        throw ScheduleError(fmt::format("{}: index {} of {} with {} entries ({}, M = {})", i.step.where(), at, what,
                                        count, place(*agent), run_.m));
    return first + int(at);
}

SharedSlot* World::shared(Agent* agent, const Instruction& i, bool second, int cta) {
    const int slot = second ? element(agent, i, i.shared2, i.shared2_count, i.shared2_index, "shared memory")
                            : element(agent, i, i.shared, i.shared_count, i.shared_index, "shared memory");
    return &ctas_[agent->rank * run_.ctas + (cta < 0 ? agent->cta : cta)].shared[slot];
}

int World::new_event(std::uint32_t component, Time time) {
    events_.push_back({component, time});
    return int(events_.size()) - 1;
}

// Async operations of this agent that it has waited for.
void World::complete(Agent* agent, const std::vector<int>& events) {
    if (events.empty()) return;
    agent->time += 1;
    for (int event : events) events_[event].time = agent->time;
    agent->clock.set(std::uint32_t(agent->id), agent->time);
}

void World::overwrite(Agent* agent, SharedSlot* slot, int event, const Instruction& i, std::size_t part,
                      std::size_t parts) {
    agent->clock.set(std::uint32_t(agent->id), agent->time);
    if (slot->parts.size() < parts) slot->parts.resize(parts, slot->parts.front());
    bool ordered = true;
    for (std::size_t p = 0; p < slot->parts.size(); ++p) {
        if (parts > 1 && p != part) continue;  // others write those
        const SharedSlot::Part& memory = slot->parts[p];
        ordered = ordered && (memory.write < 0 || agent->clock.knows(events_[memory.write]));
        for (int read : memory.reads) ordered = ordered && agent->clock.knows(events_[read]);
    }
    if (!ordered) {
        report("check_reuse",
               fmt::format("{} overwrites {} while it may still be read or written", op_spec(i.op).mnemonic,
                           i.step.statement->expr(i.op == Op::RingPut ? "slot" : "dst").print()),
               *agent, "wait until the slot is free");
    }
    slot->parts.resize(parts);
    slot->parts[part].write = event;
    slot->parts[part].reads.clear();
}

void World::read(Agent* agent, SharedSlot* slot, int event, const Instruction& i) {
    agent->clock.set(std::uint32_t(agent->id), agent->time);
    for (SharedSlot::Part& part : slot->parts) {
        if (part.write < 0 || !agent->clock.knows(events_[part.write])) {
            report("check_visibility",
                   fmt::format("{} reads a slot of shared memory {}", op_spec(i.op).mnemonic,
                               part.write < 0 ? "that was never written" : "before its write is complete"),
                   *agent, "wait for the barrier that announces it");
        }
        part.reads.push_back(event);
    }
}

// True where all of [first, last) was written in this launch and `clock` knows it.
bool World::check_buffer(const Clock& clock, int rank, int buffer, std::int64_t first, std::int64_t last,
                         const std::string& who, const std::string& where) {
    bool written = true, known = true;
    ranks_[rank].buffers[buffer].each(first, last, [&](int event, std::int64_t, std::int64_t) {
        written = written && event >= 0;
        known = known && (event < 0 || clock.knows(events_[event]));
    });
    if (written && known) return true;
    if (who.empty() || !reported_.insert(where + "buffer").second) return false;
    report_at("check_visibility",
              fmt::format("{} reads bytes [{}, {}) of {} of rank {} {} (M = {})", who, first, last,
                          plan_.buffers[buffer].name, rank,
                          written ? "without having waited for their writer" : "that nobody has written in this launch",
                          run_.m),
              where, "wait for the flags of every chunk under the read");
    return false;
}

void World::write_buffer(Agent* agent, int rank, int buffer, std::int64_t first, std::int64_t last, int event,
                         const Instruction& i) {
    std::int64_t bytes = element_bytes(plan_.buffers[buffer].dtype);
    for (std::int64_t dim : plan_.buffers[buffer].shape) bytes *= dim;
    if (first < 0 || last > bytes) {
        report("check_memory",
               fmt::format("{} writes bytes [{}, {}) of {}, which has {}", op_spec(i.op).mnemonic, first, last,
                           plan_.buffers[buffer].name, bytes),
               *agent, "offsets must stay inside the buffer");
        return;
    }
    if (!may_put(agent->clock, agent->rank, rank)) {
        report("check_protocol",
               fmt::format("{} into a bank of rank {} that may still be read: rank {} has not been seen to enter the "
                           "launch before",
                           op_spec(i.op).mnemonic, rank, rank),
               *agent, "wait_flag entered[peer] >= epoch - 1 before the first put");
    }
    ranks_[rank].buffers[buffer].each(first, last, [&](int old, std::int64_t, std::int64_t) {
        if (old >= 0 && !agent->clock.knows(events_[old]))
            report("check_visibility",
                   fmt::format("{} writes bytes that another writer may be writing", op_spec(i.op).mnemonic), *agent,
                   "give each byte one writer");
    });
    ranks_[rank].buffers[buffer].write(first, last, event);
}

bool World::may_put(const Clock& clock, int from, int to) const {
    return !session_flags_ || from == to || clock.knows({entered_component(to), 1});
}

World::MapView World::view(Agent* agent, const Instruction& i) {
    const std::string& name = plan_.maps[i.map].name;
    const std::int64_t entry = value(*agent, i.map_index);
    const std::size_t at = std::size_t(i.map + entry);
    if (entry < 0 || at >= plan_.maps.size() || plan_.maps[at].name != name)
        throw ScheduleError(fmt::format("{}: map {} has no entry {} (M = {})", i.step.where(), name, entry, run_.m));
    const MapDef& map = plan_.maps[at];
    const Environment& sizes = sizes_[agent->rank];
    MapView v{&map, sizes.value(map.base), {}, {}};
    for (int d = 0; d < 3; ++d) v.extent[d] = sizes.value(map.extent[d]);
    for (int d = 0; d < 2; ++d) v.stride[d] = sizes.value(map.stride[d]);
    if (v.extent[0] <= 0 || v.extent[1] <= 0 || v.extent[2] <= 0) {
        report("check_maps",
               fmt::format("{} uses map {}[{}], whose extent is {} x {} x {}", op_spec(i.op).mnemonic, name, entry,
                           v.extent[0], v.extent[1], v.extent[2]),
               *agent, "skip tiles without rows");
    }
    return v;
}

}  // namespace plait::interpreter
