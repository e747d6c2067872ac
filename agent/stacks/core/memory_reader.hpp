// SPDX-License-Identifier: Apache-2.0
// Bytes at addresses: another process's memory, a file, or what a test makes up.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>

namespace muster::agent {

/// A piece of memory, and where it is to be copied to.
struct MemoryPart {
  std::uint64_t address = 0;
  void* into = nullptr;
  std::size_t bytes = 0;
};

/// What is read is hostile: any byte may have any value and change from one call to the next. Used from one
/// thread.
class MemoryReader {
 public:
  virtual ~MemoryReader() = default;

  /// Copies all parts, as close to one moment as the source allows. Returns false if any of it cannot be
  /// read, or the time is over; the parts are undefined then.
  virtual bool read_parts(std::span<const MemoryPart> parts) = 0;

  /// Whether the time that was given for reading is over. Every loop over what was read ends then.
  virtual bool expired() = 0;

  bool read(std::uint64_t address, void* into, std::size_t bytes) {
    const MemoryPart part{address, into, bytes};
    return read_parts(std::span(&part, 1));
  }

  template <typename Value>
  std::optional<Value> value(std::uint64_t address) {
    Value copied{};
    return read(address, &copied, sizeof copied) ? std::optional(copied) : std::nullopt;
  }
};

/// Returns the value at an offset of copied bytes; 0 beyond their end.
template <typename Value = std::uint64_t>
Value value_at(std::span<const std::byte> bytes, std::size_t offset) {
  Value value{};
  if (offset <= bytes.size() && bytes.size() - offset >= sizeof value)
    std::memcpy(&value, bytes.data() + offset, sizeof value);
  return value;
}

}  // namespace muster::agent
