// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Descriptors sent from process to process.
// labels: processes
#include <doctest/doctest.h>

#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstddef>
#include <vector>

#include "tutti/core/error.hpp"
#include "tutti/transport/system/descriptor_mail.hpp"

using namespace tutti;
using namespace tutti::detail;

namespace {

constexpr int mailers = 4;

descriptor file_with(char content) {
  descriptor out(::memfd_create("mail", MFD_CLOEXEC));
  REQUIRE(::pwrite(out.get(), &content, 1, 0) == 1);
  return out;
}
char content_of(descriptor const& file) {
  char out = 0;
  return ::pread(file.get(), &out, 1, 0) == 1 ? out : '?';
}
deadline soon(std::chrono::milliseconds time) { return deadline::after(time); }

}  // namespace

TEST_CASE("each of several processes gets the descriptor of every other, in order") {
  std::vector<descriptor_mail> mail(mailers);
  std::vector<pid_t> children;
  for (int self = 0; self < mailers; ++self) {
    pid_t const child = ::fork();
    if (child == 0) {
      std::vector<descriptor_mail::address> others;
      for (int q = 0; q < mailers; ++q)
        if (q != self) others.push_back(mail[static_cast<std::size_t>(q)].here());
      auto const got = mail[static_cast<std::size_t>(self)].exchange(file_with(static_cast<char>('a' + self)), others,
                                                                     others, soon(std::chrono::seconds(60)));
      bool good = got.size() == others.size();
      for (int q = 0, at = 0; q < mailers; ++q)
        if (q != self) good &= content_of(got[static_cast<std::size_t>(at++)]) == 'a' + q;
      ::_exit(good ? 0 : 1);
    }
    children.push_back(child);
  }
  for (pid_t const child : children) {
    int status = -1;
    ::waitpid(child, &status, 0);
    CHECK(status == 0);
  }
}

TEST_CASE("mail of strangers is ignored, and a sender who does not come ends in a timeout") {
  descriptor_mail const mine, friendly, stranger;
  auto const to_me = [&](descriptor_mail const& from, char content) {
    static_cast<void>(from.exchange(file_with(content), std::vector{mine.here()}, {}, soon(std::chrono::seconds(60))));
  };
  auto const receive = [&](std::chrono::milliseconds time) {
    return mine.exchange({}, {}, std::vector{friendly.here()}, soon(time));
  };
  to_me(stranger, 's');
  to_me(friendly, 'f');
  CHECK(content_of(receive(std::chrono::seconds(60))[0]) == 'f');
  to_me(stranger, 's');
  CHECK_THROWS_WITH_AS(receive(std::chrono::milliseconds(20)), doctest::Contains("did not arrive in time"), error);
}
