// SPDX-License-Identifier: Apache-2.0
// The memory of another process, and a file, as bytes that are read until a deadline.
#pragma once

#include "agent/stacks/core/memory_reader.hpp"

#include <sys/types.h>

#include <chrono>

namespace muster::agent {

using StackDeadline = std::chrono::steady_clock::time_point;

/// Reads a process that goes on meanwhile (process_vm_readv): nothing is stopped and no code of ours runs in
/// it. Memory that a file or a program stands behind may make a call wait as long as those like.
class ProcessMemory final : public MemoryReader {
 public:
  ProcessMemory(pid_t pid, StackDeadline deadline) : pid_(pid), deadline_(deadline) {}

  bool read_parts(std::span<const MemoryPart> parts) override;

  bool expired() override { return std::chrono::steady_clock::now() >= deadline_; }

  StackDeadline deadline() const { return deadline_; }

  /// Returns errno of the last call that failed for want of permission, or because there is no such process;
  /// 0: none did.
  int refusal() const { return refusal_; }

 private:
  pid_t pid_;
  StackDeadline deadline_;
  int refusal_ = 0;
};

/// Reads an open file by places in it.
class FileBytes final : public MemoryReader {
 public:
  FileBytes(int fd, StackDeadline deadline) : fd_(fd), deadline_(deadline) {}

  bool read_parts(std::span<const MemoryPart> parts) override;

  bool expired() override { return std::chrono::steady_clock::now() >= deadline_; }

 private:
  int fd_;
  StackDeadline deadline_;
};

}  // namespace muster::agent
