// SPDX-License-Identifier: Apache-2.0
#include "worker_sdk/world/store_thread.hpp"

#include "muster/error.hpp"
#include "rendezvous/base/deadline.hpp"
#include "rendezvous/base/quiet_thread.hpp"

#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <new>
#include <optional>
#include <stdexcept>
#include <system_error>

namespace muster {
namespace {

using std::chrono::milliseconds;
using Clock = std::chrono::steady_clock;

/// Throws Error for an address on which the store must not listen. The engine would refuse it as well, but
/// with the options of another program in its text.
void check_address(const std::string& host, const rendezvous::SocketAddress& address, bool has_allow_list) {
  if (address.is_wildcard())
    throw Error(ErrorCode::invalid_argument,
                "rank 0 will not serve the store on every address of this machine (" + host +
                    "); name the one address that the other ranks use");
  if (!address.is_loopback() && !has_allow_list)
    throw Error(
        ErrorCode::invalid_argument,
        "rank 0 will not serve the store on " + address.text() +
            " for everyone who can reach it; set MUSTER_STORE_ALLOW to the addresses of the job's hosts "
            "(10.0.0.1,10.0.0.2 or 10.0.0.0/24), the same on all ranks");
}

rendezvous::StoreServerOptions server_options(const std::string& host, int port,
                                              std::vector<rendezvous::Cidr> allow) {
  rendezvous::StoreServerOptions options;
  options.host = host;
  options.port = port;
  for (const auto& address : rendezvous::resolve(host, port)) {
    check_address(host, address, !allow.empty());
    if (!allow.empty()) allow.push_back(rendezvous::Cidr::parse(address.host()).value());
  }
  options.allow_from = std::move(allow);
  options.warn = [](const std::string& text) { std::fprintf(stderr, "muster: %s\n", text.c_str()); };
  return options;
}

rendezvous::StoreEngine make_engine(const std::string& host, int port, std::vector<rendezvous::Cidr> allow) {
  try {
    return rendezvous::StoreEngine(server_options(host, port, std::move(allow)));
  } catch (const Error&) {
    throw;
  } catch (const std::runtime_error& error) {
    throw Error(ErrorCode::io, std::string("rank 0 cannot serve the store: ") + error.what());
  }
}

}  // namespace

StoreThread::StoreThread(const std::string& host, int port, std::vector<rendezvous::Cidr> allow)
    : engine_(make_engine(host, port, std::move(allow))) {
  if (!wake_up_)
    throw Error(ErrorCode::io,
                "rank 0 cannot serve the store: eventfd: " + std::generic_category().message(errno));
  thread_ = quiet_thread([this] { serve(); });
}

StoreThread::~StoreThread() {
  stop_ = true;
  wake_up_.signal();
  thread_.join();
}

void StoreThread::serve() {
  while (true) {
    pollfd watched[] = {{engine_.descriptor(), POLLIN, 0}, {wake_up_.fd(), POLLIN, 0}};
    const int count = ::poll(watched, 2, poll_time(engine_.next_deadline()));
    if (stop_) break;
    if (count > 0 && watched[1].revents != 0) wake_up_.clear();
    try {
      if (count > 0) engine_.turn();
      engine_.cut_overdue(Clock::now());
    } catch (const std::bad_alloc&) {
      // Without memory for its clients the store ends; the clients learn it by the end of their connections.
      engine_.close();
      break;
    }
    const std::lock_guard lock(mutex_);
    connections_ = engine_.counters().connections;
    counted_ = true;
    changed_.notify_all();
  }
  engine_.close();
  const std::lock_guard lock(mutex_);
  connections_ = 0;
  counted_ = true;
  changed_.notify_all();
}

bool StoreThread::wait_until_unused(std::size_t own, milliseconds limit) {
  std::unique_lock lock(mutex_);
  // A busy store serves its clients for a while before it counts them again.
  counted_ = false;
  wake_up_.signal();
  return changed_.wait_for(lock, limit, [this, own] { return counted_ && connections_ <= own; });
}

std::vector<rendezvous::Cidr> parse_allow_list(const std::string& what, const std::string& text) {
  std::vector<rendezvous::Cidr> list;
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.find(',', begin), text.size());
    const std::string entry = text.substr(begin, end - begin);
    const auto cidr = rendezvous::Cidr::parse(entry);
    if (!cidr)
      throw Error(ErrorCode::invalid_argument,
                  what + ": '" + entry + "' is no address, and no network like 10.0.0.0/24");
    list.push_back(*cidr);
    begin = end + 1;
  }
  return list;
}

}  // namespace muster
