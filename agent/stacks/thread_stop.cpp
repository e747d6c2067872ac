// SPDX-License-Identifier: Apache-2.0
#include "agent/stacks/thread_stop.hpp"

#include "rendezvous/base/quiet_thread.hpp"

#include <elf.h>
#include <sched.h>
#include <sys/ptrace.h>
#include <sys/uio.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <condition_variable>
#include <iterator>
#include <memory>
#include <mutex>
#include <optional>
#include <system_error>
#include <thread>

namespace muster::agent {
namespace {

using Clock = std::chrono::steady_clock;

#if defined(__x86_64__)
constexpr bool kKnownProcessor = true;

/// Format: the DWARF numbers of the System V ABI of AMD64.
ThreadRegisters in_dwarf_order(const user_regs_struct& regs) {
  ThreadRegisters found;
  const std::uint64_t values[] = {regs.rax, regs.rdx, regs.rcx, regs.rbx, regs.rsi, regs.rdi,
                                  regs.rbp, regs.rsp, regs.r8,  regs.r9,  regs.r10, regs.r11,
                                  regs.r12, regs.r13, regs.r14, regs.r15, regs.rip};
  found.count = std::size(values);
  std::copy(std::begin(values), std::end(values), found.values.begin());
  found.stack_pointer = regs.rsp;
  found.program_counter = regs.rip;
  return found;
}
#elif defined(__aarch64__)
constexpr bool kKnownProcessor = true;

/// Format: DWARF for the Arm 64-bit Architecture; the program counter has no number there.
ThreadRegisters in_dwarf_order(const user_regs_struct& regs) {
  ThreadRegisters found;
  std::copy(std::begin(regs.regs), std::end(regs.regs), found.values.begin());
  found.values[31] = regs.sp;
  found.count = 32;
  found.stack_pointer = regs.sp;
  found.program_counter = regs.pc;
  return found;
}
#else
constexpr bool kKnownProcessor = false;

ThreadRegisters in_dwarf_order(const user_regs_struct&) {
  return {};
}
#endif

/// What the thread that holds the other one and the one that reads it tell each other.
struct Hold {
  enum class State { begins, stopped, over };

  std::mutex mutex;
  std::condition_variable changed;
  State state = State::begins;
  bool read = false;
  ThreadRegisters registers;
  ThreadStop result;
};

/// Waits until the thread stops. Returns the signal that it must get when it goes on, 0 if there is none;
/// nullopt: it did not stop.
std::optional<int> wait_for_stop(pid_t tid, Clock::time_point until) {
  for (int looks = 0;; ++looks) {
    siginfo_t info{};
    // Without WEXITED: the end of a worker is left to who waits for its exit code.
    constexpr int kStopsOfOurs = WSTOPPED | WNOHANG | __WALL | __WNOTHREAD;
    if (::waitid(P_PID, static_cast<id_t>(tid), &info, kStopsOfOurs) != 0 && errno != EINTR)
      return std::nullopt;
    // A stop of ptrace itself has an event in the upper bits; another one is for a signal that just came.
    if (info.si_pid == tid) return (info.si_status >> 8) != 0 ? 0 : info.si_status;
    if (Clock::now() >= until) return std::nullopt;
    constexpr int kLooksAtOnce = 20;
    constexpr unsigned kPauseUs = 50;
    if (looks < kLooksAtOnce)
      ::sched_yield();
    else
      ::usleep(kPauseUs);
  }
}

/// Reads the registers of a stopped thread; none of them if that is refused, or if it is a program of 32
/// bits.
ThreadRegisters read_registers(pid_t tid) {
  user_regs_struct regs{};
  iovec part{&regs, sizeof regs};
  if (::ptrace(PTRACE_GETREGSET, tid, NT_PRSTATUS, &part) != 0 || part.iov_len != sizeof regs) return {};
  return in_dwarf_order(regs);
}

/// Stops the thread, and holds it until it was read. A thread that could not be let go on goes on when the
/// calling thread ends (ptrace(2)), which must be soon.
void hold(Hold& shared, pid_t tid, std::chrono::milliseconds at_most) {
  ThreadStop result;
  if (::ptrace(PTRACE_SEIZE, tid, nullptr, nullptr) != 0) {
    result.refusal = errno;
  } else if (const Clock::time_point begin = Clock::now();
             ::ptrace(PTRACE_INTERRUPT, tid, nullptr, nullptr) == 0) {
    const Clock::time_point until = begin + at_most;
    if (const std::optional<int> signal = wait_for_stop(tid, until)) {
      const ThreadRegisters registers = read_registers(tid);
      if (registers.count > 0) {
        std::unique_lock lock(shared.mutex);
        shared.registers = registers;
        shared.state = Hold::State::stopped;
        shared.changed.notify_all();
        shared.changed.wait_until(lock, until, [&shared] { return shared.read; });
        result.read = shared.read;
      }
      ::ptrace(PTRACE_DETACH, tid, nullptr, static_cast<std::uintptr_t>(*signal));
      result.stopped = std::chrono::duration_cast<std::chrono::microseconds>(Clock::now() - begin);
    }
  }
  const std::lock_guard lock(shared.mutex);
  shared.result = result;
  shared.state = Hold::State::over;
  shared.changed.notify_all();
}

}  // namespace

bool can_read_registers() {
  return kKnownProcessor;
}

ThreadStop stop_thread(pid_t tid, std::chrono::milliseconds at_most,
                       const std::function<void(const ThreadRegisters&)>& read) {
  const auto shared = std::make_shared<Hold>();
  try {
    quiet_thread([shared, tid, at_most] { hold(*shared, tid, at_most); }).detach();
  } catch (const std::system_error&) {
    return {EAGAIN, false, {}};
  }
  std::unique_lock lock(shared->mutex);
  shared->changed.wait(lock, [&shared] { return shared->state != Hold::State::begins; });
  if (shared->state == Hold::State::stopped) {
    const ThreadRegisters registers = shared->registers;
    lock.unlock();
    read(registers);
    lock.lock();
    shared->read = true;
    shared->changed.notify_all();
    shared->changed.wait(lock, [&shared] { return shared->state == Hold::State::over; });
  }
  return shared->result;
}

}  // namespace muster::agent
