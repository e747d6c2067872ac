// SPDX-License-Identifier: Apache-2.0
// One client program for all three servers, so that only the servers differ: an epoll loop with one request
// outstanding on each connection. "store_bench_client PROTOCOL HOST PORT CLIENTS OPERATION SECONDS"; PROTOCOL
// is c10d or resp, OPERATION set, get or add. Prints one JSON line: operations per second and the percentiles
// of the round trip in us. SET has no reply in PyTorch's protocol, so a PING rides in the same segment and
// its answer ends the round trip.
#include "rendezvous/c10d/request_encoder.hpp"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <stdexcept>
#include <string>
#include <vector>

namespace {

using Clock = std::chrono::steady_clock;
namespace c10d = muster::rendezvous::c10d;

constexpr char kValue[] =
    "0123456789abcdef0123456789abcdef";  // 32 bytes: an address or a status, as jobs store them
constexpr double kWarmUpSeconds = 0.3;

struct Options {
  bool resp = false;
  std::string host;
  int port = 0;
  int clients = 1;
  std::string operation;
  double seconds = 1;
};

struct Connection {
  int fd = -1;
  std::string request;
  std::size_t reply_bytes = 0;  // 0: until the end of a line
  std::size_t received = 0;
  Clock::time_point sent;
};

void need(bool condition, const char* what) {
  if (!condition) throw std::runtime_error(what);
}

int connect_to(const Options& options) {
  const int fd = ::socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<std::uint16_t>(options.port));
  inet_pton(AF_INET, options.host.c_str(), &address.sin_addr);
  const int on = 1;
  ::setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
  const void* raw = &address;
  need(::connect(fd, static_cast<const sockaddr*>(raw), sizeof(address)) == 0, "cannot connect");
  return fd;
}

void exchange(int fd, const std::string& request, std::size_t reply_bytes) {
  need(::send(fd, request.data(), request.size(), 0) == static_cast<ssize_t>(request.size()), "cannot send");
  std::string reply(reply_bytes, '\0');
  if (reply_bytes == 0) return;
  need(::recv(fd, reply.data(), reply_bytes, MSG_WAITALL) == static_cast<ssize_t>(reply_bytes), "no reply");
}

std::string resp(const std::vector<std::string>& words) {
  std::string text = "*" + std::to_string(words.size()) + "\r\n";
  for (const std::string& word : words) text += "$" + std::to_string(word.size()) + "\r\n" + word + "\r\n";
  return text;
}

void prepare_resp(Connection& connection, const Options& options, const std::string& key) {
  exchange(connection.fd, resp({"SET", key, kValue}), 5);  // +OK
  exchange(connection.fd, resp({"SET", key + "n", "0"}), 5);
  if (options.operation == "set") connection.request = resp({"SET", key, kValue});
  if (options.operation == "get") connection.request = resp({"GET", key});
  if (options.operation == "add") connection.request = resp({"INCRBY", key + "n", "1"});
  if (options.operation == "set") connection.reply_bytes = 5;
  if (options.operation == "get") connection.reply_bytes = 5 + sizeof(kValue) - 1 + 2;  // $32, the value
}

void prepare_c10d(Connection& connection, const Options& options, const std::string& key) {
  std::string bytes;
  c10d::RequestEncoder hello(bytes);
  hello.validate();
  hello.ping(1);
  exchange(connection.fd, bytes, 4);
  bytes.clear();
  hello.set(key, kValue);
  hello.ping(1);
  exchange(connection.fd, bytes, 4);
  c10d::RequestEncoder encoder(connection.request);
  if (options.operation == "set") {
    encoder.set(key, kValue);
    encoder.ping(1);
    connection.reply_bytes = 4;
  } else if (options.operation == "get") {
    encoder.get(key);
    connection.reply_bytes = 8 + sizeof(kValue) - 1;
  } else {
    encoder.add(key + "n", 1);
    connection.reply_bytes = 8;
  }
}

void start(Connection& connection) {
  connection.received = 0;
  connection.sent = Clock::now();
  const ssize_t count =
      ::send(connection.fd, connection.request.data(), connection.request.size(), MSG_NOSIGNAL);
  need(count == static_cast<ssize_t>(connection.request.size()), "the server closed a connection");
}

// True when the reply is whole.
bool read_reply(Connection& connection) {
  char bytes[256];
  const ssize_t count = ::recv(connection.fd, bytes, sizeof(bytes), MSG_DONTWAIT);
  if (count < 0 && errno == EAGAIN) return false;
  need(count > 0, "the server closed a connection");
  connection.received += static_cast<std::size_t>(count);
  if (connection.reply_bytes == 0) return bytes[count - 1] == '\n';
  return connection.received >= connection.reply_bytes;
}

class Run {
 public:
  explicit Run(const Options& options) : connections_(static_cast<std::size_t>(options.clients)) {
    int number = 0;
    for (Connection& connection : connections_) {
      connection.fd = connect_to(options);
      const std::string key = "/bench/" + std::to_string(number++);
      options.resp ? prepare_resp(connection, options, key) : prepare_c10d(connection, options, key);
      epoll_event event{};
      event.events = EPOLLIN;
      event.data.ptr = &connection;
      ::epoll_ctl(epoll_, EPOLL_CTL_ADD, connection.fd, &event);
    }
    samples_.reserve(8'000'000);
  }

  void measure(double seconds) {
    for (Connection& connection : connections_) start(connection);
    loop(kWarmUpSeconds);
    samples_.clear();
    const auto began = Clock::now();
    loop(seconds);
    elapsed_ = std::chrono::duration<double>(Clock::now() - began).count();
  }

  void print() {
    std::sort(samples_.begin(), samples_.end());
    std::printf("{\"per_second\": %.0f, \"p50_us\": %.2f, \"p99_us\": %.2f}\n",
                static_cast<double>(samples_.size()) / elapsed_, percentile(0.50), percentile(0.99));
  }

 private:
  void loop(double seconds) {
    const auto until =
        Clock::now() + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds));
    epoll_event events[64];
    for (auto now = Clock::now(); now < until;) {
      const int count = ::epoll_wait(epoll_, events, 64, 5000);
      need(count > 0, "no reply for 5 s");
      for (int i = 0; i < count; ++i) {
        Connection& connection = *static_cast<Connection*>(events[i].data.ptr);
        if (!read_reply(connection)) continue;
        now = Clock::now();
        samples_.push_back(std::chrono::duration<float, std::micro>(now - connection.sent).count());
        start(connection);
      }
    }
  }

  double percentile(double part) const {
    if (samples_.empty()) return 0;
    return static_cast<double>(
        samples_[static_cast<std::size_t>(part * static_cast<double>(samples_.size() - 1))]);
  }

  int epoll_ = ::epoll_create1(EPOLL_CLOEXEC);
  std::vector<Connection> connections_;
  std::vector<float> samples_;
  double elapsed_ = 1;
};

}  // namespace

int main(int argc, char** argv) {
  if (argc != 7) {
    std::fprintf(stderr, "usage: store_bench_client c10d|resp HOST PORT CLIENTS set|get|add SECONDS\n");
    return 2;
  }
  try {
    Options options;
    options.resp = std::string(argv[1]) == "resp";
    options.host = argv[2];
    options.port = std::atoi(argv[3]);
    options.clients = std::atoi(argv[4]);
    options.operation = argv[5];
    options.seconds = std::atof(argv[6]);
    Run run(options);
    run.measure(options.seconds);
    run.print();
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "store_bench_client: %s\n", error.what());
    return 1;
  }
}
