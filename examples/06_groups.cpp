// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Ranks as a 2D mesh: a vector is divided along one axis, and its copies are averaged along the other. Each rank communicates
// only with the ranks that hold the data it needs.
// ranks: 4
// labels: processes
#include <cmath>
#include <cstdio>
#include <exception>
#include <stdexcept>
#include <vector>

#include <tutti/tutti.hpp>

namespace {

void expect(bool truth, char const* what) {
  if (!truth) throw std::runtime_error(what);
}

void program(tutti::communicator<tutti::shm>& comm) {
  // Rank 4 is at data 1, tensor 1: the first axis varies slowest.
  tutti::mesh mesh(comm, {{"data", 2}, {"tensor", -1}});
  int const copy = mesh.coordinate("data"), part = mesh.coordinate("tensor"), parts = mesh.extent("tensor");

  // Each copy of the weights is spread over the ranks of a row, and has seen other data.
  std::vector<float> weights(1000, static_cast<float>(part + copy));
  tutti::all_reduce(mesh.along("data"), weights, tutti::mean{});
  expect(weights[0] == static_cast<float>(part) + 0.5f, "an average of copies is wrong");

  std::vector<double> norm{0};
  for (float const w : weights) norm[0] += static_cast<double>(w) * static_cast<double>(w);
  tutti::all_reduce(mesh.along("tensor"), norm);
  double expected = 0;
  for (int p = 0; p < parts; ++p) expected += 1000 * (p + 0.5) * (p + 0.5);
  expect(std::abs(norm[0] - expected) < 1e-6, "a sum over the parts is wrong");

  // A group by color: the first rank of each row, which would write its copy to a file.
  if (auto writers = comm.split(part == 0 ? 0 : tutti::no_color))
    std::printf("rank %d writes copy %d of %d\n", comm.rank(), writers->rank(), writers->size());

  // A group by its members, who alone call this.
  if (comm.rank() == 0 || comm.rank() == comm.size() - 1) {
    auto corners = comm.subgroup({comm.size() - 1, 0});
    std::vector<int> first{comm.rank()};
    tutti::broadcast(corners, first, 0);
    expect(first[0] == comm.size() - 1, "a group has another order than its list");
  }
}

}  // namespace

int main() try { tutti::run(6, program); } catch (std::exception const& e) {
  std::fprintf(stderr, "%s\n", e.what());
  return 1;
}
