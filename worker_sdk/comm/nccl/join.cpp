// SPDX-License-Identifier: Apache-2.0
#include "worker_sdk/comm/nccl/join.hpp"

#include "rendezvous/base/deadline.hpp"
#include "rendezvous/base/posix.hpp"
#include "rendezvous/base/process_stat.hpp"
#include "worker_sdk/comm/nccl/device.hpp"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <map>
#include <sstream>
#include <utility>

namespace muster::nccl {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

std::string member_key_of(int rank) {
  return "member/" + std::to_string(rank);
}

constexpr const char* kIdKey = "id";
constexpr char kGood = '+';
constexpr char kBad = '-';

std::string bad_text(const Error& error) {
  return kBad + std::to_string(static_cast<int>(error.code())) + " " + error.what();
}

/// The value that a rank posted; throws the error that it posted instead, if it did.
std::string checked(const std::string& text) {
  if (!text.empty() && text.front() == kGood) return text.substr(1);
  const auto space = text.find(' ');
  if (text.empty() || text.front() != kBad || space == std::string::npos)
    throw Error(ErrorCode::backend, "what a rank posted for the nccl backend cannot be read");
  throw Error(static_cast<ErrorCode>(std::atoi(text.c_str() + 1)), text.substr(space + 1));
}

/// The time until `end`; never 0, which would mean the time of a call.
milliseconds time_until(Clock::time_point end) {
  return std::max(milliseconds(1), left_until(end));
}

std::string name(const Member& member) {
  return "rank " + std::to_string(member.rank) + " (host " + member.host + ")";
}

/// Throws Error if the ranks do not fit together. NCCL would refuse them later, in words that name no rank.
void compare(const std::vector<Member>& members, const std::string& group) {
  std::map<std::string, const Member*> gpus;
  for (const Member& member : members) {
    if (member.version != members.front().version)
      throw Error(ErrorCode::backend, "group '" + group + "': " + name(members.front()) + " has NCCL " +
                                          version_text(members.front().version) + ", " + name(member) +
                                          " has " + version_text(member.version) +
                                          "; install the same on all hosts");
    const auto [place, is_new] = gpus.emplace(member.machine + " " + member.gpu, &member);
    if (!is_new)
      throw Error(ErrorCode::unsupported,
                  "group '" + group + "': " + name(*place->second) + " and " + name(member) +
                      " both use the GPU " + member.gpu +
                      ", which NCCL refuses; give each rank a GPU of its own, or use "
                      "another backend; for tests, an NCCL_HOSTID of its own lets each rank pass for a host");
  }
}

std::vector<Member> collect(const plugin::Host& host, int size, Clock::time_point end,
                            const std::string& group) {
  std::vector<Member> members;
  for (int rank = 0; rank < size; ++rank) {
    std::string text;
    try {
      text = host.get(member_key_of(rank), time_until(end));
    } catch (const Error& error) {
      if (error.code() != ErrorCode::deadline) throw;
      throw Error(ErrorCode::deadline,
                  "group '" + group + "': rank " + std::to_string(rank) +
                      " did not come to make the communicator; look at what it did last");
    }
    members.push_back(Member::decode(checked(text)));
  }
  return members;
}

std::string encode(const Joined& joined) {
  std::string text(joined.id.internal, sizeof(joined.id.internal));
  for (const Member& member : joined.members) {
    const std::string one = member.encode();
    text += std::to_string(one.size()) + " " + one;
  }
  return text;
}

Joined decode(const std::string& text, int size) {
  Joined joined;
  if (text.size() < sizeof(joined.id.internal))
    throw Error(ErrorCode::backend, "rank 0 posted an id of NCCL that is too short");
  std::memcpy(joined.id.internal, text.data(), sizeof(joined.id.internal));
  std::size_t place = sizeof(joined.id.internal);
  for (int rank = 0; rank < size; ++rank) {
    const auto space = text.find(' ', place);
    const auto bytes =
        space == std::string::npos ? std::string::npos : std::strtoul(text.c_str() + place, nullptr, 10);
    if (bytes > text.size() || space + 1 > text.size() - bytes)
      throw Error(ErrorCode::backend, "rank 0 posted a list of members that cannot be read");
    joined.members.push_back(Member::decode(text.substr(space + 1, bytes)));
    place = space + 1 + bytes;
  }
  return joined;
}

}  // namespace

