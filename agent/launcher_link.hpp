// SPDX-License-Identifier: Apache-2.0
// One end of the private connection between launcher and agent. Both ends use this class.
#pragma once

#include "agent/byte_transport.hpp"
#include "agent/core/link_message.hpp"

#include <boost/asio/any_io_executor.hpp>

#include <cstddef>
#include <functional>
#include <memory>
#include <string>

namespace muster::agent {

/// Messages over a transport. Its end is news too: it means that the other process, or the way to it, is
/// gone. Used from the executor's one thread; no callback follows close() or destruction.
class LauncherLink {
 public:
  struct Events {
    std::function<void(LinkMessage)> message;
    /// Plain link: the other end is gone, or sent what no muster sends; `reason` says which. At most once.
    /// Resumable link: the transport is lost, once for each; messages wait for move_to().
    std::function<void(const std::string& reason)> closed;
    /// If it is set, it is called instead of `closed` where the other end sent what no muster sends, or
    /// leaves too much unread.
    std::function<void(const std::string& what)> broken = nullptr;
  };

  enum class Mode {
    plain,      ///< a socket pair between two processes of one host
    resumable,  ///< may move to another transport; both ends say so, and begin to count together
  };

  /// Most bytes that may wait until the other side reads them, each message counted with the memory that it
  /// takes besides. Windows and LinkSession bound what an honest side leaves unread; this bound is for one
  /// that acknowledges what it has not read.
  static constexpr std::size_t kMaxUnread = std::size_t{32} << 20;

  /// Begins to read. With `first_bytes`, what was read from the transport before, beyond the last frame
  /// taken.
  LauncherLink(const boost::asio::any_io_executor& executor, std::unique_ptr<ByteTransport> transport,
               Mode mode, Events events, std::string first_bytes = {}, std::size_t max_unread = kMaxUnread);
  /// A plain link over a connected stream socket, which is taken over.
  LauncherLink(const boost::asio::any_io_executor& executor, int fd, Events events);
  ~LauncherLink();
  LauncherLink(const LauncherLink&) = delete;
  LauncherLink& operator=(const LauncherLink&) = delete;

  /// Queues one message; `sent` (optional) runs when it has been written, or when it cannot be any more; on a
  /// resumable link: when the other side has it (or the link is closed).
  void send(const LinkMessage& message, std::function<void()> sent = nullptr);

  /// Resumable: goes on over another transport, from which nothing has been read yet. The old one is closed.
  void move_to(std::unique_ptr<ByteTransport> transport);

  /// Ends the transport, as if the other side had: `closed` is told.
  void drop(const std::string& reason);

  /// Resumable: whether there is a transport now.
  bool connected() const;

  void close();

 private:
  struct State;
  std::shared_ptr<State> state_;
};

}  // namespace muster::agent
