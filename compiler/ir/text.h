// The exact text forms: parse(print(x)) == x. Comments are printed; parsing drops them.
#pragma once
#include <string>

#include "compiler/ir/plan.h"
#include "compiler/ir/schedule.h"

namespace plait {

std::string print_plan(const Plan& plan, bool comments = true);
Plan parse_plan(const std::string& text);                 // ScheduleError with line and column
// One screen for people: buffers, edges, and for each program where it runs and what it waits for, signals and copies.
std::string summarize_plan(const Plan& plan);
std::string print_schedule(const ScheduleFile& file);
ScheduleFile parse_schedule(const std::string& text);

}  // namespace plait
