// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The functions of MPI that make communicators, except for duplicates, which inherit an attribute.
#include <mpi.h>

#include "binding.hpp"
#include "callers.hpp"

using namespace interpose;

namespace {

// Calls make() to let all ranks of `parent` derive communicators from it.
template <class Make>
int derive(MPI_Comm parent, MPI_Comm const* made, Make&& make) {
  std::uint64_t const identity = identity_of_next(parent);
  without_inheritance const now;
  int const code = make();
  if (code == MPI_SUCCESS) identify(*made, identity);
  else if (identity != 0) reuse_identity(parent);
  return code;
}

// The same where only the ranks of the new communicator take part.
template <class Make>
int make_and_agree(MPI_Comm const* made, Make&& make) {
  without_inheritance const now;
  int const code = make();
  if (code == MPI_SUCCESS) identify(*made, agreed_identity(*made));
  return code;
}

}  // namespace

extern "C" {

int MPI_Comm_split(MPI_Comm comm, int color, int key, MPI_Comm* made) {
  return derive(comm, made, [&] { return PMPI_Comm_split(comm, color, key, made); });
}
int MPI_Comm_split_type(MPI_Comm comm, int type, int key, MPI_Info info, MPI_Comm* made) {
  return derive(comm, made, [&] { return PMPI_Comm_split_type(comm, type, key, info, made); });
}
int MPI_Comm_create(MPI_Comm comm, MPI_Group group, MPI_Comm* made) {
  return derive(comm, made, [&] { return PMPI_Comm_create(comm, group, made); });
}
int MPI_Cart_create(MPI_Comm comm, int n, int const sizes[], int const periodic[], int reorder, MPI_Comm* made) {
  return derive(comm, made, [&] { return PMPI_Cart_create(comm, n, sizes, periodic, reorder, made); });
}
int MPI_Cart_sub(MPI_Comm comm, int const kept[], MPI_Comm* made) {
  return derive(comm, made, [&] { return PMPI_Cart_sub(comm, kept, made); });
}
int MPI_Graph_create(MPI_Comm comm, int n, int const index[], int const edges[], int reorder, MPI_Comm* made) {
  return derive(comm, made, [&] { return PMPI_Graph_create(comm, n, index, edges, reorder, made); });
}
int MPI_Dist_graph_create(MPI_Comm comm, int n, int const sources[], int const degrees[], int const targets[],
                          int const weights[], MPI_Info info, int reorder, MPI_Comm* made) {
  return derive(comm, made, [&] {
    return PMPI_Dist_graph_create(comm, n, sources, degrees, targets, weights, info, reorder, made);
  });
}
int MPI_Dist_graph_create_adjacent(MPI_Comm comm, int in, int const sources[], int const in_weights[], int out,
                                   int const targets[], int const out_weights[], MPI_Info info, int reorder,
                                   MPI_Comm* made) {
  return derive(comm, made, [&] {
    return PMPI_Dist_graph_create_adjacent(comm, in, sources, in_weights, out, targets, out_weights, info, reorder,
                                           made);
  });
}

int MPI_Comm_create_group(MPI_Comm comm, MPI_Group group, int tag, MPI_Comm* made) {
  return make_and_agree(made, [&] { return PMPI_Comm_create_group(comm, group, tag, made); });
}
int MPI_Intercomm_merge(MPI_Comm comm, int high, MPI_Comm* made) {
  return make_and_agree(made, [&] { return PMPI_Intercomm_merge(comm, high, made); });
}

INTERPOSE_PMPI(Comm_split, (MPI_Comm comm, int color, int key, MPI_Comm* made), comm, color, key, made)
INTERPOSE_PMPI(Comm_split_type, (MPI_Comm comm, int type, int key, MPI_Info info, MPI_Comm* made), comm, type, key,
               info, made)
INTERPOSE_PMPI(Comm_create, (MPI_Comm comm, MPI_Group group, MPI_Comm* made), comm, group, made)
INTERPOSE_PMPI(Cart_create,
               (MPI_Comm comm, int n, int const sizes[], int const periodic[], int reorder, MPI_Comm* made), comm, n,
               sizes, periodic, reorder, made)
INTERPOSE_PMPI(Cart_sub, (MPI_Comm comm, int const kept[], MPI_Comm* made), comm, kept, made)
INTERPOSE_PMPI(Graph_create, (MPI_Comm comm, int n, int const index[], int const edges[], int reorder, MPI_Comm* made),
               comm, n, index, edges, reorder, made)
INTERPOSE_PMPI(Dist_graph_create,
               (MPI_Comm comm, int n, int const sources[], int const degrees[], int const targets[],
                int const weights[], MPI_Info info, int reorder, MPI_Comm* made),
               comm, n, sources, degrees, targets, weights, info, reorder, made)
INTERPOSE_PMPI(Dist_graph_create_adjacent,
               (MPI_Comm comm, int in, int const sources[], int const in_weights[], int out, int const targets[],
                int const out_weights[], MPI_Info info, int reorder, MPI_Comm* made),
               comm, in, sources, in_weights, out, targets, out_weights, info, reorder, made)
INTERPOSE_PMPI(Comm_create_group, (MPI_Comm comm, MPI_Group group, int tag, MPI_Comm* made), comm, group, tag, made)
INTERPOSE_PMPI(Intercomm_merge, (MPI_Comm comm, int high, MPI_Comm* made), comm, high, made)

}  // extern "C"
