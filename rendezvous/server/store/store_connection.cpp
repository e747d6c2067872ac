// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/server/store/store_connection.hpp"

#include <sys/socket.h>

#include <cerrno>

namespace muster::rendezvous {
namespace {

bool would_block(int error) {
  return error == EAGAIN || error == EINTR;
}

}  // namespace

StoreConnection::Result StoreConnection::read() {
  const std::span<char> space = session_.input_space();
  const ssize_t count = ::recv(fd_.get(), space.data(), space.size(), MSG_DONTWAIT);
  if (count == 0) return Result::ended;
  if (count < 0) return would_block(errno) ? Result::good : Result::ended;
  return session_.input(static_cast<std::size_t>(count)) ? Result::good : Result::broken;
}

StoreConnection::Result StoreConnection::flush() {
  while (has_output()) {
    const std::string_view bytes = session_.output();
    const ssize_t count = ::send(fd_.get(), bytes.data(), bytes.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
    if (count < 0) return would_block(errno) ? Result::good : Result::ended;
    session_.output_sent(static_cast<std::size_t>(count));
  }
  return Result::good;
}

}  // namespace muster::rendezvous
