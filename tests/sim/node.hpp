// SPDX-License-Identifier: Apache-2.0
// A simulated agent (or launcher): it joins, works, stops, fails, loses its connection and comes back.
#pragma once

#include "tests/sim/network.hpp"

#include <memory>
#include <string>

namespace muster::rendezvous::sim {

class World;

class Node {
 public:
  Node(World& world, std::string name, int workers, int node_rank, Role role = Role::node);

  // What the world does to it.
  void start();
  void crash(bool for_good);
  /// The machine is gone: nothing more comes from it, not even the end of its connection.
  void vanish();
  void reset_connection();
  void block(bool up, bool down, std::int64_t until_ms);
  void stop_on_order();

  // What comes over its wires.
  void receive(const std::shared_ptr<Wire>& wire, const Packet& packet);
  void wire_ended(const std::shared_ptr<Wire>& wire, bool broken);

  const std::string& name() const { return name_; }

  int workers() const { return workers_; }

  Role role() const { return role_; }

  bool connected() const { return up_ && wire_ && wire_->open_at_node; }

  bool up() const { return up_; }

  bool workers_alive() const { return workers_alive_; }

  RoundNumber round() const { return round_; }

  /// It has heard the verdict, or was told that it is not needed any more.
  bool finished() const { return finished_; }

  SessionId session() const { return session_; }

 private:
  void open_wire();
  void resume_soon();
  void send(const Message& message);
  void transmit(const Packet& packet);
  void beat();
  void join();
  void handle(const Message& message);
  void on_result(const RoundResult& result);
  void on_end(const RoundEnd& end);
  void on_left(const Left& left);
  void on_error(const ErrorReply& error);
  void work();
  void tell_health();
  void stand_still();
  void tell_pace();
  void stop_workers(RoundOutcome outcome);
  void end_life(std::int64_t stop_ms, bool come_back);

  World& world_;
  Timeline& timeline_;
  const std::string name_;
  const int workers_;
  const int node_rank_;
  const Role role_;
  bool up_ = false;
  bool finished_ = false;
  bool retired_ = false;
  /// Grows with each start, so that events of an earlier life are ignored.
  std::uint64_t life_ = 0;
  std::shared_ptr<Wire> wire_;
  SessionEnd end_;
  SessionId session_ = 0;
  /// Hello_ok has come over the present wire.
  bool greeted_ = false;
  std::string nonce_;
  std::int64_t heard_at_ = 0;
  bool joining_ = false;
  bool waiting_ = false;
  bool ordered_ = false;
  RoundNumber round_ = -1;
  int first_rank_ = 0;
  bool workers_alive_ = false;
  bool stopping_ = false;
};

}  // namespace muster::rendezvous::sim
