// SPDX-License-Identifier: Apache-2.0
#include "agent/process/evidence.hpp"

#include "agent/core/proc_text.hpp"
#include "rendezvous/base/posix.hpp"
#include "rendezvous/base/text.hpp"

#include <dirent.h>
#include <fcntl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <memory>
#include <utility>

namespace muster::agent {
namespace {

/// Bytes of one of these files that are read: a status has about 1,500, and grows with the machine's CPUs.
constexpr std::size_t kFileBytesMax = 8192;
/// Readings after which a worker that moves is asked for new children of its main thread: data loaders stay
/// for long, and children that end sooner count when they are reaped.
constexpr unsigned kReadingsPerSearch = 4;
/// Threads of one process whose children are looked for.
constexpr int kThreadsMax = 512;

UniqueFd open_in(const std::string& folder, const char* name) {
  return UniqueFd(::open((folder + name).c_str(), O_RDONLY | O_CLOEXEC));
}

std::string folder_of(pid_t pid) {
  return "/proc/" + std::to_string(pid) + "/";
}

std::chrono::milliseconds ms_of(std::uint64_t ticks) {
  static const long per_second = std::max(::sysconf(_SC_CLK_TCK), 1L);
  return std::chrono::milliseconds(ticks * 1000 / static_cast<std::uint64_t>(per_second));
}

/// Sorts a system call; calls that some architectures do not have are left out there.
SystemCall kind_of(const WaitingCall& call) {
  switch (call.number) {
    case SYS_futex:
      return SystemCall::lock;
    case SYS_nanosleep:
    case SYS_clock_nanosleep:
      return SystemCall::sleep;
#ifdef SYS_poll
    case SYS_poll:
#endif
    case SYS_ppoll:
      return call.arguments[1] == 0 ? SystemCall::sleep : SystemCall::poll;
#ifdef SYS_select
    case SYS_select:
#endif
    case SYS_pselect6:
      return call.arguments[0] == 0 ? SystemCall::sleep : SystemCall::poll;
#ifdef SYS_epoll_wait
    case SYS_epoll_wait:
#endif
    case SYS_epoll_pwait:
      return SystemCall::events;
    case SYS_read:
    case SYS_readv:
    case SYS_pread64:
    case SYS_recvfrom:
    case SYS_recvmsg:
      return SystemCall::read;
    case SYS_write:
    case SYS_writev:
    case SYS_pwrite64:
    case SYS_sendto:
    case SYS_sendmsg:
    case SYS_fsync:
    case SYS_fdatasync:
      return SystemCall::write;
    case SYS_wait4:
    case SYS_waitid:
      return SystemCall::child;
    default:
      return SystemCall::unknown;
  }
}

bool runs_python(pid_t pid) {
  char target[512] = {};
  const ssize_t length = ::readlink((folder_of(pid) + "exe").c_str(), target, sizeof target);
  if (length <= 0) return false;
  const std::string_view path(target, static_cast<std::size_t>(length));
  return path.substr(path.rfind('/') + 1).starts_with("python");
}

DescriptorKind kind_of_descriptor(pid_t pid, std::uint64_t descriptor) {
  const std::string link = folder_of(pid) + "fd/" + std::to_string(descriptor);
  char target[64] = {};
  const ssize_t length = ::readlink(link.c_str(), target, sizeof target);
  if (length <= 0) return DescriptorKind::unknown;
  const std::string_view name(target, static_cast<std::size_t>(length));
  return name.starts_with("/dev/pts/") || name.starts_with("/dev/tty") ? DescriptorKind::terminal
                                                                       : DescriptorKind::other;
}

/// Whether a thread of ours holds the process, for a look at its machine code, or nobody does any more: a
/// debugger holds it for longer.
bool is_held_for_a_look(std::uint64_t tracer) {
  return tracer == 0 || ::access(("/proc/self/task/" + std::to_string(tracer)).c_str(), F_OK) == 0;
}

}  // namespace

WorkerEvidence::WorkerEvidence(pid_t pid) : pid_(pid), buffer_(kFileBytesMax, '\0') {
  const std::string folder = folder_of(pid);
  stat_ = open_in(folder, "stat");
  status_ = open_in(folder, "status");
  io_ = open_in(folder, "io");
  wait_channel_ = open_in(folder, "wchan");
  call_ = open_in(folder, "syscall");
}

/// Reads a file from its beginning into the buffer. Empty if that is not possible.
std::string_view WorkerEvidence::read(const UniqueFd& file) {
  if (!file) return {};
  const ssize_t length = ::pread(file.get(), buffer_.data(), buffer_.size(), 0);
  return length <= 0 ? std::string_view()
                     : std::string_view(buffer_.data(), static_cast<std::size_t>(length));
}

std::optional<WorkerSample> WorkerEvidence::read(std::chrono::steady_clock::time_point now) {
  const auto stat = parse_stat_counters(read(stat_));
  if (!stat || stat->state == 'Z' || stat->state == 'X') return std::nullopt;
  WorkerSample sample;
  sample.at = now;
  sample.state = stat->state;
  sample.cpu = ms_of(stat->own_ticks);
  const StatusCounters status = parse_status_counters(read(status_));
  if (sample.state == 't' && is_held_for_a_look(status.tracer)) sample.state = state_before_;
  state_before_ = sample.state;
  sample.voluntary_switches = status.voluntary_switches;
  sample.memory = status.memory;
  sample.memory_peak = status.memory_peak;
  const IoCounters io = parse_io_counters(read(io_));
  sample.bytes_read = io.read;
  sample.bytes_written = io.written;
  sample.disk_bytes = io.disk_read + io.disk_written;
  if (readings_++ % kReadingsPerSearch == 0) find_helpers(false);
  read_helpers();
  // Children that were reaped before the first reading have moved nothing since.
  if (readings_ > 1) helper_ticks_ += stat->reaped_ticks - std::min(reaped_ticks_, stat->reaped_ticks);
  reaped_ticks_ = stat->reaped_ticks;
  sample.helpers = static_cast<int>(helpers_.size());
  sample.helpers_cpu = ms_of(helper_ticks_);
  return sample;
}

void WorkerEvidence::look_closer(WorkerSample& sample) {
  sample.wait_channel = read(wait_channel_);
  if (sample.state == 'D')
    sample.wait_channel = kernel_function(sample.wait_channel,
                                          read_file(folder_of(pid_) + "stack", kFileBytesMax).value_or(""));
  if (const auto call = parse_waiting_call(read(call_))) {
    sample.call = kind_of(*call);
    if (sample.call == SystemCall::read) sample.descriptor = kind_of_descriptor(pid_, call->arguments[0]);
  }
  find_helpers(true);
  sample.helpers = static_cast<int>(helpers_.size());
  sample.helpers_in_lock = 0;
  for (const Helper& helper : helpers_)
    if (helper.idle && read(helper.wait_channel).starts_with("futex")) ++sample.helpers_in_lock;
}

std::optional<pid_t> WorkerEvidence::wrapped_program() {
  if (runs_python(pid_)) return std::nullopt;
  const auto call = parse_waiting_call(read(call_));
  const bool waits = call ? kind_of(*call) == SystemCall::child : read(wait_channel_).starts_with("do_wait");
  if (!waits) return std::nullopt;
  std::vector<Child> children;
  add_children(pid_, true, children);
  return children.size() == 1 ? std::optional(children.front().pid) : std::nullopt;
}

/// Adds up what the descendants have used since the last reading, and forgets those that have ended.
void WorkerEvidence::read_helpers() {
  std::erase_if(helpers_, [this](Helper& helper) {
    const auto stat = parse_stat_counters(read(helper.stat));
    if (!stat || stat->state == 'Z' || stat->state == 'X') return true;
    const std::uint64_t ticks = stat->own_ticks + stat->reaped_ticks;
    helper.idle = ticks == helper.ticks;
    helper_ticks_ += ticks - std::min(helper.ticks, ticks);
    helper.ticks = ticks;
    return false;
  });
}

void WorkerEvidence::find_helpers(bool of_all_threads) {
  std::vector<Child> found;
  add_children(pid_, of_all_threads, found);
  for (std::size_t i = 0; i < found.size() && found.size() < kHelpersMax; ++i)
    add_children(found[i].pid, of_all_threads, found);
  for (const Child& child : found) add_helper(child);
}

/// Adds the children of a process to `found`, up to kHelpersMax.
void WorkerEvidence::add_children(pid_t pid, bool of_all_threads, std::vector<Child>& found) {
  const std::string tasks = folder_of(pid) + "task/";
  const auto add = [&tasks, &found, pid](const std::string& thread) {
    const auto text = read_file(tasks + thread + "/children", kFileBytesMax);
    if (!text) return;
    for (const int child : parse_children(*text, kHelpersMax - found.size())) found.push_back({child, pid});
  };
  if (!of_all_threads) return add(std::to_string(pid));
  const std::unique_ptr<DIR, int (*)(DIR*)> folder(::opendir(tasks.c_str()), ::closedir);
  int threads = 0;
  while (const dirent* entry = folder ? ::readdir(folder.get()) : nullptr) {
    if (!parse_number<pid_t>(entry->d_name)) continue;
    if (++threads > kThreadsMax || found.size() >= kHelpersMax) break;
    add(entry->d_name);
  }
}

void WorkerEvidence::add_helper(const Child& child) {
  const auto known = [&child](const Helper& helper) { return helper.pid == child.pid; };
  if (helpers_.size() >= kHelpersMax || std::any_of(helpers_.begin(), helpers_.end(), known)) return;
  const std::string folder = folder_of(child.pid);
  Helper helper;
  helper.pid = child.pid;
  helper.stat = open_in(folder, "stat");
  helper.wait_channel = open_in(folder, "wchan");
  const auto stat = parse_stat_counters(read(helper.stat));
  // Another process may have got the number since it was listed.
  if (!stat || stat->parent != child.parent) return;
  helper.ticks = stat->own_ticks + stat->reaped_ticks;
  helpers_.push_back(std::move(helper));
}

}  // namespace muster::agent
