// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/server/store/store_engine.hpp"

#include "rendezvous/server/descriptor_limit.hpp"
#include "rendezvous/server/listen_socket.hpp"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sched.h>
#include <sys/resource.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <stdexcept>
#include <utility>

namespace muster::rendezvous {

using Clock = std::chrono::steady_clock;

namespace {

// The time for which the thread looks for the next request before it sleeps, giving way to every other
// process meanwhile: a client that asks again right away (get is a wait and a get) then does not pay for
// waking this thread, which costs more than the request. The thread does not spin while no client asks.
constexpr std::chrono::microseconds kLookOn{50};
// The most rounds and the longest time of one turn: after that control goes back to the caller's loop, which
// may have others to serve.
constexpr int kRoundsPerTurn = 64;
constexpr std::chrono::milliseconds kTurnAtMost{5};
// The clock is read once for this many events, and after each heavy one: most events cost less than a few
// readings of the clock, but a listing of millions of keys costs a tenth of a second.
constexpr int kEventsPerClock = 16;

UniqueFd make_epoll() {
  UniqueFd fd(::epoll_create1(EPOLL_CLOEXEC));
  if (!fd)
    throw std::runtime_error(std::string("cannot create an epoll descriptor: ") + std::strerror(errno));
  return fd;
}

bool watch_descriptor(int epoll, int operation, int fd, std::uint32_t events, void* owner) {
  epoll_event event{};
  event.events = events;
  event.data.ptr = owner;
  return ::epoll_ctl(epoll, operation, fd, &event) == 0;
}

ListenSocket listener_for(const StoreServerOptions& options) {
  if (options.listen)
    return open_listen_socket(options.host, options.port, !options.allow_from.empty(),
                              options.allow_wildcard);
  ListenSocket listener;
  listener.address = resolve(options.host, options.port).front();
  return listener;
}

// The descriptor limit less what the rest of the program needs, or `wanted` if that is lower.
std::size_t connection_limit(std::size_t wanted) {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur <= 2 * kReservedDescriptors) return wanted;
  return std::min<std::size_t>(wanted, limit.rlim_cur - kReservedDescriptors);
}

}  // namespace

StoreEngine::StoreEngine(StoreServerOptions options)
    : options_(std::move(options)),
      listener_(listener_for(options_)),
      epoll_(make_epoll()),
      admission_(options_.allow_from, options_.same_user_only),
      store_(options_.max_store_bytes),
      connections_(store_, *this) {
  options_.max_connections = connection_limit(options_.max_connections);
  if (listener_.fd && !watch_descriptor(epoll_.get(), EPOLL_CTL_ADD, listener_.fd.get(), EPOLLIN, nullptr)) {
    throw std::runtime_error(std::string("cannot watch the listening socket: ") + std::strerror(errno));
  }
}

void StoreEngine::turn() {
  if (closed_) return;
  const auto began = Clock::now();
  const auto until = began + kTurnAtMost;
  auto look_until = began + kLookOn;
  for (int round = 0; round < kRoundsPerTurn;) {
    if (handle_events(until) > 0) {
      const auto now = Clock::now();
      if (now >= until) break;
      ++round;
      look_until = now + kLookOn;
    } else if (Clock::now() < look_until) {
      ::sched_yield();
    } else {
      break;
    }
  }
}

int StoreEngine::handle_events(TimePoint until) {
  if (next_event_ == event_count_ && !fetch_events()) return 0;
  const int first = next_event_;
  while (next_event_ < event_count_) {
    const epoll_event& event = events_[static_cast<std::size_t>(next_event_++)];
    bool heavy = false;
    if (event.data.ptr == nullptr) {
      knock_ = true;  // new connections come after those already in
    } else {
      heavy = handle(*static_cast<StoreConnection*>(event.data.ptr), event.events);
    }
    // The remaining events are carried out first in the next turn: if they were fetched anew, the first ones
    // would be served again and again, and the last ones never.
    if ((heavy || (next_event_ - first) % kEventsPerClock == 0) && Clock::now() >= until) break;
  }
  const int handled = next_event_ - first;
  if (next_event_ == event_count_ && std::exchange(knock_, false)) accept_some();
  bury();
  return handled;
}

