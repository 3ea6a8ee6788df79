// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Calls that are wrong by themselves are refused before anything is sent, and the communicator stays usable.
// labels: threads
#include <doctest/doctest.h>

#include <cstddef>
#include <cstdlib>
#include <limits>
#include <numeric>
#include <string>
#include <vector>

#include "support/expect.hpp"
#include "support/mesh.hpp"
#include "tutti/tutti.hpp"

using namespace tutti;
using namespace tutti::detail;

namespace {

// On every rank the same call is refused with this sentence, and the next one works.
template <class F>
void refused(std::string const& sentence, F call) {
  run_threads(3, [&](auto& comm) {
    std::string said = "nothing was thrown";
    try {
      call(comm);
    } catch (error const& e) {
      if (e.code() == error_code::bad_argument) said = e.what();
    }
    std::vector<int> one{1};
    all_reduce(comm, one);
    if (said.find(sentence) == std::string::npos)
      throw std::runtime_error("expected \"" + sentence + "\", got \"" + said + "\"");
    if (one[0] != 3) throw std::runtime_error("the communicator is damaged");
  });
}

template <class Comm, class... Arguments>
concept all_reduces = requires(Comm& comm, Arguments&&... arguments) { all_reduce(comm, arguments...); };
template <class T>
concept allocates = requires(communicator<loopback>& comm) { comm.allocate<T>(1); };

}  // namespace

TEST_CASE("a requires expression of a call that no form takes is false") {
  using comm = communicator<loopback>;
  using numbers = std::vector<float>;
  CHECK(all_reduces<comm, numbers&>);
  CHECK(all_reduces<comm, numbers&, numbers&, max, options>);
  CHECK(!all_reduces<comm>);
  CHECK(!all_reduces<comm, numbers&, numbers&, int, sum>);
  CHECK(!all_reduces<comm, float*, float*, int, int, int, int, int, int>);
  CHECK(allocates<float>);
  CHECK(!allocates<std::string>);
}

