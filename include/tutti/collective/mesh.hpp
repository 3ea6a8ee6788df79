// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// mesh: the ranks of a communicator as a grid with named axes, and a communicator along each axis or several.
#pragma once

#include <algorithm>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <map>
#include <source_location>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "tutti/call/accepted.hpp"
#include "tutti/call/survive.hpp"
#include "tutti/collective/all_gather.hpp"
#include "tutti/core/error.hpp"
#include "tutti/core/hash.hpp"
#include "tutti/core/text.hpp"
#include "tutti/message/point_to_point.hpp"

namespace tutti {

// An axis of a mesh: its name, and the number of ranks along it.
struct mesh_axis {
  std::string name;
  int extent;  // -1, for at most one axis: the remaining ranks
};

// Of mesh::shift.
struct shift_options {
  bool periodic = false;  // whether the axis continues at its other end
};

// Arranges the ranks of `comm` as a grid. All ranks create it, with the same axes, whose extents multiply to the size of
// comm. The first axis varies slowest (as in torch's DeviceMesh; Megatron-LM lists its axes the other way round): in
// {{"data", 2}, {"tensor", 4}}, rank 5 is at data 1, tensor 1. comm must outlive it, and stay where it is as long as along()
// makes communicators.
// Throws error: bad_argument for axes that do not fit, mismatch if ranks pass different ones, and as all_gather and
// communicator::subgroup do.
// Cost: an all_gather of the axes, and the creation of a group for each axis.
//
//   tutti::mesh mesh(comm, {{"data", 2}, {"tensor", 2}, {"pipeline", -1}});
//   tutti::all_reduce(mesh.along("tensor"), activation);
//   tutti::all_reduce(mesh.along({"data", "pipeline"}), norm);
template <transport Transport>
class mesh {
  static_assert(detail::divisible<Transport>,
                "the transport of this communicator cannot make groups, and a mesh is made of groups");

 public:
  mesh(communicator<Transport>& comm, std::vector<mesh_axis> axes,
       std::source_location where = std::source_location::current())
      : comm_(&comm), rank_(comm.rank()), size_(comm.size()), axes_(std::move(axes)) {
    comm.expect_usable(where);
    check_axes(where);
    check_agreement(where);
    for (mesh_axis const& a : axes_) along(a.name, where);
  }
  // Refused with a sentence.
  template <class Extent>
    requires std::integral<Extent>
  mesh(communicator<Transport>&, std::initializer_list<Extent>) {
    static_assert(detail::never<Extent>, "the axes of a mesh have names; pass {{\"row\", 2}, {\"column\", 2}}");
  }

  std::vector<mesh_axis> const& axes() const noexcept { return axes_; }
  int extent(std::string_view axis, std::source_location where = std::source_location::current()) const {
    return axes_[find(axis, where)].extent;
  }
  // The position of this rank on an axis: its rank in along(axis).
  int coordinate(std::string_view axis, std::source_location where = std::source_location::current()) const {
    return coordinate_of(rank_, find(axis, where));
  }

  // Neighbours as ranks of `comm`, so that messages along all axes can be sent at once, by one batch on it.

  // The one that is `steps` further along this axis, or back if negative; no_rank beyond its end. See MPI-4.1, 8.5.6
  // (MPI_Cart_shift).
  //
  //   int const above = mesh.shift("y", -1), below = mesh.shift("y", 1);
  int shift(std::string_view axis, int steps, shift_options how = {},
            std::source_location where = std::source_location::current()) const {
    std::size_t const a = find(axis, where);
    std::int64_t const extent = axes_[a].extent, here = coordinate_of(rank_, a);
    std::int64_t there = here + steps;
    if (how.periodic) there = (there % extent + extent) % extent;
    else if (there < 0 || there >= extent) return no_rank;
    return rank_ + static_cast<int>(there - here) * ranks_per_step(a);
  }
  // The one with these coordinates, one for each axis, in the order of axes(). See MPI-4.1, 8.5.5 (MPI_Cart_rank).
  int rank_at(std::vector<int> const& coordinates, std::source_location where = std::source_location::current()) const {
    bool fits = coordinates.size() == axes_.size();
    int rank = 0;
    for (std::size_t a = 0; fits && a < axes_.size(); ++a)
      if (fits = coordinates[a] >= 0 && coordinates[a] < axes_[a].extent; fits)
        rank += coordinates[a] * ranks_per_step(a);
    if (!fits)
      refuse(detail::join({"there is no rank at {", detail::list_of(coordinates), "} in a mesh of ", described()}),
             "pass one coordinate for each axis, from 0 to its extent less 1", where);
    return rank;
  }

  // The communicator of the ranks that differ from this one only on these axes, ordered as in comm, whatever the order of
  // the names. It lives as long as the mesh. A communicator along several axes is created at its first use, by all of its
  // ranks together.
  communicator<Transport>& along(std::string_view axis, std::source_location where = std::source_location::current()) {
    return along({axis}, where);
  }
  communicator<Transport>& along(std::initializer_list<std::string_view> axes,
                                 std::source_location where = std::source_location::current()) {
    std::vector<bool> open(axes_.size());
    for (std::string_view const axis : axes) open[find(axis, where)] = true;
    auto known = communicators_.find(open);
    if (known == communicators_.end())
      known = communicators_.emplace(open, comm_->subgroup(ranks_along(open), where)).first;
    return known->second;
  }

