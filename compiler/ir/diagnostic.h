// Diagnostics: all findings of a stage at once. `compile` throws one ScheduleError that prints them all.
#pragma once
#include <string>
#include <vector>

namespace plait {

struct Diagnostic {
    std::string rule;       // file name of the rule, without .cpp: check_roles
    std::string message;    // what, with the numbers; lower case, no trailing period
    std::string where;      // JSON pointer (/schedule/stages), plan path (program compute_loader, statement 12) or Python line
    std::string hint;       // what to do
};
using Diagnostics = std::vector<Diagnostic>;

std::string print(const Diagnostics& diagnostics);
void throw_if_any(const Diagnostics& diagnostics);   // ScheduleError

}  // namespace plait
