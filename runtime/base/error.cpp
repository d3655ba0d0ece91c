#include "runtime/base/error.h"

namespace plait {
namespace {

std::string full_text(const std::string& kind, const std::string& message, const std::string& hint) {
    std::string text = kind == "InternalError" ? "internal error (a bug in plait): " + message : message;
    if (!hint.empty()) text += "\n  | " + hint;
    return text;
}

}  // namespace

Error::Error(std::string kind, std::string message, std::string hint)
    : std::runtime_error(full_text(kind, message, hint)),
      kind_(std::move(kind)),
      message_(std::move(message)),
      hint_(std::move(hint)) {}

}  // namespace plait
