// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/server/listen/control_port.hpp"

#include "rendezvous/base/deadline.hpp"
#include "rendezvous/base/random.hpp"
#include "rendezvous/base/while_alive.hpp"
#include "rendezvous/log/log.hpp"
#include "rendezvous/protocol/limits.hpp"
#include "rendezvous/server/admission.hpp"
#include "rendezvous/server/descriptor_limit.hpp"
#include "rendezvous/server/listen/early_store_client.hpp"
#include "rendezvous/server/listen/loop_thread.hpp"
#include "rendezvous/server/listen/visitor.hpp"
#include "rendezvous/server/refusals.hpp"
#include "rendezvous/tls/tls_stream.hpp"

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <sys/socket.h>

#include <atomic>
#include <cerrno>
#include <cstring>
#include <exception>
#include <optional>
#include <random>
#include <utility>

namespace muster::rendezvous {
namespace {

namespace asio = boost::asio;

/// The first byte of a TLS connection: a handshake record. The store's protocol begins with a smaller number.
constexpr unsigned char kTlsHandshake = 0x16;

/// The connections taken in one turn (a handshake takes 0.2 ms), and the fewer ones taken, with a pause after
/// them, while strangers crowd the port: a flood must not keep the loop from its known connections.
constexpr int kAcceptsAtOnce = 16;
constexpr int kAcceptsWhenCrowded = 8;
constexpr Milliseconds kCrowdedPause{2};
/// The pause after a connection could not be taken for want of a resource; without it the waiting connection
/// would wake the loop again and again.
constexpr Milliseconds kFailedPause{100};
/// The time that new connections wait in the kernel's queue, once strangers begin to crowd the port, before
/// any is dropped.
constexpr Milliseconds kPatience{1000};

constexpr const char* kTooMany = "there are too many connections that have not said yet who they are";

}  // namespace

class ControlPort::Impl : public std::enable_shared_from_this<ControlPort::Impl> {
 public:
  /// `executor` runs the thread for strangers; `main` the thread on which `service` lives.
  Impl(asio::any_io_executor executor, asio::any_io_executor main, UniqueFd listener,
       std::optional<Secret> secret, ControlPortOptions options, PortService& service)
      : executor_(std::move(executor)),
        main_(std::move(main)),
        expected_(main_),
        address_(local_end(listener.get())),
        listener_(executor_),
        pause_(executor_),
        options_(std::move(options)),
        service_(&service),
        rules_(options_.allow_from, options_.same_user_only),
        gates_(options_.gates ? options_.gates : std::make_shared<Gates>()),
        refusals_(address_.text(), [this](const std::string& line) { say(line); }),
        max_descriptor_(descriptor_limit() - static_cast<int>(kReservedDescriptors)),
        random_(static_cast<unsigned>(random_number())) {
    listener_.assign(listener.release());
    if (secret) tls_.emplace(std::move(*secret), options_.job, options_.other_clients);
  }

  void watch() {
    listener_.async_wait(asio::posix::stream_descriptor::wait_read,
                         while_alive(weak_from_this(), [](Impl& self, boost::system::error_code error) {
                           if (!error && !self.closed_) self.accept_some();
                         }));
  }

  /// Closes the port after the thread for strangers has ended.
  void close() {
    closed_ = true;
    expected_.reset();
    service_ = nullptr;
    pause_.cancel();
    boost::system::error_code ignored;
    listener_.close(ignored);
  }

  const SocketAddress& address() const { return address_; }

  ControlPortCounters counters() const {
    ControlPortCounters counters;
    counters.accepted = accepted_;
    counters.dropped = dropped_;
    counters.authenticated = authenticated_;
    counters.admitted = admitted_;
    counters.refused = refusals_.count();
    const std::scoped_lock lock(gates_->mutex);
    counters.strangers = gates_->strangers.size() + gates_->known.size() + gates_->almost_in.size();
    return counters;
  }

 private:
  enum class Accepted {
    one,
    none,    ///< no connection waits
    failed,  ///< a connection may wait, but cannot be taken now
  };

  void accept_some();
  Milliseconds accept_in_turn();
  void accept_later(Milliseconds pause);
  Accepted accept_one();
  int accept_from_kernel(sockaddr* address, socklen_t* size);
  void admit(UniqueFd fd, const SocketAddress& peer);
  bool is_known(int fd, const SocketAddress& peer);
  asio::awaitable<void> receive(std::shared_ptr<Impl> self, std::shared_ptr<Visitor> visitor);
  asio::awaitable<std::optional<unsigned char>> first_byte(std::shared_ptr<Visitor> visitor);
  asio::awaitable<void> receive_tls(std::shared_ptr<Visitor> visitor);
  asio::awaitable<void> receive_store_client(std::shared_ptr<Visitor> visitor);
  void take_in(AcceptedTls accepted, const SocketAddress& peer);
  void ask_whose(const std::shared_ptr<Visitor>& visitor, const SocketAddress& local, bool here);
  void on_vouched(const std::shared_ptr<Visitor>& visitor, bool allowed, const std::string& reason);
  void say(const std::string& line);

