// SPDX-License-Identifier: Apache-2.0
// advance() starts what is due and keeps the time. A node's link is opened when the agent has greeted; the
// node says hello and gets its part of the job; then its messages come, the last one being its report. When
// its client and its link have ended, conclude() decides what that means: the link goes on through the
// coordinator, the node has ended, or it is lost.
#include "launcher/nodes/node_fleet.hpp"

#include "launcher/nodes/core/node_spec.hpp"
#include "rendezvous/base/random.hpp"
#include "rendezvous/base/while_alive.hpp"
#include "rendezvous/log/log.hpp"
#include "rendezvous/tls/secret.hpp"

#include <boost/asio/post.hpp>

#include <algorithm>
#include <exception>
#include <random>
#include <utility>

namespace muster::launcher {
namespace {

namespace asio = boost::asio;
using agent::LinkMessage;
using Kind = LinkMessage::Kind;
using Phase = RemoteNode::Phase;
using Action = RemoteNode::Action;

constexpr const char* kGreetsAgain = "it greets again, or claims to be the coordinator";

}  // namespace

NodeFleet::NodeFleet(const asio::any_io_executor& executor, const JobSpec& job, NodeStarter& starter,
                     std::map<std::size_t, StartedProcess> local, std::string version, Instruct instruct,
                     Events events)
    : executor_(executor),
      job_(job),
      starter_(starter),
      version_(std::move(version)),
      instruct_(std::move(instruct)),
      events_(std::move(events)),
      board_(job.nodes, needed_nodes(job), may_restart(job), job.agent.shutdown_timeout),
      timer_(executor),
      log_(job),
      forked_(std::move(local)),
      nodes_(job.nodes.size()),
      hellos_(job.nodes.size()),
      say_waiting_at_(Clock::now() + kSayWaitingAfter) {}

void NodeFleet::start() {
  std::vector<std::string> servers;
  for (std::size_t i = 0; i < nodes_.size(); ++i)
    servers.push_back(forked_.contains(i) ? "this host" : starter_.server(i));
  std::minstd_rand engine(static_cast<unsigned>(random_number()));
  queue_.emplace(
      servers, StartLimits{},
      [this](std::size_t index) { return board_.node(index).phase() == RemoteNode::Phase::waiting; },
      [engine]() mutable { return std::uniform_real_distribution<double>(0.0, 1.0)(engine); });
  advance();
}

void NodeFleet::close() {
  events_ = {};
  timer_.cancel();
  for (Node& node : nodes_) {
    node.link.reset();
    node.connection.reset();
  }
}

void NodeFleet::start_node(std::size_t index) {
  StartedProcess process;
  if (const auto found = forked_.find(index); found != forked_.end()) {
    process = std::move(found->second);
    forked_.erase(found);
  } else {
    try {
      process = starter_.start(index);
    } catch (const std::exception& error) {
      queue_->failed(index);
      return start_failed(index, {error.what(), "", false});
    }
  }
  NodeConnection::Events connection_events;
  connection_events.greeted = while_alive(weak_from_this(), &NodeFleet::greeted, index);
  // The timer need not be set again after a piece of a copy: it comes too early, which does no harm.
  connection_events.pushed = while_alive(weak_from_this(), [index](NodeFleet& self, auto bytes, auto of) {
    self.board_.node(index).copying(bytes, of, Clock::now());
  });
  connection_events.said = while_alive(weak_from_this(), &NodeFleet::said, index);
  connection_events.ended = while_alive(weak_from_this(), &NodeFleet::process_ended, index);
  nodes_[index].connection = std::make_unique<NodeConnection>(
      executor_, std::move(process), starter_.push_file(), std::move(connection_events));
}

void NodeFleet::greeted(std::size_t index, const std::string& there, LinkEnds ends) {
  queue_->admitted(index, Clock::now());
  board_.node(index).greeting();
  if (there == version_) {
    open_link(index, std::move(ends));
  } else {
    StartEnd end;
    end.version_there = there;
    nodes_[index].connection.reset();
    start_failed(index, starter_.explain(index, end));
  }
  advance();
}

void NodeFleet::start_failed(std::size_t index, const StartFailure& failure) {
  const HostFailure what{"", failure.cause, failure.advice};
  without(index, board_.start_failed(index, what, Clock::now()));
}

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
  const RemoteNode& life = board_.node(index);
  if (!life.severed() && life.instructed()) events_.opened(index, what, std::move(channel));
}

