// SPDX-License-Identifier: Apache-2.0
// Real programs are asked in tests/interop/hang.
#include "agent/flight_watch.hpp"

#include "catch.hpp"
#include "tests/support/folder.hpp"

#include <boost/asio/io_context.hpp>
#include <boost/asio/local/stream_protocol.hpp>
#include <boost/asio/read_until.hpp>
#include <boost/asio/write.hpp>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace flight_watch_test {

using namespace muster;
using namespace muster::agent;
using namespace std::chrono_literals;
using namespace std::string_literals;
using boost::asio::local::stream_protocol;
using rendezvous::FlightRank;

namespace {

constexpr auto kPatience = 20s;

std::string json_record(int sequence) {
  return R"({"version":"2.10","pg_config":{"0":{"name":"0","desc":"default_pg","ranks":"[0, 1]"}},)"
         R"("entries":[{"process_group":["0","default_pg"],"collective_seq_id":)" +
         std::to_string(sequence) +
         R"(,"profiling_name":"gloo:all_reduce","state":"scheduled","retired":false}]})";
}

/// pickle.dumps({"version": "2.4", "entries": [], "pg_config": {"0": {"ranks": "[0]"}}}, 2), without its memo
const std::string kDump =
    "\x80\x02}(X\x07\x00\x00\x00versionX\x03\x00\x00\x00"
    "2.4X\x07\x00\x00\x00"
    "entries]X\x09\x00\x00\x00pg_config}X\x01\x00\x00\x00"
    "0}X\x05\x00\x00\x00ranksX\x03\x00\x00\x00[0]ssu."s;

/// A program's control plane: takes requests, and answers with `answer` as long as that is not empty.
class ControlPlane {
 public:
  ControlPlane(boost::asio::io_context& context, const std::string& path)
      : acceptor_(context, stream_protocol::endpoint(path)) {
    accept();
  }

  void say_record(const std::string& record) {
    answer = "HTTP/1.1 200 OK\r\nContent-Length: " + std::to_string(record.size()) + "\r\n\r\n" + record;
  }

  std::string answer;
  std::string request;

 private:
  void accept() {
    acceptor_.async_accept([this](const boost::system::error_code& error, stream_protocol::socket socket) {
      if (error) return;
      kept_.push_back(std::make_unique<stream_protocol::socket>(std::move(socket)));
      request.clear();
      stream_protocol::socket& peer = *kept_.back();
      boost::asio::async_read_until(peer, boost::asio::dynamic_buffer(request), "\r\n\r\n",
                                    [this, &peer](const boost::system::error_code& failed, std::size_t) {
                                      if (failed || answer.empty()) return;
                                      boost::asio::async_write(
                                          peer, boost::asio::buffer(answer),
                                          [](const boost::system::error_code&, std::size_t) {});
                                    });
      accept();
    });
  }

  stream_protocol::acceptor acceptor_;
  std::vector<std::unique_ptr<stream_protocol::socket>> kept_;
};

struct Watch {
  boost::asio::io_context context;
  std::vector<FlightRank> found;
  FlightWatch flights{context.get_executor(), 0ms,
                      [this](const FlightRank& record) { found.push_back(record); }};

  std::string prepare(const std::string& folder, int rank, Environment environment = {},
                      const char* wanted = "1") {
    environment.emplace_back("MUSTER_CONTROL_PLANE", wanted);
    flights.prepare(environment, folder, 2, rank);
    const std::string* socket = find_variable(environment, "TORCH_WORKER_SERVER_SOCKET");
    return socket == nullptr ? "(unset)" : *socket;
  }

  /// Runs for a moment.
  void turn() {
    context.restart();
    context.run_one_for(10ms);
  }

  /// Runs until the question that is under way is answered, or nobody has answered it.
  void ask(int rank, pid_t pid = ::getpid()) {
    flights.ask({{rank, {pid}}});
    const auto deadline = std::chrono::steady_clock::now() + kPatience;
    while (flights.asks() && std::chrono::steady_clock::now() < deadline) {
      turn();
    }
    REQUIRE_FALSE(flights.asks());
  }

