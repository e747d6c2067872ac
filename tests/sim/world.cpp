// SPDX-License-Identifier: Apache-2.0
#include "tests/sim/world.hpp"

#include <algorithm>
#include <iostream>
#include <utility>

namespace muster::rendezvous::sim {
namespace {

constexpr std::int64_t kCalmAtMs = 30000;
/// After the last fault: a blocked link, a verdict, a stop, a reconnect, the longest delay of a restart, a
/// join timeout and a last call, with room.
constexpr std::int64_t kEndAtMs = kCalmAtMs + 120000;
/// In which everybody who is connected hears the verdict.
constexpr std::int64_t kFarewellMs = 20000;
constexpr Milliseconds kLastCall{2000};
constexpr Milliseconds kJoinTimeout{15000};

}  // namespace

World::World(std::uint64_t seed, bool trace) : timeline_(seed), trace_(trace) {
  const auto nodes = static_cast<int>(timeline_.random(1, 6));
  const bool ordered = timeline_.chance(50);
  const CoordinatorOptions options = draw_options(nodes);
  referee_ = std::make_unique<Referee>(options, ordered);
  coordinator_ = std::make_unique<Coordinator>(options);
  for (int i = 0; i < nodes; ++i) {
    const auto workers = static_cast<int>(timeline_.random(1, 8));
    nodes_.push_back(
        std::make_unique<Node>(*this, "n" + std::to_string(i), workers, ordered ? i : -1, Role::node));
    const std::int64_t at = timeline_.chance(80) ? timeline_.random(0, 500) : timeline_.random(0, 20000);
    timeline_.after(at, [node = nodes_.back().get()] { node->start(); });
  }
  if (timeline_.chance(50)) {
    nodes_.push_back(std::make_unique<Node>(*this, "launcher", 0, -1, Role::launcher));
    nodes_.back()->start();
  }
  timeline_.after(timeline_.random(200, 3000), [this] { inject_fault(); });
}

World::~World() = default;

CoordinatorOptions World::draw_options(int nodes) {
  CoordinatorOptions options;
  options.run_id = "sim";
  options.nonce = "5eed";
  options.limits.min_nodes = static_cast<int>(timeline_.random(1, nodes));
  options.limits.max_nodes = static_cast<int>(timeline_.random(options.limits.min_nodes, nodes));
  options.limits.last_call_timeout = kLastCall;
  options.limits.join_timeout = kJoinTimeout;
  options.limits.max_restarts = static_cast<int>(timeline_.chance(50) ? timeline_.random(0, 3) : 100);
  // Without delays more rounds fit into a job.
  options.limits.restart_rule = timeline_.chance(50)   ? RestartRule::torchrun
                                : timeline_.chance(50) ? RestartRule::backoff
                                                       : RestartRule::progress;
  options.limits.on_hang = timeline_.chance(50)   ? HangAction::report
                           : timeline_.chance(50) ? HangAction::restart
                                                  : HangAction::abort;
  if (timeline_.chance(50))
    for (int i = 0; i < nodes; ++i) options.expected_nodes.push_back("n" + std::to_string(i));
  options.only_expected = !options.expected_nodes.empty() && timeline_.chance(50);
  return options;
}

bool World::calm() const {
  return timeline_.now_ms() >= kCalmAtMs;
}

void World::say(const std::string& text) const {
  if (trace_) std::cerr << timeline_.now_ms() << " ms: " << text << '\n';
}

void World::run() {
  while (!timeline_.empty() && !job_ended_) {
    timeline_.step();
    ++events_;
    if (timeline_.now_ms() > kEndAtMs && deserted()) return;
    if (timeline_.now_ms() > kEndAtMs)
      throw Violation("the job has not come to its end, though nothing disturbs it any more");
  }
  if (!job_ended_ && !deserted()) throw Violation("nothing happens any more, but the job has not ended");
  const std::int64_t farewell = timeline_.now_ms() + kFarewellMs;
  while (!timeline_.empty() && timeline_.now_ms() < farewell) timeline_.step();
  check_farewell();
}

/// Before the first round every node may have gone for good; there is no verdict then.
bool World::deserted() const {
  return rounds() == 0 && std::none_of(nodes_.begin(), nodes_.end(), [](const auto& node) {
           return node->role() == Role::node && node->up();
         });
}

/// Whoever is still connected has heard the verdict, and has no worker any more.
void World::check_farewell() const {
  for (const auto& node : nodes_) {
    if (node->workers_alive()) throw Violation(node->name() + " has workers after the job's end");
    if (node->connected() && !node->finished())
      throw Violation(node->name() + " is connected and has not heard that the job is over");
  }
}

// Connections.

std::shared_ptr<Wire> World::open_wire(Node& node) {
  return std::make_shared<Wire>(timeline_, next_session_++, node);
}

void World::receive(const std::shared_ptr<Wire>& wire, const Packet& packet) {
  if (!wire->open_at_shell) return;
  if (trace_) say("<- " + wire->node.name() + " " + to_json(packet.message));
  if (wire->session == 0) {
    greet(wire, std::get<Hello>(packet.message));
    return;
  }
  const auto found = sessions_.find(wire->session);
  if (found == sessions_.end()) return;
  found->second.end.take(packet);
  found->second.heard_at_ms = timeline_.now_ms();
  referee_->hears(wire->node.name(), packet.message, timeline_.now_ms());
  perform(coordinator_->on_message(wire->session, packet.message, timeline_.now()));
}

void World::greet(const std::shared_ptr<Wire>& wire, const Hello& hello) {
  const std::string address = "10.0.0.1:" + std::to_string(wire->fresh);
  if (const auto resumed = coordinator_->resumes(hello)) {
    Session& session = sessions_.at(*resumed);
    if (session.wire != wire) session.wire->open_at_shell = false;
    session.wire = wire;
    session.heard_at_ms = timeline_.now_ms();
    wire->session = *resumed;
    ++resumptions_;
    Effects effects = coordinator_->on_resume(*resumed, address, timeline_.now());
    // First hello_ok, then what the node has missed, then what is new.
    perform_one(std::get<effect::Send>(effects.at(0)));
    effects.erase(effects.begin());
    for (const Packet& missed : session.end.after(hello.received))
      wire->down.put([wire, missed] { wire->node.receive(wire, missed); });
    perform(std::move(effects));
    return;
  }
  wire->session = wire->fresh;
  sessions_[wire->fresh].wire = wire;
  sessions_[wire->fresh].heard_at_ms = timeline_.now_ms();
  coordinator_->on_connect(wire->fresh, address);
  perform(coordinator_->on_message(wire->fresh, hello, timeline_.now()));
}

void World::ended_by_node(const std::shared_ptr<Wire>& wire) {
  if (!wire->open_at_shell) return;
  wire->open_at_shell = false;
  say("<- " + wire->node.name() + " connection closed");
  const auto found = sessions_.find(wire->session);
  if (found == sessions_.end() || found->second.wire != wire) return;
  end_session(found);
  perform(coordinator_->on_disconnect(wire->session, "connection closed", timeline_.now()));
}

/// Of one that was refused nobody has known, though its node may have another.
void World::end_session(std::map<SessionId, Session>::iterator session) {
  if (session->second.admitted) referee_->gone(session->second.wire->node.name());
  sessions_.erase(session);
}

void World::break_wire(const std::shared_ptr<Wire>& wire) {
  wire->up.kill();
  wire->down.kill();
  timeline_.after(timeline_.random(0, 1000), [wire] { wire->node.wire_ended(wire, true); });
  timeline_.after(timeline_.random(0, 1000), [this, wire] {
    if (!wire->open_at_shell) return;
    wire->open_at_shell = false;
    const auto found = sessions_.find(wire->session);
    if (found == sessions_.end() || found->second.wire != wire) return;
    perform(coordinator_->on_disconnect(wire->session, "connection reset", timeline_.now(), Ending::broken));
  });
}

void World::close_by_shell(const std::shared_ptr<Wire>& wire) {
  wire->open_at_shell = false;
  wire->down.put([wire] { wire->node.wire_ended(wire, false); });
}

// What the coordinator decides.

void World::perform(Effects effects) {
  for (const Effect& effect : effects) std::visit([this](const auto& one) { perform_one(one); }, effect);
  check_sessions();
  referee_->check_settled(admitted_nodes(), timeline_.now_ms());
}

int World::admitted_nodes() const {
  return static_cast<int>(std::count_if(sessions_.begin(), sessions_.end(), [](const auto& entry) {
    return entry.second.admitted && entry.second.wire->node.role() == Role::node;
  }));
}

/// Whoever is silent for too long is given up, whatever else happens.
void World::check_sessions() const {
  for (const auto& [id, session] : sessions_) {
    const std::int64_t silence = timeline_.now_ms() - session.heard_at_ms;
    if (session.admitted && silence > (kDeadAfter + kHeartbeatInterval).count())
      throw Violation(session.wire->node.name() + " has been silent for " + std::to_string(silence) +
                      " ms and is not given up");
  }
}

void World::perform_one(const effect::Send& send) {
  const auto found = sessions_.find(send.session);
  if (found == sessions_.end()) throw Violation("a message to a session that has ended");
  Session& session = found->second;
  const std::shared_ptr<Wire> wire = session.wire;
  if (trace_) say("-> " + wire->node.name() + " " + to_json(send.message));
  const Moment moment{timeline_.now_ms(), admitted_nodes()};
  referee_->tells(wire->node.name(), wire->node.workers(), send.message, moment);
  Packet packet = session.end.number(send.message);
  if (auto* hello = std::get_if<HelloOk>(&packet.message)) {
    hello->received = session.end.received;
    session.admitted = true;
  }
  if (!wire->open_at_shell) return;
  wire->down.put([wire, packet] { wire->node.receive(wire, packet); });
}

void World::perform_one(const effect::Disconnect& disconnect) {
  const auto found = sessions_.find(disconnect.session);
  if (found == sessions_.end()) throw Violation("a session is ended twice");
  const std::shared_ptr<Wire> wire = found->second.wire;
  const std::int64_t silence = timeline_.now_ms() - found->second.heard_at_ms;
  if (found->second.admitted && silence < kDeadAfter.count())
    throw Violation(wire->node.name() + " is given up after a silence of " + std::to_string(silence) +
                    " ms only");
  end_session(found);
  if (wire->open_at_shell) close_by_shell(wire);
}

void World::perform_one(const effect::OpenStore& open) {
  referee_->store_opens(open.round, timeline_.now_ms());
  for (const auto& node : nodes_) {
    // A node that the coordinator has given up is fenced; all others must have said that their workers are
    // gone.
    if (node->up() && node->workers_alive() && sessions_.count(node->session()) > 0)
      throw Violation("the store of round " + std::to_string(open.round) + " opens while " + node->name() +
                      " has workers of round " + std::to_string(node->round()));
  }
  const bool fails = !calm() && timeline_.chance(5);
  // Now and then it takes so long that something happens meanwhile.
  const std::int64_t takes_ms = timeline_.random(0, timeline_.chance(20) ? 3000 : 20);
  timeline_.after(takes_ms, [this, round = open.round, fails] {
    if (fails) {
      referee_->store_closes(round);
      perform(coordinator_->on_store_failed(round, "port in use", timeline_.now()));
    } else {
      perform(coordinator_->on_store_opened(round, Endpoint{"10.0.0.1", 29500}, timeline_.now()));
    }
  });
}

void World::perform_one(const effect::CloseStore& close) {
  referee_->store_closes(close.round);
}

void World::perform_one(const effect::SetTimer& timer) {
  const std::uint64_t generation = ++timer_generation_;
  const auto delay = std::chrono::duration_cast<Milliseconds>(timer.at - timeline_.now()).count();
  timeline_.after(std::max<std::int64_t>(0, delay), [this, generation] {
    if (generation == timer_generation_) perform(coordinator_->on_timer(timeline_.now()));
  });
}

void World::perform_one(const effect::Note& note) {
  say("note: " + note.text);
}

void World::perform_one(const effect::EndJob& end) {
  say("the job is over: " + end.reason);
  referee_->job_ends(end.verdict);
  job_ended_ = true;
}

void World::inject_fault() {
  if (calm()) return;
  timeline_.after(timeline_.random(500, 6000), [this] { inject_fault(); });
  Node& node =
      *nodes_[static_cast<std::size_t>(timeline_.random(0, static_cast<std::int64_t>(nodes_.size()) - 1))];
  if (!node.connected()) return;
  const std::int64_t until = timeline_.now_ms() + timeline_.random(300, 8000);
  switch (timeline_.random(0, 18)) {
    case 0:
      node.crash(timeline_.chance(20));
      break;
    case 1:
      node.vanish();
      break;
    case 2:
    case 3:
      node.stop_on_order();
      break;
    case 4:
    case 5:
      node.block(true, false, until);
      break;
    case 6:
    case 7:
      node.block(false, true, until);
      break;
    case 8:
    case 9:
      node.block(true, true, until);
      break;
    default:
      node.reset_connection();
  }
}

}  // namespace muster::rendezvous::sim
