// SPDX-License-Identifier: Apache-2.0
// Where the merged output of the workers goes: a descriptor of ours, or the launcher on another host.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace muster::agent {

/// All calls come from one thread. When full() or ended() may have changed, the WakeUp that the sink was made
/// with is signalled.
class ConsoleSink {
 public:
  ConsoleSink() = default;
  virtual ~ConsoleSink() = default;
  ConsoleSink(const ConsoleSink&) = delete;
  ConsoleSink& operator=(const ConsoleSink&) = delete;

  virtual void append(std::string_view bytes) = 0;
  /// Whether callers should stop; what they append nevertheless is taken.
  virtual bool full() const = 0;
  /// Says that no append() follows.
  virtual void stop() = 0;
  /// Whether stop() was called and everything is written or dropped.
  virtual bool ended() const = 0;
  /// Returns the number of bytes that were appended and have not been written yet.
  virtual std::size_t unwritten() const = 0;
  virtual std::vector<std::string> notes() const = 0;
};

}  // namespace muster::agent
