// SPDX-License-Identifier: Apache-2.0
// A simulated job: the real Coordinator and its shell, nodes, a launcher and a network of which every delay
// and fault comes from one seed.
#pragma once

#include "tests/sim/network.hpp"
#include "tests/sim/node.hpp"
#include "tests/sim/referee.hpp"

#include <map>
#include <memory>
#include <string>
#include <vector>

namespace muster::rendezvous::sim {

class World {
 public:
  World(std::uint64_t seed, bool trace);
  ~World();
  World(const World&) = delete;
  World& operator=(const World&) = delete;

  /// Faults for a while, then calm, in which the job must come to its end. Throws Violation.
  void run();

  std::size_t events() const { return events_; }

  int rounds() const { return referee_->complete_rounds(); }

  int restarts() const { return referee_->restarts(); }

  int resumptions() const { return resumptions_; }

  bool succeeded() const { return referee_->verdict() && referee_->verdict()->succeeded; }

  // For the nodes.
  Timeline& timeline() { return timeline_; }

  /// No new fault happens any more.
  bool calm() const;
  void say(const std::string& text) const;
  std::shared_ptr<Wire> open_wire(Node& node);
  /// Something has come over it.
  void receive(const std::shared_ptr<Wire>& wire, const Packet& packet);
  /// Its node's end of it has been closed in order.
  void ended_by_node(const std::shared_ptr<Wire>& wire);
  /// Reset: both sides are told at some time, what is under way is lost.
  void break_wire(const std::shared_ptr<Wire>& wire);

 private:
  /// The shell's end of a session.
  struct Session {
    std::shared_ptr<Wire> wire;
    SessionEnd end;
    std::int64_t heard_at_ms = 0;
    /// Its hello was answered with hello_ok.
    bool admitted = false;
  };

  CoordinatorOptions draw_options(int nodes);
  void greet(const std::shared_ptr<Wire>& wire, const Hello& hello);
  void end_session(std::map<SessionId, Session>::iterator session);
  void close_by_shell(const std::shared_ptr<Wire>& wire);
  void perform(Effects effects);
  void perform_one(const effect::Send& send);
  void perform_one(const effect::Disconnect& disconnect);
  void perform_one(const effect::OpenStore& open);
  void perform_one(const effect::CloseStore& close);

  void perform_one(const effect::AskStore&) {}

  void perform_one(const effect::SetTimer& timer);
  void perform_one(const effect::Note& note);
  void perform_one(const effect::EndJob& end);
  void inject_fault();
  /// As many as the coordinator knows.
  int admitted_nodes() const;
  bool deserted() const;
  void check_sessions() const;
  void check_farewell() const;

  Timeline timeline_;
  bool trace_;
  std::size_t events_ = 0;
  int resumptions_ = 0;
  std::unique_ptr<Coordinator> coordinator_;
  std::unique_ptr<Referee> referee_;
  std::vector<std::unique_ptr<Node>> nodes_;
  std::map<SessionId, Session> sessions_;
  SessionId next_session_ = 1;
  std::uint64_t timer_generation_ = 0;
  bool job_ended_ = false;
};

}  // namespace muster::rendezvous::sim
