// SPDX-License-Identifier: Apache-2.0
// Asks the flight recorders of workers that stand still in which collectives they are, and again as long as
// they do: PyTorch's control plane where a program has one, and NCCL's recorder where its pipe is there.
#pragma once

#include "agent/core/recorder_work.hpp"
#include "agent/core/worker_environment.hpp"
#include "agent/process/flight_question.hpp"
#include "rendezvous/protocol/ids.hpp"

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/steady_timer.hpp>

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

namespace muster::agent {

/// One round's workers. Used from the executor's one thread.
class FlightWatch {
 public:
  using Found = std::function<void(const rendezvous::FlightRank&)>;

  /// `ask_each`: the time between two questions. `found` gets each record that is the first of a standstill,
  /// or differs from the one before.
  FlightWatch(const boost::asio::any_io_executor& executor, std::chrono::milliseconds ask_each, Found found);
  ~FlightWatch();
  FlightWatch(const FlightWatch&) = delete;
  FlightWatch& operator=(const FlightWatch&) = delete;

  /// Removes the socket of a job around this one from the environment of a worker: several workers cannot
  /// share it.
  static void forget_outer_job(Environment& environment);

  /// A worker of this rank is about to start with this environment: adds where its control plane listens,
  /// if MUSTER_CONTROL_PLANE is 1 there and the user has not said it, and there is a folder whose path is not
  /// too long for a socket; and notes where it can be asked.
  void prepare(Environment& environment, const std::string& folder, rendezvous::RoundNumber round, int rank);

  /// Moves sockets that have appeared to another name, under which they work as before: a program may make
  /// its control plane more than once, and PyTorch refuses a path that is there.
  void keep_sockets() const;

  struct Asked {
    int rank = 0;
    /// The processes that may be behind its socket.
    std::vector<pid_t> pids{};
  };

  /// Asks these ranks, unless it was asked less than `ask_each` ago, or an answer is still awaited. Nobody
  /// waits.
  void ask(const std::vector<Asked>& ranks);

  /// Whether an answer is awaited.
  bool asks() const { return question_ != nullptr; }

  /// Whether the flight recorder of a rank may have worked after `time`, because it was asked.
  bool worked_after(int rank, std::chrono::steady_clock::time_point time) const;

  /// The rank moves: what was known of it is over.
  void forget(int rank);

  /// How often the record of a rank has differed from the one before in the same standstill, which then was
  /// none.
  std::uint64_t changes(int rank) const;

  /// What is known of ranks that stand still.
  std::vector<rendezvous::FlightRank> records() const;

 private:
  struct Question;

  struct Worker {
    explicit Worker(std::chrono::milliseconds ask_each) : work(ask_each) {}

    FlightSource source{};
    /// Where PyTorch makes the socket, if that was chosen here.
    std::string socket_at{};
    /// What was answered last, through the socket and the pipe.
    std::optional<rendezvous::FlightRank> by_socket{};
    std::optional<rendezvous::FlightRank> by_pipe{};
    std::uint64_t changes = 0;
    /// Whether it has moved since it was asked last.
    bool moved = false;
    RecorderWork work;
  };

  void wait_for_answer();
  void take(FlightAnswers answers);
  static rendezvous::FlightRank record_of(const Worker& worker);

  std::chrono::milliseconds ask_each_;
  Found found_;
  boost::asio::steady_timer timer_;
  std::map<int, Worker> workers_;
  std::shared_ptr<Question> question_;
  std::thread thread_;
  std::optional<std::chrono::steady_clock::time_point> asked_at_;
};

}  // namespace muster::agent
