// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/server/socket_table.hpp"

#include <linux/inet_diag.h>
#include <linux/netlink.h>
#include <linux/sock_diag.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/time.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <system_error>
#include <vector>

namespace muster::rendezvous {
namespace {

constexpr const char* kProcTables[] = {"/proc/net/tcp", "/proc/net/tcp6"};

struct ProcLine {
  std::string local;  // hexadecimal address:port, as the kernel prints it
  std::string remote;
  unsigned state = 0;
  SocketEntry entry;
};

bool parse_line(const std::string& text, ProcLine& line) {
  std::istringstream words(text);
  std::string skip;
  std::string state;
  // The columns are: sl local remote st queues timer retransmits uid timeout inode.
  words >> skip >> line.local >> line.remote >> state >> skip >> skip >> skip >> line.entry.uid >> skip >>
      line.entry.inode;
  if (!words) return false;
  line.state = static_cast<unsigned>(std::strtoul(state.c_str(), nullptr, 16));
  line.entry.established = line.state == TCP_ESTABLISHED;
  return true;
}

template <typename Function>
bool for_each_line(const char* table, Function&& function) {
  std::ifstream file(table);
  std::string text;
  if (!std::getline(file, text)) return false;  // the heading
  ProcLine line;
  while (std::getline(file, text)) {
    if (parse_line(text, line) && function(line)) return true;
  }
  return true;
}

// The kernel prints each 32-bit word of the address as a number of its own byte order.
std::string proc_text(const SocketAddress& address, bool mapped) {
  std::string words(address.bytes());
  if (mapped) words.insert(0, std::string(10, '\0') + "\xff\xff");
  std::string text;
  char piece[16];
  for (std::size_t i = 0; i + 4 <= words.size(); i += 4) {
    std::uint32_t word = 0;
    std::memcpy(&word, words.data() + i, 4);
    std::snprintf(piece, sizeof(piece), "%08X", word);
    text += piece;
  }
  std::snprintf(piece, sizeof(piece), ":%04X", address.port());
  return text + piece;
}

inet_diag_req_v2 request_for(const SocketAddress& local, const SocketAddress& remote) {
  inet_diag_req_v2 request{};
  request.sdiag_family = static_cast<std::uint8_t>(local.family());
  request.sdiag_protocol = IPPROTO_TCP;
  request.idiag_states = ~0U;
  request.id.idiag_sport = htons(local.port());
  request.id.idiag_dport = htons(remote.port());
  std::memcpy(request.id.idiag_src, local.bytes().data(), local.bytes().size());
  std::memcpy(request.id.idiag_dst, remote.bytes().data(), remote.bytes().size());
  request.id.idiag_cookie[0] = INET_DIAG_NOCOOKIE;
  request.id.idiag_cookie[1] = INET_DIAG_NOCOOKIE;
  return request;
}

SocketLookup read_answer(const char* answer, std::size_t size, std::uint32_t sequence, SocketEntry& entry) {
  nlmsghdr header;
  if (size < sizeof(header)) return SocketLookup::unavailable;
  std::memcpy(&header, answer, sizeof(header));
  if (header.nlmsg_seq != sequence) return SocketLookup::unavailable;
  if (header.nlmsg_type == NLMSG_ERROR && size >= NLMSG_HDRLEN + sizeof(nlmsgerr)) {
    nlmsgerr error;
    std::memcpy(&error, answer + NLMSG_HDRLEN, sizeof(error));
    return error.error == -ENOENT ? SocketLookup::absent : SocketLookup::unavailable;
  }
  if (header.nlmsg_type != SOCK_DIAG_BY_FAMILY || size < NLMSG_HDRLEN + sizeof(inet_diag_msg)) {
    return SocketLookup::unavailable;
  }
  inet_diag_msg message;
  std::memcpy(&message, answer + NLMSG_HDRLEN, sizeof(message));
  entry = {message.idiag_uid, message.idiag_inode, message.idiag_state == TCP_ESTABLISHED};
  return SocketLookup::found;
}

PortHolder process_with_inode(std::uint64_t inode) {
  namespace fs = std::filesystem;
  const std::string wanted = "socket:[" + std::to_string(inode) + "]";
  std::error_code error;
  for (const auto& process : fs::directory_iterator("/proc", error)) {
    const std::string pid = process.path().filename();
    if (pid.find_first_not_of("0123456789") != std::string::npos) continue;
    std::error_code denied;
    for (const auto& fd : fs::directory_iterator(process.path() / "fd", denied)) {
      std::error_code gone;
      if (fs::read_symlink(fd.path(), gone) != wanted) continue;
      std::string name;
      std::ifstream comm(process.path() / "comm");
      std::getline(comm, name);
      return {name, "process " + pid + " (" + name + ")"};
    }
  }
  return {};
}

}  // namespace

SocketLookup SocketTable::find(const SocketAddress& local, const SocketAddress& remote, SocketEntry& entry) {
  const SocketLookup answer = ask_netlink(local, remote, entry);
  return answer == SocketLookup::unavailable ? find_in_proc(local, remote, entry) : answer;
}

SocketLookup SocketTable::ask_netlink(const SocketAddress& local, const SocketAddress& remote,
                                      SocketEntry& entry) {
  if (local.family() != remote.family()) return SocketLookup::unavailable;
  if (!netlink_) {
    netlink_.reset(::socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_SOCK_DIAG));
    if (!netlink_) return SocketLookup::unavailable;
    // The kernel answers before sendto returns; the deadline is for a kernel that does not answer at all.
    const timeval deadline{1, 0};
    ::setsockopt(netlink_.get(), SOL_SOCKET, SO_RCVTIMEO, &deadline, sizeof(deadline));
  }

