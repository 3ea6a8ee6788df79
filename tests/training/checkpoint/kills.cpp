// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Ranks that are killed before every single call by which they change files while they save a checkpoint, and ranks whose
// disk is full.
// labels: processes waits
#include <doctest/doctest.h>

#include <sys/resource.h>

#include <array>
#include <chrono>
#include <csignal>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <iterator>
#include <string>
#include <vector>

#include "support/forked_rank.hpp"
#include "support/temporary_folder.hpp"
#include "support/traced_calls.hpp"
#include "training/checkpoint/state.hpp"
#include "tutti/collective/barrier.hpp"
#include "tutti/launch/init.hpp"
#include "tutti/launch/local.hpp"

using namespace tutti;
using namespace tutti::testing;

namespace {

constexpr std::uint64_t old_steps = 2;

// Two ranks save a step; one of them is killed before its call number `last` that changes files. Returns its calls.
std::string save_and_kill(std::string const& folder, int victim, std::size_t last, int& status) {
  std::string const job = "checkpoint-" + std::to_string(::getpid()) + "-" + folder;
  std::array<pid_t, 2> ranks{};
  for (int r = 0; r < 2; ++r)
    ranks[static_cast<std::size_t>(r)] = fork_rank(job, r, 2, "60", [&] {
      auto comm = init();
      training::checkpoints saved(folder, {.keep = 2});
      if (r == victim) let_parent_trace();
      save_step(comm, saved, old_steps + 1);
    });
  std::string const calls = trace_calls(ranks[static_cast<std::size_t>(victim)], last, status);
  pid_t const other = ranks[static_cast<std::size_t>(1 - victim)];
  // The other rank ends by itself: with an error, or because all was done.
  std::string const wrong = end_of_ranks(std::array{other}, std::chrono::seconds(100), [](int, int how) {
    return WIFEXITED(how) && (WEXITSTATUS(how) == 0 || WEXITSTATUS(how) == 1 + static_cast<int>(error_code::rank_lost));
  });
  CHECK_MESSAGE(wrong.empty(), wrong);
  return calls;
}

}  // namespace

TEST_CASE("a kill at any moment while a checkpoint is written loses nothing") {
  temporary_folder const at;
  std::string const old = at.path() / "old", run = at.path() / "run";
  run_threads(2, [&](auto& comm) {
    training::checkpoints saved(old, {.keep = 2});
    for (std::uint64_t step = 1; step <= old_steps; ++step) save_step(comm, saved, step);
  });
  for (int const victim : {0, 1}) {
    CAPTURE(victim);
    std::size_t in_old = 0, in_new = 0;
    for (std::size_t last = 1;; ++last) {
      CAPTURE(last);
      std::filesystem::remove_all(run);
      std::filesystem::copy(old, run, std::filesystem::copy_options::recursive);
      int status = 0;
      std::string const calls = save_and_kill(run, victim, last, status);
      CAPTURE(calls);
      if (calls.empty()) {
        MESSAGE("skipped: this system does not let a process trace another");
        return;
      }
      training::resumed seen;
      run_threads(1, [&](auto& comm) {
        training::checkpoints saved(run, {.keep = 2});
        seen = load_step(comm, saved);
        save_step(comm, saved, seen.step + 1);  // also removes what is left of the unfinished one
        expect(load_step(comm, saved).step == seen.step + 1, "after a kill nothing can be saved");
      });
      CHECK(seen.refused.empty());
      (seen.step == old_steps ? in_old : in_new) += 1;
      std::size_t const folders = static_cast<std::size_t>(
          std::distance(std::filesystem::directory_iterator(run), std::filesystem::directory_iterator()));
      CHECK(folders == 2);
      if (calls.size() < last) {  // nobody was killed
        CHECK(status == 0);
        // Each file: open, write, flush, rename, flush the folder. Rank 0 creates the folder, writes its shard and then the
        // manifest, flushes the folder of checkpoints, and only then removes the oldest.
        std::size_t const shard = calls.find("wfrf"), manifest = calls.find("owfrff");
        CHECK_MESSAGE(shard < calls.size(), calls);
        if (victim == 0) CHECK_MESSAGE((shard < manifest && manifest < calls.find('u')), calls);
        break;
      }
      CHECK(was_killed(status));
    }
    CHECK(in_old > 5);
    CHECK(in_new >= 1);
    std::printf("rank %d was killed at %zu moments: the new checkpoint existed after %zu of them\n", victim,
                in_old + in_new - 1, in_new - 1);
  }
}

