// SPDX-License-Identifier: Apache-2.0
#include "agent/stacks/core/line_table.hpp"

#include <cstdint>

namespace muster::agent {
namespace {

constexpr unsigned kPython310 = 0x030a;
constexpr unsigned kPython311 = 0x030b;

std::int64_t signed_byte(std::byte value) {
  return static_cast<std::int8_t>(value);
}

int line_or_none(std::int64_t line) {
  constexpr std::int64_t kLinesMost = 1 << 30;
  return line > 0 && line < kLinesMost ? static_cast<int>(line) : 0;
}

/// Reads pairs of a step in bytes of code and a step in lines.
int line_of_39(std::span<const std::byte> table, std::int64_t line, long at) {
  long address = 0;
  for (std::size_t i = 0; i + 1 < table.size(); i += 2) {
    address += std::to_integer<long>(table[i]);
    if (address > at) break;
    line += signed_byte(table[i + 1]);
  }
  return line_or_none(line);
}

/// Reads pairs of a length in bytes of code and a step in lines that comes before it; -128 says that these
/// instructions have no line.
int line_of_310(std::span<const std::byte> table, std::int64_t line, long at) {
  constexpr int kNoLine = -128;
  long end = 0;
  for (std::size_t i = 0; i + 1 < table.size(); i += 2) {
    end += std::to_integer<long>(table[i]);
    const std::int64_t step = signed_byte(table[i + 1]);
    if (step != kNoLine) line += step;
    if (at < end) return step == kNoLine ? 0 : line_or_none(line);
  }
  return 0;
}

/// Entries of a varying number of bytes; the first byte of each has bit 7 set, its kind in bits 3 to 6, and
/// one less than the number of its code units in bits 0 to 2.
class LocationTable {
 public:
  explicit LocationTable(std::span<const std::byte> table) : table_(table) {}

  int line_of(std::int64_t line, long unit) {
    long end = 0;
    while (next_ < table_.size()) {
      const unsigned first = take();
      const unsigned kind = first >> 3 & 15U;
      line += line_step(kind);
      end += static_cast<long>(first & 7U) + 1;
      if (unit < end) return kind == kNone ? 0 : line_or_none(line);
    }
    return 0;
  }

 private:
  static constexpr unsigned kOneLine0 = 10;
  static constexpr unsigned kNoColumns = 13;
  static constexpr unsigned kLong = 14;
  static constexpr unsigned kNone = 15;

  unsigned take() { return next_ < table_.size() ? std::to_integer<unsigned>(table_[next_++]) : 0; }

  /// A number in groups of six bits, the lowest first; bit 6 says that another one follows.
  std::int64_t take_number() {
    std::uint64_t number = 0;
    for (unsigned shift = 0; shift < 60; shift += 6) {
      const unsigned byte = take();
      number |= std::uint64_t{byte & 63U} << shift;
      if ((byte & 64U) == 0) break;
    }
    return static_cast<std::int64_t>(number);
  }

  std::int64_t take_signed() {
    const std::int64_t number = take_number();
    return (number & 1) != 0 ? -(number >> 1) : number >> 1;
  }

  /// Reads the rest of an entry and returns its step in lines.
  std::int64_t line_step(unsigned kind) {
    if (kind == kNone) return 0;
    if (kind == kNoColumns) return take_signed();
    if (kind == kLong) {
      const std::int64_t step = take_signed();
      for (int i = 0; i < 3; ++i) take_number();  // the last line, the first and the last column
      return step;
    }
    if (kind >= kOneLine0) {
      next_ += 2;
      return kind - kOneLine0;
    }
    ++next_;
    return 0;
  }

  std::span<const std::byte> table_;
  std::size_t next_ = 0;
};

}  // namespace

int line_of(unsigned version, std::span<const std::byte> table, int first_line, long instruction) {
  if (instruction < 0) return line_or_none(first_line);
  if (version >= kPython311) return LocationTable(table).line_of(first_line, instruction);
  if (version >= kPython310) return line_of_310(table, first_line, 2 * instruction);
  return line_of_39(table, first_line, instruction);
}

}  // namespace muster::agent
