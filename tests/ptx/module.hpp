// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A module of PTX as the machine executes it: functions, their registers and memory, and decoded instructions.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <iosfwd>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace tutti::testing::ptx {

class thread;
struct instruction;

enum class type : std::uint8_t { none, pred, b8, b16, b32, b64, u8, u16, u32, u64, s8, s16, s32, s64, f16, f32, f64 };
inline std::size_t bytes_of(type t) {
  switch (t) {
    case type::none: return 0;
    case type::pred:
    case type::b8:
    case type::u8:
    case type::s8: return 1;
    case type::b16:
    case type::u16:
    case type::s16:
    case type::f16: return 2;
    case type::b32:
    case type::u32:
    case type::s32:
    case type::f32: return 4;
    case type::b64:
    case type::u64:
    case type::s64:
    case type::f64: return 8;
  }
  return 0;
}
type type_named(std::string_view word);  // `none` if it is not a type

enum class space : std::uint8_t { generic, global, shared, local, param };
// How an access is ordered; volatile ones are relaxed.
enum class order : std::uint8_t { weak, relaxed, acquire, release, acquire_release };
// Who takes part in the order of an access.
enum class scope : std::uint8_t { block, device, system };
enum class special : std::uint8_t { tid, ntid, ctaid, nctaid, lane, nanoseconds, zero };

// Addresses are those of the host, but each of these spaces has a window.
inline constexpr std::uint64_t window_bits = 56;
inline constexpr std::uint64_t shared_window = std::uint64_t{0xa1} << window_bits;
inline constexpr std::uint64_t local_window = std::uint64_t{0xa2} << window_bits;
inline constexpr std::uint64_t param_window = std::uint64_t{0xa3} << window_bits;
inline constexpr std::uint64_t call_window = std::uint64_t{0xa4} << window_bits;  // parameters that are passed on
inline constexpr std::uint64_t offset_mask = (std::uint64_t{1} << window_bits) - 1;

// In addresses of local memory and parameters, which function on the stack they belong to.
inline constexpr std::uint64_t depth_bits = 40;

struct operand {
  // An address in a frame is an immediate to which the depth of the stack is added.
  enum kinds : std::uint8_t { none, in_register, immediate, in_frame, special_register } kind = none;
  int index = -1;           // of a register or a special one; of the base of an address, or -1
  std::uint64_t value = 0;  // of an immediate; of an address, what is added to the base
};

using handler = void (*)(thread&, instruction const&);

// What a thread needs to execute one comes first, in two lines of a cache.
struct alignas(64) instruction {
  handler run = nullptr;
  int guard = -1;   // the register of a predicate, or none
  int target = -1;  // of a call: a function; of a branch: an instruction
  type of = type::none, from = type::none;
  ptx::space space = ptx::space::generic;
  ptx::order order = ptx::order::weak;
  ptx::scope scope = ptx::scope::device;
  std::uint8_t lanes = 1;  // of a vector
  bool unless = false;     // executes where the predicate is false
  bool down = false;       // a shuffle gives each lane the value of a later one
  bool calls = false;
  mutable bool executed = false;  // by any thread
  std::array<operand, 4> in{};    // an address is the first
  std::array<operand, 4> to{};
  int line = 0;                               // of the PTX
  int source = -1;                            // the line of the PTX that tells its place in the source, if there is one
  std::vector<std::size_t> passed, returned;  // of a call: offsets in the window of calls
};

struct parameter {
  std::string name;
  std::size_t offset, bytes;
};

struct function {
  std::string name;
  std::vector<parameter> parameters, results;
  std::size_t parameter_bytes = 0;  // with the results behind them
  std::size_t call_bytes = 0;
  std::size_t local_bytes = 0, shared_bytes = 0;
  int registers = 0;
  bool is_kernel = false;
  std::vector<instruction> body;
};

struct module {
  std::vector<std::string> lines;
  std::vector<function> functions;
  std::map<int, std::string> files;  // of the source, by number
  std::size_t shared_bytes = 0;      // that every kernel has
  std::deque<std::vector<std::uint64_t>> globals;

  int find(std::string_view name) const;  // -1: there is none
};

// Throws std::runtime_error, naming the line.
std::shared_ptr<module const> parse(std::string_view text);

// Writes a line of JSON for each kernel that was launched and each function that these call: the instructions that no thread has
// executed, and where they are in the source; and a line with the name of each other kernel. coverage.py joins such lines.
void write_coverage(module const& of, std::ostream& out);

// Chooses the handler of an instruction by its mnemonic, split at its dots, and decodes the rest of it. A mnemonic that the
// machine does not have becomes an instruction that stops the thread.
void decode(std::span<std::string_view const> mnemonic, instruction& out);
// Once its operands are known, a quicker handler may do the same.
void choose_quicker(instruction& decoded);

}  // namespace tutti::testing::ptx
