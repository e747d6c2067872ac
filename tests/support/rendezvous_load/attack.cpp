// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/base/unique_fd.hpp"
#include "rendezvous/net/address.hpp"
#include "rendezvous/server/listen_socket.hpp"
#include "tests/support/rendezvous_load/load.hpp"

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <exception>
#include <list>
#include <thread>
#include <utility>

namespace muster::load {
namespace {

using namespace rendezvous;

/// So many from one source address: fewer than the server begins to drop from one.
constexpr int kFromOneAddress = 10;
constexpr int kAddresses = 100;
constexpr std::chrono::milliseconds kTick{1};
constexpr std::chrono::milliseconds kSlowTick{10};
constexpr std::size_t kPolledAtOnce = 32;
/// How long a connection is kept that the server does not end.
constexpr std::chrono::seconds kPatience{2};
constexpr std::chrono::milliseconds kByteEvery{500};

/// The first message of a handshake of a client whose key is not the server's.
std::string hello_with_wrong_key() {
  ListenSocket listener = open_listen_socket("127.0.0.1", 0, false, false);
  const Secret key = Secret::random();
  std::thread client([&key, port = static_cast<int>(listener.address.port())] {
    boost::asio::io_context context(1);
    PeerIdentity identity;
    identity.job = "load";
    identity.node = "probe";
    boost::asio::co_spawn(context,
                          connect_tls(context.get_executor(), {"127.0.0.1", port}, identity, key.copy(),
                                      Clock::now() + std::chrono::seconds(10)),
                          [](const std::exception_ptr&, const std::unique_ptr<ByteStream>&) {});
    context.run();
  });
  pollfd wait{listener.fd.get(), POLLIN, 0};
  ::poll(&wait, 1, 10'000);
  const UniqueFd taken(::accept4(listener.fd.get(), nullptr, nullptr, SOCK_CLOEXEC));
  std::string hello(4096, '\0');
  const ssize_t count = ::recv(taken.get(), hello.data(), hello.size(), 0);
  hello.resize(count > 0 ? static_cast<std::size_t>(count) : 0);
  ::shutdown(taken.get(), SHUT_RDWR);
  client.join();
  return hello;
}

class Attacker {
 public:
  explicit Attacker(const Attack& attack)
      : attack_(attack), target_(resolve(attack.target.host, attack.target.port).front()) {
    if (attack.kind == "scan")
      words_ = "GET / HTTP/1.1\r\nHost: x\r\n\r\n";
    else if (attack.kind == "oversized")
      words_ = std::string("\x16\x03\x01\x40\x00\x01\xff\xff\xff", 9) + std::string(16384, 'x');
    else if (attack.kind == "wrong_key")
      words_ = hello_with_wrong_key();
    else if (attack.kind == "slowloris")
      words_ = std::string("\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", 11);
  }

  int run() {
    const Clock::time_point start = Clock::now();
    const Clock::time_point end = start + std::chrono::seconds(attack_.duration_s);
    while (Clock::now() < end) {
      if (attack_.kind == "slowloris")
        while (held_.size() < static_cast<std::size_t>(attack_.rate)) open();
      else
        for (long due = due_after(seconds_since(start)); opened_ < due;) open();
      look();
      std::this_thread::sleep_for(attack_.kind == "slowloris" ? kSlowTick : kTick);
    }
    std::printf("{\"opened\":%ld,\"connected\":%ld,\"ended\":%ld,\"kept\":%ld,\"seconds\":%.2f}\n", opened_,
                connected_, ended_, kept_, seconds_since(start));
    return 0;
  }

 private:
  struct Connection {
    UniqueFd fd;
    Clock::time_point since;
    Clock::time_point next_byte;
    std::size_t said = 0;
    bool connected = false;
  };

  long due_after(double seconds) const {
    return static_cast<long>(seconds * attack_.rate / attack_.burst) * attack_.burst;
  }

  void open() {
    const long number = opened_++;
    Connection connection;
    connection.fd.reset(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, IPPROTO_TCP));
    connection.since = connection.next_byte = Clock::now();
    const int on = 1;
    const linger reset{1, 0};
    ::setsockopt(connection.fd.get(), SOL_SOCKET, SO_LINGER, &reset, sizeof(reset));
    if (!attack_.source_prefix.empty()) {
      const long address = number / kFromOneAddress % kAddresses;
      ::setsockopt(connection.fd.get(), IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT, &on, sizeof(on));
      const SocketAddress from =
          resolve(attack_.source_prefix + ".200." + std::to_string(1 + address), 0).front();
      if (::bind(connection.fd.get(), from.data(), from.size()) != 0) return;
    }
    if (::connect(connection.fd.get(), target_.data(), target_.size()) != 0 && errno != EINPROGRESS) return;
    held_.push_back(std::move(connection));
  }

  void look() {
    std::vector<pollfd> polled;
    for (const Connection& one : held_)
      polled.push_back({one.fd.get(), static_cast<short>(one.connected ? POLLIN : POLLIN | POLLOUT), 0});
    // In small pieces: a long call would keep the job from the processor.
    for (std::size_t at = 0; at < polled.size(); at += kPolledAtOnce)
      ::poll(&polled[at], std::min(kPolledAtOnce, polled.size() - at), 0);
    std::size_t index = 0;
    std::erase_if(held_, [&](Connection& one) { return is_over(one, polled[index++].revents); });
  }

  bool is_over(Connection& one, short events) {
    const Clock::time_point now = Clock::now();
    if ((events & (POLLERR | POLLHUP)) != 0) return ++ended_, true;
    if (!one.connected && (events & POLLOUT) != 0) {
      one.connected = true;
      ++connected_;
      if (attack_.kind == "flood") return true;
    }
    if (one.connected && now >= one.next_byte && one.said < words_.size()) {
      const std::size_t size = attack_.kind == "slowloris" ? 1 : words_.size() - one.said;
      const ssize_t count = ::send(one.fd.get(), words_.data() + one.said, size, MSG_NOSIGNAL | MSG_DONTWAIT);
      if (count < 0 && errno != EAGAIN) return ++ended_, true;
      if (count > 0) one.said += static_cast<std::size_t>(count);
      if (attack_.kind == "slowloris") one.next_byte = now + kByteEvery;
    }
    if ((events & POLLIN) != 0) {
      char bytes[256];
      const ssize_t count = ::recv(one.fd.get(), bytes, sizeof(bytes), MSG_DONTWAIT);
      if (count == 0 || (count < 0 && errno != EAGAIN)) return ++ended_, true;
    }
    if (attack_.kind != "slowloris" && now - one.since > kPatience) return ++kept_, true;
    return false;
  }

  Attack attack_;
  SocketAddress target_;
  std::string words_;
  std::list<Connection> held_;
  long opened_ = 0;
  long connected_ = 0;
  long ended_ = 0;
  long kept_ = 0;
};

}  // namespace

int run_attack(const Attack& attack) {
  return Attacker(attack).run();
}

}  // namespace muster::load
