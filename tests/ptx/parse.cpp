// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <algorithm>
#include <bit>
#include <charconv>
#include <cstring>
#include <stdexcept>
#include <utility>

#include "ptx/module.hpp"

namespace tutti::testing::ptx {

namespace {

struct token {
  std::string_view text;
  int line;
};

bool is_word(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '$' ||
         c == '%' || c == '.';
}

std::vector<token> tokens_of(std::string_view text) {
  std::vector<token> out;
  int line = 0;
  for (std::size_t i = 0; i < text.size();) {
    char const c = text[i];
    std::size_t end = i + 1;
    if (c == '\n') {
      ++line;
    } else if (text.substr(i, 2) == "//") {
      end = std::min(text.find('\n', i), text.size());
    } else if (text.substr(i, 2) == "/*") {
      end = std::min(text.find("*/", i), text.size() - 2) + 2;
      line += static_cast<int>(std::count(text.begin() + static_cast<std::ptrdiff_t>(i),
                                          text.begin() + static_cast<std::ptrdiff_t>(end), '\n'));
    } else if (c == '"') {
      end = std::min(text.find('"', i + 1), text.size() - 1) + 1;
      out.push_back({text.substr(i, end - i), line});
    } else if (is_word(c)) {
      while (end < text.size() && (is_word(text[end]) || text.substr(end, 2) == "::"))
        end += is_word(text[end]) ? 1 : 2;  // as in .acc::f32
      out.push_back({text.substr(i, end - i), line});
    } else if (c != ' ' && c != '\t' && c != '\r' && c != '\0') {
      out.push_back({text.substr(i, 1), line});
    }
    i = end;
  }
  return out;
}

std::vector<std::string_view> split(std::string_view word, char at) {
  std::vector<std::string_view> out;
  while (true) {
    std::size_t const end = word.find(at);
    out.push_back(word.substr(0, end));
    if (end == word.npos) return out;
    word.remove_prefix(end + 1);
  }
}

// The names of a scope: registers, and memory with its address.
struct names {
  std::map<std::string, int, std::less<>> registers;
  std::map<std::string, std::uint64_t, std::less<>> memory;
};

class parser {
 public:
  explicit parser(std::string_view text) : tokens_(tokens_of(text)), out_(std::make_shared<module>()) {
    for (auto const& line : split(text, '\n')) out_->lines.emplace_back(line);
  }

  std::shared_ptr<module const> run() {
    while (!ended()) read_declaration();
    for (auto const& [function_index, at, name] : calls_) {
      int const callee = out_->find(name);
      if (callee < 0 || out_->functions[static_cast<std::size_t>(callee)].body.empty())
        throw std::runtime_error("PTX: there is no function " + name);
      out_->functions[function_index].body[at].target = callee;
    }
    return out_;
  }

 private:
  bool ended() const { return at_ == tokens_.size(); }
  std::string_view peek() const { return ended() ? std::string_view{} : tokens_[at_].text; }
  std::string_view next() {
    if (ended()) fail("the text ends too soon");
    return tokens_[at_++].text;
  }
  bool accept(std::string_view what) {
    if (peek() != what) return false;
    ++at_;
    return true;
  }
  void expect(std::string_view what) {
    if (!accept(what)) fail("expected " + std::string(what) + ", not " + std::string(peek()));
  }
  [[noreturn]] void fail(std::string const& why) const {
    int const line = tokens_.empty() ? 0 : tokens_[at_ > 0 ? at_ - 1 : 0].line;
    throw std::runtime_error("PTX, line " + std::to_string(line + 1) + ": " + why + ":\n" +
                             out_->lines[static_cast<std::size_t>(line)]);
  }
  void skip_line() {
    int const line = tokens_[at_].line;
    while (!ended() && tokens_[at_].line == line) ++at_;
  }
  std::uint64_t number() {
    bool const negative = accept("-");
    std::string_view word = next();
    std::uint64_t out = 0;
    if (word.starts_with("0f") || word.starts_with("0F") || word.starts_with("0d") || word.starts_with("0D")) {
      std::from_chars(word.data() + 2, word.data() + word.size(), out, 16);
    } else {
      bool const hex = word.starts_with("0x") || word.starts_with("0X");
      if (hex) word.remove_prefix(2);
      if (word.ends_with("U")) word.remove_suffix(1);
      auto const [end, code] = std::from_chars(word.data(), word.data() + word.size(), out, hex ? 16 : 10);
      if (code != std::errc{} || end != word.data() + word.size()) fail(std::string(word) + " is not a number");
    }
    return negative ? ~out + 1 : out;
  }

