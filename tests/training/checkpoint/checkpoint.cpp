// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Checkpoints of ranks that are threads: any number of ranks resumes, damage is found, mistakes are errors on all ranks.
// labels: threads
#include "tutti/training/checkpoint/checkpoint.hpp"

#include <doctest/doctest.h>

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <limits>
#include <random>
#include <span>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "support/temporary_folder.hpp"
#include "training/checkpoint/state.hpp"
#include "tutti/core/crc32c.hpp"
#include "tutti/reduce/float8.hpp"
#include "tutti/reduce/half.hpp"
#include "tutti/training/checkpoint/held_arrays.hpp"
#include "tutti/training/checkpoint/manifest.hpp"

using namespace tutti;
using namespace tutti::testing;
namespace fs = std::filesystem;

namespace {

thread_local int reads_before_error = -1;  // calls of pread by this thread that succeed; negative: all
thread_local std::function<void()> after_missing_manifest{};  // called once, after a call of access that finds none

}  // namespace

// Takes the place of the C library's pread, which may be an inline function there.
extern "C" ::ssize_t pread_of_test(int file, void* to, std::size_t bytes, ::off_t offset) __asm__("pread");
extern "C" ::ssize_t pread_of_test(int file, void* to, std::size_t bytes, ::off_t offset) {
  if (reads_before_error >= 0 && reads_before_error-- == 0) {
    errno = EIO;
    return -1;
  }
  return ::syscall(SYS_pread64, file, to, bytes, offset);
}

// The same for access.
extern "C" int access_of_test(char const* path, int mode) __asm__("access");
extern "C" int access_of_test(char const* path, int mode) {
  long const out = ::syscall(SYS_faccessat, AT_FDCWD, path, mode);
  if (out != 0 && std::string_view(path).ends_with("/manifest"))
    if (auto const then = std::exchange(after_missing_manifest, nullptr)) {
      then();
      errno = ENOENT;
    }
  return static_cast<int>(out);
}

