// SPDX-License-Identifier: Apache-2.0
#include "tests/support/rendezvous_load/load.hpp"

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>

#include <cstdio>
#include <exception>
#include <memory>
#include <vector>

namespace muster::load {
namespace {

namespace asio = boost::asio;
using namespace rendezvous;

class Agents {
 public:
  Agents(const Secret& secret, int port, int count, int idle_s)
      : secret_(secret), port_(port), count_(count), idle_s_(idle_s) {}

  int run() {
    start_ = Clock::now();
    for (int i = 0; i < count_; ++i) add(i);
    while (left_ < count_ && error_.empty()) context_.run_one_for(std::chrono::seconds(1));
    if (!error_.empty()) {
      std::fprintf(stderr, "rendezvous_load: %s\n", error_.c_str());
      return 1;
    }
    std::printf("{\"agents\":%d,\"joined_s\":%.3f,\"restart_s\":%.4f,\"interrupted\":%d}\n", count_,
                joined_s_, restart_s_, interrupted_);
    return 0;
  }

 private:
  struct Agent {
    explicit Agent(asio::io_context& context) : round_ended(context, TimePoint::max()) {}

    std::unique_ptr<CoordinatorClient> client;
    /// Expires when the agent is told to stop its workers.
    asio::steady_timer round_ended;
  };

  void add(int index) {
    const std::string node = "a" + std::to_string(index);
    const std::string from = "127.1." + std::to_string(index / 250) + "." + std::to_string(1 + index % 250);
    agents_.push_back(std::make_unique<Agent>(context_));
    Agent& agent = *agents_.back();
    ClientEvents events;
    events.round_ended = [&agent](const RoundEnd&) { agent.round_ended.expires_at(Clock::now()); };
    events.lost = [this, node](const std::string& reason) {
      if (error_.empty() && !leaving_) error_ = node + " lost the coordinator: " + reason;
    };
    events.interrupted = [this](const std::string&) { ++interrupted_; };
    agent.client = std::make_unique<CoordinatorClient>(
        context_.get_executor(),
        connector(context_.get_executor(), secret_, {"127.0.0.1", port_}, node, from),
        start_ + std::chrono::seconds(60), client_options(node), std::move(events));
    asio::co_spawn(context_, live(agent, node), [this](const std::exception_ptr& failure) {
      try {
        if (failure) std::rethrow_exception(failure);
      } catch (const std::exception& error) {
        if (error_.empty()) error_ = error.what();
      }
    });
  }

  asio::awaitable<void> live(Agent& agent, std::string node) {
    const TimePoint deadline = start_ + std::chrono::seconds(120);
    Join request = join_request(node);
    const RoundResult first = co_await agent.client->join(std::move(request), deadline);
    RoundOutcome outcome = RoundOutcome::stopped;
    if (++joined_ == count_) {
      joined_s_ = seconds_since(start_);
      std::fprintf(stderr, "joined\n");
      // The last one to join fails at once, and the whole job begins anew.
      restart_start_ = Clock::now();
      outcome = RoundOutcome::failed;
      FailRound failure;
      failure.round = first.round;
      failure.text = "a worker failed";
      agent.client->tell(std::move(failure));
    } else {
      co_await wait(agent.round_ended);
    }
    LeaveRound stopped = leaving(first.round, outcome);
    co_await agent.client->leave_round(std::move(stopped), deadline);
    Join again = join_request(node);
    again.round = first.round + 1;
    const RoundResult second = co_await agent.client->join(std::move(again), deadline);
    if (++restarted_ == count_) {
      restart_s_ = seconds_since(restart_start_);
      std::fprintf(stderr, "idle\n");
    }
    asio::steady_timer idle(context_, std::chrono::seconds(idle_s_));
    co_await wait(idle);
    if (!leaving_) std::fprintf(stderr, "leaving\n");
    leaving_ = true;
    LeaveRound done = leaving(second.round, RoundOutcome::succeeded);
    co_await agent.client->leave_round(std::move(done), Clock::now() + std::chrono::seconds(30));
    ++left_;
  }

  const Secret& secret_;
  int port_;
  int count_;
  int idle_s_;
  asio::io_context context_{1};
  std::vector<std::unique_ptr<Agent>> agents_;
  Clock::time_point start_;
  Clock::time_point restart_start_;
  std::string error_;
  double joined_s_ = 0;
  double restart_s_ = 0;
  int joined_ = 0;
  int restarted_ = 0;
  int left_ = 0;
  int interrupted_ = 0;
  bool leaving_ = false;
};

}  // namespace

int run_agents(const Secret& secret, int port, int count, int idle_s) {
  return Agents(secret, port, count, idle_s).run();
}

}  // namespace muster::load
