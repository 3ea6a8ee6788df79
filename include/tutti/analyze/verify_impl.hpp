// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Definitions of analyze/verify.hpp.
#pragma once

#include "tutti/analyze/verify.hpp"
#include "tutti/core/text.hpp"

namespace tutti::analyze {

TUTTI_INLINE std::string find_flaw(dynamic_schedule const& of, collective what, shape const& s) {
  for (int const slices : {1, 5})  // as few as possible, and more than the two that a channel holds
    for (bool const direct : {false, true})
      for (bool const in_place : {false, true}) {
        if ((in_place && !of.in_place) || (direct && !(in_place ? of.direct_in_place : of.direct))) continue;
        circumstances const how{.in_place = in_place, .direct = direct, .slices = slices, .credits = 2};
        if (verdict const found = verify(of, what, s, how); !found)
          return tutti::detail::join({found.why, " (", slices, slices == 1 ? " slice" : " slices",
                                      in_place ? ", in place" : "", direct ? ", protocol direct" : "", ")"});
      }
  return {};
}

}  // namespace tutti::analyze
