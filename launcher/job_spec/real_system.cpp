// SPDX-License-Identifier: Apache-2.0
#include "launcher/job_spec/real_system.hpp"

#include "agent/core/program_file.hpp"
#include "agent/process/gpu_inventory.hpp"
#include "agent/stacks/core/needed_libraries.hpp"
#include "agent/stacks/process_memory.hpp"
#include "launcher/exit_report/finish_job.hpp"
#include "launcher/hosts/host_list.hpp"
#include "launcher/start/own_program.hpp"
#include "rendezvous/base/posix.hpp"
#include "rendezvous/base/random.hpp"
#include "rendezvous/base/unique_fd.hpp"

#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <pwd.h>
#include <resolv.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <sstream>

namespace muster::launcher {
namespace {

constexpr std::size_t kMaxHostsFile = 1U << 20;

/// Whether an address is ours: one that can be bound is; the wildcard is not an address of anything.
bool is_local(const addrinfo& candidate) {
  if (candidate.ai_family == AF_INET) {
    sockaddr_in address{};
    std::memcpy(&address, candidate.ai_addr, sizeof address);
    if (address.sin_addr.s_addr == htonl(INADDR_ANY)) return false;
  } else if (candidate.ai_family == AF_INET6) {
    sockaddr_in6 address{};
    std::memcpy(&address, candidate.ai_addr, sizeof address);
    if (IN6_IS_ADDR_UNSPECIFIED(&address.sin6_addr)) return false;
  } else {
    return false;
  }
  const int fd = socket(candidate.ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (fd < 0) return false;
  const bool bound = bind(fd, candidate.ai_addr, candidate.ai_addrlen) == 0;
  close(fd);
  return bound;
}

std::string numeric(const addrinfo& candidate) {
  std::array<char, NI_MAXHOST> text{};
  if (getnameinfo(candidate.ai_addr, candidate.ai_addrlen, text.data(), text.size(), nullptr, 0,
                  NI_NUMERICHOST) != 0)
    return "";
  return text.data();
}

std::optional<std::string> first_local(const std::string& host, int flags) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = flags;
  addrinfo* found = nullptr;
  if (getaddrinfo(host.c_str(), nullptr, &hints, &found) != 0) return std::nullopt;
  const std::unique_ptr<addrinfo, decltype(&freeaddrinfo)> owner(found, freeaddrinfo);
  for (const addrinfo* candidate = found; candidate != nullptr; candidate = candidate->ai_next)
    if (is_local(*candidate)) return numeric(*candidate);
  return std::nullopt;
}

/// Returns the addresses that a hosts file (hosts(5)) gives `name`, in lower case.
std::vector<std::string> addresses_in(const std::string& content, const std::string& name) {
  std::vector<std::string> addresses;
  std::istringstream lines(content);
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line.substr(0, line.find('#')));
    std::string address;
    words >> address;
    for (std::string word; words >> word;)
      if (lower_case(word) == name) addresses.push_back(address);
  }
  return addresses;
}

}  // namespace

std::optional<std::string> RealSystem::variable(const std::string& name) const {
  const char* value = std::getenv(name.c_str());
  if (value == nullptr) return std::nullopt;
  return std::string(value);
}

Environment RealSystem::environment() const {
  Environment all;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string_view text(*entry);
    const std::size_t equals = text.find('=');
    if (equals == 0 || equals == std::string_view::npos) continue;
    all.emplace_back(text.substr(0, equals), text.substr(equals + 1));
  }
  return all;
}

std::string RealSystem::current_directory() const {
  struct stat here {};

  struct stat named {};

  const auto pwd = variable("PWD");
  if (pwd && pwd->starts_with('/') && stat(".", &here) == 0 && stat(pwd->c_str(), &named) == 0 &&
      here.st_dev == named.st_dev && here.st_ino == named.st_ino)
    return *pwd;
  const std::unique_ptr<char, void (*)(void*)> current(getcwd(nullptr, 0), free);
  return current ? current.get() : "";
}

std::string RealSystem::user_name() const {
  std::array<char, 16384> buffer{};
  passwd entry{};
  passwd* found = nullptr;
  if (getpwuid_r(geteuid(), &entry, buffer.data(), buffer.size(), &found) != 0 || found == nullptr) return "";
  return found->pw_name;
}

Allowance RealSystem::allowance() const {
  return read_allowance();
}

GpuCount RealSystem::gpu_count() const {
  const agent::GpuInventory inventory = agent::read_gpu_inventory();
  if (!inventory.error.empty()) return {0, inventory.error};
  const auto visible = variable("CUDA_VISIBLE_DEVICES");
  const int count = agent::visible_gpu_count(inventory, visible);
  if (count > 0) return {count, ""};
  if (inventory.uuids.empty()) return {0, "the NVIDIA driver lists no GPU"};
  return {0, "CUDA_VISIBLE_DEVICES=" + visible.value_or("") + " hides all " +
                 std::to_string(inventory.uuids.size()) + " of this machine"};
}