  // -- Declarations of a module.

  void read_declaration() {
    std::string_view const word = peek();
    if (word == ".version" || word == ".target" || word == ".address_size") return skip_line();
    if (accept(".file")) {
      int const file = static_cast<int>(number());
      std::string_view const name = peek();
      out_->files[file] = std::string(name.substr(1, name.size() - 2));
      return skip_line();
    }
    if (accept(".section")) {  // for debuggers
      while (!accept("}")) next();
      return;
    }
    while (peek() == ".visible" || peek() == ".weak" || peek() == ".extern") next();
    if (peek() == ".entry" || peek() == ".func") return read_function();
    if (accept(".shared")) {
      variable const v = read_variable();
      expect(";");
      module_names_.memory[v.name] = shared_window | place(out_->shared_bytes, v);
      return;
    }
    if (accept(".global") || accept(".const")) return read_global();
    fail("the machine does not know the declaration " + std::string(peek()));
  }

  // .align 8 .b8 name[12], after the name of its space.
  struct variable {
    std::string name;
    std::size_t align, element, bytes;
  };
  variable read_variable() {
    std::size_t align = 0;
    if (accept(".align")) align = number();
    std::string_view word = next();
    type const of = type_named(word.substr(1));
    if (of == type::none) fail(std::string(word) + " is not a type");
    variable out{std::string(next()), std::max(align, bytes_of(of)), bytes_of(of), bytes_of(of)};
    if (accept("[")) out.bytes *= number(), expect("]");
    return out;
  }
  static std::size_t place(std::size_t& end, variable const& v) {
    std::size_t const at = (end + v.align - 1) / v.align * v.align;
    end = at + v.bytes;
    return at;
  }
  // Memory that all GPUs share here, because kernels only read it.
  void read_global() {
    variable const v = read_variable();
    std::vector<std::uint64_t>& words = out_->globals.emplace_back((v.bytes + 7) / 8);
    auto* to = reinterpret_cast<std::byte*>(words.data());
    module_names_.memory[v.name] = reinterpret_cast<std::uint64_t>(to);
    if (accept("=")) {
      bool const list = accept("{");
      do {
        std::uint64_t const value = number();
        std::memcpy(to, &value, v.element);
        to += v.element;
      } while (accept(","));
      if (list) expect("}");
    }
    expect(";");
  }
  void read_parameters(function& f, std::vector<parameter>& list) {
    if (!accept("(")) return;
    while (!accept(")")) {
      expect(".param");
      variable const v = read_variable();
      list.push_back({v.name, place(f.parameter_bytes, v), v.bytes});
      accept(",");
    }
  }

  void read_function() {
    function f;
    f.is_kernel = next() == ".entry";
    source_ = -1;
    f.shared_bytes = out_->shared_bytes;
    read_parameters(f, f.results);
    f.name = std::string(next());
    read_parameters(f, f.parameters);
    while (peek() != "{") {  // .maxntid 256, 1, 1 and the like
      if (accept(";")) return;
      next();
    }
    scopes_ = {module_names_, {}};
    for (auto const* list : {&f.parameters, &f.results})
      for (parameter const& p : *list) scopes_[1].memory[p.name] = param_window | p.offset;
    labels_.clear();
    branches_.clear();
    function_ = &f;
    read_body();
    for (auto const& [at, name] : branches_) {
      auto const found = labels_.find(name);
      if (found == labels_.end()) fail("there is no label " + name);
      f.body[at].target = found->second;
    }
    out_->functions.push_back(std::move(f));
  }

