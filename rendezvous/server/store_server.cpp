// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/server/store_server.hpp"

#include "rendezvous/log/log.hpp"

#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <fcntl.h>

#include <atomic>
#include <cerrno>
#include <cstring>
#include <stdexcept>
#include <utility>

namespace muster::rendezvous {

namespace asio = boost::asio;

namespace {

StoreServerOptions with_log(StoreServerOptions options) {
  if (!options.warn) options.warn = [](const std::string& text) { log_warning(text); };
  return options;
}

}  // namespace

class StoreServer::Impl : public std::enable_shared_from_this<StoreServer::Impl> {
 public:
  Impl(const asio::any_io_executor& executor, StoreServerOptions options)
      : engine_(with_log(std::move(options))), watched_(executor), deadline_(executor) {
    const int duplicate = ::fcntl(engine_.descriptor(), F_DUPFD_CLOEXEC, 0);
    if (duplicate < 0)
      throw std::runtime_error(std::string("cannot duplicate a descriptor: ") + std::strerror(errno));
    watched_.assign(duplicate);
  }

  void watch() {
    if (closed_) return;
    watched_.async_wait(asio::posix::stream_descriptor::wait_read,
                        [weak = weak_from_this()](const boost::system::error_code& error) {
                          const auto self = weak.lock();
                          if (!self || error || self->closed_) return;
                          self->engine_.turn();
                          self->count();
                          self->arm_deadline();
                          self->watch();
                        });
  }

  void close() {
    if (closed_) return;
    closed_ = true;
    deadline_.cancel();
    boost::system::error_code ignored;
    watched_.close(ignored);
    engine_.close();
    count();
  }

  void adopt(UniqueFd fd, const SocketAddress& peer) {
    if (closed_) return;
    engine_.adopt(std::move(fd), peer);
    count();
    arm_deadline();
  }

  const StoreEngine& engine() const { return engine_; }

  std::size_t connections() const { return connections_.load(std::memory_order_relaxed); }

 private:
  void count() { connections_.store(engine_.connections(), std::memory_order_relaxed); }

  // One timer for all: the wait is the same for every connection, so the oldest is always the next.
  void arm_deadline() {
    const auto next = engine_.next_deadline();
    if (deadline_armed_ || !next) return;
    deadline_armed_ = true;
    deadline_.expires_at(*next);
    deadline_.async_wait([weak = weak_from_this()](const boost::system::error_code& error) {
      const auto self = weak.lock();
      if (!self || error || self->closed_) return;
      self->deadline_armed_ = false;
      self->engine_.cut_overdue(std::chrono::steady_clock::now());
      self->count();
      self->arm_deadline();
    });
  }

  StoreEngine engine_;
  asio::posix::stream_descriptor watched_;  // a duplicate of the engine's, owned by Asio
  asio::steady_timer deadline_;
  bool deadline_armed_ = false;
  bool closed_ = false;
  std::atomic<std::size_t> connections_ = 0;
};

StoreServer::StoreServer(asio::any_io_executor executor, StoreServerOptions options)
    : impl_(std::make_shared<Impl>(executor, std::move(options))) {
  asio::post(executor, [weak = std::weak_ptr(impl_)] {
    if (const auto impl = weak.lock()) impl->watch();
  });
}

StoreServer::~StoreServer() {
  impl_->close();
}

const SocketAddress& StoreServer::endpoint() const {
  return impl_->engine().endpoint();
}

void StoreServer::adopt(UniqueFd fd, const SocketAddress& peer) {
  impl_->adopt(std::move(fd), peer);
}

void StoreServer::close() {
  impl_->close();
}

StoreServerCounters StoreServer::counters() const {
  return impl_->engine().counters();
}

std::size_t StoreServer::connections() const {
  return impl_->connections();
}

}  // namespace muster::rendezvous