namespace {

std::string contents_of(fs::path const& file) {
  std::ifstream in(file, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}
void replace_contents(fs::path const& file, std::string_view text) {
  std::ofstream(file, std::ios::binary | std::ios::trunc) << text;
}

// Saves steps 10, 20, ... as checkpoints 1, 2, ...
void save_some(std::string const& folder, int count, int ranks = 2) {
  run_threads(ranks, [&](auto& comm) {
    training::checkpoints saved(folder);
    for (int i = 1; i <= count; ++i) save_step(comm, saved, static_cast<std::uint64_t>(10 * i));
  });
}
training::resumed load_alone(std::string const& folder) {
  training::resumed out;
  run_threads(1, [&](auto& comm) {
    training::checkpoints saved(folder);
    out = load_step(comm, saved);
  });
  return out;
}

}  // namespace

TEST_CASE("any number of ranks resumes from a checkpoint") {
  for (int const before : {1, 2, 3, 5, 8}) {
    temporary_folder const at;
    save_some(at.path() / "run", 1, before);
    for (int const after : {1, 2, 3, 5, 8}) {
      CAPTURE(before);
      CAPTURE(after);
      run_threads(after, [&](auto& comm) {
        training::checkpoints saved(at.path() / "run");
        training::resumed const seen = load_step(comm, saved);
        expect(seen && seen.step == 10 && seen.refused.empty(), "the wrong checkpoint was found");
        expect(seen.per_rank == (before == after), "arrays of single ranks were restored elsewhere");
      });
    }
  }
}

TEST_CASE("a folder that does not exist or is empty has no checkpoint") {
  temporary_folder const at;
  CHECK_FALSE(load_alone(at.path()).found);
  CHECK_FALSE(load_alone(at.path() / "run").found);
}

TEST_CASE("the last checkpoints are kept, and what was never finished is removed") {
  temporary_folder const at;
  fs::create_directories(at.path() / "checkpoint-000000");
  replace_contents(at.path() / "checkpoint-000000/shard-3.new", "unfinished");
  replace_contents(at.path() / "mine.txt", "of somebody else");
  save_some(at.path(), 5);
  std::vector<std::string> names;
  for (auto const& entry : fs::directory_iterator(at.path())) names.push_back(entry.path().filename());
  std::ranges::sort(names);
  CHECK(names == std::vector<std::string>{"checkpoint-000003", "checkpoint-000004", "checkpoint-000005", "mine.txt"});
}

TEST_CASE("a damaged checkpoint is refused by name, and the one before is used") {
  temporary_folder const at;
  save_some(at.path() / "good", 2);
  fs::path const newest = at.path() / "run/checkpoint-000002", older = at.path() / "run/checkpoint-000001";
  auto const check = [&](std::string const& words, std::function<void()> const& damage) {
    CAPTURE(words);
    fs::remove_all(at.path() / "run");
    fs::copy(at.path() / "good", at.path() / "run", fs::copy_options::recursive);
    damage();
    training::resumed const seen = load_alone(at.path() / "run");
    CHECK(seen.step == 10);
    REQUIRE(seen.refused.size() == 1);
    CHECK_MESSAGE(contains(seen.refused[0], words), seen.refused[0]);
  };
  for (std::string const name : {"shard-0", "shard-1", "manifest"}) {
    CAPTURE(name);
    std::string const whole = contents_of(at.path() / "good/checkpoint-000002" / name);
    for (std::size_t const at_byte : {std::size_t{0}, std::size_t{40}, whole.size() / 2, whole.size() - 2}) {
      std::string other = whole;
      other[at_byte] ^= 4;
      check("checkpoint-000002/" + name + " ", [&] { replace_contents(newest / name, other); });
      check("checkpoint-000002/" + name + " ", [&] { replace_contents(newest / name, whole.substr(0, at_byte)); });
    }
    check("checkpoint-000002/" + name + " ", [&] { replace_contents(newest / name, whole + "more"); });
  }
  check("is truncated: it has 100 bytes instead of", [&] { fs::resize_file(newest / "shard-1", 100); });
  check("shard-0 is corrupted: its checksum is wrong", [&] {
    std::string all = contents_of(newest / "shard-0");
    all.back() ^= 1;
    replace_contents(newest / "shard-0", all);
  });
  check("shard-1 belongs to another checkpoint",
        [&] { fs::copy_file(older / "shard-1", newest / "shard-1", fs::copy_options::overwrite_existing); });
  check("shard-0 belongs to another checkpoint, or is another shard of this one", [&] {
    fs::rename(newest / "shard-0", newest / "other");
    fs::rename(newest / "shard-1", newest / "shard-0");
    fs::rename(newest / "other", newest / "shard-1");
  });
  check("cannot read", [&] { fs::remove(newest / "shard-1"); });
  check("is not a file", [&] {
    fs::remove(newest / "shard-1");
    fs::create_directory(newest / "shard-1");
  });
  check("manifest is not the manifest of a checkpoint", [&] { replace_contents(newest / "manifest", "hello\n"); });
  check("manifest has version 3 of the format", [&] {
    std::string all = contents_of(newest / "manifest");
    all[std::string_view("tutti checkpoint ").size()] = '3';
    replace_contents(newest / "manifest", all);
  });
}

TEST_CASE("arrays are not half overwritten by a checkpoint that cannot be read after it was checked") {
  temporary_folder const at;
  save_some(at.path(), 1, 3);
  save_some(at.path() / "none", 1);
  fs::rename(at.path() / "none/checkpoint-000001", at.path() / "checkpoint-000002");  // of two ranks
  run_threads(2, [&](auto& comm) {
    training::checkpoints saved(at.path());
    checkpointed_state state(comm.rank(), comm.size());
    state.set(77);
    if (comm.rank() == 0) reads_before_error = 3;  // by then, rank 1 has all of its values
    training::resumed const seen = saved.load(comm, state.arrays());
    reads_before_error = -1;
    expect(seen && !seen.per_rank && seen.refused.size() == 1, "the older checkpoint was not used");
    expect(contains(seen.refused[0], "checkpoint-000002/shard-1: Input/output error"), seen.refused[0]);
    expect(state.is_of(10, false), "the restored values are wrong");
    expect(state.has_own_of(77), "arrays of single ranks were changed");
  });
  fs::remove_all(at.path() / "checkpoint-000001");
  run_threads(2, [&](auto& comm) {
    training::checkpoints saved(at.path());
    checkpointed_state state(comm.rank(), comm.size());
    state.set(77);
    if (comm.rank() == 0) reads_before_error = 3;
    bool threw = false;
    try {
      saved.load(comm, state.arrays());
    } catch (error const& e) {
      threw = e.code() == error_code::system;
    }
    reads_before_error = -1;
    expect(threw, "damage was not found");
    expect(state.is_of(77, true), "arrays were changed");
  });
}

TEST_CASE("the last step and the last number of a checkpoint are no exceptions") {
  constexpr std::uint64_t last = std::numeric_limits<std::uint64_t>::max();
  temporary_folder const at;
  std::uint64_t weight = 5;
  run_threads(2, [&](auto& comm) {
    std::uint64_t mine = 5;
    training::checkpoints saved(at.path());
    saved.save(comm, last, std::vector{training::replicated("weight", mine)});
    mine = 0;
    expect(saved.load(comm, std::vector{training::replicated("weight", mine)}).step == last, "another step");
    expect(mine == 5, "the restored value is wrong");
  });
  fs::rename(at.path() / "checkpoint-000001", at.path() / ("checkpoint-" + std::to_string(last)));
  for (error const& e : errors_of(2, [&](auto& comm) {
         std::uint64_t mine = 6;
         training::checkpoints(at.path(), {.keep = 1}).save(comm, 1, std::vector{training::replicated("weight", mine)});
       })) {
    CHECK(e.code() == error_code::system);
    CHECK_MESSAGE(contains(e, "/checkpoint-18446744073709551615 has the highest possible number"), e.what());
  }
  weight = 0;
  run_threads(1, [&](auto& comm) {
    training::checkpoints(at.path()).load(comm, std::vector{training::replicated("weight", weight)});
  });
  CHECK(weight == 5);
}

TEST_CASE("if no checkpoint is intact, all ranks learn why") {
  temporary_folder const at;
  save_some(at.path(), 2);
  fs::remove(at.path() / "checkpoint-000001/shard-0");
  fs::resize_file(at.path() / "checkpoint-000002/shard-1", 3);
  for (error const& e : errors_of(3, [&](auto& comm) {
         training::checkpoints saved(at.path());
         load_step(comm, saved);
       })) {
    CHECK(e.code() == error_code::system);
    CHECK(contains(e, "is intact: "));
    CHECK(contains(e, "checkpoint-000002/shard-1 is truncated"));
    CHECK(contains(e, "checkpoint-000001/shard-0: No such file"));
  }
}

TEST_CASE("damaged checkpoints do not count among those that are kept") {
  temporary_folder const at;
  save_some(at.path(), 2);
  fs::resize_file(at.path() / "checkpoint-000002/shard-1", 3);
  run_threads(2, [&](auto& comm) {
    training::checkpoints saved(at.path(), {.keep = 2});
    expect(load_step(comm, saved).step == 10, "the wrong checkpoint was found");
    save_step(comm, saved, 30);
  });
  CHECK(fs::exists(at.path() / "checkpoint-000001/manifest"));
  CHECK(fs::exists(at.path() / "checkpoint-000002/manifest"));
  CHECK(load_alone(at.path()).step == 30);
}

TEST_CASE("wrong arrays are errors on all ranks") {
  temporary_folder const at;
  save_some(at.path(), 1);
  auto const check = [&](error_code code, std::string const& words, auto const& use) {
    CAPTURE(words);
    for (error const& e : errors_of(3, [&](auto& comm) {
           training::checkpoints saved(at.path());
           std::vector<double> some(comm.rank() == 2 ? 3 : 2), other(7);
           use(comm, saved, some, other);
         })) {
      CHECK(e.code() == code);
      CHECK_MESSAGE(contains(e, words), e.what());
    }
  };
  using namespace training;
  check(error_code::mismatch, "rank 2 has array w, replicated, 3 elements of float64, but rank 0 has array w",
        [](auto& comm, auto& saved, auto& some, auto&) { saved.save(comm, 1, std::vector{replicated("w", some)}); });
  check(error_code::mismatch, "rank 2 has array w, replicated, 3",
        [](auto& comm, auto& saved, auto& some, auto&) { saved.load(comm, std::vector{replicated("w", some)}); });
  check(error_code::bad_argument, "\"w\", has the name of another",
        [](auto& comm, auto& saved, auto& some, auto& other) {
          saved.save(comm, 1, std::vector{divided("w", some), replicated("w", other)});
        });
  check(error_code::bad_argument, "rank 1: an array of the state, \"\", has no name",
        [](auto& comm, auto& saved, auto&, auto& other) {
          saved.save(comm, 1, std::vector{replicated(comm.rank() == 1 ? "" : "w", other)});
        });
  check(
      error_code::bad_argument,
      "the checkpoint has array weights, replicated, 257 elements of float64, but the program has array weights, "
      "replicated, 7 elements of float64",
      [](auto& comm, auto& saved, auto&, auto& other) { saved.load(comm, std::vector{replicated("weights", other)}); });
  check(error_code::bad_argument, "but the program has array weights, divided, 7 elements",
        [](auto& comm, auto& saved, auto& some, auto&) { saved.load(comm, std::vector{divided("weights", some)}); });
  CHECK(load_alone(at.path()).step == 10);
}

TEST_CASE("a folder that cannot be used is an error on all ranks") {
  temporary_folder const at;
  replace_contents(at.path() / "file", "");
  for (std::string const folder : {"file/run", "none/run"})
    for (error const& e : errors_of(3, [&](auto& comm) {
           training::checkpoints saved(at.path() / folder);
           save_step(comm, saved, 1);
         })) {
      CHECK(e.code() == error_code::system);
      CHECK(contains(e, "rank 0: cannot create " + (at.path() / folder).string() + ": No"));
      CHECK(contains(e, "create the folder above it, or name another one"));
    }
  for (error const& e : errors_of(3, [&](auto& comm) {
         training::checkpoints saved(at.path() / "file");
         load_step(comm, saved);
       })) {
    CHECK(e.code() == error_code::system);
    CHECK(contains(e, "cannot read " + (at.path() / "file").string() + ": Not a directory"));
    CHECK(contains(e, "name a folder: this, or what is above it, is a file"));
  }
  CHECK_NOTHROW(expect_error(error_of([&] { return training::checkpoints("").folder(); }), error_code::bad_argument,
                             "the folder of checkpoints has no name"));
}

TEST_CASE("a checkpoint whose shards another job removes before it is complete does not exist") {
  using tutti::detail::manifest;
  temporary_folder const at;
  save_some(at.path(), 1);
  tutti::detail::checkpoint_folder folder(at.path());
  std::uint64_t const number = folder.begin();
  manifest contents{.identity = 1, .step = 2};
  for (std::size_t s = 0; s < 2; ++s) {
    auto const [bytes, checksum] = folder.write_shard(number, contents, s, {});
    contents.shards.push_back({bytes, checksum});
  }
  fs::remove(at.path() / "checkpoint-000002/shard-1");
  error const thrown = error_of([&] { return folder.finish(number, contents, 3), 0; });
  CHECK_NOTHROW(expect_error(thrown, error_code::system, "checkpoint-000002/shard-1 is gone"));
  CHECK(contains(thrown, "let only one job at a time save to this folder"));
  CHECK(load_alone(at.path()).step == 10);
}

TEST_CASE("a checkpoint that another job completes while this one removes what is unfinished stays") {
  using tutti::detail::manifest;
  temporary_folder const at;
  tutti::detail::checkpoint_folder first(at.path()), second(at.path());
  std::uint64_t const number = first.begin();
  std::uint64_t weight = 5;
  std::vector const arrays{training::replicated("weight", weight)};
  manifest contents{.identity = 1, .step = 2, .arrays = tutti::detail::held_arrays{arrays, {1}}.divide()};
  auto const [bytes, checksum] = first.write_shard(number, contents, 0, arrays);
  contents.shards.push_back({bytes, checksum});
  bool completed = false;
  after_missing_manifest = [&] {
    first.finish(number, contents, 3);
    completed = true;
  };
  CHECK(second.begin() == number + 1);
  CHECK(completed);
  weight = 0;
  run_threads(1, [&](auto& comm) { CHECK(training::checkpoints(at.path()).load(comm, arrays).step == 2); });
  CHECK(weight == 5);
}

TEST_CASE("what a job was about to remove when it was killed is removed, or has its name again if it is complete") {
  temporary_folder const at;
  save_some(at.path(), 1);
  fs::rename(at.path() / "checkpoint-000001", at.path() / "checkpoint-000001.removed");
  fs::create_directories(at.path() / "checkpoint-000002.removed");
  replace_contents(at.path() / "checkpoint-000002.removed/shard-0", "unfinished");
  run_threads(2, [&](auto& comm) {
    training::checkpoints saved(at.path());
    save_step(comm, saved, 20);
  });
  std::vector<std::string> names;
  for (auto const& entry : fs::directory_iterator(at.path())) names.push_back(entry.path().filename());
  std::ranges::sort(names);
  CHECK(names == std::vector<std::string>{"checkpoint-000001", "checkpoint-000003"});
}

TEST_CASE("two jobs that save to one folder at the same time undo no save that has succeeded") {
  temporary_folder const at;
  std::vector<std::uint64_t> done[2];
  auto const job = [&](std::uint64_t which) {
    run_threads(1, [&](auto& comm) {
      training::checkpoints saved(at.path(), {.keep = 1000});
      for (std::uint64_t i = 0; i < 200; ++i) try {
          std::uint64_t const step = 2 * i + which;
          std::uint64_t weight = step;
          saved.save(comm, step, std::vector{training::replicated("weight", weight)});
          done[which].push_back(step);
        } catch (error const&) {  // it was disturbed, and says so
        }
    });
  };
  std::thread other(job, 1);
  job(0);
  other.join();
  tutti::detail::checkpoint_folder const folder(at.path());
  std::vector<std::uint64_t> steps;
  for (std::uint64_t const number : folder.list()) {
    auto const contents = tutti::detail::manifest::parse(folder.read_manifest(number));
    CHECK_NOTHROW(folder.check_shard(number, contents, 0));
    steps.push_back(contents.step);
  }
  for (auto const& some : done)
    for (std::uint64_t const step : some) CHECK(std::ranges::count(steps, step) == 1);
}

TEST_CASE("at least one checkpoint is kept") {
  for (int const keep : {0, -1})
    CHECK_NOTHROW(expect_error(error_of([&] { return training::checkpoints("run", {.keep = keep}).folder(); }),
                               error_code::bad_argument, "checkpoint_options::keep is " + std::to_string(keep)));
}

TEST_CASE("a checkpoint that the file system cannot reach is refused by name, and stays") {
  temporary_folder const at;
  save_some(at.path(), 1);
  fs::create_symlink("checkpoint-000007",
                     at.path() / "checkpoint-000007");  // to itself, as an error of the file system
  training::resumed const seen = load_alone(at.path());
  CHECK(seen.step == 10);
  REQUIRE(seen.refused.size() == 1);
  CHECK_MESSAGE(contains(seen.refused[0], "checkpoint-000007/manifest cannot be read"), seen.refused[0]);
}

TEST_CASE("folders of similar names are no checkpoints") {
  temporary_folder const at;
  save_some(at.path(), 1);
  for (std::string const name : {"checkpoint-1", "checkpoint-0000001", "checkpoint-000001 "})
    fs::copy(at.path() / "checkpoint-000001", at.path() / name);
  run_threads(2, [&](auto& comm) {
    training::checkpoints saved(at.path(), {.keep = 2});
    save_step(comm, saved, 20);
  });
  CHECK(fs::exists(at.path() / "checkpoint-000001/manifest"));
  CHECK(fs::exists(at.path() / "checkpoint-1/manifest"));
}

TEST_CASE("a manifest that is a pipe is refused, not waited for") {
  temporary_folder const at;
  save_some(at.path(), 2);
  fs::remove(at.path() / "checkpoint-000002/manifest");
  REQUIRE(::mkfifo((at.path() / "checkpoint-000002/manifest").c_str(), 0600) == 0);
  training::resumed const seen = load_alone(at.path());
  CHECK(seen.step == 10);
  REQUIRE(seen.refused.size() == 1);
  CHECK_MESSAGE(contains(seen.refused[0], "checkpoint-000002/manifest is not a file"), seen.refused[0]);
}

TEST_CASE("a manifest that could not be read again is not written") {
  temporary_folder const at;
  save_some(at.path(), 1);
  std::vector<double> some(2);
  for (error const& e : errors_of(1, [&](auto& comm) {
         training::checkpoints(at.path()).save(
             comm, 2, std::vector{training::replicated(std::string(std::size_t{65} << 20, 'x'), some)});
       })) {
    CHECK(e.code() == error_code::system);
    CHECK(contains(e, "the manifest of 1 arrays on 1 ranks would have"));
  }
  CHECK(load_alone(at.path()).step == 10);
}

TEST_CASE("ranks that save different steps are told so") {
  temporary_folder const at;
  for (error const& e : errors_of(3, [&](auto& comm) {
         training::checkpoints saved(at.path());
         save_step(comm, saved, comm.rank() == 2 ? 8 : 7);
       })) {
    CHECK(e.code() == error_code::mismatch);
    CHECK_MESSAGE(contains(e, "rank 2 has step 8, but rank 0 has step 7"), e.what());
  }
  CHECK_FALSE(load_alone(at.path()).found);
}

TEST_CASE("bytes that are no whole number of elements are refused") {
  temporary_folder const at;
  std::vector<std::byte> bytes(7);
  for (std::size_t const size : {std::size_t{0}, std::size_t{2}})
    for (error const& e : errors_of(2, [&](auto& comm) {
           std::vector<training::saved_array> const wrong{{"w", bytes, size, training::spread::divided}};
           training::checkpoints(at.path()).save(comm, 1, wrong);
         })) {
      CHECK(e.code() == error_code::bad_argument);
      CHECK(contains(e, "array w of the state has 7 bytes"));
    }
}

TEST_CASE("a manifest whose sizes overflow, or with further lines, is refused") {
  using tutti::detail::manifest;
  auto const refused = [](manifest const& wrong, std::string const& words) {
    CHECK_NOTHROW(
        expect_error(error_of([&] { return manifest::parse(wrong.text()).step; }), error_code::system, words));
  };
  std::uint64_t const count = (std::uint64_t{1} << 56) - 1;
  manifest wrong{.shards = {{.bytes = manifest::head_bytes + 257 * count, .checksum = 0}}};
  for (int i = 0; i < 257; ++i) wrong.arrays.push_back({std::to_string(i), training::spread::divided, 1, {count}});
  refused(wrong, "has counts that cannot be right");
  refused({.shards = {{.bytes = manifest::head_bytes, .checksum = 0}},
           .arrays = {{"one\ndivided bytes 1 0 two", training::spread::divided, 1, {0}}}},
          "has more lines than it should");
}

TEST_CASE("elements of another type of the same size are an error") {
  temporary_folder const at;
  auto const check = [&](auto saved, auto loaded, std::string const& words) {
    CAPTURE(words);
    fs::remove_all(at.path() / "run");
    for (error const& e : errors_of(2, [&](auto& comm) {
           std::vector values(4, saved);
           std::vector others(4, loaded);
           training::checkpoints folder(at.path() / "run");
           folder.save(comm, 1, std::vector{training::replicated("weights", values)});
           folder.load(comm, std::vector{training::replicated("weights", values)});
           folder.load(comm, std::vector{training::replicated("weights", others)});
         })) {
      CHECK(e.code() == error_code::bad_argument);
      CHECK_MESSAGE(contains(e, words), e.what());
    }
  };
  check(bfloat16(1), half(1),
        "the checkpoint has array weights, replicated, 4 elements of bfloat16, but the program has array weights, "
        "replicated, 4 elements of half");
  check(1.0f, 1, "4 elements of float32, but the program has array weights, replicated, 4 elements of int32");
  check(1u, 1, "4 elements of uint32, but the program has array weights, replicated, 4 elements of int32");
  check(std::pair(1, 1), 1.0, "4 elements of 8 bytes, but the program has array weights, replicated, 4 elements of fl");
  for (error const& e : errors_of(2, [&](auto& comm) {
         std::vector<float> numbers(4);
         std::vector<int> counts(4);
         training::checkpoints(at.path() / "run")
             .save(comm, 1,
                   std::vector{comm.rank() == 0 ? training::divided("x", numbers) : training::divided("x", counts)});
       })) {
    CHECK(e.code() == error_code::mismatch);
    CHECK_MESSAGE(contains(e, "rank 1 has array x, divided, elements of int32, but rank 0 has array x"), e.what());
  }
}

TEST_CASE("types of numbers have the same names with every compiler") {
  static_assert(detail::name_of_elements<long>() == detail::name_of_elements<std::int64_t>());
  static_assert(detail::name_of_elements<long long>() == "int64");
  static_assert(detail::name_of_elements<std::uint8_t>() == "uint8");
  static_assert(detail::name_of_elements<float8_e4m3>() == "float8_e4m3");
  static_assert(detail::name_of_elements<double>() == "float64");
  static_assert(detail::name_of_elements<std::byte>() == "bytes");
}

TEST_CASE("a checkpoint of the format without types is restored into elements of their size") {
  using tutti::detail::manifest;
  temporary_folder const at;
  save_some(at.path(), 1);
  fs::path const file = at.path() / "checkpoint-000001/manifest";
  std::string text = contents_of(file);
  text.resize(text.rfind('\n', text.size() - 2) + 1);  // without the checksum
  auto const replace = [&](std::string const& what, std::string_view by) {
    REQUIRE(contains(text, what));
    text.replace(text.find(what), what.size(), by);
  };
  replace("tutti checkpoint 2", "tutti checkpoint 1");
  for (std::string const type : {" float64 8", " bytes", " float32", " uint64", " float64 8"})
    replace(type, type == " float64 8" ? " 8" : "");
  replace_contents(file, text + std::to_string(tutti::detail::crc32c(std::as_bytes(std::span(text)))) + '\n');
  CHECK(manifest::parse(contents_of(file)).arrays[0].type == "any");
  CHECK(load_alone(at.path()).step == 10);
  for (error const& e : errors_of(1, [&](auto& comm) {
         std::vector<float> narrow(257);
         training::checkpoints(at.path()).load(comm, std::vector{training::replicated("weights", narrow)});
       }))
    CHECK_MESSAGE(
        contains(e, "257 elements of 8 bytes, but the program has array weights, replicated, 257 elements of 4 bytes"),
        e.what());
  run_threads(2, [&](auto& comm) {  // a new one has types again
    training::checkpoints saved(at.path());
    save_step(comm, saved, 20);
  });
  CHECK(manifest::parse(contents_of(at.path() / "checkpoint-000002/manifest")).arrays[0].type == "float64");
}

TEST_CASE("types without a name are refused") {
  std::vector<float> values(2);
  for (std::string_view const type : {"", "float 32", "float\n"}) {
    std::vector<training::saved_array> arrays{training::replicated("w", values)};
    arrays[0].type = type;
    CHECK_NOTHROW(expect_error(error_of([&] { return tutti::detail::check_arrays(arrays), 0; }),
                               error_code::bad_argument, "which is not a name"));
  }
  using tutti::detail::manifest;
  CHECK_NOTHROW(expect_error(error_of([&] {
                               return manifest::parse(
                                          manifest{.shards = {{.bytes = manifest::head_bytes, .checksum = 0}},
                                                   .arrays = {{"w", training::spread::divided, 1, {0}, "float\n"}}}
                                              .text())
                                   .step;
                             }),
                             error_code::system, "is corrupted"));
}

TEST_CASE("replicated arrays that differ between ranks are not saved") {
  temporary_folder const at;
  save_some(at.path(), 1);
  auto const check = [&](int ranks, int odd, std::string const& words, auto const& change) {
    CAPTURE(words);
    for (error const& e : errors_of(ranks, [&](auto& comm) {
           std::mt19937 random(5);
           std::vector<float> weights(40000, 1), mine(3, static_cast<float>(comm.rank()));
           if (comm.rank() == odd) change(random, weights);
           training::checkpoints(at.path()).save(
               comm, 2,
               std::vector{training::divided("mine", mine), training::replicated("weights", weights),
                           training::per_rank("own", mine), training::replicated("random", random)});
         })) {
      CHECK(e.code() == error_code::mismatch);
      CHECK_MESSAGE(contains(e, words), e.what());
      CHECK(contains(e, "list it as per_rank"));
    }
    CHECK_FALSE(fs::exists(at.path() / "checkpoint-000002"));
  };
  check(2, 1, "array random is replicated, but differs on rank 1", [](auto& random, auto&) { random.discard(1); });
  check(3, 2, "array weights is replicated, but differs on rank 2", [](auto&, auto& weights) { weights.back() = 2; });
  check(3, 0, "array weights is replicated, but differs on rank 1", [](auto& random, auto& weights) {
    random.discard(1);
    weights[0] = 2;
  });
  CHECK(load_alone(at.path()).step == 10);
}

TEST_CASE("bytes between the members of a replicated struct may differ") {
  struct progress {
    char kind;
    double loss;
  };
  static_assert(sizeof(progress) > 9);
  temporary_folder const at;
  run_threads(2, [&](auto& comm) {
    progress now;
    std::memset(&now, comm.rank(), sizeof now);
    now.kind = 'a', now.loss = 0.5;
    training::checkpoints(at.path()).save(comm, 1, std::vector{training::replicated("progress", now)});
  });
  CHECK(fs::exists(at.path() / "checkpoint-000001/manifest"));
}
