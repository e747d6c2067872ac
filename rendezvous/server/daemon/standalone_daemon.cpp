// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/server/daemon/standalone_daemon.hpp"

#include "rendezvous/base/exit_code.hpp"
#include "rendezvous/base/host_port.hpp"
#include "rendezvous/log/log.hpp"
#include "rendezvous/server/daemon/daemon.hpp"
#include "rendezvous/server/daemon/job_directory.hpp"
#include "rendezvous/server/descriptor_limit.hpp"
#include "rendezvous/server/listen/control_port.hpp"
#include "rendezvous/server/listen/loop_thread.hpp"
#include "rendezvous/server/listen/visitor.hpp"
#include "rendezvous/server/listen_socket.hpp"
#include "rendezvous/server/store/opened_store.hpp"
#include "rendezvous/server/store/store_server.hpp"

#include <boost/asio/post.hpp>
#include <boost/asio/signal_set.hpp>
#include <boost/asio/steady_timer.hpp>

#include <atomic>
#include <csignal>
#include <cstdio>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>

namespace muster::rendezvous {
namespace {

// The error for a mistake in the options, as opposed to a machine that does not let us listen.
class UsageError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// The store of clients without a key, in a thread of its own: a costly request (a listing of all keys, say)
/// delays no other part of the daemon and costs only a share of the processor. Used on one thread, except
/// where a method says otherwise.
class KeylessStore {
 public:
  /// `options` are those of hosted_store(). Throws as StoreServer does.
  explicit KeylessStore(const StoreServerOptions& options);

  ~KeylessStore() { close(); }

  KeylessStore(const KeylessStore&) = delete;
  KeylessStore& operator=(const KeylessStore&) = delete;

  /// Serves an admitted connection, or closes it if there are too many.
  void adopt(UniqueFd fd, const SocketAddress& peer);

  /// The number of clients now, or a moment ago.
  std::size_t clients() const { return server_->connections(); }

  /// Ends the thread and cuts all connections before it returns. Idempotent.
  void close();

