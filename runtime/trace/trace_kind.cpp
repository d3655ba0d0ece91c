#include "runtime/trace/trace_kind.h"

namespace plait {

const char* trace_kind_name(TraceKind kind) {
    switch (kind) {
        case TraceKind::Idle:
            return "idle";
        case TraceKind::Wait:
            return "wait";
        case TraceKind::Load:
            return "load";
        case TraceKind::Compute:
            return "compute";
        case TraceKind::Store:
            return "store";
        case TraceKind::Push:
            return "push";
        case TraceKind::Send:
            return "send";
        case TraceKind::Relay:
            return "relay";
        case TraceKind::Arrived:
            return "arrived";
    }
    return "unknown";
}

}  // namespace plait
