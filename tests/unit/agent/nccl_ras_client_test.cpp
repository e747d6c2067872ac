// SPDX-License-Identifier: Apache-2.0
#include "agent/nccl_ras_client.hpp"

#include "tests/support/catch.hpp"

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/read_until.hpp>
#include <boost/asio/write.hpp>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <functional>
#include <string>

using namespace muster::agent;
using namespace std::chrono_literals;
using boost::asio::ip::tcp;
using Clock = std::chrono::steady_clock;

namespace {

const std::string kAnswer =
    R"(OK
{"communicators": [{"ranks": [
  {"rank": 0, "host": "127.0.0.1", "pid": 539, "collective_counts": {"AllReduce": 5}},
  {"rank": 1, "host": "127.0.0.1", "pid": 549, "collective_counts": {"AllReduce": 4}}]}]})";

/// Answers like NCCL: it takes the question's lines, says `text`, and closes the connection.
class Server {
 public:
  explicit Server(std::string text)
      : text_(std::move(text)),
        acceptor_(context, tcp::endpoint(boost::asio::ip::address_v4::loopback(), 0)) {
    accept();
  }

  std::string address() const { return "localhost:" + std::to_string(acceptor_.local_endpoint().port()); }

  void say(std::string text) { text_ = std::move(text); }

  boost::asio::io_context context;
  int questions = 0;
  std::string question;

 private:
  void accept() {
    acceptor_.async_accept([this](const boost::system::error_code& error, tcp::socket socket) {
      if (error) return;
      auto kept = std::make_shared<tcp::socket>(std::move(socket));
      question.clear();
      boost::asio::async_read_until(*kept, boost::asio::dynamic_buffer(question), "status\n",
                                    [this, kept](const boost::system::error_code&, std::size_t) {
                                      ++questions;
                                      boost::asio::async_write(
                                          *kept, boost::asio::buffer(text_),
                                          [kept](const boost::system::error_code&, std::size_t) {});
                                    });
      accept();
    });
  }

  std::string text_;
  tcp::acceptor acceptor_;
};

bool run_until(boost::asio::io_context& context, const std::function<bool()>& done) {
  const auto end = Clock::now() + 30s;
  while (!done() && Clock::now() < end) context.run_one_for(100ms);
  return done();
}

const std::string& required_value(const Environment& environment, const std::string& name) {
  const std::string* value = find_variable(environment, name);
  REQUIRE(value != nullptr);
  return *value;
}

/// Binds a socket as NCCL does that opens its port.
bool can_bind(const std::string& address) {
  const int fd = ::socket(AF_INET, SOCK_STREAM, 0);
  const int on = 1;
  ::setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
  ::setsockopt(fd, SOL_SOCKET, SO_REUSEPORT, &on, sizeof(on));
  sockaddr_in wanted{};
  wanted.sin_family = AF_INET;
  wanted.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  wanted.sin_port = htons(static_cast<std::uint16_t>(std::stoi(address.substr(address.find(':') + 1))));
  const bool bound =
      ::bind(fd, reinterpret_cast<const sockaddr*>(&wanted), sizeof(wanted)) == 0 && ::listen(fd, 1) == 0;
  ::close(fd);
  return bound;
}

/// A client that asks a server which answers so.
struct Asked {
  explicit Asked(std::chrono::milliseconds ask_each)
      : client(server.context.get_executor(), ask_each, false) {
    Environment environment{{"NCCL_RAS_ADDR", server.address()}};
    client.prepare(environment);
  }

  /// Asks again as long as this is not so: on a busy machine an answer may come too late for one question.
  bool ask_until(const std::function<bool()>& done) {
    return run_until(server.context, [&] {
      if (done()) return true;
      client.ask();
      return false;
    });
  }

  Server server{kAnswer};
  NcclRasClient client;
};

}  // namespace

