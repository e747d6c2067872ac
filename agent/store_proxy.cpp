// SPDX-License-Identifier: Apache-2.0
#include "agent/store_proxy.hpp"

#include "agent/process/vouch.hpp"
#include "rendezvous/base/while_alive.hpp"
#include "rendezvous/log/log.hpp"
#include "rendezvous/server/refusals.hpp"

#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/write.hpp>

#include <algorithm>
#include <array>
#include <chrono>
#include <deque>
#include <set>
#include <string>
#include <utility>

namespace muster::agent {

namespace asio = boost::asio;
using asio::ip::tcp;
using rendezvous::Channel;

namespace {

constexpr std::chrono::milliseconds kAcceptPause{100};

/// One connection of a worker and its channel. Each direction reads only when the other end has room.
class Relay : public std::enable_shared_from_this<Relay> {
 public:
  Relay(tcp::socket socket, std::shared_ptr<Channel> channel)
      : executor_(socket.get_executor()), socket_(std::move(socket)), channel_(std::move(channel)) {}

  void start(std::function<void()> ended) {
    ended_ = std::move(ended);
    Channel::Handlers handlers;
    handlers.data = while_alive(weak_from_this(), &Relay::to_worker);
    handlers.writable = while_alive(weak_from_this(), &Relay::read);
    handlers.closed = while_alive(weak_from_this(), [](Relay& self, const std::string&) { self.finish(); });
    channel_->handle(std::move(handlers));
    read();
  }

  void close() {
    if (std::exchange(closed_, true)) return;
    boost::system::error_code ignored;
    socket_.close(ignored);
    channel_->close("the worker's connection ended");
    asio::post(executor_, [kept = std::move(channel_)] {});  // the channel may be in one of its own callbacks
    if (ended_) asio::post(executor_, std::move(ended_));
  }

 private:
  void read() {
    if (closed_ || reading_ || channel_->writable() == 0) return;
    reading_ = true;
    const std::size_t size = std::min(channel_->writable(), buffer_.size());
    socket_.async_read_some(asio::buffer(buffer_.data(), size),
                            [self = shared_from_this()](const auto& error, std::size_t got) {
                              self->reading_ = false;
                              if (self->closed_) return;
                              if (error) return self->close();
                              self->channel_->send(std::string_view(self->buffer_.data(), got));
                              self->read();
                            });
  }

  void to_worker(std::string_view bytes) {
    if (closed_) return;
    queue_.emplace_back(bytes);
    if (queue_.size() == 1) write();
  }

  void write() {
    asio::async_write(socket_, asio::buffer(queue_.front()),
                      [self = shared_from_this()](const auto& error, std::size_t size) {
                        if (self->closed_) return;
                        if (error) return self->close();
                        self->queue_.pop_front();
                        if (!self->finishing_) self->channel_->consumed(size);
                        if (!self->queue_.empty()) return self->write();
                        if (self->finishing_) self->close();
                      });
  }

  /// Closes once the queue is empty: the store has closed, but what it said before still goes to the worker.
  void finish() {
    finishing_ = true;
    if (queue_.empty()) close();
  }

  asio::any_io_executor executor_;
  tcp::socket socket_;
  std::shared_ptr<Channel> channel_;
  std::function<void()> ended_;
  std::array<char, 16384> buffer_{};
  std::deque<std::string> queue_;
  bool reading_ = false;
  bool finishing_ = false;
  bool closed_ = false;
};

}  // namespace

struct StoreProxy::State : std::enable_shared_from_this<State> {
  State(const asio::any_io_executor& executor, rendezvous::CoordinatorClient& coordinator)
      : client(coordinator),
        acceptor(executor, tcp::endpoint(asio::ip::address_v4::loopback(), 0)),
        pause(executor) {}

  void accept() {
    acceptor.async_accept([self = shared_from_this()](const auto& error, tcp::socket socket) {
      if (self->closed) return;
      if (!error) self->admit(std::move(socket));
      if (!error || error == asio::error::connection_aborted) return self->accept();
      self->warn("accept", "the store's proxy cannot take a connection: " + error.message());
      self->accept_later();
    });
  }

  /// Accepts again after a pause: the connection still waits, so an error like "too many open files" would
  /// come again at once.
  void accept_later() {
    pause.expires_after(kAcceptPause);
    pause.async_wait([self = shared_from_this()](const boost::system::error_code& error) {
      if (!error && !self->closed) self->accept();
    });
  }

  /// Logs a warning, but not more often than PeerLog allows: anybody on this host can connect as often as
  /// they like.
  void warn(const std::string& about, const std::string& text) {
    if (!warnings.due(about, std::chrono::steady_clock::now())) return;
    const std::size_t more = warnings.take_suppressed(about);
    log_warning(text + (more > 0 ? " (" + std::to_string(more) + " more such lines left out)" : ""));
  }

  void admit(tcp::socket socket) {
    boost::system::error_code error;
    const auto peer = socket.remote_endpoint(error);
    if (error) return;
    const auto local = socket.local_endpoint(error);
    if (error) return;
    const VouchVerdict verdict =
        voucher.judge(peer.address().to_string(), peer.port(), local.address().to_string(), local.port());
    if (!verdict.allowed)
      return warn("refused", "refused a connection to the store's proxy from port " +
                                 std::to_string(peer.port()) + ": " + verdict.reason);
    socket.set_option(tcp::no_delay(true), error);
    auto relay = std::make_shared<Relay>(
        std::move(socket),
        client.open_channel({rendezvous::ChannelKind::store, "", peer.port(), local.port()}));
    relays.insert(relay);
    relay->start([weak = weak_from_this(), gone = std::weak_ptr<Relay>(relay)] {
      if (const auto self = weak.lock()) self->relays.erase(gone.lock());
    });
  }

  void cut() {
    // close() posts the removal, so the set does not change under the loop.
    for (const auto& relay : relays) relay->close();
  }

  rendezvous::CoordinatorClient& client;
  tcp::acceptor acceptor;
  asio::steady_timer pause;
  Voucher voucher;
  rendezvous::PeerLog warnings;
  std::set<std::shared_ptr<Relay>> relays;
  bool closed = false;
};

StoreProxy::StoreProxy(const asio::any_io_executor& executor, rendezvous::CoordinatorClient& client)
    : state_(std::make_shared<State>(executor, client)) {
  state_->accept();
}

StoreProxy::~StoreProxy() {
  state_->closed = true;
  state_->cut();
  state_->pause.cancel();
  boost::system::error_code ignored;
  state_->acceptor.close(ignored);
}

int StoreProxy::port() const {
  return state_->acceptor.local_endpoint().port();
}

void StoreProxy::cut() {
  state_->cut();
}

}  // namespace muster::agent
