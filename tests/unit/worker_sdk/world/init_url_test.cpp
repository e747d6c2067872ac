// SPDX-License-Identifier: Apache-2.0

#include "worker_sdk/world/init_url.hpp"

#include "catch.hpp"
#include "muster/error.hpp"
#include "tests/support/error_of.hpp"
#include "worker_sdk/world/meeting_file.hpp"
#include "worker_sdk/world/store_access.hpp"
#include "worker_sdk/world/store_thread.hpp"

namespace muster {
namespace {

TEST_CASE("the three ways to meet") {
  CHECK(parse_init_url("").kind == InitUrl::Kind::environment);
  CHECK(parse_init_url("env://").kind == InitUrl::Kind::environment);
  const InitUrl tcp = parse_init_url("tcp://[fd00::1]:2000?rank=1&world_size=4");
  CHECK(tcp.kind == InitUrl::Kind::tcp);
  CHECK(tcp.host == "fd00::1");
  CHECK(tcp.port == 2000);
  CHECK(tcp.rank == 1);
  CHECK(tcp.size == 4);
  const InitUrl file = parse_init_url("file:///tmp/a b");
  CHECK(file.kind == InitUrl::Kind::file);
  CHECK(file.path == "/tmp/a b");
  CHECK(file.rank == -1);
}

TEST_CASE("a URL that is wrong is shown, with what is right") {
  for (const char* url : {"tcp://", "tcp://a", "tcp://a:0", "tcp://a:65536", "tcp://::1:1", "tcp://:1",
                          "file://", "file://a", "file:///tmp/", "mpi://", "env", "tcp://a:1?rank=-1",
                          "tcp://a:1?size=2", "tcp://a:1?rank", "unix:///x"}) {
    INFO(url);
    CHECK_THAT(test::error_of([&] { parse_init_url(url); }, ErrorCode::invalid_argument),
               Contains("init_url"));
  }
}

TEST_CASE("the note in a meeting file, and texts that are none") {
  const MeetingNote note{"127.0.0.1", 2000, ProcessIdentity::here()};
  const auto read = MeetingNote::from_text(note.to_text());
  REQUIRE(read.has_value());
  CHECK(read->host == note.host);
  CHECK(read->port == note.port);
  CHECK(read->writer == note.writer);
  const std::string text = note.to_text();
  // A writer that is killed half way leaves no note that passes for one.
  for (std::size_t length = 0; length < text.size(); ++length)
    CHECK_FALSE(MeetingNote::from_text(text.substr(0, length)));
  CHECK_FALSE(MeetingNote::from_text("something else\n"));
  CHECK_FALSE(MeetingNote::from_text(text + std::string(5000, '\n')));
}

TEST_CASE(
    "a store that is found through a file is served where those who may connect are, else on loopback") {
  const std::vector<std::string> addresses = {"192.0.2.7", "10.1.2.3", "fd00::3"};
  const auto address = [&](const std::string& list) {
    return serving_address(addresses, parse_allow_list("the list", list));
  };
  CHECK(address("") == "127.0.0.1");
  CHECK(address("10.1.2.4,10.1.2.3") == "10.1.2.3");
  CHECK(address("10.0.0.0/8,192.0.2.0/24") == "192.0.2.7");
  CHECK(address("fd00::/8") == "fd00::3");
  CHECK(address("172.16.0.0/12") == "127.0.0.1");
  CHECK(serving_address({}, parse_allow_list("the list", "10.0.0.0/8")) == "127.0.0.1");
}

StoreRequest request(Launcher launcher, int local_size, int nodes) {
  StoreRequest result;
  result.place.launcher = launcher;
  result.place.size = 4;
  result.place.local_size = local_size;
  result.place.nodes = nodes;
  result.place.step = "step";
  result.folder = "/folder";
  return result;
}

TEST_CASE("the way to the store: URL, given address, file of the step, MPI") {
  using Kind = StoreRoute::Kind;
  StoreRequest slurm = request(Launcher::slurm, 4, 1);
  CHECK(choose_route(slurm).kind == Kind::file);
  CHECK_THAT(choose_route(slurm).path, StartsWith("/folder/muster-") && EndsWith("-step"));
  slurm.place.store_host = "a";
  slurm.place.store_port = 1;
  CHECK(choose_route(slurm).kind == Kind::given);
  slurm.place.serves_store = true;
  CHECK(choose_route(slurm).kind == Kind::served);
  slurm.url = parse_init_url("file:///x");
  CHECK(choose_route(slurm).kind == Kind::file);
  CHECK(choose_route(slurm).path == "/x");
  CHECK(choose_route(request(Launcher::mpirun, 4, -1)).kind == Kind::file);
  CHECK(choose_route(request(Launcher::mpirun, 2, -1)).kind == Kind::mpi);
  StoreRequest with_mpi = request(Launcher::mpirun, 4, -1);
  with_mpi.prefers_mpi = true;
  CHECK(choose_route(with_mpi).kind == Kind::mpi);
  CHECK_THROWS_WITH(choose_route(request(Launcher::slurm, 2, 2)),
                    Contains("several hosts") && Contains("MUSTER_STORE"));
  StoreRequest alone;
  CHECK(choose_route(alone).kind == Kind::none);
}

}  // namespace
}  // namespace muster
