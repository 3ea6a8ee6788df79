// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Parameters of a model: whole on every rank, or a shard of them, of which units are gathered when they are needed.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <optional>
#include <source_location>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "tutti/call/communicator.hpp"
#include "tutti/collective/all_gather.hpp"
#include "tutti/collective/broadcast.hpp"
#include "tutti/collective/split.hpp"
#include "tutti/core/text.hpp"
#include "tutti/reduce/convert_array.hpp"
#include "tutti/started/asynchronous.hpp"
#include "tutti/started/work.hpp"
#include "tutti/training/bucket_plan.hpp"
#include "tutti/training/failure.hpp"
#include "tutti/training/peer_array.hpp"
#include "tutti/training/same_parameters.hpp"
#include "tutti/training/sharded/bucket_buffers.hpp"
#include "tutti/training/sharded/deferred_model.hpp"
#include "tutti/training/sharded/master.hpp"
#include "tutti/training/sharded/shard_plan.hpp"
#include "tutti/training/sharded/sharding_options.hpp"
#include "tutti/training/sharded/sharding_statistics.hpp"
#include "tutti/training/sharded/step_comparison.hpp"
#include "tutti/training/sharded/unit_order.hpp"

namespace tutti::detail {

// Collective. Ranks with other parameters or options would make other calls. Returns the units.
template <class Transport>
std::vector<std::size_t> agree_on_units(communicator<Transport>& comm, model_outline const& model,
                                        training::sharding_options const& options, std::source_location where) {
  auto units = training::checked_units(options.units, model.counts.size(), comm.rank(), where);
  auto lines = model.lines;
  lines.insert(lines.begin(), line_about(options));
  expect_same_lines(comm, lines, where, same_model_and_options);
  return units;
}

// Where all parameters are whole, share() gathers the parts that a step has changed. Otherwise each unit is a bucket, the last
// unit first, and gathers use a communicator of their own, because ranks start reductions at different points between them.
template <class T, class Transport>
class sharded_parameters {
 public:
  sharded_parameters(communicator<Transport>& comm, training::bucket_plan const& plan,
                     training::shard_plan const& shards, std::vector<std::size_t> const& units, bool whole,
                     std::source_location where)
      : comm_(comm),
        plan_(plan),
        shards_(shards),
        is_whole_(whole),
        gathers_(whole ? std::nullopt : comm.split(0, 0, where)),
        values_(gathers_ ? *gathers_ : comm, whole ? plan.elements : shards.elements),
        masters_(training::has_master<T> ? shards.elements : 0),
        buffers_(gathers_ ? *gathers_ : comm, plan),
        units_(units.size()) {
    for (std::size_t u = 0; u < units.size(); ++u) unit_of_.insert(unit_of_.end(), units[u], u);
  }

  // Collective. Rank 0 writes the values, in the order of the parameters, which is the opposite of that of the buckets. Where
  // parameters are not whole, a bucket at a time has memory.
  void load(model_source<T> const& model, std::source_location where) {
    for (std::size_t b = plan_.buckets.size(); b-- > 0;) {
      auto const all = is_whole_ ? whole(b) : buffers_.take(b);
      if (comm_.rank() == 0) fill_bucket(b, all, model);
      broadcast(comm_, all, 0, {}, where);
      auto const part = all.subspan(shards_.mine[b].begin, shards_.mine[b].count);
      if constexpr (training::has_master<T>) std::ranges::copy(part, masters_of(b).begin());
      if (is_whole_) continue;
      std::ranges::copy(part, mine(b).begin());
      buffers_.give_back(b);
    }
  }