TEST_CASE("wrong arguments are refused with what, where and the way out") {
  refused("the output of all_reduce has 3 elements, but", [](auto& comm) {
    std::vector<float> in(4), out(3);
    all_reduce(comm, in, out);
  });
  refused("arguments.cpp:", [](auto& comm) {
    std::vector<float> in(4), out(3);
    all_reduce(comm, in, out);
  });
  refused("root 3 is not a rank of a communicator of 3 ranks", [](auto& comm) {
    std::vector<float> v(4);
    broadcast(comm, v, 3);
  });
  refused("use a rank from 0 to 2", [](auto& comm) {
    std::vector<float> v(4);
    broadcast(comm, v, -1);
  });
  refused("input and output of all_reduce overlap", [](auto& comm) {
    std::vector<float> v(10);
    all_reduce(comm, std::span(v).first(6), std::span(v).last(6));
  });
  refused("which 3 ranks cannot share equally", [](auto& comm) {
    std::vector<float> v(10);
    all_to_all(comm, v);
  });
  refused("the input of reduce_scatter has 10 elements, which 3 ranks cannot share equally", [](auto& comm) {
    std::vector<float> const v(10);
    static_cast<void>(reduce_scatter(comm, v));
  });
  refused("block 2 of the output of all_gather_v has 3 elements from element 6 on, but the buffer has 8 elements",
          [](auto& comm) {
            std::vector<float> mine(3), all(8);
            std::vector<std::size_t> const counts{3, 3, 3};
            all_gather_v(comm, mine, all, counts);
          });
  // 2^62 floats would have 2^64 bytes, which wrap to none.
  std::size_t const many = std::size_t{1} << 62;
  auto const endless = [](auto& v, std::size_t size) { return std::span(v.data(), size); };
  std::string const what = " has 4611686018427387904 elements, which is more than memory can hold";
  refused("the input of all_reduce" + what, [&](auto& comm) {
    std::vector<float> v(4);
    all_reduce(comm, endless(v, many));
  });
  refused("the output of all_gather" + what, [&](auto& comm) {
    std::vector<float> v(4), all(12);
    all_gather(comm, v, endless(all, many));
  });
  refused("the input of all_gather_v" + what, [&](auto& comm) {
    std::vector<float> v(4), all(12);
    all_gather_v(comm, endless(v, many), all, std::vector<std::size_t>{4, 4, 4});
  });
  refused("the array of send" + what, [&](auto& comm) {
    std::vector<float> v(4);
    send(comm, endless(v, many), comm.rank());
  });
  refused("the array of recv has 18446744073709551615 elements, which is more than memory can hold", [&](auto& comm) {
    std::vector<float> v(4);
    recv(comm, endless(v, static_cast<std::size_t>(-1)), comm.rank());
  });
  // Strides whose bytes wrap would lead to memory beside the array.
  constexpr std::ptrdiff_t far = std::numeric_limits<std::ptrdiff_t>::max();
  for (std::ptrdiff_t const stride : {far, -far, far / 8, -far / 8 - 1, far / 4}) {
    refused("the input of all_reduce has 18446744073709551615 elements, which is more than memory can hold",
            [&](auto& comm) {
              std::vector<double> v(4);
              all_reduce(comm, strided(v.data(), 3, stride));
            });
    refused("the array of send has 18446744073709551615 elements, which is more than memory can hold", [&](auto& comm) {
      std::vector<double> v(4);
      send(comm, strided(v.data(), 3, stride), comm.rank());
    });
  }
  run_threads(2, [](auto& comm) {
    std::vector<double> v(4);
    all_reduce(comm, strided(v.data(), 1, far));
    all_reduce(comm, strided(v.data(), 0, far));
  });
  // 3 blocks of as many chars have 2^64 + 2 bytes, which wrap to 2.
  std::size_t const third = 6148914691236517206;
  std::string const blocks = " has 6148914691236517206 elements, and 3 such blocks are more than memory can hold";
  refused("the input of all_gather" + blocks, [&](auto& comm) {
    std::vector<char> v(2), all(2);
    all_gather(comm, endless(v, third), all);
  });
  refused("the input of gather" + blocks, [&](auto& comm) {
    std::vector<char> v(2), all(2);
    gather(comm, endless(v, third), all, 1);
  });
  refused("the output of scatter" + blocks, [&](auto& comm) {
    std::vector<char> all(2), v(2);
    scatter(comm, all, endless(v, third), 1);
  });
  refused("the output of reduce_scatter" + blocks, [&](auto& comm) {
    std::vector<char> all(2), v(2);
    reduce_scatter(comm, all, endless(v, third));
  });
  // 3 blocks of as many floats have 2^64 + 8 bytes, which wrap to 2 floats. Only the root has them all.
  std::size_t const twelfth = 1537228672809129302;
  std::string const float_blocks = " has 1537228672809129302 elements, and 3 such blocks are more than memory can hold";
  refused("the output of scatter" + float_blocks, [&](auto& comm) {
    std::vector<float> all(2), v(2);
    scatter(comm, all, endless(v, twelfth), 1);
  });
  refused("the input of gather" + float_blocks, [&](auto& comm) {
    std::vector<float> v(2), all(2);
    gather(comm, endless(v, twelfth), all, 1);
  });
  std::span<float> const nothing(static_cast<float*>(nullptr), 6);
  refused("the input of all_reduce has 6 elements, but its pointer is null",
          [&](auto& comm) { all_reduce(comm, nothing); });
  refused("pass the address of the elements; only an empty array may be null", [&](auto& comm) {
    std::vector<float> out(6);
    work started = all_reduce(async(comm), nothing, out);
  });
  refused("the output of reduce_scatter has 6 elements, but its pointer is null", [&](auto& comm) {
    std::vector<float> in(18);
    reduce_scatter(comm, in, nothing);
  });
  refused("the input of all_reduce has 6 elements, but its pointer is null",
          [&](auto& comm) { all_reduce(comm, strided(nothing.data(), 6, 2)); });
  refused("the output of all_gather_v has 6 elements, but its pointer is null", [&](auto& comm) {
    std::vector<float> mine(2);
    all_gather_v(comm, mine, nothing, std::vector<std::size_t>{2, 2, 2});
  });
  refused("the array of send has 6 elements, but its pointer is null",
          [&](auto& comm) { send(comm, nothing, comm.rank()); });
  refused("the array of recv has 6 elements, but its pointer is null",
          [&](auto& comm) { receive_work started = irecv(comm, nothing, comm.rank()); });
  refused("bruck cannot do all_reduce: it does not serve this collective", [](auto& comm) {
    std::vector<float> v(10);
    all_reduce(comm, v, sum{}, {.algorithm = algorithm_id::bruck});
  });
  refused("an algorithm that does not exist cannot do all_reduce", [](auto& comm) {
    std::vector<float> v(10);
    all_reduce(comm, v, sum{}, {.algorithm = static_cast<algorithm_id>(77)});
  });
  refused("by its type and an algorithm that does not exist in its options", [](auto& comm) {
    std::vector<float> v(10);
    all_reduce<ring>(comm, v, sum{}, {.algorithm = static_cast<algorithm_id>(255)});
  });
  refused("protocol that does not exist is not safe for", [](auto& comm) {
    std::vector<float> v(10);
    all_reduce(comm, v, sum{}, {.protocol = static_cast<protocol>(9)});
  });
  refused("options::timeout is negative or not a number", [](auto& comm) {
    std::vector<float> v(10);
    all_reduce(comm, v, sum{}, {.timeout = std::chrono::duration<double>(std::numeric_limits<double>::quiet_NaN())});
  });
  refused("options::timeout is negative", [](auto& comm) {
    std::vector<float> v(10);
    all_reduce(comm, v, sum{}, {.timeout = std::chrono::seconds(-1)});
  });
  refused("the call names ring by its type and two_shot in its options", [](auto& comm) {
    std::vector<float> v(10);
    all_reduce<ring>(comm, v, sum{}, {.algorithm = algorithm_id::two_shot});
  });
  refused("out of rank order and the operation is not commutative", [](auto& comm) {
    std::vector<float> v(10);
    all_reduce(comm, v, [](float a, float) { return a; }, {.algorithm = algorithm_id::ring});
  });
  refused("protocol packet cannot carry this call", [](auto& comm) {
    std::vector<float> v(100'000);
    all_reduce(comm, v, sum{}, {.protocol = protocol::packet});
  });
  refused("protocol direct is not safe for recursive_doubling", [](auto& comm) {
    std::vector<float> v(100'000);
    all_reduce(comm, v, sum{}, {.algorithm = algorithm_id::recursive_doubling, .protocol = protocol::direct});
  });
}

TEST_CASE("one rank refuses the algorithms that several would refuse") {
  run_threads(1, [](auto& comm) {
    std::vector<float> v(10, 1);
    auto const refused_alone = [&](std::string const& sentence, auto const& op, algorithm_id named) {
      error const e = testing::error_of([&] { all_reduce(comm, v, op, {.algorithm = named}); });
      testing::expect(e.code() == error_code::bad_argument && testing::contains(e, sentence), e.what());
    };
    refused_alone("dissemination cannot do all_reduce: it does not serve", sum{}, algorithm_id::dissemination);
    refused_alone("native cannot do all_reduce: this transport has no", sum{}, algorithm_id::native);
    refused_alone("an algorithm that does not exist cannot do", sum{}, static_cast<algorithm_id>(77));
    refused_alone("ring cannot do all_reduce: it combines", [](float a, float) { return a; }, algorithm_id::ring);
    error const e = testing::error_of([&] {
      static_cast<void>(explain<float>(comm, collective::all_reduce, 1, {.algorithm = algorithm_id::bruck}));
    });
    testing::expect(testing::contains(e, "bruck cannot do all_reduce"), e.what());
    for (algorithm_id const named : {algorithm_id::ring, algorithm_id::one_shot})
      all_reduce(comm, v, sum{}, {.algorithm = named, .protocol = protocol::staged});
    testing::expect(v[9] == 1, "one rank has changed its array");
  });
}

TEST_CASE("a communicator of one rank is said to have one") {
  std::string said;
  try {
    run_threads(1, [](auto& comm) { static_cast<void>(comm.subgroup({1})); });
  } catch (error const& e) {
    said = e.what();
  }
  CHECK_MESSAGE(said.find("the communicator has only 1 rank [") != said.npos, said);
}

TEST_CASE("the environment is read and checked") {
  auto const with = [](char const* variable, char const* value, auto f) {
    ::setenv(variable, value, 1);
    f();
    ::unsetenv(variable);
  };
  auto const says = [](std::string const& sentence) {
    try {
      settings::from_environment();
      FAIL("nothing was thrown");
    } catch (error const& e) {
      CAPTURE(e.what());
      CHECK(std::string(e.what()).find(sentence) != std::string::npos);
    }
  };
  with("TUTTI_TIMEOUT", "0.5", [] { CHECK(settings::from_environment().timeout == std::chrono::milliseconds(500)); });
  with("TUTTI_TIMEOUT", "soon", [&] { says("\"soon\" is not a time"); });
  for (char const* const impossible : {"-1", "1e-300", "1e300"})
    with("TUTTI_TIMEOUT", impossible, [&] { says("number of seconds from 1e-9 to 1e9"); });
  for (char const* const empty :
       {"TUTTI_TIMEOUT", "TUTTI_ALGORITHM", "TUTTI_LOG", "TUTTI_RECORD", "TUTTI_RECORD_SIGNAL", "TUTTI_TRACE",
        "TUTTI_STATISTICS", "TUTTI_CHECK", "TUTTI_NATIVE", "TUTTI_MEET", "TUTTI_NVLS"})
    with(empty, "", [] { CHECK(settings::from_environment().timeout == std::chrono::minutes(5)); });
  for (char const* const signal : {"9", "19", "32", "0", "65", "10abc", "USR1", "4", "5", "6", "7", "8", "11"})
    with("TUTTI_RECORD_SIGNAL", signal, [&] { says("\" is not a signal that a program can handle"); });
  with("TUTTI_RECORD_SIGNAL", "10", [] { CHECK(settings::from_environment().record_signal == 10); });
  with("TUTTI_STATISTICS", "yes", [&] { says("\"yes\" is not 0 or 1; set it to 1"); });
  with("TUTTI_NATIVE", "no", [&] { says("\"no\" is not 0 or 1; set it to 0 to keep calls out of the MPI's own"); });
  with("TUTTI_NATIVE", "0", [] { CHECK(settings::from_environment().avoids_native == "TUTTI_NATIVE=0"); });
  with("OMPI_MCA_orte_enable_recovery", "1", [&] {
    CHECK(settings::from_environment().avoids_native == "mpirun --enable-recovery");
    with("TUTTI_NATIVE", "1", [] { CHECK(settings::from_environment().avoids_native == ""); });
  });
  with("TUTTI_STATISTICS", "1", [] { CHECK(settings::from_environment().statistics); });
  with("TUTTI_NVLS", "on", [&] { says("\"on\" is not 0 or 1; set it to 1 to let NVLink switches compute sums"); });
  with("TUTTI_NVLS", "1", [] { CHECK(settings::from_environment().sums_in_switch); });
  with("TUTTI_MEET", "never",
       [&] { says("\"never\" is not 0 or 1; set it to 0 to skip the check before native calls"); });
  with("TUTTI_MEET", "0", [] { CHECK(!settings::from_environment().meets); });
  CHECK(settings::from_environment().meets);
  with("TUTTI_RECORD", "/no/such/folder/run",
       [&] { says("is not where files can be created: No such file or directory"); });
  with("TUTTI_RECORD", "run", [] { CHECK_NOTHROW(settings::from_environment()); });
  with("TUTTI_ALGORITHM", "rong",
       [&] { says("\"rong\" is not an algorithm; algorithms are: automatic, ring, binomial_tree"); });
  with("TUTTI_ALGORITHM", "all_reduce=bruck", [&] { says("bruck does not serve all_reduce"); });
  with("TUTTI_ALGORITHM", "everything=ring", [&] { says("\"everything\" is not a collective"); });
  with("TUTTI_ALGORITHM", "ring,all_reduce=two_shot,ring", [&] { says("in \"ring\", ring is repeated; name each"); });
  for (char const* const second : {"ring", "two_shot"})
    with("TUTTI_ALGORITHM", ("all_reduce=ring,broadcast=ring,all_reduce=" + std::string(second)).c_str(),
         [&] { says("all_reduce is repeated; name each"); });
  with("TUTTI_ALGORITHM", "ring,broadcast=binomial_tree", [] {
    settings const s = settings::from_environment();
    CHECK(s.algorithms[collective::all_reduce] == algorithm_id::ring);
    CHECK(s.algorithms[collective::broadcast] == algorithm_id::binomial_tree);
    CHECK(s.algorithms[collective::barrier] == algorithm_id::automatic);
  });
}

TEST_CASE("explain says what TUTTI_ALGORITHM changes") {
  ::setenv("TUTTI_ALGORITHM", "ring", 1);
  run_threads(3, [](auto& comm) {
    auto const taken = explain<float>(comm, collective::all_reduce, 1 << 20);
    auto const unfit = explain<float>(comm, collective::barrier, 1);
    if (taken.algorithm != algorithm_id::ring || taken.text.find("TUTTI_ALGORITHM") == std::string::npos)
      throw std::runtime_error(taken.text);
    if (unfit.algorithm == algorithm_id::ring) throw std::runtime_error(unfit.text);
  });
  ::unsetenv("TUTTI_ALGORITHM");
}

TEST_CASE(
    "a broadcast between 2 ranks travels in packets up to 1 KiB, then in one piece; others in packets up to 2 KiB, "
    "except on a mesh") {
  auto const check = [](auto& comm, collective what, std::size_t bytes, protocol how) {
    auto const found = explain<char>(comm, what, bytes, {.algorithm = algorithm_id::one_shot});
    if (found.protocol != how) throw std::runtime_error(found.text);
  };
  for (bool const mesh : {false, true}) {
    testing::mesh_as const processor(mesh);
    protocol const others = mesh ? protocol::staged : protocol::packet;
    run_threads(2, [&](auto& comm) {
      check(comm, collective::broadcast, 1024, protocol::packet);
      check(comm, collective::broadcast, 1500, protocol::staged);
      check(comm, collective::broadcast, 2016, protocol::staged);
      check(comm, collective::reduce, 1024, protocol::packet);
      check(comm, collective::reduce, 2016, others);
      check(comm, collective::scatter, 500, protocol::packet);
      check(comm, collective::scatter, 600, others);
    });
    run_threads(3, [&](auto& comm) {
      check(comm, collective::broadcast, 2016, protocol::packet);
      check(comm, collective::reduce, 2016, protocol::packet);
    });
  }
}

TEST_CASE("one rank alone: every call is a copy at most") {
  run_local(1, [](auto& comm) {
    std::vector<int> a{3, 4}, b(2);
    all_reduce(comm, a, b, mean{});
    exclusive_scan(comm, a);
    barrier(comm);
    broadcast(comm, a, 0);
    all_to_all(comm, a);
    if (a != b) throw std::runtime_error("a copy went wrong");
  });
}

TEST_CASE("one rank alone: a negative timeout is refused as among several") {
  run_threads(1, [](auto& comm) {
    options const negative{.timeout = std::chrono::seconds(-1)};
    std::vector<int> v(8, 3);
    auto const gaps = strided(v.data(), 4, 2);
    auto const expect_refused = [&](auto const& call) {
      testing::expect_error(testing::error_of(call), error_code::bad_argument, "options::timeout is negative");
    };
    expect_refused([&] { all_reduce(comm, v, negative); });
    expect_refused([&] { barrier(comm, negative); });
    expect_refused([&] { broadcast(comm, v, 0, negative); });
    expect_refused([&] { all_reduce(comm, gaps, sum{}, negative); });
    expect_refused([&] { all_reduce(async(comm), v, sum{}, negative).wait(); });
    expect_refused([&] {
      persistent prepared_before = all_reduce(prepared(comm), v, sum{}, negative);
      prepared_before.start();
      prepared_before.wait();
    });
    expect_refused([&] { send(comm, v, 0, 0, negative); });
    if (v != std::vector<int>(8, 3)) throw std::runtime_error("a refused call has changed its array");
  });
}
