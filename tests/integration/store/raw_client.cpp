// SPDX-License-Identifier: Apache-2.0
#include "tests/integration/store/raw_client.hpp"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/time.h>

#include <cerrno>
#include <cstring>
#include <stdexcept>

namespace muster::rendezvous {
namespace {

constexpr timeval kPatience{20, 0};

}  // namespace

RawClient::RawClient(const SocketAddress& server)
    : fd_(::socket(server.family(), SOCK_STREAM | SOCK_CLOEXEC, 0)) {
  const int on = 1;
  ::setsockopt(fd_.get(), SOL_SOCKET, SO_RCVTIMEO, &kPatience, sizeof(kPatience));
  ::setsockopt(fd_.get(), SOL_SOCKET, SO_SNDTIMEO, &kPatience, sizeof(kPatience));
  ::setsockopt(fd_.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
  if (::connect(fd_.get(), server.data(), server.size()) != 0) {
    throw std::runtime_error(std::string("connect: ") + std::strerror(errno));
  }
}

void RawClient::handshake() {
  ask.validate();
  ask.ping(7);
  send();
  receive(sizeof(std::uint32_t));
}

void RawClient::send() {
  send(bytes_);
  bytes_.clear();
}

void RawClient::send(std::string_view bytes) {
  if (!try_send(bytes)) throw std::runtime_error(std::string("send: ") + std::strerror(errno));
}

bool RawClient::try_send(std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t count = ::send(fd_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (count <= 0) return false;
    bytes.remove_prefix(static_cast<std::size_t>(count));
  }
  return true;
}

std::string RawClient::receive(std::size_t count) {
  std::string bytes(count, '\0');
  if (count == 0) return bytes;
  const ssize_t got = ::recv(fd_.get(), bytes.data(), count, MSG_WAITALL);
  if (got != static_cast<ssize_t>(count)) throw std::runtime_error("the reply did not come");
  return bytes;
}

std::int64_t RawClient::receive_number() {
  return c10d::load<std::int64_t>(receive(8).data());
}

std::string RawClient::receive_text() {
  return receive(c10d::load<std::uint64_t>(receive(8).data()));
}

bool RawClient::closed_by_server() {
  char byte = 0;
  const ssize_t got = ::recv(fd_.get(), &byte, 1, 0);
  return got == 0 || (got < 0 && errno == ECONNRESET);
}

}  // namespace muster::rendezvous