  std::size_t units() const { return units_.size(); }
  void expect_unit(std::size_t unit, std::source_location where) const {
    if (unit >= units_.size())
      refuse(comm_.rank(), join({"there is no unit ", unit, ", only ", units_.size(), " units, numbered from 0"}),
             "pass the index of a unit of sharding_options::units", where);
  }
  // Throws bad_argument if it is not gathered; `name` is the parameter's.
  std::span<T const> of_parameter(std::size_t parameter, std::string const& name, std::source_location where) {
    auto const& place = plan_.places[parameter];
    std::size_t const u = unit_of_[parameter];
    if (!is_whole_ && units_[u].holders == 0)
      refuse(comm_.rank(), join({name, " was asked for, but unit ", u, ", to which it belongs, is not gathered"}),
             join({"keep what gather(", u, ") returns while you use the parameters of the unit"}), where);
    auto const all = is_whole_ ? whole(place.bucket) : buffers_.of(place.bucket);
    return all.subspan(place.begin - plan_.buckets[place.bucket].begin, place.count);
  }
  // What this rank owns, as a step changes it: in the order of the shard; and of a parameter.
  std::vector<std::span<training::master_of<T>>> owned() {
    std::vector<std::span<training::master_of<T>>> out;
    for (training::owned_part const& part : shards_.owned) out.push_back(mine(part));
    return out;
  }
  std::span<training::master_of<T>> mine(training::owned_part const& part) {
    std::size_t const bucket = plan_.places[part.parameter].bucket;
    return masters_of(bucket).subspan(part.begin - shards_.begins[bucket], part.elements.count);
  }

  // After a change of this rank's part of a bucket: gives all ranks all parts, if each has the whole.
  void share(std::size_t bucket, training::sharding_statistics& seen, std::source_location where) {
    if constexpr (training::has_master<T>) {
      auto const from = masters_of(bucket);
      convert_array(from.data(), mine(bucket).data(), from.size());
    }
    if (is_whole_) shared_.push_back(gather_bucket(async(comm_), bucket, whole(bucket), seen, where));
  }
  void finish_sharing(training::sharding_statistics& seen) {
    auto const begin = std::chrono::steady_clock::now();
    for (work& w : shared_) w.wait();
    seen.gather_waited += std::chrono::steady_clock::now() - begin;
    shared_.clear();
  }

  // Waits until the unit is gathered, which it is until as many releases; begins to gather those that will follow.
  void gather(std::size_t index, std::size_t ahead, training::sharding_statistics& seen, std::source_location where) {
    if (is_whole_) return;
    order_.note(index);
    auto const before = std::exchange(
        expected_,
        order_.expected(std::min(ahead, 2 * units_.size())));  // a step has no more, and the order may be a cycle
    for (std::size_t const u : before)
      if (u != index && units_[u].holders == 0 && !is_expected(u)) drop(u);
    bool const begun = buffers_.has(bucket_of(index));
    if (begun && units_[index].gathered.done()) ++seen.gathered_ahead;
    auto const begin = std::chrono::steady_clock::now();
    if (!begun) gather_unit(*gathers_, index, seen, where);
    for (std::size_t const u : expected_)
      if (!buffers_.has(bucket_of(u))) gather_unit(async(*gathers_), u, seen, where);
    units_[index].gathered.wait();
    seen.gather_waited += std::chrono::steady_clock::now() - begin;
    ++units_[index].holders;
  }
  // Those that are expected next are kept.
  void release(std::size_t index) noexcept {
    if (is_whole_ || --units_[index].holders > 0 || is_expected(index)) return;
    drop(index);
  }
  // Throws bad_argument if a unit has a holder.
  void expect_released(std::string_view call, std::source_location where) const {
    for (std::size_t u = 0; u < units_.size(); ++u)
      if (units_[u].holders > 0)
        refuse(comm_.rank(), join({call, " was called while unit ", u, " was gathered"}),
               "destroy the object that gather() returned first", where);
  }
  // Forgets the units that were gathered ahead, which are about to change. Ranks that still had them would gather others than this one.
  void forget_gathered() noexcept {
    for (std::size_t u = 0; u < units_.size(); ++u) drop(u);
    expected_.clear();
    order_.restart();
  }

  // Collective, at the end of a step: begins a step_comparison where parameters are not whole, and waits for its result.
  void begin_to_compare(double scale, std::source_location where) {
    if (!is_whole_ && !units_.empty()) comparison_.begin(*gathers_, scale, where);
  }
  void expect_same(std::source_location where) {
    if (!is_whole_) comparison_.expect_same(comm_.rank(), where);
  }

  void revoke(std::string_view why) noexcept {
    if (gathers_) revoke_quietly(*gathers_, why);
  }
  // Waits until nothing is in flight, whether or not it succeeds.
  void abandon() noexcept {
    for (work& w : shared_) wait_quietly(w);
    shared_.clear();
    comparison_.abandon();
    for (unit_state& u : units_) wait_quietly(u.gathered);
  }

  std::size_t bytes() const { return values_.bytes(); }
  std::size_t master_bytes() const { return masters_.size() * sizeof(training::master_of<T>); }
  std::size_t gathered_bytes() const { return buffers_.bytes(); }
  std::size_t peak_gathered_bytes() const { return buffers_.peak_bytes(); }

