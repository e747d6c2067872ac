// SPDX-License-Identifier: Apache-2.0
// The part of NodeFleet that starts nodes and keeps the time.
#include "launcher/nodes/node_fleet.hpp"

#include "rendezvous/base/random.hpp"
#include "rendezvous/base/while_alive.hpp"
#include "rendezvous/log/log.hpp"

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

std::size_t needed_nodes(const JobSpec& job) {
  const auto least = static_cast<std::size_t>(std::max(job.agent.limits.min_nodes, 1));
  // With one number of nodes instead of a range, every host that was listed is needed.
  return job.agent.limits.elastic() ? std::min(least, job.nodes.size()) : job.nodes.size();
}

/// Whether the loss of a node that is not needed leaves the job another round.
bool may_restart(const JobSpec& job) {
  return job.agent.limits.max_restarts > 0 ||
         job.agent.limits.restart_rule != rendezvous::RestartRule::torchrun;
}

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

void NodeFleet::advance() {
  const TimePoint now = Clock::now();
  if (board_.stopping() && !std::exchange(failure_said_, true) && !board_.failures().empty())
    asio::post(executor_, [self = shared_from_this()] {
      if (self->events_.failed) self->events_.failed();
    });
  const std::vector<std::size_t> due = queue_->take_due(now);
  const auto limit = greeting_limit(job_.remote.login_timeout, nodes_.size());
  // All have begun before the first may fail, for the failures of each are to be told.
  for (const std::size_t index : due)
    board_.node(index).start(now, job_.nodes[index].local ? kForkLateAfter : limit);
  for (const std::size_t index : due) start_node(index);
  obey(board_.tick(now));
  for (std::size_t i = 0; i < nodes_.size(); ++i) perform(i, board_.node(i).tick(now));
  say_waiting(now);
  if (board_.over() && !std::exchange(over_said_, true))
    return asio::post(executor_, [self = shared_from_this()] {
      if (self->events_.over) self->events_.over();
    });
  arm(now);
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

void NodeFleet::stop(int signal) {
  stop_signal_ = signal;
  obey(board_.stop());
  advance();
}

void NodeFleet::kill() {
  obey(board_.kill());
  advance();
}

void NodeFleet::cut_all() {
  in_a_hurry_ = true;
  obey(board_.cut_all());
  advance();
}

bool NodeFleet::waits_for(pid_t child) const {
  return std::any_of(forked_.begin(), forked_.end(),
                     [child](const auto& one) { return one.second.pid == child; }) ||
         std::any_of(nodes_.begin(), nodes_.end(), [child](const Node& node) {
           return node.connection && node.connection->pid() == child;
         });
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
    if (pid == 0) continue;
    log_warning(job_.nodes[i].name + ": what leads there (process " + std::to_string(pid) +
                " here) was stopped (SIGSTOP), and what that node says waits; it is killed after " +
                std::to_string(agent::kLauncherSpeaksEvery.count()) + " s, unless 'kill -CONT " +
                std::to_string(pid) + "' lets it go on");
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
