// Waits that end, on a real GPU: ranks are processes that share it, one of them does not come, is killed, aborts or
// disagrees. Every scenario checks what the others are told, how long it took, that the outputs are NaN, and that a new
// session works in the same process.
//
//   gpu_abort DIR [SCENARIO...]
//
// DIR was written by plaitc for sm_90a and 1x2. Scenarios: absent, graph, killed, stopped, abort, disagree, apart; all by
// default. Exit code 0 only if all was right. Needs no torch and no toolkit.
#include <fmt/format.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <map>
#include <thread>
#include <vector>

#include "runtime/artifact/artifact.h"
#include "runtime/base/dl.h"
#include "runtime/base/error.h"
#include "runtime/session/bind.h"
#include "runtime/session/session.h"

namespace plait::gpu_test {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }
void sleep_s(double seconds) { std::this_thread::sleep_for(std::chrono::duration<double>(seconds)); }

// One rank: its context, tensors and session.
class Rank {
public:
    Rank(const Artifact& artifact, int rank) : artifact_(artifact), rank_(rank), driver_(open_cuda_driver()) {
        call(driver_->init(0), "init");
        cu::Device device;
        call(driver_->device_get(&device, 0), "device");
        call(driver_->primary_context_retain(&context_, device), "context");
        call(driver_->context_push(context_), "context");
        call(driver_->stream_create(&stream_, cu::kStreamNonBlocking), "stream");
        const auto shapes = tensor_shapes(artifact_.manifest, place(), artifact_.manifest.m_max);
        for (std::size_t i = 0; i < shapes.size(); ++i) {
            std::uint64_t elements = 1;
            for (std::int64_t extent : shapes[i]) elements *= static_cast<std::uint64_t>(extent);
            elements_.push_back(elements);
            tensors_.push_back(0);
            call(driver_->memory_alloc(&tensors_[i], 2 * elements + 16), "tensor");
        }
    }

    void make_session(const std::string& meeting, const SessionOptions& options) {
        session_.reset();
        Topology topology = Topology::simulated("1x2");
        topology.arch = "sm_90a";
        SessionOptions own = options;
        own.workspace_bytes = artifact_.manifest.workspace_bytes + (4u << 20);
        own.rendezvous_timeout_ns = 30'000'000'000;
        session_ = Session::create(topology, rank_, make_directory_rendezvous(meeting), driver_, own);
        session_->attach(artifact_);
    }

    // Inputs 0, outputs 7 (no NaN).
    void launch(std::int64_t m) {
        const auto shapes = tensor_shapes(artifact_.manifest, place(), m);
        RankTensors views;
        for (std::size_t i = 0; i < shapes.size(); ++i) {
            const bool output = artifact_.manifest.tensors[i].output;
            call(driver_->set_bytes_async(tensors_[i], output ? 7 : 0, 2 * elements_[i], stream_), "filling a tensor");
            views.push_back({reinterpret_cast<void*>(tensors_[i]), artifact_.manifest.tensors[i].dtype, shapes[i]});
        }
        m_ = m;
        session_->launch(0, m, views, stream_);
    }

    // What check() and, after it, another launch say; empty where nothing went wrong within `limit`.
    std::string failure(double limit) {
        const Clock::time_point start = Clock::now();
        while (seconds_since(start) < limit) {
            try {
                session_->check();
            } catch (const StallError& error) {
                return error.message();
            }
            if (driver_->stream_query(stream_) == cu::kSuccess) {
                try {
                    session_->check();
                    return "";
                } catch (const StallError& error) {
                    return error.message();
                }
            }
            sleep_s(0.002);
        }
        return "nothing happened";
    }

    // Share of the output's first m rows that is NaN.
    double nan_share() {
        call(driver_->stream_synchronize(stream_), "the kernel has left");
        std::uint64_t nans = 0, all = 0;
        for (std::size_t i = 0; i < tensors_.size(); ++i) {
            if (!artifact_.manifest.tensors[i].output) continue;
            const auto count = static_cast<std::size_t>(m_ * artifact_.manifest.n);
            std::vector<std::uint16_t> values(count);
            call(driver_->copy_async(reinterpret_cast<cu::DevicePointer>(values.data()), tensors_[i], 2 * count, stream_),
                 "read back");
            call(driver_->stream_synchronize(stream_), "read back");
            for (std::uint16_t value : values) nans += value == 0xffff;
            all += count;
        }
        return static_cast<double>(nans) / static_cast<double>(all);
    }

