// The nearest legal name, for errors about unknown ones.
#pragma once
#include <string>
#include <string_view>
#include <vector>

namespace plait {

std::size_t edit_distance(std::string_view a, std::string_view b);
std::string nearest(std::string_view name, const std::vector<std::string>& names);  // "" where there are none

}  // namespace plait
