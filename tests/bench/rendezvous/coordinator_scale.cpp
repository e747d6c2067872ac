// SPDX-License-Identifier: Apache-2.0
// coordinator_scale [--repeats N] [--check TIMES]: what the pure coordinator takes for the life of a job,
// each phase by itself, at 1,000 and 10,000 nodes. With --check, fails above TIMES what it usually takes, by
// a yardstick of the same run.
#include "rendezvous/core/coordinator.hpp"

#include <time.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <iostream>
#include <map>
#include <stdexcept>
#include <string>
#include <vector>

namespace {

using namespace muster::rendezvous;

constexpr int kSmall = 1000;
constexpr int kLarge = 10000;
/// The first round of the large job and a restart: their goal, in ms.
constexpr double kGoalMs = 100;
/// Cost of a phase per node at the large size, by that at the small one: 10 would be quadratic, and the
/// caches alone make 1.5.
constexpr double kFlat = 2;
constexpr double kFlatOnABusyMachine = 3;
/// Round and restart of the large job, by the yardstick.
constexpr double kUsual = 1.5;
constexpr const char* kRound = "join: hello, join, result";
constexpr const char* kRestart = "restart: fail, leave, join, result";

using Phases = std::vector<std::pair<std::string, double>>;

/// Of this thread, so that other programs on the machine count little.
double cpu_ms() {
  timespec time{};
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) * 1e3 + static_cast<double>(time.tv_nsec) / 1e6;
}

class Job {
 public:
  explicit Job(int nodes) : nodes_(nodes), coordinator_(options(nodes)) {}

  /// Milliseconds of each phase.
  Phases run();

 private:
  static CoordinatorOptions options(int nodes) {
    CoordinatorOptions options;
    options.run_id = "scale";
    options.nonce = "5eed5eed5eed5eed";
    options.limits.min_nodes = options.limits.max_nodes = nodes;
    options.limits.max_restarts = 1;
    for (int i = 1; i <= nodes; ++i) options.expected_nodes.push_back(name(i));
    return options;
  }

  static NodeName name(int node) { return "n" + std::to_string(node); }

  void phase(const std::string& what, const std::function<void()>& act);
  void send(int session, const Message& message);
  void every(const Message& message);
  void take(const Effects& effects);
  void expect(const char* type, int count);
  void join_all(RoundNumber round);
  void say_hello();

  int nodes_;
  Coordinator coordinator_;
  TimePoint now_{};
  std::map<std::string_view, int> received_;
  std::optional<RoundNumber> to_open_;
  Phases phases_;
};

void Job::phase(const std::string& what, const std::function<void()>& act) {
  received_.clear();
  const double start = cpu_ms();
  act();
  phases_.emplace_back(what, cpu_ms() - start);
}

void Job::take(const Effects& effects) {
  for (const Effect& effect : effects) {
    if (const auto* send = std::get_if<effect::Send>(&effect))
      ++received_[type_name(send->message)];
    else if (const auto* open = std::get_if<effect::OpenStore>(&effect))
      to_open_ = open->round;
  }
  if (!to_open_) return;
  const RoundNumber round = *to_open_;
  to_open_.reset();
  take(coordinator_.on_store_opened(round, Endpoint{"10.0.0.1", 29500}, now_));
}

void Job::send(int session, const Message& message) {
  take(coordinator_.on_message(static_cast<SessionId>(session), message, now_));
}

void Job::every(const Message& message) {
  for (int i = 1; i <= nodes_; ++i) send(i, message);
}

void Job::expect(const char* type, int count) {
  if (received_[type] == count) return;
  throw std::runtime_error(std::to_string(received_[type]) + " messages '" + type + "' instead of " +
                           std::to_string(count));
}

void Job::say_hello() {
  Hello hello;
  hello.run_id = "scale";
  for (int i = 1; i <= nodes_; ++i) {
    hello.node = name(i);
    hello.incarnation = static_cast<std::uint64_t>(i);
    send(i, hello);
  }
}

void Job::join_all(RoundNumber round) {
  Join join;
  join.host = "host";
  join.address = "10.0.0.2";
  join.workers = 8;
  join.round = round;
  join.settings = {{"max_restarts", "1"}, {"nnodes", std::to_string(nodes_)}};
  for (int i = 1; i <= nodes_; ++i) {
    join.node_rank = i - 1;
    send(i, join);
  }
}

