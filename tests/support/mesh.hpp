// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Lets a test decide whether the processor counts as one whose cores a mesh joins.
#pragma once

#include <utility>

#include "tutti/transport/cache_lines.hpp"

namespace tutti::testing {

class mesh_as {
 public:
  explicit mesh_as(bool mesh) : before(std::exchange(detail::on_mesh, mesh)) {}
  ~mesh_as() { detail::on_mesh = before; }
  mesh_as(mesh_as const&) = delete;
  mesh_as& operator=(mesh_as const&) = delete;

 private:
  bool const before;
};

}  // namespace tutti::testing
