// SPDX-License-Identifier: Apache-2.0
#include "agent/coordinator_dial.hpp"

#include "rendezvous/log/log.hpp"
#include "rendezvous/munge/munge.hpp"
#include "rendezvous/net/name_lookup.hpp"
#include "rendezvous/protocol/limits.hpp"
#include "rendezvous/tls/tls_stream.hpp"

#include <optional>
#include <utility>

namespace muster::agent {

namespace asio = boost::asio;

CoordinatorDial::CoordinatorDial(const asio::any_io_executor& executor, const NodeAgentOptions& options,
                                 std::function<bool()> before_round)
    : executor_(executor),
      options_(options),
      spec_(options.node.spec),
      before_round_(std::move(before_round)),
      judge_(spec_),
      notice_(executor) {}

rendezvous::ClientOptions CoordinatorDial::client_options() const {
  rendezvous::ClientOptions client;
  client.run_id = spec_.run_id;
  client.node = spec_.node.name;
  client.host = spec_.host;
  client.version = options_.node.version;
  if (options_.control_fd < 0) client.lost_after = rendezvous::kDeadAfter;
  if (std::holds_alternative<PeerNode>(spec_.node.form)) client.limits = spec_.limits;
  return client;
}

asio::awaitable<std::unique_ptr<rendezvous::ByteStream>> CoordinatorDial::connect(
    rendezvous::TimePoint deadline) {
  rendezvous::Endpoint where;
  where.host = spec_.node.coordinator_host;
  where.port = spec_.node.coordinator_port;
  rendezvous::PeerIdentity identity = identity_of(spec_);
  rendezvous::Secret key = options_.node.key->copy();
  std::string local_address = spec_.node.local_addr;
  std::string credential = munge_credential(identity, key);
  const auto began = std::chrono::steady_clock::now();
  std::optional<FailedDial> trouble;
  try {
    co_return co_await rendezvous::connect_tls(executor_, std::move(where), std::move(identity),
                                               std::move(key), deadline, std::move(local_address),
                                               std::move(credential));
  } catch (const rendezvous::StrangerError&) {
    throw;
  } catch (const rendezvous::NoAnswerError& error) {
    trouble = FailedDial{error, began, true, error.code() == rendezvous::Errc::deadline};
  } catch (const rendezvous::NoAddressError& error) {
    trouble = FailedDial{error, began, false, false, true, error.no_such_name()};
  } catch (const rendezvous::CoordinatorError& error) {
    trouble = FailedDial{error, began};
  }
  throw judged(*trouble);
}

/// Replaces `key` by one that is drawn for this connection, and gives the identity that brings it along;
/// empty where the key that we have serves.
std::string CoordinatorDial::munge_credential(const rendezvous::PeerIdentity& identity,
                                              rendezvous::Secret& key) const {
  const auto* const peer = std::get_if<PeerNode>(&spec_.node.form);
  if (peer == nullptr || !peer->munge || (!judge_.by_munge() && !peer->key_source.empty())) return "";
  std::string reason;
  const auto munge = rendezvous::Munge::load(reason);
  if (!munge) return "";
  try {
    rendezvous::Secret drawn = rendezvous::Secret::random();
    std::string text = rendezvous::munge_identity(*munge, identity, drawn);
    key = std::move(drawn);
    return text;
  } catch (const std::exception& error) {
    log_warning(error.what());
    return "";
  }
}

rendezvous::CoordinatorError CoordinatorDial::judged(const FailedDial& dial) {
  DialJudge::Judgement judgement = judge_.judge(dial, before_round_(), std::chrono::steady_clock::now());
  if (judgement.begins_with_munge)
    log_info("the key " + std::get<PeerNode>(spec_.node.form).key_source + " is not that of " +
             spec_.node.coordinator_host + "; trying munge");
  if (!judgement.waiting.empty()) notice_.update(waiting_text() + judgement.waiting);
  return std::move(judgement.error);
}

void CoordinatorDial::begin() {
  const auto* const peer = std::get_if<PeerNode>(&spec_.node.form);
  if (peer != nullptr) notice_.update(waiting_text() + "connecting" + port_trouble_text(*peer));
}

std::string CoordinatorDial::where() const {
  if (options_.control_fd >= 0) return "on this node";
  return spec_.node.coordinator_host + " port " + std::to_string(spec_.node.coordinator_port);
}

std::string CoordinatorDial::failure_text(const std::exception& error) const {
  const std::string text = "no connection to the coordinator (" + where() + "): " + error.what();
  const auto* known = dynamic_cast<const rendezvous::CoordinatorError*>(&error);
  const bool in_vain =
      known != nullptr && known->code() == rendezvous::Errc::deadline && !judge_.last_trouble().empty();
  return in_vain ? text + " (the attempt before: " + judge_.last_trouble() + ")" : text;
}

/// The beginning of the line that is printed until the coordinator has answered; the cause follows it.
std::string CoordinatorDial::waiting_text() const {
  return "waiting for " + where() + " to host job '" + spec_.run_id + "': ";
}

}  // namespace muster::agent
