// SPDX-License-Identifier: Apache-2.0
#include "tests/integration/control/control_fixture.hpp"

#include <boost/asio/co_spawn.hpp>
#include <sys/socket.h>

#include <algorithm>
#include <limits>
#include <stdexcept>

namespace muster::rendezvous::test {
namespace {

template <typename T>
void settle(Outcome<T>& outcome, const std::exception_ptr& error) {
  outcome.done = true;
  if (!error) return;
  try {
    std::rethrow_exception(error);
  } catch (const CoordinatorError& refused) {
    outcome.error = refused.what();
    outcome.code = refused.code();
  } catch (const std::exception& other) {
    outcome.error = other.what();
  }
}

template <typename T>
std::shared_ptr<Outcome<T>> spawn_with_value(asio::io_context& context, asio::awaitable<T> work) {
  auto outcome = std::make_shared<Outcome<T>>();
  asio::co_spawn(context, std::move(work), [outcome](const std::exception_ptr& error, T value) {
    outcome->value = std::make_shared<T>(std::move(value));
    settle(*outcome, error);
  });
  return outcome;
}

}  // namespace

std::shared_ptr<Outcome<RoundResult>> spawn_on(asio::io_context& context, asio::awaitable<RoundResult> work) {
  return spawn_with_value(context, std::move(work));
}

std::shared_ptr<Outcome<Left>> spawn_on(asio::io_context& context, asio::awaitable<Left> work) {
  return spawn_with_value(context, std::move(work));
}

std::shared_ptr<Outcome<LauncherState>> spawn_on(asio::io_context& context,
                                                 asio::awaitable<LauncherState> work) {
  return spawn_with_value(context, std::move(work));
}

std::shared_ptr<Outcome<int>> spawn_on(asio::io_context& context, asio::awaitable<void> work) {
  auto outcome = std::make_shared<Outcome<int>>();
  asio::co_spawn(context, std::move(work),
                 [outcome](const std::exception_ptr& error) { settle(*outcome, error); });
  return outcome;
}

std::pair<int, int> socket_pair() {
  int fds[2];
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds) != 0) throw std::runtime_error("socketpair");
  return {fds[0], fds[1]};
}

StoreOpener FakeStores::opener() {
  return [this](RoundNumber round) {
    if (!failure.empty()) throw std::runtime_error(failure);
    ++opened;
    most_open = std::max(most_open, ++open_now);
    OpenedStore store;
    store.endpoint = Endpoint{"127.0.0.1", 20000 + round};
    store.close = [this] { --open_now; };
    return store;
  };
}

ClientEvents Node::events() {
  ClientEvents events;
  events.status = [this](const Status& status) { statuses.push_back(status); };
  events.round_ended = [this](const RoundEnd& end) { ends.push_back(end); };
  events.lost = [this](const std::string& reason) { losses.push_back(reason); };
  events.job_closed = [this](const JobClosed& closed) { closings.push_back(closed.reason); };
  return events;
}

Join join_request(int workers, RoundNumber round) {
  Join join;
  join.host = "testhost";
  join.address = "127.0.0.1";
  join.workers = workers;
  join.round = round;
  return join;
}

LeaveRound leaving(RoundNumber round, RoundOutcome outcome) {
  LeaveRound request;
  request.round = round;
  request.outcome = outcome;
  return request;
}

FailRound failing(RoundNumber round, const std::string& text) {
  FailRound failure;
  failure.round = round;
  failure.text = text;
  return failure;
}

Bench::Bench(JobLimits limits, MembershipLimits membership) {
  CoordinatorOptions options;
  options.run_id = "job";
  options.limits = limits;
  options.limits.max_restarts = std::numeric_limits<int>::max();
  options.membership = membership;
  service =
      std::make_unique<CoordinatorService>(context.get_executor(), options, stores.opener(),
                                           [this](const std::string& reason) { ended.push_back(reason); });
}

std::unique_ptr<Node> Bench::node(const std::string& name) {
  const auto [ours, theirs] = socket_pair();
  service->add(adopt_socket(context.get_executor(), theirs));
  auto node = std::make_unique<Node>();
  ClientOptions options;
  options.run_id = "job";
  options.node = name;
  node->client = std::make_unique<CoordinatorClient>(context.get_executor(), ours, options, node->events());
  return node;
}

}  // namespace muster::rendezvous::test
