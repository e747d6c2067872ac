// SPDX-License-Identifier: Apache-2.0
#include "agent/stacks/refusal.hpp"

#include "rendezvous/base/posix.hpp"
#include "rendezvous/base/text.hpp"

#include <algorithm>
#include <cerrno>
#include <sstream>
#include <string_view>
#include <system_error>

namespace muster::agent {
namespace {

constexpr std::uint64_t kSysPtrace = std::uint64_t{1} << 19;  // CAP_SYS_PTRACE
constexpr const char* kEnded = "it has ended";

std::string value_of(const std::string& status, std::string_view label) {
  const std::size_t at = status.find("\n" + std::string(label) + ":\t");
  if (at == std::string::npos) return {};
  const std::size_t begin = at + label.size() + 3;
  return status.substr(begin, status.find('\n', begin) - begin);
}

template <typename Id>
bool read_ids(const std::string& status, std::string_view label, Id (&ids)[3]) {
  std::istringstream words(value_of(status, label));
  return static_cast<bool>(words >> ids[0] >> ids[1] >> ids[2]);
}

std::optional<ProcessIdentity> identity_of(const std::string& process) {
  constexpr std::size_t kStatusBytesMax = std::size_t{1} << 16;
  const auto text = read_file("/proc/" + process + "/status", kStatusBytesMax);
  return text ? parse_identity(*text) : std::nullopt;
}

int yama_scope() {
  constexpr std::size_t kBytesMax = 16;
  std::string text = read_file("/proc/sys/kernel/yama/ptrace_scope", kBytesMax).value_or("");
  return parse_number<int>(text.substr(0, text.find('\n'))).value_or(-1);
}

}  // namespace

std::optional<ProcessIdentity> parse_identity(const std::string& status) {
  ProcessIdentity identity;
  const auto permitted = parse_number<std::uint64_t>(value_of(status, "CapPrm"), 16);
  const auto effective = parse_number<std::uint64_t>(value_of(status, "CapEff"), 16);
  if (!permitted || !effective || !read_ids(status, "Uid", identity.uids) ||
      !read_ids(status, "Gid", identity.gids))
    return std::nullopt;
  identity.permitted_capabilities = *permitted;
  identity.effective_capabilities = *effective;
  return identity;
}

std::string explain_refusal(const ProcessIdentity& self, const ProcessIdentity& target, int yama_scope) {
  const bool may_all = (self.effective_capabilities & kSysPtrace) != 0;
  constexpr int kNobody = 3;
  constexpr int kAdministrators = 2;
  if (yama_scope >= kNobody) return "Yama scope 3 lets nobody read another process";
  if (yama_scope == kAdministrators && !may_all)
    return "Yama scope 2 lets administrators alone read another process";
  const auto all_are = [](const auto(&ids)[3], auto own) {
    return std::all_of(std::begin(ids), std::end(ids), [own](auto id) { return id == own; });
  };
  if (!may_all && !all_are(target.uids, self.uids[0]))
    return "it belongs to another user (uid " + std::to_string(target.uids[0]) + ")";
  if (!may_all && !all_are(target.gids, self.gids[0])) return "it belongs to another group";
  if ((target.permitted_capabilities & ~self.permitted_capabilities) != 0)
    return "it has more capabilities than we have";
  return yama_scope == 1 ? "it has made itself unreadable (not dumpable), or is none of ours (Yama scope 1)"
                         : "it has made itself unreadable (not dumpable), or is in another user namespace";
}

std::string read_refusal(pid_t pid, int error) {
  if (error == ESRCH || error == ENOENT) return kEnded;
  if (error != EPERM) return "its memory cannot be read: " + std::generic_category().message(error);
  const auto self = identity_of("self");
  const auto target = identity_of(std::to_string(pid));
  if (!target) return kEnded;
  return self ? explain_refusal(*self, *target, yama_scope()) : "the kernel refuses it";
}

}  // namespace muster::agent
