// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Finds the tuning table of this machine.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

#include "tutti/core/config.hpp"
#include "tutti/tune/devices.hpp"

namespace tutti::detail {

// The name of the processor in the text of /proc/cpuinfo: "AMD EPYC" or, on ARM, "processor 0x41 0xd4f".
[[gnu::cold]] std::string processor_in(std::string_view text);

// Describes this machine as a table does: "AMD EPYC, 2 cores".
[[gnu::cold]] std::string this_machine();

// The position in shipped_tables of the table for this machine's processor.
[[gnu::cold]] std::size_t find_shipped_table();

// The file that tutti-tune writes and rank 0 reads: tutti/tuning in $XDG_CONFIG_HOME or ~/.config. Empty if there is no
// home.
[[gnu::cold]] std::string usual_tuning_path();

struct found_file {
  std::string path, text;
};

// The file that TUTTI_TUNING names (none if it is empty); otherwise, with `usual_too`, the usual file if it exists.
// Throws bad_argument if a named file cannot be read.
[[gnu::cold]] std::optional<found_file> find_tuning_file(bool usual_too);

// The limits of that file, for ranks without a communicator, whose rank 0 would send them the table. Throws bad_argument
// also for what cannot be parsed.
[[gnu::cold]] device_limits find_device_limits();

}  // namespace tutti::detail

#if !defined(TUTTI_COMPILED)
#include "tutti/tune/find_impl.hpp"
#endif
