// Both machines have every name of templates/machine.h that takes an agent, and every helper that emitted text prints.
#include <gtest/gtest.h>

#include <regex>
#include <set>
#include <string>

#include "compiler/codegen/templates.h"

namespace plait {
namespace {

std::string text_below(const std::string& folder) {
    std::string text;
    for (const EmbeddedTemplate& file : embedded_templates()) {
        if (file.path.starts_with(folder) || file.path == "arithmetic.h" || file.path == "launch_watch.h") text += file.text;
    }
    return text;
}

std::string machine_words() {
    for (const EmbeddedTemplate& file : embedded_templates()) {
        if (file.path == "machine.h") return file.text;
    }
    return "";
}

std::set<std::string> documented_names() {
    std::set<std::string> names;
    const std::string words = machine_words();
    const std::regex call("\\b([a-z_0-9]+)(<[^>()]*>)?\\((ag|args)\\b");
    for (std::sregex_iterator at(words.begin(), words.end(), call), end; at != end; ++at) names.insert((*at)[1]);
    for (const char* name : {"min", "max", "ceil_div", "raster_row", "raster_col", "add", "mul", "relu", "gelu", "gelu_tanh", "silu", "to_f32",
                             "round_to", "entered_offset", "entered_since", "tensor_bytes"}) {
        names.insert(name);
    }
    names.erase("arrival_flag");   // a member of Relay
    names.erase("r");              // its constructor
    return names;
}

TEST(MachineNames, BothMachinesImplementTheInterface) {
    const std::set<std::string> names = documented_names();
    ASSERT_GT(names.size(), 50u) << "machine.h is no longer read as this test reads it";
    for (const std::string folder : {"sm90/", "host/"}) {
        const std::string text = text_below(folder);
        for (const std::string& name : names) {
            EXPECT_TRUE(std::regex_search(text, std::regex("[A-Za-z0-9_*&>] " + name + "(<[a-z0-9]*>)?\\("))) << folder << " lacks " << name;
        }
        for (const char* type : {"Agent", "Bytes", "Acc", "Operand", "Row", "RowPart", "Pipe", "Barrier", "Relay", "bf16", "f16"}) {
            EXPECT_TRUE(std::regex_search(text, std::regex("struct (alignas\\([0-9]+\\) )?" + std::string(type) + " "))) << folder << " lacks " << type;
        }
        EXPECT_NE(text.find("kWarpgroupArrivals ="), std::string::npos) << folder;
        EXPECT_NE(text.find("#define PLAIT_AGENT"), std::string::npos) << folder;
    }
}

// The emitter prints PTX nowhere; the sm90 machine prints a raw fence in one file.
TEST(MachineNames, RawFencesStandInOneFile) {
    for (const EmbeddedTemplate& file : embedded_templates()) {
        if (file.path == "sm90/ptx/fence.cuh") continue;
        EXPECT_EQ(file.text.find("asm volatile(\"fence"), std::string::npos) << file.path;
    }
}

}  // namespace
}  // namespace plait