  /// Runs `work` for one connection. A failure, for want of memory or of a kernel resource, ends only that
  /// connection. Returns whether there was no failure.
  template <typename Work>
  bool serve(const SocketAddress& peer, const Work& work) noexcept {
    try {
      try {
        work();
        return true;
      } catch (const std::exception& error) {
        refuse(peer, std::string("serving it failed inside: ") + error.what());
      }
    } catch (const std::exception&) {
      // Even a log line about the failure could not be written.
    }
    return false;
  }

  void refuse(const SocketAddress& peer, const std::string& why) { refusals_.add(peer, why); }

  double chance() { return std::uniform_real_distribution<double>(0.0, 1.0)(random_); }

  bool crowded() const {
    const std::scoped_lock lock(gates_->mutex);
    return gates_->strangers.crowded();
  }

  asio::any_io_executor executor_;
  asio::any_io_executor main_;
  /// Keeps the event loop of main_ running as long as this port may post work to it.
  asio::executor_work_guard<asio::any_io_executor> expected_;
  SocketAddress address_;
  asio::posix::stream_descriptor listener_;
  asio::steady_timer pause_;
  ControlPortOptions options_;
  PortService* service_;
  std::optional<TlsAcceptor> tls_;
  AdmissionRules rules_;
  std::shared_ptr<Gates> gates_;
  Refusals refusals_;
  SpareDescriptor spare_;
  std::atomic<std::uint64_t> accepted_ = 0;
  std::atomic<std::uint64_t> dropped_ = 0;
  std::atomic<std::uint64_t> authenticated_ = 0;
  std::atomic<std::uint64_t> admitted_ = 0;
  int max_descriptor_;
  std::minstd_rand random_;
  std::atomic<bool> closed_ = false;
  TimePoint crowded_since_ = TimePoint::max();
};

/// Takes connections and makes sure that the next one will be taken, whatever fails.
void ControlPort::Impl::accept_some() {
  Milliseconds pause{0};
  const bool went_well = serve(address_, [&] { pause = accept_in_turn(); });
  if (went_well && pause == Milliseconds(0)) return watch();
  accept_later(went_well ? pause : kFailedPause);
}

/// Takes connections once and returns how long to wait before the next turn.
Milliseconds ControlPort::Impl::accept_in_turn() {
  const bool crowded = this->crowded();
  const TimePoint now = steady_now();
  if (!crowded)
    crowded_since_ = TimePoint::max();
  else if (crowded_since_ == TimePoint::max())
    crowded_since_ = now;
  // A thousand agents that are started at once get in within this time; silent strangers do not.
  if (crowded && now - crowded_since_ < kPatience) return kCrowdedPause;
  const int most = crowded ? kAcceptsWhenCrowded : kAcceptsAtOnce;
  Accepted last = Accepted::one;
  for (int taken = 0; taken < most && last == Accepted::one; ++taken) last = accept_one();
  if (last == Accepted::failed) return kFailedPause;
  return crowded && last == Accepted::one ? kCrowdedPause : Milliseconds(0);
}

void ControlPort::Impl::accept_later(Milliseconds pause) {
  pause_.expires_after(pause);
  pause_.async_wait(while_alive(weak_from_this(), [](Impl& self, boost::system::error_code error) {
    if (!error && !self.closed_) self.watch();
  }));
}

int ControlPort::Impl::accept_from_kernel(sockaddr* address, socklen_t* size) {
  const int listener = listener_.native_handle();
  if (options_.accept) return options_.accept(listener, address, size);
  return ::accept4(listener, address, size, SOCK_CLOEXEC | SOCK_NONBLOCK);
}

ControlPort::Impl::Accepted ControlPort::Impl::accept_one() {
  sockaddr_storage storage{};
  socklen_t size = sizeof(storage);
  void* address = &storage;
  UniqueFd fd(accept_from_kernel(static_cast<sockaddr*>(address), &size));
  const int error = errno;
  if (fd) {
    ++accepted_;
    const SocketAddress peer(static_cast<sockaddr*>(address), size);
    serve(peer, [&] { admit(std::move(fd), peer); });
    return Accepted::one;
  }
  if (error == ECONNABORTED || error == EINTR || error == EPROTO) return Accepted::one;
  if (error == EAGAIN) return Accepted::none;
  if (error != EMFILE && error != ENFILE) {
    refuse(address_, std::string("a connection cannot be taken now: ") + std::strerror(error));
    return Accepted::failed;
  }
  const bool turned_away = spare_.accept_and_close(listener_.native_handle());
  if (turned_away) ++dropped_;
  refuse(address_, "no descriptor is left for a new connection; raise the limit (ulimit -n)");
  return turned_away ? Accepted::none : Accepted::failed;
}

/// Whether a connection comes from a host where members of the job are. If the rule alone says whom the store
/// serves, the rule decides this as well; at the port of a store alone, a peer that the rule refuses is no
/// worker of the job.
bool ControlPort::Impl::is_known(int fd, const SocketAddress& peer) {
  const bool place_counts = !options_.store_by_rule;
  if (place_counts && !service_->knows(peer) && peer.bytes() != address_.bytes()) return false;
  if (place_counts && tls_) return true;
  std::string ignored;
  return rules_.admit(peer, local_end(fd), ignored) != Admission::refused;
}

void ControlPort::Impl::admit(UniqueFd fd, const SocketAddress& peer) {
  if (!rules_.allows(peer)) {
    ++dropped_;
    refuse(peer, kNotAllowed);
    return drop(std::move(fd));
  }
  const bool known = is_known(fd.get(), peer);
  const bool too_high = fd.get() >= max_descriptor_;
  const auto visitor = std::make_shared<Visitor>(gates_, std::move(fd), peer);
  if (too_high || !visitor->ticket.enter(known ? &Gates::known : &Gates::strangers, chance())) {
    ++dropped_;
    refuse(peer, kTooMany);
    return drop(std::move(visitor->fd));
  }
  asio::co_spawn(executor_, receive(shared_from_this(), visitor),
                 [weak = weak_from_this(), peer](const std::exception_ptr& error) {
                   const auto self = weak.lock();
                   if (!error || !self) return;
                   self->serve(peer, [&error] { std::rethrow_exception(error); });
                 });
}

/// `self` keeps the object alive as long as this coroutine waits.
asio::awaitable<void> ControlPort::Impl::receive(std::shared_ptr<Impl> self,
                                                 std::shared_ptr<Visitor> visitor) {
  const std::optional<unsigned char> first = co_await first_byte(visitor);
  if (!first || self->closed_) co_return;
  if (*first == kTlsHandshake && tls_)
    co_await receive_tls(visitor);
  else if (*first != kTlsHandshake)
    co_await receive_store_client(visitor);
  else {
    refuse(visitor->peer, "it wants a control connection, and here is none: " + options_.no_control);
    answer_plainly(std::move(visitor->fd), options_.no_control);
  }
}

/// The connection's first byte, which is not taken from it. Nothing: the peer went away or said nothing in
/// time. 0: the peer is a silent client of the store.
asio::awaitable<std::optional<unsigned char>> ControlPort::Impl::first_byte(
    std::shared_ptr<Visitor> visitor) {
  const auto watched = std::make_shared<asio::posix::stream_descriptor>(executor_, visitor->fd.get());
  // The descriptor is released only now: if it could not be watched, it is still ours to close.
  (void)visitor->fd.release();
  asio::steady_timer timer(executor_, visitor->deadline);
  timer.async_wait([watched](boost::system::error_code error) {
    if (!error && watched->is_open()) watched->cancel();
  });
  boost::system::error_code error;
  co_await watched->async_wait(asio::posix::stream_descriptor::wait_read,
                               asio::redirect_error(asio::use_awaitable, error));
  visitor->fd.reset(watched->release());
  unsigned char byte = 0;
  const ssize_t count = error ? -1 : ::recv(visitor->fd.get(), &byte, 1, MSG_PEEK | MSG_DONTWAIT);
  // Torch 1.13 opens a second connection that stays silent; the store knows which of those connections to
  // keep.
  if (count == 1 || (error && options_.store_by_rule)) co_return byte;
  if (error) {
    refuse(visitor->peer, "it said nothing for " + std::to_string(kHelloTimeout.count()) + " ms");
    drop(std::move(visitor->fd));
  }
  co_return std::nullopt;
}

asio::awaitable<void> ControlPort::Impl::receive_tls(std::shared_ptr<Visitor> visitor) {
  std::optional<CoordinatorError> trouble;
  try {
    std::function<bool()> key_shown = [this, visitor] {
      return visitor->ticket.enter(&Gates::almost_in, chance());
    };
    AcceptedTls accepted =
        co_await tls_->accept(executor_, std::move(visitor->fd), visitor->deadline, std::move(key_shown));
    ++authenticated_;
    detach(accepted);
    asio::post(main_, [weak = weak_from_this(), visitor, accepted = std::move(accepted)]() mutable {
      if (const auto impl = weak.lock()) impl->take_in(std::move(accepted), visitor->peer);
    });
  } catch (const CoordinatorError& error) {
    trouble = error;
  }
  if (trouble) refuse(visitor->peer, trouble->what());
}

/// Hands a connection to the service; runs on the main thread, as do all later calls.
void ControlPort::Impl::take_in(AcceptedTls accepted, const SocketAddress& peer) {
  if (closed_) return;
  serve(peer, [&] {
    attach(accepted, main_);
    PeerPlace place;
    place.identity = std::move(accepted.peer);
    place.address = peer;
    service_->add(std::move(accepted.stream), std::move(place));
  });
}

asio::awaitable<void> ControlPort::Impl::receive_store_client(std::shared_ptr<Visitor> visitor) {
  if (!service_->has_running_store()) {
    // No worker of the job connects this early, from whichever host.
    if (!visitor->ticket.enter(&Gates::strangers, chance())) {
      refuse(visitor->peer, kTooMany);
      drop(std::move(visitor->fd));
      co_return;
    }
    const std::string why =
        co_await describe_early_client(executor_, std::move(visitor->fd), visitor->deadline);
    refuse(visitor->peer, why);
    co_return;
  }
  const SocketAddress local = local_end(visitor->fd.get());
  std::string why;
  const Admission admission = rules_.admit(visitor->peer, local, why);
  const bool here = admission == Admission::same_user;
  if (admission != Admission::refused && !here && !service_->could_vouch(visitor->peer))
    why = "no agent of this job is connected from " + visitor->peer.host();
  if (!why.empty()) {
    refuse(visitor->peer, why);
    co_return;
  }
  asio::post(main_, while_alive(weak_from_this(), &Impl::ask_whose, visitor, local, here));
}

void ControlPort::Impl::ask_whose(const std::shared_ptr<Visitor>& visitor, const SocketAddress& local,
                                  bool here) {
  if (closed_) return;
  serve(visitor->peer, [&] {
    service_->vouch(visitor->peer, local, here,
                    [weak = weak_from_this(), visitor](bool allowed, const std::string& reason) {
                      const auto self = weak.lock();
                      if (!self || self->closed_) return;
                      self->serve(visitor->peer, [&] { self->on_vouched(visitor, allowed, reason); });
                    });
  });
}

void ControlPort::Impl::on_vouched(const std::shared_ptr<Visitor>& visitor, bool allowed,
                                   const std::string& reason) {
  const OpenedStore* store = service_->running_store();
  std::string why = reason;
  if (allowed && store != nullptr) {
    store->adopt(std::move(visitor->fd), visitor->peer);
    ++admitted_;
  } else if (allowed) {
    why = "the round it wants to join is over";
  }
  // The thread for strangers does all work that a stranger causes, even the release of its resources.
  asio::post(executor_, [weak = weak_from_this(), visitor, why] {
    const auto self = weak.lock();
    if (self && visitor->fd) self->refuse(visitor->peer, why);
  });
}

void ControlPort::Impl::say(const std::string& line) {
  if (!options_.warn) return log_warning(line);
  asio::post(main_, [weak = weak_from_this(), line] {
    if (const auto self = weak.lock()) self->options_.warn(line);
  });
}

ControlPort::ControlPort(asio::any_io_executor executor, UniqueFd listener, std::optional<Secret> secret,
                         ControlPortOptions options, PortService& service)
    : thread_(std::make_unique<LoopThread>(
          [](const std::string& what) { log_error("at the job's port on the network: " + what); })),
      impl_(std::make_shared<Impl>(thread_->executor(), std::move(executor), std::move(listener),
                                   std::move(secret), std::move(options), service)) {
  asio::post(thread_->executor(), while_alive(std::weak_ptr(impl_), &Impl::watch));
}

ControlPort::~ControlPort() {
  close();
  // Handlers that have not run are destroyed with the thread's event loop, and may hold the last reference to
  // the Impl.
  impl_.reset();
}

const SocketAddress& ControlPort::address() const {
  return impl_->address();
}

ControlPortCounters ControlPort::counters() const {
  return impl_->counters();
}

void ControlPort::close() {
  thread_->stop();
  impl_->close();
}

}  // namespace muster::rendezvous