/// Fetches the next events; false if there are none.
bool StoreEngine::fetch_events() {
  next_event_ = 0;
  event_count_ = std::max(0, ::epoll_wait(epoll_.get(), events_.data(), kEventsPerTurn, 0));
  return event_count_ > 0;
}

/// Destroys removed connections, but not while events that may be theirs still wait.
void StoreEngine::bury() {
  if (next_event_ == event_count_) connections_.bury();
}

/// Handles the events of a connection. True: it may have taken long.
bool StoreEngine::handle(StoreConnection& connection, std::uint32_t events) {
  if (connection.dead) return false;
  std::size_t memory = connection.session().memory();
  if ((events & ~std::uint32_t{EPOLLOUT}) != 0) {
    const std::uint64_t before = connection.session().requests();
    const StoreConnection::Result result = connection.read();
    counters_.requests += connection.session().requests() - before;
    memory = std::max(memory, connection.session().memory());
    if (result != StoreConnection::Result::good) {
      if (result == StoreConnection::Result::broken) {
        ++counters_.cut_for_error;
        cut(connection, connection.session().error());
      } else {
        remove(connection);
      }
      flush_woken();
      return true;
    }
    if (before == 0 && connection.session().established()) connections_.established(connection);
  }
  flush(connection);
  flush_woken();
  return memory > kKeptBufferBytes;
}

void StoreEngine::flush_woken() {
  auto& woken = connections_.woken();
  while (!woken.empty()) {
    StoreConnection& connection = *woken.back();
    woken.pop_back();
    flush(connection);
  }
}

void StoreEngine::flush(StoreConnection& connection) {
  const bool has_work = connection.has_output() || connection.wants_write;
  if (has_work && (connection.flush() != StoreConnection::Result::good || !update_interest(connection)))
    return remove(connection);
  account(connection, connection.session().memory());
  while (under_way_ > options_.max_bytes_under_way) cut_heaviest();
}

bool StoreEngine::room_for(StoreConnection& asker, std::size_t bytes) {
  account(asker, asker.session().memory());
  const std::size_t most = options_.max_bytes_under_way;
  while (bytes > most || under_way_ > most - bytes) {
    const StoreConnection* heaviest = connections_.heaviest();
    if (heaviest == &asker || heaviest->bytes_counted <= asker.bytes_counted + bytes) return false;
    cut_heaviest();
  }
  return true;
}

/// Cuts the connection that takes most memory. The connection that comes last is not the one, because a
/// client with little would pay for others.
void StoreEngine::cut_heaviest() {
  ++counters_.cut_for_error;
  cut(*connections_.heaviest(), "the clients of this store have more than " +
                                    std::to_string(options_.max_bytes_under_way) +
                                    " bytes of requests and replies under way, and it has most of them");
}

/// Sets how much of the budget counts for this connection from now on.
void StoreEngine::account(StoreConnection& connection, std::size_t bytes) {
  under_way_ += bytes - std::exchange(connection.bytes_counted, bytes);
}

void StoreEngine::remove(StoreConnection& connection) {
  account(connection, 0);
  connections_.remove(connection);
}

bool StoreEngine::update_interest(StoreConnection& connection) {
  if (connection.has_output() == connection.wants_write) return true;
  connection.wants_write = !connection.wants_write;
  const std::uint32_t events = connection.wants_write ? EPOLLIN | EPOLLOUT : EPOLLIN;
  return watch_descriptor(epoll_.get(), EPOLL_CTL_MOD, connection.fd(), events, &connection);
}

void StoreEngine::accept_some() {
  for (int i = 0; i < kAcceptsPerWakeUp; ++i) {
    if (!accept_one()) break;
  }
}

bool StoreEngine::accept_one() {
  sockaddr_storage storage{};
  socklen_t size = sizeof(storage);
  void* address = &storage;
  UniqueFd fd(
      ::accept4(listener_.fd.get(), static_cast<sockaddr*>(address), &size, SOCK_CLOEXEC | SOCK_NONBLOCK));
  if (!fd) {
    if (errno == EMFILE || errno == ENFILE) {
      // Without this the waiting connection would wake us again and again.
      spare_.accept_and_close(listener_.fd.get());
      ++counters_.refused;
      complain(listener_.address, "no descriptor is left for a new connection; raise the limit (ulimit -n)");
      return false;
    }
    return errno == ECONNABORTED || errno == EINTR || errno == EPROTO;
  }
  take_in(std::move(fd), SocketAddress(static_cast<sockaddr*>(address), size));
  return true;
}

