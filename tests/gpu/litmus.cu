// Litmus runs of the edge table's rows on a saturated link, with the sm90 machine's own primitives. On an idle link no
// mistake shows, so other CTAs push into the same link all the while, and two rows with a call left out must fail.
//
//   nvcc -std=c++17 -O2 -gencode arch=compute_90a,code=sm_90a -I . tests/gpu/litmus.cu -o litmus && ./litmus [ROUNDS]
//
// Each round the sender writes its number over the whole payload, then signals; the receiver waits, reads all of it and
// acknowledges. Prints stale rounds a row; exits 0 only if every row is clean and every planted fault was seen.
// Two GPUs with peer access; with one, the rows of NVLink are listed as not run and the load goes into its own memory.
// Rows that need a NIC are never run: nic -> fifo -> tma, nic -> fifo -> load, bulk -> fifo -> nic.
#include <cuda_runtime.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <thread>

#include "templates/sm90/machine.cuh"

using namespace plait;

namespace {

constexpr int kThreads = 256;
constexpr i64 kPieceBytes = 32768;
constexpr long long kSpinLimit = 4'000'000'000ll;   // clocks, about 2 s

enum class Producer { Bulk, Store };
enum class Consumer { Load, Tma };

struct Row {
    const char* name;
    Producer producer;
    Consumer consumer;
    Scope scope;
    bool peer;        // receiver on the other GPU
    bool add;         // counter instead of flag
    bool wait;        // bulk_wait before the signal
    bool fails;       // a planted fault: stale rounds expected
};

struct Link {
    u8* payload;
    u64 *flag, *ack, *stale, *stop, *lost;
    u64 rounds;
    i64 bytes;
};

__device__ bool spin(const u64* word, u64 value, Scope scope) {
    const long long start = clock64();
    while (ptx::load_acquire(word, scope) < value)
        if (clock64() - start > kSpinLimit) return false;
    return true;
}

__device__ Agent one_thread() {
    Agent ag = make_agent();
    ag.warpgroup = 0, ag.lane = threadIdx.x % 32;
    return ag;
}

__global__ void __launch_bounds__(kThreads) sender(Link link, Row row) {
    extern __shared__ __align__(1024) u8 shared[];
    auto& piece = *reinterpret_cast<Bytes<kPieceBytes>*>(shared);
    Agent ag = one_thread();
    __shared__ bool lost;
    if (threadIdx.x == 0) lost = false;
    for (u64 round = 1; round <= link.rounds; ++round) {
        if (row.producer == Producer::Bulk) {
            for (i64 i = threadIdx.x; i < kPieceBytes / 8; i += kThreads) reinterpret_cast<u64*>(piece.data)[i] = round;
            fence_async_shared(ag);
            __syncthreads();
            if (threadIdx.x == 0) {
                for (i64 at = 0; at < link.bytes; at += kPieceBytes) put_bytes(ag, link.payload + at, piece, kPieceBytes);
                bulk_commit(ag);
                if (row.wait) bulk_wait<0>(ag);
            }
        } else {
            for (i64 i = threadIdx.x; i < link.bytes / 16; i += kThreads) reinterpret_cast<ulonglong2*>(link.payload)[i] = {round, round};
            __syncthreads();
        }
        if (threadIdx.x == 0) {
            if (row.add) signal_add(ag, link.flag, 1, row.scope);
            else signal_set(ag, link.flag, round, row.scope);
            lost = !spin(link.ack, round, Scope::System);
            if (row.producer == Producer::Bulk) bulk_wait<0>(ag);
        }
        __syncthreads();
        if (lost) break;
    }
    if (threadIdx.x == 0) {
        if (lost) *link.lost = 1;
        ptx::store_release_sys(link.stop, 1);
    }
}

__global__ void __launch_bounds__(kThreads) receiver(Link link, Row row) {
    extern __shared__ __align__(1024) u8 shared[];
    auto& piece = *reinterpret_cast<Bytes<kPieceBytes>*>(shared);
    __shared__ Barrier bar;
    __shared__ bool lost;
    __shared__ int stale;
    Agent ag = one_thread();
    if (threadIdx.x == 0) {
        lost = false;
        barrier_init(ag, bar, 1);
        fence_barrier_init(ag);
    }
    __syncthreads();
    u32 phase = 0;
    for (u64 round = 1; round <= link.rounds; ++round) {
        if (threadIdx.x == 0) {
            stale = 0;
            lost = !spin(link.flag, round, row.scope);
            if (row.consumer == Consumer::Tma) fence_async_global(ag);
        }
        __syncthreads();
        if (lost) break;
        for (i64 at = 0; at < link.bytes; at += kPieceBytes) {
            if (row.consumer == Consumer::Tma) {
                if (threadIdx.x == 0) {
                    barrier_expect(ag, bar, kPieceBytes);
                    load_bytes(ag, piece, link.payload + at, kPieceBytes, bar);
                }
                barrier_wait(ag, bar, phase);
                phase ^= 1;
            }
            const u64* words = reinterpret_cast<const u64*>(row.consumer == Consumer::Tma ? piece.data : link.payload + at);
            for (i64 i = threadIdx.x; i < kPieceBytes / 8; i += kThreads) {
                const u64 value = row.consumer == Consumer::Tma ? words[i] : ptx::load_relaxed_sys(words + i);
                if (value != round) stale = 1;
            }
            __syncthreads();
        }
        if (threadIdx.x == 0) {
            if (stale) *link.stale += 1;
            signal_set(ag, link.ack, round, Scope::System);
        }
        __syncthreads();
    }
    if (threadIdx.x == 0 && lost) *link.lost = 1;
}

// Fills the link with stores into the other GPU until `stop`.
__global__ void saturate(ulonglong2* target, u64 words, const u64* stop) {
    const u64 stride = u64(gridDim.x) * blockDim.x;
    for (u64 pass = 0; ptx::load_acquire_sys(stop) == 0; ++pass)
        for (u64 i = u64(blockIdx.x) * blockDim.x + threadIdx.x; i < words; i += stride) target[i] = {pass, i};
}

struct Args {
    Launch launch;
};

// FIFO record: the kernel writes commands, the host checks every field.
__global__ void fifo_sender(Args args, u64 rounds, u64* stop) {
    Agent ag = one_thread();
    if (threadIdx.x != 0) return;   // a one-thread agent
    for (u64 round = 0; round < rounds; ++round) {
        const i64 position = fifo_reserve(ag, args, 0);
        fifo_write(ag, args, position, static_cast<i64>(round % 7), round * 16, static_cast<i64>(round * 3), round * 5, round * 9);
        fifo_publish(ag, args, position, Scope::System);
        if (!spin(&args.launch.host->fifo_completed, round + 1, Scope::System)) break;
        args.launch.state->fifo_completed = round + 1;
    }
    ptx::store_release_sys(stop, 1);
}

// Host lines: the host writes an arrival, then posts it; the relay's poll must see the entry.
__global__ void relay_reader(Args args, u64 rounds, u64* stale, u64* stop) {
    Agent ag = one_thread();
    if (threadIdx.x != 0) return;   // a one-thread agent
    Relay r(args);
    for (u64 round = 1; round <= rounds; ++round) {
        const long long start = clock64();
        while (!r.has_arrival() && clock64() - start < kSpinLimit) relay_poll(ag, args, r);
        if (!r.has_arrival()) break;
        const Arrival& entry = args.launch.arrivals[r.taken & (args.launch.arrival_slots - 1)];
        if (ptx::load_relaxed_sys(&entry.signal_offset) != round * 8 || ptx::load_relaxed_sys(&entry.signal_value) != round) *stale += 1;
        relay_next(ag, args, r);
        relay_forward(ag, args, r, Scope::Gpu);
    }
    ptx::store_release_sys(stop, 1);
}

#define CHECK(call)                                                                                       \
    do {                                                                                                  \
        const cudaError_t error = (call);                                                                 \
        if (error != cudaSuccess) {                                                                       \
            std::fprintf(stderr, "%s: %s\n", #call, cudaGetErrorString(error));                           \
            std::exit(2);                                                                                 \
        }                                                                                                 \
    } while (0)

template <class T>
T* allocate(int device, u64 count) {
    CHECK(cudaSetDevice(device));
    T* memory;
    CHECK(cudaMalloc(&memory, count * sizeof(T)));
    CHECK(cudaMemset(memory, 0, count * sizeof(T)));
    return memory;
}

u64 fetch(int device, const u64* word) {
    u64 value;
    CHECK(cudaSetDevice(device));
    CHECK(cudaMemcpy(&value, word, 8, cudaMemcpyDefault));
    return value;
}

struct Machine {
    cudaStream_t send, receive[2], load;
    ulonglong2* sink;
    u64* stop;
    static constexpr u64 kSinkWords = 64 << 20 >> 4;
    static constexpr int kLoaders = 24;
    int devices = 1;

    Machine() {
        CHECK(cudaGetDeviceCount(&devices));
        devices = devices < 2 ? 1 : 2;
        for (int d = 0; d < devices; ++d) {
            CHECK(cudaSetDevice(d));
            if (devices == 2) CHECK(cudaDeviceEnablePeerAccess(1 - d, 0));
            CHECK(cudaStreamCreateWithFlags(&receive[d], cudaStreamNonBlocking));
        }
        CHECK(cudaSetDevice(0));
        CHECK(cudaStreamCreateWithFlags(&send, cudaStreamNonBlocking));
        CHECK(cudaStreamCreateWithFlags(&load, cudaStreamNonBlocking));
        // Loaded before anything spins: a first launch loads its kernel, and loading waits for the device.
        cudaFuncAttributes loaded;
        CHECK(cudaSetDevice(0));
        for (auto kernel : {reinterpret_cast<const void*>(&saturate), reinterpret_cast<const void*>(&fifo_sender), reinterpret_cast<const void*>(&relay_reader)})
            CHECK(cudaFuncGetAttributes(&loaded, kernel));
        sink = allocate<ulonglong2>(devices - 1, kSinkWords);
        stop = allocate<u64>(0, 1);
        for (auto kernel : {reinterpret_cast<const void*>(&sender), reinterpret_cast<const void*>(&receiver)})
            for (int d = 0; d < devices; ++d) {
                CHECK(cudaSetDevice(d));
                CHECK(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, 160 << 10));
            }
    }
    void start_load() {
        CHECK(cudaSetDevice(0));
        CHECK(cudaMemset(stop, 0, 8));
        saturate<<<kLoaders, 1024, 0, load>>>(sink, kSinkWords, stop);
        CHECK(cudaGetLastError());
    }
    void finish() {
        for (int d = 0; d < devices; ++d) {
            CHECK(cudaSetDevice(d));
            CHECK(cudaDeviceSynchronize());
        }
    }
    // Shared memory of both CTAs keeps them off the loaders' SMs.
    u64 run(const Row& row, u64 rounds, i64 bytes) {
        const int to = row.peer ? 1 : 0;
        Link link{allocate<u8>(to, bytes), allocate<u64>(to, 1), allocate<u64>(0, 1), allocate<u64>(to, 1), stop, allocate<u64>(0, 1), rounds, bytes};
        start_load();
        Link far = link;
        u64* far_lost = allocate<u64>(to, 1);
        far.lost = far_lost;
        CHECK(cudaSetDevice(to));
        receiver<<<1, kThreads, 150 << 10, receive[to]>>>(far, row);
        CHECK(cudaGetLastError());
        CHECK(cudaSetDevice(0));
        sender<<<1, kThreads, 150 << 10, send>>>(link, row);
        CHECK(cudaGetLastError());
        finish();
        const u64 stale = fetch(to, link.stale);
        if (fetch(0, link.lost) || fetch(to, far_lost)) std::printf("  (a signal was lost)\n");
        for (void* memory : {static_cast<void*>(link.payload), static_cast<void*>(link.flag), static_cast<void*>(link.ack), static_cast<void*>(link.stale), static_cast<void*>(link.lost), static_cast<void*>(far_lost)})
            CHECK(cudaFree(memory));
        return stale;
    }
};

struct HostMemory {
    HostLines* lines;
    TransferCommand* fifo;
    Arrival* arrivals;
    static constexpr u64 kSlots = 64;
    Args args{};

