// SPDX-License-Identifier: Apache-2.0
#include "launcher/inspect/job_socket.hpp"

#include "catch.hpp"
#include "launcher/inspect/end_waiters.hpp"
#include "launcher/inspect/job_client.hpp"
#include "rendezvous/base/unique_fd.hpp"
#include "tests/support/folder.hpp"
#include "tests/support/run_until.hpp"

#include <boost/asio/io_context.hpp>
#include <fcntl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <future>
#include <optional>
#include <string>
#include <thread>
#include <vector>

using namespace muster;
using namespace muster::launcher;
using namespace std::chrono_literals;

namespace {

/// A socket whose questions are kept, and answered when the test says so.
struct Served {
  explicit Served(const std::string& socket) : path(socket) {
    desk.emplace(context.get_executor(), path, [this](const JobSocket::Question& question) {
      queries.push_back(agent::node_query_from_json(question.text));
      questions.push_back(question);
    });
  }

  std::string path;
  boost::asio::io_context context{1};
  std::vector<agent::NodeQuery> queries;
  std::vector<JobSocket::Question> questions;
  std::optional<JobSocket> desk;
};

/// A client that says these bytes.
UniqueFd client_of(const std::string& path, const std::string& bytes) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  path.copy(address.sun_path, path.size());
  UniqueFd fd(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  REQUIRE(::connect(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0);
  REQUIRE(::send(fd.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL) == static_cast<ssize_t>(bytes.size()));
  REQUIRE(::fcntl(fd.get(), F_SETFL, O_NONBLOCK) == 0);
  return fd;
}

/// Whether the other end has hung up.
bool hung_up(int fd) {
  char byte = 0;
  const ssize_t size = ::recv(fd, &byte, 1, MSG_PEEK);
  return size == 0 || (size < 0 && errno == ECONNRESET);
}

}  // namespace

TEST_CASE("A question reaches the job, and its answer whoever asked") {
  const test::Folder folder;
  Served served(folder / "socket");
  agent::NodeQuery query;
  query.stacks = true;
  query.ranks = {3};
  auto answer = std::async(std::launch::async, [&] { return ask_job(served.path, query, 20s); });
  test::run_until(served.context, [&] { return served.questions.size() == 1; });
  CHECK(served.queries[0].stacks);
  CHECK(served.queries[0].ranks == std::vector<int>{3});
  const std::string large(std::size_t{3} << 20, 'x');  // more than a socket takes at once
  served.questions[0].reply(large);
  test::run_until(served.context, [&] { return answer.wait_for(0s) == std::future_status::ready; });
  CHECK(answer.get() == large);
}

TEST_CASE("Who asks is known, and a connection that is handed over is no client any more") {
  const test::Folder folder;
  Served served(folder / "socket");
  std::optional<JobCall> call;
  call.emplace(served.path, "{}", 20s);
  test::run_until(served.context, [&] { return served.questions.size() == 1; });
  CHECK(served.questions[0].uid == ::geteuid());
  CHECK(served.questions[0].pid == ::getpid());
  EndWaiters waiters;
  waiters.add(served.questions[0].take_over(), "first");
  CHECK(call->line(20s) == "first");
  std::vector<UniqueFd> clients;
  for (int i = 0; i < JobSocket::kClientsMax; ++i) clients.push_back(client_of(served.path, "{}\n"));
  test::run_until(served.context, [&] { return served.questions.size() == clients.size() + 1; });
  served.desk.reset();
  CHECK_THROWS_AS(call->line(50ms), NoAnswer);
  waiters.tell("last");
  CHECK(call->line(20s) == "last");
  CHECK_THROWS_AS(call->line(20s), NoAnswer);
  CHECK(waiters.empty());
}

TEST_CASE("As many wait for the end as may, and who has hung up waits no more") {
  const test::Folder folder;
  EndWaiters waiters;
  std::vector<UniqueFd> ends;
  const auto wait = [&] {
    int pair[2];
    REQUIRE(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) == 0);
    waiters.add(UniqueFd(pair[0]), "first");
    ends.emplace_back(pair[1]);
    char bytes[6];
    return ::recv(ends.back().get(), bytes, sizeof bytes, 0) == sizeof bytes;
  };
  for (std::size_t i = 0; i < EndWaiters::kMost; ++i) CHECK(wait());
  CHECK_FALSE(wait());
  CHECK(hung_up(ends.back().get()));
  ends.erase(ends.begin());
  CHECK(wait());
  waiters.add(UniqueFd(), "first");  // one that has gone before it could wait
}

