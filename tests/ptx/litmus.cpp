// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The machine itself, on small kernels written by hand: it keeps what PTX promises, breaks what PTX does not promise, and names
// mistakes.
#include <doctest/doctest.h>

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "ptx/machine.hpp"

using namespace tutti::testing::ptx;

namespace {

// A kernel with one parameter, the address of its memory, which %rd1 holds.
std::string kernel_of(std::string const& body) {
  return ".version 7.0\n.target sm_75\n.address_size 64\n.visible .entry k(.param .u64 memory)\n{\n"
         ".reg .pred %p<4>;\n.reg .b32 %r<10>;\n.reg .b64 %rd<10>;\n.reg .f32 %f<4>;\n"
         ".shared .align 4 .b8 room[64];\nld.param.u64 %rd1, [memory];\n" +
         body + "\nret;\n}\n";
}

// 64 words in two lines of a cache and more, which count as written.
struct words {
  alignas(128) std::array<std::uint32_t, 64> of{};
};

void run(std::string const& body, words& data, int blocks, int threads, std::uint64_t seed, bool together = true,
         machine::on_race on_race = machine::on_race::go_on) {
  machine m(seed, on_race);
  m.set_patience(std::chrono::seconds(0));  // there is no host
  m.memory().add(data.of.data(), sizeof data.of, {.cached = true, .written = true});
  auto const code = parse(kernel_of(body));
  std::vector<std::byte> parameters(8);
  auto const address = reinterpret_cast<std::uint64_t>(data.of.data());
  std::memcpy(parameters.data(), &address, 8);
  m.start(std::make_shared<grid>(grid{code, &code->functions[0], parameters, blocks, threads, together, 0}));
  while (!m.idle()) m.step();
}

std::string mistake(std::string const& body, int blocks = 1, int threads = 1) {
  words data;
  try {
    run(body, data, blocks, threads, 1, true, machine::on_race::fail);
  } catch (fault const& e) {
    return e.what();
  }
  return "none";
}

// A branch that depends on %r1.
std::string const by_r1 = "setp.eq.u32 %p1, %r1, 0;\n@%p1 ret;\n";

// Block 0 writes data and then a flag; block 1 reads the data before, waits for the flag, and stores what it then reads.
std::string message(std::string const& write_flag, std::string const& read_flag) {
  return "mov.u32 %r1, %ctaid.x;\nsetp.ne.u32 %p1, %r1, 0;\n@%p1 bra $reader;\n"
         "st.global.u32 [%rd1], 7;\n" +
         write_flag +
         " [%rd1+128], 1;\nret;\n"
         "$reader:\nld.global.u32 %r2, [%rd1];\n$wait:\n" +
         read_flag +
         " %r3, [%rd1+128];\nsetp.eq.u32 %p2, %r3, 0;\n@%p2 bra $wait;\n"
         "ld.global.u32 %r4, [%rd1];\nst.global.u32 [%rd1+64], %r4;";
}
int wrong_messages(std::string const& write_flag, std::string const& read_flag) {
  int out = 0;
  for (std::uint64_t seed = 1; seed <= 300; ++seed) {
    words data;
    run(message(write_flag, read_flag), data, 2, 1, seed);
    out += data.of[16] != 7;
  }
  return out;
}

}  // namespace

TEST_CASE("a release and an acquire carry what was written before") {
  CHECK(wrong_messages("st.release.gpu.global.u32", "ld.acquire.gpu.global.u32") == 0);
}

TEST_CASE("without one of them, the reader may find what was there before") {
  CHECK(wrong_messages("st.relaxed.gpu.global.u32", "ld.acquire.gpu.global.u32") > 0);
  CHECK(wrong_messages("st.release.gpu.global.u32", "ld.relaxed.gpu.global.u32") > 0);
}

