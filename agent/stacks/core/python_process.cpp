// SPDX-License-Identifier: Apache-2.0
#include "agent/stacks/core/python_process.hpp"

#include "agent/stacks/core/python_objects.hpp"
#include "agent/stacks/core/thread_walk.hpp"

#include <algorithm>
#include <set>
#include <utility>

namespace muster::agent {
namespace {

constexpr unsigned kFirstWithGilOfInterpreter = 0x030c;
constexpr std::size_t kInterpretersMax = 64;
/// Where glibc keeps the kernel's number of a thread, from pthread_self() on (struct pthread, tid). Only
/// versions before 3.11 need it; what is read counts only if the kernel knows such a thread of the process.
#if defined(__x86_64__)
constexpr std::uint64_t kTidOfPthread = 720;
#else
constexpr std::uint64_t kTidOfPthread = 0;
#endif

constexpr const char* kSenseless = "the list of its threads makes no sense";
constexpr const char* kTooLate = "the time for reading it was over";

/// Reads one process. Its members are what all threads have in common.
class Process {
 public:
  Process(MemoryReader& memory, const PythonLayout& layout, const PythonRuntime& runtime, int pid,
          const std::vector<int>& tasks)
      : memory_(memory),
        layout_(layout),
        runtime_(runtime),
        tasks_(tasks.begin(), tasks.end()),
        walk_(memory, layout),
        code_(memory, layout, runtime.code_type) {
    result_.pid = pid;
    result_.python = version_text(runtime.version_hex);
  }

  ProcessStacks read() && {
    std::set<std::uint64_t> seen;
    const auto head = memory_.value<std::uint64_t>(runtime_.runtime + layout_.interpreters_head);
    if (!head || *head == 0)
      result_.error = memory_.expired() ? kTooLate
                      : head            ? "its interpreter does not run yet, or no longer"
                                        : "its memory cannot be read";
    for (std::uint64_t at = head.value_or(0); at != 0 && result_.error.empty();) {
      if (!seen.insert(at).second || seen.size() > kInterpretersMax) {
        result_.error = kSenseless;
        break;
      }
      read_interpreter(at);
      at = memory_.value<std::uint64_t>(at + layout_.interpreter_next).value_or(0);
    }
    if (result_.error.empty() && memory_.expired()) result_.error = kTooLate;
    name_main();
    return std::move(result_);
  }

 private:
  void read_interpreter(std::uint64_t interpreter) {
    const std::uint64_t holder = gil_holder(interpreter);
    std::set<std::uint64_t> seen;
    const auto head = memory_.value<std::uint64_t>(interpreter + layout_.threads_head);
    for (std::uint64_t at = head.value_or(0); at != 0;) {
      if (result_.threads.size() >= kThreadsMax) {
        result_.error = "it has more threads than are read";
        return;
      }
      const bool again = !seen.insert(at).second;
      auto thread = again ? std::nullopt : walk_.read(at);
      if (!thread || thread->interpreter != interpreter) {
        result_.error = memory_.expired() ? kTooLate : kSenseless;
        return;
      }
      add(*thread, at == holder);
      at = thread->next;
    }
  }

  /// Returns the thread that holds the lock; 0 if none does, or the version does not tell.
  std::uint64_t gil_holder(std::uint64_t interpreter) {
    if (layout_.gil_locked == 0) return 0;
    const auto gil = layout_.version >= kFirstWithGilOfInterpreter
                         ? memory_.value<std::uint64_t>(interpreter + layout_.gil)
                         : std::optional(runtime_.runtime + layout_.gil);
    if (!gil || *gil == 0) return 0;
    const auto locked = memory_.value<std::int32_t>(*gil + layout_.gil_locked);
    if (!locked || *locked != 1) return 0;
    return memory_.value<std::uint64_t>(*gil + layout_.gil_holder).value_or(0);
  }

  void add(const RawThread& raw, bool holds_gil) {
    ThreadStack thread;
    thread.tid = number_of(raw);
    thread.is_main = thread.tid != 0 && thread.tid == result_.pid;
    thread.holds_gil = holds_gil;
    thread.approximate = raw.approximate;
    thread.truncated = raw.truncated;
    for (const RawFrame& frame : raw.frames) {
      if (frames_ >= kProcessFramesMax || memory_.expired()) {
        thread.truncated = true;
        break;
      }
      ++frames_;
      std::optional<Frame> call = code_.call(frame.code, frame.instruction);
      // A frame without code is one that was being made or left.
      if (!call) thread.approximate = true;
      if (call) thread.frames.push_back(std::move(*call));
    }
    result_.threads.push_back(std::move(thread));
  }

  int number_of(const RawThread& raw) {
    std::uint64_t number = raw.native_id;
    if (layout_.thread_native_id == 0 && raw.pthread != 0 && kTidOfPthread != 0)
      number = memory_.value<std::uint32_t>(raw.pthread + kTidOfPthread).value_or(0);
    constexpr std::uint64_t kMost = INT32_MAX;
    return number <= kMost && tasks_.count(static_cast<int>(number)) != 0 ? static_cast<int>(number) : 0;
  }

  /// The main thread is the oldest of the oldest interpreter; a forked process may have kept its parent's
  /// number of it.
  void name_main() {
    const auto is_main = [](const ThreadStack& thread) { return thread.is_main; };
    if (!result_.error.empty() || result_.threads.empty()) return;
    if (std::any_of(result_.threads.begin(), result_.threads.end(), is_main)) return;
    if (result_.threads.back().tid == 0) result_.threads.back().is_main = true;
  }

  MemoryReader& memory_;
  const PythonLayout& layout_;
  const PythonRuntime& runtime_;
  std::set<int> tasks_;
  ThreadWalk walk_;
  CodeObjects code_;
  ProcessStacks result_;
  std::size_t frames_ = 0;
};

}  // namespace

PythonLayout find_layout(MemoryReader& memory, const PythonRuntime& runtime, std::string& error) {
  const unsigned version = runtime.version_hex >> 16;
  if (version >= kFirstWithDebugOffsets && version <= kNewestVersion) {
    std::byte bytes[kDebugOffsetsBytes];
    if (memory.read(runtime.runtime, bytes, sizeof bytes))
      return layout_from_debug_offsets(runtime.version_hex, bytes, error);
    error = "its memory cannot be read";
    return {};
  }
  if (const PythonLayout* const layout = layout_from_table(version)) return *layout;
  error = "Python " + version_text(version << 16) + " is not known (" + kKnownVersions + ")";
  return {};
}

ProcessStacks read_python_stacks(MemoryReader& memory, const PythonLayout& layout,
                                 const PythonRuntime& runtime, int pid, const std::vector<int>& tasks) {
  return Process(memory, layout, runtime, pid, tasks).read();
}

}  // namespace muster::agent
