// SPDX-License-Identifier: Apache-2.0
// One end of the private connection between launcher and agent. Both ends use this class.
#pragma once

#include "agent/core/link_message.hpp"
#include "rendezvous/wire/byte_stream.hpp"
#include "rendezvous/wire/channel.hpp"

#include <boost/asio/any_io_executor.hpp>

#include <functional>
#include <memory>
#include <string>
#include <string_view>

namespace muster::agent {

/// The messages and channels of a session (rendezvous/wire) over a socket pair, the two ends of an ssh, or a
/// channel through the coordinator. The end of its stream is news too: it means that the other process, or
/// the way to it, is gone. Used from the executor's one thread; no callback follows close() or destruction,
/// and none runs inside another call than drop().
class LauncherLink {
 public:
  struct Events {
    /// What it throws ends the link as what no muster sends.
    std::function<void(LinkMessage)> message;
    /// The other end has opened a channel, for what `what` says (link_message.hpp). What it throws ends the
    /// link, too. Channels are refused if it is not set.
    std::function<void(std::string_view what, std::shared_ptr<rendezvous::Channel>)> opened = nullptr;
    /// Plain link: the other end is gone, or sent what no muster sends; `reason` says which. At most once.
    /// Resumable link: the stream is lost, once for each; messages wait for move_to().
    std::function<void(const std::string& reason)> closed;
    /// If it is set, it is called instead of `closed` where the other end sent what no muster sends, or
    /// leaves too much unread.
    std::function<void(const std::string& what)> broken = nullptr;
  };

  enum class Mode {
    plain,     ///< ends with its stream
    launcher,  ///< the launcher's end of one that may move to another stream
    agent,     ///< the agent's
  };

  /// Begins to read. `first_bytes`: what was read from the stream before.
  LauncherLink(const boost::asio::any_io_executor& executor, std::unique_ptr<rendezvous::ByteStream> stream,
               Mode mode, Events events, std::string first_bytes = {});
  ~LauncherLink();
  LauncherLink(const LauncherLink&) = delete;
  LauncherLink& operator=(const LauncherLink&) = delete;

  /// Queues one message, whose body has at most kLinkBodyMax bytes (else CoordinatorError is thrown); `sent`
  /// (optional) runs when it has been written, or when it cannot be any more; on a resumable link: when the
  /// other side has it (or the link is closed).
  void send(const LinkMessage& message, std::function<void()> sent = nullptr);

  /// Queues a message to a node whose agent is not there yet to count it: it is lost with the stream.
  void send_aside(const LinkMessage& message);

  /// Not on a plain link. `what` is one of link_message.hpp.
  std::shared_ptr<rendezvous::Channel> open_channel(std::string_view what);

  /// Resumable: goes on over another stream, from which nothing has been read yet. The old one is closed.
  void move_to(std::unique_ptr<rendezvous::ByteStream> stream);

  /// Ends the stream, as if the other side had: `closed` is told.
  void drop(const std::string& reason);

  /// Resumable: whether there is a stream now.
  bool connected() const;

  void close();

 private:
  struct State;
  std::shared_ptr<State> state_;
};

}  // namespace muster::agent
