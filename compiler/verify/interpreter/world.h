// The interpreted cluster: all agents of all CTAs of all ranks, their clocks, and what they share.
//
// Nothing here has data. Flags, barriers, ring words and the FIFO have values; memory has events (who wrote, who read,
// complete or not). An agent runs until it must wait; when none can run and some have not ended, that is a deadlock.
#pragma once
#include <deque>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "compiler/ir/diagnostic.h"
#include "compiler/verify/environment.h"
#include "compiler/verify/interpreter/code.h"
#include "compiler/verify/interpreter/memory.h"

namespace plait::interpreter {

// The launch interpreted is epoch 3: both banks have been used, flags stand at what the launch before left.
inline constexpr std::int64_t kEpoch = 3;
inline constexpr std::int64_t kFifoSlots = 8;  // few, so that a full ring happens

struct Run {
    std::int64_t m = 0, ctas = 1;
    bool reverse = false;  // order in which agents are tried
    std::int64_t max_steps = 3'000'000;
    int table = 0;  // kind of the values in lists, see promised_value
    std::map<std::string, std::int64_t> params = {};   // launch arguments beside M
    std::int64_t row_gap = 0;                          // bytes between the rows of strided tensors
};

struct Group {
    std::vector<int> reads, writes;
};

struct Agent {
    int id = 0, rank = 0, cta = 0;
    const AgentDef* definition = nullptr;
    std::vector<int> programs;  // that run on this CTA
    std::size_t program = 0;
    int pc = 0;
    std::vector<std::int64_t> slots;
    Clock clock;
    Time time = 0, async_time = 0;
    Group open;  // bulk copies of no group yet
    std::deque<Group> groups;
    std::vector<int> mma_open;
    std::deque<std::vector<int>> mma_groups;
    std::deque<int> gathers;  // row gathers in flight, a group each
    std::size_t mma_committed = 0;
    std::vector<std::size_t> values;  // by accumulator or operand: youngest group that uses it, from 1; 0: safe to touch
    std::int64_t seen_posted = 0, seen_completed = 0, seen_finished = 0;  // relay: as of its last poll
    bool done() const { return program >= programs.size(); }
};

struct BarrierState {
    std::int64_t arrivals = 0, bytes = 0, phase = 0;
    Clock arriving, completed;
    std::vector<Event> loads, last_loads;  // that the current phase and the one before it count
};
struct FlagState {
    std::int64_t value = kEpoch - 1;
    int reach = 1;  // scope that a waiter needs: 1 gpu, 2 system
    Clock clock;
};
struct Command {
    int rank = 0, buffer = -1, flag = -1;
    std::int64_t offset = 0, bytes = 0, value = 0;
    bool published = false;
    Clock clock;
    const Step* step = nullptr;
};
struct Arrival {
    int flag;
    std::int64_t value;
    Clock clock;
};

struct RankState {
    std::vector<FlagState> flags;
    std::vector<Region> buffers;
    std::vector<Cover> outputs;  // by tensor
    std::map<std::int64_t, Command> commands;
    std::int64_t next_tile = 0, next_position = 0, taken = 0, forwarded = 0, waited_position = 0, finished = 0;
    Clock forwarded_clock, nic_clock;
    Time nic_time = 0;
    std::deque<Arrival> arrivals;  // posted, not taken; `posted` counts all of them
    std::int64_t posted = 0;
    std::set<int> awaited_session_flags;
};
struct CtaState {
    std::vector<SharedSlot> shared;
    std::vector<BarrierState> barriers;
    std::set<std::int64_t> turns;  // passed and not taken
    // By agents of other CTAs, arrivals at its barriers and loads into its memory: the last time, by component.
    std::map<std::uint32_t, Time> visits;
};

class World {
public:
    World(const Code& code, const Run& run);
    Diagnostics interpret();
    // Steps, weighted by the length of a clock.
    std::int64_t cost() const { return steps_ + steps_ * std::int64_t(agents_.size()) / 200; }

private:
    enum class Result { Next, Blocked };

    // world.cpp
    void start(Agent* agent);
    bool advance(Agent* agent);  // true if anything moved
    void deadlock();
    std::string waits_for(const Agent& agent) const;
    void at_end();
    void entry_signal(int rank, int flag);
    bool outlives_its_visits(std::size_t cta);
    void report(const char* rule, const std::string& message, const Agent& agent, const std::string& hint);
    void report_at(const char* rule, const std::string& message, const std::string& where, const std::string& hint);
    std::string place(const Agent& agent) const;

