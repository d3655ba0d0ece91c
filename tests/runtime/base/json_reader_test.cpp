#include "runtime/base/json_reader.h"

#include <gtest/gtest.h>

#include "runtime/base/nearest.h"

namespace plait {
namespace {

struct Sample {
    std::string name;
    std::int64_t count = 7;
    int small = 0;
    std::uint64_t big = 0;
    bool on = false;
    double ratio = 0;
    Expr size;
    std::vector<std::int64_t> list;
};

std::string read(const std::string& text, Sample* sample) {
    JsonFindings findings;
    const auto json = parse_json(text, findings);
    if (json && findings.empty()) {
        JsonObject object(JsonValue(*json, "", findings));
        object.read("name", sample->name);
        object.read_optional("count", sample->count);
        object.read_optional("small", sample->small);
        object.read_optional("big", sample->big);
        object.read_optional("on", sample->on);
        object.read_optional("ratio", sample->ratio);
        object.read_optional("size", sample->size);
        object.read_optional("list", sample->list);
        object.finish();
    }
    return findings.empty() ? "" : findings.print("f.json");
}

std::string problem(const std::string& text) {
    Sample sample;
    return read(text, &sample);
}

TEST(JsonReader, ReadsEveryType) {
    Sample s;
    EXPECT_EQ(
        read(
            R"({"name": "x", "count": -5, "small": 3, "big": 18446744073709551615, "on": true, "ratio": 2, "size": "M / 2", "list": [1, 2]})",
            &s),
        "");
    EXPECT_EQ(s.name, "x");
    EXPECT_EQ(s.count, -5);
    EXPECT_EQ(s.big, UINT64_MAX);
    EXPECT_TRUE(s.on);
    EXPECT_EQ(s.ratio, 2.0);
    EXPECT_EQ(s.size.print(), "M / 2");
    EXPECT_EQ(s.list, (std::vector<std::int64_t>{1, 2}));
}

TEST(JsonReader, FindingsCarryPointers) {
    EXPECT_EQ(problem("{}"), "f.json, top level: `name` is missing");
    EXPECT_EQ(problem("[]"), "f.json, top level: expected an object, found an array");
    EXPECT_EQ(problem(R"({"name": 5})"), "f.json, /name: expected text, found `5`");
    EXPECT_EQ(problem(R"({"name": "", "count": 1.5})"), "f.json, /count: expected a 64-bit integer, found `1.5`");
    EXPECT_EQ(problem(R"({"name": "", "count": 9223372036854775808})"),
              "f.json, /count: expected a 64-bit integer, found `9223372036854775808`");
    EXPECT_EQ(problem(R"({"name": "", "small": -2147483649})"),
              "f.json, /small: expected a 32-bit integer, found `-2147483649`");
    EXPECT_EQ(problem(R"({"name": "", "big": -1})"), "f.json, /big: expected an unsigned 64-bit integer, found `-1`");
    EXPECT_EQ(problem(R"({"name": "", "on": 1})"), "f.json, /on: expected true or false, found `1`");
    EXPECT_EQ(problem(R"({"name": "", "ratio": "x"})"), "f.json, /ratio: expected a number, found `\"x\"`");
    EXPECT_EQ(problem(R"({"name": "", "size": "M +"})"),
              "f.json, /size: bad expression `M +`, column 4: expected a value, found the end");
    EXPECT_EQ(problem(R"({"name": "", "size": []})"),
              "f.json, /size: expected an integer or an expression, found an array");
    EXPECT_EQ(problem(R"({"name": "", "list": [1, "x"]})"),
              "f.json, /list/1: expected a 64-bit integer, found `\"x\"`");
    EXPECT_EQ(problem(R"({"name": "", "list": {}})"), "f.json, /list: expected an array, found an object");
    EXPECT_EQ(problem(R"({"name": "", "li/st": 1})"),
              "f.json, /li~1st: no field `li/st` here\n  | the nearest is `list`");
    EXPECT_EQ(problem(R"({"name": "", "name": ""})"), "f.json, top level: key `name` stands twice in one object");
    EXPECT_NE(problem("{").find("f.json, top level: not JSON: "), std::string::npos);
}

TEST(JsonReader, TellsAllFindingsAtOnce) {
    EXPECT_EQ(problem(R"({"count": "a", "on": 3, "cuont": 1})"),
              "4 findings in f.json\n"
              "f.json, top level: `name` is missing\n"
              "f.json, /count: expected a 64-bit integer, found `\"a\"`\n"
              "f.json, /on: expected true or false, found `3`\n"
              "f.json, /cuont: no field `cuont` here\n  | the nearest is `count`");
}

TEST(Nearest, ByEditDistance) {
    EXPECT_EQ(edit_distance("kitten", "sitting"), 3u);
    EXPECT_EQ(edit_distance("", "abc"), 3u);
    EXPECT_EQ(nearest("stagse", {"tile_m", "stages", "order"}), "stages");
    EXPECT_EQ(nearest("x", {}), "");
}

}  // namespace
}  // namespace plait
