// SPDX-License-Identifier: Apache-2.0
// A coordinator service with nodes on socket pairs, all on one io_context, and stores that are only counted.
#pragma once

#include "rendezvous/client/coordinator_client.hpp"
#include "rendezvous/server/daemon/coordinator_service.hpp"
#include "tests/support/run_until.hpp"

#include <boost/asio/io_context.hpp>

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace muster::rendezvous::test {

namespace asio = boost::asio;
using namespace std::chrono_literals;

inline TimePoint in(Milliseconds time) {
  return std::chrono::steady_clock::now() + time;
}

std::pair<int, int> socket_pair();

/// Stores that exist only as numbers. At most one may be open.
struct FakeStores {
  int opened = 0;
  int open_now = 0;
  int most_open = 0;
  std::string failure;

  StoreOpener opener();
};

/// One node: its client and everything that it was told.
struct Node {
  std::vector<Status> statuses;
  std::vector<RoundEnd> ends;
  std::vector<std::string> losses;
  std::vector<std::string> closings;
  std::unique_ptr<CoordinatorClient> client;

  ClientEvents events();
};

Join join_request(int workers, RoundNumber round = 0);
LeaveRound leaving(RoundNumber round, RoundOutcome outcome);
FailRound failing(RoundNumber round, const std::string& text);

/// What became of a coroutine.
template <typename T>
struct Outcome {
  bool done = false;
  std::shared_ptr<T> value;
  std::string error;
  std::optional<Errc> code;
};

// Compiled once, for what clients answer with: starting a coroutine takes a second to compile, in each file
// that does it.
std::shared_ptr<Outcome<RoundResult>> spawn_on(asio::io_context& context, asio::awaitable<RoundResult> work);
std::shared_ptr<Outcome<Left>> spawn_on(asio::io_context& context, asio::awaitable<Left> work);
std::shared_ptr<Outcome<LauncherState>> spawn_on(asio::io_context& context,
                                                 asio::awaitable<LauncherState> work);
std::shared_ptr<Outcome<int>> spawn_on(asio::io_context& context, asio::awaitable<void> work);

class Bench {
 public:
  explicit Bench(JobLimits limits, MembershipLimits membership = {});

  /// `name` connects.
  std::unique_ptr<Node> node(const std::string& name);

  void run_until(const std::function<bool()>& done) { muster::test::run_until(context, done); }

  template <typename Work>
  auto spawn(Work work) {
    return spawn_on(context, std::move(work));
  }

  asio::io_context context{1};
  FakeStores stores;
  std::vector<std::string> ended;
  std::unique_ptr<CoordinatorService> service;
};

}  // namespace muster::rendezvous::test
