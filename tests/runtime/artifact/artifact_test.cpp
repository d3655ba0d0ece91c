#include "runtime/artifact/artifact.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "runtime/base/error.h"
#include "runtime/base/files.h"
#include "templates/abi/kernel_args.h"
#include "tests/runtime/base/temporary_directory.h"

namespace plait {
namespace {

Manifest sample() {
    Manifest m;
    m.abi_version = kAbiVersion;
    m.name = "ag_gemm", m.arch = "host", m.key = "abcd", m.semantics = "ef", m.compiler = "clang 19";
    m.world = 4, m.nodes = 2, m.locals = 2, m.m_max = 512, m.n = 64, m.k = 128;
    m.threads = 384, m.shared_bytes = 1000, m.args_bytes = 1024, m.min_ctas = 2, m.cluster = 2, m.workspace_bytes = UINT64_MAX;
    m.agents = {"loader", "consumer0"};
    m.lets = {{"K", 128}, {"shard", "max(ceil_div(M, world), 1)"}};
    m.tensors = {{"a", "bf16", {"shard", "K"}, false, 128}, {"c", "bf16", {"M", 64}, true, 136}};
    m.maps = {{"a_map", "bf16", 1, "workspace", "shard * 2", {"K", "shard", 8}, {"K * 2", 4096}, {64, 64, 1}, 192}};
    m.wait_sites = {{1, "compute", "loader", "a_ready"}};
    m.flags = {{"a_ready", 4096, 32}};
    m.registers = 168, m.ptxas_messages = {"0 bytes spill"};
    return m;
}
std::string problem(const Manifest& manifest) {
    try {
        Manifest::from_json_text(manifest.to_json_text(), "m");
    } catch (const ArgumentError& error) {
        return error.message();
    }
    return "no error";
}
std::string text_problem(const std::string& text) {
    try {
        Manifest::from_json_text(text, "m");
    } catch (const ArgumentError& error) {
        return error.message();
    }
    return "no error";
}
std::string load_problem(const std::string& folder) {
    try {
        load_artifact(folder);
    } catch (const ArgumentError& error) {
        return error.message();
    }
    return "no error";
}
template <class Edit>
std::string after(Edit edit) {
    Manifest manifest = sample();
    edit(manifest);
    return problem(manifest);
}

TEST(Manifest, JsonRoundTrips) {
    const Manifest manifest = sample();
    const std::string text = manifest.to_json_text();
    const Manifest again = Manifest::from_json_text(text, "m");
    EXPECT_EQ(again.to_json_text(), text);
    EXPECT_EQ(again.workspace_bytes, UINT64_MAX);
    EXPECT_EQ(again.lets[1].value.print(), "max(ceil_div(M, world), 1)");
    EXPECT_EQ(again.maps[0].extent[1].print(), "shard");
    EXPECT_TRUE(again.tensors[1].output);
    EXPECT_EQ(again.wait_sites[0].flag, "a_ready");
    EXPECT_EQ(again.flags[0].name, "a_ready");
    EXPECT_EQ(again.flags[0].offset, 4096u);
    EXPECT_EQ(again.flags[0].count, 32u);
}

TEST(Manifest, RefusesContradictions) {
    EXPECT_EQ(after([](Manifest& m) { m.abi_version += 1; }),
              "m, /abi_version: abi version is " + std::to_string(kAbiVersion + 1) + ", this runtime has " +
                  std::to_string(kAbiVersion) + "\n  | compile the artifact again with this version of plait");
    EXPECT_EQ(after([](Manifest& m) { m.world = 5; }), "m, /world: world is 5, but 2 nodes of 2 ranks are 4");
    EXPECT_EQ(after([](Manifest& m) { m.arch = "sm_80"; }), "m, /arch: arch `sm_80` is neither sm_90a nor host");
    EXPECT_EQ(after([](Manifest& m) { m.cluster = 0; }), "m, /cluster: cluster is 0, at least 1 is needed");
    EXPECT_EQ(after([](Manifest& m) { m.cluster = 4; }), "m, /min_ctas: min_ctas is 2, no multiple of a cluster of 4");
    EXPECT_EQ(after([](Manifest& m) { m.min_ctas = 0; }), "m, /min_ctas: min_ctas is 0, at least 1 is needed");
    EXPECT_EQ(after([](Manifest& m) { m.lets[1].value = "later"; }),
              "m, /lets/1/value: `later` uses the name later, which is neither a launch value nor an earlier let");
    EXPECT_EQ(after([](Manifest& m) { m.tensors[0].shape[1] = "cta"; }),
              "m, /tensors/0/shape/1: `cta` uses the name cta, which is neither a launch value nor an earlier let");
    EXPECT_EQ(after([](Manifest& m) { m.tensors[0].args_offset = 1020; }),
              "m, /tensors/0/args_offset: pointer of tensor a at 1020 does not fit into 1024 bytes of arguments");
    EXPECT_EQ(after([](Manifest& m) { m.maps[0].args_offset = UINT64_MAX; }),
              "m, /maps/0/args_offset: map a_map[1] at 18446744073709551615 does not fit into 1024 bytes of arguments");
    EXPECT_EQ(after([](Manifest& m) { m.tensors[1].name = "a"; }), "m, /tensors/1/name: tensor a stands twice");
    EXPECT_EQ(after([](Manifest& m) { m.tensors[0].dtype = "f8"; }),
              "m, /tensors/0/dtype: dtype `f8` is none of bf16, f16, f32, i32");
    EXPECT_EQ(after([](Manifest& m) { m.maps[0].memory = "b"; }),
              "m, /maps/0/memory: map a_map[1] lies in `b`, which is neither a tensor nor workspace");
    EXPECT_EQ(after([](Manifest& m) { m.maps[0].box = {64}; }), "m, /maps/0/box: 1 numbers, 3 are needed");
    EXPECT_EQ(after([](Manifest& m) { m.wait_sites.push_back(m.wait_sites[0]); }),
              "m, /wait_sites/1/id: wait site 1 stands twice");
}

TEST(Manifest, RefusesUnreadableText) {
    EXPECT_NE(text_problem("nonsense").find("m, top level: not JSON"), std::string::npos);
    EXPECT_EQ(text_problem("{}"), "m, top level: `abi_version` is missing");
    std::string extra = sample().to_json_text();
    extra.insert(1, "\"agnets\": [],");
    EXPECT_EQ(text_problem(extra), "m, /agnets: no field `agnets` here\n  | the nearest is `agents`");
}

TEST(LoadArtifact, ReadsAFolder) {
    const testing::TemporaryDirectory folder;
    write_file_atomically(folder / "manifest.json", sample().to_json_text());
    write_file_atomically(folder / "kernel.cu", "// source");
    write_file_atomically(folder / "kernel.so",
                          "\x7f"
                          "ELF");
    const Artifact artifact = load_artifact(folder.path());
    EXPECT_EQ(artifact.manifest.name, "ag_gemm");
    EXPECT_EQ(artifact.source, "// source");
    EXPECT_EQ(artifact.code,
              "\x7f"
              "ELF");
    EXPECT_EQ(artifact.code_file, folder / "kernel.so");
}

TEST(LoadArtifact, ErrorsNameTheFile) {
    const testing::TemporaryDirectory folder;
    EXPECT_EQ(load_problem(folder.path()), "cannot read " + (folder / "manifest.json") + ": No such file or directory");
    write_file_atomically(folder / "manifest.json", sample().to_json_text());
    EXPECT_EQ(load_problem(folder.path()), "cannot read " + (folder / "kernel.cu") + ": No such file or directory");
    write_file_atomically(folder / "kernel.cu", "");
    EXPECT_EQ(load_problem(folder.path()),
              "artifact " + folder.path() + " has no code: neither kernel.cubin, kernel.o nor kernel.so");
    write_file_atomically(folder / "kernel.cubin", "x");
    EXPECT_EQ(load_problem(folder.path()), "artifact " + folder.path() + " is for host, but its code is kernel.cubin");
    write_file_atomically(folder / "kernel.o", "");
    EXPECT_EQ(load_problem(folder.path()), "artifact " + folder.path() + " has both kernel.cubin and kernel.o");
    std::filesystem::remove(folder / "kernel.cubin");
    EXPECT_EQ(load_problem(folder.path()), (folder / "kernel.o") + " is empty");
}

}  // namespace
}  // namespace plait