std::string RealSystem::host_name() const {
  const std::string name = muster::host_name();
  return name.substr(0, name.find('.'));
}

std::string RealSystem::new_job_id() const {
  std::array<unsigned char, 16> bytes{};
  fill_random(bytes.data(), bytes.size());
  bytes[6] = static_cast<unsigned char>((bytes[6] & 0x0f) | 0x40);
  bytes[8] = static_cast<unsigned char>((bytes[8] & 0x3f) | 0x80);
  std::string id;
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    static constexpr char digits[] = "0123456789abcdef";
    if (i == 4 || i == 6 || i == 8 || i == 10) id += '-';
    id += digits[bytes[i] >> 4];
    id += digits[bytes[i] & 15];
  }
  return id;
}

std::optional<std::string> RealSystem::local_address(const std::string& host) const {
  if (host == "localhost") return "127.0.0.1";
  if (const auto address = first_local(host, AI_NUMERICHOST)) return address;
  addrinfo hints{};
  hints.ai_flags = AI_NUMERICHOST;
  addrinfo* parsed = nullptr;
  if (getaddrinfo(host.c_str(), nullptr, &hints, &parsed) == 0) {  // an address, but not one of ours
    freeaddrinfo(parsed);
    return std::nullopt;
  }
  // A name. The defaults of the resolver would let a dead name server hold us for half a minute.
  if (res_init() == 0) {
    _res.retrans = 2;
    _res.retry = 1;
  }
  if (const auto address = first_local(host, 0)) return address;
  const std::string own = muster::host_name();
  if (host == own || host == own.substr(0, own.find('.'))) return "127.0.0.1";
  return std::nullopt;
}

bool RealSystem::is_this_machine(const std::string& host) const {
  const std::string wanted = lower_case(host);
  const std::string own = lower_case(muster::host_name());
  if (wanted == "localhost" || wanted == own || wanted == own.substr(0, own.find('.'))) return true;
  if (first_local(wanted, AI_NUMERICHOST)) return true;
  std::string reason;
  const auto content = file_text("/etc/hosts", kMaxHostsFile, reason);
  if (!content) return false;
  for (const std::string& address : addresses_in(*content, wanted))
    if (first_local(address, AI_NUMERICHOST)) return true;
  return false;
}

std::optional<std::string> RealSystem::file_text(const std::string& path, std::size_t limit,
                                                 std::string& reason) const {
  auto text = read_file(path, limit + 1);
  if (!text) reason = std::strerror(errno);
  return text;
}

FileKind RealSystem::file_kind(const std::string& path) const {
  struct stat status {};

  if (stat(path.c_str(), &status) != 0) return errno == EACCES ? FileKind::unreadable : FileKind::missing;
  if (S_ISDIR(status.st_mode)) return FileKind::directory;
  // faccessat with AT_EACCESS: root may read everything but execute only what has an x bit.
  if (faccessat(AT_FDCWD, path.c_str(), X_OK, AT_EACCESS) == 0) return FileKind::executable;
  return faccessat(AT_FDCWD, path.c_str(), R_OK, AT_EACCESS) == 0 ? FileKind::readable : FileKind::unreadable;
}

std::string RealSystem::environment_python() const {
  return launcher::environment_python();
}

std::string RealSystem::program_head(const std::string& path) const {
  return read_file(path, agent::kProgramHeadBytes, O_NONBLOCK | O_NOCTTY).value_or("");
}

std::vector<std::string> RealSystem::needed_libraries(const std::string& path) const {
  constexpr std::chrono::seconds kPatience{2};  // the disk may be one of the network
  const UniqueFd file(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));

  struct stat status {};

  if (!file || fstat(file.get(), &status) != 0 || !S_ISREG(status.st_mode)) return {};
  agent::FileBytes bytes(file.get(), std::chrono::steady_clock::now() + kPatience);
  return agent::needed_libraries(bytes);
}

std::string RealSystem::write_obstacle(const std::string& path) const {
  return launcher::write_obstacle(path);
}

StdinPolicy RealSystem::stdin_policy() const {
  if (fcntl(STDIN_FILENO, F_GETFD) < 0) return StdinPolicy::null_device;
  if (isatty(STDIN_FILENO) == 1 && tcgetpgrp(STDIN_FILENO) != getpgrp()) return StdinPolicy::null_device;
  return StdinPolicy::inherit;
}

}  // namespace muster::launcher
