// SPDX-License-Identifier: Apache-2.0
// Injects faults at a certain call of a certain rank, for tests (MUSTER_FAULT).
#pragma once

#include "worker_sdk/comm/call.hpp"

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

namespace muster::fault {

enum class Action : std::uint8_t { kill, stop, delay, error };

/// A point at which a fault can strike: a kind of call, or another phase of a world.
enum class Point : std::uint8_t { agree = 64, init, split, finalize };

constexpr std::uint8_t point_of(Collective collective) {
  return static_cast<std::uint8_t>(collective);
}

constexpr std::uint8_t point_of(Point point) {
  return static_cast<std::uint8_t>(point);
}

struct Fault {
  Action action = Action::kill;
  /// The length of a delay. For kill and stop: the time after the beginning of the call, while it runs; 0:
  /// before it begins.
  std::chrono::milliseconds time{0};
  int rank = 0;
  std::uint8_t point = 0;
  /// The fault strikes at this rank's call of that kind with this number, from 1.
  std::uint64_t occurrence = 1;
  /// The fault as it was written, for messages.
  std::string text;
};

/// Reads the faults of all ranks of one world of `size`:
///   ACTION@RANK:OP[:K] {, ACTION@RANK:OP[:K]}
///   ACTION = kill | kill+MS | stop | stop+MS | delay:MS | error
///   OP     = name of a collective, agree, init, split, finalize
/// Throws Error (invalid_argument) that names the part which is wrong.
std::vector<Fault> parse_faults(std::string_view text, int size);

/// Injects the faults of one rank. Any thread.
class Injector {
 public:
  Injector(std::vector<Fault> faults, int rank);
  ~Injector();
  Injector(const Injector&) = delete;
  Injector& operator=(const Injector&) = delete;

  /// Counts the call, and strikes if a fault is planned for it. Throws Error (backend) for `error`.
  void at(std::uint8_t point);

 private:
  struct Armed {
    Fault fault;
    std::uint64_t seen = 0;
  };

  void act(const Fault& fault);
  void signal_self(const Fault& fault);

  int rank_;
  std::mutex mutex_;
  std::vector<Armed> armed_;
  std::condition_variable ended_;
  bool end_ = false;
  std::vector<std::thread> later_;
};

}  // namespace muster::fault