    Session& session() { return *session_; }
    cu::Stream stream() const { return stream_; }
    const Driver& driver() const { return *driver_; }

private:
    RankPlace place() const { return place_of(rank_, 1, 2); }
    void call(cu::Result result, const char* what) const { check_driver(*driver_, result, what); }

    const Artifact& artifact_;
    int rank_;
    std::shared_ptr<const Driver> driver_;
    cu::Context context_ = nullptr;
    cu::Stream stream_ = nullptr;
    std::vector<cu::DevicePointer> tensors_;
    std::vector<std::uint64_t> elements_;
    std::unique_ptr<Session> session_;
    std::int64_t m_ = 0;
};

struct Scene {
    std::string name, folder;
    const Artifact* artifact;
    std::int64_t m;

    // Files are what the processes tell each other, beside the sessions.
    void raise(const std::string& what) const { make_directory_rendezvous(folder + "/signs")->set(what, "1"); }
    void await(const std::string& what) const { make_directory_rendezvous(folder + "/signs")->get(what, 60'000'000'000); }
};

void report(const Scene& scene, int rank, double elapsed, const std::string& said) {
    fmt::print("{:9} rank {}: {:6.2f} s  {}\n", scene.name, rank, elapsed, said);
    std::fflush(stdout);
}

bool expect(bool right, const std::string& what) {
    if (!right) fmt::print("  WRONG: {}\n", what);
    return right;
}

SessionOptions deadlines(double entry, double wait) {
    SessionOptions options;
    options.entry_deadline_ns = static_cast<std::uint64_t>(entry * 1e9);
    options.wait_deadline_ns = static_cast<std::uint64_t>(wait * 1e9);
    return options;
}

// Both ranks: a new session, a launch that ends well.
bool works_again(const Scene& scene, Rank& rank) {
    rank.make_session(scene.folder + "/again", deadlines(20, 10));
    rank.launch(scene.m);
    const std::string said = rank.failure(30);
    return expect(said.empty(), "a new session says: " + said) && expect(rank.nan_share() == 0, "NaN after a launch that worked");
}

bool told(const Scene& scene, int number, Rank& rank, Clock::time_point since, double within, const std::string& what) {
    const std::string said = rank.failure(30);
    const double elapsed = seconds_since(since);
    report(scene, number, elapsed, said);
    bool right = expect(said.find(what) != std::string::npos, fmt::format("it does not say `{}`", what));
    right &= expect(elapsed < within, fmt::format("it took {:.2f} s, {:.2f} are allowed", elapsed, within));
    try {
        rank.launch(scene.m);
        right &= expect(false, "a dead session launches");
    } catch (const StallError& error) {
        right &= expect(error.message() == said, "the next call says something else: " + error.message());
    }
    return right & expect(rank.nan_share() == 1, fmt::format("{:.3f} of the output is NaN", rank.nan_share()));
}

// Rank 1 never launches.
bool absent(const Scene& scene, int number) {
    Rank rank(*scene.artifact, number);
    rank.make_session(scene.folder + "/first", deadlines(3, 1));
    const Clock::time_point start = Clock::now();
    if (number == 0) {
        rank.launch(scene.m);
        if (!told(scene, 0, rank, start, 3 + 2, "rank 1 has not entered within 3 s: waits for entered[1] = 1, sees 0")) return false;
        scene.raise("left");
    } else {
        scene.await("left");
        const std::string said = rank.failure(5);
        report(scene, 1, seconds_since(start), said);
        if (!expect(said.find("left because of rank 0") != std::string::npos, "rank 1 is not told")) return false;
    }
    return works_again(scene, rank);
}

// The same in a graph's second replay, of which the host is not asked.
bool graph(const Scene& scene, int number) {
    const Library library = Library::open("graphs", {"libcuda.so.1"});
    Rank rank(*scene.artifact, number);
    rank.make_session(scene.folder + "/first", deadlines(3, 1));
    void *captured = nullptr, *replay = nullptr;
    const auto call = [&](cu::Result result) { check_driver(rank.driver(), result, "graph"); };
    call(library.function<cu::Result(cu::Stream, cu::CaptureMode)>("cuStreamBeginCapture_v2")(rank.stream(), cu::CaptureMode::ThreadLocal));
    rank.launch(scene.m);
    call(library.function<cu::Result(cu::Stream, void**)>("cuStreamEndCapture")(rank.stream(), &captured));
    call(library.function<cu::Result(void**, void*, unsigned long long)>("cuGraphInstantiateWithFlags")(&replay, captured, 0));
    const auto run = library.function<cu::Result(void*, cu::Stream)>("cuGraphLaunch");
    call(run(replay, rank.stream()));
    if (!expect(rank.failure(30).empty(), "the first replay failed") || !expect(rank.nan_share() == 0, "NaN in the first replay")) return false;
    const Clock::time_point start = Clock::now();
    if (number == 0) {
        call(run(replay, rank.stream()));
        if (!told(scene, 0, rank, start, 3 + 2, "rank 1 has not entered within 3 s: waits for entered[1] = 2, sees 1")) return false;
        scene.raise("left");
    } else {
        scene.await("left");
    }
    return works_again(scene, rank);
}

// Rank 1 is killed between two of its launches or in one: rank 0 runs on until a deadline.
bool killed(const Scene& scene, int number) {
    Rank rank(*scene.artifact, number);
    rank.make_session(scene.folder + "/first", deadlines(3, 2));
    std::string said;
    Clock::time_point last = Clock::now();
    for (int i = 0; said.empty() && i < 100'000; ++i) {
        last = Clock::now();
        rank.launch(scene.m);
        if (i == 20) scene.raise(fmt::format("running{}", number));
        said = rank.failure(30);
    }
    if (number == 1) return expect(false, "rank 1 was not killed: " + said);
    report(scene, 0, seconds_since(last), said);
    bool right = expect(said.find("rank 1 has not entered within 3 s") != std::string::npos ||
                            said.find("waits for a_ready[") != std::string::npos,
                        "it says something else");
    right &= expect(seconds_since(last) < 3 + 2, "too late");
    return right & expect(rank.nan_share() == 1, "the output is not NaN") & works_again(scene, rank);
}

// Rank 1's process stands still for longer than the deadline, then goes on: it is told why its peer left.
bool stopped(const Scene& scene, int number) {
    Rank rank(*scene.artifact, number);
    rank.make_session(scene.folder + "/first", deadlines(2, 1));
    std::string said;
    Clock::time_point last = Clock::now();
    for (int i = 0; said.empty() && i < 100'000; ++i) {
        last = Clock::now();
        rank.launch(scene.m);
        if (i == 20) scene.raise(fmt::format("running{}", number));
        said = rank.failure(30);
    }
    report(scene, number, seconds_since(last), said);
    bool right = expect(said.find("rank 1 has not entered within 2 s") != std::string::npos ||
                            said.find("after all ranks had entered") != std::string::npos, "it says something else");
    if (number == 0) right &= expect(seconds_since(last) < 2 + 2, "too late");
    return right & works_again(scene, rank);
}

// Rank 1 calls abort() while rank 0's kernel waits for it.
bool abort_called(const Scene& scene, int number) {
    Rank rank(*scene.artifact, number);
    rank.make_session(scene.folder + "/first", deadlines(20, 10));
    if (number == 0) {
        rank.launch(scene.m);
        scene.raise("launched");
        const Clock::time_point start = Clock::now();
        if (!told(scene, 0, rank, start, 2.5, "rank 0 left because of rank 1: rank 1: abort() was called")) return false;
    } else {
        scene.await("launched");
        sleep_s(1);
        const Clock::time_point start = Clock::now();
        rank.session().abort();
        const std::string said = rank.failure(5);
        report(scene, 1, seconds_since(start), said);
        if (!expect(said.find("rank 1: abort() was called") != std::string::npos, "rank 1 says something else")) return false;
    }
    return works_again(scene, rank);
}

bool disagree(const Scene& scene, int number) {
    Rank rank(*scene.artifact, number);
    rank.make_session(scene.folder + "/first", deadlines(20, 10));
    const Clock::time_point start = Clock::now();
    rank.launch(number == 0 ? scene.m : scene.m - 24);
    // Who is told first says both names, who hears of it before it sees it the M alone.
    const std::string other = fmt::format("M = {}", number == 0 ? scene.m - 24 : scene.m);
    return told(scene, number, rank, start, 10, other) & works_again(scene, rank);
}

// Ranks further apart than the wait deadline: nothing goes wrong.
bool apart(const Scene& scene, int number) {
    Rank rank(*scene.artifact, number);
    rank.make_session(scene.folder + "/first", deadlines(20, 1));
    if (number == 1) sleep_s(4);
    const Clock::time_point start = Clock::now();
    rank.launch(scene.m);
    const std::string said = rank.failure(30);
    report(scene, number, seconds_since(start), said.empty() ? "ends well" : said);
    return expect(said.empty(), "a launch failed") & expect(rank.nan_share() == 0, "NaN after a launch that worked");
}

using Play = bool (*)(const Scene&, int);
const std::map<std::string, Play> kPlays = {{"absent", absent},   {"graph", graph},       {"killed", killed}, {"stopped", stopped},
                                            {"abort", abort_called}, {"disagree", disagree}, {"apart", apart}};

pid_t start(const Scene& scene, int number, const std::function<bool()>& play) {
    std::fflush(stdout);
    const pid_t child = fork();
    if (child != 0) return child;
    alarm(100);   // whatever happens, it ends
    bool right = false;
    try {
        right = play();
    } catch (const Error& error) {
        fmt::print("{} rank {}: {}: {}\n", scene.name, number, error.kind(), error.message());
    }
    std::fflush(stdout);
    _exit(right ? 0 : 1);
}

bool direct(const Scene& scene, Play play) {
    std::vector<pid_t> ranks;
    for (int number : {0, 1}) ranks.push_back(start(scene, number, [&, number] { return play(scene, number); }));
    if (scene.name == "killed" || scene.name == "stopped") {
        for (const char* sign : {"running0", "running1"}) scene.await(sign);
        sleep_s(0.5);
        kill(ranks[1], scene.name == "killed" ? SIGKILL : SIGSTOP);
        if (scene.name == "stopped") {
            sleep_s(5);
            kill(ranks[1], SIGCONT);
        }
    }
    bool right = true;
    if (scene.name == "killed") {   // another process takes its place
        waitpid(ranks[1], nullptr, 0);
        ranks[1] = start(scene, 1, [&] {
            Rank rank(*scene.artifact, 1);
            return works_again(scene, rank);
        });
    }
    for (pid_t rank : ranks) {
        int status = 0;
        waitpid(rank, &status, 0);
        right &= status == 0;
    }
    fmt::print("{:9} {}\n", scene.name, right ? "ok" : "FAILED");
    return right;
}

}  // namespace
}  // namespace plait::gpu_test

int main(int argc, char** argv) {
    using namespace plait::gpu_test;
    if (argc < 2) return fmt::print(stderr, "usage: gpu_abort DIR [SCENARIO...]\n"), 2;
    try {
        const plait::Artifact artifact = plait::load_artifact(argv[1]);
        std::vector<std::string> names(argv + 2, argv + argc);
        if (names.empty()) names = {"absent", "graph", "killed", "stopped", "abort", "disagree", "apart"};
        bool right = true;
        for (const std::string& name : names) {
            std::string folder = "/tmp/plait-gpu-abort-XXXXXX";
            if (kPlays.count(name) == 0 || mkdtemp(folder.data()) == nullptr) return fmt::print(stderr, "no scenario {}\n", name), 2;
            right &= direct({name, folder, &artifact, artifact.manifest.m_max}, kPlays.at(name));
            std::filesystem::remove_all(folder);
        }
        fmt::print("{}\n", right ? "PASS" : "FAIL");
        return right ? 0 : 1;
    } catch (const plait::Error& error) {
        fmt::print(stderr, "{}: {}\n", error.kind(), error.message());
        return 2;
    }
}
