#include "compiler/ir/diagnostic.h"

#include <fmt/format.h>

#include "runtime/base/error.h"

namespace plait {

std::string print(const Diagnostics& diagnostics) {
    std::string text;
    for (const Diagnostic& diagnostic : diagnostics) {
        text += fmt::format("{}[{}] {}", text.empty() ? "" : "\n", diagnostic.rule, diagnostic.message);
        if (!diagnostic.where.empty()) text += "\n  --> " + diagnostic.where;
        if (!diagnostic.hint.empty()) text += "\n  | " + diagnostic.hint;
    }
    return text;
}

void throw_if_any(const Diagnostics& diagnostics) {
    if (diagnostics.empty()) return;
    std::string text = print(diagnostics);
    if (diagnostics.size() > 1) text = fmt::format("{} findings\n{}", diagnostics.size(), text);
    throw ScheduleError(text);
}

}  // namespace plait
