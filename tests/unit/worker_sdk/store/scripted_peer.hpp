// SPDX-License-Identifier: Apache-2.0
// A store server that says what a test tells it to say.
#pragma once

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <functional>
#include <stdexcept>
#include <string>
#include <thread>

namespace muster::test {

/// One accepted connection of a scripted peer.
class PeerConnection {
 public:
  explicit PeerConnection(int fd) : fd_(fd) {}

  /// Exactly so many bytes, or fewer when the client has closed the connection.
  std::string read(std::size_t bytes) const {
    std::string data(bytes, '\0');
    const ssize_t got = recv(fd_, data.data(), bytes, MSG_WAITALL);
    data.resize(got > 0 ? static_cast<std::size_t>(got) : 0);
    return data;
  }

  void write(const std::string& bytes) const {
    static_cast<void>(send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL));
  }

  /// VALIDATE and PING in, the nonce out.
  void shake_hands() const { write(read(10).substr(6)); }

  void read_until_closed() const {
    while (!read(1).empty()) {
    }
  }

 private:
  int fd_;
};

/// Listens on a loopback port and runs `script` for each of `connections` clients, one after the other.
class ScriptedPeer {
 public:
  explicit ScriptedPeer(std::function<void(const PeerConnection&)> script, int connections = 1)
      : listener_(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t length = sizeof(address);
    auto* const name = reinterpret_cast<sockaddr*>(&address);
    if (bind(listener_, name, length) != 0 || listen(listener_, 8) != 0 ||
        getsockname(listener_, name, &length) != 0)
      throw std::runtime_error("no loopback port to listen on");
    port_ = ntohs(address.sin_port);
    thread_ = std::thread([this, script = std::move(script), connections] {
      for (int i = 0; i < connections; ++i) {
        const int fd = accept(listener_, nullptr, nullptr);
        if (fd < 0) return;
        script(PeerConnection(fd));
        close(fd);
      }
    });
  }

  ~ScriptedPeer() {
    shutdown(listener_, SHUT_RDWR);
    thread_.join();
    close(listener_);
  }

  ScriptedPeer(const ScriptedPeer&) = delete;
  ScriptedPeer& operator=(const ScriptedPeer&) = delete;

  int port() const { return port_; }

 private:
  int listener_;
  int port_ = 0;
  std::thread thread_;
};

}  // namespace muster::test