  // communicator::revoke of every communicator that along() has returned, but not of `comm`. A rank that leaves its calls on the mesh
  // because of an error, for instance to shrink `comm`, tells those that wait for it on other axes.
  //
  //   try { step(mesh); } catch (tutti::error const& e) { mesh.revoke(e), throw; }
  void revoke(error const& cause) {
    for (auto& [axes, ranks] : communicators_)
      ranks.revoke(detail::join({"an error of another call on the mesh: ", cause.happened()}));
  }

 private:
  [[gnu::cold]] void check_axes(std::source_location where) {
    std::int64_t ranks = 1;
    int* left_open = nullptr;
    for (mesh_axis& a : axes_) {
      if (&axes_[find(a.name, where)] != &a)
        refuse(detail::join({"a mesh has two axes \"", a.name, "\""}), "give every axis a name of its own", where);
      if (a.extent == -1 && left_open == nullptr) left_open = &a.extent;
      else if (a.extent < 1)
        refuse(detail::join({"axis \"", a.name, "\" of a mesh has extent ", a.extent}),
               "use 1 or more, and -1 once at most", where);
      else ranks = std::min(ranks * a.extent, size_ + std::int64_t{1});
    }
    if (left_open != nullptr && size_ % ranks == 0) *left_open = static_cast<int>(size_ / ranks);
    else if (left_open != nullptr || ranks != size_)
      refuse(detail::join({"a mesh of ", axes_.empty() ? "no axes" : described(), " does not fit ", size_, " ranks"}),
             "the product of the extents must be the number of ranks; one extent may be -1", where);
  }

  [[gnu::cold]] void check_agreement(std::source_location where) {
    std::uint64_t const mine = detail::hash_of(described());
    std::vector<std::uint64_t> all(static_cast<std::size_t>(size_));
    all_gather(*comm_, std::span(&mine, 1), all, {}, where);
    auto const other = std::find_if(all.begin(), all.end(), [&](std::uint64_t hash) { return hash != all.front(); });
    if (other == all.end()) return;
    int const peer = static_cast<int>(other - all.begin());
    throw error({.code = error_code::mismatch,
                 .rank = rank_,
                 .peer = peer,
                 .what = detail::join(
                     {"rank ", peer, " creates a mesh whose axes differ from rank 0's; this rank's are ", described()}),
                 .way_out = "pass the same axes on all ranks",
                 .where = where});
  }

  // "data 2, tensor 4"
  [[gnu::cold]] std::string described() const {
    std::string out;
    for (mesh_axis const& a : axes_) out += detail::join({out.empty() ? "" : ", ", a.name, " ", a.extent});
    return out;
  }

  [[noreturn, gnu::cold]] void refuse(std::string_view what, std::string_view way_out,
                                      std::source_location where) const {
    detail::noting_refusals(*comm_, [&] { detail::refuse(rank_, what, way_out, where); });
    __builtin_unreachable();
  }

  std::size_t find(std::string_view axis, std::source_location where) const {
    for (std::size_t a = 0; a < axes_.size(); ++a)
      if (axes_[a].name == axis) return a;
    refuse(detail::join({"a mesh of ", described(), " has no axis \"", axis, "\""}), "use one of its names", where);
  }

  // How far the ranks of neighbours on this axis are apart.
  int ranks_per_step(std::size_t axis) const {
    int out = 1;
    for (std::size_t a = axis + 1; a < axes_.size(); ++a) out *= axes_[a].extent;
    return out;
  }
  int coordinate_of(int rank, std::size_t axis) const { return rank / ranks_per_step(axis) % axes_[axis].extent; }

  std::vector<int> ranks_along(std::vector<bool> const& open) const {
    std::vector<int> out;
    for (int r = 0; r < size_; ++r) {
      bool beside = true;
      for (std::size_t a = 0; a < axes_.size(); ++a)
        beside &= open[a] || coordinate_of(r, a) == coordinate_of(rank_, a);
      if (beside) out.push_back(r);
    }
    return out;
  }

  communicator<Transport>* comm_;
  int rank_, size_;
  std::vector<mesh_axis> axes_;
  std::map<std::vector<bool>, communicator<Transport>> communicators_;  // by their axes
};

namespace detail {

template <class Comm>
struct transport_of_mesh {
  static_assert(expect_blocking<Comm>());
  using type = typename std::remove_cvref_t<Comm>::transport_type;
};

}  // namespace detail

// Reached only by arguments that the constructor does not accept.
template <class Comm>
mesh(Comm&&, std::vector<mesh_axis>) -> mesh<typename detail::transport_of_mesh<Comm>::type>;

}  // namespace tutti
