// SPDX-License-Identifier: Apache-2.0
// What the agent tells of a real worker that waits for a key.
#include "agent/health_watch.hpp"

#include "rendezvous/server/listen_socket.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/run_until.hpp"

#include <boost/asio/io_context.hpp>
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <memory>
#include <vector>

using namespace muster;
using namespace muster::agent;
using namespace std::chrono_literals;
using muster::test::run_until;
using rendezvous::Activity;
using rendezvous::RankHealth;
using rendezvous::SocketAddress;
using rendezvous::WaitKind;

namespace {

/// A process that waits for what comes over a connection, until it is killed.
class Waiting {
 public:
  explicit Waiting(const SocketAddress& there) : socket_(::socket(AF_INET, SOCK_STREAM, 0)) {
    REQUIRE(::connect(socket_.get(), there.data(), there.size()) == 0);
    sockaddr_storage storage{};
    socklen_t size = sizeof storage;
    REQUIRE(::getsockname(socket_.get(), reinterpret_cast<sockaddr*>(&storage), &size) == 0);
    here_ = {reinterpret_cast<sockaddr*>(&storage), size};
    pid_ = ::fork();
    if (pid_ == 0) {
      pollfd one{socket_.get(), POLLIN, 0};
      for (;;) (void)::poll(&one, 1, -1);
    }
    REQUIRE(pid_ > 0);
    socket_ = UniqueFd();
  }

  ~Waiting() {
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
  }

  Waiting(const Waiting&) = delete;
  Waiting& operator=(const Waiting&) = delete;

  pid_t pid() const { return pid_; }

  const SocketAddress& here() const { return here_; }

 private:
  UniqueFd socket_;
  SocketAddress here_{};
  pid_t pid_ = 0;
};

}  // namespace

TEST_CASE("The key for which a worker waits is told as soon as the store has told it, and once") {
  const auto listener = rendezvous::open_listen_socket("127.0.0.1", 0, true, false);
  const Waiting worker(listener.address);
  const Waiting stranger(listener.address);
  boost::asio::io_context context;
  const auto output = std::make_shared<WorkerOutput>(context.get_executor(), OutputSpec{}, OutputNames{}, 1);
  CallWatch calls(context.get_executor(), 1, 0ms, [] { return true; });
  std::vector<RankHealth> told;
  HealthWatch watch(context.get_executor(), 300ms, *output, calls, [&told](const rendezvous::Message& news) {
    if (const auto* health = std::get_if<RankHealth>(&news)) told.push_back(*health);
  });
  rendezvous::RoundResult place;
  place.round = 4;
  place.first_rank = 6;
  watch.started(place, 0, worker.pid());
  run_until(context, [&told] { return !told.empty(); });
  REQUIRE(told.size() == 1);
  CHECK(told[0].rank == 6);
  CHECK(told[0].activity == Activity::waits);
  CHECK(told[0].key.empty());

  rendezvous::KeyWait wait{4,
                           worker.here().host(),
                           worker.here().port(),
                           listener.address.host(),
                           listener.address.port(),
                           "epcoh",
                           "epoch"};
  watch.key_wait(wait);
  REQUIRE(told.size() == 2);
  CHECK(told[1].wait == WaitKind::store_key);
  CHECK(told[1].key == "epcoh");
  CHECK(told[1].nearest == "epoch");
  CHECK(told[1].lasted >= 150ms);
  // The same again, another round's, and the connection of a process that is no worker are no news.
  watch.key_wait(wait);
  wait.round = 3;
  wait.key = "other";
  watch.key_wait(wait);
  wait.round = 4;
  wait.peer_port = stranger.here().port();
  watch.key_wait(wait);
  CHECK(told.size() == 2);
  watch.ended(0, false);
}
