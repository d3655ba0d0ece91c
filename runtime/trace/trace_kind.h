// Kinds of timeline spans; the names are the words of the Plan's trace statements.
#pragma once

namespace plait {

enum class TraceKind : unsigned { Idle = 0, Wait = 1, Load = 2, Compute = 3, Store = 4, Push = 5, Send = 6, Relay = 7, Arrived = 8 };
const char* trace_kind_name(TraceKind kind);

}  // namespace plait
