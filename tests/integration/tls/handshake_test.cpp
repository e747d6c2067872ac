// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/tls/tls_socket.hpp"
#include "tests/integration/tls/tls_fixture.hpp"
#include "tests/support/catch.hpp"

#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <unistd.h>

namespace muster::rendezvous::tls_test::handshake_test {

namespace {

/// Both ends of a connection whose handshake went well.
struct Pair {
  explicit Pair(TlsBench& bench) {
    const PeerIdentity identity = agent_identity();
    const auto connecting = bench.connect(identity, derive_key(bench.secret, identity));
    bench.turn();
    const auto accepting = bench.accept();
    bench.run_until([&] { return connecting->done && accepting->done; });
    REQUIRE(connecting->error.empty());
    REQUIRE(accepting->error.empty());
    CHECK(accepting->value->peer == identity);
    client = std::move(*connecting->value);
    server = std::move(accepting->value->stream);
  }

  std::unique_ptr<ByteStream> client;
  std::unique_ptr<ByteStream> server;
};

struct Refusal {
  std::optional<Errc> code;
  std::string client;
  std::string server;
};

Refusal refusal_of(TlsBench& bench, const PeerIdentity& identity, Secret key) {
  const auto connecting = bench.connect(identity, std::move(key));
  bench.turn();
  const auto accepting = bench.accept();
  bench.run_until([&] { return connecting->done && accepting->done; });
  REQUIRE_FALSE(accepting->value.has_value());
  return {connecting->code, connecting->error, accepting->error};
}

/// The other end of what the bench connects, and the first bytes that were sent to it.
struct Wiretap {
  explicit Wiretap(TlsBench& bench) {
    bench.turn();
    end = bench.take();
    pollfd readable{end.get(), POLLIN, 0};
    bench.run_until([&] {
      bench.turn();
      return ::poll(&readable, 1, 10) == 1;
    });
    std::string flight(4096, '\0');
    const ssize_t size = ::recv(end.get(), flight.data(), flight.size(), 0);
    REQUIRE(size > 0);
    recorded = flight.substr(0, static_cast<std::size_t>(size));
  }

