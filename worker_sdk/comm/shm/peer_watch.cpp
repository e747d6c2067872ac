// SPDX-License-Identifier: Apache-2.0
#include "worker_sdk/comm/shm/peer_watch.hpp"

#include <fcntl.h>
#include <poll.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

namespace muster::shm {
namespace {

constexpr std::size_t kStatBytes = 1024;

/// The closing parenthesis of the name in a process's stat, two places before its state; null when there is
/// none. The name, field 2, may hold anything, so fields are counted from its end.
const char* read_stat(std::int32_t pid, char (&text)[kStatBytes]) {
  const int fd = open(("/proc/" + std::to_string(pid) + "/stat").c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return nullptr;
  const ssize_t length = read(fd, text, sizeof(text) - 1);
  close(fd);
  if (length <= 0) return nullptr;
  const char* const end = std::strrchr(text, ')');
  return end == nullptr || std::strlen(end) < 3 ? nullptr : end;
}

}  // namespace

PeerWatch::PeerWatch(int ranks) : peers_(static_cast<std::size_t>(ranks)) {}

PeerWatch::~PeerWatch() {
  for (const Peer& peer : peers_)
    if (peer.pidfd >= 0) close(peer.pidfd);
}

bool PeerWatch::is_gone(int rank, std::int32_t pid, std::uint64_t start_time) {
  if (pid == getpid()) return false;
  Peer& peer = peers_[static_cast<std::size_t>(rank)];
  if (peer.gone) return true;
  if (!peer.watched) {
    peer.watched = true;
    peer.pidfd = static_cast<int>(syscall(SYS_pidfd_open, pid, 0));
    peer.gone = peer.pidfd < 0 && errno == ESRCH;
    // The number may have been given to another process before the descriptor was opened.
    peer.gone = peer.gone || (start_time != 0 && start_time_of(pid) != start_time);
    if (peer.gone) return true;
  }
  if (peer.pidfd >= 0) {
    pollfd entry{peer.pidfd, POLLIN, 0};
    peer.gone = poll(&entry, 1, 0) > 0;
  } else if (start_time != 0) {
    peer.gone = start_time_of(pid) != start_time;
  }
  return peer.gone;
}

bool is_stopped(std::int32_t pid) {
  char text[kStatBytes] = {};
  const char* const end_of_name = read_stat(pid, text);
  return end_of_name != nullptr && (end_of_name[2] == 'T' || end_of_name[2] == 't');
}

std::uint64_t start_time_of(std::int32_t pid) {
  char text[kStatBytes] = {};
  const char* field = read_stat(pid, text);
  if (field == nullptr || field[2] == 'Z' || field[2] == 'X') return 0;
  ++field;
  for (int number = 3; number <= 22 && field != nullptr; ++number) {
    field = std::strchr(field, ' ');
    if (field != nullptr) ++field;
  }
  return field == nullptr ? 0 : std::strtoull(field, nullptr, 10);
}

std::uint64_t own_pid_namespace() {
  struct stat status {};

  return stat("/proc/self/ns/pid", &status) == 0 ? status.st_ino : 0;
}

}  // namespace muster::shm
