// SPDX-License-Identifier: Apache-2.0
// The client against a scripted server: the bytes it sends and what it makes of bad answers.
#include "worker_sdk/store/tcp_store.hpp"

#include "catch.hpp"
#include "muster/error.hpp"
#include "tests/unit/worker_sdk/store/scripted_peer.hpp"
#include "worker_sdk/store/backoff.hpp"

#include <atomic>
#include <chrono>
#include <future>

namespace muster::tcp_store_test {
namespace {

using namespace std::string_literals;
using std::chrono::milliseconds;
using test::PeerConnection;
using test::ScriptedPeer;
using Clock = std::chrono::steady_clock;

constexpr auto kLong = milliseconds(20'000);
constexpr auto kShort = milliseconds(60);
constexpr int kTries = 5;

std::unique_ptr<StoreClient> connect_to(const ScriptedPeer& peer, milliseconds timeout = kLong) {
  StoreOptions options;
  options.timeout = timeout;
  options.connect_timeout = kLong;
  return connect_store("127.0.0.1", peer.port(), options);
}

/// Runs `call`, which must throw; gives its code and text.
template <typename Call>
std::pair<ErrorCode, std::string> error_of(Call call) {
  try {
    call();
  } catch (const Error& error) {
    return {error.code(), error.what()};
  }
  return {ErrorCode::invalid_argument, "nothing was thrown"};
}

const std::string kWaitForK = "\x06\1\0\0\0\0\0\0\0\2\0\0\0\0\0\0\0/k"s;

TEST_CASE("a wait in parts names the limit of the whole") {
  const auto store = make_local_store();
  const auto [code, text] = error_of([&] { wait_and_look(*store, {"never"}, milliseconds(137), [] {}); });
  CHECK(code == ErrorCode::deadline);
  CHECK(text.starts_with("waited 137 ms for the key 'never'"));
}

TEST_CASE("requests are PyTorch's, byte for byte") {
  std::string handshake;
  std::string rest;
  {
    const ScriptedPeer peer([&](const PeerConnection& client) {
      handshake = client.read(10);
      client.write(handshake.substr(6));
      rest = client.read(24);
      rest += client.read(21);
      client.write("\xfe\xff\xff\xff\xff\xff\xff\xff"s);
    });
    const auto store = connect_to(peer);
    store->set("foo", "bar");
    CHECK(store->add("ctr", -7) == -2);
  }
  CHECK(handshake.substr(0, 6) == "\x00\xce\xf7\x85\x3c\x0d"s);
  CHECK(rest ==
        "\1\4\0\0\0\0\0\0\0/foo\3\0\0\0\0\0\0\0bar\4\4\0\0\0\0\0\0\0/ctr\xf9\xff\xff\xff\xff\xff\xff\xff"s);
}

TEST_CASE("a wait that ends at its deadline is cancelled and leaves the connection usable") {
  const ScriptedPeer peer([](const PeerConnection& client) {
    client.shake_hands();
    client.read(kWaitForK.size());
    if (client.read(1) == "\x0c") client.write("\1");
    client.read(1);
    client.write("\x2a\0\0\0\0\0\0\0"s);
  });
  const auto store = connect_to(peer);
  const auto start = Clock::now();
  const auto [code, text] = error_of([&] { store->wait({"k"}, kShort); });
  CHECK(Clock::now() - start >= kShort);
  CHECK(code == ErrorCode::deadline);
  CHECK(contains(text, "waited 60 ms"));
  CHECK(contains(text, "'k'"));
  CHECK(store->num_keys() == 42);
}

TEST_CASE("a wait that is answered while it is cancelled has succeeded") {
  // The answer to the cancel is waited for for half a second, in which a busy machine may not give it.
  ErrorCode code = ErrorCode::deadline;
  for (int attempt = 0; attempt < kTries && code == ErrorCode::deadline; ++attempt) {
    const ScriptedPeer peer([](const PeerConnection& client) {
      client.shake_hands();
      client.read(kWaitForK.size());
      client.read(1);
      client.write("\0\1"s);
      client.read(1);
      client.write("\x2a\0\0\0\0\0\0\0"s);
    });
    const auto store = connect_to(peer);
    // invalid_argument: nothing was thrown.
    code = error_of([&] { store->wait({"k"}, kShort); }).first;
    CHECK(store->num_keys() == 42);
  }
  CHECK(code == ErrorCode::invalid_argument);
}

TEST_CASE("a store that stops ends a wait at its deadline, and can be used when it goes on") {
  std::promise<void> go_on;
  const ScriptedPeer peer([&](const PeerConnection& client) {
    client.shake_hands();
    client.read(kWaitForK.size() + 1);
    go_on.get_future().wait();
    client.write("\0\1"s);
    client.read(1);
    client.write("\x2a\0\0\0\0\0\0\0"s);
  });
  const auto store = connect_to(peer);
  for (int i = 0; i < 2; ++i) {
    const auto start = Clock::now();
    const auto [code, text] = error_of([&] { store->wait({"k"}, kShort); });
    CHECK(Clock::now() - start < kLong * 3 / 4);
    CHECK(code == ErrorCode::deadline);
    CHECK(contains(text, "'k', and the store answers nothing"));
    CHECK(store->is_silent());
  }
  go_on.set_value();
  CHECK(store->num_keys() == 42);
  CHECK_FALSE(store->is_silent());
}

TEST_CASE("a store that stays silent after a wait is lost") {
  const ScriptedPeer peer([](const PeerConnection& client) {
    client.shake_hands();
    client.read_until_closed();
  });
  const auto store = connect_to(peer, milliseconds(300));
  CHECK(error_of([&] { store->wait({"k"}, kShort); }).first == ErrorCode::deadline);
  const auto [code, text] = error_of([&] { store->add("n", 1); });
  CHECK(code == ErrorCode::store);
  CHECK(contains(text, "300 ms"));
  CHECK(contains(error_of([&] { store->add("n", 1); }).second, "closed earlier"));
}

TEST_CASE("answers that come in pieces are put together") {
  const ScriptedPeer peer([](const PeerConnection& client) {
    client.shake_hands();
    client.read(kWaitForK.size());
    client.write("\0"s);
    client.read(11);
    for (const char byte : "\5\0\0\0\0\0\0\0"s + "hello") client.write(std::string(1, byte));
  });
  CHECK(connect_to(peer)->get("k") == "hello");
}

TEST_CASE("a broken answer closes the store, and every later call says why") {
  std::string answer;
  std::string expected;
  SECTION("connection closed in the middle") {
    answer = "\5\0\0\0\0\0\0\0he"s;
    expected = "the server closed the connection";
  }
  SECTION("a length beyond all sense takes no memory") {
    answer = "\xff\xff\xff\xff\xff\xff\xff\x7f"s;
    expected = "announces a value of 9223372036854775807 bytes";
  }
  SECTION("a length that lies takes no more memory than bytes come") {
    answer = "\0\0\0\x3f\0\0\0\0tiny"s;
    expected = "the server closed the connection";
  }
  const ScriptedPeer peer([&](const PeerConnection& client) {
    client.shake_hands();
    client.read(kWaitForK.size());
    client.write("\0"s);
    client.read(11);
    client.write(answer);
  });
  const auto store = connect_to(peer);
  const auto [code, text] = error_of([&] { store->get("k"); });
  CHECK(code == ErrorCode::store);
  CHECK(contains(text, expected));
  const auto [later_code, later_text] = error_of([&] { store->set("a", "b"); });
  CHECK(later_code == ErrorCode::store);
  CHECK(contains(later_text, "closed earlier"));
}

TEST_CASE("an unknown answer to a wait or a cancel is an error of the store") {
  const bool cancelled = GENERATE(false, true);
  // As above, the answer to a cancel may come too late.
  ErrorCode code = ErrorCode::deadline;
  for (int attempt = 0; attempt < kTries && code == ErrorCode::deadline; ++attempt) {
    const ScriptedPeer peer([&](const PeerConnection& client) {
      client.shake_hands();
      client.read(kWaitForK.size() + (cancelled ? 1 : 0));
      client.write("\7");
      client.read_until_closed();
    });
    const auto store = connect_to(peer);
    code = error_of([&] { store->wait({"k"}, cancelled ? kShort : kLong); }).first;
  }
  CHECK(code == ErrorCode::store);
}

TEST_CASE("a server that falls silent is a lost store") {
  const ScriptedPeer peer([](const PeerConnection& client) {
    client.shake_hands();
    client.read_until_closed();
  });
  const auto store = connect_to(peer, milliseconds(300));
  const auto [code, text] = error_of([&] { store->add("n", 1); });
  CHECK(code == ErrorCode::store);
  CHECK(contains(text, "add at the store 127.0.0.1"));
  CHECK(contains(text, "300 ms"));
}

TEST_CASE("connecting goes on after refusals and broken handshakes") {
  std::atomic<int> connection{0};
  const ScriptedPeer peer(
      [&](const PeerConnection& client) {
        if (++connection == 1) return;  // hangs up before the handshake
        client.shake_hands();
        client.read_until_closed();
      },
      2);
  CHECK(connect_to(peer) != nullptr);
  CHECK(connection == 2);
}

TEST_CASE("what cannot be reached is named with the last cause") {
  StoreOptions options;
  options.timeout = milliseconds(100);
  int port = 0;
  {
    const ScriptedPeer gone([](const PeerConnection&) {}, 0);
    port = gone.port();
  }
  const auto [code, text] = error_of([&] { connect_store("127.0.0.1", port, options); });
  CHECK(code == ErrorCode::store);
  CHECK(contains(text, "127.0.0.1:" + std::to_string(port)));
  CHECK(contains(text, "Connection refused"));
  CHECK(contains(text, "MASTER_ADDR"));
  // What was left of a longer wait is not what anybody gave.
  options.connect_timeout = WaitLimit(milliseconds(20), milliseconds(7300));
  CHECK(error_of([&] { connect_store("127.0.0.1", port, options); }).second.find("within 7.3 s (") !=
        std::string::npos);
  const auto [name_code, name_text] = error_of([&] { connect_store("no-such-host.invalid", 1, options); });
  CHECK(name_code == ErrorCode::store);
  CHECK(contains(name_text, "cannot resolve 'no-such-host.invalid'"));
}

TEST_CASE("bad arguments are refused before anything is sent") {
  CHECK(error_of([] { connect_store("", 1); }).first == ErrorCode::invalid_argument);
  CHECK(error_of([] { connect_store("127.0.0.1", 0); }).first == ErrorCode::invalid_argument);
  CHECK(error_of([] { connect_store("127.0.0.1", 65536); }).first == ErrorCode::invalid_argument);
  const ScriptedPeer peer([](const PeerConnection& client) {
    client.shake_hands();
    client.read_until_closed();
  });
  const auto store = connect_to(peer);
  CHECK(error_of([&] { store->set(std::string(9000, 'k'), ""); }).first == ErrorCode::invalid_argument);
  CHECK(error_of([&] { store->set("k", std::string(9 << 20, 'v')); }).first == ErrorCode::invalid_argument);
}

TEST_CASE("delays between attempts grow from half a second to a minute") {
  Backoff middle;
  CHECK(middle.next(0.5).count() == Approx(0.5));
  CHECK(middle.next(0.5).count() == Approx(0.75));
  CHECK(middle.next(0.0).count() == Approx(0.5625));
  CHECK(middle.next(0.999999).count() == Approx(2.53125).margin(0.001));
  for (int i = 0; i < 20; ++i) middle.next(0.5);
  CHECK(middle.next(0.5).count() == Approx(60));
  CHECK(middle.next(0.999).count() == Approx(60));
  CHECK(middle.next(0.0).count() == Approx(30));
}

}  // namespace
}  // namespace muster::tcp_store_test
