// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/server/keyless_store.hpp"

#include "rendezvous/log/log.hpp"

#include <boost/asio/post.hpp>

#include <string>
#include <utility>

namespace muster::rendezvous {

KeylessStore::KeylessStore(const StoreServerOptions& options)
    : max_connections_(options.max_connections),
      thread_([](const std::string& what) { log_error("in the store of clients without a key: " + what); }),
      server_(std::make_shared<StoreServer>(thread_.executor(), options)) {}

void KeylessStore::adopt(UniqueFd fd, const SocketAddress& peer) {
  // Those that wait for a busy thread hold descriptors too.
  if (server_->connections() + *on_the_way_ >= max_connections_) return;
  ++*on_the_way_;
  const auto held = std::make_shared<UniqueFd>(std::move(fd));
  boost::asio::post(thread_.executor(),
                    [server = std::weak_ptr(server_), on_the_way = on_the_way_, held, peer] {
                      --*on_the_way;
                      if (const auto alive = server.lock()) alive->adopt(std::move(*held), peer);
                    });
}

void KeylessStore::close() {
  thread_.stop();
  server_->close();
}

}  // namespace muster::rendezvous