std::string Member::encode() const {
  // The names come last, because they may hold spaces but no newline.
  std::ostringstream out;
  out << rank << ' ' << version << ' ' << pid << ' ' << start_time << ' ' << pid_namespace << '\n'
      << boot << '\n'
      << gpu << '\n'
      << kind << '\n'
      << host << '\n'
      << machine;
  return out.str();
}

Member Member::decode(const std::string& text) {
  Member member;
  std::istringstream in(text);
  in >> member.rank >> member.version >> member.pid >> member.start_time >> member.pid_namespace;
  in.ignore(1);
  if (!in || !std::getline(in, member.boot) || !std::getline(in, member.gpu) ||
      !std::getline(in, member.kind) || !std::getline(in, member.host))
    throw Error(ErrorCode::backend, "what a rank posted about itself cannot be read");
  std::getline(in, member.machine);
  return member;
}

Member this_member(const Library& api, int rank, int device, const std::string& host) {
  Member member;
  member.rank = rank;
  member.host = host.empty() ? "?" : host;
  const char* const id = std::getenv("NCCL_HOSTID");  // NOLINT(concurrency-mt-unsafe)
  member.machine = id != nullptr && *id != '\0' ? id : host_name();
  member.gpu = bus_id_of(api, device);
  member.kind = kind_of(api, device);
  member.version = api.version;
  member.pid = getpid();
  member.start_time = start_time_of(member.pid);
  member.pid_namespace = own_pid_namespace();
  member.boot = boot_id();
  for (char& letter : member.machine)
    if (letter == '\n') letter = ' ';
  return member;
}

std::string mixed_gpus(const std::vector<Member>& members) {
  const Member& first = members.front();
  for (const Member& member : members) {
    if (member.kind == first.kind || member.kind.empty() || first.kind.empty()) continue;
    return name(first) + " has a GPU of " + first.kind + ", " + name(member) + " one of " + member.kind +
           "; every call takes as long as on the slowest";
  }
  return "";
}

void cannot_join(const plugin::Host& host, int rank, int size, const Error& error) noexcept {
  try {
    if (size > 1) host.set(rank == 0 ? kIdKey : member_key_of(rank), bad_text(error));
  } catch (const Error&) {  // NOLINT(bugprone-empty-catch) the others then meet their deadline
  }
}

Joined join(const plugin::Host& host, const Library& api, int rank, int size, milliseconds limit,
            const std::string& group, const std::function<Member()>& make_member) {
  const auto end = Clock::now() + limit;
  try {
    const Member own = make_member();
    host.set(member_key_of(rank), kGood + own.encode());
    if (rank != 0) return decode(checked(host.get(kIdKey, time_until(end + milliseconds(500)))), size);
    Joined joined;
    joined.members = collect(host, size, end, group);
    compare(joined.members, group);
    if (const std::string note = mixed_gpus(joined.members); !note.empty())
      host.log("group '" + group + "': " + note);
    const ncclResult_t result = api.ncclGetUniqueId(&joined.id);
    if (result != ncclSuccess)
      throw Error(ErrorCode::backend, std::string("ncclGetUniqueId failed: ") +
                                          api.ncclGetErrorString(result) + " (" +
                                          api.ncclGetLastError(nullptr) + ")");
    host.set(kIdKey, kGood + encode(joined));
    return joined;
  } catch (const Error& error) {
    cannot_join(host, rank, size, error);
    throw;
  }
}

Peers::Peers(std::vector<Member> members, int rank, std::vector<int> world_ranks)
    : members_(std::move(members)), world_ranks_(std::move(world_ranks)), watch_(size()) {
  const Member& own = members_[static_cast<std::size_t>(rank)];
  for (const Member& member : members_) {
    const bool visible = !own.boot.empty() && member.boot == own.boot && own.pid_namespace != 0 &&
                         member.pid_namespace == own.pid_namespace;
    if (visible && member.pid != own.pid) watched_.push_back(member.rank);
  }
}

std::string Peers::name_of(int peer) const {
  const auto index = static_cast<std::size_t>(peer);
  const Member& member = members_[index];
  std::string text = "rank " + std::to_string(peer) + " (";
  if (world_ranks_[index] != peer) text += "rank " + std::to_string(world_ranks_[index]) + " of the world, ";
  return text + "host " + member.host + ", process " + std::to_string(member.pid) + ")";
}

std::optional<int> Peers::find_gone() {
  for (const int peer : watched_) {
    const Member& member = members_[static_cast<std::size_t>(peer)];
    if (watch_.is_gone(peer, member.pid, member.start_time)) return peer;
  }
  return std::nullopt;
}

}  // namespace muster::nccl
