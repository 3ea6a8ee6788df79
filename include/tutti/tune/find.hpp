// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Where a tuning table lies, and on which machine this is.
#pragma once

#include <optional>
#include <string>

#include "tutti/core/config.hpp"

namespace tutti::detail {

// "AMD EPYC, 2 cores": what a table says of where it was measured.
[[gnu::cold]] std::string this_machine();

// Where tutti-tune writes, and the main rank looks: $XDG_CONFIG_HOME or ~/.config, tutti/tuning. Empty where there is
// no home.
[[gnu::cold]] std::string usual_tuning_path();

struct found_file {
  std::string path, text;
};

// The file that TUTTI_TUNING names (none, where it is empty), else, where the usual one is wanted too, that if there is
// one. Throws bad_argument for a file that is named and can't be read.
[[gnu::cold]] std::optional<found_file> find_tuning_file(bool usual_too);

}  // namespace tutti::detail

#if !defined(TUTTI_COMPILED)
#include "tutti/tune/find_impl.hpp"
#endif
