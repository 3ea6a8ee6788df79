// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Finds the tuning table of this machine.
#pragma once

#include <optional>
#include <string>

#include "tutti/core/config.hpp"

namespace tutti::detail {

// Describes this machine as a table does: "AMD EPYC, 2 cores".
[[gnu::cold]] std::string this_machine();

// The file that tutti-tune writes and rank 0 reads: tutti/tuning in $XDG_CONFIG_HOME or ~/.config. Empty if there is no
// home.
[[gnu::cold]] std::string usual_tuning_path();

struct found_file {
  std::string path, text;
};

// The file that TUTTI_TUNING names (none if it is empty); otherwise, with `usual_too`, the usual file if it exists.
// Throws bad_argument if a named file cannot be read.
[[gnu::cold]] std::optional<found_file> find_tuning_file(bool usual_too);

}  // namespace tutti::detail

#if !defined(TUTTI_COMPILED)
#include "tutti/tune/find_impl.hpp"
#endif
