// SPDX-License-Identifier: Apache-2.0
// Follows the frames of one thread while it may run.
#pragma once

#include "agent/stacks/core/memory_reader.hpp"
#include "agent/stacks/core/python_layout.hpp"

#include <array>
#include <cstdint>
#include <optional>
#include <vector>

namespace muster::agent {

/// A frame before its code object is looked at.
struct RawFrame {
  std::uint64_t address = 0;
  std::uint64_t code = 0;
  /// What the frame keeps: a pointer into the code, before 3.11 a number.
  std::uint64_t instruction = 0;
};

struct RawThread {
  std::uint64_t next = 0;
  std::uint64_t interpreter = 0;
  /// What pthread_self() returned to the thread.
  std::uint64_t pthread = 0;
  /// The kernel's number of the thread; 0 before 3.11.
  std::uint64_t native_id = 0;
  /// The innermost first, without those that only mark a call from C.
  std::vector<RawFrame> frames;
  bool truncated = false;
  /// Whether the thread moved, or its frames lead nowhere.
  bool approximate = false;
};

/// Most frames of a thread that are kept.
inline constexpr std::size_t kThreadFramesMax = 256;

/// Reads threads of one process. Used from one thread.
class ThreadWalk {
 public:
  ThreadWalk(MemoryReader& memory, const PythonLayout& layout);

  /// Reads the thread whose PyThreadState is at `address`. State and newest frames are copied in one call,
  /// and once more: only if both copies lead through the same calls are the frames taken for those of one
  /// moment. A thread that differs kTries times is moving. Of 10,000 such pairs of a program that did nothing
  /// but change between two chains of calls, up to 4 were not of one moment. nullopt if the state cannot be
  /// read.
  std::optional<RawThread> read(std::uint64_t address);

  static constexpr int kTries = 5;

 private:
  struct Walk {
    std::vector<RawFrame> frames;
    bool truncated = false;
    bool broken = false;
  };

  bool copy(std::uint64_t address);
  bool locate(std::uint64_t address);
  RawThread described() const;
  Walk walk();
  std::uint64_t first_frame() const;
  std::span<const std::byte> frame_at(std::uint64_t address);
  static bool same_calls(const Walk& one, const Walk& other);

  MemoryReader& memory_;
  const PythonLayout& layout_;
  std::size_t frame_bytes_;
  /// A copy of one moment: the thread's state, what it points to first, and the chunk of its newest frames.
  std::vector<std::byte> state_;
  std::array<std::byte, 16> cframe_{};
  std::vector<std::byte> chunk_;
  std::uint64_t chunk_at_ = 0;
  /// A frame outside of that chunk.
  std::vector<std::byte> frame_;
};

}  // namespace muster::agent
