// Inside of expr: operator levels and the recursive-descent parser.
#pragma once
#include <string_view>

#include "runtime/base/expr.h"

namespace plait {

// C's levels of the binary operators, weakest first: || && ^ (== !=) (< <= > >=) (+ -) (* / %) are 2..8.
int binary_level(std::string_view op);
bool is_identifier(std::string_view text);

}  // namespace plait
