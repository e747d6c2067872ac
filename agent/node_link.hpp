// SPDX-License-Identifier: Apache-2.0
// A node's end of the link to its launcher: orders come by it, lines for the log and the report go by it, and
// it knows whether there is a launcher.
#pragma once

#include "agent/core/link_message.hpp"
#include "agent/core/node_report.hpp"
#include "agent/core/node_traits.hpp"
#include "agent/launcher_link.hpp"
#include "agent/launcher_watch.hpp"
#include "agent/node_options.hpp"
#include "rendezvous/client/coordinator_client.hpp"
#include "rendezvous/wire/channel.hpp"
#include "rendezvous/wire/event.hpp"

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/awaitable.hpp>

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

namespace muster::agent {

/// The link of a node that was started from elsewhere may move to a channel through the coordinator; any
/// other ends with its stream. One thread, the executor's.
class NodeLink {
 public:
  struct Events {
    std::function<void(LinkMessage)> message;
    /// What the launcher feeds to the worker that reads its stdin.
    std::function<void(std::shared_ptr<rendezvous::Channel>)> stdin_opened;
    /// Nobody waits for this node any more: why. Not after end().
    std::function<void(const std::string& why)> launcher_gone;
    /// As in LauncherWatch::Needs.
    std::function<rendezvous::CoordinatorClient*()> coordinator;
    std::function<bool()> coordinator_works;
  };

  /// `options` outlive the link, whose descriptors it takes over with open().
  NodeLink(const boost::asio::any_io_executor& executor, const NodeAgentOptions& options, Events events);

  void open();

  /// Queues a message.
  void tell(LinkMessage::Kind kind, std::int64_t number, std::string body);

  std::shared_ptr<rendezvous::Channel> open_channel(std::string_view what) {
    return link_->open_channel(what);
  }

  /// The coordinator has opened a channel to the launcher: goes on over it. False where this link cannot
  /// move.
  bool go_on_over(std::shared_ptr<rendezvous::Channel> channel);

  /// The guardian has ended, and with it the process that leads to a launcher elsewhere: a report on that way
  /// might arrive, and its acknowledgement might not.
  void guardian_ended();

  bool works() const { return link_->connected(); }

  bool launcher_is_gone() const { return watch_.is_gone(); }

  /// Returns whether the launcher has the report, as soon as that is known.
  boost::asio::awaitable<bool> send_report(const NodeReport& report);

  /// The report is sent, or will never be: the launcher may go, and lines for its log are dropped.
  void end();
  void close();

 private:
  void closed(const std::string& reason);
  void say_go_on() const;
  void lose_launcher(const std::string& why);
  LauncherWatch::Needs needs_of_watch();

  boost::asio::any_io_executor executor_;
  const NodeAgentOptions& options_;
  Events events_;
  std::optional<LauncherLink> link_;
  NodeTraits traits_;
  LauncherWatch watch_;
  /// The launcher has the report, or will never have it.
  rendezvous::Event report_settled_;
  bool over_ = false;
};

}  // namespace muster::agent
