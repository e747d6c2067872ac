// SPDX-License-Identifier: Apache-2.0
// Memory that all ranks of a group see: one rank makes it, and the others open it with a location.
#pragma once

#include <cstddef>
#include <cstdint>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace muster::shm {

/// A mapping of shared memory, unmapped at the end of its life.
class Mapping {
 public:
  Mapping() = default;

  Mapping(std::byte* base, std::size_t bytes, bool owned) : base_(base), bytes_(bytes), owned_(owned) {}

  ~Mapping();
  Mapping(Mapping&& other) noexcept;
  Mapping& operator=(Mapping&& other) noexcept;

  std::byte* base() const { return base_; }

  std::size_t bytes() const { return bytes_; }

 private:
  std::byte* base_ = nullptr;
  std::size_t bytes_ = 0;
  bool owned_ = false;
};

/// Tells another rank where to find a piece of shared memory. Plain data: it is also passed through shared
/// memory.
struct MemoryLocation {
  enum class Kind : std::uint32_t { memfd, file, thread };

  Kind kind = Kind::memfd;
  std::int32_t pid = 0;
  std::int32_t fd = -1;
  std::uint64_t bytes = 0;
  std::uint64_t nonce = 0;  ///< random, part of the memory's name; the address for Kind::thread

  std::string to_text() const;
  /// Reads a location; empty when the text is none.
  static std::optional<MemoryLocation> from_text(std::string_view text);
};

/// Makes and opens shared memory. Throws Error: out_of_memory where there is not enough, and otherwise io;
/// the text says what to do.
class MemorySource {
 public:
  virtual ~MemorySource() = default;
  /// Makes zeroed memory of `bytes` bytes, and fills in the location for the others.
  virtual Mapping create(std::size_t bytes, MemoryLocation& location) = 0;
  virtual Mapping open(const MemoryLocation& location) = 0;
  /// Tells that no rank will open the location any more; the maker calls it, and afterwards no name leads to
  /// the memory.
  virtual void close_location(const MemoryLocation& location) = 0;
};

/// Memory that processes of one host and user share. It is a memfd, which the peers open through
/// /proc/<pid>/fd, so it has no name that could be left behind. Where /proc is not shared (pid namespaces,
/// hidepid), it is a file in /dev/shm, mode 0600, unlinked as soon as all have mapped it.
class ProcessMemory : public MemorySource {
 public:
  explicit ProcessMemory(MemoryLocation::Kind kind) : kind_(kind) {}

  ~ProcessMemory() override;
  Mapping create(std::size_t bytes, MemoryLocation& location) override;
  Mapping open(const MemoryLocation& location) override;
  void close_location(const MemoryLocation& location) override;

 private:
  MemoryLocation::Kind kind_;
  std::vector<MemoryLocation> open_locations_;
};

/// Memory that threads of one process share; all of them use this object. It serves groups of one rank, and
/// groups in one process for tests under ThreadSanitizer, which goes by address, so that memory must not be
/// mapped twice.
class ThreadMemory : public MemorySource {
 public:
  Mapping create(std::size_t bytes, MemoryLocation& location) override;
  Mapping open(const MemoryLocation& location) override;

  void close_location(const MemoryLocation&) override {}

 private:
  std::mutex mutex_;
  std::vector<Mapping> mappings_;
};

}  // namespace muster::shm