  /// Asks until so many records were told: on a busy machine an answer may come too late for one question.
  void ask_until_found(int rank, std::size_t count) {
    const auto deadline = std::chrono::steady_clock::now() + kPatience;
    while (found.size() < count && std::chrono::steady_clock::now() < deadline) ask(rank);
    REQUIRE(found.size() == count);
  }
};

}  // namespace

TEST_CASE("A program's control plane is asked, and what differs is told") {
  const test::Folder folder;
  Watch watch;
  const std::string path = watch.prepare(folder.path(), 1);
  CHECK(path == folder / "control_2_1");
  ControlPlane program(watch.context, path);
  watch.flights.keep_sockets();
  CHECK_FALSE(std::filesystem::exists(path));
  program.say_record(json_record(7));
  watch.ask_until_found(1, 1);
  CHECK(program.request ==
        "POST /handler/fr_trace_json HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\nConnection: "
        "close\r\n\r\n");
  CHECK(watch.found[0].rank == 1);
  REQUIRE(watch.found[0].groups.size() == 1);
  CHECK(watch.found[0].groups[0].last == 7);
  CHECK(watch.flights.records() == watch.found);
  // The same again is no news; what differs is a movement.
  watch.ask(1);
  CHECK(watch.found.size() == 1);
  CHECK(watch.flights.changes(1) == 0);
  program.say_record(json_record(8));
  watch.ask_until_found(1, 2);
  CHECK(watch.flights.changes(1) == 1);
  // After a movement that was seen otherwise the next record is the first.
  watch.flights.forget(1);
  CHECK(watch.flights.records().empty());
  program.say_record(json_record(9));
  watch.ask_until_found(1, 3);
  CHECK(watch.flights.changes(1) == 1);
}

TEST_CASE("A second control plane of the same worker takes the place of the first") {
  const test::Folder folder;
  Watch watch;
  const std::string path = watch.prepare(folder.path(), 0);
  ControlPlane first(watch.context, path);
  first.say_record(json_record(1));
  watch.flights.keep_sockets();
  ControlPlane second(watch.context, path);
  second.say_record(json_record(2));
  watch.flights.keep_sockets();
  watch.ask_until_found(0, 1);
  CHECK(watch.found[0].groups.at(0).last == 2);
}

TEST_CASE("Who does not answer, answers otherwise, or is another process has no record") {
  const test::Folder folder;
  Watch watch;
  ControlPlane program(watch.context, watch.prepare(folder.path(), 0));
  watch.flights.keep_sockets();
  watch.ask(0);  // after kControlPlaneAnswersWithin
  program.answer = "HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n";
  watch.ask(0);
  program.say_record("[]");
  watch.ask(0);
  program.say_record(std::string(kControlPlaneBytesMax, ' '));
  watch.ask(0);
  program.say_record(json_record(7));
  program.request.clear();
  watch.ask(0, ::getppid());
  CHECK(program.request.empty());
  watch.ask(5);
  CHECK(watch.found.empty());
  watch.ask_until_found(0, 1);
}

TEST_CASE("The socket is where the user has said, and nowhere if its path would be too long") {
  const test::Folder folder;
  Watch watch;
  CHECK(watch.prepare("", 0) == "(unset)");
  CHECK(watch.prepare(folder.path(), 0, {}, "0") == "(unset)");
  CHECK(watch.prepare(std::string(100, 'x'), 0) == "(unset)");
  // A worker that runs a job of its own hands on what it was given, which the workers of that job cannot
  // share.
  const std::string of_outer = "/tmp/muster_stop_1-2-3.4-5/control_0_0";
  CHECK(watch.prepare(folder.path(), 0, {{"TORCH_WORKER_SERVER_SOCKET", of_outer}}) ==
        folder / "control_2_0");
  CHECK(watch.prepare("", 0, {{"TORCH_WORKER_SERVER_SOCKET", of_outer}}) == "(unset)");
  const std::string path = folder / "mine";
  CHECK(watch.prepare(folder.path(), 0, {{"TORCH_WORKER_SERVER_SOCKET", path}}) == path);
  ControlPlane program(watch.context, path);
  program.say_record(json_record(3));
  watch.flights.keep_sockets();
  CHECK(std::filesystem::exists(path));
  watch.ask_until_found(0, 1);
}

