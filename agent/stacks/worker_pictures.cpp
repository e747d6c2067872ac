// SPDX-License-Identifier: Apache-2.0
#include "agent/stacks/worker_pictures.hpp"

#include "agent/stacks/core/folded_stacks.hpp"
#include "agent/stacks/process_words.hpp"
#include "rendezvous/base/posix.hpp"
#include "rendezvous/base/quiet_thread.hpp"

#include <unistd.h>

#include <algorithm>
#include <condition_variable>
#include <exception>
#include <mutex>
#include <optional>
#include <system_error>
#include <thread>
#include <utility>

namespace muster::agent {
namespace {

using Clock = std::chrono::steady_clock;

/// Most processes below a worker that are tried.
constexpr std::size_t kProcessesTried = 16;

std::string proc_text(pid_t pid, const char* name) {
  constexpr std::size_t kBytesMax = 256;
  return read_file("/proc/" + std::to_string(pid) + "/" + name, kBytesMax).value_or("");
}

}  // namespace

ProcessPicture read_process_words(const ProcessStat& process) {
  ProcessPicture picture;
  picture.name = process.name;
  picture.state =
      describe_state(process.state, proc_text(process.pid, "wchan"), proc_text(process.pid, "syscall"));
  picture.stacks.pid = process.pid;
  return picture;
}

/// One look at some workers, as its thread does it. Everything but `pictures`, `done` and what guards them is
/// the thread's own.
struct WorkerPictures::Look {
  std::vector<Worker> workers;
  StackDeadline deadline;
  PythonStackReader reader;
  std::vector<ProcessStat> all;

  std::mutex mutex;
  std::condition_variable changed;
  std::map<int, std::vector<ProcessPicture>> pictures;
  bool done = false;

  void run() {
    try {
      for (const Worker& worker : workers) begin(worker);
      for (const Worker& worker : workers) look_at(worker);
    } catch (const std::exception&) {
      // Without memory for it, what was found out stands.
    }
    const std::lock_guard lock(mutex);
    done = true;
    changed.notify_all();
  }

 private:
  static std::optional<ProcessStat> own_process(const Worker& worker) {
    auto process = worker.living ? read_process_stat(worker.pid) : std::nullopt;
    return process && !process->has_ended() ? process : std::nullopt;
  }

  /// Notes what the kernel tells at once, which stands if reading the process takes too long.
  void begin(const Worker& worker) {
    const auto process = own_process(worker);
    if (!process) return;
    ProcessPicture picture = read_process_words(*process);
    picture.stacks.error = kNoTime;
    show(worker, {std::move(picture)});
  }

  void look_at(const Worker& worker) {
    const auto own = own_process(worker);
    std::optional<ProcessPicture> alone;
    if (own) {
      alone = picture_of(*own);
      show(worker, {*alone});
      if (alone->stacks.error != kNoPython && !worker.helpers) return;
    }
    // To look at every process of the machine takes milliseconds, so it is done once, and only if needed.
    if (all.empty()) all = all_processes();
    std::vector<ProcessPicture> found;
    const bool all_programs = worker.helpers && worker.any_program;
    if (alone && (all_programs || alone->stacks.error != kNoPython)) found.push_back(*alone);
    std::size_t tried = 0;
    for (const ProcessStat& process : processes_below(all, ::getpid(), worker.pid)) {
      if (Clock::now() >= deadline || found.size() >= kProcessesShown || ++tried > kProcessesTried) break;
      ProcessPicture picture = picture_of(process);
      const bool is_python = picture.stacks.error != kNoPython;
      if (!alone) alone = picture;
      if (is_python || all_programs) found.push_back(std::move(picture));
    }
    if (found.empty() && alone) found.push_back(std::move(*alone));
    if (!found.empty()) show(worker, std::move(found));
  }

  ProcessPicture picture_of(const ProcessStat& process) {
    ProcessPicture picture = read_process_words(process);
    picture.stacks = reader.read(process.pid, deadline);
    // The number may have been used again since the processes were listed.
    if (start_time_of(process.pid) == process.start_time) return picture;
    picture.stacks = {process.pid, {}, {}, "it has ended"};
    return picture;
  }

  void show(const Worker& worker, std::vector<ProcessPicture> found) {
    const std::lock_guard lock(mutex);
    pictures[worker.number] = std::move(found);
  }
};

void WorkerPictures::take(const std::vector<Worker>& workers, std::chrono::milliseconds all_at_most) {
  auto look = std::make_shared<Look>();
  for (const Worker& worker : workers)
    if (worker.pid > 0 && pictures_.count(worker.number) == 0) look->workers.push_back(worker);
  if (look->workers.empty()) return;
  std::stable_partition(look->workers.begin(), look->workers.end(),
                        [](const Worker& worker) { return worker.living; });
  if (look_) {
    const std::lock_guard lock(look_->mutex);
    if (!look_->done) return;  // a thread that is held somewhere is enough
    look->reader = std::move(look_->reader);
  }
  look->deadline = Clock::now() + all_at_most;
  try {
    quiet_thread([look] { look->run(); }).detach();
  } catch (const std::system_error&) {
    return;  // no more threads: the workers are killed without a picture
  }
  look_ = look;
  for (const Worker& worker : look->workers)
    if (worker.living) living_.insert(worker.number);
  std::unique_lock lock(look->mutex);
  look->changed.wait_until(lock, look->deadline, [&look] { return look->done; });
  for (const auto& [number, pictures] : look->pictures) pictures_[number] = pictures;
}

void WorkerPictures::forget() {
  pictures_.clear();
  living_.clear();
}

std::vector<ProcessPicture> WorkerPictures::of(int number, bool killed, std::size_t bytes) const {
  const auto found = pictures_.find(number);
  if (found == pictures_.end() || (living_.count(number) != 0 && !killed)) return {};
  std::vector<ProcessPicture> pictures;
  for (const ProcessPicture& picture : found->second)
    pictures.push_back(within(picture, bytes / found->second.size()));
  return pictures;
}

}  // namespace muster::agent
