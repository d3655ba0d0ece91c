#include "runtime/base/settings.h"

#include <fmt/format.h>

#include <charconv>
#include <cstdlib>

#include "runtime/base/error.h"

namespace plait {
namespace {

std::string variable(const std::string& name) {
    const char* value = std::getenv(name.c_str());
    return value == nullptr ? "" : value;
}

bool is_word_of(const std::string& words, const std::string& value) {
    return ("|" + words + "|").find("|" + value + "|") != std::string::npos;
}

std::string cache_folder() {
    if (const std::string cache = variable("XDG_CACHE_HOME"); !cache.empty()) return cache + "/plait";
    if (const std::string home = variable("HOME"); !home.empty()) return home + "/.cache/plait";
    return "/tmp/plait-cache";
}

std::string read(const std::string& name, const std::string& values, const std::string& default_value) {
    const std::string value = variable(name);
    if (value.empty()) return values == "folder" ? cache_folder() : default_value;
    const bool is_path = values == "folder" || values == "file";
    if (is_path) return value.starts_with("~/") ? variable("HOME") + value.substr(1) : value;
    if (!is_word_of(values, value)) {
        throw ArgumentError(fmt::format("setting {} is `{}`, legal are {}", name, value, values),
                            fmt::format("unset {} for the default", name));
    }
    return value;
}

int read_number(const std::string& name) {
    const std::string value = variable(name);
    if (value.empty()) return -1;
    int number = -1;
    const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), number);
    if (error != std::errc() || end != value.data() + value.size() || number < 0) {
        throw ArgumentError(fmt::format("{} is `{}`, a number from 0 is needed", name, value));
    }
    return number;
}

struct LauncherNames {
    const char* launcher;
    const char* rank;
    const char* world;
    const char* local_rank;
    const char* local_world;
};
// Most specific first: mpirun inside a Slurm job sets both.
constexpr LauncherNames kLaunchers[] = {
    {"torchrun", "RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE"},
    {"openmpi", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK",
     "OMPI_COMM_WORLD_LOCAL_SIZE"},
    {"slurm", "SLURM_PROCID", "SLURM_NTASKS", "SLURM_LOCALID", "SLURM_NTASKS_PER_NODE"},
};

// The first name of a node list as Slurm writes them: `node[03-07,11],gpu1` -> node03. Only the first bracket of a name
// is looked at: Slurm folds one number.
std::string first_host(const std::string& list) {
    std::string host;
    for (std::size_t i = 0; i < list.size() && list[i] != ','; ++i) {
        if (list[i] != '[') {
            host += list[i];
            continue;
        }
        const std::size_t end = list.find_first_of("-,]", i + 1), close = list.find(']', i);
        if (end == std::string::npos || close == std::string::npos) return "";
        host += list.substr(i + 1, end - i - 1);
        i = close;
    }
    return host;
}

// Jobs of one machine get ports of their own, all ranks of a job the same one, below the range that systems give out.
std::string port_of_job(const std::string& job) {
    std::uint32_t hash = 2166136261u;  // FNV-1a
    for (unsigned char byte : job) hash = (hash ^ byte) * 16777619u;
    return std::to_string(20000 + hash % 12000);
}

// MASTER_ADDR and MASTER_PORT where they are set (torchrun sets them), else what Slurm says; OpenMPI says no more than
// that all ranks are on one machine.
std::string address_of_rank_zero(const LauncherEnvironment& env) {
    const std::string host = variable("MASTER_ADDR");
    if (const int port = read_number("MASTER_PORT"); !host.empty() && port >= 0)
        return host + ":" + std::to_string(port);
    if (env.launcher == "slurm") {
        const std::string step = variable("SLURM_STEP_NODELIST");
        const std::string first = first_host(step.empty() ? variable("SLURM_JOB_NODELIST") : step);
        const std::string job = variable("SLURM_JOB_ID");
        if (!first.empty() && !job.empty())
            return first + ":" + port_of_job("slurm " + job + "." + variable("SLURM_STEP_ID"));
    }
    if (const std::string job = variable("PMIX_NAMESPACE");
        env.launcher == "openmpi" && env.local_world == env.world && !job.empty())
        return "localhost:" + port_of_job("openmpi " + job);
    return "";
}

}  // namespace

const std::vector<SettingSpec>& setting_specs() {
    static const std::vector<SettingSpec> table = {
#define PLAIT_SETTING(field, name, values, default_value, doc) SettingSpec{name, values, default_value, doc},
#include "runtime/base/settings.def"
    };
    return table;
}

Settings Settings::from_environment() {
    Settings settings;
#define PLAIT_SETTING(field, name, values, default_value, doc) settings.field = read(name, values, default_value);
#include "runtime/base/settings.def"
    return settings;
}

std::string Settings::print() const {
    std::string text;
    const auto row = [&](const char* name, const std::string& value, const char* values,
                         const std::string& default_value, const char* doc) {
        text += fmt::format("{:<24}{}\n    {} (values: {}; default: {})\n", name, value.empty() ? "-" : value, doc,
                            values, default_value.empty() ? "none" : default_value);
    };
#define PLAIT_SETTING(field, name, values, default_value, doc) row(name, field, values, default_value, doc);
#include "runtime/base/settings.def"
    return text;
}

LauncherEnvironment LauncherEnvironment::from_environment() {
    LauncherEnvironment env;
    for (const LauncherNames& names : kLaunchers) {
        env.rank = read_number(names.rank);
        env.world = read_number(names.world);
        if (env.rank < 0 || env.world < 0) continue;
        env.launcher = names.launcher;
        env.local_rank = read_number(names.local_rank);
        env.local_world = read_number(names.local_world);
        if (env.rank >= env.world) {
            throw ArgumentError(
                fmt::format("{}={} does not lie below {}={}", names.rank, env.rank, names.world, env.world));
        }
        break;
    }
    if (env.launcher.empty()) env.rank = env.world = -1;
    env.address = address_of_rank_zero(env);
    return env;
}

}  // namespace plait
