// Copies of an agent: what is in flight, and what it has waited for.
#include <fmt/format.h>

#include <algorithm>

#include "compiler/ir/plan_sizes.h"
#include "compiler/verify/interpreter/world.h"
#include "runtime/base/error.h"

namespace plait::interpreter {

bool World::execute_copy(Agent* agent, const Instruction& i) {
    switch (i.op) {
        case Op::LoadBoxes:
        case Op::LoadMulticast:
            load_boxes(agent, i);
            return true;
        case Op::LoadBytes:
            load_bytes(agent, i);
            return true;
        case Op::PutBytes:
            put_bytes(agent, i);
            return true;
        case Op::StoreBox:
            store_box(agent, i);
            return true;
        case Op::BulkCommit:
            agent->groups.push_back(std::move(agent->open));
            agent->open = {};
            return true;
        case Op::BulkWait:
        case Op::BulkWaitRead:
            bulk_wait(agent, std::size_t(value(*agent, i.operands[0])), i.op == Op::BulkWaitRead);
            return true;
        case Op::GatherDeclare:
            for (int n = 0; n < 3; ++n) agent->slots[i.slot + n] = 0;
            return true;
        case Op::GatherIndex:  // rows, first, count, base, low, high, split
            for (int n = 0; n < 3; ++n) agent->slots[i.slot + n] = value(*agent, i.operands[n == 0 ? 2 : 3 + n]);
            return true;
        case Op::GatherTake:
            for (int n = 0; n < 3; ++n) agent->slots[i.slot + n] = agent->slots[i.object + n];
            return true;
        case Op::GatherRows:
            gather_rows(agent, i);
            return true;
        case Op::GatherWait:
            for (const std::size_t keep = std::size_t(value(*agent, i.operands[0])); agent->gathers.size() > keep;
                 agent->gathers.pop_front())
                complete(agent, {agent->gathers.front()});
            return true;
        case Op::StoreRows:
            store_rows(agent, i);
            return true;
        case Op::StoreLogSumExp:
            store_log_sum_exp(agent, i);
            return true;
        default:
            return execute_matrix(agent, i);
    }
}

void World::bulk_wait(Agent* agent, std::size_t keep, bool reads_only) {
    for (std::size_t g = 0; g + keep < agent->groups.size(); ++g) {
        complete(agent, agent->groups[g].reads);
        agent->groups[g].reads.clear();
        if (!reads_only) complete(agent, agent->groups[g].writes);
    }
    while (!reads_only && agent->groups.size() > keep) agent->groups.pop_front();
}

// A load is complete for whoever waits for the phase of its barrier.
void World::count_bytes(Agent* agent, int cta, const Instruction& i, Time time, std::int64_t bytes) {
    const int object = element(agent, i, i.object, i.object_count, i.index, "a barrier");
    BarrierState& barrier = ctas_[agent->rank * run_.ctas + cta].barriers[object];
    if (barrier.arriving.empty()) barrier.arriving.resize(2 * agents_.size() + 2 * plan_.world);
    barrier.arriving.set(async_component(*agent), time);
    barrier.loads.push_back({async_component(*agent), time});
    barrier.bytes -= bytes;
    barrier_complete(&barrier, object);
}

void World::load_boxes(Agent* agent, const Instruction& i) {
    const std::size_t at = i.op == Op::LoadMulticast ? 1 : 0;
    const int ctas = at == 0 ? 1 : int(value(*agent, i.operands[0])), first = first_of_cluster(*agent, ctas),
              share = agent->cta - first;
    const std::int64_t rows = value(*agent, i.operands[at]) / ctas, cols = value(*agent, i.operands[at + 1]),
                       x = value(*agent, i.operands[at + 2]), y = value(*agent, i.operands[at + 3]) + share * rows,
                       z = value(*agent, i.operands[at + 4]);
    const MapView v = view(agent, i);
    if (const BufferDef* buffer = find_buffer(plan_, v.map->memory)) {
        const int number = int(buffer - plan_.buffers.data());
        const std::int64_t size = element_bytes(v.map->dtype), last_row = std::min(y + rows, v.extent[1]),
                           width = std::min(cols, v.extent[0] - x) * size;
        const std::int64_t start = v.base + z * v.stride[1] + x * size;
        const auto row_start = [&](std::int64_t row) { return start + row * v.stride[0]; };
        // The whole range first: one look-up where the rows between are complete as well.
        if (width > 0 && last_row > y &&
            !check_buffer(agent->clock, agent->rank, number, row_start(y), row_start(last_row - 1) + width, "", "")) {
            for (std::int64_t row = y; row < last_row; ++row) {
                if (!check_buffer(agent->clock, agent->rank, number, row_start(row), row_start(row) + width,
                                  place(*agent) + " load_boxes", i.step.where()))
                    break;
            }
        }
    }
    const Time time = ++agent->async_time;
    for (int cta = first; cta < first + ctas; ++cta) {
        visit(*agent, cta, {async_component(*agent), time});
        overwrite(agent, shared(agent, i, false, cta), new_event(async_component(*agent), time), i, std::size_t(share),
                  std::size_t(ctas));
        count_bytes(agent, cta, i, time, rows * ((cols + 63) / 64 * 64) * element_bytes(v.map->dtype));
    }
}

void World::load_bytes(Agent* agent, const Instruction& i) {
    const std::int64_t offset = value(*agent, i.operands[0]), bytes = value(*agent, i.operands[1]);
    if (i.buffer >= 0) {
        check_buffer(agent->clock, agent->rank, i.buffer, offset, offset + bytes, place(*agent) + " load_bytes",
                     i.step.where());
    } else {
        const TensorDef& tensor = *find_tensor(plan_, i.step.statement->word("source"));
        const Environment& sizes = sizes_[agent->rank];
        std::int64_t size = element_bytes(tensor.dtype);
        for (const Expr& dim : tensor.shape) size *= sizes.value(dim);
        const std::int64_t row = sizes.value(tensor.shape.back()) * element_bytes(tensor.dtype),
                           pitch = tensor.strided ? sizes.value(Expr::name(tensor.pitch())) : row;
        if (pitch > row) {
            size = size / row * pitch;
            if (offset >= 0 && offset % pitch + bytes > row)
                report("check_memory",
                       fmt::format("load_bytes reads [{}, {}) of tensor {}, whose rows of {} bytes lie {} apart", offset,
                                   offset + bytes, tensor.name, row, pitch),
                       *agent, "copies stay inside a row where rows lie apart");
        }
        if (offset < 0 || offset + bytes > size)
            report("check_memory",
                   fmt::format("load_bytes reads [{}, {}) of tensor {} with {} bytes", offset, offset + bytes,
                               tensor.name, size),
                   *agent, "offsets must stay inside the tensor");
    }
    if (bytes <= 0 || bytes % 16 != 0 || offset % 16 != 0)
        report("check_memory", fmt::format("bulk copy of {} bytes at offset {}", bytes, offset), *agent,
               "bulk copies take multiples of 16 bytes");
    const int array = int(std::upper_bound(code_.first_shared.begin(), code_.first_shared.end(), i.shared) -
                          code_.first_shared.begin()) -
                      1;
    if (bytes > plan_.shared[array].bytes)
        report("check_memory", fmt::format("load_bytes of {} bytes into slots of {}", bytes, plan_.shared[array].bytes),
               *agent, "a piece must fit its slot");
    const Time time = ++agent->async_time;
    overwrite(agent, shared(agent, i), new_event(async_component(*agent), time), i);
    count_bytes(agent, agent->cta, i, time, bytes);
}

void World::store_log_sum_exp(Agent* agent, const Instruction& i) {
    const TensorDef& tensor = *find_tensor(plan_, i.step.statement->word("tensor"));
    const std::int64_t index = value(*agent, i.operands[0]), rows = value(*agent, i.operands[1]),
                       width = sizes_[agent->rank].value(tensor.shape.back());
    if (width > 0 && rows > 0)
        ranks_[agent->rank].outputs[&tensor - plan_.tensors.data()].add(index / width, 1, index % width, rows);
}

// The writer of an index tensor promises a range, and every reader of an element sees the same value. A run's tables
// are of one kind: anything, the least, the most, or some of each (all rows in the last segment, in the first, in few).
std::int64_t World::promised_value(const Agent& agent, const Instruction& i, std::int64_t index, std::int64_t low,
                                   std::int64_t high) const {
    const std::string& source = i.step.statement->word("source");
    if (index < 0 || high < low)
        throw ScheduleError(fmt::format("{}: element {} of {}, promised in [{}, {}] (M = {})", i.step.where(), index,
                                        source, low, high, run_.m));
    const std::size_t mixed = std::hash<std::string>()(fmt::format("{} {} {}", source, agent.rank, index)) >> 8;
    const bool least = run_.table == 1 || (run_.table == 3 && mixed % 4 == 1),
               most = run_.table == 2 || (run_.table == 3 && mixed % 4 == 2);
    if (least || most) return least ? low : high;
    return low + std::int64_t(mixed % std::size_t(high - low + 1));
}

// Which rows the indices name is not known here: every row that may be read must be known where it was written.
void World::gather_rows(Agent* agent, const Instruction& i) {
    const std::int64_t count = agent->slots[i.slot], low = agent->slots[i.slot + 1], high = agent->slots[i.slot + 2];
    agent->gathers.push_back(pending(agent));
    overwrite(agent, shared(agent, i), agent->gathers.back(), i);
    if (count < 1)
        throw ScheduleError(fmt::format("{}: a gather of {} rows has no last one to repeat (M = {})", i.step.where(), count,
                                        run_.m));
    if (i.buffer < 0) return;
    const BufferDef& buffer = plan_.buffers[i.buffer];
    std::int64_t rows = 1;
    for (std::size_t d = 0; d + 1 < buffer.shape.size(); ++d) rows *= buffer.shape[d];
    const std::int64_t pitch = buffer.shape.back() * element_bytes(buffer.dtype);
    if (low < 0 || high < low || high > rows)
        throw ScheduleError(fmt::format("{}: rows [{}, {}) of {}, which has {} (M = {})", i.step.where(), low, high,
                                        buffer.name, rows, run_.m));
    bool known = true;
    ranks_[agent->rank].buffers[i.buffer].each(low * pitch, high * pitch, [&](int event, std::int64_t, std::int64_t) {
        known = known && (event < 0 || agent->clock.knows(events_[event]));
    });
    if (!known)
        report("check_visibility",
               fmt::format("gather_rows reads rows [{}, {}) of {} without having waited for their writer", low, high,
                           buffer.name),
               *agent, "wait for the flags of every chunk under the read");
}

void World::store_rows(Agent* agent, const Instruction& i) {
    const TensorDef& tensor = *find_tensor(plan_, i.step.statement->word("tensor"));
    const std::int64_t row = value(*agent, i.operands[0]), column = value(*agent, i.operands[1]),
                       rows = value(*agent, i.operands[2]);
    read(agent, shared(agent, i), now(agent), i);
    if (rows > 64)
        report("check_memory", fmt::format("store_rows of {} rows from a box of 64", rows), *agent, "store a box at a time");
    const std::int64_t width = std::min<std::int64_t>(64, sizes_[agent->rank].value(tensor.shape.back()) - column);
    if (rows > 0 && width > 0) ranks_[agent->rank].outputs[&tensor - plan_.tensors.data()].add(row, rows, column, width);
}

void World::put_bytes(Agent* agent, const Instruction& i) {
    const std::int64_t peer = value(*agent, i.operands[0]), offset = value(*agent, i.operands[1]),
                       bytes = value(*agent, i.operands[2]);
    if (peer < 0 || peer >= plan_.locals)
        throw ScheduleError(
            fmt::format("{}: put to local rank {} of {} (M = {})", i.step.where(), peer, plan_.locals, run_.m));
    const int to = agent->rank / int(plan_.locals) * int(plan_.locals) + int(peer);
    agent->open.reads.push_back(pending(agent));
    read(agent, shared(agent, i), agent->open.reads.back(), i);
    agent->open.writes.push_back(pending(agent));
    write_buffer(agent, to, i.buffer, offset, offset + bytes, agent->open.writes.back(), i);
}

void World::store_box(Agent* agent, const Instruction& i) {
    const std::int64_t rows = value(*agent, i.operands[0]), cols = value(*agent, i.operands[1]),
                       x = value(*agent, i.operands[2]), y = value(*agent, i.operands[3]),
                       z = value(*agent, i.operands[4]);
    const MapView v = view(agent, i);
    agent->open.reads.push_back(pending(agent));
    read(agent, shared(agent, i), agent->open.reads.back(), i);
    agent->open.writes.push_back(pending(agent));
    const std::int64_t size = element_bytes(v.map->dtype), height = std::min(rows, v.extent[1] - y),
                       width = std::min(cols, v.extent[0] - x);
    if (height <= 0 || width <= 0 || z < 0 || z >= v.extent[2]) return;  // clipped
    const std::int64_t start = v.base + z * v.stride[1] + y * v.stride[0] + x * size;
    if (const BufferDef* buffer = find_buffer(plan_, v.map->memory)) {
        for (std::int64_t row = 0; row < height; ++row) {
            const std::int64_t first = start + row * v.stride[0];
            write_buffer(agent, agent->rank, int(buffer - plan_.buffers.data()), first, first + width * size,
                         agent->open.writes.back(), i);
        }
        return;
    }
    const TensorDef& tensor = *find_tensor(plan_, v.map->memory);
    // As the map sees it: a row of several dimensions of the tensor may be one row of the map.
    const std::int64_t pitch = v.stride[0];
    Cover& cover = ranks_[agent->rank].outputs[&tensor - plan_.tensors.data()];
    if (!tensor.strided) cover.columns = pitch / size;
    cover.add(start / pitch, height, start % pitch / size, width);
}

}  // namespace plait::interpreter
