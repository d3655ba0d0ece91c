#include "compiler/passes/lower_protocol.h"

#include "compiler/passes/block.h"
#include "compiler/passes/place_roles.h"

namespace plait {

void lower_protocol(const Choices& c, Plan* plan) {
    if (!c.communicates) return;
    ProgramDef* program = find_program(plan, "protocol_relay");
    Block b(*plan);
    b.add(Op::Trace, {"relay", "0"});
    if (c.locals > 1) {
        b.add(Op::Enter, {"epoch"});
        b.for_each("p", "1", "locals", "1", [&](Block& peers) {
            peers.signal(Op::SignalSet, {"entered", "(local + p) % locals", "rank", "epoch"}, "entered");
        });
    }
    b.add(Op::RelayDeclare, {"relay"});
    b.loop([&](Block& round) {
        round.wait(Op::RelayPoll, {"relay"}, "host_lines");
        if (c.nodes > 1) round.signal(Op::RelayTake, {"relay"}, "a_arrived");
        round.signal(Op::RelayForward, {"relay"}, "sent");
        round.add(Op::BreakIf, {"relay.finished >= " + finishing_agents(c)});
        round.add(Op::RelayIdle);
    });
    b.add(Op::Trace, {"idle", "0"});
    program->body = b.take();
}

}  // namespace plait
