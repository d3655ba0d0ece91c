// Layouts that the emitted structs and the manifest share; the emitted source asserts them.
#include <algorithm>

#include "compiler/codegen/emit.h"
#include "runtime/base/error.h"
#include "templates/abi/kernel_args.h"

namespace plait {
namespace {

std::uint64_t align_up(std::uint64_t value, std::uint64_t alignment) {
    return (value + alignment - 1) / alignment * alignment;
}

void collect_waits(const std::vector<Statement>& body, const ProgramDef& program, const std::string& agent,
                   std::vector<PrintedWait>& waits) {
    for (const Statement& statement : body) {
        if (is_abortable_wait(statement.op)) {
            bool flag = statement.has("flag");
            waits.push_back({std::int64_t(waits.size()), program.role, agent, flag ? statement.word("flag") : "fifo", "wait"});
        }
        if (is_checked_load(statement.op)) {
            const std::string list = statement.op == Op::LoadValue ? "source" : "indices";
            waits.push_back({std::int64_t(waits.size()), program.role, agent, statement.word(list), "value"});
        }
        collect_waits(statement.body, program, agent, waits);
    }
}

}  // namespace

bool is_abortable_wait(Op op) {
    return op == Op::WaitFlag || op == Op::WaitFlags || op == Op::FifoReserve || op == Op::FifoWait;
}

bool is_checked_load(Op op) { return op == Op::LoadValue || op == Op::GatherIndex; }

std::vector<ArgsField> args_layout(const Plan& plan) {
    std::vector<ArgsField> fields{{"launch", "launch", 0, sizeof(Launch)}};
    std::uint64_t offset = sizeof(Launch);
    for (const TensorDef& tensor : plan.tensors) {
        fields.push_back({tensor.name, "tensor", offset, 8});
        offset += 8;
    }
    for (const TensorDef& tensor : plan.tensors) {
        if (!tensor.strided) continue;
        fields.push_back({tensor.pitch(), "pitch", offset, 8});
        offset += 8;
    }
    for (const ParamDef& param : plan.params) {
        fields.push_back({param.name, "param", offset, 8});
        offset += 8;
    }
    for (const MapDef& map : plan.maps) {
        bool first = map.index == 0;
        bool next = !first && fields.back().kind == "map" && fields.back().name == map.name &&
                    fields.back().bytes == std::uint64_t(map.index) * sizeof(TensorMap);
        if (!first && !next)
            throw InternalError("tensor maps of " + map.name + " do not stand in order of their index");
        if (first) {
            offset = align_up(offset, alignof(TensorMap));
            fields.push_back({map.name, "map", offset, 0});
        }
        fields.back().bytes += sizeof(TensorMap);
        offset += sizeof(TensorMap);
    }
    return fields;
}

std::uint64_t args_bytes(const Plan& plan) {
    const ArgsField last = args_layout(plan).back();
    std::uint64_t alignment = plan.maps.empty() ? alignof(Launch) : alignof(TensorMap);
    return align_up(last.offset + last.bytes, alignment);
}

std::uint64_t shared_bytes(const Plan& plan) {
    std::uint64_t offset = 0, alignment = 1;
    for (const SharedDef& shared : plan.shared) {
        std::uint64_t align = std::uint64_t(std::max<std::int64_t>(shared.align, 1));
        offset = align_up(offset, align) + std::uint64_t(shared.bytes * shared.count);
        alignment = std::max(alignment, align);
    }
    for (const BarrierDef& barrier : plan.barriers) {
        offset = align_up(offset, 8) + 8 * std::uint64_t(barrier.count);
        alignment = std::max<std::uint64_t>(alignment, 8);
    }
    return std::max<std::uint64_t>(align_up(offset, alignment), 1);
}

std::vector<PrintedWait> printed_waits(const Plan& plan) {
    std::vector<PrintedWait> waits;
    for (const ProgramDef& program : plan.programs)
        collect_waits(program.body, program, agent_names(plan, program.name), waits);
    return waits;
}

}  // namespace plait