TEST_CASE("a crash of the machine can neither take away the folder of checkpoints nor leave half a checkpoint") {
  temporary_folder const at;
  std::string const run = at.path() / "run";
  pid_t const rank = fork_rank("checkpoints-" + std::to_string(::getpid()), 0, 1, "60", [&] {
    auto comm = init();
    training::checkpoints saved(run, {.keep = 1});
    let_parent_trace();
    for (std::uint64_t step = 1; step <= 2; ++step) save_step(comm, saved, step);
  });
  int status = 0;
  std::string const calls = trace_calls(rank, 0, status);
  if (calls.empty()) {
    MESSAGE("skipped: this system does not let a process trace another");
    return;
  }
  CHECK(status == 0);
  // The name of the new folder is flushed, and so is the end of a manifest, before its shards are removed.
  CHECK_MESSAGE(calls.starts_with("mfm"), calls);
  CHECK_MESSAGE(contains(calls, "ufu"), calls);
}

TEST_CASE("a disk that is full when only the manifest is left to write keeps nothing of the checkpoint") {
  temporary_folder const at;
  CHECK_NOTHROW(run_local(2, [&](auto& comm) {
    training::checkpoints saved(at.path());
    save_step(comm, saved, 1);
    ::signal(SIGXFSZ, SIG_IGN);
    rlimit const small{1000, RLIM_INFINITY};
    ::setrlimit(RLIMIT_FSIZE, &small);
    double weight = 1;
    std::vector const state{training::replicated(std::string(1000, 'x'), weight)};
    expect_error(error_of([&] { return saved.save(comm, 2, state), 0; }), error_code::system,
                 "rank 0: cannot write " + at.path().string() + "/checkpoint-000002/manifest.new: File too large");
    barrier(comm);  // rank 0 has removed what was written
    expect(std::filesystem::is_empty(at.path() / "checkpoint-000002"), "files of an unfinished checkpoint are left");
    expect(load_step(comm, saved).step == 1, "an older checkpoint is lost");
  }));
}

TEST_CASE("a full disk is an error on all ranks, and older checkpoints remain") {
  temporary_folder const at;
  CHECK_NOTHROW(run_local(3, [&](auto& comm) {
    training::checkpoints saved(at.path());
    save_step(comm, saved, 1);
    if (comm.rank() == 1) {  // a file of rank 1 cannot grow any more
      ::signal(SIGXFSZ, SIG_IGN);
      rlimit const small{1000, RLIM_INFINITY};
      ::setrlimit(RLIMIT_FSIZE, &small);
    }
    expect_error(error_of([&] {
                   save_step(comm, saved, 2);
                   return 0;
                 }),
                 error_code::system,
                 "rank 1: cannot write " + at.path().string() + "/checkpoint-000002/shard-1.new: File too large");
    barrier(comm);  // rank 0 has removed what was written
    expect(std::filesystem::is_empty(at.path() / "checkpoint-000002"), "files of an unfinished checkpoint are left");
    expect(load_step(comm, saved).step == 1, "an older checkpoint is lost");
    rlimit const none{RLIM_INFINITY, RLIM_INFINITY};
    if (comm.rank() == 1) ::setrlimit(RLIMIT_FSIZE, &none);
    save_step(comm, saved, 3);
    training::resumed const next = load_step(comm, saved);
    expect(next.step == 3, "nothing can be saved after an error");
    expect(next.path.ends_with("checkpoint-000003"), "a rank that is late could write to the new checkpoint");
    expect(!std::filesystem::exists(at.path() / "checkpoint-000002"),
           "the folder of the unfinished checkpoint is left");
  }));
}
