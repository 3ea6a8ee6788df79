// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// All ranks choose by the table of rank 0, whatever their own environment names, over shm and over loopback.
// labels: processes
#include "tutti/launch/agree.hpp"

#include <doctest/doctest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <stdexcept>
#include <string>

#include "launch/command.hpp"
#include "support/expect.hpp"
#include "support/temporary_folder.hpp"
#include "tutti/tune/shipped.hpp"
#include "tutti/tutti.hpp"

using namespace tutti;
using namespace tutti::detail;
using namespace tutti::testing;

namespace {

// A file with a table of one rule, which is deleted with this object.
class table_file {
 public:
  explicit table_file(std::string const& algorithm, int further_rules = 0)
      : path_((folder_.path() / "table").string()) {
    std::ofstream file(path_);
    file << tuning_version << "\nmachine nowhere\nrule all_reduce 2-64 any any any " << algorithm << " automatic 0 0\n";
    for (int i = 0; i < further_rules; ++i) file << "rule barrier 2 any any any dissemination automatic 0 0\n";
  }
  char const* path() const { return path_.c_str(); }

 private:
  testing::temporary_folder folder_;
  std::string path_;
};

// Every rank must choose this algorithm, and a call that needs all of them to do so must work.
template <class Communicator>
void expect_choice(Communicator& comm, algorithm_id wanted) {
  auto const said = explain<float>(comm, collective::all_reduce, 1000);
  expect(said.algorithm == wanted, said.text);
  std::vector<float> ones(1000, 1.0f);
  all_reduce(comm, ones);
  expect(ones[999] == static_cast<float>(comm.size()), "a sum is wrong");
}

}  // namespace

TEST_CASE("ranks that name different files get that of rank 0") {
  table_file const main("ring"), other("recursive_doubling");
  // The ranks of run_local inherit one environment, so they change it and then meet again over another segment.
  int const ranks = 3;
  descriptor const segment = shm::create(ranks, all_tracks);
  run_local(ranks, [&](auto& outer) {
    ::setenv("TUTTI_TUNING", outer.rank() == 0 ? main.path() : outer.rank() == 1 ? other.path() : "/no/such/file", 1);
    countdown const until(std::chrono::seconds(60));
    communicator<shm> comm(std::make_unique<shm>(segment, outer.rank(), ranks, all_tracks, until));
    detail::agree_on_tuning(comm.engine());
    expect_choice(comm, algorithm_id::ring);
    barrier(outer);
  });
}

TEST_CASE("a table of several slots, threads, groups, and no table at all") {
  table_file const file("binomial_tree", 1000);
  ::setenv("TUTTI_TUNING", file.path(), 1);
  run_local(4, [](auto& comm) { expect_choice(comm, algorithm_id::binomial_tree); });
  run_threads(4, [](auto& comm) { expect_choice(comm, algorithm_id::binomial_tree); });
  run_local(4, [](auto& comm) {
    auto group = comm.split(comm.rank() == 3 ? no_color : 0);
    if (group) expect_choice(*group, algorithm_id::binomial_tree);
  });
  ::setenv("TUTTI_ALGORITHM", "two_shot", 1);
  run_local(3, [](auto& comm) { expect_choice(comm, algorithm_id::two_shot); });
  ::unsetenv("TUTTI_ALGORITHM");
  ::setenv("TUTTI_TUNING", "", 1);
  tuning_table const& built_in = shipped_tables.at(detail::find_shipped_table()).table;
  run_local(2, [&](auto& comm) {
    expect(comm.engine().tuned.table().rules.data() == built_in.rules.data(), "it is not the built-in table");
  });
  ::unsetenv("TUTTI_TUNING");
}

TEST_CASE("explain says which file, and that it is another machine's") {
  table_file const file("ring");
  ::setenv("TUTTI_TUNING", file.path(), 1);
  run_local(2, [&](auto& comm) {
    std::string const text = explain<float>(comm, collective::all_reduce, 1000).text;
    expect(text.find(file.path()) != std::string::npos, text);
    expect(text.find("from nowhere") != std::string::npos, text);
    expect(text.find("; this machine: ") != std::string::npos, text);
  });
  ::unsetenv("TUTTI_TUNING");
}

TEST_CASE("the usual file is found, and a table that the program has compiled in comes before it") {
  ::unsetenv("TUTTI_TUNING");
  testing::temporary_folder const configuration;
  table_file const file("ring");
  std::filesystem::create_directory(configuration.path() / "tutti");
  std::filesystem::copy_file(file.path(), configuration.path() / "tutti" / "tuning");
  ::setenv("XDG_CONFIG_HOME", configuration.path().c_str(), 1);
  run_local(2, [](auto& comm) { expect_choice(comm, algorithm_id::ring); });

  static constexpr rule rules[] = {{.what = collective::all_reduce, .algorithm = algorithm_id::two_shot}};
  [[maybe_unused]] static constexpr tuning_table compiled{"here", "today", "by hand", {}, {}, rules};
  descriptor const segment = shm::create(2, all_tracks);
  run_local(2, [&](auto& outer) {
    countdown const until(std::chrono::seconds(60));
    communicator<shm> comm(std::make_unique<shm>(segment, outer.rank(), 2, all_tracks, until));
    detail::agree_on_tuning(comm.engine(), compiled);
    expect_choice(comm, algorithm_id::two_shot);
    expect(comm.engine().tuned.source() == "the program's table", comm.engine().tuned.source());
    barrier(outer);
  });
  ::unsetenv("XDG_CONFIG_HOME");
}

TEST_CASE("what rank 0 cannot read, nobody runs without") {
  ::setenv("TUTTI_TUNING", "/no/such/file", 1);
  std::string const absent = start_failure(3);
  INFO(absent);
  CHECK(
      absent.find("ended with exit code 1, tutti: the tuning table /no/such/file cannot be read: No such file or "
                  "directory; write it with `tutti-tune`, or set TUTTI_TUNING to another file, or to an empty value") !=
      std::string::npos);
  CHECK(lines_with(absent, "ended with exit code 1, the same error") == 2);
  ::setenv("TUTTI_TUNING", "/dev/zero", 1);
  CHECK(start_failure(2).find("the tuning table /dev/zero cannot be read: File too large") != std::string::npos);
  table_file const file("rong");
  ::setenv("TUTTI_TUNING", file.path(), 1);
  CHECK(start_failure(2).find(std::string(file.path()) + ", line 3: \"rong\" is not an algorithm") !=
        std::string::npos);
  ::unsetenv("TUTTI_TUNING");
}

TEST_CASE("a rank that was built with another version of tutti than rank 0 says so") {
  std::string news = table_message::make({}, false);
  tuning used;
  CHECK_NOTHROW(table_message::read(news, 2, used));
  news[3] = news[3] == '1' ? '2' : '1';
  expect_error(error_of([&] { table_message::read(news, 2, used); }), error_code::mismatch,
               "rank 0 was built with another version of tutti than rank 2");
}
