// SPDX-License-Identifier: Apache-2.0
// A TCP connection on which every wait has a deadline.
#pragma once

#include "rendezvous/base/unique_fd.hpp"

#include <sys/socket.h>

#include <chrono>
#include <cstddef>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace muster {

/// An address to connect to.
struct SocketAddress {
  sockaddr_storage storage{};
  socklen_t length = 0;
};

/// The addresses of `host`, in the system's order of preference (IPv6 and IPv4). A numeric address is
/// answered at once; a name is looked up on a thread of its own, since getaddrinfo() cannot be given a
/// deadline. Throws std::runtime_error with the resolver's text, or when `deadline` has passed.
std::vector<SocketAddress> resolve(const std::string& host, int port,
                                   std::chrono::steady_clock::time_point deadline);

using Deadline = std::chrono::steady_clock::time_point;

/// The error of a passed deadline, which is no failure of the connection. The stream may hold half a reply.
class StreamTimeout : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// Owns a connected, non-blocking socket. One thread at a time. Failures of the system are std::system_error,
/// an end of the connection std::runtime_error, a passed deadline StreamTimeout.
class Stream {
 public:
  Stream() = default;
  /// Takes over a connected socket.
  explicit Stream(UniqueFd fd);

  /// Connects. As soon as `waker` (-1: none) is readable, every wait of the connection ends as at its
  /// deadline, until forget_waker().
  static Stream connect(const SocketAddress& address, Deadline deadline, int waker = -1);

  void forget_waker() { waker_ = -1; }

  bool is_open() const { return static_cast<bool>(fd_); }

  /// The numeric address of this end; "" when it has none.
  std::string local_address() const;

  void close() { fd_.reset(); }

  void send(std::string_view bytes, Deadline deadline);
  /// Receives bytes until `data` is filled completely.
  void receive(void* data, std::size_t bytes, Deadline deadline);
  /// Whether there is data to read (or the end of the connection) before `deadline`.
  bool readable(Deadline deadline);
  /// Waits as readable() does, and returns false as soon as `other` is readable.
  bool readable_before(int other, Deadline deadline);

 private:
  /// Waits for `events`. False at the deadline, or when `waker` is readable.
  bool poll_for(short events, Deadline deadline, int waker);

  UniqueFd fd_;
  int waker_ = -1;
};

}  // namespace muster
