#include "compiler/ir/plan_sizes.h"

#include <algorithm>

#include "runtime/base/error.h"

namespace plait {
namespace {

std::int64_t const_or(const Plan& plan, const char* name, std::int64_t otherwise) {
    for (const Constant& c : plan.consts) {
        if (c.name == name) return c.value;
    }
    return otherwise;
}

bool uses_state(const std::vector<Statement>& body) {
    return std::any_of(body.begin(), body.end(), [](const Statement& s) {
        switch (s.op) {
            case Op::Enter:
            case Op::FetchTile:
            case Op::SignalSet:
            case Op::SignalAdd:
            case Op::WaitFlag:
            case Op::WaitFlags:
            case Op::FifoReserve:
            case Op::FifoWrite:
            case Op::FifoPublish:
            case Op::FifoWait:
            case Op::RelayDeclare:
            case Op::AgentFinished:
            case Op::Leave:
                return true;
            default:
                return uses_state(s.body);
        }
    });
}

}  // namespace

bool uses_session_state(const Plan& plan) {
    return std::any_of(plan.programs.begin(), plan.programs.end(), [](const ProgramDef& p) { return uses_state(p.body); });
}

std::int64_t min_ctas(const Plan& plan) {
    std::int64_t ctas = cluster_ctas(plan);
    for (const RoleDef& role : plan.roles) {
        if (role.placement == "sms" && role.name != "compute") ctas += role.sms;
    }
    return ctas;
}

std::int64_t cluster_ctas(const Plan& plan) { return const_or(plan, "cluster", 1); }

std::int64_t shared_memory_bytes(const Plan& plan) {
    std::int64_t bytes = 0;
    const auto align = [&](std::int64_t to) { bytes = (bytes + to - 1) / to * to; };
    for (const SharedDef& shared : plan.shared) {
        align(std::max<std::int64_t>(shared.align, 1));
        bytes += shared.bytes * shared.count;
    }
    for (const BarrierDef& barrier : plan.barriers) {
        align(8);
        bytes += 8 * barrier.count;
    }
    std::int64_t largest = 1;
    for (const SharedDef& shared : plan.shared) largest = std::max(largest, shared.align);
    align(largest);
    return bytes;
}

std::uint64_t workspace_bytes(const Plan& plan) {
    std::uint64_t end = 0;
    for (const BufferDef& buffer : plan.buffers) {
        std::uint64_t bytes = std::uint64_t(element_bytes(buffer.dtype));
        for (std::int64_t dim : buffer.shape) bytes *= std::uint64_t(dim);
        end = std::max(end, buffer.offset + bytes);
    }
    for (const FlagDef& flag : plan.flags) {
        if (!flag.session) end = std::max(end, flag.offset + 8 * std::uint64_t(flag.count));
    }
    return end;
}

std::int64_t legal_rows(const Plan& plan, std::int64_t m) {
    const std::int64_t multiple = const_or(plan, "m_multiple", 1);
    return m / multiple * multiple;
}

std::int64_t element_bytes(const std::string& dtype) {
    if (dtype == "bf16" || dtype == "f16") return 2;
    if (dtype == "f32" || dtype == "i32") return 4;
    throw InternalError("unknown dtype " + dtype);
}

}  // namespace plait
