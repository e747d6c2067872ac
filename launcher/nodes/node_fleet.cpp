// SPDX-License-Identifier: Apache-2.0
// The part of NodeFleet that starts nodes and keeps the time.
#include "launcher/nodes/fleet_state.hpp"
#include "launcher/start/core/start_times.hpp"
#include "rendezvous/base/random.hpp"

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

std::vector<std::string> names_of(const JobSpec& job) {
  std::vector<std::string> names;
  for (const NodePlan& plan : job.nodes) names.push_back(plan.name);
  return names;
}

std::size_t needed_nodes(const JobSpec& job) {
  const auto least = static_cast<std::size_t>(std::max(job.agent.min_nodes, 1));
  // With a single count for all, every host that was listed is wanted.
  return job.agent.min_nodes < job.agent.max_nodes ? std::min(least, job.nodes.size()) : job.nodes.size();
}

/// Whether the loss of a node that is not needed leaves the job another round.
bool may_restart(const JobSpec& job) {
  return job.agent.max_restarts > 0 || job.agent.restart_policy != rendezvous::RestartRule::torchrun;
}

}  // namespace

NodeFleet::State::State(asio::any_io_executor fleet_executor, const JobSpec& fleet_job,
                        NodeStarter& fleet_starter, std::string fleet_version, Instruct fleet_instruct,
                        Events fleet_events)
    : executor(std::move(fleet_executor)),
      job(fleet_job),
      starter(fleet_starter),
      version(std::move(fleet_version)),
      instruct(std::move(fleet_instruct)),
      events(std::move(fleet_events)),
      board(names_of(job), needed_nodes(job), may_restart(job)),
      timer(executor),
      nodes(job.nodes.size()),
      hellos(job.nodes.size()),
      started_at(Clock::now()),
      say_waiting_at(started_at + kSayWaitingAfter) {}

void NodeFleet::State::start(std::map<std::size_t, StartedProcess> local) {
  std::vector<std::string> servers;
  for (std::size_t i = 0; i < nodes.size(); ++i)
    servers.push_back(local.contains(i) ? "this host" : starter.server(i));
  std::minstd_rand engine(static_cast<unsigned>(random_number()));
  queue.emplace(servers, StartLimits{},
                [engine]() mutable { return std::uniform_real_distribution<double>(0.0, 1.0)(engine); });
  forked = std::move(local);
  advance();
}

void NodeFleet::State::start_node(std::size_t index) {
  const TimePoint now = Clock::now();
  board.starting(index, now);
  StartedProcess process;
  if (const auto found = forked.find(index); found != forked.end()) {
    process = std::move(found->second);
    forked.erase(found);
  } else {
    try {
      process = starter.start(index);
    } catch (const std::exception& error) {
      queue->failed(index);
      return without(index, [&] { return board.start_failed(index, {"", error.what(), "", false}, now); });
    }
  }
  NodeConnection::Events connection_events;
  const std::weak_ptr<State> weak = weak_from_this();
  connection_events.greeted = [weak, index](const std::string& there, LinkEnds ends) {
    if (const auto self = weak.lock()) self->greeted(index, there, std::move(ends));
  };
  connection_events.pushed = [weak, index](std::uint64_t bytes, std::uint64_t of) {
    if (const auto self = weak.lock()) self->pushed(index, bytes, of);
  };
  connection_events.said = [weak, index](const std::string& line) {
    if (const auto self = weak.lock()) self->said(index, line);
  };
  connection_events.ended = [weak, index](const StartEnd& end, bool had_greeting) {
    if (const auto self = weak.lock()) self->process_ended(index, end, had_greeting);
  };
  nodes[index].greet_by =
      now +
      (job.nodes[index].local ? kForkLateAfter : greeting_limit(job.remote.login_timeout, nodes.size()));
  nodes[index].connection = std::make_unique<NodeConnection>(
      executor, std::move(process), starter.push_file(), std::move(connection_events));
}

void NodeFleet::State::pushed(std::size_t index, std::uint64_t bytes, std::uint64_t of) {
  board.copying(index, bytes, of);
  // A node that is late already gets no new deadline. The timer need not be set again: it comes too early,
  // which does no harm.
  if (nodes[index].greet_by) nodes[index].greet_by = Clock::now() + kCopyLateAfter;
}

void NodeFleet::State::greeted(std::size_t index, const std::string& there, LinkEnds ends) {
  Node& node = nodes[index];
  queue->admitted(index, Clock::now());
  node.greet_by.reset();
  if (there != version) {
    StartEnd end;
    end.version_there = there;
    return start_failed(index, starter.explain(index, end));
  }
  node.contact.open();
  open_link(index, std::move(ends));
  advance();
}