    HostMemory() {
        CHECK(cudaHostAlloc(&lines, sizeof(HostLines), cudaHostAllocMapped | cudaHostAllocPortable));
        CHECK(cudaHostAlloc(&fifo, kSlots * sizeof(TransferCommand), cudaHostAllocMapped | cudaHostAllocPortable));
        CHECK(cudaHostAlloc(&arrivals, kSlots * sizeof(Arrival), cudaHostAllocMapped | cudaHostAllocPortable));
        *lines = {};
        for (u64 i = 0; i < kSlots; ++i) fifo[i] = {}, arrivals[i] = {};
        args.launch.state = allocate<DeviceState>(0, 1);
        args.launch.host = lines, args.launch.fifo = fifo, args.launch.arrivals = arrivals;
        args.launch.fifo_slots = args.launch.arrival_slots = kSlots;
        args.launch.workspace[0] = allocate<u8>(0, 1 << 20);
        args.launch.entry_deadline_ns = 600'000'000'000, args.launch.wait_deadline_ns = 2'000'000'000;
        args.launch.world = args.launch.nodes = args.launch.local_ranks = 1;
    }
};

u64 run_fifo(Machine& machine, u64 rounds) {
    HostMemory host;
    machine.start_load();
    fifo_sender<<<1, 32, 0, machine.send>>>(host.args, rounds, machine.stop);
    CHECK(cudaGetLastError());
    u64 stale = 0;
    for (u64 round = 0; round < rounds; ++round) {
        TransferCommand& c = host.fifo[round % HostMemory::kSlots];
        for (u64 polls = 0; std::atomic_ref<u64>(c.sequence).load(std::memory_order_acquire) != round + 1; ++polls)
            if (polls > 2'000'000'000) return rounds;
        if (c.destination_rank != round % 7 || c.source_offset != round * 16 || c.bytes != round * 3 || c.signal_offset != round * 5 || c.signal_value != round * 9) ++stale;
        std::atomic_ref<u64>(host.lines->fifo_completed).store(round + 1, std::memory_order_release);
    }
    machine.finish();
    return stale;
}

u64 run_relay(Machine& machine, u64 rounds) {
    HostMemory host;
    u64* stale = allocate<u64>(0, 1);
    machine.start_load();
    relay_reader<<<1, 32, 0, machine.send>>>(host.args, rounds, stale, machine.stop);
    CHECK(cudaGetLastError());
    for (u64 round = 1; round <= rounds; ++round) {
        for (u64 polls = 0; round - 1 - std::atomic_ref<u64>(host.lines->arrivals_taken).load(std::memory_order_acquire) >= HostMemory::kSlots; ++polls)
            if (polls > 2'000'000'000) return rounds;
        host.arrivals[(round - 1) % HostMemory::kSlots] = {round * 8, round};
        std::atomic_ref<u64>(host.lines->arrivals_posted).store(round, std::memory_order_release);
    }
    machine.finish();
    return fetch(0, stale);
}

}  // namespace

int main(int argc, char** argv) {
    const u64 rounds = argc > 1 ? std::strtoull(argv[1], nullptr, 10) : 4000;
    Machine machine;
    const Row rows[] = {
        {"bulk -> flag (system) -> tma, NVLink", Producer::Bulk, Consumer::Tma, Scope::System, true, false, true, false},
        {"bulk -> flag (system) -> load, NVLink", Producer::Bulk, Consumer::Load, Scope::System, true, false, true, false},
        {"store -> flag (system) -> load, NVLink", Producer::Store, Consumer::Load, Scope::System, true, false, true, false},
        {"store -> flag (system) -> tma, NVLink", Producer::Store, Consumer::Tma, Scope::System, true, false, true, false},
        {"arrive -> counter (system) -> tma, NVLink", Producer::Bulk, Consumer::Tma, Scope::System, true, true, true, false},
        {"bulk -> flag (gpu) -> tma, one GPU", Producer::Bulk, Consumer::Tma, Scope::Gpu, false, false, true, false},
        {"bulk -> flag (gpu) -> load, one GPU", Producer::Bulk, Consumer::Load, Scope::Gpu, false, false, true, false},
        {"store -> flag (gpu) -> load, one GPU", Producer::Store, Consumer::Load, Scope::Gpu, false, false, true, false},
        {"store -> flag (gpu) -> tma, one GPU", Producer::Store, Consumer::Tma, Scope::Gpu, false, false, true, false},
        {"arrive -> counter (gpu) -> load, one GPU", Producer::Store, Consumer::Load, Scope::Gpu, false, true, true, false},
        {"PLANTED bulk without bulk_wait -> flag (system) -> load, NVLink", Producer::Bulk, Consumer::Load, Scope::System, true, false, false, true},
        {"PLANTED bulk without bulk_wait -> flag (system) -> tma, NVLink", Producer::Bulk, Consumer::Tma, Scope::System, true, false, false, true},
    };
    int bad = 0;
    for (const Row& row : rows) {
        if (row.peer && machine.devices < 2) {
            std::printf("%-66s not run: it needs two GPUs\n", row.name);
            continue;
        }
        const u64 small = machine.run(row, rounds, kPieceBytes), large = machine.run(row, rounds, 4 * kPieceBytes);
        const bool ok = row.fails ? small + large > 0 : small + large == 0;
        bad += !ok;
        std::printf("%-66s stale rounds %5llu of %llu (32 KiB), %5llu of %llu (128 KiB)  %s\n", row.name, small, rounds, large, rounds, ok ? "ok" : "FAILED");
        std::fflush(stdout);
    }
    for (auto [name, stale] : {std::pair{"store -> fifo (system) -> host, pinned memory", run_fifo(machine, rounds)}, std::pair{"host -> counter (system) -> load, pinned memory (relay)", run_relay(machine, rounds)}}) {
        bad += stale != 0;
        std::printf("%-66s stale rounds %5llu of %llu  %s\n", name, stale, rounds, stale ? "FAILED" : "ok");
    }
    std::printf("not run, they need a NIC: nic -> fifo -> tma; nic -> fifo -> load; bulk -> fifo -> nic\n");
    return bad != 0;
}
