// SPDX-License-Identifier: Apache-2.0
// round_sim [--seeds N] [--first-seed S] | --seed S [--trace] | --scale NODES
#include "tests/sim/world.hpp"

#include <chrono>
#include <cstdlib>
#include <cstring>
#include <iostream>
#include <limits>
#include <set>

namespace {

using namespace muster::rendezvous;

double seconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

int run_seeds(std::uint64_t first, std::uint64_t count, bool trace) {
  const auto start = std::chrono::steady_clock::now();
  std::size_t events = 0;
  int rounds = 0;
  int restarts = 0;
  int resumptions = 0;
  int successes = 0;
  for (std::uint64_t seed = first; seed < first + count; ++seed) {
    sim::World world(seed, trace);
    try {
      world.run();
    } catch (const std::exception& error) {
      std::cerr << "round_sim: " << error.what() << "\nrepeat with: round_sim --trace --seed " << seed
                << '\n';
      return 1;
    }
    events += world.events();
    rounds += world.rounds();
    restarts += world.restarts();
    resumptions += world.resumptions();
    successes += world.succeeded();
  }
  std::cout << count << " jobs (" << successes << " succeeded), " << rounds << " rounds, " << restarts
            << " restarts, " << resumptions << " resumptions, " << events << " events in "
            << seconds_since(start) << " s\n";
  return 0;
}

/// A coordinator and `nodes` nodes of one rank each; every message goes through its JSON text.
class ScaleJob {
 public:
  explicit ScaleJob(int nodes) : nodes_(nodes), coordinator_(options(nodes)) {}

  void say_hello() {
    Hello hello;
    hello.run_id = "scale";
    for (int i = 1; i <= nodes_; ++i) {
      hello.node = "n" + std::to_string(i);
      deliver(i, hello);
    }
  }

  /// Whether all have places, and ranks of their own, in `round`.
  bool join(RoundNumber round) {
    ranks_.clear();
    every(Join{"h", "10.0.0.1", 1, round});
    return ranks_.size() == static_cast<std::size_t>(nodes_);
  }

  /// One fails and all leave.
  void fail(RoundNumber round) {
    deliver(1, FailRound{round, "a worker failed"});
    every(LeaveRound{round, RoundOutcome::stopped});
  }

 private:
  static CoordinatorOptions options(int nodes) {
    CoordinatorOptions options;
    options.run_id = "scale";
    options.limits.min_nodes = options.limits.max_nodes = nodes;
    options.limits.max_restarts = std::numeric_limits<int>::max();
    return options;
  }

  void every(const Message& message) {
    for (int i = 1; i <= nodes_; ++i) deliver(i, message);
  }

  void deliver(int session, const Message& message) {
    perform(coordinator_.on_message(static_cast<SessionId>(session), message_from_json(to_json(message)),
                                    TimePoint{}));
  }

  void perform(const Effects& effects) {
    for (const Effect& effect : effects) {
      if (const auto* open = std::get_if<effect::OpenStore>(&effect)) {
        perform(coordinator_.on_store_opened(open->round, Endpoint{"10.0.0.1", 29500}, TimePoint{}));
      } else if (const auto* send = std::get_if<effect::Send>(&effect)) {
        const Message received = message_from_json(to_json(send->message));
        if (const auto* result = std::get_if<RoundResult>(&received)) ranks_.insert(result->first_rank);
      }
    }
  }

  int nodes_;
  Coordinator coordinator_;
  std::set<int> ranks_;
};

/// All nodes join and get their places; then one fails, and all come to the next round.
int run_scale(int nodes) {
  ScaleJob job(nodes);
  const auto start = std::chrono::steady_clock::now();
  job.say_hello();
  const bool first = job.join(0);
  const double joined = seconds_since(start);
  const auto failure = std::chrono::steady_clock::now();
  job.fail(0);
  const bool second = job.join(1);
  const double restarted = seconds_since(failure);
  std::cout << nodes << " nodes: round " << joined << " s, restart " << restarted << " s\n";
  if (!first || !second) {
    std::cerr << "round_sim: not every node has a place in round " << (first ? 1 : 0) << '\n';
    return 1;
  }
#ifndef MUSTER_SANITIZED
  if (joined >= 10.0 || restarted >= 10.0) {
    std::cerr << "too late: ten times the goal of 1 s each was not reached\n";
    return 1;
  }
#endif
  return 0;
}

std::uint64_t number(const char* text) {
  return std::strtoull(text, nullptr, 10);
}

}  // namespace

int main(int argc, char** argv) {
  std::uint64_t first = 1;
  std::uint64_t count = 3000;
  bool trace = false;
  for (int i = 1; i < argc; ++i) {
    const bool more = i + 1 < argc;
    if (std::strcmp(argv[i], "--trace") == 0) {
      trace = true;
    } else if (std::strcmp(argv[i], "--seed") == 0 && more) {
      first = number(argv[++i]);
      count = 1;
    } else if (std::strcmp(argv[i], "--first-seed") == 0 && more) {
      first = number(argv[++i]);
    } else if (std::strcmp(argv[i], "--seeds") == 0 && more) {
      count = number(argv[++i]);
    } else if (std::strcmp(argv[i], "--scale") == 0 && more) {
      return run_scale(static_cast<int>(number(argv[++i])));
    } else {
      std::cerr << "usage: round_sim [--first-seed S] [--seeds N] | --seed S [--trace] | --scale NODES\n";
      return 2;
    }
  }
  return run_seeds(first, count, trace);
}
