#include "runtime/base/settings.h"

#include <gtest/gtest.h>

#include <cstdlib>

#include "runtime/base/error.h"

namespace plait {
namespace {

// Sets variables for one test and puts the old values back.
class Environment {
public:
    void set(const std::string& name, const std::string& value) {
        const char* old = std::getenv(name.c_str());
        old_.emplace_back(name, old == nullptr ? std::optional<std::string>() : old);
        ::setenv(name.c_str(), value.c_str(), 1);
    }
    void clear(const std::string& name) {
        set(name, "");
        ::unsetenv(name.c_str());
    }
    ~Environment() {
        for (auto entry = old_.rbegin(); entry != old_.rend(); ++entry) {
            if (entry->second)
                ::setenv(entry->first.c_str(), entry->second->c_str(), 1);
            else
                ::unsetenv(entry->first.c_str());
        }
    }

private:
    std::vector<std::pair<std::string, std::optional<std::string>>> old_;
};

TEST(Settings, DefaultsWhereTheEnvironmentSaysNothing) {
    Environment env;
    for (const SettingSpec& spec : setting_specs()) env.clear(spec.name);
    env.clear("XDG_CACHE_HOME");
    env.set("HOME", "/home/someone");
    const Settings settings = Settings::from_environment();
    EXPECT_EQ(settings.cache_dir, "/home/someone/.cache/plait");
    EXPECT_EQ(settings.dump, "");
    EXPECT_EQ(settings.cache_mode, "auto");
    EXPECT_EQ(settings.record_requests, "");
    EXPECT_EQ(settings.log, "warning");
    env.set("XDG_CACHE_HOME", "/cache");
    EXPECT_EQ(Settings::from_environment().cache_dir, "/cache/plait");
}

TEST(Settings, ReadsAndChecksValues) {
    Environment env;
    env.set("HOME", "/home/someone");
    env.set("PLAIT_CACHE_DIR", "~/kernels");
    env.set("PLAIT_DUMP", "all");
    env.set("PLAIT_NVRTC_LIBRARY", "/opt/libnvrtc.so");
    const Settings settings = Settings::from_environment();
    EXPECT_EQ(settings.cache_dir, "/home/someone/kernels");
    EXPECT_EQ(settings.dump, "all");
    EXPECT_EQ(settings.nvrtc_library, "/opt/libnvrtc.so");
    env.set("PLAIT_LOG", "chatty");
    try {
        Settings::from_environment();
        FAIL();
    } catch (const ArgumentError& error) {
        EXPECT_EQ(error.message(), "setting PLAIT_LOG is `chatty`, legal are error|warning|info|debug");
        EXPECT_EQ(error.hint(), "unset PLAIT_LOG for the default");
    }
}

TEST(Settings, PrintsTheTable) {
    Environment env;
    env.set("PLAIT_LOG", "debug");
    const std::string table = Settings::from_environment().print();
    for (const SettingSpec& spec : setting_specs()) {
        EXPECT_NE(table.find(spec.name), std::string::npos);
        EXPECT_NE(table.find(spec.doc), std::string::npos);
    }
    EXPECT_NE(table.find("PLAIT_LOG               debug\n    least severe"), std::string::npos) << table;
}

void clear_launchers(Environment& env) {
    for (const char* name :
         {"RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT", "OMPI_COMM_WORLD_RANK",
          "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_SIZE", "SLURM_PROCID",
          "SLURM_NTASKS", "SLURM_LOCALID", "SLURM_NTASKS_PER_NODE", "SLURM_JOB_ID", "SLURM_STEP_ID",
          "SLURM_JOB_NODELIST", "SLURM_STEP_NODELIST", "PMIX_NAMESPACE"}) {
        env.clear(name);
    }
}

TEST(LauncherEnvironment, ReadsTorchrunSlurmAndOpenMpi) {
    Environment env;
    clear_launchers(env);
    EXPECT_EQ(LauncherEnvironment::from_environment().launcher, "");
    EXPECT_EQ(LauncherEnvironment::from_environment().rank, -1);
    env.set("SLURM_PROCID", "3"), env.set("SLURM_NTASKS", "8"), env.set("SLURM_LOCALID", "1");
    LauncherEnvironment launcher = LauncherEnvironment::from_environment();
    EXPECT_EQ(launcher.launcher, "slurm");
    EXPECT_EQ(launcher.rank, 3);
    EXPECT_EQ(launcher.local_rank, 1);
    EXPECT_EQ(launcher.local_world, -1);
    env.set("OMPI_COMM_WORLD_RANK", "2"), env.set("OMPI_COMM_WORLD_SIZE", "4");
    EXPECT_EQ(LauncherEnvironment::from_environment().launcher, "openmpi");
    env.set("RANK", "0"), env.set("WORLD_SIZE", "2"), env.set("MASTER_ADDR", "node0"), env.set("MASTER_PORT", "29500");
    launcher = LauncherEnvironment::from_environment();
    EXPECT_EQ(launcher.launcher, "torchrun");
    EXPECT_EQ(launcher.world, 2);
    EXPECT_EQ(launcher.address, "node0:29500");
}

TEST(LauncherEnvironment, FindsRankZeroFromSlurmsNodeList) {
    const std::pair<const char*, const char*> lists[] = {{"node7", "node7"},
                                                         {"node7,node9", "node7"},
                                                         {"node[03-07,11],gpu1", "node03"},
                                                         {"a[9,12]-ib,b", "a9-ib"}};
    for (const auto& [list, first] : lists) {
        Environment env;
        clear_launchers(env);
        env.set("SLURM_PROCID", "3"), env.set("SLURM_NTASKS", "8"), env.set("SLURM_JOB_ID", "41");
        env.set("SLURM_JOB_NODELIST", list);
        const std::string address = LauncherEnvironment::from_environment().address;
        EXPECT_EQ(address.substr(0, address.find(':')), first) << list;
        env.set("SLURM_PROCID", "0");
        EXPECT_EQ(LauncherEnvironment::from_environment().address, address) << "all ranks say the same";
        env.set("SLURM_JOB_ID", "42");
        EXPECT_NE(LauncherEnvironment::from_environment().address, address) << "another job has another port";
        env.set("MASTER_ADDR", "chosen"), env.set("MASTER_PORT", "1234");
        EXPECT_EQ(LauncherEnvironment::from_environment().address, "chosen:1234");
    }
}

TEST(LauncherEnvironment, KnowsOpenMpisRankZeroOnOneMachineAlone) {
    Environment env;
    clear_launchers(env);
    env.set("OMPI_COMM_WORLD_RANK", "1"), env.set("OMPI_COMM_WORLD_SIZE", "2"), env.set("PMIX_NAMESPACE", "job-1");
    env.set("OMPI_COMM_WORLD_LOCAL_RANK", "1"), env.set("OMPI_COMM_WORLD_LOCAL_SIZE", "2");
    EXPECT_EQ(LauncherEnvironment::from_environment().address.substr(0, 10), "localhost:");
    env.set("OMPI_COMM_WORLD_LOCAL_SIZE", "1");
    EXPECT_EQ(LauncherEnvironment::from_environment().address, "");
}

TEST(LauncherEnvironment, RejectsNonsense) {
    Environment env;
    clear_launchers(env);
    env.set("RANK", "two"), env.set("WORLD_SIZE", "2");
    EXPECT_THROW(LauncherEnvironment::from_environment(), ArgumentError);
    env.set("RANK", "2");
    try {
        LauncherEnvironment::from_environment();
        FAIL();
    } catch (const ArgumentError& error) {
        EXPECT_EQ(error.message(), "RANK=2 does not lie below WORLD_SIZE=2");
    }
}

}  // namespace
}  // namespace plait
