// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <fstream>
#include <iterator>
#include <sstream>
#include <thread>

#include "ptx/runtime/runtime.hpp"

namespace tutti::testing::cuda {

std::uint64_t number_from_environment(char const* name, std::uint64_t otherwise) {
  char const* const text = std::getenv(name);
  return text != nullptr ? std::strtoull(text, nullptr, 10) : otherwise;
}

std::optional<kernel> runtime::find(void const* function) {
  auto const found = functions.find(function);
  if (found == functions.end()) return std::nullopt;
  binary& of = *found->second.of;
  load(of);
  launched = true;
  int const index = of.code->find(found->second.name);
  if (index < 0) return std::nullopt;
  return kernel{of.code, &of.code->functions[static_cast<std::size_t>(index)]};
}

void runtime::register_binary(std::string_view text) {
  binaries.push_back(std::make_unique<binary>(binary{text, {}, nullptr}));
  if (char const* const path = std::getenv("PTX_SAVE")) {
    std::ofstream(path) << text;
    std::_Exit(0);
  }
  if (char const* const path = std::getenv("PTX_LOAD")) {
    std::ifstream in(path);
    binaries.back()->loaded.assign(std::istreambuf_iterator<char>(in), {});
    binaries.back()->text = binaries.back()->loaded;
  }
  // Now rather than at the first launch, because ranks that are child processes share what is there before they start.
  try {
    load(*binaries.back());
  } catch (std::exception const&) {  // A launch fails with it.
  }
}

void runtime::append_coverage(char const* path) {
  if (!launched) return;
  std::ostringstream lines;
  for (auto const& b : binaries) {
    load(*b);
    ptx::write_coverage(*b->code, lines);
  }
  std::string const text = lines.str();
  int const file = ::open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
  if (file < 0 || ::write(file, text.data(), text.size()) != static_cast<ssize_t>(text.size()))
    std::fprintf(stderr, "PTX machine: %s cannot be written\n", path);
  ::close(file);
}

CUstream_st* runtime::stream_of(cudaStream_t stream, int gpu) {
  bool const is_default = stream == nullptr || stream == cudaStreamLegacy || stream == cudaStreamPerThread;
  if (!is_default) return stream;
  return &default_streams_[static_cast<std::size_t>(gpu)];
}

void runtime::enqueue(CUstream_st& stream, operation const& what) {
  if (stream.captured_by != nullptr) {
    stream.captured_by->capture.operations.emplace_back(&stream, what);
  } else {
    host_.learn(machine_.told());
    stream.jobs.push_back({what(), host_.release()});
    sleeps_until_ = {};
  }
  ensure_helper();
}

bool runtime::advance(int steps) {
  std::lock_guard const lock(guard_);
  last_advance_ = std::chrono::steady_clock::now();
  if (sticky_ != cudaSuccess) return false;
  if (last_advance_ < sleeps_until_) return true;
  try {
    std::vector<CUstream_st*> all(streams_.begin(), streams_.end());
    for (std::size_t k = all.size(); k > 1; --k) std::swap(all[k - 1], all[machine_.random(k)]);
    bool left = false;
    for (CUstream_st* const s : all) {
      while (!s->jobs.empty()) {
        s->agent.learn(std::exchange(s->jobs.front().enqueued, nullptr));
        if (!s->jobs.front().run()) break;
        s->jobs.pop_front();
      }
      left |= !s->jobs.empty();
    }
    if (machine_.stalls()) steps /= 8;
    for (int k = 0; k < steps && !machine_.idle(); ++k) machine_.step();
    sleep_if_stalled();
    return left;
  } catch (ptx::fault const& e) {
    std::fprintf(stderr, "PTX machine: %s\n", e.what());
    switch (e.kind) {
      case ptx::fault::illegal_address: sticky_ = cudaErrorIllegalAddress; break;
      case ptx::fault::misaligned: sticky_ = cudaErrorMisalignedAddress; break;
      case ptx::fault::race: sticky_ = cudaErrorAssert; break;
      case ptx::fault::trap: sticky_ = cudaErrorLaunchFailure; break;
      case ptx::fault::illegal_instruction: sticky_ = cudaErrorIllegalInstruction; break;
      case ptx::fault::deadlock: sticky_ = cudaErrorLaunchTimeout; break;
    }
  } catch (std::exception const& e) {
    std::fprintf(stderr, "PTX machine: %s\n", e.what());
    sticky_ = cudaErrorInvalidPtx;
  }
  return false;
}

bool runtime::has_ended(CUstream_st& stream) {
  if (!stream.jobs.empty()) return false;
  host_.learn(stream.agent.release());
  return true;
}

bool runtime::is_reached(CUevent_st const& event) {
  if (event.reached != event.recorded) return false;
  host_.learn(event.before);
  return true;
}

runtime::allocation const* runtime::allocation_of(void const* memory) const {
  auto const after = allocations.upper_bound(const_cast<void*>(memory));
  if (after == allocations.begin()) return nullptr;
  auto const& [begin, found] = *std::prev(after);
  return memory < static_cast<std::byte const*>(begin) + found.bytes ? &found : nullptr;
}

std::string runtime::left() const {
  std::string out;
  auto const add = [&](std::size_t count, char const* what) {
    if (count > 0) out += (out.empty() ? "" : ", ") + std::string(what) + " (" + std::to_string(count) + ")";
  };
  if (sticky_ != cudaSuccess) return out;
  add(allocations.size(), "arrays in device memory");
  add(opened.size(), "mappings of other processes' memory");
  add(pinned.size(), "arrays in pinned memory");
  add(handles.size(), "handles of memory");
  add(streams_.size() - default_streams_.size(), "streams");
  add(static_cast<std::size_t>(events), "events");
  add(static_cast<std::size_t>(graphs), "graphs");
  return out;
}

void runtime::load(binary& of) {
  if (of.code != nullptr) return;
  of.code = ptx::parse(of.text);
  for (auto const& words : of.code->globals)
    machine_.memory().add(const_cast<std::uint64_t*>(words.data()), words.size() * 8, {.written = true});
}

void runtime::ensure_helper() {
  if (helped_) return;
  helped_ = true;
  std::thread([this] {
    while (true) {
      std::this_thread::sleep_for(std::chrono::milliseconds{5});
      bool work = false;
      {
        std::lock_guard const lock(guard_);
        work = std::chrono::steady_clock::now() - last_advance_ > std::chrono::milliseconds{20};
      }
      while (work && advance(1000)) rest();
    }
  }).detach();
}

void runtime::sleep_if_stalled() {
  auto const now = std::chrono::steady_clock::now();
  if (!machine_.stalls()) stalled_since_ = now;
  else sleeps_until_ = now + std::min<std::chrono::steady_clock::duration>(now - stalled_since_, longest_sleep);
}

void runtime::rest() {
  std::unique_lock lock(guard_);
  auto const until = sleeps_until_;
  lock.unlock();
  if (std::chrono::steady_clock::now() < until) std::this_thread::sleep_until(until);
  else std::this_thread::yield();
}

runtime::runtime()
    : gpus_(static_cast<int>(number_from_environment("PTX_GPUS", 2))),
      machine_(number_from_environment("PTX_SEED", 1), ptx::machine::on_race::fail,
               {.multiprocessors = static_cast<int>(number_from_environment("PTX_MULTIPROCESSORS", 4)),
                .blocks_each = static_cast<int>(number_from_environment("PTX_BLOCKS", 8))}),
      host_(machine_.new_agent(0)),
      default_streams_(static_cast<std::size_t>(gpus_)) {
  for (std::size_t k = 0; k < default_streams_.size(); ++k) {
    default_streams_[k].gpu = static_cast<int>(k);
    default_streams_[k].agent = machine_.new_agent(static_cast<int>(k));
    streams_.insert(&default_streams_[k]);
  }
}

cudaError_t note(cudaError_t code) {
  if (code != cudaSuccess) last_error = code;
  return code;
}
std::unique_lock<std::recursive_mutex> lock() { return std::unique_lock(runtime::instance().guard()); }
bool spoils_capture() {
  if (capture_mode == cudaStreamCaptureModeRelaxed) return false;
  bool out = false;
  for (CUstream_st* const s : runtime::instance().streams())
    if (s->captured_by == s && s->mode == cudaStreamCaptureModeGlobal) s->invalidated = out = true;
  return out;
}

bool is_pageable(void const* memory) {
  return runtime::instance().machine().memory().containing(reinterpret_cast<std::uint64_t>(memory)) == nullptr;
}

}  // namespace tutti::testing::cuda
