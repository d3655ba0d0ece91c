// Runs an artifact through the Session on real GPUs and checks what comes out. Needs no torch, no CUDA toolkit.
//
//   gpu_session DIR [--m M] [--launches I] [--devices D] [--sm-budget C] [--network ordered|unordered]
//               [--activation NAME] [--bursts B] [--wait-seconds S] [--rows R] [--tile-m T] [--tile-n T]
//               [--dump DIR] [--seed S] [--graph]
//
// DIR was written by plaitc for sm_90a. Its ranks are threads of this process, rank r on device r mod D. Phase 1: I
// launches, each with other inputs, NaN in the output and in every receive buffer before, checked against the CPU
// after. Phase 2: B bursts of one launch per input set back to back, outputs NaN before, each compared bit for bit with
// the set's checked output. Phase 3: I launches back to back, timed by events; with --graph the same through captured
// graphs. Exit code 0 only if all was right. --dump writes a, b, c of set 0 of every rank for a check elsewhere.
#include <fmt/format.h>

#include <barrier>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <mutex>
#include <set>
#include <thread>

#include "runtime/artifact/artifact.h"
#include "runtime/base/dl.h"
#include "runtime/base/error.h"
#include "runtime/session/bind.h"
#include "runtime/session/session.h"
#include "tests/gpu/reference.h"

namespace plait::gpu_test {
namespace {

struct Options {
    std::string artifact, activation, dump;
    std::int64_t m = -1, launches = 20, bursts = 25, wait_seconds = 10, rows = 256, tile_m = 128, tile_n = 128;
    int devices = 0, sm_budget = 0;
    std::uint64_t seed = 1;
    bool graph = false;
    NetworkContract network = NetworkContract::Ordered;
};

Options parse(int argc, char** argv) {
    Options options;
    for (int i = 1; i < argc; ++i) {
        const std::string name = argv[i];
        if (name.rfind("--", 0) != 0) {
            options.artifact = name;
            continue;
        }
        if (name == "--graph") {
            options.graph = true;
            continue;
        }
        if (i + 1 >= argc) throw ArgumentError(fmt::format("{} needs a value", name));
        const std::string value = argv[++i];
        if (name == "--m")
            options.m = std::stoll(value);
        else if (name == "--launches")
            options.launches = std::stoll(value);
        else if (name == "--bursts")
            options.bursts = std::stoll(value);
        else if (name == "--wait-seconds")
            options.wait_seconds = std::stoll(value);
        else if (name == "--devices")
            options.devices = std::stoi(value);
        else if (name == "--sm-budget")
            options.sm_budget = std::stoi(value);
        else if (name == "--network")
            options.network = value == "unordered" ? NetworkContract::Unordered : NetworkContract::Ordered;
        else if (name == "--activation")
            options.activation = value;
        else if (name == "--rows")
            options.rows = std::stoll(value);
        else if (name == "--tile-m")
            options.tile_m = std::stoll(value);
        else if (name == "--tile-n")
            options.tile_n = std::stoll(value);
        else if (name == "--dump")
            options.dump = value;
        else if (name == "--seed")
            options.seed = std::stoull(value);
        else
            throw ArgumentError(fmt::format("unknown option {}", name));
    }
    if (options.artifact.empty()) throw ArgumentError("no artifact directory given");
    return options;
}

// Entries that the Session does not use: graphs.
struct Graphs {
    Library library = Library::open("graphs", {"libcuda.so.1"});
    cu::Result (*begin)(cu::Stream, cu::CaptureMode);
    cu::Result (*end)(cu::Stream, void**);
    cu::Result (*instantiate)(void**, void*, unsigned long long);
    cu::Result (*launch)(void*, cu::Stream);
    Graphs()
        : begin(library.function<cu::Result(cu::Stream, cu::CaptureMode)>("cuStreamBeginCapture_v2")),
          end(library.function<cu::Result(cu::Stream, void**)>("cuStreamEndCapture")),
          instantiate(library.function<cu::Result(void**, void*, unsigned long long)>("cuGraphInstantiateWithFlags")),
          launch(library.function<cu::Result(void*, cu::Stream)>("cuGraphLaunch")) {
        library.keep_loaded();
    }
};

constexpr int kSets = 3;  // input sets that take turns

struct RankData {
    int device = 0;
    cu::Context context = nullptr;
    cu::Stream stream = nullptr;
    std::vector<cu::DevicePointer> tensors[kSets];        // by set, in the manifest's order
    std::vector<std::vector<std::uint16_t>> host[kSets];  // inputs; outputs read back
    std::vector<double> milliseconds;
    std::string error;
};

class Run {
public:
    Run(Options options, Artifact artifact)
        : options_(std::move(options)),
          artifact_(std::move(artifact)),
          manifest_(artifact_.manifest),
          world_(static_cast<int>(manifest_.world)),
          m_(options_.m < 0 ? manifest_.m_max : options_.m),
          ranks_(world_),
          sessions_(world_),
          sync_(world_) {
        driver_ = open_cuda_driver();
        if (options_.devices == 0) call(driver_->device_count(&options_.devices), "counting devices");
    }

