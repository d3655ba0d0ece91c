#include "compiler/verify/environment.h"

#include <fmt/format.h>

#include "compiler/ir/plan_sizes.h"
#include "runtime/base/error.h"

namespace plait {

Environment::Environment(const Plan& plan, std::int64_t m, std::int64_t rank, std::int64_t cta, std::int64_t ctas,
                         const std::map<std::string, std::int64_t>& params, std::int64_t row_gap) {
    values_ = {{"M", m},
               {"rank", rank},
               {"world", plan.world},
               {"node", rank / plan.locals},
               {"nodes", plan.nodes},
               {"local", rank % plan.locals},
               {"locals", plan.locals},
               {"cta", cta},
               {"ctas", ctas}};
    for (const ParamDef& param : plan.params) {
        const auto given = params.find(param.name);
        values_.insert({param.name, given == params.end() ? param.max : given->second});
    }
    for (const Constant& c : plan.consts) values_.insert({c.name, c.value});
    for (const LetDef& let : plan.lets) values_[let.name] = value(let.value);
    for (const TensorDef& tensor : plan.tensors) {
        if (tensor.strided) values_[tensor.pitch()] = value(tensor.shape.back()) * element_bytes(tensor.dtype) + row_gap;
    }
}

std::int64_t Environment::value(const Expr& expr) const {
    return expr.evaluate([&](const std::string& name, bool, std::int64_t) -> std::int64_t {
        const auto found = values_.find(name);
        if (found == values_.end()) throw ScheduleError(fmt::format("`{}` has no value here", name));
        return found->second;
    });
}

}  // namespace plait
