// Schedule: every choice that cannot change the result. One struct, one declaration a knob (knobs.def).
#pragma once
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "compiler/ir/diagnostic.h"
#include "compiler/ir/graph.h"
#include "runtime/topology/topology.h"

namespace plait {

struct KnobSpec {
    std::string name;
    bool is_word = false;
    std::string default_value;
    std::vector<std::string> words;                // legal values of a word
    std::int64_t low = 0, high = 0, step = 1;      // legal values of an int
    std::string doc;
};
const std::vector<KnobSpec>& knob_specs();
const KnobSpec* find_knob(const std::string& name);
std::string nearest_knob(const std::string& name);  // by edit distance, for the error of an unknown knob

class Schedule {
public:
    Schedule();                                     // every knob at its default
    std::int64_t integer(const std::string& knob) const;    // InternalError on an unknown knob or a word
    const std::string& word(const std::string& knob) const;
    void set(const std::string& knob, const std::string& value);   // ScheduleError: unknown (nearest name), illegal value
    bool is_set(const std::string& knob) const;      // given, not defaulted
    const std::map<std::string, std::string>& values() const { return values_; }
    bool operator==(const Schedule& other) const { return values_ == other.values_; }

private:
    std::map<std::string, std::string> values_;
    std::map<std::string, bool> given_;
};

// A schedule file: graph, schedule and the problem and topology it carries as defaults.
struct ScheduleFile {
    Graph graph;
    Schedule schedule;
    Problem problem;
    std::string topology;       // path, relative to the file, or a label such as 2x2; may be empty
    std::string origin;         // path of the file
};
// json.cpp: nlohmann_json. Every finding carries a JSON pointer; throws ScheduleError with all of them.
ScheduleFile read_schedule_json(const std::string& text, const std::string& origin);
std::string write_schedule_json(const ScheduleFile& file);
ScheduleFile load_schedule_file(const std::string& path);
// The file's own topology (path or label). ScheduleError where it names none.
Topology topology_of(const ScheduleFile& file);

}  // namespace plait
