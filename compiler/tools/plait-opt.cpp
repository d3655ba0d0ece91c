// plait-opt: text in, text out. Reads a schedule (text or JSON) or a plan, runs the chosen stages, prints the result.
// For golden tests and for people who edit a plan by hand.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <iostream>
#include <iterator>
#include <optional>

#include "compiler/codegen/emit.h"
#include "compiler/ir/text.h"
#include "compiler/passes/lower.h"
#include "compiler/verify/verify.h"
#include "runtime/base/error.h"
#include "runtime/base/files.h"

namespace plait {
namespace {

struct Request {
    std::string input = "-", topology, target = "host", print, rule;
    bool lower = false, verify = false, no_comments = false;
};

// What was read: a schedule, or a plan from the start or by lowering.
struct Unit {
    std::optional<ScheduleFile> file;
    std::optional<Plan> plan;
};

Unit read_unit(const std::string& path) {
    const std::string text = path == "-" ? std::string(std::istreambuf_iterator<char>(std::cin), {}) : read_file(path);
    const std::size_t start = text.find_first_not_of(" \t\r\n");
    const std::string_view rest = start == std::string::npos ? "" : std::string_view(text).substr(start);
    Unit unit;
    if (rest.starts_with("{"))
        unit.file = read_schedule_json(text, path);
    else if (rest.starts_with("graph "))
        unit.file = parse_schedule(text);
    else if (rest.starts_with("plan "))
        unit.plan = parse_plan(text);
    else
        throw ArgumentError(fmt::format("{} is neither a plan nor a schedule", path),
                            "a plan begins with `plan NAME`, a schedule with `graph NAME` or `{`");
    if (unit.file && unit.file->origin.empty()) unit.file->origin = path;
    return unit;
}

Topology topology_for(const Request& request, const Unit& unit) {
    if (unit.plan && request.topology.empty()) {
        Topology topology = Topology::simulated(fmt::format("{}x{}", unit.plan->nodes, unit.plan->locals));
        topology.arch = unit.plan->target;
        return topology;
    }
    if (request.topology.empty()) return topology_of(*unit.file);
    return file_exists(request.topology) ? Topology::from_file(request.topology)
                                         : Topology::simulated(request.topology);
}

// All findings, or those of one rule; the number of them.
std::size_t report(Diagnostics findings, const std::string& rule) {
    if (!rule.empty()) std::erase_if(findings, [&](const Diagnostic& d) { return d.rule != rule; });
    if (!findings.empty()) fmt::print(stderr, "{}\n", plait::print(findings));
    return findings.size();
}

void print_unit(const Request& request, const Unit& unit) {
    const std::string what = !request.print.empty() ? request.print : unit.plan ? "plan" : "schedule";
    if (what == "schedule") {
        if (!unit.file) throw ArgumentError("a plan holds no schedule", "print plan, summary or source");
        fmt::print("{}", print_schedule(*unit.file));
        return;
    }
    if (!unit.plan) throw ArgumentError(fmt::format("a schedule has no {}", what), "lower it first: --lower");
    if (what == "plan") fmt::print("{}", print_plan(*unit.plan, !request.no_comments));
    if (what == "summary") fmt::print("{}", summarize_plan(*unit.plan));
    if (what == "source") fmt::print("{}", emit(*unit.plan).kernel);
}

// Stages run in their order, whatever the order of the options: read, check the request, lower, prove, print.
std::size_t execute(const Request& request) {
    Unit unit = read_unit(request.input);
    if (!request.lower && !request.verify) {  // printing needs no machine
        print_unit(request, unit);
        return 0;
    }
    const Topology topology = topology_for(request, unit);
    const Target target = Target::make(unit.plan ? unit.plan->target : request.target, topology);
    std::size_t findings = 0;
    if (unit.file && request.verify)
        findings += report(verify_request(unit.file->graph, unit.file->schedule, unit.file->problem, topology, target),
                           request.rule);
    if (findings > 0) return findings;
    if (request.lower) {
        if (unit.plan) throw ArgumentError("--lower of a plan", "it is lowered already");
        unit.plan = lower_unproven(unit.file->graph, unit.file->schedule, unit.file->problem, topology, target);
    }
    if (unit.plan && request.verify) findings += report(verify_plan(*unit.plan, target), request.rule);
    if (findings == 0) print_unit(request, unit);
    return findings;
}

}  // namespace
}  // namespace plait

// 0: printed; 1: findings or a refusal, on standard error; other: the command line.
int main(int argc, char** argv) {
    CLI::App app{"plait-opt: reads a schedule or a plan, runs the chosen stages, prints the result"};
    plait::Request request;
    app.add_option("input", request.input, "file with a plan or a schedule (text or JSON), or -")
        ->capture_default_str();
    app.add_flag("--lower", request.lower, "schedule to plan");
    app.add_flag("--verify", request.verify, "runs every rule on the request and on the plan");
    app.add_option("--rule", request.rule, "reports the findings of this rule alone (check_edges)")->needs("--verify");
    app.add_option("--topology", request.topology, "topology file (JSON) or NODESxGPUS; default: the input's");
    app.add_option("--target", request.target, "sm_90a or host, of a schedule")->capture_default_str();
    app.add_option("--print", request.print, "default: the last stage's result")
        ->check(CLI::IsMember({"schedule", "plan", "summary", "source"}));
    app.add_flag("--no-comments", request.no_comments, "a plan without its comments");
    CLI11_PARSE(app, argc, argv);
    try {
        return plait::execute(request) == 0 ? 0 : 1;
    } catch (const plait::Error& error) {
        fmt::print(stderr, "plait-opt: {}: {}\n", error.kind(), error.what());
    } catch (const std::exception& error) {
        fmt::print(stderr, "plait-opt: {}\n", error.what());
    }
    return 1;
}