TEST_CASE("a barrier shows a block what its threads have written, and a release after it shows others") {
  // Thread 1 of block 0 writes, and after a barrier thread 0 writes the flag.
  std::string const body =
      "mov.u32 %r1, %ctaid.x;\nsetp.ne.u32 %p1, %r1, 0;\n@%p1 bra $reader;\n"
      "mov.u32 %r2, %tid.x;\nsetp.ne.u32 %p2, %r2, 1;\n@%p2 bra $written;\nst.global.u32 [%rd1], 7;\n"
      "$written:\nbarrier.sync 0;\n@!%p2 ret;\nld.global.u32 %r3, [%rd1];\nst.global.u32 [%rd1+64], %r3;\n"
      "st.release.gpu.global.u32 [%rd1+128], 1;\nret;\n"
      "$reader:\nld.acquire.gpu.global.u32 %r4, [%rd1+128];\nsetp.eq.u32 %p3, %r4, 0;\n@%p3 bra $reader;\n"
      "ld.global.u32 %r5, [%rd1];\nst.global.u32 [%rd1+68], %r5;";
  for (std::uint64_t seed = 1; seed <= 100; ++seed) {
    words data;
    run(body, data, 2, 2, seed);
    CHECK(data.of[16] == 7);
    CHECK(data.of[17] == 7);
  }
}

TEST_CASE("threads that vote at a barrier learn whether any has voted so, and see what all have written") {
  // Thread 1 writes and votes; thread 0 finds both.
  auto const outcome = [](std::string const& voter) {
    words data;
    run("mov.u32 %r2, %tid.x;\nsetp.eq.u32 %p2, %r2, " + voter +
            ";\nsetp.ne.u32 %p3, %r2, 0;\n@%p3 st.global.u32 [%rd1], 7;\nbar.red.or.pred %p1, 0, %p2;\n@%p3 ret;\n"
            "ld.global.u32 %r3, [%rd1];\nst.global.u32 [%rd1+64], %r3;\nselp.u32 %r4, 1, 2, %p1;\n"
            "st.global.u32 [%rd1+68], %r4;",
        data, 1, 2, 1);
    CHECK(data.of[16] == 7);
    return data.of[17];
  };
  CHECK(outcome("1") == 1);
  CHECK(outcome("5") == 2);
}

TEST_CASE("who counts later sees what was written before earlier counts, if the count is ordered") {
  // Each block reads both words, writes one and counts; the last of two reads the word of the other.
  auto const wrong = [](std::string const& atom) {
    std::string const body =
        "ld.global.u32 %r9, [%rd1];\nld.global.u32 %r9, [%rd1+4];\nmov.u32 %r1, %ctaid.x;\n"
        "mul.wide.u32 %rd2, %r1, 4;\nadd.u64 %rd3, %rd1, %rd2;\nst.global.u32 [%rd3], 7;\n" +
        atom +
        " %r2, [%rd1+128], 1;\nsetp.eq.u32 %p1, %r2, 0;\n@%p1 ret;\nxor.b32 %r3, %r1, 1;\n"
        "mul.wide.u32 %rd4, %r3, 4;\nadd.u64 %rd5, %rd1, %rd4;\nld.global.u32 %r4, [%rd5];\n"
        "st.global.u32 [%rd1+64], %r4;";
    int out = 0;
    for (std::uint64_t seed = 1; seed <= 200; ++seed) {
      words data;
      run(body, data, 2, 1, seed);
      out += data.of[16] != 7;
    }
    return out;
  };
  CHECK(wrong("atom.acq_rel.gpu.global.add.u32") == 0);
  CHECK(wrong("atom.global.add.u32") > 0);
}

TEST_CASE("the threads of a grid add up without losing any") {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    words data;
    run("atom.global.add.u32 %r1, [%rd1], 2;", data, 5, 40, seed, false);
    CHECK(data.of[0] == 400);
  }
}