void NodeFleet::send_spec(std::size_t index) {
  Node& node = nodes_[index];
  try {
    Instructions orders = instruct_(index, hellos_);
    LinkMessage key{Kind::key, orders.key_count, std::move(orders.keys)};
    node.link->send_aside(key);
    rendezvous::cleanse(key.body.data(), key.body.size());
    node.link->send_aside(spec_message(orders.spec));
    if (orders.spec.node.coordinator) board_.node(index).await_listening(Clock::now());
  } catch (const std::exception& error) {
    // What follows from it for others comes after the orders that they are getting now.
    asio::post(executor_, [self = shared_from_this(), index, cause = std::string(error.what())] {
      self->start_failed(index, {cause, "", false});
      self->cut(index);
      self->advance();
    });
  }
}

void NodeFleet::message(std::size_t index, LinkMessage message) {
  RemoteNode& life = board_.node(index);
  if (life.severed()) return;
  switch (message.kind) {
    case Kind::hello:
      if (life.phase() != Phase::connected)
        return misbehaved(index, life.instructed() ? kGreetsAgain : "a second hello");
      hellos_[index] = agent::node_hello_from_json(message.body);
      obey(board_.greeted(index));
      break;
    case Kind::listening:
      if (!life.listening())
        return misbehaved(
            index, life.instructed() ? kGreetsAgain : "it claims to be the coordinator, which it is not");
      endpoint_ = agent::link_endpoint_from_json(message.body);
      obey(board_.listening());
      if (events_.listening) events_.listening(endpoint_);
      break;
    case Kind::report:
      if (!board_.reported(index, Clock::now())) return;
      take_report(index, agent::node_report_from_json(message.body));
      break;
    case Kind::notice:
      life.notice(message);
      break;
    case Kind::log:
      if (life.instructed()) log_.line(index, message.body);
      break;
    case Kind::hang:
    case Kind::event:
      if (life.instructed()) events_.told(index, message);
      break;
    case Kind::status:
      if (index == 0 && life.instructed()) say_status(message.body);
      return;
    case Kind::answer:
      if (events_.answer) events_.answer(index, message.number, agent::node_status_from_json(message.body));
      return;
    default:
      return;
  }
  advance();
}

/// Tells people what the coordinator waits for, once it has done so for a while.
void NodeFleet::say_status(const std::string& text) {
  const TimePoint now = Clock::now();
  say_status_at_ = say_status_at_.value_or(now + kSayWaitingAfter);
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
  }
  if (events_.report) events_.report(index, std::move(report));
}

void NodeFleet::said(std::size_t index, const std::string& line) {
  board_.node(index).said(line, Clock::now());
  log_.line(index, without_our_beginning(line));
}

void NodeFleet::tell(std::size_t index, Kind kind, std::int64_t number, std::string body) {
  if (nodes_[index].link) nodes_[index].link->send({kind, number, std::move(body)});
}

void NodeFleet::link_closed(std::size_t index) {
  if (board_.node(index).link_closed(Clock::now(), board_.end_limit(index))) return conclude(index);
  advance();
}

/// Stops talking to a node that broke the protocol, and does not wait for its end.
void NodeFleet::misbehaved(std::size_t index, const std::string& what) {
  if (!board_.node(index).misbehave(what, Clock::now())) return;
  // This may run inside a callback of the link, which therefore goes later.
  asio::post(executor_, [self = shared_from_this(), index] { self->nodes_[index].link.reset(); });
  advance();
}

void NodeFleet::process_ended(std::size_t index, const StartEnd& end) {
  nodes_[index].connection.reset();
  RemoteNode& life = board_.node(index);
  if (life.phase() == Phase::starting) return not_started(index, end);
  if (life.process_ended(end, Clock::now())) return conclude(index);
  advance();
}