  // -- Statements.

  void read_body() {
    expect("{");
    for (int depth = 1; depth > 0;) {
      if (accept("{")) {
        scopes_.emplace_back();
        ++depth;
      } else if (accept("}")) {
        scopes_.pop_back();
        --depth;
      } else {
        read_statement();
      }
    }
  }

  void read_statement() {
    std::string_view const word = peek();
    if (word == ".loc") {
      source_ = tokens_[at_].line;
      return skip_line();
    }
    if (word == ".pragma") {
      while (!accept(";")) next();
    } else if (word == ".reg") {
      read_registers();
    } else if (word == ".local" || word == ".shared" || word == ".param") {
      next();
      variable const v = read_variable();
      expect(";");
      auto& memory = scopes_.back().memory;
      if (word == ".local") memory[v.name] = local_window | place(function_->local_bytes, v);
      else if (word == ".shared") memory[v.name] = shared_window | place(function_->shared_bytes, v);
      else memory[v.name] = call_window | place(function_->call_bytes, v);
    } else if (word == ".global" || word == ".const") {
      next();
      read_global();
      scopes_[0] = module_names_;
    } else if (at_ + 1 < tokens_.size() && tokens_[at_ + 1].text == ":") {
      labels_[std::string(next())] = static_cast<int>(function_->body.size());
      next();
    } else {
      read_instruction();
    }
  }

  void read_registers() {
    next();
    next();  // the type
    do {
      std::string const name(next());
      if (accept("<")) {
        std::uint64_t const count = number();
        expect(">");
        for (std::uint64_t k = 0; k < count; ++k)
          scopes_.back().registers[name + std::to_string(k)] = function_->registers++;
      } else {
        scopes_.back().registers[name] = function_->registers++;
      }
    } while (accept(","));
    expect(";");
  }

  int register_named(std::string_view name) const {
    for (auto scope = scopes_.rbegin(); scope != scopes_.rend(); ++scope)
      if (auto const found = scope->registers.find(name); found != scope->registers.end()) return found->second;
    return -1;
  }
  bool memory_named(std::string_view name, std::uint64_t& address) const {
    for (auto scope = scopes_.rbegin(); scope != scopes_.rend(); ++scope)
      if (auto const found = scope->memory.find(name); found != scope->memory.end()) {
        address = found->second;
        return true;
      }
    return false;
  }

  operand read_operand() {
    std::string_view const word = peek();
    if (int const r = register_named(word); r >= 0) {
      next();
      return {operand::in_register, r, 0};
    }
    if (std::uint64_t address = 0; memory_named(word, address)) {
      next();
      std::uint64_t const window = address & ~offset_mask;
      return {window == local_window || window == param_window ? operand::in_frame : operand::immediate, -1, address};
    }
    static constexpr std::pair<std::string_view, special> specials[] = {
        {"%tid.x", special::tid},       {"%ntid.x", special::ntid}, {"%ctaid.x", special::ctaid},
        {"%nctaid.x", special::nctaid}, {"%laneid", special::lane}, {"%globaltimer", special::nanoseconds},
        {"%tid.y", special::zero},      {"%tid.z", special::zero},  {"%ctaid.y", special::zero},
        {"%ctaid.z", special::zero}};
    for (auto const& [name, which] : specials)
      if (name == word) {
        next();
        return {operand::special_register, static_cast<int>(which), 0};
      }
    return {operand::immediate, -1, number()};
  }
  operand read_address() {
    operand out = read_operand();
    if (accept("+")) out.value += number();
    expect("]");
    return out;
  }
  // One operand, or the elements of a vector.
  void read_operands(std::array<operand, 4>& into, std::size_t first) {
    if (!accept("{")) {
      into[first] = read_operand();
      return;
    }
    for (std::size_t k = 0; !accept("}"); ++k) {
      if (k == into.size()) fail("a vector has more than four elements");
      into[k] = read_operand();
      accept(",");
    }
  }

