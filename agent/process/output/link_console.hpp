// SPDX-License-Identifier: Apache-2.0
// The console of a node whose launcher is elsewhere: what workers print, and log files, go there through
// channels, as fast as the launcher takes them.
#pragma once

#include "agent/process/output/console_sink.hpp"
#include "rendezvous/wire/channel.hpp"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace muster::agent {

/// The windows of the channels bound the bytes that are under way to the launcher. Used from one thread; hold
/// it by shared_ptr.
class LinkConsole : public std::enable_shared_from_this<LinkConsole> {
 public:
  using OpenChannel = std::function<std::shared_ptr<rendezvous::Channel>(std::string_view what)>;

  explicit LinkConsole(OpenChannel open) : open_(std::move(open)) {}

  /// Makes a sink for what one channel carries: `what` is kStdoutChannel, kStderrChannel, or kFileChannel
  /// with a name. `emptied` is called each time when all that was appended has been sent, or is dropped. When
  /// the other side closes the channel, all that is appended is dropped, and the sink's notes count it.
  std::unique_ptr<ConsoleSink> make_sink(std::string what, std::function<void()> emptied);

  /// Drops all that waits, and what comes later, because nobody will take anything any more.
  void give_up();

  bool given_up() const { return given_up_; }

  /// Returns how many bytes wait for room.
  std::size_t waiting() const;

  /// Returns how many bytes all channels have sent: as long as some wait, the number grows when the launcher
  /// takes any.
  std::uint64_t sent() const { return sent_; }

 private:
  struct Stream;
  class Sink;

  void pump(Stream& stream);

  OpenChannel open_;
  /// The streams, each owned by its sink.
  std::vector<std::weak_ptr<Stream>> streams_;
  std::uint64_t sent_ = 0;
  bool given_up_ = false;
};

}  // namespace muster::agent
