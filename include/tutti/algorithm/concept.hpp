// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The concept of a schedule: a pure function from (shape, rank, step number) to a step. Steps are never stored.
#pragma once

#include <concepts>
#include <type_traits>

#include "tutti/algorithm/collective.hpp"
#include "tutti/algorithm/step.hpp"

namespace tutti {

// The schedule of an algorithm for a collective. An algorithm serves the collectives for which this is specialised:
//
//   struct ring { static constexpr std::string_view name = "ring"; };
//   template <> struct schedule<ring, collective::all_gather> : schedule_defaults { ... };
template <class Algorithm, collective C>
struct schedule;

// Whether an algorithm has a schedule for a collective.
template <class Algorithm, collective C>
concept serves = requires { sizeof(schedule<Algorithm, C>); };

// The usual properties of a schedule, which inherits them and overrides those that differ.
struct schedule_defaults {
  // It combines contributions out of rank order, even if shape::ordered asks for rank order.
  static constexpr bool needs_commutative = false;
  // All contributions to an element of a result are combined in one step, in rank order.
  static constexpr bool at_once = false;
  // A cursor takes one slice through all its steps before the next slice, so slices stream through a tree. Otherwise it
  // takes all slices through one step before the next step. A message of a pipelined schedule is one chunk.
  static constexpr bool pipelined = false;
  // It is correct also if input and output are the same memory.
  static constexpr bool in_place = true;
  // It does not deadlock if peers read a rank's memory themselves (protocol direct): out of place, and in place.
  static constexpr bool direct = true;
  static constexpr bool direct_in_place = true;
  // Its messages can be fetched (protocol pull): each is one chunk in the sender's memory, and its receiver keeps it or
  // the result of combining it. Nothing is forwarded.
  static constexpr bool fetchable = false;
  // It keeps partial results in space::scratch.
  static constexpr bool scratch = false;
  // It serves the _v form too, in which blocks differ in size and a rank may know only the sizes of the blocks that it holds.
  static constexpr bool ragged = true;

  // Independent instances, each over its part of the message.
  TUTTI_HOST_DEVICE constexpr int lanes(shape) const { return 1; }
  // Parts with a cursor each, which follow each other slice by slice: a phase takes a slice when the phase before has
  // finished it.
  TUTTI_HOST_DEVICE constexpr int phases(shape) const { return 1; }
  TUTTI_HOST_DEVICE constexpr int chunks(shape) const { return 1; }
};

// The defaults of schedules in which each message is one chunk, so that it can be fetched.
struct one_chunk_messages : schedule_defaults {
  static constexpr bool fetchable = true;
};

// The maximal number of (lane, phase) pairs of a schedule: a transport keeps that many channels between two ranks.
inline constexpr int max_tracks = 4;

// A schedule: a trivially copyable object whose at(shape, position, i) is step i of a cursor, with the properties of
// schedule_defaults. It may lack at_once.
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

namespace detail {

// schedule_defaults::at_once of a schedule, which need not have it.
template <class S>
inline constexpr bool combines_in_one_step = false;
template <class S>
  requires requires { S::at_once; }
inline constexpr bool combines_in_one_step<S> = S::at_once;

// Whether the cursors of a schedule have room, and something to do.
template <step_function S>
constexpr bool has_tracks(S const& schedule, shape const& s) {
  int const lanes = schedule.lanes(s), phases = schedule.phases(s);
  return lanes > 0 && phases > 0 && schedule.chunks(s) > 0 && lanes <= max_tracks / phases;
}

}  // namespace detail

}  // namespace tutti
