// SPDX-License-Identifier: Apache-2.0
// A blocking client of the store whose every byte the test decides.
#pragma once

#include "rendezvous/base/unique_fd.hpp"
#include "rendezvous/c10d/request_encoder.hpp"
#include "rendezvous/net/address.hpp"

#include <cstdint>
#include <string>
#include <string_view>

namespace muster::rendezvous {

class RawClient {
 public:
  /// Connects; every later read ends after 20 s with a test failure.
  explicit RawClient(const SocketAddress& server);

  /// Sends VALIDATE and PING and takes the answer.
  void handshake();
  /// What was written into `ask` since the last call. Throws if the connection broke.
  void send();
  void send(std::string_view bytes);
  /// False if the connection broke or does not take all within the time-out.
  bool try_send(std::string_view bytes);
  /// Exactly `count` bytes; throws std::runtime_error if they do not come.
  std::string receive(std::size_t count);
  std::int64_t receive_number();
  std::string receive_text();
  /// Waits until the server closes; false if it sends something or nothing happens in 20 s.
  bool closed_by_server();

  int fd() const { return fd_.get(); }

 private:
  muster::UniqueFd fd_;
  std::string bytes_;

 public:
  c10d::RequestEncoder ask{bytes_};
};

}  // namespace muster::rendezvous