  UniqueFd end;
  std::string recorded;
};

}  // namespace

TEST_CASE("a connection repeats what is lost each second, and ends when nothing is acknowledged for long") {
  const UniqueFd fd(::socket(AF_INET, SOCK_STREAM, 0));
  const auto option = [&fd](int name) {
    int value = -1;
    socklen_t size = sizeof value;
    return ::getsockopt(fd.get(), IPPROTO_TCP, name, &value, &size) == 0 ? value : -1;
  };
  constexpr int kLongestRepetition = 44;  // TCP_RTO_MAX_MS
  const bool known = option(kLongestRepetition) > 0;
  set_tcp_options(fd.get());
  CHECK(option(TCP_NODELAY) != 0);
  CHECK(option(TCP_USER_TIMEOUT) == kDeadAfter.count());
  if (known) CHECK(option(kLongestRepetition) == 1000);
}

TEST_CASE("a client with its key is let in and named, and bytes go both ways") {
  TlsBench bench;
  Pair pair(bench);
  // Longer than the socket buffers, so that both sides wait in the middle.
  const std::string text(5U << 20U, 'x');
  const auto there = bench.spawn(write_text(*pair.client, text));
  const auto back = bench.spawn(write_text(*pair.server, "hello" + text));
  const auto read_there = bench.spawn(read_text(*pair.server, text.size()));
  const auto read_back = bench.spawn(read_text(*pair.client, text.size() + 5));
  bench.run_until([&] { return there->done && back->done && read_there->done && read_back->done; });
  CHECK(*read_there->value == text);
  CHECK(*read_back->value == "hello" + text);
}

TEST_CASE("a connection that the next event loop cannot watch is still one to be closed") {
  TlsBench bench;
  Pair pair(bench);
  auto& socket = static_cast<TlsSocket&>(*pair.server);
  socket.detach();
  const int number = socket.fd();
  const UniqueFd kept(::dup(number));
  // As if there were no room for it: what is closed cannot be watched either.
  ::close(number);
  CHECK_THROWS_AS(socket.attach(bench.context.get_executor()), boost::system::system_error);
  CHECK(socket.fd() == number);
  REQUIRE(::dup2(kept.get(), number) == number);
  socket.attach(bench.context.get_executor());
  const auto there = bench.spawn(write_text(*pair.client, "hello"));
  const auto read = bench.spawn(read_text(*pair.server, 5));
  bench.run_until([&] { return there->done && read->done; });
  CHECK(*read->value == "hello");
}

TEST_CASE("a wrong key, another job, another role and a stranger's identity get the same answer") {
  TlsBench bench;
  const PeerIdentity good = agent_identity();
  const Refusal wrong = refusal_of(bench, good, Secret::random());
  CHECK(wrong.code == Errc::mend);
  CHECK_THAT(wrong.client, Contains("do not have the same key for this job and node"));
  CHECK_THAT(wrong.server, Contains("does not have the key of a node of this job"));

  PeerIdentity launcher = good;
  launcher.role = PeerIdentity::Role::launcher;
  const PeerIdentity other_job = agent_identity("n1", "another");
  for (const auto& [identity, key_for] :
       {std::pair{launcher, good}, std::pair{other_job, other_job}, std::pair{agent_identity("n2"), good}}) {
    const Refusal refusal = refusal_of(bench, identity, derive_key(bench.secret, key_for));
    CHECK(refusal.code == wrong.code);
    CHECK(refusal.client == wrong.client);
    CHECK(refusal.server == wrong.server);
  }
}

TEST_CASE("a server of many jobs takes each with the key of that job, and no other") {
  TlsBench bench(std::nullopt);
  for (const char* job : {"A", "B"}) {
    const PeerIdentity identity = agent_identity("n1", job);
    const auto connecting =
        bench.connect(identity, derive_key(derive_job_secret(bench.secret, job), identity));
    bench.turn();
    const auto accepting = bench.accept();
    bench.run_until([&] { return connecting->done && accepting->done; });
    REQUIRE(accepting->error.empty());
    CHECK(accepting->value->peer == identity);
  }
  const PeerIdentity of_a = agent_identity("n1", "A");
  for (const char* other : {"B", ""}) {
    Secret key = derive_key(derive_job_secret(bench.secret, other), of_a);
    CHECK(refusal_of(bench, of_a, std::move(key)).code == Errc::mend);
  }
  CHECK(refusal_of(bench, of_a, derive_key(bench.secret, of_a)).code == Errc::mend);
}

TEST_CASE("what a client recorded opens nothing when it is played back, to the server or to itself") {
  TlsBench bench;
  const PeerIdentity identity = agent_identity();
  // The first flight of a real client, as an eavesdropper has it.
  const auto connecting = bench.connect(identity, derive_key(bench.secret, identity));
  const Wiretap tap(bench);
  const std::string& flight = tap.recorded;
  // Sent back to the one who said it: it is no server.
  REQUIRE(::send(tap.end.get(), flight.data(), flight.size(), 0) > 0);
  bench.run_until([&] { return connecting->done; });
  CHECK_FALSE(connecting->value.has_value());
  CHECK(connecting->code == Errc::mend);

  // Sent to the server: it answers, but the player cannot go on.
  const UniqueFd player(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  REQUIRE(::connect(player.get(), bench.listener.address.data(), bench.listener.address.size()) == 0);
  const auto accepting = bench.accept(300ms);
  REQUIRE(::send(player.get(), flight.data(), flight.size(), 0) > 0);
  bench.run_until([&] { return accepting->done; });
  CHECK_FALSE(accepting->value.has_value());
  CHECK(accepting->code == Errc::deadline);
}

TEST_CASE("a first message that is played back to the same server is known again") {
  TlsBench bench;
  const PeerIdentity identity = agent_identity();
  const auto connecting = bench.connect(identity, derive_key(bench.secret, identity));
  const std::string recorded = Wiretap(bench).recorded;
  int shown = 0;
  std::vector<UniqueFd> players;
  std::vector<std::shared_ptr<Outcome<AcceptedTls>>> accepted;
  for (int i = 0; i < 3; ++i) {
    players.push_back(bench.dial());
    REQUIRE(::send(players.back().get(), recorded.data(), recorded.size(), MSG_NOSIGNAL) > 0);
    accepted.push_back(bench.accept(20s, [&shown] { return ++shown > 0; }));
  }
  bench.run_until([&] { return accepted[1]->done && accepted[2]->done; });
  CHECK(shown == 1);
  CHECK_FALSE(accepted[0]->done);
  CHECK(accepted[1]->code == Errc::mend);
  players.clear();
  bench.run_until([&] { return accepted[0]->done; });
  CHECK_FALSE(accepted[0]->value.has_value());
}

TEST_CASE("a client for which there is no room is refused when its key is shown") {
  TlsBench bench;
  const PeerIdentity identity = agent_identity();
  const auto connecting = bench.connect(identity, derive_key(bench.secret, identity));
  bench.turn();
  const auto accepting = bench.accept(20s, [] { return false; });
  bench.run_until([&] { return connecting->done && accepting->done; });
  CHECK_FALSE(accepting->value.has_value());
}

TEST_CASE("a first message that announces more than 16 KiB is refused at its first bytes") {
  TlsBench bench;
  // A record, and in it a hello of 129,000 bytes; and one whose first record hides the length.
  const std::string begin = GENERATE(std::string("\x16\x03\x01\x02\x00\x01\x01\xf7\xe8", 9),
                                     std::string("\x16\x03\x01\x00\x01\x01", 6));
  const UniqueFd peer = bench.dial();
  REQUIRE(::send(peer.get(), begin.data(), begin.size(), MSG_NOSIGNAL) > 0);
  const auto accepting = bench.accept();
  bench.run_until([&] { return accepting->done; });
  CHECK_THAT(accepting->error, Contains("longer than 16384 bytes"));
}

TEST_CASE("the end of a process is told from a broken line") {
  TlsBench bench;
  Pair pair(bench);
  SECTION("closed") {
    const auto reading = bench.spawn(read_text(*pair.server, 1));
    pair.client->close();
    bench.run_until([&] { return reading->done; });
    CHECK(reading->system == asio::error::eof);
  }
  SECTION("closed while the other end's bytes are unread") {
    const auto writing = bench.spawn(write_text(*pair.server, "unread"));
    bench.run_until([&] { return writing->done; });
    pair.client->close();
    const auto reading = bench.spawn(read_text(*pair.server, 1));
    bench.run_until([&] { return reading->done; });
    CHECK(reading->system == asio::error::eof);
  }
}

TEST_CASE("a process that is killed is told from a broken line, whatever was written before that is seen") {
  TlsBench bench;
  Pair pair(bench);
  auto& server = static_cast<TlsSocket&>(*pair.server);
  const auto has_no_connection = [&server] {
    tcp_info info{};
    socklen_t size = sizeof(info);
    return ::getsockopt(server.fd(), IPPROTO_TCP, TCP_INFO, &info, &size) == 0 &&
           info.tcpi_state == TCP_CLOSE;
  };
  const bool killed = GENERATE(true, false);
  const int writes = GENERATE(1, 2);
  if (killed) {
    // As the kernel closes it: without a word of TLS.
    const UniqueFd null(::open("/dev/null", O_RDWR | O_CLOEXEC));
    REQUIRE(::dup2(null.get(), static_cast<TlsSocket&>(*pair.client).fd()) >= 0);
  } else {
    pair.client->abort();
  }
  for (int i = 0; i < writes; ++i) {
    const auto writing = bench.spawn(write_text(*pair.server, "late"));
    bench.run_until([&] { return writing->done && has_no_connection(); });
  }
  const auto reading = bench.spawn(read_text(*pair.server, 1));
  bench.run_until([&] { return reading->done; });
  CHECK((reading->system == asio::error::eof) == killed);
  CHECK((reading->system == asio::error::connection_reset) == !killed);
}

TEST_CASE("nobody there, and somebody who does not answer, are told apart") {
  TlsBench bench;
  const PeerIdentity identity = agent_identity();
  SECTION("nobody") {
    const Endpoint where = bench.endpoint();
    bench.listener.fd.reset();
    const auto connecting =
        bench.spawn(connect_tls(bench.context.get_executor(), where, identity, Secret::random(), in(20s)));
    bench.run_until([&] { return connecting->done; });
    CHECK(connecting->code == Errc::lost);
    CHECK_THAT(connecting->error,
               Contains("127.0.0.1:" + std::to_string(where.port)) && Contains("Connection refused"));
  }
  SECTION("no answer") {
    const auto connecting = bench.connect(identity, Secret::random(), 100ms);
    bench.run_until([&] { return connecting->done; });
    CHECK(connecting->code == Errc::deadline);
  }
}

}  // namespace muster::rendezvous::tls_test::handshake_test