TEST_CASE("NCCL tells which process waits for the others, if nobody launches anything meanwhile") {
  Asked asked(0ms);
  Server& server = asked.server;
  NcclRasClient& client = asked.client;
  const auto before = Clock::now();
  CHECK_FALSE(client.launched_by(539));
  REQUIRE(asked.ask_until([&] { return client.launched_by(539).has_value(); }));
  CHECK(client.launched_by(539) == 5U);
  CHECK(server.question == "timeout 2\nset format json\nverbose status\n");
  CHECK_FALSE(client.wait_of(539, before));
  const auto between = Clock::now();
  REQUIRE(asked.ask_until([&] { return client.wait_of(539, before).has_value(); }));
  CHECK(client.wait_of(539, before)->operation == "all_reduce");
  CHECK_FALSE(client.wait_of(549, before));
  // Both answers say something only about a standstill that began before them.
  CHECK_FALSE(client.wait_of(539, between));
}

TEST_CASE("a rank that is ahead for a moment does not wait") {
  Asked asked(0ms);
  Server& server = asked.server;
  NcclRasClient& client = asked.client;
  const auto before = Clock::now();
  REQUIRE(asked.ask_until([&] { return client.launched_by(539) == 5U; }));
  server.say(R"({"communicators": [{"ranks": [
    {"rank": 0, "host": "127.0.0.1", "pid": 539, "collective_counts": {"AllReduce": 8}},
    {"rank": 1, "host": "127.0.0.1", "pid": 549, "collective_counts": {"AllReduce": 7}}]}]})");
  REQUIRE(asked.ask_until([&] { return client.launched_by(539) == 8U; }));
  CHECK_FALSE(client.wait_of(539, before));
}

TEST_CASE("NCCL is asked once at a time, and not more often than it should be") {
  bool has_answer = false;
  // On a busy machine an answer may come too late for its question, which is not asked again.
  for (int attempt = 0; attempt < 3 && !has_answer; ++attempt) {
    Asked asked(1h);
    Server& server = asked.server;
    NcclRasClient& client = asked.client;
    client.ask();
    client.ask();
    has_answer = run_until(server.context, [&] { return client.launched_by(539).has_value(); });
    client.ask();
    server.context.run_for(50ms);
    CHECK(server.questions <= 1);
  }
  REQUIRE(has_answer);
}

TEST_CASE("an address that is not of this host, or none, is not asked") {
  boost::asio::io_context context;
  for (const char* address : {"192.0.2.1:28028", "example.org:28028", "localhost", "localhost:x", ""}) {
    NcclRasClient client(context.get_executor(), 0ms, false);
    Environment environment{{"NCCL_RAS_ADDR", address}};
    client.prepare(environment);
    client.ask();
    context.poll();
    CHECK(context.stopped());  // nothing is under way
    context.restart();
  }
}

TEST_CASE("a client that ends while NCCL owes an answer leaves nothing behind") {
  Server server(kAnswer);
  {
    NcclRasClient client(server.context.get_executor(), 0ms, false);
    Environment environment{{"NCCL_RAS_ADDR", server.address()}};
    client.prepare(environment);
    client.ask();
  }
  CHECK(run_until(server.context, [&] { return server.context.poll() == 0; }));
}

TEST_CASE("jobs on one host get ports of their own, which NCCL can open") {
  boost::asio::io_context context;
  NcclRasClient one(context.get_executor(), 0ms, true);
  NcclRasClient other(context.get_executor(), 0ms, true);
  Environment first;
  Environment second;
  Environment third;
  one.prepare(first);
  one.prepare(second);
  other.prepare(third);
  const std::string address = required_value(first, "NCCL_RAS_ADDR");
  CHECK(address.starts_with("127.0.0.1:"));
  CHECK(required_value(second, "NCCL_RAS_ADDR") == address);
  CHECK(required_value(third, "NCCL_RAS_ADDR") != address);
  CHECK(can_bind(address));
}

TEST_CASE("what the user says about RAS stays") {
  boost::asio::io_context context;
  NcclRasClient with_gpus(context.get_executor(), 0ms, true);
  NcclRasClient without(context.get_executor(), 0ms, false);
  Environment off{{"NCCL_RAS_ENABLE", "0"}};
  Environment chosen{{"NCCL_RAS_ADDR", "localhost:1234"}};
  Environment plain;
  with_gpus.prepare(off);
  with_gpus.prepare(chosen);
  without.prepare(plain);
  CHECK(off.size() == 1);
  CHECK(chosen == Environment{{"NCCL_RAS_ADDR", "localhost:1234"}});
  CHECK(plain.empty());
}
