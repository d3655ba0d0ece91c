// The files of templates/, embedded: what emitted source includes.
#pragma once
#include <string>
#include <vector>

namespace plait {

struct EmbeddedTemplate { std::string path, text; };   // path below templates/: sm90/machine.cuh, abi/flag.h
const std::vector<EmbeddedTemplate>& embedded_templates();

}  // namespace plait
