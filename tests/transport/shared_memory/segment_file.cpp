// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The file of a segment: its fixed size, and its mappings.
#include <doctest/doctest.h>

#include <cstdlib>
#include <exception>
#include <string>
#include <sys/resource.h>
#include <unistd.h>

#include "support/expect.hpp"
#include "tutti/transport/shared_memory/segment_file.hpp"

using namespace tutti;
using namespace tutti::detail;
using namespace tutti::testing;

namespace {

// Sets this value in the environment.
descriptor create_with_heap(char const* value) {
  ::setenv("TUTTI_HEAP", value, 1);
  struct reset {
    ~reset() { ::unsetenv("TUTTI_HEAP"); }
  } const afterwards;
  return create_segment_file(2, 1, std::size_t{1} << 30);
}

}  // namespace

TEST_CASE("two mappings of a file share memory, with the heap size that its creator chose") {
  descriptor const file = create_with_heap("5000");
  segment_mapping const a(file, 2, 1), b(file, 2, 1);
  CHECK(a.memory().heap_bytes() == 2 * page);
  CHECK(a.memory().base() != b.memory().base());
  a.memory().rank(1).process = 17;
  CHECK(b.memory().rank(1).process == 17);
  CHECK(b.memory().header().identity != 0);
  a.memory().heap(1)[2 * page - 1] = std::byte{3};
  CHECK(b.memory().heap(1)[2 * page - 1] == std::byte{3});
}

TEST_CASE("the front consists of the ranks' pages") {
  descriptor const file = create_with_heap("1073741824");
  auto const front = segment_mapping::front(file, 2, 1);
  segment_mapping const all(file, 2, 1);
  CHECK(front.memory().bytes() < all.memory().bytes() / 1000);
  front.memory().rank(1).process = 17;
  CHECK(all.memory().rank(1).process == 17);
}

TEST_CASE("an invalid heap size is rejected") {
  for (char const* const wrong : {"-5", "100000000000000000000000", "70368744177664", "8e6", " 5"})
    CHECK_THROWS_WITH_AS(create_with_heap(wrong), doctest::Contains("is not a number of bytes from 0 to "),
                         tutti::error);
  CHECK_NOTHROW(create_with_heap(""));
  CHECK_THROWS_WITH_AS(create_with_heap("much"), doctest::Contains("TUTTI_HEAP=\"much\" is not a number of bytes"),
                       error);
}

TEST_CASE("a file for fewer ranks is rejected") {
  descriptor const small = create_with_heap("4096");
  auto const refused = doctest::Contains("was made for fewer ranks than 64");
  CHECK_THROWS_WITH_AS(segment_mapping(small, 64, 1), refused, error);
  CHECK_THROWS_WITH_AS(segment_mapping::front(small, 64, 1), refused, error);
}

TEST_CASE("the size of the memory cannot be changed") {
  descriptor const file = create_segment_file(2, 1, 0);
  CHECK(::ftruncate(file.get(), 0) != 0);
}

TEST_CASE("too few open files are told from a sandbox that allows no shared memory") {
  rlimit before{};
  ::getrlimit(RLIMIT_NOFILE, &before);
  rlimit const none{0, before.rlim_max};
  REQUIRE(::setrlimit(RLIMIT_NOFILE, &none) == 0);
  std::exception_ptr refused;  // looked at later: the sanitizer needs files to check the type of an object
  try {
    create_segment_file(2, 1, 0);
  } catch (...) {
    refused = std::current_exception();
  }
  ::setrlimit(RLIMIT_NOFILE, &before);
  REQUIRE(refused);
  std::string const said = error_of([&] { std::rethrow_exception(refused); }).what();
  CAPTURE(said);
  CHECK(said.find("raise the limit of open files (ulimit -n)") != said.npos);
  CHECK(said.find("sandbox") == said.npos);
}

TEST_CASE("heaps leave room where addresses are limited") {
  rlimit before{};
  ::getrlimit(RLIMIT_AS, &before);
  rlimit const less{rlim_t{1} << 46, before.rlim_max};  // more than a sanitizer maps
  REQUIRE(::setrlimit(RLIMIT_AS, &less) == 0);
  std::size_t const bytes = heap_bytes(1 << 20, half_of_all_addresses);
  ::setrlimit(RLIMIT_AS, &before);
  CHECK(bytes == (std::size_t{1} << 44) >> 20);
  CHECK(heap_bytes(1 << 20, half_of_all_addresses) > bytes);
}
