// SPDX-License-Identifier: Apache-2.0
#include "agent/process/child_process.hpp"

#include "rendezvous/base/exit_code.hpp"
#include "rendezvous/base/posix.hpp"

// Boost knows vfork() only of systems before POSIX.1-2008, which took it out; Linux has it all the same.
#define BOOST_POSIX_HAS_VFORK 1

#include <boost/process/child.hpp>
#include <boost/process/error.hpp>
#include <boost/process/exe.hpp>
#include <boost/process/extend.hpp>
#include <boost/process/posix.hpp>
#include <fcntl.h>
#include <linux/close_range.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>

namespace muster::agent {
namespace {

namespace bp = boost::process;

/// Argument strings, or "name=value", as exec wants them. They are built before the fork, because the child
/// makes system calls only.
class CStrings {
 public:
  explicit CStrings(std::vector<std::string> strings) : strings_(std::move(strings)) {
    pointers_.reserve(strings_.size() + 1);
    for (std::string& text : strings_) pointers_.push_back(text.data());
    pointers_.push_back(nullptr);
  }

  char** data() { return pointers_.data(); }

 private:
  std::vector<std::string> strings_;
  std::vector<char*> pointers_;
};

std::vector<std::string> joined(const std::vector<std::pair<std::string, std::string>>& environment) {
  std::vector<std::string> lines;
  lines.reserve(environment.size());
  for (const auto& [name, value] : environment) lines.push_back(name + "=" + value);
  return lines;
}

/// Runs in the child between vfork and exec, in the memory of the parent, which waits meanwhile: system calls
/// only.
struct ChildSetup : bp::extend::handler {
  ChildSetup(const ChildSpec& spec, char** arguments, char** environment)
      : spec_(spec), arguments_(arguments), environment_(environment), parent_(::getpid()) {}

  template <typename Executor>
  void on_exec_setup(Executor& executor) const {
    executor.cmd_line = arguments_;
    executor.env = environment_;
    ::setsid();
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    // The parent may have died before the death signal was set; then nobody would ever kill us.
    if (::getppid() != parent_) ::_exit(127);
    bind();
    move_descriptors();
    if (::syscall(SYS_close_range, 3U, ~0U, CLOSE_RANGE_CLOEXEC) != 0) mark_descriptors_one_by_one();
    spec_.signals.restore();
  }

 private:
  /// Binds the child to its CPUs. The kernel leaves out a CPU that was taken away since the plan was made;
  /// the others stay.
  void bind() const {
    if (spec_.affinity.empty()) return;
    ::syscall(SYS_sched_setaffinity, 0, spec_.affinity.size() * sizeof spec_.affinity.front(),
              spec_.affinity.data());
  }

  /// Serves before Linux 5.11. Descriptors above this number are as good as never inherited.
  static void mark_descriptors_one_by_one() {
    constexpr int kHighest = 65536;
    for (int fd = 3; fd < kHighest; ++fd) ::fcntl(fd, F_SETFD, FD_CLOEXEC);
  }

  void move_descriptors() const {
    const int wanted[3] = {spec_.stdin_fd, spec_.stdout_fd, spec_.stderr_fd};
    for (int target = 0; target < 3; ++target)
      if (wanted[target] >= 0 && wanted[target] != target) ::dup2(wanted[target], target);
  }

  const ChildSpec& spec_;
  char** arguments_;
  char** environment_;
  pid_t parent_;
};

bool is_executable_file(const std::string& path) {
  struct stat status {};

  return ::stat(path.c_str(), &status) == 0 && S_ISREG(status.st_mode) && ::access(path.c_str(), X_OK) == 0;
}

}  // namespace

Child start_child(const ChildSpec& spec) {
  CStrings arguments(spec.arguments);
  CStrings environment(joined(spec.environment));
  std::error_code error;
  const ChildSetup setup(spec, arguments.data(), environment.data());
#ifdef MUSTER_SANITIZED_THREADS
  // Under that sanitizer vfork() is a fork, and an error of exec would stay in the child's copy of the
  // memory.
  bp::child child(bp::exe = spec.program, setup, error);
#else
  // Without a copy of this process's page tables, which would take longer than all else here.
  bp::child child(bp::exe = spec.program, setup, bp::posix::use_vfork, error);
#endif
  // Boost says nothing when its own pipe() fails, and a child without a pid comes back: kill(-1) would end
  // every process of the user.
  if (!error && child.id() <= 0) error = std::error_code(EMFILE, std::generic_category());
  if (error) throw std::system_error(error);
  Child started;
  started.pid = child.id();
  child.detach();  // the child is reaped through its pidfd
  started.pidfd = open_pidfd(started.pid);
  if (!started.pidfd) {
    const int number = errno;
    ::kill(started.pid, SIGKILL);
    throw_errno(kNoPidfd, number);
  }
  return started;
}

std::string find_program(const std::string& name, const std::string& path) {
  if (name.find('/') != std::string::npos) return name;
  std::size_t begin = 0;
  while (begin <= path.size()) {
    std::size_t end = path.find(':', begin);
    if (end == std::string::npos) end = path.size();
    const std::string folder = end == begin ? "." : path.substr(begin, end - begin);
    const std::string candidate = folder + "/" + name;
    if (is_executable_file(candidate)) return candidate;
    begin = end + 1;
  }
  return {};
}

int start_error_exit_code(int error_number) {
  return error_number == ENOENT || error_number == ENOTDIR ? kExitNotFound : kExitNotExecutable;
}

}  // namespace muster::agent