TEST_CASE("a mistake is named, with its line") {
  std::string const past = mistake("ld.global.u32 %r1, [%rd1+256];");
  CHECK(past.find("reads 4 bytes at 0x") != std::string::npos);
  CHECK(past.find("ld.global.u32 %r1, [%rd1+256];") != std::string::npos);
  CHECK(mistake("st.global.u32 [%rd1+-4], 0;").find("writes 4 bytes") != std::string::npos);
  CHECK(mistake("ld.global.u32 %r1, [%rd1+2];").find("accesses 4 bytes at 0x") != std::string::npos);
  CHECK(mistake("ld.shared.u32 %r1, [room+64];").find("past the end of its shared") != std::string::npos);
  CHECK(mistake("ld.shared.u32 %r1, [room];\n" + by_r1).find("that nobody has written") != std::string::npos);
  CHECK(mistake("trap;").find("executes a trap") != std::string::npos);
  CHECK(mistake("tex.1d.v4.f32 {%f0, %f1, %f2, %f3}, %r1;").find("that the machine does not have") !=
        std::string::npos);
}

// Block 0 writes data and then a flag; once it is set, block 1 reads the data.
std::string guarded(std::string const& write_flag, std::string const& read_flag) {
  return "mov.u32 %r1, %ctaid.x;\nsetp.ne.u32 %p1, %r1, 0;\n@%p1 bra $reader;\nst.global.u32 [%rd1], 7;\n" +
         write_flag + "\nret;\n$reader:\n" + read_flag +
         "\nsetp.eq.u32 %p2, %r3, 0;\n@%p2 bra $reader;\nld.global.u32 %r4, [%rd1];";
}

TEST_CASE("accesses without an order between them race, unless both are atomic for each other") {
  std::string const release = "st.release.gpu.global.u32 [%rd1+128], 1;",
                    acquire = "ld.acquire.gpu.global.u32 %r3, [%rd1+128];";
  auto const races = [](std::string const& text) { return text.find("in a race with thread 0 of block") != text.npos; };
  CHECK(mistake(guarded(release, acquire), 2) == "none");
  CHECK(mistake(guarded("fence.acq_rel.gpu;\nst.relaxed.gpu.global.u32 [%rd1+128], 1;", acquire), 2) == "none");
  CHECK(mistake(guarded(release, "ld.relaxed.gpu.global.u32 %r3, [%rd1+128];\nfence.acq_rel.gpu;"), 2) == "none");
  CHECK(mistake(guarded("atom.acq_rel.gpu.global.add.u32 %r9, [%rd1+128], 1;", acquire), 2) == "none");
  // An update in one step continues the release of what it replaces.
  CHECK(mistake(guarded(release + "\natom.relaxed.gpu.global.add.u32 %r9, [%rd1+128], 1;", acquire), 2) == "none");

  CHECK(races(mistake(guarded("st.relaxed.gpu.global.u32 [%rd1+128], 1;", acquire), 2)));
  CHECK(races(mistake(guarded(release, "ld.relaxed.gpu.global.u32 %r3, [%rd1+128];"), 2)));
  CHECK(races(mistake(guarded("st.global.u32 [%rd1+128], 1;", acquire), 2)));
  CHECK(races(mistake(guarded("st.release.cta.global.u32 [%rd1+128], 1;", acquire), 2)));
  CHECK(races(mistake(guarded(release, "ld.acquire.cta.global.u32 %r3, [%rd1+128];"), 2)));
  CHECK(races(mistake(guarded("fence.acq_rel.cta;\nst.relaxed.gpu.global.u32 [%rd1+128], 1;", acquire), 2)));
  CHECK(races(mistake(guarded("atom.relaxed.gpu.global.add.u32 %r9, [%rd1+128], 1;", acquire), 2)));
  // The second half of an atomic word.
  CHECK(
      races(mistake("mov.u32 %r1, %ctaid.x;\nsetp.ne.u32 %p1, %r1, 0;\n@%p1 bra $other;\n"
                    "st.relaxed.gpu.global.b64 [%rd1], 1;\nret;\n$other:\nst.relaxed.gpu.global.u32 [%rd1+4], 1;",
                    2)));
}

