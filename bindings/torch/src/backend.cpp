// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "backend.hpp"

#include <ATen/core/LegacyTypeDispatch.h>
#include <c10/util/Exception.h>
#include <pybind11/chrono.h>
#include <torch/extension.h>

#include <algorithm>
#include <source_location>
#include <string_view>
#include <utility>

#include "drivers.hpp"
#include "errors.hpp"
#include "interpreter.hpp"
#include "meeting.hpp"
#include "tensors.hpp"

namespace tutti_torch {
namespace {

// Complex numbers as pairs, where that gives the same.
at::Tensor reals(at::Tensor const& t, c10d::ReduceOp const& op) {
  return t.is_complex() && c10d::isComplexViewAsRealAllowed(op) ? at::view_as_real(t) : t;
}

void gather_to_all(communicator& comm, tutti::options const& with, call& of, std::vector<at::Tensor> const& out,
                   at::Tensor const& in) {
  auto const own = static_cast<std::size_t>(comm.rank());
  TORCH_CHECK(out[own].numel() == in.numel(), "tutti: output ", own, " of all_gather has ", out[own].numel(),
              " elements, but the input of this rank has ", in.numel(), "; pass tensors of one size");
  staging stage(of);
  at::Tensor const from = stage.input(in), to = stage.outputs(out);
  auto const counts = sizes_of(out);
  if (all_equal(counts)) of.works.push_back(tutti::all_gather(tutti::async(comm), input_bytes(from), bytes(to), with));
  else of.works.push_back(tutti::all_gather_v(tutti::async(comm), input_bytes(from), bytes(to), counts, {}, with));
}

// For the ranks that wait for a call that this one was refused, if it then leaves.
tutti::error refusal(std::exception const& e, std::source_location where = std::source_location::current()) {
  auto const* const of_torch = dynamic_cast<c10::Error const*>(&e);
  std::string_view what = of_torch != nullptr ? of_torch->what_without_backtrace() : e.what();
  if (what.starts_with("tutti: ")) what.remove_prefix(7);
  return tutti::error({.code = tutti::error_code::bad_argument, .what = std::string(what), .where = where});
}

bool is_message(c10d::OpType what) {
  return what == c10d::OpType::SEND || what == c10d::OpType::RECV || what == c10d::OpType::RECVANYSOURCE;
}

}  // namespace

void refuse_reduction(at::ScalarType type, c10d::ReduceOp const& op) {
  static constexpr char const* names[] = {"SUM", "AVG", "PRODUCT", "MIN", "MAX", "BAND", "BOR", "BXOR", "PREMUL_SUM"};
  auto const index = static_cast<std::size_t>(static_cast<c10d::ReduceOp::RedOpType>(op));
  TORCH_CHECK(false, "tutti: no reduction by ", index < std::size(names) ? names[index] : "this operation",
              " of tensors of type ", type, "; convert them to another type");
}

double premultiplier(c10d::ReduceOp const& op) {
  auto const* const more = static_cast<c10d::PreMulSumSupplement const*>(op.supplement_.get());
  TORCH_CHECK(more != nullptr, "tutti: ReduceOp.PREMUL_SUM has no factor");
  return more->tensor_factor.defined() ? more->tensor_factor.item<double>() : more->double_factor;
}

backend::backend(c10::intrusive_ptr<c10d::Store> const& store, int rank, int size, std::chrono::milliseconds timeout,
                 std::vector<int> const& members)
    : Backend(rank, size), members_(members), timeout_(timeout) {
  try {
    tutti::detail::countdown until(timeout);
    group_ = std::make_shared<group>(size == 1 ? communicator(std::make_unique<tutti::shm>())
                                               : meet(*store, rank, size, until, members));
  } catch (tutti::error const& e) {
    using enum tutti::error_code;
    if (e.code() == rank_lost || e.code() == rank_left || e.code() == revoked) throw backend_error(e);
    TORCH_CHECK_WITH(DistBackendError, false, e.what());
  }
  if (members.empty()) world() = group_;
}

template <class Start>
backend::work_handle backend::begin(c10d::OpType what, char const* title, tensors const& inputs,
                                    std::chrono::milliseconds timeout, Start&& start) {
  std::shared_ptr<group> of;
  std::shared_ptr<call> one;
  // What has been started continues, and uses the tensors, but nobody gets results.
  auto const drop = [&] {
    one->finish = {};
    one->results.clear();
    one->note_started();
    if (one->works.empty()) of->disown(*one);
  };
  {
    std::lock_guard const lock(starting_);
    of = group_;
    TORCH_CHECK(of, "tutti: this process group was shut down");
    one = std::make_shared<call>(of);
    of->own(one);
    tutti::options const o{.timeout = timeout == c10d::kUnsetTimeout ? timeout_.load() : timeout};
    at::AutoDispatchBelowADInplaceOrView const below_autograd;
    try {
      start(of->comm, o, *one);
    } catch (tutti::error const& e) {
      drop();
      throw backend_error(e);
    } catch (std::exception const& e) {
      drop();
      of->comm.engine().note_refusal(refusal(e));
      throw;
    }
    one->note_started();
    if (!is_message(what)) ++collectives_;
  }
  of->settle();
  return c10::make_intrusive<work>(rank_, what, title, inputs, of, std::move(one));
}

backend::work_handle backend::broadcast(tensors& data, c10d::BroadcastOptions const& o) {
  return begin(
      c10d::OpType::BROADCAST, "tutti:broadcast", data, o.timeout, [&](auto& comm, auto const& with, auto& call) {
        staging stage(call);
        at::Tensor const t = rank_ == o.rootRank ? stage.input(only(data)) : stage.in_place(only(data));
        call.results = data;
        call.works.push_back(tutti::broadcast(tutti::async(comm), bytes(t), static_cast<int>(o.rootRank), with));
      });
}

backend::work_handle backend::allreduce(tensors& data, c10d::AllreduceOptions const& o) {
  if (data.size() == 1 && data.front().is_sparse()) return sum_sparse(data, o);
  return begin(c10d::OpType::ALLREDUCE, "tutti:all_reduce", data, o.timeout,
               [&](auto& comm, auto const& with, auto& call) {
                 at::Tensor const t = staging(call).in_place(only(data));
                 call.works.push_back(start_all_reduce(comm, reals(t, o.reduceOp), o.reduceOp, with));
               });
}

backend::work_handle backend::sum_sparse(tensors& data, c10d::AllreduceOptions const& o) {
  at::Tensor mine, heads;
  auto const gather_heads = [&](auto& comm, auto const& with, auto& call) {
    TORCH_CHECK(o.reduceOp == c10d::ReduceOp::SUM, "tutti: sparse tensors are reduced by SUM only; pass a dense one");
    mine = data.front().coalesce();
    std::vector<std::int64_t> head{mine._nnz(), mine.sparse_dim(), static_cast<std::int64_t>(mine.scalar_type())};
    head.insert(head.end(), mine.sizes().begin(), mine.sizes().end());
    at::Tensor const own = at::tensor(head);
    heads = at::empty({size_, own.numel()}, own.options());
    call.used = {own, heads};
    call.works.push_back(tutti::all_gather(tutti::async(comm), input_bytes(own), bytes(heads), with));
  };
  begin(c10d::OpType::ALLREDUCE, "tutti:all_reduce", data, o.timeout, gather_heads)->wait();
  auto const gather_elements = [&](auto& comm, auto const& with, auto& call) {
    std::vector<std::size_t> counts;
    for (int r = 0; r < size_; ++r) {
      TORCH_CHECK(heads[r].slice(0, 1).equal(heads[rank_].slice(0, 1)), "tutti: ranks ", rank_, " and ", r,
                  " call all_reduce with sparse tensors of different types or sizes; pass tensors that agree in these");
      counts.push_back(static_cast<std::size_t>(heads[r][0].template item<std::int64_t>()));
    }
    auto const total = std::reduce(counts.begin(), counts.end());
    auto const gather = [&](at::Tensor const& part) {
      at::Tensor const from = staging(call).input(part);
      auto sizes = from.sizes().vec();
      sizes.front() = static_cast<std::int64_t>(total);
      at::Tensor const all = at::empty(sizes, from.options());
      auto in_bytes = counts;
      for (std::size_t& n : in_bytes) n *= all.nbytes() / std::max<std::size_t>(total, 1);
      call.used.push_back(all);
      call.works.push_back(tutti::all_gather_v(tutti::async(comm), input_bytes(from), bytes(all), in_bytes, {}, with));
      return all;
    };
    at::Tensor const indices = gather(mine.indices().t()), values = gather(mine.values());
    call.results = data;
    call.finish = [indices, values, to = data.front()] {
      at::Tensor(to).copy_(at::sparse_coo_tensor(indices.t(), values, to.sizes()).coalesce());
    };
  };
  return begin(c10d::OpType::ALLREDUCE, "tutti:all_reduce", data, o.timeout, gather_elements);
}

backend::work_handle backend::allreduce_coalesced(tensors& data, c10d::AllreduceCoalescedOptions const& o) {
  return begin(c10d::OpType::ALLREDUCE_COALESCED, "tutti:all_reduce", data, o.timeout,
               [&](auto& comm, auto const& with, auto& call) {
                 for (at::Tensor const& one : data) {
                   at::Tensor const t = staging(call).in_place(one);
                   call.works.push_back(start_all_reduce(comm, reals(t, o.reduceOp), o.reduceOp, with));
                 }
               });
}

backend::work_handle backend::reduce(tensors& data, c10d::ReduceOptions const& o) {
  return begin(c10d::OpType::REDUCE, "tutti:reduce", data, o.timeout, [&](auto& comm, auto const& with, auto& call) {
    at::Tensor const t = staging(call).in_place(only(data));
    call.works.push_back(start_reduce(comm, reals(t, o.reduceOp), o.reduceOp, static_cast<int>(o.rootRank), with));
  });
}

backend::work_handle backend::allgather(std::vector<tensors>& out, tensors& in, c10d::AllgatherOptions const& o) {
  return begin(c10d::OpType::ALLGATHER, "tutti:all_gather", in, o.timeout,
               [&](auto& comm, auto const& with, auto& call) {
                 TORCH_CHECK(out.size() == 1, "tutti: all_gather takes one list of outputs");
                 expect_blocks("the list of outputs of all_gather", out.front().size(), size_);
                 gather_to_all(comm, with, call, out.front(), only(in));
               });
}

backend::work_handle backend::allgather_coalesced(std::vector<tensors>& out, tensors& in,
                                                  c10d::AllgatherOptions const& o) {
  return begin(c10d::OpType::ALLGATHER_COALESCED, "tutti:all_gather", in, o.timeout,
               [&](auto& comm, auto const& with, auto& call) {
                 expect_blocks("the list of outputs of all_gather_coalesced", out.size(), size_);
                 for (auto const& list : out)
                   TORCH_CHECK(list.size() == in.size(), "tutti: all_gather_coalesced has ", list.size(),
                               " outputs of a rank for ", in.size(), " inputs");
                 for (std::size_t i = 0; i < in.size(); ++i) {
                   tensors of_all;
                   for (auto const& list : out) of_all.push_back(list[i]);
                   gather_to_all(comm, with, call, of_all, in[i]);
                 }
               });
}

backend::work_handle backend::_allgather_base(at::Tensor& out, at::Tensor& in, c10d::AllgatherOptions const& o) {
  tensors outs{out}, ins{in};
  return allgather_into_tensor_coalesced(outs, ins, o);
}

backend::work_handle backend::allgather_into_tensor_coalesced(tensors& out, tensors& in,
                                                              c10d::AllgatherOptions const& o) {
  return begin(
      c10d::OpType::_ALLGATHER_BASE, "tutti:all_gather", in, o.timeout, [&](auto& comm, auto const& with, auto& call) {
        TORCH_CHECK(out.size() == in.size(), "tutti: all_gather has ", out.size(), " outputs for ", in.size(),
                    " inputs");
        for (std::size_t i = 0; i < in.size(); ++i) {
          staging stage(call);
          TORCH_CHECK(out[i].numel() == in[i].numel() * size_, "tutti: the output of all_gather has ", out[i].numel(),
                      " elements, but ", size_, " inputs of ", in[i].numel(), " have ", in[i].numel() * size_);
          at::Tensor const to = stage.output(out[i]);
          at::Tensor const from = stage.input_beside(in[i], to, in[i].nbytes() * static_cast<std::size_t>(rank_));
          call.works.push_back(tutti::all_gather(tutti::async(comm), input_bytes(from), bytes(to), with));
        }
      });
}

backend::work_handle backend::gather(std::vector<tensors>& out, tensors& in, c10d::GatherOptions const& o) {
  return begin(c10d::OpType::GATHER, "tutti:gather", in, o.timeout, [&](auto& comm, auto const& with, auto& call) {
    staging stage(call);
    at::Tensor const from = stage.input(only(in));
    std::span<std::byte> to;
    if (rank_ == o.rootRank) {
      TORCH_CHECK(out.size() == 1, "tutti: the root of gather takes one list of outputs");
      expect_blocks("the list of outputs of gather", out.front().size(), size_);
      expect_equal_sizes("gather", out.front(), from);
      to = bytes(stage.outputs(out.front()));
    }
    call.works.push_back(tutti::gather(tutti::async(comm), input_bytes(from), to, static_cast<int>(o.rootRank), with));
  });
}

backend::work_handle backend::scatter(tensors& out, std::vector<tensors>& in, c10d::ScatterOptions const& o) {
  return begin(c10d::OpType::SCATTER, "tutti:scatter", out, o.timeout, [&](auto& comm, auto const& with, auto& call) {
    staging stage(call);
    at::Tensor const to = stage.output(only(out));
    std::span<std::byte const> from;
    if (rank_ == o.rootRank) {
      TORCH_CHECK(in.size() == 1, "tutti: the root of scatter passes one list of inputs");
      expect_blocks("the list of inputs of scatter", in.front().size(), size_);
      expect_equal_sizes("scatter", in.front(), to);
      from = input_bytes(stage.inputs(in.front()));
    }
    call.works.push_back(tutti::scatter(tutti::async(comm), from, bytes(to), static_cast<int>(o.rootRank), with));
  });
}

backend::work_handle backend::reduce_scatter(tensors& out, std::vector<tensors>& in,
                                             c10d::ReduceScatterOptions const& o) {
  return begin(c10d::OpType::REDUCE_SCATTER, "tutti:reduce_scatter", in.empty() ? tensors{} : in.front(), o.timeout,
               [&](auto& comm, auto const& with, auto& call) {
                 TORCH_CHECK(in.size() == 1, "tutti: reduce_scatter takes one list of inputs");
                 expect_blocks("the list of inputs of reduce_scatter", in.front().size(), size_);
                 expect_equal_sizes("reduce_scatter", in.front(), only(out));
                 staging stage(call);
                 at::Tensor const from = stage.inputs(in.front()), to = stage.output(only(out));
                 call.works.push_back(
                     start_reduce_scatter(comm, reals(from, o.reduceOp), reals(to, o.reduceOp), o.reduceOp, with));
               });
}

backend::work_handle backend::_reduce_scatter_base(at::Tensor& out, at::Tensor& in,
                                                   c10d::ReduceScatterOptions const& o) {
  tensors outs{out}, ins{in};
  return reduce_scatter_tensor_coalesced(outs, ins, o);
}

backend::work_handle backend::reduce_scatter_tensor_coalesced(tensors& out, tensors& in,
                                                              c10d::ReduceScatterOptions const& o) {
  return begin(c10d::OpType::_REDUCE_SCATTER_BASE, "tutti:reduce_scatter", in, o.timeout,
               [&](auto& comm, auto const& with, auto& call) {
                 TORCH_CHECK(out.size() == in.size(), "tutti: reduce_scatter has ", out.size(), " outputs for ",
                             in.size(), " inputs");
                 for (std::size_t i = 0; i < in.size(); ++i) {
                   staging stage(call);
                   at::Tensor const to = stage.output(out[i]);
                   at::Tensor const from = stage.input_beside(in[i], to, to.nbytes() * static_cast<std::size_t>(rank_));
                   call.works.push_back(
                       start_reduce_scatter(comm, reals(from, o.reduceOp), reals(to, o.reduceOp), o.reduceOp, with));
                 }
               });
}

backend::work_handle backend::alltoall_base(at::Tensor& out, at::Tensor& in, std::vector<std::int64_t>& out_splits,
                                            std::vector<std::int64_t>& in_splits, c10d::AllToAllOptions const& o) {
  return begin(
      c10d::OpType::ALLTOALL_BASE, "tutti:all_to_all", {in}, o.timeout, [&](auto& comm, auto const& with, auto& call) {
        staging stage(call);
        at::Tensor const to = stage.output(out);
        at::Tensor const given = stage.input(in), from = overlap(given, to) ? stage.input(flat_copy(given)) : given;
        auto const sent = split_sizes(from, in_splits, size_, "input");
        auto const received = split_sizes(to, out_splits, size_, "output");
        auto const own = static_cast<std::size_t>(rank_);
        TORCH_CHECK(sent[own] == received[own], "tutti: in all_to_all_single, rank ", rank_, " sends itself ",
                    sent[own] / from.element_size(), " elements, but expects ", received[own] / to.element_size(),
                    "; the split sizes of its input and output must agree on its own block");
        // Another rank may pass splits where this one passes none.
        call.works.push_back(
            tutti::all_to_all_v(tutti::async(comm), input_bytes(from), sent, bytes(to), received, {}, {}, with));
      });
}

backend::work_handle backend::alltoall(tensors& out, tensors& in, c10d::AllToAllOptions const& o) {
  return begin(c10d::OpType::ALLTOALL, "tutti:all_to_all", in, o.timeout,
               [&](auto& comm, auto const& with, auto& call) {
                 expect_blocks("the list of inputs of all_to_all", in.size(), size_);
                 expect_blocks("the list of outputs of all_to_all", out.size(), size_);
                 staging stage(call);
                 at::Tensor const from = stage.inputs(in), to = stage.outputs(out);
                 call.works.push_back(tutti::all_to_all_v(tutti::async(comm), input_bytes(from), sizes_of(in),
                                                          bytes(to), sizes_of(out), {}, {}, with));
               });
}

backend::work_handle backend::barrier(c10d::BarrierOptions const& o) {
  return begin(c10d::OpType::BARRIER, "tutti:barrier", {}, o.timeout, [&](auto& comm, auto const& with, auto& call) {
    call.works.push_back(tutti::barrier(tutti::async(comm), with));
  });
}

void backend::monitoredBarrier(c10d::BarrierOptions const& o, bool) { barrier(o)->wait(); }

backend::work_handle backend::send(tensors& data, int to, int tag) {
  return begin(c10d::OpType::SEND, "tutti:send", data, c10d::kUnsetTimeout,
               [&](auto& comm, auto const& with, auto& call) {
                 at::Tensor const t = staging(call).input(only(data));
                 call.works.push_back(tutti::isend(comm, input_bytes(t), to, tag, with));
               });
}

backend::work_handle backend::recv(tensors& data, int from, int tag) {
  return begin(c10d::OpType::RECV, "tutti:recv", data, c10d::kUnsetTimeout,
               [&](auto& comm, auto const& with, auto& call) {
                 at::Tensor const t = staging(call).in_place(only(data));
                 call.receive = tutti::irecv(comm, bytes(t), from, tag, with);
               });
}

backend::work_handle backend::recvAnysource(tensors& data, int tag) {
  return begin(c10d::OpType::RECVANYSOURCE, "tutti:recv", data, c10d::kUnsetTimeout,
               [&](auto& comm, auto const& with, auto& call) {
                 at::Tensor const t = staging(call).in_place(only(data));
                 call.receive = tutti::irecv(comm, bytes(t), tutti::any_source, tag, with);
               });
}

void backend::abort() {
  without_interpreter_lock const others_run;
  std::lock_guard const lock(starting_);
  if (group_) group_->comm.revoke("torch.distributed aborted the process group");
}

std::shared_ptr<group> backend::release() {
  std::lock_guard const lock(starting_);
  return std::move(group_);
}

void backend::shutdown() {
  bool const gives_up = python_handles_exception();
  without_interpreter_lock const others_run;
  if (auto const of = release()) {
    if (gives_up) of->comm.engine().give_up_in_flight();
    of->finish_all();
  }
}

void backend::close() {
  without_interpreter_lock const others_run;
  if (auto const of = release()) of->finish_all();
}

c10::intrusive_ptr<c10d::Backend> backend::split(c10::intrusive_ptr<c10d::Store> const& store,
                                                 std::vector<int> const& ranks, c10::intrusive_ptr<Options> const& o) {
  without_interpreter_lock const others_run;
  auto const own = std::ranges::find(ranks, rank_);
  if (own == ranks.end()) return nullptr;
  std::vector<int> members;
  for (int const r : ranks) members.push_back(members_.empty() ? r : members_.at(static_cast<std::size_t>(r)));
  return c10::make_intrusive<backend>(store, static_cast<int>(own - ranks.begin()), static_cast<int>(ranks.size()),
                                      o ? o->timeout : timeout_.load(), members);
}

namespace {

c10::intrusive_ptr<c10d::Backend> create(c10::intrusive_ptr<c10d::Store> const& store, int rank, int size,
                                         std::chrono::duration<float> timeout, std::vector<int> const& members) {
  without_interpreter_lock const others_run;
  return c10::make_intrusive<backend>(store, rank, size, std::chrono::duration_cast<std::chrono::milliseconds>(timeout),
                                      members);
}

}  // namespace
}  // namespace tutti_torch

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) {
  m.doc() = "The backend \"tutti\" of torch.distributed";
  m.def("stop_driving", [] {
    tutti_torch::without_interpreter_lock const others_run;
    tutti_torch::stop_driving();
  });
  m.def("create", &tutti_torch::create, pybind11::arg("store"), pybind11::arg("rank"), pybind11::arg("size"),
        pybind11::arg("timeout"), pybind11::arg("members"));
}