    int go() {
        fmt::print("{}: M = {}, N = {}, K = {}, {}x{} ranks on {} devices\n", manifest_.name, m_, manifest_.n,
                   manifest_.k, manifest_.nodes, manifest_.locals, options_.devices);
        on_ranks([this](int rank) { set_up(rank); });
        on_ranks([this](int rank) { checked_launches(rank); });
        on_ranks([this](int rank) { bursts(rank); });
        on_ranks([this](int rank) { timed_launches(rank, "stream", [this, rank](int set) { launch(rank, set); }); });
        if (options_.graph) on_ranks([this](int rank) { graph_launches(rank); });
        report_times();
        if (!options_.dump.empty()) dump();
        on_ranks([this](int rank) { sessions_[rank].reset(); });
        fmt::print(
            "{}: {} elements wrong in {} checks of {} rows a rank and {} whole outputs compared; worst error per tile "
            "{:.3e}\n",
            wrong_ == 0 ? "PASS" : "FAIL", wrong_, checks_, rows_to_check().size(), compared_, worst_);
        return wrong_ == 0 ? 0 : 1;
    }

private:
    void call(cu::Result result, const char* what) const { check_driver(*driver_, result, what); }

    // A rank's failure must not leave the others at a barrier: the process ends with its message.
    void on_ranks(const std::function<void(int)>& body) {
        std::vector<std::thread> threads;
        for (int rank = 0; rank < world_; ++rank) {
            threads.emplace_back([&, rank] {
                try {
                    if (ranks_[rank].context) call(driver_->context_push(ranks_[rank].context), "context");
                    body(rank);
                } catch (const Error& error) {
                    fmt::print(stderr, "rank {}: {}: {}{}\n", rank, error.kind(), error.message(),
                               error.hint().empty() ? "" : " | " + error.hint());
                    std::fflush(nullptr);
                    std::_Exit(2);
                }
            });
        }
        for (std::thread& thread : threads) thread.join();
    }

    void set_up(int rank) {
        RankData& own = ranks_[rank];
        own.device = rank % options_.devices;
        cu::Device device;
        call(driver_->device_get(&device, own.device), "device");
        call(driver_->primary_context_retain(&own.context, device), "context");
        call(driver_->context_push(own.context), "context");
        call(driver_->stream_create(&own.stream, cu::kStreamNonBlocking), "stream");
        Topology topology = Topology::simulated(fmt::format("{}x{}", manifest_.nodes, manifest_.locals));
        topology.arch = manifest_.arch;
        SessionOptions session;
        session.device = own.device;
        session.sm_budget = options_.sm_budget;
        session.network = options_.network;
        session.wait_deadline_ns = static_cast<std::uint64_t>(options_.wait_seconds) * 1'000'000'000;
        session.workspace_bytes = manifest_.workspace_bytes + (4u << 20);
        sessions_[rank] = Session::create(topology, rank, rendezvous_, driver_, session);
        sessions_[rank]->attach(artifact_);
        const auto shapes = tensor_shapes(manifest_, place(rank), m_);
        for (int set = 0; set < kSets; ++set) {
            for (std::size_t i = 0; i < shapes.size(); ++i) {
                std::int64_t elements = 1;
                for (std::int64_t extent : shapes[i]) elements *= extent;
                own.host[set].emplace_back(elements);
                own.tensors[set].push_back(0);
                call(driver_->memory_alloc(&own.tensors[set][i], std::max<std::size_t>(2 * elements, 16)), "tensor");
                if (!manifest_.tensors[i].output)
                    fill_inputs(own.host[set][i], options_.seed + 1000 * set + 100 * i + rank, bf16());
            }
        }
    }

