// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The manifest of a checkpoint is refused with a sentence, or what is written of it reads back the same. The checksum in its last
// line is made right, because hardly any other input would get past it.
// runs: 25000
#include "tutti/training/checkpoint/manifest.hpp"

#include <cstddef>
#include <span>
#include <string>

#include "fuzz/input.hpp"
#include "tutti/core/crc32c.hpp"
#include "tutti/core/error.hpp"

void take(std::string const& text) {
  using namespace tutti::detail;
  std::string right = text;
  if (std::size_t const end = text.size() < 2 ? text.npos : text.rfind('\n', text.size() - 2); end != text.npos) {
    right.resize(end + 1);
    right += std::to_string(crc32c(std::as_bytes(std::span(right)))) + '\n';
  }
  for (std::string const& one : {text, right}) try {
      std::string const written = manifest::parse(one).text();
      require(manifest::parse(written).text() == written);
    } catch (tutti::error const& e) {
      require(e.code() == tutti::error_code::system);
      require(!e.happened().empty());
    }
}