 private:
  struct unit_state {
    work gathered{};
    int holders = 0;
  };

  // If model.fill throws, the other ranks must not wait for the values.
  void fill_bucket(std::size_t bucket, std::span<T> all, model_source<T> const& model) {
    std::vector<std::size_t> parameters = plan_.buckets[bucket].parameters;
    std::ranges::sort(parameters);
    for (std::size_t const i : parameters) {
      auto const values = all.subspan(plan_.places[i].begin - plan_.buckets[bucket].begin, plan_.places[i].count);
      std::ranges::fill(values, T{});
      try {
        model.fill(i, values);
      } catch (...) {
        revoke_quietly(comm_, with_reason(model.outline.names[i] + " could not be filled"));
        throw;
      }
    }
  }
  std::size_t bucket_of(std::size_t unit) const { return units_.size() - 1 - unit; }
  bool is_expected(std::size_t unit) const { return std::ranges::find(expected_, unit) != expected_.end(); }
  std::span<T> whole(std::size_t bucket) {
    auto const& b = plan_.buckets[bucket];
    return values_.all().subspan(b.begin, b.count);
  }
  std::span<T> mine(std::size_t bucket) {
    extent const mine = shards_.mine[bucket];
    return is_whole_ ? whole(bucket).subspan(mine.begin, mine.count)
                     : values_.all().subspan(shards_.begins[bucket], mine.count);
  }
  std::span<training::master_of<T>> masters_of(std::size_t bucket) {
    if constexpr (training::has_master<T>)
      return std::span(masters_).subspan(shards_.begins[bucket], shards_.mine[bucket].count);
    else return mine(bucket);
  }

  // On a communicator, or on async() of one.
  template <class Comm>
  decltype(auto) gather_bucket(Comm&& comm, std::size_t bucket, std::span<T> to, training::sharding_statistics& seen,
                               std::source_location where) {
    ++seen.gathers;
    seen.gathered_bytes += to.size_bytes();
    return all_gather_v(comm, std::span<T const>(mine(bucket)), to, shards_.counts[bucket], {}, {}, where);
  }
  // Gathers a unit on a communicator, or begins to on async() of one.
  template <class Comm>
  void gather_unit(Comm&& comm, std::size_t index, training::sharding_statistics& seen, std::source_location where) {
    std::size_t const bucket = bucket_of(index);
    comparison_.note_gather(index);
    auto const to = buffers_.take(bucket);
    work& gathered = units_[index].gathered;
    gathered = {};
    try {
      if constexpr (is_asynchronous<std::remove_cvref_t<Comm>>) gathered = gather_bucket(comm, bucket, to, seen, where);
      else gather_bucket(comm, bucket, to, seen, where);
    } catch (...) {
      buffers_.give_back(bucket);
      throw;
    }
  }
  // An error of the gather is that of the next one, too.
  void drop(std::size_t index) noexcept {
    if (is_whole_ || !buffers_.has(bucket_of(index))) return;
    wait_quietly(units_[index].gathered);
    buffers_.give_back(bucket_of(index));
  }

  communicator<Transport>& comm_;
  training::bucket_plan const& plan_;
  training::shard_plan const& shards_;
  bool is_whole_;
  std::optional<communicator<Transport>> gathers_;
  peer_array<T, Transport> values_;
  std::vector<training::master_of<T>> masters_;  // of this rank's shard; none if the values are their own
  bucket_buffers<T, Transport> buffers_;
  std::vector<unit_state> units_;
  std::vector<std::size_t> unit_of_;  // of each parameter
  std::vector<work> shared_;          // of the buckets of a step
  unit_order order_;
  std::vector<std::size_t> expected_;
  step_comparison comparison_;
};

// Keeps a unit gathered: what gather() of a sharded model returns.
template <class T, class Transport>
class gathered_unit {
 public:
  gathered_unit(sharded_parameters<T, Transport>& of, std::size_t unit) : of_(of), unit_(unit) {}
  gathered_unit(gathered_unit const&) = delete;
  gathered_unit& operator=(gathered_unit const&) = delete;
  ~gathered_unit() { of_.release(unit_); }

 private:
  sharded_parameters<T, Transport>& of_;
  std::size_t unit_;
};

}  // namespace tutti::detail