    RankPlace place(int rank) const {
        return place_of(rank, static_cast<int>(manifest_.nodes), static_cast<int>(manifest_.locals));
    }
    bool bf16() const { return manifest_.tensors[0].dtype == "bf16"; }

    void upload(int rank, int set) {
        for (std::size_t i = 0; i < manifest_.tensors.size(); ++i) {
            auto& values = ranks_[rank].host[set][i];
            if (manifest_.tensors[i].output || values.empty()) continue;
            call(driver_->copy_async(ranks_[rank].tensors[set][i], reinterpret_cast<cu::DevicePointer>(values.data()),
                                     2 * values.size(), ranks_[rank].stream),
                 "upload");
        }
    }

    // NaN of either type is all ones. Receive buffers only while nobody launches: peers may be a launch ahead.
    void poison_outputs(int rank, int set) {
        for (std::size_t i = 0; i < manifest_.tensors.size(); ++i) {
            if (!manifest_.tensors[i].output) continue;
            call(driver_->set_bytes_async(ranks_[rank].tensors[set][i], 0xff, 2 * ranks_[rank].host[set][i].size(),
                                          ranks_[rank].stream),
                 "poison");
        }
    }

    void launch(int rank, int set) {
        const auto shapes = tensor_shapes(manifest_, place(rank), m_);
        RankTensors tensors;
        for (std::size_t i = 0; i < shapes.size(); ++i) {
            tensors.push_back(
                {reinterpret_cast<void*>(ranks_[rank].tensors[set][i]), manifest_.tensors[i].dtype, shapes[i]});
        }
        sessions_[rank]->launch(0, m_, tensors, ranks_[rank].stream);
    }

    void finish(int rank) {
        call(driver_->stream_synchronize(ranks_[rank].stream), "waiting for the launch");
        sessions_[rank]->check();
    }

    void read_back(int rank, int set) {
        for (std::size_t i = 0; i < manifest_.tensors.size(); ++i) {
            auto& values = ranks_[rank].host[set][i];
            if (!manifest_.tensors[i].output || values.empty()) continue;
            call(driver_->copy_async(reinterpret_cast<cu::DevicePointer>(values.data()), ranks_[rank].tensors[set][i],
                                     2 * values.size(), ranks_[rank].stream),
                 "read back");
        }
        call(driver_->stream_synchronize(ranks_[rank].stream), "read back");
    }

    void checked_launches(int rank) {
        for (std::int64_t i = 0; i < options_.launches; ++i) {
            const int set = static_cast<int>(i % kSets);
            for (std::size_t t = 0; t < manifest_.tensors.size(); ++t) {
                if (!manifest_.tensors[t].output && i >= kSets)
                    fill_inputs(ranks_[rank].host[set][t], options_.seed + 7919 * i + 100 * t + rank, bf16());
            }
            upload(rank, set);
            poison_outputs(rank, set);
            sessions_[rank]->poison_receive_buffers();
            call(driver_->stream_synchronize(ranks_[rank].stream), "poison");
            sync_.arrive_and_wait();
            launch(rank, set);
            finish(rank);
            read_back(rank, set);
            sync_.arrive_and_wait();  // every rank's inputs are final, every output is there
            judge(rank, set, fmt::format("launch {}", i));
            sync_.arrive_and_wait();
        }
    }

    // Launches that do not wait for each other: a peer may be a launch ahead or behind.
    void bursts(int rank) {
        std::vector<std::vector<std::uint16_t>> checked(kSets);
        for (std::int64_t burst = 0; burst < options_.bursts; ++burst) {
            for (int set = 0; set < kSets; ++set) {
                if (burst == 0) upload(rank, set);
                poison_outputs(rank, set);
            }
            for (int set = 0; set < kSets; ++set) launch(rank, set);
            finish(rank);
            for (int set = 0; set < kSets; ++set) {
                read_back(rank, set);
                const auto& output = *tensor(rank, set, "c");
                if (burst == 0) {
                    sync_.arrive_and_wait();
                    judge(rank, set, fmt::format("first burst, set {}", set));
                    checked[set] = output;
                } else {
                    compare(rank, set, burst, output, checked[set]);
                }
            }
        }
    }

