// SPDX-License-Identifier: Apache-2.0
#include "tests/sim/node.hpp"

#include "tests/sim/world.hpp"

#include <algorithm>
#include <utility>

namespace muster::rendezvous::sim {

Node::Node(World& world, std::string name, int workers, int node_rank, Role role)
    : world_(world),
      timeline_(world.timeline()),
      name_(std::move(name)),
      workers_(workers),
      node_rank_(node_rank),
      role_(role) {}

void Node::start() {
  if (up_ || finished_ || retired_) return;
  up_ = true;
  ++life_;
  end_ = {};
  session_ = 0;
  nonce_.clear();
  waiting_ = ordered_ = stopping_ = false;
  heard_at_ = timeline_.now_ms();
  open_wire();
  if (role_ == Role::node) join();
  beat();
}

void Node::open_wire() {
  wire_ = world_.open_wire(*this);
  greeted_ = false;
  Hello hello;
  hello.run_id = "sim";
  hello.node = name_;
  hello.role = role_;
  hello.incarnation = life_;
  hello.nonce = nonce_;
  hello.session = session_;
  hello.received = end_.received;
  transmit(Packet{0, hello});
}

void Node::transmit(const Packet& packet) {
  if (!wire_ || !wire_->open_at_node) return;
  wire_->up.put([this, wire = wire_, packet] { world_.receive(wire, packet); });
}

void Node::send(const Message& message) {
  const Packet packet = end_.number(message);
  // Before hello_ok nobody knows which of them have come, so they wait for it.
  if (greeted_) transmit(packet);
}

void Node::beat() {
  if (!up_) return;
  // The lease: who does not hear the coordinator may have been given up by it.
  if (timeline_.now_ms() - heard_at_ > kDeadAfter.count()) {
    world_.say(name_ + " gives up");
    end_life(timeline_.random(0, 1000), true);
    return;
  }
  send(Heartbeat{1});
  timeline_.after(kHeartbeatInterval.count(), [this, life = life_] {
    if (life_ == life) beat();
  });
}

void Node::reset_connection() {
  if (!connected()) return;
  world_.say(name_ + ": connection reset");
  world_.break_wire(wire_);
}

void Node::wire_ended(const std::shared_ptr<Wire>& wire, bool broken) {
  if (wire != wire_ || !up_) return;
  wire_->open_at_node = false;
  if (broken)
    resume_soon();
  else
    end_life(timeline_.random(0, 1000), true);
}

void Node::resume_soon() {
  timeline_.after(timeline_.random(20, 600), [this, life = life_] {
    if (life_ == life && up_ && !wire_->open_at_node) open_wire();
  });
}

void Node::block(bool up, bool down, std::int64_t until_ms) {
  if (!connected()) return;
  if (up) wire_->up.block_until(until_ms);
  if (down) wire_->down.block_until(until_ms);
}

void Node::crash(bool for_good) {
  if (!up_) return;
  world_.say(name_ + (for_good ? " crashes for good" : " crashes"));
  end_life(0, !for_good);
}

void Node::vanish() {
  if (!up_) return;
  world_.say(name_ + " vanishes");
  if (wire_) {
    wire_->up.kill();
    wire_->down.kill();
  }
  end_life(0, timeline_.chance(50));
}

/// The process ends: its connection too (in order, after what was sent), and its workers after `stop_ms`.
void Node::end_life(std::int64_t stop_ms, bool come_back) {
  up_ = false;
  ++life_;
  joining_ = false;
  if (wire_ && wire_->open_at_node) {
    wire_->open_at_node = false;
    wire_->up.put([this, wire = wire_] { world_.ended_by_node(wire); });
  }
  retired_ = retired_ || !come_back;
  if (!workers_alive_) stop_ms = 0;
  timeline_.after(stop_ms, [this, life = life_] {
    if (life_ == life) workers_alive_ = false;
  });
  if (!come_back) return;
  timeline_.after(stop_ms + timeline_.random(100, 3000), [this, life = life_] {
    if (life_ == life) start();
  });
}

void Node::join() {
  joining_ = true;
  waiting_ = false;
  round_ = -1;
  Join request;
  request.host = "host-" + name_;
  request.workers = workers_;
  request.node_rank = node_rank_;
  request.settings = {{"max_restarts", "x"}};
  send(request);
  // A client that repeats a request must do no harm.
  if (timeline_.chance(5)) send(request);
}

void Node::receive(const std::shared_ptr<Wire>& wire, const Packet& packet) {
  if (wire != wire_ || !up_ || !wire->open_at_node) return;
  heard_at_ = timeline_.now_ms();
  // A refusal of the hello belongs to no session.
  if (greeted_) end_.take(packet);
  if (const auto* hello = std::get_if<HelloOk>(&packet.message)) {
    if (session_ != 0 && hello->session != session_) throw Violation(name_ + " resumes another session");
    session_ = hello->session;
    nonce_ = hello->nonce;
    greeted_ = true;
    for (const Packet& missed : end_.after(hello->received)) transmit(missed);
    return;
  }
  handle(packet.message);
}

void Node::handle(const Message& message) {
  if (const auto* result = std::get_if<RoundResult>(&message)) {
    on_result(*result);
  } else if (const auto* end = std::get_if<RoundEnd>(&message)) {
    on_end(*end);
  } else if (const auto* left = std::get_if<Left>(&message)) {
    on_left(*left);
  } else if (std::holds_alternative<JobClosed>(message)) {
    finished_ = true;
    stop_workers(RoundOutcome::stopped);
  } else if (const auto* error = std::get_if<ErrorReply>(&message)) {
    on_error(*error);
  }
}

void Node::on_result(const RoundResult& result) {
  if (!joining_) throw Violation(name_ + " has a result that it did not ask for");
  if (workers_alive_) throw Violation(name_ + " has a result while its old workers live");
  joining_ = false;
  round_ = result.round;
  first_rank_ = result.first_rank;
  workers_alive_ = true;
  stopping_ = false;
  work();
}

void Node::on_end(const RoundEnd& end) {
  if (end.round != round_) return;
  if (waiting_ && end.again)
    join();
  else
    stop_workers(RoundOutcome::stopped);
}

void Node::on_left(const Left& left) {
  if (left.round != round_ || workers_alive_ || joining_ || finished_) return;
  switch (left.next) {
    case NextStep::join:
      join();
      break;
    case NextStep::wait:
      waiting_ = true;
      break;
    case NextStep::end:
      // An agent may go at once, or stay for the verdict.
      if (ordered_ || timeline_.chance(50)) {
        const bool come_back = ordered_ && timeline_.chance(50);
        finished_ = !ordered_;
        end_life(0, come_back);
      }
  }
}

void Node::on_error(const ErrorReply& error) {
  if (error.code == Errc::job_over && (error.about == "join" || error.about == "hello")) {
    finished_ = true;
  } else if (error.about == "join" && joining_) {
    timeline_.after(timeline_.random(500, 1500), [this, life = life_] {
      if (life_ == life && joining_) join();
    });
  }
}

void Node::work() {
  const bool fails = !world_.calm() && timeline_.chance(30);
  timeline_.after(timeline_.random(100, 6000), [this, life = life_, round = round_, fails] {
    if (life_ != life || round_ != round || !workers_alive_ || stopping_) return;
    if (fails) {
      FailRound failure{round, "a worker of " + name_ + " failed", timeline_.chance(10) ? 127 : 3, "", 0};
      failure.stepped = timeline_.chance(30);
      if (timeline_.chance(80)) send(failure);
      stop_workers(RoundOutcome::failed);
    } else if (world_.calm() || timeline_.chance(10)) {
      stop_workers(RoundOutcome::succeeded);
    } else {
      if (timeline_.chance(20)) tell_health();
      if (timeline_.chance(20)) stand_still();
      if (timeline_.chance(20)) tell_pace();
      work();
    }
  });
}

/// What a rank of the node does, now and then one of another node's.
void Node::tell_health() {
  RankHealth health;
  health.round = round_;
  health.rank = first_rank_ + static_cast<int>(timeline_.random(0, workers_));
  health.activity = timeline_.chance(20) ? Activity::moves : Activity::waits;
  health.wait = timeline_.chance(50) ? WaitKind::communication : WaitKind::lock;
  health.still = health.lasted = Milliseconds(timeline_.random(0, 90'000));
  send(health);
}

/// How fast the ranks of the node are, and what is wrong on its host.
void Node::tell_pace() {
  for (int rank = 0; rank < workers_; ++rank)
    send(RankPace{round_, first_rank_ + rank, 1, 200'000, timeline_.chance(20) ? 200'000U : 80'000U});
  send(HostNews{round_, timeline_.chance(50) ? "a file system is full" : ""});
  const auto last = static_cast<std::uint64_t>(timeline_.random(1, 3));
  FlightGroup group{"default_pg", "0", {0, 1, 2}, last, {}};
  if (timeline_.chance(50))
    group.calls.push_back({last, "all_reduce", "[[4]]", "[[4]]", "[Float]", "started"});
  send(RankFlight{round_, {first_rank_, {group}}});
}

/// Tells of all ranks of the node that they have stood still for long enough to be hung, if the others have.
void Node::stand_still() {
  for (int rank = 0; rank < workers_; ++rank) {
    RankHealth health;
    health.round = round_;
    health.rank = first_rank_ + rank;
    health.activity = Activity::waits;
    health.wait = rank == 0 ? WaitKind::lock : WaitKind::communication;
    health.still = health.lasted = Milliseconds(90'000);
    send(health);
  }
}

void Node::stop_on_order() {
  if (!workers_alive_ || stopping_ || !up_) return;
  world_.say(name_ + " is stopped by an order");
  ordered_ = true;
  stop_workers(RoundOutcome::stopped);
}

void Node::stop_workers(RoundOutcome outcome) {
  if (!workers_alive_ || stopping_) return;
  stopping_ = true;
  timeline_.after(timeline_.random(0, 2000), [this, life = life_, outcome] {
    if (life_ != life) return;
    workers_alive_ = false;
    const LeaveRound leave{round_, outcome, 3};
    send(leave);
    if (timeline_.chance(5)) send(leave);
  });
}

}  // namespace muster::rendezvous::sim
