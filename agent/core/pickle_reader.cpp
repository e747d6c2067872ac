// SPDX-License-Identifier: Apache-2.0
// The opcodes are those of CPython's pickletools.py, up to protocol 5. A pickle is a program for a machine
// with a stack and a memo; the ones here only put values on the stack and join them.
#include "agent/core/pickle_reader.hpp"

#include <algorithm>
#include <cstring>
#include <stdexcept>
#include <unordered_map>

namespace muster::agent {

/// Runs the opcodes.
class PickleMachine {
 public:
  PickleMachine(Pickle& pickle, std::string_view bytes, const PickleLimits& limits,
                const std::function<bool()>& go_on)
      : pickle_(pickle), bytes_(bytes), limits_(limits), go_on_(go_on) {}

  void run() {
    if (bytes_.size() > limits_.bytes) fail("it has more bytes than are read");
    for (std::size_t count = 0;; ++count) {
      constexpr std::size_t kAskEach = 4096;
      if (count % kAskEach == 0 && go_on_ && !go_on_()) fail("reading it takes too long");
      const auto opcode = static_cast<unsigned char>(take(1).front());
      if (opcode == '.') break;  // STOP
      if (!(push_constant(opcode) || push_number(opcode) || push_text(opcode) || join(opcode) ||
            remember(opcode)))
        fail("an opcode that is no plain data");
    }
    if (stack_.size() != 1 || !marks_.empty()) fail("it does not end with one value");
    if (at_ != bytes_.size()) fail("something follows its end");
    pickle_.root_ = stack_.front();
  }

 private:
  using Value = Pickle::Value;
  using Kind = Pickle::Kind;

  [[noreturn]] void fail(const char* what) const {
    throw std::invalid_argument(std::string("a pickle: ") + what + " (at byte " + std::to_string(at_) + ")");
  }

  std::string_view take(std::uint64_t count) {
    if (count > bytes_.size() - at_) fail("it is cut");
    const std::string_view taken = bytes_.substr(at_, count);
    at_ += count;
    return taken;
  }

  /// A number of `size` bytes, the lowest first.
  std::uint64_t number(std::size_t size) {
    std::uint64_t value = 0;
    const std::string_view bytes = take(size);
    for (std::size_t i = size; i > 0; --i) value = value << 8U | static_cast<unsigned char>(bytes[i - 1]);
    return value;
  }

  /// Counts what takes memory.
  void count(std::size_t more) {
    used_ += more;
    if (used_ > limits_.values) fail("it has more values than are read");
  }

  Value add(Kind kind) {
    count(1);
    pickle_.nodes_.push_back({});
    pickle_.nodes_.back().kind = kind;
    if (kind == Kind::list || kind == Kind::dict) {
      pickle_.nodes_.back().list = static_cast<std::uint32_t>(pickle_.lists_.size());
      pickle_.lists_.emplace_back();
    }
    return static_cast<Value>(pickle_.nodes_.size() - 1);
  }

  void push(Value value) {
    count(1);
    stack_.push_back(value);
  }

  void push_integer(std::int64_t number, Kind kind = Kind::integer) {
    const Value value = add(kind);
    pickle_.nodes_[value].number = number;
    push(value);
  }

  std::vector<Value>& list_of(Value value) { return pickle_.lists_[pickle_.nodes_[value].list]; }

  bool push_constant(unsigned char opcode) {
    switch (opcode) {
      case 0x80:  // PROTO
        if (number(1) > 5) fail("a later version of the format");
        return true;
      case 0x95:  // FRAME
        number(8);
        return true;
      case 'N':  // NONE
        push(pickle_.none());
        return true;
      case 0x88:  // NEWTRUE
      case 0x89:  // NEWFALSE
        push_integer(opcode == 0x88 ? 1 : 0, Kind::boolean);
        return true;
      case ']':  // EMPTY_LIST
      case ')':  // EMPTY_TUPLE
        push(add(Kind::list));
        return true;
      case '}':  // EMPTY_DICT
        push(add(Kind::dict));
        return true;
      case '(':  // MARK
        if (marks_.size() >= limits_.depth) fail("it is nested too deeply");
        marks_.push_back(stack_.size());
        return true;
      default:
        return false;
    }
  }

  bool push_number(unsigned char opcode) {
    switch (opcode) {
      case 'J':  // BININT
        push_integer(static_cast<std::int32_t>(number(4)));
        return true;
      case 'K':  // BININT1
        push_integer(static_cast<std::int64_t>(number(1)));
        return true;
      case 'M':  // BININT2
        push_integer(static_cast<std::int64_t>(number(2)));
        return true;
      case 0x8a: {  // LONG1, in two's complement
        const std::size_t size = number(1);
        if (size > 8) fail("a number of more than 64 bits");
        std::uint64_t value = number(size);
        if (size > 0 && size < 8 && (value >> (8 * size - 1)) != 0) value |= ~std::uint64_t{0} << (8 * size);
        push_integer(static_cast<std::int64_t>(value));
        return true;
      }
      case 'G':  // BINFLOAT; what it is matters to nobody here
        take(8);
        push(add(Kind::real));
        return true;
      default:
        return false;
    }
  }