// What thread 0 makes of two words, 3 and 4, that %rd1 names as a team: it stores their sum, which thread 1 of its block then has.
std::string of_team(std::string const& body) {
  machine m(1);
  words a, b;
  alignas(128) static std::array<std::byte, 256> const team{};
  float const three = 3, four = 4;
  std::memcpy(&a.of[0], &three, 4), std::memcpy(&b.of[0], &four, 4);
  for (words* const w : {&a, &b}) m.memory().add(w->of.data(), sizeof w->of, {.cached = true, .written = true});
  auto const address = [](void const* at) { return reinterpret_cast<std::uint64_t>(at); };
  m.memory().add_team(const_cast<std::byte*>(team.data()), team.size(), {address(a.of.data()), address(b.of.data())});
  auto const code = parse(kernel_of(body));
  std::vector<std::byte> parameters(8);
  std::uint64_t const memory = address(team.data());
  std::memcpy(parameters.data(), &memory, 8);
  try {
    m.start(std::make_shared<grid>(grid{code, &code->functions[0], parameters, 1, 2, true, 0}));
    while (!m.idle()) m.step();
  } catch (fault const& e) {
    return e.what();
  }
  float sums[2];
  std::memcpy(&sums[0], &a.of[1], 4), std::memcpy(&sums[1], &b.of[1], 4);
  return sums[0] == 7 && sums[1] == 7 ? "both have the sum" : "they do not have it";
}

TEST_CASE("an address of a team loads the sum of its members and stores to all of them, with fences of the aliases") {
  std::string const first = "mov.u32 %r1, %tid.x;\nsetp.ne.u32 %p1, %r1, 0;\n@%p1 bra $end;\n",
                    load = "multimem.ld_reduce.relaxed.sys.global.add.f32 %r2, [%rd1];\n",
                    store = "multimem.st.relaxed.sys.global.f32 [%rd1+4], %r2;\n", fence = "fence.proxy.alias;\n",
                    end = "$end:\n", barrier = "barrier.sync 0;\n";
  CHECK(of_team(first + load + store + fence + end + barrier) == "both have the sum");
  CHECK(of_team(first + load + store + end) == "both have the sum");  // the end of a kernel is a fence, too
  auto const contains = [](std::string const& text, char const* words) { return text.find(words) != text.npos; };
  CHECK(contains(of_team(first + load + store + end + barrier), "without a fence of the aliases"));
  CHECK(contains(of_team(barrier + first + load + store + fence + end), "reads memory of a team without a fence"));
  CHECK(contains(of_team("ld.global.u32 %r2, [%rd1];\n"), "not by an instruction multimem"));
}

TEST_CASE("threads of a block race too, in shared memory and without a barrier") {
  auto const exchange = [](std::string const& between) {
    return "mov.u32 %r1, %tid.x;\nmul.lo.u32 %r2, %r1, 4;\nst.shared.u32 [room], %r1;\n" + between +
           "\nld.shared.u32 %r3, [room];";
  };
  CHECK(mistake(exchange(""), 1, 2).find("in a race with thread") != std::string::npos);
  auto const neighbour = [](std::string const& between) {
    return "mov.u32 %r1, %tid.x;\ncvt.u64.u32 %rd2, %r1;\nshl.b64 %rd2, %rd2, 2;\nmov.u64 %rd3, room;\nadd.u64 %rd3, "
           "%rd3, %rd2;\n"
           "st.shared.u32 [%rd3], %r1;\nxor.b32 %r2, %r1, 1;\ncvt.u64.u32 %rd2, %r2;\nshl.b64 %rd2, %rd2, 2;\n"
           "mov.u64 %rd4, room;\nadd.u64 %rd4, %rd4, %rd2;\n" +
           between + "\nld.shared.u32 %r1, [%rd4];\n" + by_r1;
  };
  CHECK(mistake(neighbour("barrier.sync 0;"), 1, 4) == "none");
  std::string const without = mistake(neighbour(""), 1, 4);
  CHECK(
      (without.find("in a race with") != std::string::npos || without.find("nobody has written") != std::string::npos));
}