    // step.cpp: one instruction
    Result execute(Agent* agent, const Instruction& i);
    Result wait_flags(Agent* agent, const Instruction& i, std::int64_t index, std::int64_t count, std::int64_t value);
    void signal(Agent* agent, const Instruction& i, bool add);
    void barrier_arrive(Agent* agent, const Instruction& i);
    void barrier_expect(Agent* agent, const Instruction& i);
    int first_of_cluster(const Agent& agent, std::int64_t ctas) const;
    void visit(const Agent& agent, int cta, const Event& event);
    // copy.cpp: copies and matrix operations
    bool execute_copy(Agent* agent, const Instruction& i);  // false: not one of its ops
    void barrier_complete(BarrierState* barrier, int object);
    void count_bytes(Agent* agent, int cta, const Instruction& i, Time time, std::int64_t bytes);
    void load_boxes(Agent* agent, const Instruction& i);
    void load_bytes(Agent* agent, const Instruction& i);
    void put_bytes(Agent* agent, const Instruction& i);
    void store_log_sum_exp(Agent* agent, const Instruction& i);
    void gather_rows(Agent* agent, const Instruction& i);
    void store_rows(Agent* agent, const Instruction& i);
    std::int64_t promised_value(const Agent& agent, const Instruction& i, std::int64_t index, std::int64_t low,
                                std::int64_t high) const;
    void store_box(Agent* agent, const Instruction& i);
    // matrix.cpp: what is in flight of matrix operations
    bool execute_matrix(Agent* agent, const Instruction& i);  // false: not one of its ops
    void mma_read(Agent* agent, const Instruction& i, bool second);
    void mma_wait(Agent* agent, const Instruction& i);
    void check_release(Agent* agent, const Instruction& i, std::int64_t index);
    void bulk_wait(Agent* agent, std::size_t pending, bool reads_only);

    // access.cpp: memory
    std::int64_t value(const Agent& agent, const CompiledExpr& expr) const { return expr.evaluate(agent.slots.data()); }
    int element(Agent* agent, const Instruction& i, int first, int count, const CompiledExpr& index, const char* what);
    SharedSlot* shared(Agent* agent, const Instruction& i, bool second = false, int cta = -1);  // cta: -1: its own
    int new_event(std::uint32_t component, Time time);
    int now(Agent* agent) { return new_event(std::uint32_t(agent->id), ++agent->time); }
    int pending(Agent* agent) { return new_event(std::uint32_t(agent->id), kPending); }
    void complete(Agent* agent, const std::vector<int>& events);
    void overwrite(Agent* agent, SharedSlot* slot, int event, const Instruction& i, std::size_t part = 0,
                   std::size_t parts = 1);
    void read(Agent* agent, SharedSlot* slot, int event, const Instruction& i);
    bool check_buffer(const Clock& clock, int rank, int buffer, std::int64_t first, std::int64_t last,
                      const std::string& who, const std::string& where);
    void write_buffer(Agent* agent, int rank, int buffer, std::int64_t first, std::int64_t last, int event,
                      const Instruction& i);
    bool may_put(const Clock& clock, int from, int to) const;
    struct MapView {
        const MapDef* map;
        std::int64_t base, extent[3], stride[2];
    };
    MapView view(Agent* agent, const Instruction& i);

    // network.cpp: FIFO, NIC, relay
    Result execute_fifo(Agent* agent, const Instruction& i);
    bool network_step(int rank);
    void relay_take(Agent* agent, const Instruction& i);
    std::int64_t completed(int rank) const { return ranks_[rank].taken; }

    std::uint32_t async_component(const Agent& agent) const { return std::uint32_t(agents_.size()) + agent.id; }
    std::uint32_t nic_component(int rank) const { return std::uint32_t(2 * agents_.size()) + rank; }
    std::uint32_t entered_component(int rank) const { return nic_component(rank) + std::uint32_t(plan_.world); }

    const Code& code_;
    const Plan& plan_;
    Run run_;
    std::vector<RankState> ranks_;
    std::vector<Environment> sizes_;  // by rank
    std::vector<CtaState> ctas_;      // by rank * ctas + cta
    std::vector<Agent> agents_;
    std::vector<Event> events_;
    std::int64_t steps_ = 0;
    bool moved_ = false, session_flags_ = false;
    std::set<std::string> scattered_;  // outputs whose rows a tile list names: covering them is its writer's promise
    Diagnostics findings_;
    std::set<std::string> reported_;
};

}  // namespace plait::interpreter