  void read_instruction() {
    instruction i;
    i.line = tokens_[at_].line;
    i.source = source_;
    if (accept("@")) {
      i.unless = accept("!");
      i.guard = register_named(next());
      if (i.guard < 0) fail("the guard is not a register");
    }
    std::vector<std::string_view> const mnemonic = split(next(), '.');
    decode(mnemonic, i);
    if (mnemonic[0] == "bra") {
      branches_.emplace_back(function_->body.size(), std::string(next()));
    } else if (mnemonic[0] == "prefetch") {
      expect("[");
      i.in[0] = read_address();
    } else if (mnemonic[0] == "call") {
      read_call(i);
    } else if (mnemonic[0] == "st" || mnemonic[0] == "red" || (mnemonic[0] == "multimem" && mnemonic[1] == "st")) {
      expect("[");
      i.to[0] = read_address();  // the address
      expect(",");
      read_operands(i.in, 0);
    } else if (!accept(";")) {
      read_operands(i.to, 0);
      if (mnemonic[0] == "shfl" && accept("|")) i.to[1] = read_operand();
      for (std::size_t k = 0; accept(","); ++k) {
        if (k == i.in.size()) fail("too many operands");
        if (accept("[")) i.in[k] = read_address();
        else read_operands(i.in, k);
      }
      if (accept("|")) fail("two predicates are not known to the machine");
      expect(";");
      return add(std::move(i));
    } else {
      return add(std::move(i));
    }
    expect(";");
    add(std::move(i));
  }

  void add(instruction&& i) {
    choose_quicker(i);
    function_->body.push_back(std::move(i));
  }

  void read_call(instruction& i) {
    auto const list = [&](std::vector<std::size_t>& into) {
      expect("(");
      while (!accept(")")) {
        std::uint64_t address = 0;
        if (!memory_named(next(), address)) fail("an argument of a call is not a parameter");
        into.push_back(address & offset_mask);
        accept(",");
      }
    };
    i.calls = true;
    if (peek() == "(") list(i.returned), expect(",");
    calls_.push_back({out_->functions.size(), function_->body.size(), std::string(next())});
    if (accept(",")) list(i.passed);
  }

  std::vector<token> tokens_;
  std::size_t at_ = 0;
  std::shared_ptr<module> out_;
  function* function_ = nullptr;
  int source_ = -1;
  names module_names_;
  std::vector<names> scopes_;  // of the module, the function, and the blocks in it
  std::map<std::string, int, std::less<>> labels_;
  std::vector<std::pair<std::size_t, std::string>> branches_;
  struct call_site {
    std::size_t function, at;
    std::string name;
  };
  std::vector<call_site> calls_;
};

}  // namespace

type type_named(std::string_view word) {
  static constexpr std::pair<std::string_view, type> names[] = {
      {"pred", type::pred}, {"b8", type::b8},   {"b16", type::b16}, {"b32", type::b32},
      {"b64", type::b64},   {"u8", type::u8},   {"u16", type::u16}, {"u32", type::u32},
      {"u64", type::u64},   {"s8", type::s8},   {"s16", type::s16}, {"s32", type::s32},
      {"s64", type::s64},   {"f16", type::f16}, {"f32", type::f32}, {"f64", type::f64}};
  for (auto const& [name, t] : names)
    if (name == word) return t;
  return type::none;
}

int module::find(std::string_view name) const {
  for (std::size_t k = 0; k < functions.size(); ++k)
    if (functions[k].name == name) return static_cast<int>(k);
  return -1;
}

std::shared_ptr<module const> parse(std::string_view text) { return parser(text).run(); }

}  // namespace tutti::testing::ptx
