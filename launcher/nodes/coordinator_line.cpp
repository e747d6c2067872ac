// SPDX-License-Identifier: Apache-2.0
#include "launcher/nodes/coordinator_line.hpp"

#include "rendezvous/base/exit_code.hpp"
#include "rendezvous/base/while_alive.hpp"
#include "rendezvous/client/coordinator_client.hpp"
#include "rendezvous/log/log.hpp"
#include "rendezvous/protocol/errc.hpp"
#include "rendezvous/protocol/limits.hpp"
#include "rendezvous/tls/peer_identity.hpp"
#include "rendezvous/tls/secret.hpp"
#include "rendezvous/tls/tls_stream.hpp"
#include "rendezvous/wire/channel.hpp"

#include <boost/asio/awaitable.hpp>
#include <boost/asio/co_spawn.hpp>

#include <exception>
#include <optional>
#include <utility>
#include <vector>

namespace muster::launcher {

namespace asio = boost::asio;
using asio::awaitable;
using rendezvous::PeerIdentity;

namespace {

constexpr std::chrono::seconds kReachWithin{5};

PeerIdentity identity_of(const std::string& run_id) {
  return {PeerIdentity::Role::launcher, run_id, kLauncherName, 1};
}

/// Whether the verdict says that a node is gone: a failure of a living node has a rank or another exit code,
/// and that node reports by itself.
bool is_lost(const rendezvous::JobClosed& verdict) {
  return !verdict.succeeded && verdict.rank < 0 && verdict.exit_code == kExitLauncherFailure;
}

}  // namespace

struct CoordinatorLine::State : std::enable_shared_from_this<State> {
  State(asio::any_io_executor line_executor, CoordinatorLineOptions line_options, rendezvous::Secret line_key)
      : executor(std::move(line_executor)), options(std::move(line_options)), key(std::move(line_key)) {}

  awaitable<std::unique_ptr<rendezvous::ByteStream>> dial(rendezvous::TimePoint deadline) {
    rendezvous::Endpoint where{options.endpoint.host, options.endpoint.port};
    co_return co_await rendezvous::connect_tls(executor, std::move(where), identity_of(options.run_id),
                                               key.copy(), deadline);
  }

  void connect() {
    rendezvous::ClientOptions client_options;
    client_options.run_id = options.run_id;
    client_options.node = kLauncherName;
    client_options.role = rendezvous::Role::launcher;
    client_options.host = options.host;
    client_options.version = options.version;
    client_options.lost_after = rendezvous::kDeadAfter;
    rendezvous::ClientEvents events;
    events.lost = while_alive(weak_from_this(), [](State& self, const std::string& reason) {
      if (!std::exchange(self.usable, false)) return;
      log_info("the launcher's connection to the coordinator has ended: " + reason);
    });
    events.job_closed = while_alive(weak_from_this(), [](State& self, const rendezvous::JobClosed& verdict) {
      self.options.job_closed(verdict.node, is_lost(verdict), verdict.reason);
    });
    events.round_ended = while_alive(weak_from_this(), [](State& self, const rendezvous::RoundEnd& end) {
      if (end.cause == rendezvous::RoundEndCause::node_lost)
        self.options.node_lost(end.node, cause_text(end), end.decision_is_cause);
    });
    const auto deadline = std::chrono::steady_clock::now() + kReachWithin;
    client.emplace(
        executor, [this](rendezvous::TimePoint until) { return dial(until); }, deadline,
        std::move(client_options), std::move(events));
    asio::co_spawn(executor, wait_until_connected(shared_from_this(), deadline),
                   [](const std::exception_ptr&) {
                     // The wait has said what failed.
                   });
  }

  static awaitable<void> wait_until_connected(std::shared_ptr<State> self, rendezvous::TimePoint deadline) {
    try {
      co_await self->client->connected(deadline);
      self->usable = true;
      self->connecting = false;
      for (const GoneNode& node : std::exchange(self->ended, {})) self->tell(node);
    } catch (const rendezvous::CoordinatorError& error) {
      self->connecting = false;
      if (self->closed) co_return;
      log_warning("the launcher cannot reach the coordinator at " + self->options.endpoint.host + " port " +
                  std::to_string(self->options.endpoint.port) + " (" + error.what() +
                  "): a node whose ssh connection breaks will end");
    }
  }

  void tell(const GoneNode& node) {
    client->tell(rendezvous::NodeState{node.node, node.cause, false, true, node.given_up});
  }

  asio::any_io_executor executor;
  CoordinatorLineOptions options;
  rendezvous::Secret key;
  std::optional<rendezvous::CoordinatorClient> client;
  /// Nodes that have ended, to be told to the coordinator once the line is connected.
  std::vector<GoneNode> ended;
  bool connecting = true;
  bool usable = false;
  bool closed = false;
};

CoordinatorLine::CoordinatorLine(const asio::any_io_executor& executor, CoordinatorLineOptions options,
                                 const rendezvous::Secret& job_secret) {
  rendezvous::Secret key = rendezvous::derive_key(job_secret, identity_of(options.run_id));
  state_ = std::make_shared<State>(executor, std::move(options), std::move(key));
  state_->connect();
}

CoordinatorLine::~CoordinatorLine() {
  state_->closed = true;
  state_->client->close();
}

std::unique_ptr<rendezvous::ByteStream> CoordinatorLine::open(const std::string& node) {
  if (!state_->usable) return nullptr;
  return rendezvous::make_channel_stream(state_->executor,
                                         state_->client->open_channel({rendezvous::ChannelKind::link, node}));
}

void CoordinatorLine::node_ended(const GoneNode& node) {
  if (state_->usable)
    state_->tell(node);
  else if (state_->connecting)
    state_->ended.push_back(node);
}

bool CoordinatorLine::connecting() const {
  return state_->connecting;
}

}  // namespace muster::launcher
