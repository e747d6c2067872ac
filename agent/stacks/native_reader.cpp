// SPDX-License-Identifier: Apache-2.0
#include "agent/stacks/native_reader.hpp"

#include "agent/stacks/libdw.hpp"
#include "agent/stacks/native_child.hpp"
#include "agent/stacks/native_unwinder.hpp"
#include "agent/stacks/refusal.hpp"
#include "agent/stacks/thread_stop.hpp"
#include "rendezvous/base/posix.hpp"
#include "rendezvous/base/process_stat.hpp"
#include "rendezvous/base/text.hpp"

#include <dirent.h>

#include <algorithm>
#include <cerrno>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace muster::agent {
namespace {

constexpr const char* kGone = "it has ended";

std::string file_of(pid_t pid, const std::string& name) {
  return "/proc/" + std::to_string(pid) + "/" + name;
}

/// Returns the kernel's numbers of the process's threads, the main thread first. `left_out`: how many others.
std::vector<pid_t> threads_of(pid_t pid, std::size_t& left_out) {
  std::vector<pid_t> threads;
  const std::unique_ptr<DIR, int (*)(DIR*)> folder(::opendir(file_of(pid, "task").c_str()), ::closedir);
  while (folder) {
    const dirent* const entry = ::readdir(folder.get());
    if (entry == nullptr) break;
    const auto tid = parse_number<pid_t>(entry->d_name);
    if (tid && threads.size() < kNativeThreadsMax)
      threads.push_back(*tid);
    else if (tid)
      ++left_out;
  }
  std::stable_partition(threads.begin(), threads.end(), [pid](pid_t tid) { return tid == pid; });
  return threads;
}

struct Mapping {
  std::uint64_t start = 0;
  std::uint64_t end = 0;
};

/// Reads the text of /proc/PID/maps, before threads are stopped, as a large program has thousands of lines.
std::vector<Mapping> mappings_of(std::string_view maps) {
  std::vector<Mapping> mappings;
  while (!maps.empty()) {
    const std::string_view line = maps.substr(0, maps.find('\n'));
    maps.remove_prefix(std::min(line.size() + 1, maps.size()));
    const std::size_t dash = line.find('-');
    const std::size_t space = line.find(' ');
    if (dash == std::string_view::npos || space == std::string_view::npos || dash > space) continue;
    const auto start = parse_number<std::uint64_t>(line.substr(0, dash), 16);
    const auto end = parse_number<std::uint64_t>(line.substr(dash + 1, space - dash - 1), 16);
    if (start && end) mappings.push_back({*start, *end});
  }
  return mappings;
}

/// Returns the end of the mapping in which the address is; 0: it is in none.
std::uint64_t end_of_mapping(const std::vector<Mapping>& mappings, std::uint64_t address) {
  const auto found = std::find_if(mappings.begin(), mappings.end(), [address](const Mapping& one) {
    return address >= one.start && address < one.end;
  });
  return found == mappings.end() ? 0 : found->end;
}

/// Copies the stack from below its pointer, or from there if that cannot be read, to the end of its mapping,
/// or as much as may be.
void copy_stack(pid_t pid, const std::vector<Mapping>& mappings, std::size_t most, ThreadCopy& copy) {
  constexpr std::size_t kLeast = 256;
  // Bytes that the System V ABI of AMD64 leaves to a function below the stack pointer. Where an ABI leaves
  // nothing, as on aarch64, it is read in vain.
  constexpr std::uint64_t kRedZone = 128;
  ProcessMemory memory(pid, StackDeadline::clock::now() + kThreadStopMax);
  const std::uint64_t pointer = copy.registers.stack_pointer;
  const std::uint64_t end = end_of_mapping(mappings, pointer);
  for (const std::uint64_t begin : {pointer - kRedZone, pointer}) {
    std::size_t bytes = std::min(most, kStackBytesMax);
    // A stack of a thread that is younger than the map is looked for in smaller and smaller pieces.
    if (end != 0) bytes = static_cast<std::size_t>(std::min<std::uint64_t>(bytes, end - begin));
    copy.stack_begin = begin;
    copy.stack.resize(bytes);
    while (bytes >= kLeast && !memory.read(begin, copy.stack.data(), bytes)) bytes /= 2;
    copy.stack.resize(bytes >= kLeast ? bytes : 0);
    if (!copy.stack.empty()) return;
  }
}

/// Why a thread was not copied; empty: it was.
std::string trouble_of(pid_t pid, pid_t tid, const ThreadStop& stop, bool same, const ThreadCopy& copy) {
  if (stop.refusal == ESRCH || !same) return kGone;
  if (stop.refusal == EAGAIN) return "this host has no more threads for us";
  if (stop.refusal == EPERM) {
    const auto status = read_file(file_of(pid, "task/" + std::to_string(tid) + "/status"), 1 << 16);
    constexpr std::string_view kTracer = "\nTracerPid:\t";
    const std::size_t at = status.value_or("").find(kTracer);
    const bool traced = at != std::string::npos && (*status)[at + kTracer.size()] != '0';
    return traced ? "a debugger holds it already" : read_refusal(pid, EPERM);
  }
  if (stop.refusal != 0) return read_refusal(pid, stop.refusal);
  if (copy.registers.count == 0)
    return "it did not stop within " + std::to_string(kThreadStopMax.count()) +
           " ms, as in a call of the kernel that no signal ends, or is a program of 32 bits";
  if (!stop.read)
    return "its stack could not be copied within " + std::to_string(kThreadStopMax.count()) + " ms";
  return copy.stack.empty() ? "its stack cannot be read" : "";
}

/// Stops the threads and copies them, the main thread first.
std::vector<ThreadCopy> copy_threads(pid_t pid, std::uint64_t started, const std::string& maps,
                                     StackDeadline deadline, NativeStacks& stacks) {
  std::vector<ThreadCopy> copies;
  std::size_t left_out = 0;
  std::size_t bytes_left = kStacksBytesMax;
  const std::vector<pid_t> threads = threads_of(pid, left_out);
  const std::vector<Mapping> mappings = mappings_of(maps);
  for (const pid_t tid : threads) {
    if (StackDeadline::clock::now() >= deadline || bytes_left == 0) {
      left_out += threads.size() - copies.size();
      break;
    }
    ThreadCopy& copy = copies.emplace_back();
    copy.tid = tid;
    bool same = true;
    const ThreadStop stop = stop_thread(tid, kThreadStopMax, [&](const ThreadRegisters& registers) {
      same = start_time_of(pid) == started &&
             ::access(file_of(pid, "task/" + std::to_string(tid)).c_str(), F_OK) == 0;
      if (!same) return;
      copy.registers = registers;
      copy_stack(pid, mappings, bytes_left, copy);
    });
    copy.name = read_file(file_of(pid, "task/" + std::to_string(tid) + "/comm"), 64).value_or("");
    copy.name.resize(std::min(copy.name.size(), copy.name.find('\n')));
    bytes_left -= std::min(bytes_left, copy.stack.size());
    copy.error = trouble_of(pid, tid, stop, same, copy);
    stacks.longest_stop_us = std::max<std::int64_t>(stacks.longest_stop_us, stop.stopped.count());
  }
  if (left_out > 0) stacks.error = "the stacks of " + std::to_string(left_out) + " more threads are left out";
  return copies;
}

}  // namespace

void read_native_stacks(pid_t pid, std::uint64_t started, StackDeadline deadline,
                        const std::function<void(NativeStacks)>& show) {
  NativeStacks stacks;
  const auto refuse = [&](std::string error) {
    stacks.error = std::move(error);
    show(stacks);
  };
  deadline = std::min(deadline, StackDeadline::clock::now() + kNativeProcessMax);
  if (!can_read_registers()) return refuse("machine code is read on x86-64 and aarch64 only");
  std::string error;
  const Libdw* const libdw = load_libdw(error);
  if (libdw == nullptr) return refuse(error);
  constexpr std::size_t kMapsBytesMax = std::size_t{16} << 20;
  errno = 0;
  const auto maps = read_file(file_of(pid, "maps"), kMapsBytesMax);
  if (!maps) return refuse(read_refusal(pid, errno == EACCES ? EPERM : errno));
  if (maps->empty() || started == 0) return refuse(kGone);
  const std::vector<ThreadCopy> copies = copy_threads(pid, started, *maps, deadline, stacks);
  unwind_apart(*libdw, {pid, *maps}, copies, deadline, std::move(stacks), show);
}

}  // namespace muster::agent
