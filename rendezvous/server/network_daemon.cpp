// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/server/network_daemon.hpp"

#include "rendezvous/base/exit_code.hpp"
#include "rendezvous/log/log.hpp"
#include "rendezvous/munge/credential_reader.hpp"
#include "rendezvous/munge/munge_identity.hpp"
#include "rendezvous/protocol/last_words.hpp"
#include "rendezvous/server/control_port.hpp"
#include "rendezvous/server/embedded_service.hpp"
#include "rendezvous/server/peer_log.hpp"
#include "rendezvous/server/store_feed.hpp"
#include "rendezvous/server/store_server.hpp"

#include <boost/asio/io_context.hpp>

#include <array>
#include <chrono>
#include <utility>

namespace muster::rendezvous {
namespace {

/// When everybody is gone: for what is still on its way out.
constexpr std::chrono::milliseconds kFarewell = std::chrono::seconds(1);

std::string random_nonce() {
  return Secret::random().hex().substr(0, 32);
}

CoordinatorOptions network_coordinator_options(const EmbeddedOptions& options) {
  CoordinatorOptions coordinator = coordinator_options(options);
  coordinator.nonce = random_nonce();
  coordinator.expected_nodes = options.network->expected_nodes;
  // Where nodes are started by name, nobody else has a key.
  coordinator.round.only_expected = !coordinator.expected_nodes.empty();
  return coordinator;
}

/// A store whose clients come through the control port.
OpenedStore open_shared_store(const boost::asio::any_io_executor& executor, const SocketAddress& address) {
  StoreServerOptions options;
  options.listen = false;
  options.host = address.host();
  options.port = address.port();
  const auto server = std::make_shared<StoreServer>(executor, std::move(options));
  OpenedStore store;
  store.endpoint = Endpoint{address.host(), address.port()};
  store.close = [server] { server->close(); };
  store.adopt = [server](UniqueFd fd, const SocketAddress& peer) { server->adopt(std::move(fd), peer); };
  return store;
}

/// A store whose clients come through their agents.
OpenedStore open_fed_store(const SocketAddress& address) {
  const auto fed = std::make_shared<FedStore>(kMaxStoreBytes);
  OpenedStore store;
  store.endpoint = Endpoint{address.host(), address.port()};
  store.close = [fed] { fed->close(); };
  store.feed = [fed](std::shared_ptr<Channel> channel, SessionId node) {
    fed->feed(std::move(channel), node);
  };
  return store;
}

SocketAddress address_of(int fd) {
  sockaddr_storage storage{};
  socklen_t size = sizeof(storage);
  void* address = &storage;
  if (::getsockname(fd, static_cast<sockaddr*>(address), &size) != 0)
    throw std::runtime_error("the listening socket handed over is none");
  return {static_cast<sockaddr*>(address), size};
}

/// Reads credentials of this cluster's munge. What it says of a bad one is for those who look for it.
ClientResolver munge_clients(bool wanted) {
  std::string reason;
  const auto munge = wanted ? Munge::load(reason) : std::nullopt;
  if (!munge) return {};
  const auto reader =
      std::make_shared<CredentialReader>([munge](const std::string& identity, std::string& why) {
        return read_munge_identity(*munge, identity, why);
      });
  const auto lines = std::make_shared<PeerLog>();
  return [reader, lines](std::string_view identity, const std::string& from) {
    const auto now = std::chrono::steady_clock::now();
    std::string why;
    auto client =
        is_munge_identity(identity) ? reader->read(identity, from, now, why) : std::optional<ProvenClient>();
    if (!client && !why.empty() && lines->due(from, now))
      log_info(why + " (from " + from + ", and " + std::to_string(lines->take_suppressed(from)) + " before)");
    return client;
  };
}

class NetworkDaemon {
 public:
  NetworkDaemon(const EmbeddedOptions& options, const EmbeddedOptions::Network& network)
      : address_(address_of(network.listen_fd)),
        service_(context_.get_executor(), network_coordinator_options(options), opener(network.store_proxy),
                 nullptr),
        port_(context_.get_executor(), UniqueFd(network.listen_fd), network.job_secret->copy(),
              ControlPortOptions{options.run_id, munge_clients(network.accept_munge)}, service_) {
    service_.add(adopt_socket(context_.get_executor(), options.control_fd));
  }

  void run() {
    while (!is_over()) context_.run_one_for(kFarewell);
    port_.close();
    service_.stop();
    context_.restart();
    context_.run_for(kFarewell);
  }

 private:
  StoreOpener opener(bool store_proxy) {
    return [this, store_proxy](RoundNumber) {
      return store_proxy ? open_fed_store(address_) : open_shared_store(context_.get_executor(), address_);
    };
  }

  /// This host's agent may leave first: its workers have finished, others still work.
  bool is_over() {
    if (service_.has_local() || (service_.remote_nodes() > 0 && !service_.job_over())) return false;
    // The launcher has been told already, and needs us for the sake of nodes only.
    if (service_.remote_nodes() == 0) return true;
    const auto now = std::chrono::steady_clock::now();
    if (linger_until_ == TimePoint::max()) linger_until_ = now + kDaemonLingers;
    return now >= linger_until_;
  }

  boost::asio::io_context context_{1};
  SocketAddress address_;
  CoordinatorService service_;
  ControlPort port_;
  TimePoint linger_until_ = TimePoint::max();
};

}  // namespace

int serve_network(const EmbeddedOptions& options) {
  try {
    NetworkDaemon(options, *options.network).run();
  } catch (const std::exception& error) {
    log_error("rendezvous daemon: " + std::string(error.what()));
    return kExitLauncherFailure;
  }
  return 0;
}

}  // namespace muster::rendezvous
