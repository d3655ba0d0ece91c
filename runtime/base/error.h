// Typed errors. What comes from the outside world carries a hint; InternalError is plait's own bug and says so.
#pragma once
#include <stdexcept>
#include <string>
#include <utility>

namespace plait {

// message: lower case, no trailing period, with the numbers; hint: what to do about it.
class Error : public std::runtime_error {
public:
    Error(std::string kind, std::string message, std::string hint = "");
    const std::string& kind() const { return kind_; }
    const std::string& message() const { return message_; }
    const std::string& hint() const { return hint_; }

private:
    std::string kind_, message_, hint_;
};

#define PLAIT_ERROR(Name)                                                                                              \
    class Name : public Error {                                                                                        \
    public:                                                                                                            \
        explicit Name(std::string message, std::string hint = "")                                                      \
            : Error(#Name, std::move(message), std::move(hint)) {}                                                     \
    }
PLAIT_ERROR(ScheduleError);    // graph, schedule, topology or plan is not legal
PLAIT_ERROR(CompileError);     // NVRTC, ptxas or Clang refused the source, or its result breaks a rule
PLAIT_ERROR(DeviceError);      // driver or device
PLAIT_ERROR(TransportError);   // proxy session, NIC, rendezvous
PLAIT_ERROR(StallError);       // a wait reached its deadline, or the Session was aborted
PLAIT_ERROR(ArgumentError);    // a call's arguments
PLAIT_ERROR(InternalError);    // our bug
#undef PLAIT_ERROR

}  // namespace plait
