// Ranks as real processes: forked from the test, each ends with _exit and a code; what is late is killed.
#pragma once
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <functional>
#include <thread>
#include <vector>

#include "runtime/base/error.h"

namespace plait::testing {

inline constexpr int kThrew = 99, kKilledLate = -1000;  // codes of a rank; -n: it died of signal n

class Processes {
public:
    // `body` runs in a process of its own for each rank; its result is the process's code.
    Processes(int world, const std::function<int(int)>& body) {
        std::fflush(nullptr);
        for (int rank = 0; rank < world; ++rank) {
            const pid_t child = fork();
            if (child == 0) run(rank, body);
            children_.push_back(child);
        }
    }
    ~Processes() {
        for (pid_t child : children_) {
            if (child > 0) kill(child, SIGKILL), waitpid(child, nullptr, 0);
        }
    }
    Processes(const Processes&) = delete;
    Processes& operator=(const Processes&) = delete;

    void send(int rank, int signal_number) { kill(children_[rank], signal_number); }

    // The codes by rank once all but the `left_out` have ended.
    std::vector<int> wait(std::chrono::seconds limit = std::chrono::seconds(60), int left_out = -1) {
        std::vector<int> codes(children_.size(), kKilledLate);
        const auto until = std::chrono::steady_clock::now() + limit;
        for (std::size_t rank = 0; rank < children_.size(); ++rank) {
            if (static_cast<int>(rank) == left_out) continue;
            int status = 0;
            while (waitpid(children_[rank], &status, WNOHANG) == 0) {
                if (std::chrono::steady_clock::now() > until) return codes;
                std::this_thread::sleep_for(std::chrono::milliseconds(2));
            }
            children_[rank] = 0;
            codes[rank] = WIFSIGNALED(status) ? -WTERMSIG(status) : WEXITSTATUS(status);
        }
        return codes;
    }

private:
    [[noreturn]] static void run(int rank, const std::function<int(int)>& body) {
        int code = kThrew;
        try {
            code = body(rank);
        } catch (const std::exception& error) {
            std::fprintf(stderr, "rank %d: %s\n", rank, error.what());
        }
        std::fflush(nullptr);
        _exit(code);
    }
    std::vector<pid_t> children_;
};

}  // namespace plait::testing
