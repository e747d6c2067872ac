// SPDX-License-Identifier: Apache-2.0
// How a client keeps its session alive: hello, heartbeats, and another connection when one breaks. Includes
// Asio.
#pragma once

#include "rendezvous/client/control_message.hpp"
#include "rendezvous/client/coordinator_client.hpp"
#include "rendezvous/wire/backoff.hpp"
#include "rendezvous/wire/wire_session.hpp"

#include <boost/asio/steady_timer.hpp>

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

namespace muster::rendezvous {

/// The client's side of one control session. Used on the executor's thread only. Create with
/// std::make_shared.
class ClientSession : public std::enable_shared_from_this<ClientSession> {
 public:
  /// What the owner is told; nothing after close().
  struct Handlers {
    /// Told of every message except heartbeats; of HelloOk only on the first connection.
    std::function<void(const Message&)> message{};
    std::function<void(const ChannelOpen&, std::shared_ptr<Channel>)> channel_opened{};
    std::function<void(const std::string& reason)> interrupted{};
    std::function<void()> resumed{};
    /// Told at most once, and last.
    std::function<void(Errc code, const std::string& reason)> lost{};
  };

  ClientSession(boost::asio::any_io_executor executor, ClientOptions options, Handlers handlers);

  /// Starts on a local socket; the session ends when this socket does.
  void start(int connected_fd);
  /// Starts over a network, with connections that `connector` makes.
  void start(Connector connector, TimePoint first_deadline);

  void send(const Message& message) {
    if (session_) send_message(*session_, message);
  }

  std::shared_ptr<Channel> open_channel(const ChannelOpen& what) {
    return session_->open_channel(to_json(what));
  }

  std::string local_address() const { return local_address_; }

  /// Ends the session after everything that was sent before has gone out.
  void close(const std::string& reason);

 private:
  void make_session(bool resumable);
  boost::asio::awaitable<void> connect(TimePoint deadline);
  boost::asio::awaitable<std::unique_ptr<ByteStream>> dial(TimePoint deadline);
  boost::asio::awaitable<bool> greet(std::unique_ptr<ByteStream> stream, TimePoint deadline);
  boost::asio::awaitable<void> pause(TimePoint until);
  void reconnect(const std::string& reason);
  void greeting_message(const std::weak_ptr<Connection>& connection, std::string_view body);
  void accept(const HelloOk& hello);
  void on_message(std::string_view text);
  void on_channel(std::string_view payload, std::shared_ptr<Channel> channel);
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
  /// Wakes connect() when a wait is over or the greeting is answered.
  boost::asio::steady_timer connect_timer_;
  std::shared_ptr<WireSession> session_;
  /// The connection that has said hello and waits for the answer.
  std::shared_ptr<Connection> greeting_;
  std::string last_trouble_;
  std::string local_address_;
  /// The protocol version that the coordinator chose; 0: none yet.
  int version_ = 0;
  bool connecting_ = false;
  bool greeted_ = false;
  bool gone_ = false;
  std::uint64_t beats_ = 0;
  TimePoint last_beat_{};
  TimePoint last_heard_{};
};

}  // namespace muster::rendezvous