TEST_CASE("Whoever asks too much, nonsense, or too many at a time is hung up on") {
  const test::Folder folder;
  Served served(folder / "socket");
  std::vector<UniqueFd> clients;
  for (const std::string& bytes :
       {std::string("nonsense\n"), std::string("{\"ranks\":[-1]}\n"), std::string("\n")}) {
    const UniqueFd client = client_of(served.path, bytes);
    test::run_until(served.context, [&] { return hung_up(client.get()); });
  }
  CHECK(served.queries.empty());
  for (int i = 0; i < JobSocket::kClientsMax; ++i) clients.push_back(client_of(served.path, "{}\n"));
  test::run_until(served.context, [&] { return served.queries.size() == clients.size(); });
  const UniqueFd more = client_of(served.path, "{}\n");
  test::run_until(served.context, [&] { return hung_up(more.get()); });
  CHECK(served.queries.size() == clients.size());
  served.questions[0].reply("answer");
  test::run_until(served.context, [&] {
    char bytes[7];
    return ::recv(clients[0].get(), bytes, sizeof bytes, 0) == sizeof bytes;
  });
  const UniqueFd next = client_of(served.path, "{}\n");
  test::run_until(served.context, [&] { return served.queries.size() == clients.size() + 1; });
}

TEST_CASE("A question without an end is bounded") {
  const test::Folder folder;
  Served served(folder / "socket");
  auto sent = std::async(std::launch::async, [&] {
    const UniqueFd client = client_of(served.path, "{");
    ::fcntl(client.get(), F_SETFL, 0);
    const std::string bytes(std::size_t{1} << 16, ' ');
    std::size_t size = 0;
    while (::send(client.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL) > 0) size += bytes.size();
    return size;
  });
  test::run_until(served.context, [&] { return sent.wait_for(0s) == std::future_status::ready; });
  CHECK(sent.get() < std::size_t{4} << 20);
  CHECK(served.queries.empty());
}

TEST_CASE("After the end of a job nothing is asked and nothing answers") {
  const test::Folder folder;
  Served served(folder / "socket");
  CHECK(is_listening(served.path));
  const UniqueFd waits = client_of(served.path, "{}\n");
  test::run_until(served.context, [&] { return served.queries.size() == 1; });
  served.desk.reset();
  served.questions[0].reply("late");  // nobody is harmed
  served.context.restart();
  served.context.run_for(50ms);
  CHECK_FALSE(is_listening(served.path));
  CHECK_FALSE(is_listening(folder / "absent"));
  CHECK_THROWS_AS(ask_job(served.path, {}, 1s), NoAnswer);
}

TEST_CASE("A launcher that does not answer is given up in time, and a path that is no socket is named") {
  const test::Folder folder;
  Served served(folder / "socket");  // its loop does not turn
  const auto begin = std::chrono::steady_clock::now();
  CHECK_THROWS_WITH(ask_job(served.path, {}, 100ms),
                    "its launcher does not answer; it may be stopped (SIGSTOP), "
                    "or be ending just now");
  CHECK(std::chrono::steady_clock::now() - begin < 10s);
  CHECK_THROWS_AS(ask_job(folder.path() + "/" + std::string(200, 'x'), {}, 1s), NoAnswer);
  boost::asio::io_context context{1};
  CHECK_THROWS_AS(JobSocket(context.get_executor(), served.path, nullptr), std::system_error);
}

TEST_CASE("A question is given up as soon as the descriptor is readable that interrupts it") {
  const test::Folder folder;
  Served served(folder / "socket");  // its loop does not turn
  int ends[2];
  REQUIRE(::pipe2(ends, O_CLOEXEC) == 0);
  const UniqueFd reader(ends[0]);
  const UniqueFd writer(ends[1]);
  CHECK_THROWS_AS(ask_job(served.path, {}, 100ms, reader.get()), NoAnswer);
  REQUIRE(::write(writer.get(), "x", 1) == 1);
  CHECK_THROWS_AS(ask_job(served.path, {}, 1h, reader.get()), Interrupted);
}
