// The op, knob and setting reference, generated from the tables that the compiler itself reads.
#pragma once
#include <string>

namespace plait {

std::string reference_text();  // text of docs/reference.md

}  // namespace plait
