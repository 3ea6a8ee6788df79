// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Definitions of training/optimizers.hpp.
#pragma once

#include "tutti/call/refuse.hpp"
#include "tutti/core/config.hpp"
#include "tutti/core/text.hpp"
#include "tutti/training/optimizers.hpp"

namespace tutti::detail {

TUTTI_INLINE void expect_constant(std::string_view name, double value, double end, std::source_location where) {
  if (value >= 0 && value < end) return;
  if (end == no_limit) refuse(-1, join({name, " is ", value}), "pass a finite number, 0 or more", where);
  refuse(-1, join({name, " is ", value, " in the type of the parameters"}),
         join({"pass a number from 0 to less than ", end, ", also when it is rounded"}), where);
}

TUTTI_INLINE void refuse_epsilon(double value, std::source_location where) {
  refuse(-1, join({"adam::epsilon is ", value, ", which is 0 in the type of the parameters"}),
         "pass a positive number, such as 1e-8, because gradients of 0 are divided by it", where);
}

TUTTI_INLINE void expect_scale(double scale, std::source_location where) {
  if (!std::isfinite(scale))
    refuse(-1, join({"a step is to multiply gradients by ", scale}),
           "pass a finite number, or 0 to skip the step; the norm of gradients that overflow is no finite number",
           where);
}

inline constexpr std::string_view same_list = "make the optimiser of the parameters of the model, in the same order";

TUTTI_INLINE void expect_parameters(std::size_t of_model, std::size_t own, std::source_location where) {
  if (of_model != own)
    refuse(-1, join({"the model has ", of_model, " parameters, but its optimiser has ", own}), same_list, where);
}

TUTTI_INLINE void refuse_gradient(std::size_t parameter, std::size_t elements, std::size_t parameters, std::size_t own,
                                  std::source_location where) {
  if (parameter >= parameters)
    refuse(-1, join({"there is no parameter ", parameter, ", only ", parameters, " parameters, numbered from 0"}),
           same_list, where);
  refuse(-1, join({"parameter ", parameter, " has ", own, " elements, but its gradient has ", elements}), same_list,
         where);
}

TUTTI_INLINE void refuse_update(std::size_t parameter, std::uint64_t steps, std::source_location where) {
  refuse(-1,
         join({"parameter ", parameter, " was updated ", steps == 0 ? "before the first step" : "twice in one step"}),
         "call begin_step() at the start of every step, and then update() once for each parameter", where);
}

}  // namespace tutti::detail
