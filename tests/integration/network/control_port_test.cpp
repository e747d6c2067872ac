// SPDX-License-Identifier: Apache-2.0
// What fails at the port of a job for one connection, or for a while, is not the end of the port.
#include "rendezvous/server/listen/control_port.hpp"

#include "rendezvous/server/listen_socket.hpp"
#include "tests/integration/control/control_fixture.hpp"
#include "tests/support/catch.hpp"

#include <poll.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <mutex>
#include <new>
#include <thread>

using namespace muster;
using namespace muster::rendezvous;
using namespace muster::rendezvous::test;

namespace {

/// A coordinator of one node, which is here, and its port on loopback.
struct Port {
  using Accept = std::function<int(int, sockaddr*, socklen_t*)>;

  explicit Port(Accept accept = {}, std::vector<Cidr> allow_from = {},
                std::optional<Secret> secret = Secret::random())
      : listener(open_listen_socket("127.0.0.1", 0, true, false)),
        service(
            context.get_executor(), service_options(),
            [this](RoundNumber) {
              OpenedStore store;
              store.endpoint = Endpoint{"127.0.0.1", listener.address.port()};
              store.close = [] {};
              store.adopt = [this](UniqueFd fd, const SocketAddress&) { adopt(std::move(fd)); };
              return store;
            },
            nullptr),
        port(context.get_executor(), std::move(listener.fd), std::move(secret),
             port_options(accept, std::move(allow_from)), service) {}

  ~Port() { port.close(); }

  static CoordinatorOptions service_options() {
    CoordinatorOptions options;
    options.run_id = "job";
    options.limits.min_nodes = options.limits.max_nodes = 1;
    return options;
  }

  ControlPortOptions port_options(Accept accept, std::vector<Cidr> allow_from) {
    ControlPortOptions options;
    options.allow_from = std::move(allow_from);
    options.no_control = "a store alone";
    options.job = "job";
    options.warn = [this](const std::string& line) { lines.push_back(line); };
    options.accept = std::move(accept);
    return options;
  }

  /// The round runs afterwards; the node says of every connection that it is its worker's.
  void start_round() {
    const auto [ours, theirs] = socket_pair();
    service.add(adopt_socket(context.get_executor(), theirs));
    ClientOptions options;
    options.run_id = "job";
    options.node = "n0";
    options.lost_after = 0s;
    ClientEvents events;
    events.vouch = [this](const Vouch& question) {
      Vouched answer;
      answer.id = question.id;
      answer.allowed = true;
      client->tell(answer);
    };
    client = std::make_unique<CoordinatorClient>(context.get_executor(), ours, options, std::move(events));
    const auto joined = spawn_on(context, client->join(join_request(1), in(20s)));
    run_until([&] { return joined->done; });
    REQUIRE(joined->error == "");
  }

  /// A connection whose first byte is that of the store's protocol.
  UniqueFd worker() const { return client_that_says("\0"); }

  UniqueFd client_that_says(const char* byte) const {
    UniqueFd fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    REQUIRE(::connect(fd.get(), listener.address.data(), listener.address.size()) == 0);
    // A connection that is refused before may be reset already.
    (void)::send(fd.get(), byte, 1, MSG_NOSIGNAL);
    return fd;
  }

  bool said(const std::string& words) const {
    return std::any_of(lines.begin(), lines.end(),
                       [&](const std::string& line) { return line.find(words) != std::string::npos; });
  }

  void run_until(const std::function<bool()>& done) { muster::test::run_until(context, done); }

  asio::io_context context{1};
  std::vector<std::string> lines;
  std::function<void(UniqueFd)> adopt = [](UniqueFd) {};
  ListenSocket listener;
  std::unique_ptr<CoordinatorClient> client;
  CoordinatorService service;
  ControlPort port;
};

bool is_closed(const UniqueFd& fd) {
  pollfd wait{fd.get(), POLLIN, 0};
  char byte = 0;
  return ::poll(&wait, 1, 0) == 1 && ::recv(fd.get(), &byte, 1, MSG_DONTWAIT) <= 0;
}

int accept_here(int listener, sockaddr* address, socklen_t* size) {
  return ::accept4(listener, address, size, SOCK_CLOEXEC | SOCK_NONBLOCK);
}

}  // namespace

