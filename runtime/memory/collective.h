// What all ranks do together: every rank gives a text and gets everyone's. How they meet is the caller's affair.
#pragma once
#include <functional>
#include <string>
#include <vector>

#include "runtime/base/error.h"

namespace plait {

// `value` of every rank, by rank. Called in the same order with the same name everywhere. TransportError where a rank
// does not come.
using AllGather = std::function<std::vector<std::string>(const std::string& name, const std::string& value)>;

inline constexpr const char* kFailedStep = "failed: ";

// One step of a collective: what it returned or, in place of it, why it failed, so that the others hear of the failure
// instead of waiting for this rank.
template <typename Step>
std::string outcome_of(Step&& step) {
    try {
        return step();
    } catch (const Error& error) {
        return kFailedStep + error.message();
    }
}

// DeviceError `what failed: rank r: why; ...` where any outcome says so.
void throw_failures(const std::vector<std::string>& outcomes, const std::string& what);

}  // namespace plait
