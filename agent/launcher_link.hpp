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
    /// Called with each message. An exception from it ends the link, like a message that no muster sends.
    std::function<void(LinkMessage)> message;
    /// Called when the other end has opened a channel; `what` says for what (link_message.hpp). An exception
    /// from it ends the link, too. Channels are refused if it is not set.
    std::function<void(std::string_view what, std::shared_ptr<rendezvous::Channel>)> opened = nullptr;
    /// Called on a plain link at most once, when the other end is gone or sent what no muster sends (`reason`
    /// says which); on a resumable link whenever a stream is lost, where messages then wait for move_to().
    std::function<void(const std::string& reason)> closed;
    /// Called instead of `closed`, if it is set, where the other end sent what no muster sends, or leaves too
    /// much unread.
    std::function<void(const std::string& what)> broken = nullptr;
  };

  enum class Mode {
    plain,     ///< a link that ends with its stream
    launcher,  ///< the launcher's end of a link that may move to another stream
    agent,     ///< the agent's end of a link that may move to another stream
  };

  /// Begins to read. `first_bytes` is what was read from the stream before.
  LauncherLink(const boost::asio::any_io_executor& executor, std::unique_ptr<rendezvous::ByteStream> stream,
               Mode mode, Events events, std::string first_bytes = {});
  ~LauncherLink();
  LauncherLink(const LauncherLink&) = delete;
  LauncherLink& operator=(const LauncherLink&) = delete;

  /// Queues one message, whose body has at most kLinkBodyMax bytes (else CoordinatorError is thrown). `sent`
  /// (optional) runs when the message has been written, or cannot be any more; on a resumable link, when the
  /// other side has it, or the link is closed.
  void send(const LinkMessage& message, std::function<void()> sent = nullptr);

  /// Queues a message to a node whose agent is not there yet to count it: such a message is lost with the
  /// stream.
  void send_aside(const LinkMessage& message);

  /// Opens a channel on a link that is not plain. `what` is one of the names in link_message.hpp.
  std::shared_ptr<rendezvous::Channel> open_channel(std::string_view what);

  /// Moves a resumable link to another stream, from which nothing has been read yet, and closes the old one.
  void move_to(std::unique_ptr<rendezvous::ByteStream> stream);

  /// Ends the stream as if the other side had done so: `closed` is called.
  void drop(const std::string& reason);

  /// Returns whether a resumable link has a stream now.
  bool connected() const;

  void close();

 private:
  struct State;
  std::shared_ptr<State> state_;
};

}  // namespace muster::agent
