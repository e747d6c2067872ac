// SPDX-License-Identifier: Apache-2.0
#include "agent/process/output/terminal.hpp"

#include "rendezvous/base/process_stat.hpp"

#include <fcntl.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <termios.h>
#include <unistd.h>

#include <cerrno>
#include <string>
#include <system_error>

namespace muster::agent {

namespace {

[[noreturn]] void fail(const char* what, const char* advice) {
  const int error = errno;
  throw std::system_error(error, std::generic_category(),
                          std::string("cannot make ") + what + " for a worker's output (" + advice + ")");
}

void set_non_blocking(int fd) {
  const int flags = ::fcntl(fd, F_GETFL);
  if (flags < 0 || ::fcntl(fd, F_SETFL, flags | O_NONBLOCK) != 0)
    fail("a non-blocking stream", "fcntl failed");
}

/// Returns a device number in the layout that Linux uses in /proc/<pid>/stat.
unsigned long device_number(dev_t device) {
  const unsigned long major = (device >> 8) & 0xfff;
  const unsigned long minor = (device & 0xff) | ((device >> 12) & 0xfff00);
  return (minor & 0xff) | (major << 8) | ((minor & ~0xffUL) << 12);
}

}  // namespace

StreamEnds open_pipe() {
  int fds[2];
  if (::pipe2(fds, O_CLOEXEC) != 0) fail("a pipe", "raise the limit on open files: ulimit -n");
  StreamEnds ends{UniqueFd(fds[0]), UniqueFd(fds[1])};
  set_non_blocking(ends.ours.get());
  return ends;
}

StreamEnds open_pty(int like) {
  static constexpr const char* advice =
      "raise ulimit -n or kernel.pty.max, or redirect our stdout and stderr";
  StreamEnds ends;
  ends.ours.reset(::posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC));
  if (!ends.ours || ::grantpt(ends.ours.get()) != 0 || ::unlockpt(ends.ours.get()) != 0)
    fail("a pty", advice);
  // TIOCGPTPEER needs no /dev/pts of this mount namespace; O_NOCTTY lest a session leader acquire it.
  ends.childs.reset(::ioctl(ends.ours.get(), TIOCGPTPEER, O_RDWR | O_NOCTTY | O_CLOEXEC));
  if (!ends.childs) fail("a pty", advice);
  termios settings{};
  if (::tcgetattr(like, &settings) != 0 && ::tcgetattr(ends.childs.get(), &settings) != 0)
    fail("a pty", "it has no terminal settings");
  settings.c_oflag &= ~static_cast<tcflag_t>(OPOST);
  settings.c_lflag &= ~static_cast<tcflag_t>(ECHO | ECHOE | ECHOK | ECHONL | ECHOCTL | TOSTOP);
  if (::tcsetattr(ends.childs.get(), TCSANOW, &settings) != 0)
    fail("a pty", "its settings cannot be changed");
  copy_window_size(like, ends.ours.get());
  set_non_blocking(ends.ours.get());
  return ends;
}

void copy_window_size(int from, int to) {
  winsize size{};
  if (::ioctl(from, TIOCGWINSZ, &size) == 0) ::ioctl(to, TIOCSWINSZ, &size);
}

bool is_terminal(int fd) {
  return ::isatty(fd) == 1;
}

bool same_file(int a, int b) {
  struct stat first {};

  struct stat second {};

  return ::fstat(a, &first) == 0 && ::fstat(b, &second) == 0 && first.st_dev == second.st_dev &&
         first.st_ino == second.st_ino && first.st_rdev == second.st_rdev;
}

bool console_is_foreground(int in_fd) {
  if (!is_terminal(in_fd)) return true;
  const pid_t foreground = ::tcgetpgrp(in_fd);
  if (foreground >= 0) return foreground == ::getpgrp();

  // The terminal is not our controlling one (we may have a session of our own): the ancestor whose it is
  // decides.
  struct stat terminal {};

  if (::fstat(in_fd, &terminal) != 0) return true;
  const unsigned long device = device_number(terminal.st_rdev);
  for (pid_t pid = ::getppid(); pid > 1;) {
    const auto process = read_process_stat(pid);
    if (!process) break;
    if (process->terminal == device) return process->group == process->foreground_group;
    pid = process->parent;
  }
  return true;
}

}  // namespace muster::agent
