// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Sorts handwritten digits into ten clusters by k-means (Lloyd, 1982), without using their labels. Every rank holds some of the
// images and all of the centres. In each round, an all_reduce adds up the sums and counts from which the new centres follow.
// ranks: 4
// labels: computes
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdio>
#include <exception>
#include <memory>
#include <span>
#include <stdexcept>
#include <utility>
#include <vector>

#include <Eigen/Core>

#include "digits/digits.hpp"
#include "on_ranks.hpp"

namespace {

using Eigen::Index;
using Eigen::MatrixXd;

constexpr Index clusters = 10;

struct clustering {
  MatrixXd centres;  // a column each
  double inertia;    // the sum of squared distances from the nearest centre
  double purity;     // how many have the label that is most frequent in their cluster
  int rounds;
};

std::span<double> span_of(MatrixXd& m) { return {m.data(), static_cast<std::size_t>(m.size())}; }

template <class Communicator>
clustering k_means(Communicator& comm, digits const& data) {
  tutti::extent const mine = tutti::part(data.labels.size(), comm.size(), comm.rank());
  auto const first = static_cast<Index>(mine.begin), count = static_cast<Index>(mine.count);
  MatrixXd const images = data.images.middleCols(first, count).cast<double>();

  // Centres begin as images from all over the file. Each is with one rank, so a sum brings it to all.
  MatrixXd centres = MatrixXd::Zero(pixels, clusters);
  for (Index c = 0; c < clusters; ++c)
    if (Index const i = data.images.cols() * c / clusters - first; i >= 0 && i < count) centres.col(c) = images.col(i);
  tutti::all_reduce(comm, span_of(centres));

  std::vector<Index> nearest(mine.count, -1);
  for (int round = 1; round <= 1000; ++round) {
    MatrixXd sums = MatrixXd::Zero(pixels + 1, clusters);  // of the images of each cluster, and their number
    std::array moved_and_inertia{0.0, 0.0};
    for (Index i = 0; i < count; ++i) {
      Index c = 0;
      moved_and_inertia[1] += (centres.colwise() - images.col(i)).colwise().squaredNorm().minCoeff(&c);
      moved_and_inertia[0] += std::exchange(nearest[static_cast<std::size_t>(i)], c) == c ? 0 : 1;
      sums.col(c).head(pixels) += images.col(i);
      sums(pixels, c) += 1;
    }
    tutti::all_reduce(comm, span_of(sums));
    tutti::all_reduce(comm, moved_and_inertia);
    for (Index c = 0; c < clusters; ++c)
      if (sums(pixels, c) > 0) centres.col(c) = sums.col(c).head(pixels) / sums(pixels, c);
    if (moved_and_inertia[0] > 0) continue;

    MatrixXd labels = MatrixXd::Zero(classes, clusters);  // how many of each label in each cluster
    for (std::size_t i = 0; i < mine.count; ++i) labels(data.labels[mine.begin + i], nearest[i]) += 1;
    tutti::all_reduce(comm, span_of(labels));
    return {centres, moved_and_inertia[1], labels.colwise().maxCoeff().sum() / labels.sum(), round};
  }
  throw std::runtime_error("the clusters do not settle");
}

template <class Communicator>
void program(Communicator& comm, digits const& data) {
  clustering const together = k_means(comm, data);
  comm.main_only([&] {
    tutti::communicator<tutti::shm> one(std::make_unique<tutti::shm>());
    clustering const alone = k_means(one, data);
    std::printf(
        "%zu digits on %d ranks: inertia %.9f after %d rounds, purity %.1f%%; one process alone: %.9f after %d\n",
        data.labels.size(), comm.size(), together.inertia, together.rounds, 100 * together.purity, alone.inertia,
        alone.rounds);
    // Pixels are sixteenths, so their sums are exact in any order, and so are the centres.
    if (together.centres != alone.centres || !(std::abs(together.inertia / alone.inertia - 1) < 1e-12))
      throw std::runtime_error("the clusters are not those of one process");
    if (together.purity < 0.7) throw std::runtime_error("the clusters have little to do with the digits");
  });
}

}  // namespace

int main() try {
  digits const data = read_digits(TUTTI_EXAMPLE_DATA "/digits.csv.gz").training;
  on_ranks(4, [&](auto& comm) { program(comm, data); });
} catch (std::exception const& e) {
  std::fprintf(stderr, "%s\n", e.what());
  return 1;
}
