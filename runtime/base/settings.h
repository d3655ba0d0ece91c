// Settings: what the environment says, read once per call of from_environment(). The only place that reads it.
#pragma once
#include <string>
#include <vector>

namespace plait {

struct SettingSpec {
    std::string name;
    std::string values;  // folder, file, or words a|b|c
    std::string default_value;
    std::string doc;
};
const std::vector<SettingSpec>& setting_specs();

struct Settings {
#define PLAIT_SETTING(field, name, values, default_value, doc) std::string field;
#include "runtime/base/settings.def"

    // ArgumentError where a value is none of the setting's words. Folders come with ~ replaced.
    static Settings from_environment();
    // The table with names, values, defaults and docs, as `plait doctor --settings` prints it.
    std::string print() const;
};

// What a launcher (torchrun, Slurm, OpenMPI) says of this process; -1 and "" where it does not.
struct LauncherEnvironment {
    int rank = -1, world = -1, local_rank = -1, local_world = -1;
    std::string address;                            // host:port of rank 0
    std::string launcher;                           // torchrun slurm openmpi, or empty
    static LauncherEnvironment from_environment();  // ArgumentError: a number that is none
};

}  // namespace plait