TEST_CASE("lanes of a warp swap registers, all of them at one place") {
  std::string const swap = "shfl.sync.bfly.b32 %r2, %r1, 2, 0x1f, 0xffffffff;\n";
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    words data;
    run("mov.u32 %r1, %tid.x;\n" + swap +
            "cvt.u64.u32 %rd2, %r1;\nshl.b64 %rd2, %rd2, 2;\nadd.u64 %rd3, %rd1, %rd2;\nst.global.u32 [%rd3], %r2;",
        data, 1, 64, seed);
    for (std::uint32_t k = 0; k < 64; ++k) CHECK(data.of[k] == (k ^ 2));
  }
  words data;
  run("mov.u32 %r1, %tid.x;\nmov.b32 %r3, -1;\nshfl.sync.down.b32 %r2, %r1, 3, 0x1f, %r3;\n"
      "cvt.u64.u32 %rd2, %r1;\nshl.b64 %rd2, %rd2, 2;\nadd.u64 %rd3, %rd1, %rd2;\nst.global.u32 [%rd3], %r2;",
      data, 1, 64, 1);
  for (std::uint32_t k = 0; k < 64; ++k) CHECK(data.of[k] == (k % 32 < 29 ? k + 3 : k));
  std::string const odd = "mov.u32 %r1, %tid.x;\nand.b32 %r3, %r1, 1;\nsetp.eq.u32 %p1, %r3, 0;\n@%p1 ";
  CHECK(mistake(odd + "ret;\n" + swap, 1, 32).find("no thread makes progress") != std::string::npos);
  CHECK(mistake("shfl.sync.bfly.b32 %r2, %r1, 2, 0x1f, 1;", 1, 32).find("with some lanes") != std::string::npos);
  CHECK(mistake(odd + "bra $other;\n" + swap + "ret;\n$other:\n" + swap, 1, 32).find("at another shuffle") !=
        std::string::npos);
}

TEST_CASE("memory that nobody has written may be copied and computed with, but decides nothing") {
  machine m(1);
  words data;
  m.memory().add(data.of.data(), sizeof data.of, {.cached = true});
  auto const code =
      parse(kernel_of("st.global.u32 [%rd1], 1;\nld.global.u32 %r1, [%rd1];\nld.global.u32 %r1, [%rd1+4];\n"
                      "st.global.u32 [%rd1+8], %r1;\nadd.u32 %r1, %r1, 1;\n" +
                      by_r1));
  std::vector<std::byte> parameters(8);
  auto const address = reinterpret_cast<std::uint64_t>(data.of.data());
  std::memcpy(parameters.data(), &address, 8);
  m.start(std::make_shared<grid>(grid{code, &code->functions[0], parameters, 1, 1, false, 0}));
  CHECK_THROWS_WITH_AS(
      [&] {
        while (!m.idle()) m.step();
      }(),
      doctest::Contains("that nobody has written"), fault);
}

TEST_CASE("blocks that wait for each other need a cooperative launch") {
  // The block that is started first waits for the last, for which there is no room.
  std::string const body =
      "mov.u32 %r1, %ctaid.x;\nmov.u32 %r2, %nctaid.x;\nadd.u32 %r2, %r2, -1;\nsetp.ne.u32 %p1, %r1, %r2;\n"
      "@%p1 bra $wait;\nst.release.gpu.global.u32 [%rd1], 1;\nret;\n"
      "$wait:\nld.acquire.gpu.global.u32 %r3, [%rd1];\nsetp.eq.u32 %p2, %r3, 0;\n@%p2 bra $wait;";
  words data;
  int const at_once = machine::gpu_size{}.blocks();
  CHECK_NOTHROW(run(body, data, at_once, 1, 1));
  data = {};
  CHECK_THROWS_WITH_AS(run(body, data, at_once + 1, 1, 1, false), doctest::Contains("no thread makes progress"), fault);
}
