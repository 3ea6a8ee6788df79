// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The communicators of the algorithm two_level: one of the ranks of a node, and one of the ranks that represent nodes.
#pragma once

#include <cstddef>
#include <new>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "tutti/call/native.hpp"
#include "tutti/call/numbering.hpp"
#include "tutti/core/is_a.hpp"

namespace tutti::detail {

// The prologue and the epilogue of an operation are applied before and after all levels.
template <class T, class Op>
auto bare_operation(reducing<T, Op> const& body) {
  if constexpr (reducing<T, Op>::prepares || reducing<T, Op>::finishes) return bare<Op>{body.op};
  else return body.op;
}

// The named algorithm if it serves a part, else the choice of tutti. `Ragged`: the part is a _v form, for which a
// library may be unable to count.
template <class Algorithm, class Transport, collective C, bool Commutative, bool Ragged>
struct serving {
  using type = automatic;
};
template <class Algorithm, class Transport, collective C, bool Commutative, bool Ragged>
  requires serves<Algorithm, C>
struct serving<Algorithm, Transport, C, Commutative, Ragged> {
  static constexpr dynamic_schedule how = dynamic_schedule::of<schedule<Algorithm, C>>();
  using type =
      std::conditional_t<(Commutative || !how.needs_commutative) && (!Ragged || how.ragged), Algorithm, automatic>;
};
template <has_native_collectives Transport, collective C, bool Commutative, bool Ragged>
struct serving<native, Transport, C, Commutative, Ragged> {
  using type = std::conditional_t<!Ragged || reduces(C), native, automatic>;
};

// The communicators of a rank's levels, and the collectives composed of their calls.
//
// Each element of a result is computed once, or copied from where it was computed, so all ranks get the same bits. If
// the ranks of each node are consecutive and the parts combine in rank order, so does the whole.
template <class Transport>
class levels {
 public:
  using inner = communicator<typename Transport::inside>;
  using outer = communicator<typename Transport::across>;

  explicit levels(engine<Transport>& whole)
      : whole_(whole),
        nodes_(whole.transport().nodes()),
        node_(nodes_.node_of(whole.rank())),
        local_(nodes_.local_rank(whole.rank())),
        inside_(whole.transport().take_inside()) {
    inside_.engine().fault_outside = [this] { return whole_.poll_fault(); };
    inside_.engine().any_thread = whole.any_thread;  // because driving them uses the whole's transport
    for (int node = 0; node < nodes_.count(); ++node)
      if (auto const& m = nodes_.members(node); local_ < static_cast<int>(m.size()))
        alike_.push_back(m[static_cast<std::size_t>(local_)]);
    if (auto across = whole.transport().take_across()) {
      across_.emplace(std::move(across));
      across_->engine().fault_outside = inside_.engine().fault_outside;
    }
    number_by({});
  }
  levels(levels const&) = delete;
  levels& operator=(levels const&) = delete;

  inner& inside() noexcept { return inside_; }
  // The communicator of all ranks if they are on one node, else null.
  inner* only_node() noexcept { return nodes_.count() == 1 ? &inside_ : nullptr; }

  // Ends the calls that were started on the parts.
  void end_started() noexcept {
    inside_.engine().started.reset();
    inside_.engine().messages.reset();
    if (across_) across_->engine().started.reset();
  }

  // Tells the ranks of both parts that this one leaves, before it waits for those of one to leave too.
  void leave() noexcept {
    if (inside_.size() > 1) {
      inside_.engine().note_exception();
      inside_.engine().transport().leave();
    }
    if (across_) {
      across_->engine().note_exception();
      across_->engine().transport().leave_at_once();
    }
  }

  // Called before this rank leaves. The whole and its parts learn of each other's faults, so that no rank waits long to close.
  [[gnu::cold]] void share_faults() noexcept try {
    if (auto const f = whole_.poll_fault()) return take_over(*f);
    if (auto* const node = only_node())
      if (auto const f = node->engine().poll_fault()) whole_.take_over(*f, f->peer);
  } catch (std::bad_alloc const&) {  // other ranks, which have memory for the text of a fault, tell them
  }

  // Called when the whole has a fault: no rank waits for another in a part.
  void take_over(fault const& f) noexcept {
    inside_.engine().take_over(f, only_node() != nullptr ? f.peer : -1);
    if (across_) across_->engine().take_over(f);
  }

  // `whole`: what the errors of the whole add, because it is a group.
  void number_by(std::string const& whole) {
    detail::number_by(inside_.engine(), numbered_within(nodes_.members(node_), whole));
    if (across_) detail::number_by(across_->engine(), numbered_within(alike_, whole));
  }

  // Sets the table that chooses the algorithms of the parts.
  void tune_by(tuning const& table) {
    inside_.engine().tuned = table;
    if (across_) across_->engine().tuned = table;
  }

  template <class Call>
  void execute(detail::begun_call<Transport>& begun, Call& c, surfaces<typename Call::element>& memory) {
    constexpr collective C = Call::what;
    using named = typename Call::algorithm;
    using levels_named = std::conditional_t<detail::is_a<named, two_level>, named, two_level<>>;
    c.memory.lay_out(memory, c.asked, whole_.rank(), whole_.ranks());
    std::size_t elements = 0;
    if constexpr (!by_block(C)) elements = c.memory.elements(c.asked);
    constexpr bool ragged = decltype(c.memory)::ragged;
    if constexpr (Call::body_type::prepares) detail::copy_input<C>(whole_, c.body, memory, elements);
    inside_.engine().mix_history(begun.tag());
    if (across_) across_->engine().mix_history(begun.tag());
    parts<levels_named, C, typename Call::body_type, ragged>(*this, begun, c.body, c.asked.root).run(memory, elements);
    detail::finish_output<C>(whole_, c.body, memory, elements);
    // An empty message is not acknowledged, so it does not show that the others have arrived.
    if (all_hear_all(C) && !ragged && c.asked.count > 0) whole_.transport().note_all_arrived();
    begun.finish();
  }

 private:
  // A call in parts. `Ragged`: of a _v form.
  template <class Levels, collective C, class Body, bool Ragged>
  class parts;

  engine<Transport>& whole_;
  node_map const& nodes_;
  int node_, local_;
  inner inside_;
  std::optional<outer> across_;
  std::vector<int> alike_;  // the ranks of across_, by node
};

}  // namespace tutti::detail
