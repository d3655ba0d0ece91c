// CompileRequest: all that a compilation depends on but for the compilers themselves. It prints as one line of JSON, so
// that a live run can record what it asked for and plaitc can build it elsewhere, without a GPU. A line holds no path:
// where an op stands in the user's program is left out.
#pragma once
#include <string>
#include <vector>

#include "compiler/ir/schedule.h"
#include "compiler/ir/target.h"

namespace plait {

struct CompileRequest {
    Graph graph;
    Schedule schedule;
    Problem problem;
    Topology topology;
    Target target;
};

// Hash of what is computed: graph with numerics, schedule, problem, the topology's shape, target. Names of machines and
// NICs, and what compiles it, take no part.
std::string semantics_of(const CompileRequest& request);

std::string print_request(const CompileRequest& request);  // without a newline
// ScheduleError with all findings, origin first.
CompileRequest parse_request(const std::string& line, const std::string& origin);
// One request a line; empty lines are skipped. Errors name path and line.
std::vector<CompileRequest> load_requests(const std::string& path);

}  // namespace plait