void NodeFleet::not_started(std::size_t index, const StartEnd& end) {
  const StartFailure failure = starter_.explain(index, end);
  const bool may_pass = failure.server_busy && !board_.stopping();
  if (may_pass && queue_->refused(index, Clock::now())) {
    board_.node(index).refused(failure.cause);
  } else {
    if (!may_pass) queue_->failed(index);
    start_failed(index, failure);
  }
  advance();
}

void NodeFleet::without(std::size_t index, const NodeBoard::Orders& orders) {
  hellos_[index] = {};
  if (events_.without) events_.without(index);
  const auto& failures = board_.failures();
  const bool recorded = !failures.empty() && failures.back().node == job_.nodes[index].name;
  if (recorded && failures.back().spared) log_warning(board_.spared_text());
  obey(orders);
}

void NodeFleet::seek_way(std::size_t index) {
  RemoteNode& life = board_.node(index);
  std::unique_ptr<rendezvous::ByteStream> way = events_.relay ? events_.relay(index) : nullptr;
  if (!way && events_.relay_comes && events_.relay_comes()) return life.seek_again(Clock::now());
  if (!way) return perform(index, life.take(RemoteNode::Event::ended));
  life.relay();
  agent::LauncherLink& link = *nodes_[index].link;
  link.move_to(std::move(way));
  // The acknowledgement of this message shows whether there is anybody at the other end.
  link.send({Kind::status, 0, {}}, while_alive(weak_from_this(), [index](NodeFleet& self) {
              if (!self.nodes_[index].link || !self.nodes_[index].link->connected()) return;
              self.board_.node(index).take(RemoteNode::Event::carried);
              log_warning(self.job_.nodes[index].name +
                          ": the connection to it was lost; going on through the coordinator");
              self.events_.back(index);
            }));
}

void NodeFleet::conclude(std::size_t index) {
  RemoteNode& life = board_.node(index);
  const bool first = life.phase() == Phase::working;
  const Action action = life.conclude();
  if (first && life.guardian_ended() && events_.ended) events_.ended(index, life.failure().cause, false);
  perform(index, action);
  advance();
}

void NodeFleet::perform(std::size_t index, Action action) {
  Node& node = nodes_[index];
  RemoteNode& life = board_.node(index);
  switch (action) {
    case Action::none:
    case Action::unexpected:
      return;
    case Action::send_spec:
      return send_spec(index);
    case Action::send_coordinator:
      return tell(index, Kind::coordinator, 0, agent::to_json(endpoint_));
    case Action::stop:
      return tell(index, Kind::stop, stop_signal_, agent::to_json(stop_order_));
    case Action::kill:
      return tell(index, Kind::kill, 0);
    case Action::cut:
      return cut(index);
    case Action::give_up_start:
      return node.connection->give_up();
    case Action::end_way:
      if (node.connection) return node.connection->kill();
      return asio::post(executor_, [self = shared_from_this(), index] { self->conclude(index); });
    case Action::seek_way:
      return seek_way(index);
    case Action::fail_start:
    case Action::lose:
    case Action::finish:
      break;
  }
  log_.tell_left_out(index, true);
  node.link.reset();
  if (action == Action::finish) return board_.ended(index, Clock::now());
  if (action == Action::fail_start) return start_failed(index, {life.failure().cause, "", false});
  // The node's agent may live and come to a coordinator that still waits for it, but the launcher would hear
  // nothing of it: so the coordinator is told.
  if (events_.ended) events_.ended(index, life.failure().cause, true);
  without(index, board_.lost(index, life.failure()));
}

void NodeFleet::cut(std::size_t index) {
  Node& node = nodes_[index];
  RemoteNode& life = board_.node(index);
  node.link.reset();
  if (node.connection && life.phase() == Phase::starting) node.connection->kill();
  life.sever(Clock::now(), in_a_hurry_);
}

void NodeFleet::obey(const NodeBoard::Orders& orders) {
  for (const NodeOrder& order : orders) perform(order.node, order.action);
}

