// Lists of processors as the kernel prints them.
#pragma once
#include <string>
#include <vector>

namespace plait {

// "0-3,8,10-11" -> 0 1 2 3 8 10 11. TransportError: anything else, or no processor at all.
std::vector<int> parse_cpu_list(const std::string& text);

}  // namespace plait