 private:
  std::size_t max_connections_;
  /// The number of connections on their way to the store's thread.
  std::shared_ptr<std::atomic<std::size_t>> on_the_way_ = std::make_shared<std::atomic<std::size_t>>(0);
  LoopThread thread_;
  std::shared_ptr<StoreServer> server_;
};

KeylessStore::KeylessStore(const StoreServerOptions& options)
    : max_connections_(options.max_connections),
      thread_([](const std::string& what) { log_error("in the store of clients without a key: " + what); }),
      server_(std::make_shared<StoreServer>(thread_.executor(), options)) {}

void KeylessStore::adopt(UniqueFd fd, const SocketAddress& peer) {
  // Connections that wait for a busy thread hold descriptors as well.
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

HostPort target_of(const StandaloneOptions& options) {
  auto target = parse_host_port(options.listen);
  if (!target)
    throw UsageError("--listen '" + options.listen +
                     "' is not HOST:PORT (port 0 to 65535; write an IPv6 address as [::1]:PORT)");
  return *target;
}

std::vector<Cidr> allowed_by(const StandaloneOptions& options) {
  std::vector<Cidr> allowed;
  for (const std::string& text : options.allow_from) {
    const auto cidr = Cidr::parse(text);
    if (!cidr)
      throw UsageError("--allow-from '" + text + "' is neither an address nor a block such as 10.0.0.0/8");
    allowed.push_back(*cidr);
  }
  return allowed;
}

/// Refuses a key that everybody knows beyond loopback: whoever has the key could run programs as this user.
void check_public_key(const StandaloneOptions& options, const SocketAddress& address) {
  if (options.key_is_public && !address.is_loopback())
    throw UsageError("--insecure-no-secret is for jobs on one machine, and " + address.text() +
                     " is no loopback address: whoever reaches it could run programs as this user; leave "
                     "the flag out, or listen on 127.0.0.1");
}

void check_addresses(const StandaloneOptions& options, const HostPort& target) {
  for (const SocketAddress& address : resolve(target.host, target.port)) {
    const std::string refusal = refuse_to_listen(address, !options.allow_from.empty(), options.listen_any);
    if (!refusal.empty()) throw UsageError(refusal);
    check_public_key(options, address);
  }
}

void announce(const SocketAddress& endpoint) {
  std::printf("{\"endpoint\":\"%s\"}\n", endpoint.text().c_str());
  if (std::fflush(stdout) != 0)
    log_warning("nobody reads our standard output; the endpoint is " + endpoint.text());
}

/// The gates of all ports together: strangers must leave descriptors for the peers that are in.
std::shared_ptr<Gates> shared_gates() {
  return std::make_shared<Gates>(static_cast<std::size_t>(descriptor_limit()) / 8);
}

ControlPortOptions port_options(const StandaloneOptions& options, std::vector<Cidr> allowed,
                                std::shared_ptr<Gates> gates) {
  ControlPortOptions port;
  port.allow_from = std::move(allowed);
  port.same_user_only = options.same_user_only;
  port.store_by_rule = true;
  port.gates = std::move(gates);
  port.no_control = "this daemon has no key, and hosts no jobs";
  return port;
}

HostingOptions hosting_options(const StandaloneOptions& options, const SocketAddress& address,
                               std::vector<Cidr> allowed, std::shared_ptr<Gates> gates) {
  HostingOptions hosting;
  hosting.address = address;
  hosting.version = options.version;
  hosting.allow_from = std::move(allowed);
  hosting.same_user_only = options.same_user_only;
  hosting.gates = std::move(gates);
  if (address.is_wildcard())
    hosting.refusal = "the daemon at " + address.text() +
                      " listens on every address and hosts no jobs, whose workers must be told one; start it "
                      "with that one in --listen";
  return hosting;
}

/// Jobs and the store of clients without a key on one port, until a signal ends them.
class StandaloneDaemon final : public Daemon {
 public:
  StandaloneDaemon(StandaloneOptions& options, ListenSocket listener, const std::vector<Cidr>& allowed)
      : address_(listener.address),
        signals_(context_, SIGTERM, SIGINT),
        leave_(context_),
        store_(std::make_shared<KeylessStore>(hosted_store(address_))),
        directory_(context_.get_executor(), hosting_options(options, address_, allowed, gates_),
                   own_store(store_), [store = store_] { return static_cast<int>(store->clients()); }),
        port_(context_.get_executor(), std::move(listener.fd), std::move(options.key),
              port_options(options, allowed, gates_), directory_) {
    signals_.async_wait([this](boost::system::error_code error, int signal) {
      if (!error) take_leave(signal);
    });
  }

 private:
  /// Tells the jobs' nodes that the daemon ends, and gives them a while to leave.
  void take_leave(int signal) {
    takes_leave_ = true;
    directory_.end("the rendezvous daemon at " + address_.text() + " was ended by " +
                   (signal == SIGTERM ? "SIGTERM" : "SIGINT"));
    leave_.expires_after(kDaemonTakesLeave);
    leave_.async_wait([this](boost::system::error_code error) { took_leave_ = !error; });
  }

  bool is_over() override { return takes_leave_ && (took_leave_ || directory_.deserted()); }

  void stop() override {
    leave_.cancel();
    port_.close();
    directory_.stop();
  }

  static OpenedStore own_store(const std::shared_ptr<KeylessStore>& keyless) {
    OpenedStore store;
    store.close = [keyless] { keyless->close(); };
    store.adopt = [keyless](UniqueFd fd, const SocketAddress& peer) { keyless->adopt(std::move(fd), peer); };
    return store;
  }

  SocketAddress address_;
  std::shared_ptr<Gates> gates_ = shared_gates();
  boost::asio::signal_set signals_;
  boost::asio::steady_timer leave_;
  std::shared_ptr<KeylessStore> store_;
  JobDirectory directory_;
  ControlPort port_;
  bool takes_leave_ = false;
  bool took_leave_ = false;
};

}  // namespace

int run_standalone_daemon(StandaloneOptions options) {
  try {
    const HostPort target = target_of(options);
    const std::vector<Cidr> allowed = allowed_by(options);
    check_addresses(options, target);
    raise_descriptor_limit();
    ListenSocket listener =
        open_listen_socket(target.host, target.port, !allowed.empty(), options.listen_any);
    const SocketAddress address = listener.address;
    // The name may stand for another address by now, so the bound address is checked.
    check_public_key(options, address);
    StandaloneDaemon daemon(options, std::move(listener), allowed);
    announce(address);
    daemon.run();
    return kExitSuccess;
  } catch (const UsageError& error) {
    log_error(error.what());
    return kExitUsage;
  } catch (const std::exception& error) {
    log_error(error.what());
    return kExitLauncherFailure;
  }
}

}  // namespace muster::rendezvous
