// SPDX-License-Identifier: Apache-2.0
// The console of a node whose launcher is elsewhere: output goes there in messages, as fast as the launcher
// takes it.
#pragma once

#include "agent/process/output/console_sink.hpp"
#include "rendezvous/base/wake_up.hpp"

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace muster::agent {

/// Bounds the bytes that are under way to the launcher; both streams of the console and the files that are
/// sent share it. One thread. Hold it by shared_ptr.
class LinkWindow : public std::enable_shared_from_this<LinkWindow> {
 public:
  /// `send` takes a piece of at most kLinkPieceBytes for stream 1 or 2.
  explicit LinkWindow(std::function<void(int stream, std::string_view piece)> send);

  /// A sink for one stream; the window outlives it.
  std::unique_ptr<ConsoleSink> make_sink(int stream, std::shared_ptr<WakeUp> wake_up);

  /// Takes room for bytes that are sent in another way; false if there is none now.
  bool reserve(std::size_t bytes);

  /// The launcher has written so many bytes.
  void taken(std::int64_t bytes);

  /// Nobody will take anything any more: all that waits is dropped, and what comes is dropped too.
  void give_up();

  bool given_up() const { return given_up_; }

  /// Bytes that the launcher has not taken, sent or waiting.
  std::int64_t outstanding() const;

  /// Grows with every byte taken: whether there is progress.
  std::int64_t taken_in_all() const { return taken_; }

  /// Room has come: called after taken() and give_up(). May be empty.
  std::function<void()> on_room;

 private:
  struct Stream;
  class Sink;

  void pump();

  std::function<void(int, std::string_view)> send_;
  std::vector<std::shared_ptr<Stream>> streams_;
  std::int64_t sent_ = 0;
  std::int64_t taken_ = 0;
  bool given_up_ = false;
};

}  // namespace muster::agent