  struct {
    nlmsghdr header;
    inet_diag_req_v2 request;
  } message{};

  message.header.nlmsg_len = sizeof(message);
  message.header.nlmsg_type = SOCK_DIAG_BY_FAMILY;
  message.header.nlmsg_flags = NLM_F_REQUEST;
  message.header.nlmsg_seq = ++sequence_;
  message.request = request_for(local, remote);
  char answer[4096];
  ssize_t size = -1;
  if (::send(netlink_.get(), &message, sizeof(message), 0) == static_cast<ssize_t>(sizeof(message))) {
    size = ::recv(netlink_.get(), answer, sizeof(answer), 0);
  }
  const auto result = size < 0 ? SocketLookup::unavailable
                               : read_answer(answer, static_cast<std::size_t>(size), sequence_, entry);
  if (result == SocketLookup::unavailable)
    netlink_.reset();  // closed, because a late answer must not be taken for that to the next question
  return result;
}

SocketLookup SocketTable::find_in_proc(const SocketAddress& local, const SocketAddress& remote,
                                       SocketEntry& entry) {
  bool read_any = false;
  SocketLookup result = SocketLookup::absent;
  for (const char* table : kProcTables) {
    const bool v6_table = table == kProcTables[1];
    if (!v6_table && local.family() != AF_INET) continue;
    const bool mapped = v6_table && local.family() == AF_INET;
    const std::string local_text = proc_text(local, mapped);
    const std::string remote_text = proc_text(remote, mapped);
    const auto match = [&](const ProcLine& line) {
      if (line.local != local_text || line.remote != remote_text) return false;
      entry = line.entry;
      result = SocketLookup::found;
      return true;
    };
    if (for_each_line(table, match)) read_any = true;
    if (result == SocketLookup::found) return result;
  }
  return read_any ? result : SocketLookup::unavailable;
}

PortHolder find_port_holder(std::uint16_t port) {
  char suffix[8];
  std::snprintf(suffix, sizeof(suffix), ":%04X", port);
  PortHolder holder;
  const auto look = [&](const ProcLine& line) {
    if (line.state != TCP_LISTEN || !line.local.ends_with(suffix)) return false;
    holder = process_with_inode(line.entry.inode);
    if (holder.text.empty())
      holder.text = "a process of another user (uid " + std::to_string(line.entry.uid) + ")";
    return true;
  };
  for (const char* table : kProcTables) {
    for_each_line(table, look);
    if (!holder.text.empty()) break;
  }
  return holder;
}

}  // namespace muster::rendezvous
