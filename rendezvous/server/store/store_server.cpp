// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/server/store/store_server.hpp"

#include "rendezvous/log/log.hpp"

#include <boost/asio/post.hpp>
#include <fcntl.h>

#include <cerrno>
#include <cstring>
#include <stdexcept>
#include <utility>

namespace muster::rendezvous {

namespace {

using Error = boost::system::error_code;

StoreServerOptions with_log(StoreServerOptions options) {
  if (!options.warn) options.warn = [](const std::string& text) { log_warning(text); };
  return options;
}

}  // namespace

StoreServer::StoreServer(const boost::asio::any_io_executor& executor, StoreServerOptions options)
    : engine_(with_log(std::move(options))), watched_(executor), deadline_(executor) {
  const int duplicate = ::fcntl(engine_.descriptor(), F_DUPFD_CLOEXEC, 0);
  if (duplicate < 0)
    throw std::runtime_error(std::string("cannot duplicate a descriptor: ") + std::strerror(errno));
  watched_.assign(duplicate);
  boost::asio::post(executor, [this, alive = std::weak_ptr(alive_)] {
    if (!alive.expired()) watch();
  });
}

void StoreServer::watch() {
  if (closed_) return;
  watched_.async_wait(boost::asio::posix::stream_descriptor::wait_read,
                      [this, alive = std::weak_ptr(alive_)](const Error& error) {
                        if (alive.expired() || error || closed_) return;
                        engine_.turn();
                        count();
                        arm_deadline();
                        watch();
                      });
}

// One timer serves all connections: the wait is equally long for each, so the oldest is always the next.
void StoreServer::arm_deadline() {
  const auto next = engine_.next_deadline();
  if (deadline_armed_ || !next) return;
  deadline_armed_ = true;
  deadline_.expires_at(*next);
  deadline_.async_wait([this, alive = std::weak_ptr(alive_)](const Error& error) {
    if (alive.expired() || error || closed_) return;
    deadline_armed_ = false;
    engine_.cut_overdue(std::chrono::steady_clock::now());
    count();
    arm_deadline();
  });
}

void StoreServer::adopt(UniqueFd fd, const SocketAddress& peer) {
  if (closed_) return;
  engine_.adopt(std::move(fd), peer);
  count();
  arm_deadline();
}

void StoreServer::close() {
  if (closed_) return;
  closed_ = true;
  deadline_.cancel();
  Error ignored;
  watched_.close(ignored);
  engine_.close();
  count();
}

}  // namespace muster::rendezvous
