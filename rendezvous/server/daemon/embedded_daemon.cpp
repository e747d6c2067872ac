// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/server/daemon/embedded_daemon.hpp"

#include "rendezvous/base/exit_code.hpp"
#include "rendezvous/log/log.hpp"
#include "rendezvous/munge/munge.hpp"
#include "rendezvous/net/address.hpp"
#include "rendezvous/protocol/limits.hpp"
#include "rendezvous/server/daemon/coordinator_service.hpp"
#include "rendezvous/server/daemon/daemon.hpp"
#include "rendezvous/server/descriptor_limit.hpp"
#include "rendezvous/server/listen/control_port.hpp"
#include "rendezvous/server/refusals.hpp"

#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/steady_timer.hpp>
#include <fcntl.h>
#include <unistd.h>

#include <chrono>
#include <optional>
#include <utility>

namespace muster::rendezvous {
namespace {

CoordinatorOptions coordinator_options(const EmbeddedOptions& options) {
  CoordinatorOptions coordinator{
      .run_id = options.run_id, .software = options.version, .limits = options.limits};
  // The peer is on this host: the end of its connection says exactly that it is gone, while silence may only
  // mean that it is stopped in a debugger or gets no processor time.
  if (!options.network) {
    coordinator.membership.dead_after = Milliseconds(0);
    return coordinator;
  }
  coordinator.nonce = random_nonce();
  coordinator.expected_nodes = options.network->expected_nodes;
  // If nodes are started by name, no other node has a key.
  coordinator.only_expected = !coordinator.expected_nodes.empty();
  return coordinator;
}

/// Reads credentials of this cluster's munge. The reasons for refusing a credential go to the log at the
/// level info.
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

/// The coordinator and its stores: on a socket to this host's agent, and with a network on a port as well.
class EmbeddedDaemon final : public Daemon {
 public:
  explicit EmbeddedDaemon(const EmbeddedOptions& options)
      : service_(context_.get_executor(), coordinator_options(options), opener(options),
                 [this](const std::string&) { a_session_ended_ = true; }) {
    if (options.network) {
      const EmbeddedOptions::Network& network = *options.network;
      watch_guardian(network.guardian_pidfd);
      port_.emplace(context_.get_executor(), UniqueFd(network.listen_fd), network.job_secret->copy(),
                    ControlPortOptions{options.run_id, munge_clients(network.accept_munge)}, service_);
    }
    service_.add(adopt_socket(context_.get_executor(), options.control_fd));
  }

 private:
  void watch_guardian(int pidfd) {
    if (pidfd < 0) return;
    guardian_.emplace(context_, pidfd);
    guardian_->async_wait(boost::asio::posix::stream_descriptor::wait_read,
                          [](const boost::system::error_code& error) {
                            if (error) return;
                            const UniqueFd null(::open("/dev/null", O_RDWR | O_CLOEXEC));
                            if (null) ::dup2(null.get(), STDERR_FILENO);
                          });
  }

  StoreOpener opener(const EmbeddedOptions& options) {
    const auto executor = context_.get_executor();
    if (options.network) {
      const SocketAddress address = local_end(options.network->listen_fd);
      return [executor, address, store_proxy = options.limits.store_proxy](RoundNumber) {
        return store_proxy ? open_fed_store(address) : open_shared_store(executor, shared_store(address));
      };
    }
    StoreServerOptions listen;
    listen.host = options.store.host;
    listen.port = options.store.port;
    listen.same_user_only = options.store.same_user_only;
    return [executor, listen](RoundNumber) { return open_own_store(executor, listen); };
  }

  bool is_over() override {
    // Without a port no peer could come back.
    if (!port_) return a_session_ended_;
    // This host's agent may leave first, when its workers have finished and other nodes' workers still work.
    if (service_.has_local() || (service_.remote_nodes() > 0 && !service_.job_over())) return false;
    // Without remote nodes the daemon is not needed any more: the launcher has heard the verdict.
    if (service_.remote_nodes() == 0) return true;
    if (!lingers_) {
      lingers_.emplace(context_, kDaemonLingers);
      lingers_->async_wait([this](boost::system::error_code error) { has_lingered_ = !error; });
    }
    return has_lingered_;
  }

  void stop() override {
    if (port_) port_->close();
    guardian_.reset();
    lingers_.reset();
    service_.stop();
  }

  CoordinatorService service_;
  std::optional<ControlPort> port_;
  std::optional<boost::asio::posix::stream_descriptor> guardian_;
  bool a_session_ended_ = false;
  std::optional<boost::asio::steady_timer> lingers_;
  bool has_lingered_ = false;
};

}  // namespace

int run_embedded_daemon(EmbeddedOptions options) {
  raise_descriptor_limit();
  try {
    EmbeddedDaemon(options).run();
  } catch (const std::exception& error) {
    log_error("rendezvous daemon: " + std::string(error.what()));
    return kExitLauncherFailure;
  }
  return 0;
}

}  // namespace muster::rendezvous
