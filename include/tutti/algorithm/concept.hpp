// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What a schedule is: a pure function from (shape, rank, step number) to a step, random access and never stored.
#pragma once

#include <concepts>
#include <type_traits>

#include "tutti/algorithm/collective.hpp"
#include "tutti/algorithm/step.hpp"

namespace tutti {

// The schedule of an algorithm for a collective. An algorithm serves a collective where this is specialised:
//
//   struct ring { static constexpr std::string_view name = "ring"; };
//   template <> struct schedule<ring, collective::all_gather> : schedule_defaults { ... };
template <class Algorithm, collective C>
struct schedule;

template <class Algorithm, collective C>
concept serves = requires { sizeof(schedule<Algorithm, C>); };

// What a schedule inherits and overrides where it differs.
struct schedule_defaults {
  // Combines contributions out of rank order, whatever shape::ordered asks.
  static constexpr bool needs_commutative = false;
  // A cursor takes one slice through all its steps before the next slice, so slices stream through a tree. Otherwise it
  // takes all slices through one step before the next step. A pipelined schedule moves one chunk a message.
  static constexpr bool pipelined = false;
  // Right also where input and output are the same memory.
  static constexpr bool in_place = true;
  // No rank waits for ever when peers read its memory themselves (protocol direct): out of place, and in place.
  static constexpr bool direct = true;
  static constexpr bool direct_in_place = true;
  // Every message is one chunk that lies in its sender's memory, and its receiver keeps it or what it makes of it: so it can
  // be fetched (protocol pull). Nothing is forwarded.
  static constexpr bool fetchable = false;
  // Keeps partial results in space::scratch.
  static constexpr bool scratch = false;
  // Serves the _v form too, where blocks differ in size and a rank may know only the sizes of those that it holds itself.
  static constexpr bool ragged = true;

  // Independent instances, each over its part of the message.
  TUTTI_HOST_DEVICE constexpr int lanes(shape) const { return 1; }
  // Cursors that follow each other slice by slice: a phase takes a slice when the phase before has done with it.
  TUTTI_HOST_DEVICE constexpr int phases(shape) const { return 1; }
  TUTTI_HOST_DEVICE constexpr int chunks(shape) const { return 1; }
};

struct one_chunk_messages : schedule_defaults {
  static constexpr bool fetchable = true;
};

// The most (lane, phase) pairs that a schedule may have: a transport keeps that many channels between two ranks.
inline constexpr int max_tracks = 4;

template <class S>
concept step_function = std::is_trivially_copyable_v<S> && requires(S const s, shape of, position at, int i) {
  { s.lanes(of) } -> std::same_as<int>;
  { s.phases(of) } -> std::same_as<int>;
  { s.chunks(of) } -> std::same_as<int>;
  { s.steps(of, at) } -> std::same_as<int>;
  { s.at(of, at, i) } -> std::same_as<step>;
  { s.needs_commutative } -> std::convertible_to<bool>;
  { s.pipelined } -> std::convertible_to<bool>;
  { s.in_place } -> std::convertible_to<bool>;
  { s.direct } -> std::convertible_to<bool>;
  { s.direct_in_place } -> std::convertible_to<bool>;
  { s.fetchable } -> std::convertible_to<bool>;
  { s.scratch } -> std::convertible_to<bool>;
  { s.ragged } -> std::convertible_to<bool>;
};

}  // namespace tutti