  bool push_text(unsigned char opcode) {
    std::uint64_t size = 0;
    if (opcode == 'X')  // BINUNICODE
      size = number(4);
    else if (opcode == 0x8c)  // SHORT_BINUNICODE
      size = number(1);
    else if (opcode == 0x8d)  // BINUNICODE8
      size = number(8);
    else
      return false;
    const std::string_view text = take(size);
    const Value value = add(Kind::text);
    pickle_.nodes_[value].text = text;
    push(value);
    return true;
  }

  /// The end of the stack that an opcode may take from.
  std::size_t floor() const { return marks_.empty() ? 0 : marks_.back(); }

  Value pop() {
    if (stack_.size() <= floor()) fail("it takes a value that is not there");
    const Value value = stack_.back();
    stack_.pop_back();
    return value;
  }

  /// The values above the last mark, which goes.
  std::vector<Value> pop_to_mark() {
    if (marks_.empty()) fail("it goes back to a mark that is not there");
    const auto begin = stack_.begin() + static_cast<std::ptrdiff_t>(marks_.back());
    std::vector<Value> values(begin, stack_.end());
    stack_.erase(begin, stack_.end());
    marks_.pop_back();
    return values;
  }

  void extend(Kind kind, const std::vector<Value>& values) {
    if (stack_.size() <= floor() || pickle_.kind(stack_.back()) != kind)
      fail("it fills what is no container");
    if (kind == Kind::dict && values.size() % 2 != 0) fail("a key without a value");
    count(values.size());
    std::vector<Value>& list = list_of(stack_.back());
    list.insert(list.end(), values.begin(), values.end());
  }

  void push_tuple(const std::vector<Value>& values) {
    push(add(Kind::list));
    extend(Kind::list, values);
  }

  bool join(unsigned char opcode) {
    switch (opcode) {
      case 'a':  // APPEND
        extend(Kind::list, {pop()});
        return true;
      case 'e':  // APPENDS
        extend(Kind::list, pop_to_mark());
        return true;
      case 's': {  // SETITEM
        const Value value = pop();
        const Value key = pop();
        extend(Kind::dict, {key, value});
        return true;
      }
      case 'u':  // SETITEMS
        extend(Kind::dict, pop_to_mark());
        return true;
      case 't':  // TUPLE
        push_tuple(pop_to_mark());
        return true;
      case 0x85:    // TUPLE1
      case 0x86:    // TUPLE2
      case 0x87: {  // TUPLE3
        std::vector<Value> values(opcode - 0x84U);
        for (auto value = values.rbegin(); value != values.rend(); ++value) *value = pop();
        push_tuple(values);
        return true;
      }
      default:
        return false;
    }
  }

  void put(std::uint64_t place) {
    if (stack_.empty()) fail("it remembers a value that is not there");
    count(1);
    memo_[place] = stack_.back();
  }

  bool remember(unsigned char opcode) {
    switch (opcode) {
      case 'q':  // BINPUT
      case 'r':  // LONG_BINPUT
        put(number(opcode == 'q' ? 1 : 4));
        return true;
      case 0x94:  // MEMOIZE
        put(memo_.size());
        return true;
      case 'h':    // BINGET
      case 'j': {  // LONG_BINGET
        const auto found = memo_.find(number(opcode == 'h' ? 1 : 4));
        if (found == memo_.end()) fail("it recalls what was not remembered");
        push(found->second);
        return true;
      }
      default:
        return false;
    }
  }

  Pickle& pickle_;
  std::string_view bytes_;
  const PickleLimits& limits_;
  const std::function<bool()>& go_on_;
  std::size_t at_ = 0;
  std::size_t used_ = 0;
  std::vector<Value> stack_;
  /// The heights of the stack at the marks that are open.
  std::vector<std::size_t> marks_;
  std::unordered_map<std::uint64_t, Value> memo_;
};

Pickle::Pickle(std::string_view bytes, const PickleLimits& limits, const std::function<bool()>& go_on) {
  PickleMachine(*this, bytes, limits, go_on).run();
}

std::int64_t Pickle::integer(Value value, std::int64_t otherwise) const {
  const Node& node = nodes_.at(value);
  return node.kind == Kind::integer || node.kind == Kind::boolean ? node.number : otherwise;
}

std::string_view Pickle::text(Value value) const {
  return nodes_.at(value).text;
}

const std::vector<Pickle::Value>& Pickle::items(Value value) const {
  const Node& node = nodes_.at(value);
  return node.kind == Kind::list ? lists_[node.list] : lists_.front();
}

const std::vector<Pickle::Value>& Pickle::pairs(Value dict) const {
  const Node& node = nodes_.at(dict);
  return node.kind == Kind::dict ? lists_[node.list] : lists_.front();
}

Pickle::Value Pickle::at(Value dict, std::string_view key) const {
  const std::vector<Value>& list = pairs(dict);
  const std::size_t end = list.size() > 2 * kKeysLookedAt ? list.size() - 2 * kKeysLookedAt : 0;
  for (std::size_t i = list.size(); i >= end + 2; i -= 2)
    if (kind(list[i - 2]) == Kind::text && text(list[i - 2]) == key) return list[i - 1];
  return none();
}

}  // namespace muster::agent