TEST_CASE("The pipe of a recorder is asked, and the file read that it writes then") {
  const test::Folder folder;
  Watch watch;
  watch.prepare(
      "", 3,
      {{"TORCH_FR_DUMP_TEMP_FILE", folder / "dump"}, {"TORCH_NCCL_DEBUG_INFO_PIPE_FILE", folder / "pipe"}});
  // A dump of an earlier time, and nobody at the pipe, or none there.
  folder.write("dump3", kDump);
  watch.ask(3);
  REQUIRE(::mkfifo((folder / "pipe3.pipe").c_str(), 0600) == 0);
  watch.ask(3);
  CHECK(watch.found.empty());
  const int reader = ::open((folder / "pipe3.pipe").c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC);
  REQUIRE(reader >= 0);
  const auto before = std::chrono::steady_clock::now();
  CHECK_FALSE(watch.flights.worked_after(3, before));
  watch.ask(3);  // it is asked, and writes nothing
  CHECK(watch.found.empty());
  CHECK(watch.flights.worked_after(3, before));
  CHECK_FALSE(watch.flights.worked_after(3, std::chrono::steady_clock::now()));
  char asked[8] = {};
  CHECK(::read(reader, asked, sizeof asked) == 1);
  // It writes a part first. If that took too long on a busy machine it is asked again.
  const auto deadline = std::chrono::steady_clock::now() + kPatience;
  while (watch.found.empty() && std::chrono::steady_clock::now() < deadline) {
    watch.flights.ask({{3, {}}});
    CHECK(watch.flights.worked_after(3, std::chrono::steady_clock::now()));
    while (::read(reader, asked, sizeof asked) != 1 && std::chrono::steady_clock::now() < deadline)
      watch.turn();
    folder.write("dump3", kDump.substr(0, 20));
    for (const auto end = std::chrono::steady_clock::now() + 200ms; std::chrono::steady_clock::now() < end;)
      watch.turn();
    CHECK(watch.found.empty());
    folder.write("dump3", kDump);
    while (watch.flights.asks() && std::chrono::steady_clock::now() < deadline) watch.turn();
  }
  ::close(reader);
  REQUIRE(watch.found.size() == 1);
  CHECK(watch.found[0].rank == 3);
}

TEST_CASE("A watch that goes while it asks waits for nobody") {
  const test::Folder folder;
  Watch watch;
  const std::string path = watch.prepare(folder.path(), 0);
  std::optional<ControlPlane> program;
  // The shortest of some tries: a busy machine may hold up the others.
  auto shortest = std::chrono::steady_clock::duration::max();
  for (int attempt = 0; attempt < 10 && shortest >= 900ms; ++attempt) {
    program.emplace(watch.context, path);
    watch.flights.keep_sockets();
    const auto begin = std::chrono::steady_clock::now();
    std::optional<FlightWatch> goes(std::in_place, watch.context.get_executor(), 0ms,
                                    [](const FlightRank&) {});
    Environment environment{{"TORCH_WORKER_SERVER_SOCKET", path + ".open"}};
    goes->prepare(environment, "", 0, 0);
    goes->ask({{0, {::getpid()}}});
    REQUIRE(goes->asks());
    goes.reset();
    shortest = std::min(shortest, std::chrono::steady_clock::now() - begin);
  }
  CHECK(shortest < 900ms);
  watch.context.restart();
  watch.context.run_for(100ms);
}

}  // namespace flight_watch_test
