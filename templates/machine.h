// The tile machine: the interface that emitted source is written against, in words. templates/sm90/machine.cuh and
// templates/host/machine.h implement the same names; tests/templates/machine_names_test checks that they agree.
//
// Emitted source is one function per agent, agent-uniform control flow, no lane ids, no PTX, no `#if`. Its first
// argument is always `ag`. Every ordering action below marked [o] is printed by codegen from an edge of the Plan;
// no other primitive orders anything.
//
// Names in emitted source
//   types      u8 u32 u64 i64 f32 bf16 f16, Scope::{Cta,Gpu,System}, Lane::{Members,Elected}, TensorMap, Launch, Flag
//   Agent      `ag`: machine state of the agent. ag.cta, ag.ctas (i64)
//   Bytes<n>   shared memory, no type;   Barrier   an mbarrier in shared memory
//   Acc<M, N>  fp32 accumulator of one consumer warpgroup, M a multiple of 64, N of 8
//   Operand<M, K, T>  register operand of its matrix operations, made of the agent
//   Row<M>     one f32 a row of its tile, made of the agent and a value (kLowest: -inf);   RowPart<M>  sums of rows under way, 0
//   Pipe<n>    per-agent position in a ring: .slot (u32), .phase (u32, parity to wait for); pipe.advance()
//              Producer side: barrier_wait(ag, sh.x_empty[p.slot], p.phase ^ 1) passes at once on the first round.
//
// Setup
//   barrier_init(ag, bar, arrivals)            one thread
//   fence_barrier_init(ag)                 [o] before cta_barrier
//   cta_barrier(ag)                        [o] all agents of the CTA (all threads)
//   cluster_barrier(ag)                    [o] in place of cta_barrier: all agents of all CTAs of the cluster meet, and may use the
//                                               barriers of all of them behind it. Nothing else is handed on
//   kWarpgroupArrivals                         how often one warpgroup agent arrives in barrier_arrive (4 on sm90, 1 on host)
//   registers_producer<n>(), registers_consumer<n>()     setmaxnreg; nothing on the host
//
// Shared-memory pipelines
//   barrier_wait(ag, bar, parity)          [o] acquire, Cta scope
//   barrier_arrive(ag, bar)                [o] release, Cta scope; one arrival of a thread agent, kWarpgroupArrivals of a warpgroup
//   cluster_arrive<Ctas>(ag, bar)          [o] one arrival, as of barrier_arrive, at this barrier of each of the Ctas CTAs of the cluster.
//                                               Tells that what this agent has waited for is over; ordinary accesses are not handed on
//   barrier_expect(ag, bar, bytes)             arrive.expect_tx: one arrival, of the elected thread
//   ring_put(ag, slot_word, value) / ring_get(ag, slot_word) -> i64      plain shared store / load, agent-uniform
//
// Bulk copies (async proxy). Issued by thread agents or by the elected thread of a warpgroup
//   load_box<BoxRows, BoxCols, T>(ag, dst, map, x, y, z, bar)    TMA tensor load of one box of BoxCols (<= 64) columns, 128B swizzle
//   load_boxes<Rows, Cols, T>(ag, dst, map, x, y, z, bar)        ceil(Cols/64) boxes side by side, each Rows x 64
//   load_multicast<Ctas, Rows, Cols, T>(ag, dst, map, x, y, z, bar)     load_boxes of the Ctas CTAs of the cluster together: each loads
//       1/Ctas of the rows of every box, which arrive in the same place of all of them and count on the barrier in the same place
//   store_box<BoxRows, BoxCols, T>(ag, map, src, x, y, z)        TMA tensor store
//   load_bytes(ag, dst, src, bytes, bar)       global -> shared, bytes a multiple of 16
//   put_bytes(ag, dst, src, bytes)             shared -> global of this or a peer GPU
//   bulk_commit(ag)
//   bulk_wait_read<n>(ag)                  [o] sources of all but the n youngest groups may be overwritten
//   bulk_wait<n>(ag)                       [o] writes of all but the n youngest groups are complete for this thread
//   fence_async_shared(ag)                 [o] ordinary shared accesses before it are seen by bulk and matrix operations after
//   fence_async_global(ag)                 [o] the same for global memory
//   agent_sync(ag)                         [o] all threads of this warpgroup agent
//
// Lists in memory. What a list says is checked against its promise: a value outside is recorded once (StallRecord), fails
// the launch and counts as the nearer bound; nothing waits for it, and the role runs to its end.
//   load_value(ag, args, list, index, low, high, site) -> i64      element of an i32 tensor, in [low, high]
//   row_source(first, columns), row_source(first, columns, second, split)      rows of one memory or two
//   RowGather<Rows>: the rows that a warpgroup copies, a value of the agent
//   gather_index<Rows>(ag, args, source, indices, first, count, base, low, high, site) -> RowGather<Rows>      rows
//       base + indices[first + i], in [low, high); those from count on repeat the last
//   gather_rows<Rows, Cols, T>(ag, dst, gather, column)      columns [column, +Cols) of each row -> a box, zero beyond the last;
//       ordinary copies, asynchronous: one group
//   gather_wait<n>(ag)                     [o] copies of all but the n youngest groups are complete, for the threads that made them
//   store_rows<T>(ag, matrix, src, row, col, rows, width)      first `rows` rows of a 64 x 64 box, ordinary stores
//
// Matrix operations (consumer warpgroups)
//   mma_begin(ag, acc)                     [o] wgmma.fence: registers before the first issue
//   mma_issue<TileN, TransposeB, T, Boxes = 1, TransposeA = 0>(ag, acc, a, a_rows, b, accumulate)
//       acc (+)= a[from row a_rows, M x 64] b[64 x N]; a: TransposeA 0: one box of 64 columns of k; 1: [64 of k x M], boxes of 64 rows.
//       b: TransposeB 0: [N x 64 of k], one box; 1: [64 of k x N], boxes of 64 columns.
//       Boxes: as many blocks of 64 of k, a and b each in the slot after the one before
//   as_operand(ag, operand, acc)               operand = acc, rounded; no operation that reads the operand is in flight
//   mma_issue_operand<TileN, TransposeB, T>(ag, acc, operand, b, accumulate)         acc (+)= operand b; b's k 64 a slot, from b on
//   mma_commit(ag)
//   mma_wait<n>(ag, value, ...)            [o] all but the n youngest groups; names the accumulators and operands that it makes safe
//   settle(ag, part, operand ...)              a wall for the compiler's scheduling: what was computed into them stays in front of the
//                                               wait that follows. Changes nothing
//   turn_wait(ag, turn), turn_pass(ag, turn)   warpgroups compute by turns: who goes first, no order of memory. turn < 8
//   map(ag, acc, row, col, f)                  x = f(r, c, x) for every element; (row, col) is the accumulator's origin
//   join(ag, acc, other, f)                    x = f(x, y) for every element x of acc and y of other
//   stage_box<T>(ag, dst, acc, block, column)  rows [64*block, +64) of acc, columns from `column`, a multiple of a box's width, on,
//       as T -> a box of 64 rows of 128 bytes. Columns that acc lacks are left as they were in the box
//
// Row vectors and softmax (consumer warpgroups). Maxima in units of log2; scale > 0 is the attention's times log2(e)
//   acc_fill(ag, acc, value)
//   mask_cols(ag, acc, diagonal, cols)         x(i, j) = -inf where j > i + diagonal or j >= cols
//   row_rescale(ag, factor, max, acc, scale, threshold)   m = row maximum x scale where it exceeds max by more than threshold, else
//                                               max; factor = exp2(max - m), exactly 1 where they are equal; max = m
//   exp2_rows(ag, acc, scale, max)             x = exp2(x scale - max); 0 where x is -inf
//   row_sum(ag, part, factor, acc)             part = part x factor + sum of the row
//   softmax_operand(ag, operand, factor, max, part, acc, scale, threshold)     row_rescale, exp2_rows, row_sum and as_operand in
//                                               one, the same bits; acc is spent. Fast where few maxima rise
//   finish_rows(ag, sum, part)                 Row sum = the whole sum
//   scale_rows(ag, acc, factor)                x = x factor of its row
//   divide_rows(ag, acc, sum)                  x = x / sum of its row, 0 where that is 0
//   store_log_sum_exp(ag, ptr, max, sum, index, rows)     natural log-sum-exp of the first `rows` rows to ptr[index...]; -inf where sum is 0
//
// Places in the symmetric workspaces (offset: in the artifact's area; peer: local rank)
//   own_flag(args, offset, index), peer_flag(args, offset, peer, index), own_entered(args, index), peer_entered(args, peer, index)
//   own_bytes(args, offset, byte), peer_bytes(args, offset, peer, byte), tensor_bytes(ptr, byte)
//   entered_value(args, epoch) -> u64           what an entered flag holds once its rank has entered `epoch`: the launch's
//                                               signature stands below the epoch, so that ranks that disagree are told
//   entered_since(epoch) -> u64                 the least that it holds then
//   area_offset(args, offset, byte), flag_offset(args, offset, index), entered_offset(index)      for the FIFO
//
// Flags (global memory). Of a warpgroup agent the elected thread signals. An agent whose wait gave up signals no more
//   signal_set(ag, flag_ptr, value, Scope)      [o] release store
//   signal_add(ag, flag_ptr, value, Scope)      [o] release add
//   wait_flag(ag, args, flag_ptr, value, Scope, site)          [o] acquire; abortable
//   wait_flags(ag, args, first_ptr, count, value, Scope, site) [o] acquire of `count` consecutive flags; abortable
//   fetch_tile(ag, args) -> i64                 relaxed add on launch.state->next_tile; of a warpgroup in the elected thread alone
//   aborted(ag, args) -> bool                   relaxed read of launch.state->abort, agent-uniform
//
// FIFO (thread agents)
//   fifo_reserve(ag, args, site) -> i64         claims a ring position, waits until its slot is free; abortable
//   fifo_write(ag, args, position, rank, offset, bytes, signal_offset, signal_value)   plain stores of all but `sequence`
//   fifo_publish(ag, args, position, Scope) [o] release store of sequence
//   fifo_wait(ag, args, position, site)     [o] acquire: transfers before `position` are locally complete; abortable
//
// Relay (thread agent of CTA 0): the only poller of HostLines
//   Relay r(args); relay_poll(ag, args, r)  [o] acquire at System scope of abort, fifo_completed, arrivals_posted
//   r.has_arrival(); r.arrival_flag(args) -> Flag*; r.arrival_value() -> u64; relay_next(ag, args, r)
//       arrival_value is never less than what the flag holds: an unordered network may deliver an older value later
//   r.finished                                  agents_finished as of the last poll; 0 until all ranks have entered
//   relay_forward(ag, args, r, Scope)       [o] release of fifo_completed into DeviceState; hands an abort on (launch_watch.h)
//   relay_idle(ag)                              nothing to do: back off
//   agent_finished(ag, args)                [o] release add on launch.state->finished, Gpu scope
//   agents_finished(ag, args) -> i64            what it counts
//
// Launch protocol
//   enter(ag, args) -> i64                      epoch of this launch: state->epoch + 1, the same for every agent
//   count_in(ag, args)                          one thread a CTA, at its start
//   leave(ag, args) -> bool                 [o] after cta_barrier, one thread: counts the CTA out; the last one advances
//                                               the epoch and resets next_tile, finished, ctas_in, ctas_out. True in the
//                                               last CTA out of a launch that was given up
//   cta_any(ag, flag) -> bool                   all threads of the CTA: true where it was in one
//   fill_nan(ag, first, count)                  all threads of the CTA
//   fill_nan_rows(ag, first, rows, columns, pitch)   the same of rows that lie `pitch` bytes apart
//
// Pure functions: min, max, ceil_div, raster_row(u, rows, cols, group), raster_col(u, rows, cols, group),
//   add, mul, relu, gelu (erf), gelu_tanh, silu, silu_mul, to_f32, round_to<T>. arithmetic.h has those both machines share
// Operands of pointwise functions: load_at(ag, ptr, index) -> f32, one ordinary global load; col_at(ag, vector, c, cols),
//   cell_at(ag, matrix, r, c, rows, cols, pitch): rows lie `pitch` elements apart; 0 outside, without an access
// Trace: trace(ag, kind, value): a span of the timeline starts; nothing on sm90 unless the schedule asks for it.
#pragma once
