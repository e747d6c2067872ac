// SPDX-License-Identifier: Apache-2.0
// Finds the agent's first line in what a remote login shell prints. Pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace muster::launcher {

/// A login shell's start-up files may print whatever they like before the agent says "\nmuster-agent PROTOCOL
/// VERSION\n". What they print is kept for error texts.
class GreetingReader {
 public:
  enum class State {
    waiting,
    push_wanted,  ///< the host asks for `push_bytes()` bytes of our executable; then feed() goes on waiting
    greeted,
    too_much,  ///< more than kJunkBytesMax without a greeting
  };

  static constexpr std::size_t kJunkBytesMax = std::size_t{64} << 10;
  static constexpr std::size_t kLineBytesMax = 256;

  /// Takes bytes up to the end of a line that matters, and returns how many. Take the rest to feed() again,
  /// or, once greeted, to the link.
  std::size_t feed(std::string_view bytes);

  State state() const { return state_; }

  /// The two versions in the greeting follow: that of the conversation, and that of the software.
  int protocol() const { return protocol_; }

  const std::string& version() const { return version_; }

  std::uint64_t push_bytes() const { return push_bytes_; }

  /// Call it after push_wanted, when the copy is sent: waits for the greeting.
  void pushed() { state_ = State::waiting; }

  /// Returns the bytes that came before the greeting.
  const std::string& junk() const { return junk_; }

 private:
  void take_line();

  State state_ = State::waiting;
  std::string line_;
  std::string junk_;
  std::string version_;
  std::size_t total_ = 0;
  std::uint64_t push_bytes_ = 0;
  int protocol_ = 0;
};

}  // namespace muster::launcher
