// SPDX-License-Identifier: Apache-2.0
// How a client keeps its session alive: hello, heartbeats, and another connection when one breaks. Includes
// Asio.
#pragma once

#include "rendezvous/client/backoff.hpp"
#include "rendezvous/client/coordinator_client.hpp"
#include "rendezvous/client/session_link.hpp"

#include <boost/asio/steady_timer.hpp>

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

namespace muster::rendezvous {

/// One thread, the executor's. Create with std::make_shared.
class ClientSession : public std::enable_shared_from_this<ClientSession> {
 public:
  /// Not called after close().
  struct Handlers {
    /// All but heartbeats; HelloOk of the first connection only.
    std::function<void(const Message&)> message{};
    std::function<void(const ChannelOpen&, std::shared_ptr<Channel>)> channel_opened{};
    std::function<void(const std::string& reason)> interrupted{};
    std::function<void()> resumed{};
    /// Once; nothing follows.
    std::function<void(Errc code, const std::string& reason)> lost{};
  };

  ClientSession(boost::asio::any_io_executor executor, ClientOptions options, Handlers handlers);

  /// Starts on a local socket, whose end is the end of the session.
  void start(int connected_fd);
  /// Starts over a network.
  void start(Connector connector, TimePoint first_deadline);

  void send(Message message) {
    if (link_) link_->send(std::move(message));
  }

  std::shared_ptr<Channel> open_channel(ChannelKind kind, const NodeName& node) {
    return link_->open_channel(kind, node);
  }

  std::string local_address() const { return local_address_; }

  /// Ends the session after all that was sent before.
  void close(const std::string& reason);

 private:
  void make_link(bool resumable);
  boost::asio::awaitable<void> connect(TimePoint deadline);
  boost::asio::awaitable<std::unique_ptr<ByteStream>> dial(TimePoint deadline);
  boost::asio::awaitable<bool> greet(std::unique_ptr<ByteStream> stream, TimePoint deadline);
  boost::asio::awaitable<void> pause(TimePoint until);
  void reconnect(const std::string& reason);
  void greeting_message(const std::shared_ptr<Connection>& connection, const Message& message);
  void accept(const HelloOk& hello);
  void on_message(const Message& message);
  void on_ended(const ConnectionEnd& end);
  void lose(Errc code, const std::string& reason);
  void beat();
  void on_beat();

  boost::asio::any_io_executor executor_;
  ClientOptions options_;
  Handlers handlers_;
  Hello hello_;
  Connector connector_;
  Backoff backoff_;
  boost::asio::steady_timer heartbeat_timer_;
  /// Wakes connect(): a wait is over, or the greeting is.
  boost::asio::steady_timer connect_timer_;
  std::shared_ptr<SessionLink> link_;
  /// Has said hello and waits for the answer.
  std::shared_ptr<Connection> greeting_;
  std::string last_trouble_;
  std::string local_address_;
  bool connecting_ = false;
  bool greeted_ = false;
  bool gone_ = false;
  std::uint64_t beats_ = 0;
  TimePoint last_beat_{};
  TimePoint last_heard_{};
};

}  // namespace muster::rendezvous