Phases Job::run() {
  Hello launcher;
  launcher.run_id = "scale";
  launcher.node = "launcher";
  launcher.role = Role::launcher;
  const int control = nodes_ + 1;
  send(control, launcher);
  phase("states from the launcher", [&] {
    for (int i = 1; i <= nodes_; ++i) send(control, NodeState{name(i), "started", true});
  });
  phase(kRound, [&] {
    say_hello();
    join_all(0);
    expect("round_result", nodes_);
  });
  phase("heartbeats and one look at all", [&] {
    now_ += std::chrono::seconds(1);
    every(Heartbeat{1});
    take(coordinator_.on_timer(now_));
  });
  phase("every connection broken and resumed", [&] {
    for (int i = 1; i <= nodes_; ++i)
      take(coordinator_.on_disconnect(static_cast<SessionId>(i), "reset", now_, Ending::broken));
    for (int i = 1; i <= nodes_; ++i)
      take(coordinator_.on_resume(static_cast<SessionId>(i), "10.0.0.2:40000", now_));
  });
  phase(kRestart, [&] {
    send(1, FailRound{0, "a worker failed"});
    expect("round_end", nodes_ - 1);
    every(LeaveRound{0, RoundOutcome::stopped});
    expect("left", nodes_);
    join_all(1);
    expect("round_result", nodes_);
  });
  phase("half leave with success, the rest are lost", [&] {
    for (int i = 1; i <= nodes_ / 2; ++i) send(i, LeaveRound{1, RoundOutcome::succeeded});
    now_ += std::chrono::seconds(10);
    for (int i = nodes_ / 2 + 1; i <= nodes_; ++i)
      take(coordinator_.on_disconnect(static_cast<SessionId>(i), "closed", now_));
    expect("job_closed", nodes_ / 2 + 1);
  });
  return std::move(phases_);
}

/// The quickest of several runs, phase by phase: the rest is the machine's noise.
Phases measure(int nodes, int repeats) {
  Phases best;
  for (int i = 0; i < repeats; ++i) {
    const Phases phases = Job(nodes).run();
    if (best.empty()) best = phases;
    for (std::size_t p = 0; p < phases.size(); ++p)
      best[p].second = std::min(best[p].second, phases[p].second);
  }
  return best;
}

/// Milliseconds for as many names, in trees as the coordinator has them: what this machine makes of such work
/// now. The quickest of several.
double yardstick_ms(int repeats) {
  constexpr int kTrees = 20;
  double best = 0;
  for (int i = 0; i < repeats; ++i) {
    const double start = cpu_ms();
    std::size_t bytes = 0;
    for (int tree = 0; tree < kTrees; ++tree) {
      std::map<std::string, std::string> names;
      for (int node = 0; node < kLarge; ++node)
        names["node " + std::to_string(node)] = "a value of some length";
      for (const auto& [name, value] : names) bytes += name.size() + value.size();
    }
    const double took = cpu_ms() - start;
    if (bytes == 0) throw std::runtime_error("the yardstick did nothing");
    best = i == 0 ? took : std::min(best, took);
  }
  return best;
}

int report(int repeats, double check) {
  const Phases small = measure(kSmall, repeats);
  const Phases large = measure(kLarge, repeats);
  bool flat = true;
  double rounds_ms = 0;
  std::cout << "| phase | " << kSmall << " nodes, ms | us per node | " << kLarge
            << " nodes, ms | us per node | per node, large / small |\n|---|---|---|---|---|---|\n";
  std::cout.precision(3);
  for (std::size_t p = 0; p < small.size(); ++p) {
    const auto& [what, small_ms] = small[p];
    const double large_ms = large[p].second;
    const double growth = large_ms / kLarge / (small_ms / kSmall);
    if (what == kRound || what == kRestart) rounds_ms += large_ms;
    flat = flat && growth < (check > 1 ? kFlatOnABusyMachine : kFlat);
    std::cout << "| " << what << " | " << small_ms << " | " << small_ms * 1000 / kSmall << " | " << large_ms
              << " | " << large_ms * 1000 / kLarge << " | " << growth << " |\n";
  }
  const double yardstick = yardstick_ms(repeats);
  const bool met = rounds_ms < kUsual * yardstick * std::max(1.0, check);
  std::cout << "\nround and restart of " << kLarge << " nodes: " << rounds_ms << " ms (goal <= " << kGoalMs
            << ": " << (rounds_ms <= kGoalMs ? "met" : "missed") << "), " << rounds_ms / yardstick
            << " times the yardstick (usually " << kUsual << ")\n";
  if (check == 0 || (met && flat)) return 0;
  if (!flat) std::cerr << "Missed: a node among many costs more than one among few\n";
  if (!met) std::cerr << "Missed: too late: it takes more than the check allows\n";
  return 1;
}

}  // namespace

int main(int argc, char** argv) {
  int repeats = 5;
  double check = 0;
  for (int i = 1; i < argc; ++i) {
    const bool more = i + 1 < argc;
    if (std::strcmp(argv[i], "--repeats") == 0 && more) {
      repeats = std::max(1, std::atoi(argv[++i]));
    } else if (std::strcmp(argv[i], "--check") == 0 && more) {
      check = std::atof(argv[++i]);
    } else {
      std::cerr << "usage: coordinator_scale [--repeats N] [--check TIMES]\n";
      return 2;
    }
  }
  try {
    return report(repeats, check);
  } catch (const std::exception& error) {
    std::cerr << "coordinator_scale: " << error.what() << '\n';
    return 1;
  }
}