void StoreEngine::take_in(UniqueFd fd, const SocketAddress& peer) {
  if (is_full(peer)) return;
  const SocketAddress local = local_end(fd.get());
  if (local.family() == AF_UNSPEC) return;
  std::string why;
  const Admission admission = admission_.admit(peer, local, why);
  if (admission == Admission::refused) return refuse(peer, why);
  if (admission == Admission::by_address) make_room_for(peer);
  serve(std::move(fd), peer);
}

void StoreEngine::adopt(UniqueFd fd, const SocketAddress& peer) {
  if (!closed_ && !is_full(peer)) serve(std::move(fd), peer);
}

bool StoreEngine::is_full(const SocketAddress& peer) {
  if (connections_.size() < options_.max_connections) return false;
  refuse(peer,
         "there are already " + std::to_string(connections_.size()) + " connections, all that are allowed");
  return true;
}

void StoreEngine::serve(UniqueFd fd, const SocketAddress& peer) {
  const int on = 1;
  ::setsockopt(fd.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
  StoreConnection& connection =
      connections_.add(std::move(fd), peer, Clock::now() + options_.handshake_timeout);
  if (!watch_descriptor(epoll_.get(), EPOLL_CTL_ADD, connection.fd(), EPOLLIN, &connection)) {
    remove(connection);
    return;
  }
  ++counters_.accepted;
}

/// Cuts a waiting connection for a new one. A host that floods loses its own connections first.
void StoreEngine::make_room_for(const SocketAddress& peer) {
  const auto silent_for_long = Clock::now() + options_.handshake_timeout - kPendingBurst;
  StoreConnection* oldest =
      connections_.oldest_pending_from(peer, kMaxPendingHandshakesPerAddress, silent_for_long);
  if (oldest == nullptr && connections_.pending() >= kMaxPendingHandshakes)
    oldest = connections_.oldest_pending();
  if (oldest == nullptr) return;
  ++counters_.cut_silent;
  cut(*oldest, "too many connections have sent no first message, and it is the oldest of them");
}

void StoreEngine::refuse(const SocketAddress& peer, const std::string& why) {
  ++counters_.refused;
  complain(peer, "refused a connection: " + why);
}

void StoreEngine::cut(StoreConnection& connection, const std::string& why) {
  complain(connection.peer(), "closed a connection: " + why);
  remove(connection);
}

void StoreEngine::complain(const SocketAddress& peer, const std::string& text) {
  const std::string host = peer.host();
  if (!peer_log_.due(host, Clock::now())) return;
  const std::size_t suppressed = peer_log_.take_suppressed(host);
  const std::string more =
      suppressed == 0 ? "" : " (" + std::to_string(suppressed) + " more such lines left out)";
  if (options_.warn)
    options_.warn("store " + listener_.address.text() + ", peer " + peer.text() + ": " + text + more);
}

void StoreEngine::cut_overdue(TimePoint now) {
  if (closed_) return;
  while (StoreConnection* connection = connections_.take_overdue(now)) {
    ++counters_.cut_silent;
    cut(*connection,
        "no whole first message came within " + std::to_string(options_.handshake_timeout.count()) + " ms");
  }
  bury();
}

void StoreEngine::close() {
  if (closed_) return;
  closed_ = true;
  under_way_ = 0;
  next_event_ = event_count_ = 0;
  epoll_.reset();
  listener_.fd.reset();
  connections_.clear();
  store_.clear();
}

std::vector<StoreWait> StoreEngine::waits(std::size_t most) const {
  StoreWaits waits(store_, most);
  for (const StoreConnection& connection : connections_.all())
    if (StoreWait* const wait = waits.add(connection.session())) {
      wait->peer = connection.peer();
      wait->local = local_end(connection.fd());
    }
  return waits.take();
}

StoreServerCounters StoreEngine::counters() const {
  StoreServerCounters counters = counters_;
  counters.connections = connections_.size();
  counters.store_bytes = store_.memory();
  return counters;
}

}  // namespace muster::rendezvous
