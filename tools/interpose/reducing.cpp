// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The collectives that combine: compiled once per element size, for an operation that is found at run time.
#include "collectives.hpp"

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <type_traits>
#include <vector>

#include "tutti/collective/all_reduce.hpp"
#include "tutti/collective/reduce.hpp"
#include "tutti/collective/reduce_scatter.hpp"
#include "tutti/collective/scan.hpp"

namespace interpose {

// An element of which only size and alignment are known.
template <std::size_t Bytes, std::size_t Alignment>
struct alignas(Alignment) cell {
  std::byte data[Bytes];
};

namespace {

struct found_operation {
  static constexpr std::string_view name = "an operation of MPI";
  static constexpr bool commutative = true;

  loop run;
  operation_on_type const& what;

  // For tutti: what its type does not say.
  std::uint32_t id() const { return what.id; }
  tutti::detail::call_names const& names() const { return what.names; }

  template <class T>
  void combine(T const* const* sources, int source_count, T* const* destinations, int destination_count, std::size_t n,
               tutti::detail::stage at) const {
    run(reinterpret_cast<void const* const*>(sources), source_count, reinterpret_cast<void* const*>(destinations),
        destination_count, n, at);
  }
  template <class T>
  T operator()(T const& a, T const& b) const {
    T const* const sources[] = {&a, &b};
    T out;
    T* const destination = &out;
    combine(sources, 2, &destination, 1, 1, {});
    return out;
  }
};

template <class T>
std::span<T const> elements(input bytes) {
  return {reinterpret_cast<T const*>(bytes.data()), bytes.size() / sizeof(T)};
}
template <class T>
std::span<T> elements(output bytes) {
  return {reinterpret_cast<T*>(bytes.data()), bytes.size() / sizeof(T)};
}

// Calls f(operation, cell{}) with a cell like the elements of the combination.
template <class F>
auto with_cells(combination const& how, F&& f) {
  found_operation const op{how.run, *how.what};
  switch (how.unit) {
    case 1: return f(op, cell<1, 1>{});
    case 2: return f(op, cell<2, 2>{});
    case 4: return f(op, cell<4, 4>{});
    case 8: return how.alignment == 4 ? f(op, cell<8, 4>{}) : f(op, cell<8, 8>{});
    default: return f(op, cell<16, 8>{});
  }
}

}  // namespace

template <class Comm>
returned<Comm> all_reduce(Comm& comm, combination const& how, input in, output out) {
  return with_cells(how, [&]<class T>(auto const& op, T) {
    return tutti::all_reduce(comm, elements<T>(in), elements<T>(out), op, as_long_as_it_takes(), {});
  });
}
template <class Comm>
returned<Comm> reduce(Comm& comm, combination const& how, input in, output out, int root) {
  return with_cells(how, [&]<class T>(auto const& op, T) {
    return tutti::reduce(comm, elements<T>(in), elements<T>(out), op, root, as_long_as_it_takes(), {});
  });
}
template <class Comm>
returned<Comm> reduce_scatter(Comm& comm, combination const& how, input in, output out) {
  return with_cells(how, [&]<class T>(auto const& op, T) {
    return tutti::reduce_scatter(comm, elements<T>(in), elements<T>(out), op, as_long_as_it_takes(), {});
  });
}
template <class Comm>
returned<Comm> reduce_scatter_v(Comm& comm, combination const& how, input in, output out, sizes counts) {
  std::vector<std::size_t> in_elements(counts.begin(), counts.end());
  for (std::size_t& n : in_elements) n /= how.unit;
  return with_cells(how, [&]<class T>(auto const& op, T) {
    return tutti::reduce_scatter_v(comm, elements<T>(in), elements<T>(out), in_elements, op, as_long_as_it_takes(), {});
  });
}
template <class Comm>
returned<Comm> scan(Comm& comm, combination const& how, input in, output out) {
  return with_cells(how, [&]<class T>(auto const& op, T) {
    return tutti::scan(comm, elements<T>(in), elements<T>(out), op, as_long_as_it_takes(), {});
  });
}
template <class Comm>
returned<Comm> exclusive_scan(Comm& comm, combination const& how, input in, output out) {
  return with_cells(how, [&]<class T>(auto const& op, T) {
    return tutti::exclusive_scan(comm, elements<T>(in), elements<T>(out), op, as_long_as_it_takes(), {});
  });
}

#define INTERPOSE_REDUCING(Comm)                                                             \
  template returned<Comm> all_reduce(Comm&, combination const&, input, output);              \
  template returned<Comm> reduce(Comm&, combination const&, input, output, int);             \
  template returned<Comm> reduce_scatter(Comm&, combination const&, input, output);          \
  template returned<Comm> reduce_scatter_v(Comm&, combination const&, input, output, sizes); \
  template returned<Comm> scan(Comm&, combination const&, input, output);                    \
  template returned<Comm> exclusive_scan(Comm&, combination const&, input, output)
INTERPOSE_REDUCING(communicator);
INTERPOSE_REDUCING(asynchronous);

}  // namespace interpose
