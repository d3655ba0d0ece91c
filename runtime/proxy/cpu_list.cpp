#include "runtime/proxy/cpu_list.h"

#include <fmt/format.h>

#include <charconv>

#include "runtime/base/error.h"

namespace plait {

std::vector<int> parse_cpu_list(const std::string& text) {
    constexpr int kMostProcessors = 1 << 20;  // a damaged list must not ask for memory without end
    std::vector<int> cpus;
    const char* at = text.data();
    const char* const end = at + text.size();
    const auto number = [&] {
        int value = -1;
        const auto [after, error] = std::from_chars(at, end, value);
        if (error != std::errc() || value < 0 || value >= kMostProcessors)
            throw TransportError(fmt::format("`{}` is not a list of processors", text), "0-3,8 is one");
        at = after;
        return value;
    };
    for (;;) {
        const int first = number();
        int last = first;
        if (at != end && *at == '-') {
            ++at;
            last = number();
        }
        for (int cpu = first; cpu <= last; ++cpu) cpus.push_back(cpu);
        if (last < first || (at != end && *at != ',')) throw TransportError(fmt::format("`{}` is not a list of processors", text), "0-3,8 is one");
        if (at == end) return cpus;
        ++at;
    }
}

}  // namespace plait
