// SPDX-License-Identifier: Apache-2.0
#include "launcher/start/core/start_queue.hpp"

#include "catch.hpp"

#include <algorithm>
#include <random>
#include <set>

using namespace muster::launcher;
using std::chrono::milliseconds;
using std::chrono::seconds;
using TimePoint = StartQueue::TimePoint;
using Nodes = std::vector<std::size_t>;

namespace {

double middle() {
  return 0.5;
}

std::vector<std::string> hosts(std::size_t count) {
  std::vector<std::string> names;
  for (std::size_t i = 0; i < count; ++i) names.push_back("n" + std::to_string(i));
  return names;
}

/// A queue, and the nodes that wait for their turn.
class Starts {
 public:
  explicit Starts(const std::vector<std::string>& servers, std::function<double()> random = middle)
      : waiting_(servers.size(), true),
        queue_(
            servers, StartLimits{}, [this](std::size_t node) { return waiting_[node]; }, std::move(random)) {}

  Starts(const Starts&) = delete;
  Starts& operator=(const Starts&) = delete;

  Nodes take_due(TimePoint now) {
    Nodes due = queue_.take_due(now);
    for (const std::size_t node : due) waiting_[node] = false;
    return due;
  }

  bool refused(std::size_t node, TimePoint now) { return waiting_[node] = queue_.refused(node, now); }

  void admitted(std::size_t node, TimePoint now) { queue_.admitted(node, now); }

  void failed(std::size_t node) { queue_.failed(node); }

  void stop() { waiting_.assign(waiting_.size(), false); }

  std::optional<TimePoint> next_due() const { return queue_.next_due(); }

 private:
  std::vector<bool> waiting_;
  StartQueue queue_;
};

/// A login server with OpenSSH's MaxStartups of 10:30:100, or a stricter one: strangers beyond `room` are
/// turned away at once, the others are let in after `login`.
std::size_t all_start_within(std::size_t agents, std::size_t room, milliseconds login, milliseconds limit,
                             bool known_as_one = true) {
  std::minstd_rand engine(1);
  Starts queue(known_as_one ? std::vector<std::string>(agents, "gate:22") : hosts(agents),
               [&engine] { return std::uniform_real_distribution<double>(0.0, 1.0)(engine); });
  std::multiset<std::pair<TimePoint, std::size_t>> logins;
  std::size_t admitted = 0;
  for (TimePoint now{}; now - TimePoint{} < limit; now += milliseconds(5)) {
    while (!logins.empty() && logins.begin()->first <= now) {
      queue.admitted(logins.begin()->second, now);
      logins.erase(logins.begin());
      ++admitted;
    }
    for (const std::size_t node : queue.take_due(now)) {
      if (logins.size() < room)
        logins.emplace(now + login, node);
      else if (!queue.refused(node, now))
        return admitted;
    }
  }
  return admitted;
}

}  // namespace

TEST_CASE("Starts are limited over all servers") {
  Starts queue(hosts(100));
  const TimePoint now{};
  CHECK(queue.take_due(now).size() == 64);
  CHECK(queue.take_due(now).empty());
  CHECK_FALSE(queue.next_due());
  queue.admitted(0, now);
  queue.failed(1);
  CHECK(queue.take_due(now) == Nodes{64, 65});
}

TEST_CASE("One server sees only a few strangers at a time, and does not hold up another") {
  std::vector<std::string> servers(20, "gate:22");
  servers.push_back("n1:22");
  Starts queue(servers);
  const TimePoint now{};
  CHECK(queue.take_due(now) == Nodes{0, 1, 2, 3, 4, 5, 6, 7, 20});
  queue.admitted(3, now);
  CHECK(queue.take_due(now) == Nodes{8});
}

TEST_CASE("A refused start comes again after a wait that grows, and not for ever") {
  Starts queue(hosts(1));
  TimePoint now{};
  milliseconds before{0};
  int tries = 0;
  for (;;) {
    REQUIRE(queue.take_due(now) == Nodes{0});
    ++tries;
    if (!queue.refused(0, now)) break;
    CHECK(queue.take_due(now).empty());
    const auto wait = std::chrono::duration_cast<milliseconds>(queue.next_due().value() - now);
    CHECK(wait >= before);
    CHECK(wait <= milliseconds(3000));
    before = wait;
    now += wait;
  }
  CHECK(tries > 5);
  CHECK(now - TimePoint{} >= seconds(8));
  CHECK(now - TimePoint{} < seconds(12));
  CHECK(queue.take_due(now + seconds(60)).empty());
}

TEST_CASE("Waits differ, so that those who were refused together do not come back together") {
  double next = 0;
  Starts queue(std::vector<std::string>(3, "gate"), [&next] { return next += 0.2; });
  const TimePoint now{};
  for (const std::size_t node : queue.take_due(now)) CHECK(queue.refused(node, now));
  CHECK(queue.next_due().value() < now + milliseconds(200));
  CHECK(queue.take_due(now + milliseconds(150)).size() == 1);
}

TEST_CASE("While a busy server lets others in, nobody loses patience with it") {
  Starts queue(std::vector<std::string>(2, "gate"));
  TimePoint now{};
  CHECK(queue.take_due(now) == Nodes{0, 1});
  CHECK(queue.refused(0, now));
  now += seconds(7);
  queue.admitted(1, now);
  CHECK(queue.take_due(now) == Nodes{0});
  now += seconds(7);
  CHECK(queue.refused(0, now));
  now += seconds(7);
  CHECK(queue.take_due(now) == Nodes{0});
  CHECK_FALSE(queue.refused(0, now));
}

TEST_CASE("60 agents on one login server all start") {
  CHECK(all_start_within(60, 10, milliseconds(200), seconds(5)) == 60);
  CHECK(all_start_within(60, 10, milliseconds(1500), seconds(20)) == 60);
  CHECK(all_start_within(60, 2, milliseconds(200), seconds(30)) == 60);
  CHECK(all_start_within(60, 1, milliseconds(200), seconds(60)) == 60);
}

TEST_CASE("The same server under 60 names lets everybody in, too") {
  CHECK(all_start_within(60, 10, milliseconds(200), seconds(15), false) == 60);
  CHECK(all_start_within(60, 10, milliseconds(1500), seconds(60), false) == 60);
  CHECK(all_start_within(60, 2, milliseconds(500), seconds(90), false) == 60);
}

TEST_CASE("Nothing is started that does not wait for its turn") {
  Starts queue(hosts(100));
  CHECK(queue.take_due(TimePoint{}).size() == 64);
  queue.stop();
  queue.failed(0);
  CHECK(queue.take_due(TimePoint{}).empty());
  CHECK_FALSE(queue.next_due());
}

TEST_CASE("A login has what the user gives it, less what is needed to say why it failed") {
  using namespace std::chrono_literals;
  CHECK(greeting_limit(10s, 1) == 9s);
  CHECK(greeting_limit(60s, 1) == 59s);
  CHECK(greeting_limit(2s, 1) == 1800ms);
  CHECK(greeting_limit(1s, 1) == 900ms);
  CHECK(greeting_limit(10s, 0) == 9s);
  CHECK(greeting_limit(10s, 5) == 10s);
  CHECK(greeting_limit(10s, 10'000) == 9s + 63 * 250ms);
  CHECK(connect_timeout_s(10s) == 8);
  CHECK(connect_timeout_s(3s) == 3);
  CHECK(connect_timeout_s(2s) == 2);
  CHECK(connect_timeout_s(60s) == 58);
  CHECK(connect_timeout_s(5s) == 4);
  CHECK(connect_timeout_s(500ms) == 1);
}