void NodeFleet::advance() {
  const TimePoint now = Clock::now();
  if (board_.stopping() && !std::exchange(failure_said_, true) && !board_.failures().empty())
    tell_later(&Events::failed);
  const std::vector<std::size_t> due = queue_->take_due(now);
  const auto limit = greeting_limit(job_.remote.login_timeout, nodes_.size());
  // All have begun before the first may fail, for the failures of each are to be told.
  for (const std::size_t index : due)
    board_.node(index).start(now, job_.nodes[index].local ? kForkLateAfter : limit);
  for (const std::size_t index : due) start_node(index);
  obey(board_.tick(now));
  for (std::size_t i = 0; i < nodes_.size(); ++i) perform(i, board_.node(i).tick(now));
  say_waiting(now);
  if (board_.over() && !std::exchange(over_said_, true)) return tell_later(&Events::over);
  arm(now);
}

void NodeFleet::tell_later(std::function<void()> Events::*event) {
  asio::post(executor_, [self = shared_from_this(), event] {
    if (self->events_.*event) (self->events_.*event)();
  });
}

void NodeFleet::say_waiting(TimePoint now) {
  if (now < say_waiting_at_) return;
  say_waiting_at_ = now + kSayWaitingEvery;
  const std::string text = board_.waiting_text(now);
  if (!text.empty() && !board_.stopping() && events_.waiting) events_.waiting(text);
}

void NodeFleet::arm(TimePoint now) {
  TimePoint due = now + std::chrono::seconds(60);
  const auto consider = [&due](const std::optional<TimePoint>& when) {
    if (when) due = std::min(due, *when);
  };
  consider(queue_->next_due());
  consider(board_.next_tick());
  for (const RemoteNode& node : board_.nodes()) consider(node.next_tick());
  if (!board_.complete()) consider(say_waiting_at_);
  timer_.expires_at(due);
  timer_.async_wait([weak = weak_from_this()](const boost::system::error_code& error) {
    const auto self = weak.lock();
    if (!error && self && !self->over_said_) self->advance();
  });
}

void NodeFleet::stop(int signal, const agent::StopOrder& order) {
  stop_signal_ = signal;
  stop_order_ = {order.reason, order.grace ? order.grace : stop_order_.grace};
  if (order.grace) board_.set_grace(*order.grace);
  obey(board_.stop());
  advance();
}

void NodeFleet::cut_all() {
  in_a_hurry_ = true;
  obey(board_.cut_all());
  advance();
}

bool NodeFleet::waits_for(pid_t child) const {
  for (const auto& [index, process] : forked_)
    if (process.pid == child) return true;
  for (const Node& node : nodes_)
    if (node.connection && node.connection->pid() == child) return true;
  return false;
}

void NodeFleet::show_life() {
  tell_all(Kind::status);
  // A node that has no orders yet reads no numbered frames.
  for (std::size_t i = 0; i < nodes_.size(); ++i)
    if (nodes_[i].link && !board_.node(i).instructed()) nodes_[i].link->send_aside({Kind::status, 0, {}});
  give_up_stopped_clients();
}

/// Kills a client that stays stopped: what its node says waits, and the job would wait with it at its end.
/// When the client is still stopped at the second look, the link goes on through the coordinator, as always
/// when a client is killed.
void NodeFleet::give_up_stopped_clients() {
  for (std::size_t i = 0; i < nodes_.size(); ++i) {
    Node& node = nodes_[i];
    const pid_t pid = node.connection ? node.connection->stopped_client() : 0;
    if (board_.node(i).client_stopped(pid != 0)) {
      node.connection->kill();
      continue;
    }
    if (pid != 0) log_.client_stopped(i, pid);
  }
}

std::shared_ptr<rendezvous::Channel> NodeFleet::open_stdin(std::size_t node) {
  std::optional<agent::LauncherLink>& link = nodes_[node].link;
  return link && board_.node(node).instructed() ? link->open_channel(agent::kStdinChannel) : nullptr;
}

void NodeFleet::expect_nothing_of(const std::string& name, const NodeLoss& loss, bool goes_on) {
  for (RemoteNode& node : board_.nodes())
    if (node.name() == name) node.hold_for_dead(loss, goes_on, Clock::now());
  advance();
}

}  // namespace muster::launcher
