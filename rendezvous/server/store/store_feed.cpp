// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/server/store/store_feed.hpp"

#include "rendezvous/base/while_alive.hpp"
#include "rendezvous/c10d/session.hpp"

#include <algorithm>
#include <span>
#include <string>
#include <utility>

namespace muster::rendezvous {
namespace {

/// An agent's proxy listens there.
SocketAddress loopback(int port) {
  return resolve("127.0.0.1", port).front();
}

}  // namespace

class FedStore::Client final : private c10d::Session::Owner, public std::enable_shared_from_this<Client> {
 public:
  Client(FedStore& owner, std::shared_ptr<Channel> channel, const FedClient& place)
      : owner_(owner), place_(place), channel_(std::move(channel)), session_(owner.store_, *this) {}

  void start() {
    Channel::Handlers handlers;
    handlers.data = while_alive(weak_from_this(), &Client::on_data);
    handlers.writable = while_alive(weak_from_this(), &Client::flush);
    handlers.closed = while_alive(weak_from_this(), [](Client& self, const std::string&) { self.end(""); });
    channel_->handle(std::move(handlers));
  }

  void flush() {
    while (channel_ && !session_.output().empty()) {
      const std::size_t count = std::min(session_.output().size(), channel_->writable());
      if (count == 0) break;
      channel_->send(session_.output().substr(0, count));
      session_.output_sent(count);
    }
    account(session_.memory());
  }

  const FedClient& place() const { return place_; }

  const c10d::Session& session() const { return session_; }

  void end(const std::string& reason) {
    const auto self = shared_from_this();
    session_.abandon();
    account(0);
    if (const auto channel = std::exchange(channel_, nullptr)) channel->close(reason);
    owner_.clients_.erase(self);
  }

 private:
  void on_data(std::string_view bytes) {
    const auto self = shared_from_this();
    const std::size_t size = bytes.size();
    while (!bytes.empty() && channel_) {
      const std::span<char> space = session_.input_space();
      const std::size_t count = std::min(space.size(), bytes.size());
      std::copy_n(bytes.begin(), count, space.begin());
      bytes.remove_prefix(count);
      if (!session_.input(count)) {
        flush();
        end(session_.error());
      }
    }
    if (channel_) channel_->consumed(size);
    flush();
    if (channel_ && owner_.under_way(place_.node) > owner_.max_node_bytes_)
      end("the clients of this node have more than " + std::to_string(owner_.max_node_bytes_) +
          " bytes of requests and replies under way");
    owner_.flush_woken();
  }

  /// Sets how much of its node's budget counts for this client from now on.
  void account(std::size_t bytes) {
    if (!channel_) bytes = 0;
    if (bytes == counted_) return;
    const std::size_t of_node = owner_.under_way(place_.node) - std::exchange(counted_, bytes) + bytes;
    if (of_node == 0)
      owner_.under_way_.erase(place_.node);
    else
      owner_.under_way_[place_.node] = of_node;
  }

  void output_ready() override { owner_.woken_.push_back(weak_from_this()); }

  FedStore& owner_;
  FedClient place_;
  std::size_t counted_ = 0;
  std::shared_ptr<Channel> channel_;
  c10d::Session session_;
};

std::size_t FedStore::under_way(SessionId node) const {
  const auto found = under_way_.find(node);
  return found == under_way_.end() ? 0 : found->second;
}

void FedStore::feed(std::shared_ptr<Channel> channel, const FedClient& place) {
  const auto client = std::make_shared<Client>(*this, std::move(channel), place);
  clients_.insert(client);
  client->start();
}

std::vector<StoreWait> FedStore::waits(std::size_t most) const {
  StoreWaits waits(store_, most);
  for (const std::shared_ptr<Client>& client : clients_)
    if (StoreWait* const wait = waits.add(client->session())) {
      const FedClient& place = client->place();
      wait->peer = loopback(place.worker_port);
      wait->local = loopback(place.proxy_port);
      wait->node = place.node;
    }
  return waits.take();
}

void FedStore::close() {
  while (!clients_.empty()) {
    const std::shared_ptr<Client> client = *clients_.begin();
    client->end("the round is over");
  }
  store_.clear();
}

void FedStore::flush_woken() {
  if (std::exchange(flushing_, true)) return;
  while (!woken_.empty()) {
    const std::shared_ptr<Client> client = woken_.back().lock();
    woken_.pop_back();
    if (client) client->flush();
  }
  flushing_ = false;
}

}  // namespace muster::rendezvous