void NodeFleet::State::start_failed(std::size_t index, const StartFailure& failure) {
  nodes[index].connection.reset();
  nodes[index].greet_by.reset();
  queue->failed(index);
  without(index, [&] {
    return board.start_failed(index, {"", failure.cause, failure.advice, false}, Clock::now());
  });
  advance();
}

void NodeFleet::State::advance() {
  const TimePoint now = Clock::now();
  if (board.stopping()) {
    queue->stop();
    if (!std::exchange(failure_said, true) && !board.failures().empty())
      asio::post(executor, [self = shared_from_this()] {
        if (self->events.failed) self->events.failed();
      });
  }
  for (const std::size_t index : queue->take_due(now)) start_node(index);
  obey(board.tick(now));
  give_up_late(now);
  say_waiting(now);
  if (board.over() && !std::exchange(over_said, true))
    return asio::post(executor, [self = shared_from_this()] {
      if (self->events.over) self->events.over();
    });
  arm(now);
}

void NodeFleet::State::give_up_late(TimePoint now) {
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    Node& node = nodes[i];
    if (node.greet_by && now >= *node.greet_by) {
      node.greet_by.reset();
      node.connection->give_up();
    }
    if (!node.gone_by || now < *node.gone_by) continue;
    node.gone_by.reset();
    node.contact.close();
    if (node.connection)
      node.connection->kill();
    else if (node.process_end)
      asio::post(executor, [self = shared_from_this(), i] { self->conclude(i); });
  }
}

void NodeFleet::State::say_waiting(TimePoint now) {
  if (now < say_waiting_at) return;
  say_waiting_at = now + kSayWaitingEvery;
  // A node that has no orders yet takes us for dead after 30 s of silence.
  LinkMessage alive;
  alive.kind = LinkMessage::Kind::status;
  for (Node& node : nodes)
    if (node.link && !node.contact.instructed()) node.link->send_aside(alive);
  const std::string text = board.waiting_text(now);
  if (!text.empty() && !board.stopping() && events.waiting) events.waiting(text);
}

void NodeFleet::State::arm(TimePoint now) {
  TimePoint due = now + std::chrono::seconds(60);
  const auto consider = [&due](const std::optional<TimePoint>& when) {
    if (when) due = std::min(due, *when);
  };
  consider(queue->next_due());
  consider(board.next_tick());
  for (const Node& node : nodes) {
    consider(node.greet_by);
    consider(node.gone_by);
  }
  if (!board.complete()) consider(say_waiting_at);
  timer.expires_at(due);
  timer.async_wait([weak = weak_from_this()](const boost::system::error_code& error) {
    const auto self = weak.lock();
    if (!error && self && !self->over_said) self->advance();
  });
}

NodeFleet::NodeFleet(const asio::any_io_executor& executor, const JobSpec& job, NodeStarter& starter,
                     std::map<std::size_t, StartedProcess> local, std::string version, Instruct instruct,
                     Events events)
    : state_(std::make_shared<State>(executor, job, starter, std::move(version), std::move(instruct),
                                     std::move(events))) {
  state_->forked = std::move(local);
}

NodeFleet::~NodeFleet() {
  state_->events = {};
  state_->timer.cancel();
  for (State::Node& node : state_->nodes) {
    node.link.reset();
    node.connection.reset();
  }
}

void NodeFleet::start() {
  state_->start(std::move(state_->forked));
}

void NodeFleet::stop(int signal) {
  state_->stop_signal = signal;
  state_->obey(state_->board.stop());
  state_->advance();
}

void NodeFleet::kill() {
  state_->obey(state_->board.kill());
  state_->advance();
}

void NodeFleet::cut_all() {
  state_->in_a_hurry = true;
  state_->obey(state_->board.cut_all());
  state_->advance();
}

void NodeFleet::resize() {
  state_->tell_all(Kind::resize);
}

void NodeFleet::show_life() {
  state_->tell_all(Kind::status);
}

std::shared_ptr<rendezvous::Channel> NodeFleet::open_stdin(std::size_t node) {
  State::Node& reader = state_->nodes[node];
  return reader.link && reader.contact.instructed() ? reader.link->open_channel(agent::kStdinChannel)
                                                    : nullptr;
}

void NodeFleet::expect_nothing_of(const std::string& name, const NodeLoss& loss, bool goes_on) {
  for (std::size_t i = 0; i < state_->nodes.size(); ++i)
    if (state_->job.nodes[i].name == name) state_->expect_nothing_of(i, loss, goes_on);
}

bool NodeFleet::relays() const {
  return std::any_of(state_->nodes.begin(), state_->nodes.end(),
                     [](const State::Node& node) { return node.contact.relayed(); });
}

const std::vector<HostFailure>& NodeFleet::failures() const {
  return state_->board.failures();
}

std::vector<std::string> NodeFleet::unreported() const {
  return state_->board.unreported();
}

}  // namespace muster::launcher