    void compare(int rank, int set, std::int64_t burst, const std::vector<std::uint16_t>& output,
                 const std::vector<std::uint16_t>& checked) {
        std::int64_t different = 0, first = -1;
        for (std::size_t i = 0; i < output.size(); ++i) {
            if (output[i] == checked[i]) continue;
            if (different++ == 0) first = static_cast<std::int64_t>(i);
        }
        const std::lock_guard lock(mutex_);
        ++compared_;
        wrong_ += different;
        if (different > 0) {
            fmt::print(
                "rank {}, burst {}, set {}: {} elements differ from the checked output, first at row {}, column {}\n",
                rank, burst, set, different, first / manifest_.n, first % manifest_.n);
        }
    }

    std::vector<std::int64_t> rows_to_check() const {
        std::set<std::int64_t> rows;
        const std::int64_t shard = std::max<std::int64_t>((m_ + world_ - 1) / world_, 1);
        for (std::int64_t q = 0; q < world_; ++q) {  // the edges of every shard, then evenly
            for (std::int64_t row : {q * shard, q * shard + 1, (q + 1) * shard - 1}) {
                if (row < m_) rows.insert(row);
            }
        }
        for (std::int64_t i = 0; i < std::min(options_.rows, m_); ++i)
            rows.insert(i * m_ / std::min(options_.rows, m_));
        return {rows.begin(), rows.end()};
    }

    const std::vector<std::uint16_t>* tensor(int rank, int set, const std::string& name) const {
        for (std::size_t i = 0; i < manifest_.tensors.size(); ++i) {
            if (manifest_.tensors[i].name == name) return &ranks_[rank].host[set][i];
        }
        return nullptr;
    }

    void judge(int rank, int set, const std::string& what) {
        std::vector<std::uint16_t> gathered;
        for (int q = 0; q < world_; ++q) {
            const auto& shard = *tensor(q, set, "a");
            gathered.insert(gathered.end(), shard.begin(), shard.end());
        }
        const auto data = [&](const char* name) {
            const auto* values = tensor(rank, set, name);
            return values ? values->data() : nullptr;
        };
        const auto b_shape = tensor_shapes(manifest_, place(rank), m_)[1];
        Matmul problem = {m_,
                          manifest_.n,
                          manifest_.k,
                          gathered.data(),
                          data("b"),
                          b_shape[0] == manifest_.n && b_shape[1] == manifest_.k && manifest_.n != manifest_.k,
                          bf16(),
                          data("bias"),
                          data("residual"),
                          options_.activation,
                          {}};
        problem.prepare();
        const int threads = std::max(1u, std::thread::hardware_concurrency() / world_);
        const Verdict verdict =
            verify(problem, *tensor(rank, set, "c"), rows_to_check(), options_.tile_m, options_.tile_n, threads);
        const std::lock_guard lock(mutex_);
        ++checks_;
        wrong_ += verdict.wrong_elements;
        worst_ = std::max(worst_, verdict.worst_tile_error);
        if (verdict.wrong_elements > 0) {
            fmt::print("rank {}, {}: {} elements wrong in {} of {} tiles, worst tile at row {}, column {}: {:.3e}\n",
                       rank, what, verdict.wrong_elements, verdict.wrong_tiles, verdict.tiles, verdict.worst_row,
                       verdict.worst_column, verdict.worst_tile_error);
        }
    }

