// SPDX-License-Identifier: Apache-2.0
// The part of NodeFleet that talks to nodes and sees them go. A node's link is opened when the agent has
// greeted; the node says hello and gets its part of the job; then its messages come, the last one being its
// report. When its client and its link have ended, conclude() decides what that means: the link goes on
// through the coordinator, the node has ended, or it is lost.
#include "agent/core/exit_status.hpp"
#include "launcher/nodes/core/node_words.hpp"
#include "launcher/nodes/node_fleet.hpp"
#include "rendezvous/base/exit_code.hpp"
#include "rendezvous/base/while_alive.hpp"
#include "rendezvous/log/log.hpp"
#include "rendezvous/log/terminal_text.hpp"
#include "rendezvous/protocol/limits.hpp"
#include "rendezvous/tls/secret.hpp"

#include <boost/asio/post.hpp>

#include <algorithm>
#include <exception>
#include <stdexcept>
#include <utility>

namespace muster::launcher {
namespace {

namespace asio = boost::asio;
using agent::LinkMessage;
using Kind = LinkMessage::Kind;

/// Time for a client to end after we have closed its link.
constexpr std::chrono::milliseconds kClientLateAfter{2000};
/// Time for a client to end after a second Ctrl-C, when everything has to be over within a second.
constexpr std::chrono::milliseconds kClientLateInAHurry{200};
/// Time between the end of the coordinator, which outlives every node that it still hears of, and a node's
/// report.
constexpr std::chrono::seconds kStragglerLateAfter{5};
/// Time for a link to end after its client, since somebody else may hold the client's streams open.
constexpr std::chrono::seconds kLinkLateAfter{1};
/// Time for the last words of a node that the coordinator holds for dead, which may still come.
constexpr std::chrono::milliseconds kDeadLateAfter{1000};
/// Time for the report of such a node if the job goes on: the node may be alive.
constexpr std::chrono::milliseconds kLostLateAfter{3000};

constexpr const char* kGreetsAgain = "it greets again, or claims to be the coordinator";

/// How often a relay is asked for while the way to the coordinator is being made.
constexpr std::chrono::milliseconds kAskForRelayEvery{100};

}  // namespace

void NodeFleet::open_link(std::size_t index, LinkEnds ends) {
  agent::LauncherLink::Events link_events;
  link_events.message = while_alive(weak_from_this(), &NodeFleet::message, index);
  link_events.opened = while_alive(weak_from_this(), &NodeFleet::opened, index);
  link_events.closed = while_alive(weak_from_this(),
                                   [index](NodeFleet& self, const std::string&) { self.link_closed(index); });
  link_events.broken = while_alive(weak_from_this(), &NodeFleet::misbehaved, index);
  const int in = ends.in.release();
  const int out = ends.out ? ends.out.release() : in;
  nodes_[index].link.emplace(executor_, rendezvous::make_descriptor_stream(executor_, in, out),
                             agent::LauncherLink::Mode::launcher, std::move(link_events),
                             std::move(ends.first_bytes));
}

void NodeFleet::opened(std::size_t index, std::string_view what,
                       std::shared_ptr<rendezvous::Channel> channel) {
  const NodeContact& contact = nodes_[index].contact;
  if (!contact.broken() && contact.instructed()) events_.opened(index, what, std::move(channel));
}

/// Handles a message of a node that has not got its part of the job.
void NodeFleet::opening_message(std::size_t index, const LinkMessage& message) {
  Node& node = nodes_[index];
  switch (message.kind) {
    case Kind::hello:
      if (!node.contact.take_hello()) return misbehaved(index, "a second hello");
      hellos_[index] = agent::node_hello_from_json(message.body);
      obey(board_.greeted(index));
      break;
    case Kind::listening:
      return misbehaved(index, "it claims to be the coordinator, which it is not");
    case Kind::notice:
      node.last_words = last_words_of(job_.nodes[index].name, message);
      node.last_words_by = HostFailure::Teller::node;
      break;
    default:
      break;
  }
  advance();
}

void NodeFleet::send_spec(std::size_t index) {
  Node& node = nodes_[index];
  if (!node.link) return;
  try {
    Instructions orders = instruct_(index, hellos_);
    LinkMessage key{Kind::key, orders.key_count, std::move(orders.keys)};
    node.link->send_aside(key);
    rendezvous::cleanse(key.body.data(), key.body.size());
    const LinkMessage spec{Kind::spec, 0, agent::to_json(orders.spec)};
    if (spec.body.size() > agent::kLinkBodyMax)
      throw std::length_error("its part of the job has " + std::to_string(spec.body.size()) + " bytes, and " +
                              std::to_string(agent::kLinkBodyMax) +
                              " are the most; pass on less of the environment (-x) or shorter arguments");
    node.link->send_aside(spec);
    node.contact.instruct(orders.spec.node.coordinator);
    if (orders.spec.node.coordinator) listen_by_ = Clock::now() + kListensWithin;
    for (const LinkMessage& held : std::exchange(node.held, {})) node.link->send(held);
  } catch (const std::exception& error) {
    cut(index);
    without(index, [&] { return board_.start_failed(index, {"", error.what(), "", false}, Clock::now()); });
  }
}

void NodeFleet::message(std::size_t index, LinkMessage message) {
  Node& node = nodes_[index];
  if (node.contact.broken()) return;
  if (!node.contact.instructed()) return opening_message(index, message);
  switch (message.kind) {
    case Kind::listening:
      if (!node.contact.take_listening()) return misbehaved(index, kGreetsAgain);
      listen_by_.reset();
      endpoint_ = agent::link_endpoint_from_json(message.body);
      obey(board_.listening());
      if (events_.listening) events_.listening(endpoint_);
      break;
    case Kind::hello:
      return misbehaved(index, kGreetsAgain);
    case Kind::report:
      if (!node.contact.take_report()) return;
      node.gone_by = Clock::now() + end_limit(index);
      if (nodes_[0].contact.reported() && nodes_[0].gone_by)
        nodes_[0].gone_by = std::min(*nodes_[0].gone_by, Clock::now() + end_limit(0));
      take_report(index, agent::node_report_from_json(message.body));
      break;
    case Kind::notice:
      node.contact.lose_agent();
      node.last_words = last_words_of(job_.nodes[index].name, message);
      node.last_words_by = HostFailure::Teller::node;
      break;
    case Kind::log:
      log_line(index, message.body);
      break;
    case Kind::status:
      if (index == 0) say_status(message.body);
      return;
    default:
      return;
  }
  advance();
}

/// Tells people what the coordinator waits for, once it has done so for a while.
void NodeFleet::say_status(const std::string& text) {
  const TimePoint now = Clock::now();
  if (!say_status_at_) say_status_at_ = now + kSayWaitingAfter;
  if (now < *say_status_at_ || !events_.waiting) return;
  say_status_at_ = now + kSayWaitingEvery;
  events_.waiting(text);
}

void NodeFleet::take_report(std::size_t index, agent::NodeReport report) {
  report.error = shortened(report.error);
  // A node that never joined the others cannot have told them of its failure.
  if (report.outcome == agent::NodeOutcome::agent_error) {
    obey(board_.gave_up(index));
    if (!board_.stopping()) log_warning(named(job_.nodes[index].name, report.error) + board_.rest_text());
  } else {
    board_.reported(index);
  }
  if (events_.report) events_.report(index, std::move(report));
}

void NodeFleet::said(std::size_t index, const std::string& line) {
  const std::string text = without_our_beginning(line);
  // A line that muster itself prints on the node while all goes on does not say why the node was lost.
  if (!line.starts_with("muster: warning: ") && !line.starts_with("muster: info: ")) {
    nodes_[index].said = shortened(text);
    nodes_[index].said_at = Clock::now();
  }
  log_line(index, text);
}

void NodeFleet::log_line(std::size_t index, const std::string& text) {
  tell_left_out(index, false);
  if (nodes_[index].lines.admit(Clock::now())) log_warning(named(job_.nodes[index].name, shortened(text)));
}

void NodeFleet::tell_left_out(std::size_t index, bool at_the_end) {
  const std::size_t count = nodes_[index].lines.take_left_out(Clock::now(), at_the_end);
  if (count > 0)
    log_warning(job_.nodes[index].name + ": " + std::to_string(count) + " more lines of it were left out (" +
                std::to_string(LineLimit::kLines) + " in " + std::to_string(LineLimit::kStretch.count()) +
                " s are shown)");
}

void NodeFleet::tell(std::size_t index, Kind kind, std::int64_t number, std::string body) {
  Node& node = nodes_[index];
  LinkMessage message{kind, number, std::move(body)};
  if (node.link && node.contact.instructed())
    node.link->send(message);
  else if (!node.contact.instructed())
    node.held.push_back(std::move(message));
}

void NodeFleet::tell_all(Kind kind, int number) {
  for (std::size_t i = 0; i < nodes_.size(); ++i)
    if (nodes_[i].contact.instructed()) tell(i, kind, number);
}

void NodeFleet::link_closed(std::size_t index) {
  Node& node = nodes_[index];
  node.contact.close();
  if (node.process_end && node.contact.relayed() && !node.contact.reported() && node.dead.reason.empty()) {
    // The coordinator, which has just cut the way to the node, may be about to say why.
    node.gone_by = Clock::now() + kDeadLateAfter;
    return advance();
  }
  if (node.process_end) return conclude(index);
  node.gone_by = Clock::now() + end_limit(index);
  advance();
}

std::chrono::milliseconds NodeFleet::end_limit(std::size_t index) const {
  const bool others = std::any_of(nodes_.begin() + 1, nodes_.end(),
                                  [](const Node& node) { return node.contact.awaits_report() && node.link; });
  return nodes_[index].contact.end_limit(job_.agent.shutdown_timeout, index == 0 && others);
}

/// Stops talking to a node that broke the protocol, and does not wait for its end.
void NodeFleet::misbehaved(std::size_t index, const std::string& what) {
  Node& node = nodes_[index];
  if (!node.contact.misbehave()) return;
  node.last_words = "it sent what no muster sends (" + shortened(what) + ")";
  node.last_words_by = HostFailure::Teller::launcher;
  node.gone_by = Clock::now();
  // This may run inside a callback of the link, which therefore goes later.
  asio::post(executor_, [self = shared_from_this(), index] { self->nodes_[index].link.reset(); });
  advance();
}

void NodeFleet::process_ended(std::size_t index, const StartEnd& end, bool had_greeting) {
  Node& node = nodes_[index];
  node.connection.reset();
  if (!had_greeting) return not_started(index, end);
  node.process_end = end;
  node.ended_at = Clock::now();
  if (node.contact.closed()) return conclude(index);
  // The link may still hold what the process had written before.
  node.gone_by = Clock::now() + kLinkLateAfter;
  advance();
}

void NodeFleet::not_started(std::size_t index, const StartEnd& end) {
  const StartFailure failure = starter_.explain(index, end);
  nodes_[index].greet_by.reset();
  if (failure.server_busy && !board_.stopping() && queue_->refused(index, Clock::now())) {
    board_.retrying(index, failure.cause);
    return advance();
  }
  start_failed(index, failure);
}

void NodeFleet::expect_nothing_of(std::size_t index, const NodeLoss& loss, bool goes_on) {
  Node& node = nodes_[index];
  if (!node.link || !node.contact.awaits_report()) return;
  node.dead = loss;
  const auto due = Clock::now() + (goes_on ? kLostLateAfter : kDeadLateAfter);
  node.gone_by = std::min(node.gone_by.value_or(TimePoint::max()), due);
  advance();
}

void NodeFleet::without(std::size_t index, const std::function<NodeBoard::Orders()>& tell_board) {
  hellos_[index] = {};
  if (events_.without) events_.without(index);
  const std::size_t known = board_.failures().size();
  const NodeBoard::Orders orders = tell_board();
  if (board_.failures().size() > known && board_.failures().back().spared) log_warning(board_.spared_text());
  obey(orders);
}

bool NodeFleet::go_on_by_relay(std::size_t index) {
  Node& node = nodes_[index];
  // An agent that has lost its guardian has lost its end of the link, too, and has a report to send.
  const StartEnd end = node.process_end.value_or(StartEnd{});
  const bool orphaned = !way_was_lost(end) && end.exit_code > kExitSignalBase;
  const bool cut = orphaned || (way_was_lost(end) && node.dead.reason.empty());
  if (!cut || !node.process_end || !node.link || node.contact.agent_gone() || !node.contact.awaits_report() ||
      node.contact.relayed() || !events_.relay)
    return false;
  std::unique_ptr<rendezvous::ByteStream> way = events_.relay(index);
  if (!way && events_.relay_comes && events_.relay_comes()) {
    node.gone_by = Clock::now() + kAskForRelayEvery;
    return true;
  }
  if (!way) return false;
  node.contact.relay();
  if (node.dead.reason.empty()) node.gone_by.reset();
  node.said.clear();
  node.link->move_to(std::move(way));
  // The acknowledgement of this message shows whether there is anybody at the other end.
  node.link->send({Kind::status, 0, {}}, while_alive(weak_from_this(), [index](NodeFleet& self) {
                    if (!self.nodes_[index].link || !self.nodes_[index].link->connected()) return;
                    self.nodes_[index].contact.relay_carries();
                    log_warning(self.job_.nodes[index].name +
                                ": the connection to it was lost; going on through the coordinator");
                  }));
  return true;
}

void NodeFleet::conclude(std::size_t index) {
  Node& node = nodes_[index];
  const bool over = node.process_end && !way_was_lost(*node.process_end);
  if (over && node.contact.awaits_report() && !node.contact.relayed() && node.contact.tell_end() &&
      events_.ended)
    events_.ended(index, how_lost(index).cause, false);
  if (go_on_by_relay(index)) return advance();
  tell_left_out(index, true);
  if (index == 0) listen_by_.reset();
  node.gone_by.reset();
  node.link.reset();
  if (node.contact.reported()) {
    board_.ended(index);
    if (index == 0) expect_the_others();
  } else if (node.contact.instructed()) {
    // The node's agent may live and come to a coordinator that still waits for it, but the launcher would
    // hear nothing of it: so the coordinator is told.
    if (events_.ended) events_.ended(index, how_lost(index).cause, true);
    without(index, [&] { return board_.lost(index, how_lost(index)); });
  } else {
    return start_failed(index, {how_lost(index).cause, "", false});
  }
  advance();
}

void NodeFleet::expect_the_others() {
  for (std::size_t i = 1; i < nodes_.size(); ++i) {
    Node& node = nodes_[i];
    if (!node.contact.awaits_report() || node.gone_by || (!node.connection && !node.contact.relayed()))
      continue;
    node.gone_by = Clock::now() + kStragglerLateAfter;
    if (!node.last_words.empty()) continue;
    node.last_words = "its agent did not answer any more; the connection to it was cut";
    node.last_words_by = HostFailure::Teller::launcher;
  }
}

HostFailure NodeFleet::how_lost(std::size_t index) const {
  const Node& node = nodes_[index];
  const StartEnd end = node.process_end.value_or(StartEnd{});
  HostFailure failure;
  const bool by_coordinator = !node.contact.agent_gone() && !node.dead.reason.empty();
  failure.cause = by_coordinator ? node.dead.reason : node.last_words;
  failure.told_by = by_coordinator ? HostFailure::Teller::coordinator : node.last_words_by;
  failure.says_decision = by_coordinator && node.dead.says_decision;
  // The coordinator only knows that a connection has ended; the exit code says more.
  if (!node.contact.agent_gone() && end.exit_code > kExitSignalBase && !way_was_lost(end)) {
    failure.cause = "guardian or agent there was killed by " +
                    agent::signal_name(end.exit_code - kExitSignalBase) + ", and neither could report";
    failure.told_by = HostFailure::Teller::launcher;
    failure.says_decision = false;
  }
  if (!failure.cause.empty()) return failure;
  failure.told_by = HostFailure::Teller::launcher;
  if (!node.said.empty() && node.ended_at - node.said_at < kSaidAtTheEnd) failure.cause = node.said;
  if (!failure.cause.empty()) return failure;
  if (end.signal != 0)
    failure.cause = "what led there was killed by signal " + std::to_string(end.signal);
  else if (end.exit_code == 255)
    failure.cause = node.contact.relay_works()
                        ? "the way to it through the coordinator was lost, too"
                        : "agent and guardian there were killed, or the connection broke";
  else
    failure.cause = "the agent ended with exit code " + std::to_string(end.exit_code) + " without a report";
  failure.advice = "see whether the host is up and its log";
  return failure;
}

void NodeFleet::cut(std::size_t index) {
  Node& node = nodes_[index];
  if (index == 0) listen_by_.reset();
  node.link.reset();
  node.contact.close();
  if (!node.connection) return;
  if (node.greet_by) node.connection->kill();
  node.gone_by = Clock::now() + (in_a_hurry_ ? kClientLateInAHurry : kClientLateAfter);
}

void NodeFleet::obey(const NodeBoard::Orders& orders) {
  for (const NodeOrder& order : orders) {
    switch (order.kind) {
      case NodeOrder::Kind::send_spec:
        send_spec(order.node);
        break;
      case NodeOrder::Kind::send_coordinator:
        tell(order.node, Kind::coordinator, 0, agent::to_json(endpoint_));
        break;
      case NodeOrder::Kind::stop:
        tell(order.node, Kind::stop, stop_signal_);
        break;
      case NodeOrder::Kind::kill:
        tell(order.node, Kind::kill, 0);
        break;
      case NodeOrder::Kind::cut:
        cut(order.node);
        break;
    }
  }
}

}  // namespace muster::launcher
