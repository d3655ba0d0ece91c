// AOT's last step: the system's linker makes a shared object that the runtime opens without Clang.
#include <fcntl.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <spawn.h>
#include <sys/wait.h>

#include <cerrno>
#include <filesystem>

#include "compiler/backend/clang_jit.h"
#include "runtime/base/error.h"
#include "runtime/base/files.h"

extern char** environ;

namespace plait {
namespace {

struct TemporaryDirectory {
    std::string path = make_temporary_directory(std::filesystem::temp_directory_path().string());
    TemporaryDirectory() = default;
    TemporaryDirectory(const TemporaryDirectory&) = delete;
    TemporaryDirectory& operator=(const TemporaryDirectory&) = delete;
    ~TemporaryDirectory() { std::filesystem::remove_all(path, ignored_); }

private:
    std::error_code ignored_;
};

// This process's environment, with a PATH where it has none: gcc finds its own parts only along one.
std::vector<std::string> child_environment() {
    std::vector<std::string> variables;
    bool has_path = false;
    for (char** variable = environ; variable && *variable; ++variable) {
        variables.emplace_back(*variable);
        has_path = has_path || variables.back().starts_with("PATH=");
    }
    if (!has_path) variables.emplace_back("PATH=/usr/local/bin:/usr/bin:/bin");
    return variables;
}

std::vector<char*> pointers(const std::vector<std::string>& words) {
    std::vector<char*> result;
    for (const std::string& word : words) result.push_back(const_cast<char*>(word.c_str()));
    result.push_back(nullptr);
    return result;
}

// Runs a program found on PATH with its output in `log`. ENOENT: there is no such program.
int run(const std::vector<std::string>& command, const std::string& log, int* exit_status) {
    std::vector<std::string> variables = child_environment();
    std::vector<char*> arguments = pointers(command), environment = pointers(variables);
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_addopen(&actions, 1, log.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
    posix_spawn_file_actions_adddup2(&actions, 1, 2);
    pid_t child = 0;
    int error = posix_spawnp(&child, arguments[0], &actions, nullptr, arguments.data(), environment.data());
    posix_spawn_file_actions_destroy(&actions);
    if (error != 0) return error;
    int status = 0;
    while (waitpid(child, &status, 0) < 0) {
        if (errno != EINTR) return errno;
    }
    *exit_status = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
    return 0;
}

}  // namespace

std::string link_shared_object(const std::string& object) {
    TemporaryDirectory folder;
    std::string in = folder.path + "/kernel.o", out = folder.path + "/kernel.so", log = folder.path + "/log";
    write_file_atomically(in, object);
    // No start files, no C++ library: host code is freestanding but for erf and its like.
    const std::vector<std::vector<std::string>> linkers = {
        {"cc", "-shared", "-nostdlib", "-o", out, in, "-lm"},
        {"clang", "-shared", "-nostdlib", "-o", out, in, "-lm"},
        {"ld", "-shared", "-o", out, in},
        {"ld.lld", "-shared", "-o", out, in},
    };
    std::vector<std::string> names;
    for (const std::vector<std::string>& command : linkers) {
        names.push_back(command[0]);
        int exit_status = 0;
        int error = run(command, log, &exit_status);
        if (error == ENOENT) continue;
        if (error != 0)
            throw CompileError(
                fmt::format("cannot run the linker {}: {}", command[0], std::generic_category().message(error)));
        if (exit_status == 0) return read_file(out);
        throw CompileError(fmt::format("{} ends with status {}: {}", command[0], exit_status, read_file(log)));
    }
    throw CompileError(fmt::format("no linker on PATH (looked for {})", fmt::join(names, ", ")),
                       "install gcc, clang or binutils");
}

}  // namespace plait