    void timed_launches(int rank, const char* how, const std::function<void(int)>& enqueue) {
        RankData& own = ranks_[rank];
        cu::Event start, end;
        call(driver_->event_create(&start, cu::kEventDefault), "event");
        call(driver_->event_create(&end, cu::kEventDefault), "event");
        // Uploads first: a copy from pageable memory behind a launch waits for it inside the driver, and where the ranks
        // share a context the peer's launch, which this one waits for, cannot be enqueued meanwhile.
        for (int set = 0; set < kSets; ++set) {
            upload(rank, set);
            poison_outputs(rank, set);
        }
        finish(rank);
        sync_.arrive_and_wait();
        for (int set = 0; set < kSets; ++set) enqueue(set);
        finish(rank);
        sync_.arrive_and_wait();
        call(driver_->event_record(start, own.stream, 0), "event");
        for (std::int64_t i = 0; i < options_.launches; ++i) enqueue(static_cast<int>(i % kSets));
        call(driver_->event_record(end, own.stream, 0), "event");
        finish(rank);
        float milliseconds = 0;
        call(driver_->event_elapsed(&milliseconds, start, end), "event");
        own.milliseconds.push_back(milliseconds / static_cast<double>(options_.launches));
        driver_->event_destroy(start);
        driver_->event_destroy(end);
        for (int set = 0; set < kSets; ++set) read_back(rank, set);
        sync_.arrive_and_wait();
        for (int set = 0; set < kSets; ++set) judge(rank, set, fmt::format("back to back ({}), set {}", how, set));
        sync_.arrive_and_wait();
    }

    void graph_launches(int rank) {
        const Graphs graphs;
        void* replay[kSets] = {};
        for (int set = 0; set < kSets; ++set) {
            void* graph = nullptr;
            call(graphs.begin(ranks_[rank].stream, cu::CaptureMode::ThreadLocal), "begin capture");
            launch(rank, set);
            call(graphs.end(ranks_[rank].stream, &graph), "end capture");
            call(graphs.instantiate(&replay[set], graph, 0), "instantiate");
        }
        timed_launches(rank, "graph",
                       [&](int set) { call(graphs.launch(replay[set], ranks_[rank].stream), "graph launch"); });
    }

    void report_times() const {
        const double flops = 2.0 * double(m_) * double(manifest_.n) * double(manifest_.k);
        for (int rank = 0; rank < world_; ++rank) {
            for (std::size_t i = 0; i < ranks_[rank].milliseconds.size(); ++i) {
                const double milliseconds = ranks_[rank].milliseconds[i];
                fmt::print("rank {}, {}: {:.4f} ms a launch, {:.1f} TFLOP/s\n", rank, i == 0 ? "stream" : "graph",
                           milliseconds, flops / milliseconds / 1e9);
            }
        }
    }

    void dump() const {
        for (int rank = 0; rank < world_; ++rank) {
            for (std::size_t i = 0; i < manifest_.tensors.size(); ++i) {
                const auto& values = ranks_[rank].host[0][i];
                std::ofstream(fmt::format("{}/rank{}_{}.bin", options_.dump, rank, manifest_.tensors[i].name),
                              std::ios::binary)
                    .write(reinterpret_cast<const char*>(values.data()),
                           static_cast<std::streamsize>(2 * values.size()));
            }
        }
    }

    Options options_;
    Artifact artifact_;
    const Manifest& manifest_;
    int world_;
    std::int64_t m_;
    std::shared_ptr<const Driver> driver_;
    std::shared_ptr<Rendezvous> rendezvous_ = make_process_rendezvous();
    std::vector<RankData> ranks_;
    std::vector<std::unique_ptr<Session>> sessions_;
    std::barrier<> sync_;
    std::mutex mutex_;
    std::int64_t wrong_ = 0, checks_ = 0, compared_ = 0;
    double worst_ = 0;
};

}  // namespace
}  // namespace plait::gpu_test

int main(int argc, char** argv) {
    // Read by the driver when it starts. Ranks that share a context have more streams than the default of 8 hardware
    // queues, and a proxy's copy that stands in one queue behind a kernel which waits for it never runs.
    setenv("CUDA_DEVICE_MAX_CONNECTIONS", "32", 0);
    try {
        const auto options = plait::gpu_test::parse(argc, argv);
        return plait::gpu_test::Run(options, plait::load_artifact(options.artifact)).go();
    } catch (const plait::Error& error) {
        fmt::print(stderr, "{}: {}{}\n", error.kind(), error.message(),
                   error.hint().empty() ? "" : " | " + error.hint());
        return 2;
    }
}
