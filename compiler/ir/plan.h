// The Plan: programs that agents run, imperative, plain data, printable and parseable without loss (text.h).
//
// A Plan is complete: codegen prints it, statement by statement, and adds nothing that orders. Names are C++
// identifiers; the emitted source uses the same ones. Sizes that depend on M (rows of the problem, a launch argument)
// are expressions; storage is sized by M_max.
//
// Names every expression may use: M, the plan's params (further launch arguments), pitches of its strided tensors, rank, world, node, nodes, local,
// locals (ranks of this node), cta, ctas, epoch (after Enter), the plan's consts and lets, and what the agent's
// statements declare. Programs may also use `warpgroup`, the agent's own number in the CTA.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/base/expr.h"

namespace plait {

enum class Op {
#define PLAIT_OP(name, effect, operands, doc) name,
#include "compiler/ir/plan_ops.def"
};
enum class Effect { Control, Value, Copy, Signal, Wait, Fence, Math, Output, Trace };

struct OperandSpec {
    char kind;          // e s b m t w f u g, see plan_ops.def
    std::string name;
    bool optional;
};
struct OpSpec {
    Op op;
    std::string mnemonic;    // snake case of the row's name: wait_flags
    Effect effect;
    std::vector<OperandSpec> operands;
    bool has_body;
    std::string doc;
};
const OpSpec& op_spec(Op op);
const OpSpec* find_op(std::string_view mnemonic);   // nullptr where there is none
const std::vector<OpSpec>& all_ops();

// An operand: words (w, f, u, g) carry `word`; everything else carries `expr` (refs as Name or Index expressions).
struct Operand {
    std::string name;
    std::string word;
    Expr expr;
};

struct Statement {
    Op op;
    std::vector<Operand> operands;    // in the order of the OpSpec, absent optional ones left out
    std::vector<Statement> body;      // For, Loop, If, Map
    std::string comment;              // heading above the statement in plan and source; not part of identity or key

    const std::string& word(std::string_view operand) const;   // throws InternalError where absent
    const Expr& expr(std::string_view operand) const;
    bool has(std::string_view operand) const;
};

// Builds one statement, operands positionally: words as strings, expressions as text. "" leaves an optional operand
// out; optional ones at the end need not be given. InternalError names op, operand and what is wrong.
Statement make_statement(Op op, std::vector<std::string> operands, std::vector<Statement> body = {});

struct Constant { std::string name; std::int64_t value; };
struct LetDef { std::string name; Expr value; };      // in order of dependence

struct ParamDef {                // a launch argument beside M; the tensor extents that are exactly its name give the value
    std::string name;
    std::int64_t max = 0;        // storage and grids are sized by it
    bool positive = false;       // no launch has 0 of it
};

struct TensorDef {               // a caller's tensor
    std::string name;
    std::string dtype;           // bf16 f16 f32; i32 for lists that a plan reads
    std::vector<Expr> shape;     // of this rank's part, row-major
    bool output = false;
    bool strided = false;        // rows may lie apart: NAME_pitch, a name of every expression, is their distance in bytes
    std::string pitch() const { return name + "_pitch"; }   // a strided one's; a multiple of 16, at least a row's bytes
};
struct BufferDef {               // symmetric: same offset in every rank's workspace
    std::string name;
    std::string dtype;
    std::vector<std::int64_t> shape;      // static, sized by M_max
    std::uint64_t offset = 0;             // bytes in the artifact's area; plan_memory assigns it
};
struct FlagDef {                 // symmetric array of 64-bit flags, packed
    std::string name;
    std::int64_t count = 0;
    std::uint64_t offset = 0;
    bool session = false;        // the Session's `entered`, one line per rank, at kEnteredOffset
};
struct MapDef {                  // tensor map array entry, encoded at launch; ref `name[index]`
    std::string name;
    std::int64_t index = 0;
    std::string memory;          // tensor or buffer
    std::string dtype;
    Expr base;                   // bytes from the start of the memory
    std::vector<Expr> extent;    // 3, innermost first, elements; an extent of 0 makes the map unusable, never an error
    std::vector<Expr> stride;    // 2, bytes
    std::vector<std::int64_t> box;   // 3, elements
};
struct SharedDef {               // count x bytes of shared memory of each CTA
    std::string name;
    std::int64_t bytes = 0, count = 1, align = 16;
};
struct BarrierDef {
    std::string name;
    std::int64_t count = 1;
    std::int64_t thread_arrivals = 0, warpgroup_arrivals = 0;   // agents that arrive per phase
};

enum class ProducerKind { Store, Bulk, CopyEngine, Nic, Host, Arrive, Mma, Gather };   // who wrote (or read, for reuse edges)
enum class SignalKind { Flag, Counter, InlineTag, Barrier, Fifo };
enum class EdgeScope { Cta, Cluster, Gpu, System, Network };
enum class ConsumerKind { Load, Tma, Mma, Nic, Overwrite };
struct EdgeDef {
    std::string name;
    ProducerKind producer;
    SignalKind signal;
    EdgeScope scope;
    ConsumerKind consumer;
    std::string memory;          // what is handed over: buffer, tensor or shared ref
};

enum class AgentKind { Thread, Warpgroup };
struct AgentDef {
    std::string name;            // loader, pusher, relay, consumer0, ...
    AgentKind kind = AgentKind::Thread;
    int warpgroup = 0;           // of the CTA
    int warp = 0;                // of the warpgroup, for Thread agents
    std::vector<std::string> programs;   // run one after another; a program may be limited to some CTAs
};
// Several warpgroups may run one program, and `warpgroup` tells them apart: it is printed and compiled once.
struct ProgramDef {
    std::string name;            // C++ function; role_agent: intra_comm_pusher
    std::string role;            // compute intra_comm inter_send inter_reduce protocol
    Expr first_cta = 0;          // runs on CTAs [first_cta, last_cta)
    Expr last_cta = Expr("ctas");
    std::string source;          // user's line, a comment
    std::vector<Statement> body;
};
// Words of the enums, as the text form prints them: store, copy_engine, inline_tag, system, overwrite, warpgroup.
std::string_view word_of(ProducerKind kind);
std::string_view word_of(SignalKind kind);
std::string_view word_of(EdgeScope scope);
std::string_view word_of(ConsumerKind kind);
std::string_view word_of(AgentKind kind);
std::string_view word_of(Effect effect);

struct RoleDef {
    std::string name;
    std::string placement;       // sms, warp, phase, none
    std::int64_t sms = 0;
};

struct Plan {
    std::string name;
    std::string target;          // sm_90a, host
    std::int64_t world = 1, nodes = 1, locals = 1;
    std::int64_t m_max = 0;
    std::int64_t threads = 0;    // of a CTA
    std::int64_t producer_registers = 0, consumer_registers = 0;
    std::vector<Constant> consts;
    std::vector<ParamDef> params;
    std::vector<LetDef> lets;
    std::vector<TensorDef> tensors;
    std::vector<BufferDef> buffers;
    std::vector<FlagDef> flags;
    std::vector<MapDef> maps;
    std::vector<SharedDef> shared;
    std::vector<BarrierDef> barriers;
    std::vector<EdgeDef> edges;
    std::vector<RoleDef> roles;
    std::vector<AgentDef> agents;
    std::vector<ProgramDef> programs;
};

std::vector<const AgentDef*> agents_of(const Plan& plan, std::string_view program);   // that run it, in the plan's order
std::string agent_names(const Plan& plan, std::string_view program);                  // consumer0, consumer1; empty: nobody

}  // namespace plait
