// SPDX-License-Identifier: Apache-2.0
#include "tests/support/rendezvous_load/load.hpp"
#include "worker_sdk/store/tcp_store.hpp"

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

namespace muster::load {
namespace {

namespace asio = boost::asio;
using namespace rendezvous;

/// Pauses between two requests: what a training program asks, not what the store could bear.
constexpr std::chrono::milliseconds kStorePace{1};
constexpr std::chrono::milliseconds kControlPace{2};
constexpr std::chrono::milliseconds kTellPace{100};

/// Times of requests, one after the other, from any thread.
class Samples {
 public:
  void begin() {
    const std::scoped_lock lock(mutex_);
    begun_ = Clock::now();
  }

  void end() {
    const std::scoped_lock lock(mutex_);
    values_.push_back(seconds_since(*begun_) * 1e6);
    begun_.reset();
  }

  /// How long the present one has waited, in microseconds.
  double age() {
    const std::scoped_lock lock(mutex_);
    return begun_ ? seconds_since(*begun_) * 1e6 : 0;
  }

  /// All since the last call, in the order in which they came.
  std::vector<double> take() {
    const std::scoped_lock lock(mutex_);
    return std::exchange(values_, {});
  }

  /// Those since the last call.
  std::string list() {
    std::string text = "[";
    for (const double value : take()) {
      char number[32];
      std::snprintf(number, sizeof(number), "%s%.1f", text.size() > 1 ? "," : "", value);
      text += number;
    }
    return text + "]";
  }

 private:
  std::mutex mutex_;
  std::vector<double> values_;
  std::optional<Clock::time_point> begun_;
};

class Probe {
 public:
  Probe(const Secret& secret, Endpoint where, int duration_s)
      : secret_(secret), where_(std::move(where)), duration_s_(duration_s) {}

  int run() {
    ClientEvents events;
    events.lost = [this](const std::string& reason) { error_ = "lost the coordinator: " + reason; };
    events.vouch = [this](const Vouch& question) {
      Vouched answer;
      answer.id = question.id;
      answer.allowed = true;
      client_->tell(answer);
    };
    client_.emplace(context_.get_executor(), connector(context_.get_executor(), secret_, where_, "probe", ""),
                    Clock::now() + std::chrono::seconds(30), client_options("probe"), std::move(events));
    asio::co_spawn(context_, live(), [this](const std::exception_ptr& failure) {
      try {
        if (failure) std::rethrow_exception(failure);
      } catch (const std::exception& error) {
        error_ = error.what();
      }
      done_ = true;
    });
    while (!done_ && error_.empty()) context_.run_one_for(std::chrono::seconds(1));
    done_ = true;
    if (store_thread_.joinable()) store_thread_.join();
    if (!error_.empty()) std::fprintf(stderr, "rendezvous_load: %s\n", error_.c_str());
    return error_.empty() ? 0 : 1;
  }

 private:
  asio::awaitable<void> live() {
    Join request = join_request("probe");
    const RoundResult place =
        co_await client_->join(std::move(request), Clock::now() + std::chrono::seconds(30));
    store_thread_ = std::thread([this, place] { use_store(place.store_host, place.store_port); });
    asio::co_spawn(context_, tell(), [](const std::exception_ptr&) {});
    const Clock::time_point end = Clock::now() + std::chrono::seconds(duration_s_);
    asio::steady_timer timer(context_);
    while (Clock::now() < end && error_.empty()) {
      control_.begin();
      co_await client_->launcher_state(Clock::now() + std::chrono::seconds(10));
      control_.end();
      timer.expires_after(kControlPace);
      co_await timer.async_wait(asio::use_awaitable);
    }
  }

  /// Whether requests are answered or not.
  asio::awaitable<void> tell() {
    asio::steady_timer timer(context_, Clock::now());
    for (;;) {
      timer.expires_at(timer.expiry() + kTellPace);
      co_await timer.async_wait(asio::use_awaitable);
      print();
    }
  }

  void print() {
    std::printf("{\"at\":%.3f,\"store\":%s,\"control\":%s,\"pending\":{\"store\":%.1f,\"control\":%.1f}}\n",
                seconds_since(Clock::time_point()), store_.list().c_str(), control_.list().c_str(),
                store_.age(), control_.age());
    std::fflush(stdout);
  }

  void use_store(const std::string& host, int port) {
    try {
      TcpStore client(host, port, StoreOptions());
      while (!done_) {
        store_.begin();
        client.set("key", "value");
        client.get("key");
        store_.end();
        std::this_thread::sleep_for(kStorePace);
      }
    } catch (const std::exception& error) {
      std::fprintf(stderr, "rendezvous_load: the store: %s\n", error.what());
      std::_Exit(1);
    }
  }

  const Secret& secret_;
  Endpoint where_;
  int duration_s_;
  asio::io_context context_{1};
  std::optional<CoordinatorClient> client_;
  std::thread store_thread_;
  Samples store_;
  Samples control_;
  std::string error_;
  std::atomic<bool> done_ = false;
};

}  // namespace

int run_probe(const Secret& secret, const Endpoint& where, int duration_s) {
  return Probe(secret, where, duration_s).run();
}

}  // namespace muster::load