TEST_CASE("a port takes the next connection after whatever failed with one") {
  std::atomic<int> calls = 0;
  Port job([&](int listener, sockaddr* address, socklen_t* size) {
    if (++calls == 1) throw std::bad_alloc();
    return accept_here(listener, address, size);
  });
  job.start_round();
  const UniqueFd worker = job.worker();
  job.run_until([&] { return job.port.counters().admitted == 1; });
  job.run_until([&] { return job.said("failed inside"); });
}

TEST_CASE("a port that cannot take a connection for want of memory tries again, and not without a pause") {
  std::atomic<int> calls = 0;
  std::atomic<bool> short_of_memory = true;
  Port job([&](int listener, sockaddr* address, socklen_t* size) {
    ++calls;
    if (!short_of_memory) return accept_here(listener, address, size);
    errno = ENOBUFS;
    return -1;
  });
  job.start_round();
  const auto begin = std::chrono::steady_clock::now();
  const UniqueFd worker = job.worker();
  job.run_until([&] { return calls >= 3 && job.said("cannot be taken now: No buffer space"); });
  const int tried = calls;
  // A pause of 100 ms; without one these would be many thousands.
  CHECK(tried <= 2 + (std::chrono::steady_clock::now() - begin) / 50ms);
  CHECK(job.port.counters().accepted == 0);
  short_of_memory = false;
  job.run_until([&] { return job.port.counters().admitted == 1; });
}

TEST_CASE("a worker whom the store cannot take is turned away alone") {
  Port job;
  job.start_round();
  std::vector<UniqueFd> taken;
  job.adopt = [](UniqueFd) { throw std::bad_alloc(); };
  const UniqueFd first = job.worker();
  job.run_until([&] { return is_closed(first); });
  job.run_until([&] { return job.said("failed inside"); });
  job.adopt = [&taken](UniqueFd fd) { taken.push_back(std::move(fd)); };
  const UniqueFd second = job.worker();
  job.run_until([&] { return !taken.empty(); });
  CHECK_FALSE(is_closed(second));
  job.run_until([&] { return job.port.counters().admitted == 1; });
}

TEST_CASE("whoever comes from an address that is not allowed is closed, whatever it speaks") {
  Port job({}, {*Cidr::parse("10.0.0.0/8")});
  job.start_round();
  for (const char* first : {"\0", "\x16"}) {
    const UniqueFd stranger = job.client_that_says(first);
    job.run_until([&] { return is_closed(stranger); });
  }
  job.run_until([&] { return job.said("its address is not among those allowed"); });
  CHECK(job.port.counters().admitted == 0);
  CHECK(job.port.counters().dropped == 2);
}

TEST_CASE("the port of a store alone serves its workers, and takes no control connection") {
  Port job({}, {}, std::nullopt);
  job.start_round();
  const UniqueFd stranger = job.client_that_says("\x16");
  const std::string words = "muster: a store alone\n";
  std::string answer(words.size() + 1, '\0');
  job.run_until([&] {
    return ::recv(stranger.get(), answer.data(), answer.size(), MSG_PEEK | MSG_DONTWAIT) ==
           static_cast<ssize_t>(words.size());
  });
  CHECK(answer.substr(0, words.size()) == words);
  REQUIRE(::recv(stranger.get(), answer.data(), words.size(), 0) == static_cast<ssize_t>(words.size()));
  job.run_until([&] { return is_closed(stranger); });
  job.run_until([&] { return job.said("it wants a control connection, and here is none: a store alone"); });
  std::vector<UniqueFd> taken;
  job.adopt = [&taken](UniqueFd fd) { taken.push_back(std::move(fd)); };
  const UniqueFd worker = job.worker();
  job.run_until([&] { return !taken.empty(); });
}

TEST_CASE("a coordinator that has stopped asks nobody and answers nobody") {
  Port job;
  job.start_round();
  const SocketAddress here = resolve("127.0.0.1", 1).front();
  CHECK(job.service.has_local());
  job.service.stop();
  CHECK_FALSE(job.service.has_local());
  CHECK_FALSE(job.service.knows(here));
  int answers = 0;
  job.service.vouch(here, here, true, [&answers](bool, const std::string&) { ++answers; });
  CHECK(answers == 0);
}
