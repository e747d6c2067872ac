// SPDX-License-Identifier: Apache-2.0
#include "launcher/inspect/end_waiters.hpp"

#include <sys/socket.h>

#include <utility>

namespace muster::launcher {
namespace {

/// Whether the socket took the line.
bool send_line(int fd, const std::string& line) {
  const std::string bytes = line + "\n";
  return ::send(fd, bytes.data(), bytes.size(), MSG_DONTWAIT | MSG_NOSIGNAL) ==
         static_cast<ssize_t>(bytes.size());
}

bool has_hung_up(int fd) {
  char byte = 0;
  return ::recv(fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT) == 0;
}

}  // namespace

void EndWaiters::add(UniqueFd client, const std::string& line) {
  std::erase_if(clients_, [](const UniqueFd& one) { return has_hung_up(one.get()); });
  if (client && clients_.size() < kMost && send_line(client.get(), line))
    clients_.push_back(std::move(client));
}

void EndWaiters::tell(const std::string& line) {
  for (const UniqueFd& client : clients_) send_line(client.get(), line);
  clients_.clear();
}

}  // namespace muster::launcher
