// SPDX-License-Identifier: Apache-2.0
#include "tests/support/rendezvous_load/load.hpp"

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>

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
    std::printf("{\"agents\":%d,\"joined_s\":%.3f,\"barrier_s\":%.4f,\"interrupted\":%d}\n", count_,
                joined_s_, barrier_s_, interrupted_);
    return 0;
  }

 private:
  void add(int index) {
    const std::string node = "a" + std::to_string(index);
    const std::string from = "127.1." + std::to_string(index / 250) + "." + std::to_string(1 + index % 250);
    ClientEvents events;
    events.lost = [this, node](const std::string& reason) {
      if (error_.empty() && !leaving_) error_ = node + " lost the coordinator: " + reason;
    };
    events.interrupted = [this](const std::string&) { ++interrupted_; };
    clients_.push_back(std::make_unique<CoordinatorClient>(
        context_.get_executor(),
        connector(context_.get_executor(), secret_, {"127.0.0.1", port_}, node, from),
        start_ + std::chrono::seconds(60), client_options(node), std::move(events)));
    asio::co_spawn(context_, live(clients_.back().get(), node), [this](const std::exception_ptr& failure) {
      try {
        if (failure) std::rethrow_exception(failure);
      } catch (const std::exception& error) {
        if (error_.empty()) error_ = error.what();
      }
    });
  }

  asio::awaitable<void> live(CoordinatorClient* client, std::string node) {
    const TimePoint deadline = start_ + std::chrono::seconds(120);
    Join request = join_request(node);
    const RoundResult place = co_await client->join(std::move(request), deadline);
    if (++joined_ == count_) {
      joined_s_ = seconds_since(start_);
      std::fprintf(stderr, "joined\n");
      // All enter it when the last one has joined, as workers do.
      barrier_start_ = Clock::now();
      gate_.cancel();
    } else {
      co_await wait(gate_);
    }
    co_await client->barrier(place.round, "b", deadline);
    if (++passed_ == count_) {
      barrier_s_ = seconds_since(barrier_start_);
      std::fprintf(stderr, "idle\n");
    }
    asio::steady_timer idle(context_, std::chrono::seconds(idle_s_));
    co_await wait(idle);
    if (!leaving_) std::fprintf(stderr, "leaving\n");
    leaving_ = true;
    LeaveRound leave;
    leave.round = place.round;
    leave.outcome = RoundOutcome::succeeded;
    co_await client->leave_round(leave, Clock::now() + std::chrono::seconds(30));
    ++left_;
  }

  static asio::awaitable<void> wait(asio::steady_timer& timer) {
    try {
      co_await timer.async_wait(asio::use_awaitable);
    } catch (const boost::system::system_error&) {
      // Woken before its time.
    }
  }

  const Secret& secret_;
  int port_;
  int count_;
  int idle_s_;
  asio::io_context context_{1};
  asio::steady_timer gate_{context_, TimePoint::max()};
  std::vector<std::unique_ptr<CoordinatorClient>> clients_;
  Clock::time_point start_;
  Clock::time_point barrier_start_;
  std::string error_;
  double joined_s_ = 0;
  double barrier_s_ = 0;
  int joined_ = 0;
  int passed_ = 0;
  int left_ = 0;
  int interrupted_ = 0;
  bool leaving_ = false;
};

}  // namespace

int run_agents(const Secret& secret, int port, int count, int idle_s) {
  return Agents(secret, port, count, idle_s).run();
}

}  // namespace muster::load
