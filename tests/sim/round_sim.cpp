// SPDX-License-Identifier: Apache-2.0
// round_sim [--seeds N] [--first-seed S] | --seed S [--trace] | --scale NODES
#include "tests/sim/world.hpp"

#include <chrono>
#include <cstdlib>
#include <cstring>
#include <iostream>
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

/// One round and one barrier of `nodes` nodes of one rank each; every message goes through its JSON text.
int run_scale(int nodes) {
  CoordinatorOptions options;
  options.run_id = "scale";
  options.round.min_nodes = options.round.max_nodes = nodes;
  Coordinator coordinator(options);
  const TimePoint now{};
  std::size_t results = 0;
  std::size_t released = 0;
  std::set<int> ranks;
  const auto deliver = [&](SessionId session, const Message& message) {
    Effects effects = coordinator.on_message(session, message_from_json(to_json(message)), now);
    for (std::size_t i = 0; i < effects.size(); ++i) {
      if (std::holds_alternative<effect::OpenStore>(effects[i])) {
        for (Effect& more : coordinator.on_store_opened(0, Endpoint{"10.0.0.1", 29500}, now))
          effects.push_back(std::move(more));
      } else if (const auto* send = std::get_if<effect::Send>(&effects[i])) {
        const Message received = message_from_json(to_json(send->message));
        if (const auto* result = std::get_if<RoundResult>(&received))
          results += ranks.insert(result->first_rank).second;
        released += std::holds_alternative<BarrierDone>(received);
      }
    }
  };
  const auto start = std::chrono::steady_clock::now();
  for (int i = 1; i <= nodes; ++i) {
    Hello hello;
    hello.run_id = "scale";
    hello.node = "n" + std::to_string(i);
    deliver(static_cast<SessionId>(i), hello);
    deliver(static_cast<SessionId>(i), Join{"h", "10.0.0.1", 1, 0});
  }
  const double joined = seconds_since(start);
  const auto barrier_start = std::chrono::steady_clock::now();
  for (int i = 1; i <= nodes; ++i)
    deliver(static_cast<SessionId>(i), BarrierEnter{0, "exit", Milliseconds(1000)});
  const double passed = seconds_since(barrier_start);
  std::cout << nodes << " nodes: round " << joined << " s, barrier " << passed << " s\n";
  const auto wanted = static_cast<std::size_t>(nodes);
  if (results != wanted || released != wanted) {
    std::cerr << "round_sim: " << results << " results and " << released << " released of " << nodes << '\n';
    return 1;
  }
#ifndef MUSTER_SANITIZED
  if (joined >= 10.0 || passed >= 10.0) {
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
