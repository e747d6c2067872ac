// SPDX-License-Identifier: Apache-2.0
#include "agent/process/vouch.hpp"

#include "agent/process/process_tree.hpp"
#include "rendezvous/server/admission.hpp"

#include <arpa/inet.h>
#include <dirent.h>
#include <netinet/in.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <fstream>
#include <memory>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

namespace muster::agent {
namespace {

using rendezvous::SocketAddress;

/// Reads a numeric address, never a name: a name would be looked up, and the peer chose it.
std::optional<SocketAddress> numeric_address(const std::string& host, int port) {
  if (port <= 0 || port > 65535) return std::nullopt;
  sockaddr_in v4{};
  v4.sin_family = AF_INET;
  v4.sin_port = htons(static_cast<std::uint16_t>(port));
  if (::inet_pton(AF_INET, host.c_str(), &v4.sin_addr) == 1)
    return SocketAddress(reinterpret_cast<const sockaddr*>(&v4), sizeof v4);
  sockaddr_in6 v6{};
  v6.sin6_family = AF_INET6;
  v6.sin6_port = htons(static_cast<std::uint16_t>(port));
  if (::inet_pton(AF_INET6, host.c_str(), &v6.sin6_addr) == 1)
    return SocketAddress(reinterpret_cast<const sockaddr*>(&v6), sizeof v6);
  return std::nullopt;
}

/// Time for which an answer is remembered: a burst of connections takes a look or two, and a socket's number
/// is not used again that soon.
constexpr std::chrono::milliseconds kRemembered{50};

/// Adds the numbers of all sockets that a process has open.
void add_sockets(pid_t pid, std::unordered_set<unsigned long long>& sockets) {
  const std::string folder = "/proc/" + std::to_string(pid) + "/fd";
  const std::unique_ptr<DIR, int (*)(DIR*)> descriptors(::opendir(folder.c_str()), ::closedir);
  if (!descriptors) return;
  constexpr std::string_view kSocket = "socket:[";
  std::array<char, 64> target{};
  while (const dirent* entry = ::readdir(descriptors.get())) {
    const ssize_t length =
        ::readlinkat(::dirfd(descriptors.get()), entry->d_name, target.data(), target.size());
    std::string_view text(target.data(), length > 0 ? static_cast<std::size_t>(length) : 0);
    if (!text.starts_with(kSocket)) continue;
    text.remove_prefix(kSocket.size());
    unsigned long long inode = 0;
    if (std::from_chars(text.data(), text.data() + text.size(), inode).ec == std::errc())
      sockets.insert(inode);
  }
}

/// Returns this process's children, the workers; none where the kernel does not list them.
std::vector<pid_t> own_children() {
  std::vector<pid_t> children;
  const std::unique_ptr<DIR, int (*)(DIR*)> threads(::opendir("/proc/self/task"), ::closedir);
  if (!threads) return children;
  while (const dirent* entry = ::readdir(threads.get())) {
    std::ifstream list("/proc/self/task/" + std::string(entry->d_name) + "/children");
    for (pid_t pid = 0; list >> pid;) children.push_back(pid);
  }
  return children;
}

}  // namespace

bool Voucher::held_by_descendant(unsigned long long inode) {
  const auto now = std::chrono::steady_clock::now();
  if (now - looked_at_ < kRemembered && held_.count(inode) > 0) return true;
  held_.clear();
  looked_at_ = now;
  ++looks_;
  const std::vector<pid_t> children = own_children();
  for (const pid_t child : children) add_sockets(child, held_);
  if (held_.count(inode) > 0) return true;
  for (const ProcessStat& process : descendants_of(::getpid()))
    if (std::find(children.begin(), children.end(), process.pid) == children.end())
      add_sockets(process.pid, held_);
  return held_.count(inode) > 0;
}

rendezvous::Vouched Voucher::answer(const rendezvous::Vouch& question) {
  VouchVerdict verdict =
      judge(question.peer_host, question.peer_port, question.local_host, question.local_port);
  rendezvous::Vouched answer;
  answer.id = question.id;
  answer.allowed = verdict.allowed;
  answer.reason = std::move(verdict.reason);
  return answer;
}

pid_t Voucher::holder(const std::string& peer_host, int peer_port, const std::string& local_host,
                      int local_port, const std::vector<pid_t>& processes) {
  const auto peer = numeric_address(peer_host, peer_port);
  const auto local = numeric_address(local_host, local_port);
  rendezvous::SocketEntry entry;
  if (!peer || !local || sockets_.find(*peer, *local, entry) != rendezvous::SocketLookup::found ||
      entry.inode == 0)
    return 0;
  const auto holds = [&entry](pid_t pid) {
    std::unordered_set<unsigned long long> sockets;
    add_sockets(pid, sockets);
    return sockets.count(entry.inode) > 0;
  };
  const auto found = std::find_if(processes.begin(), processes.end(), holds);
  if (found != processes.end()) return *found;
  // The program may run below a shell.
  for (const pid_t process : processes)
    for (const ProcessStat& one : descendants_of(process))
      if (holds(one.pid)) return process;
  return 0;
}

VouchVerdict Voucher::judge(const std::string& peer_host, int peer_port, const std::string& local_host,
                            int local_port) {
  VouchVerdict verdict;
  const auto peer = numeric_address(peer_host, peer_port);
  const auto local = numeric_address(local_host, local_port);
  if (!peer || !local) {
    verdict.reason = "its addresses are no numbers";
    return verdict;
  }
  rendezvous::SocketEntry entry;
  const auto lookup = sockets_.find(*peer, *local, entry);
  const auto admission = rendezvous::AdmissionRules::judge(lookup, entry, true, ::geteuid(), verdict.reason);
  if (admission != rendezvous::Admission::same_user) return verdict;
  verdict.allowed = held_by_descendant(entry.inode);
  if (!verdict.allowed) verdict.reason = "it belongs to no process of this job";
  return verdict;
}

}  // namespace muster::agent
