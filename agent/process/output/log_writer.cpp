// SPDX-License-Identifier: Apache-2.0
#include "agent/process/output/log_writer.hpp"

#include "agent/core/output/log_rotation.hpp"
#include "agent/process/output/helper_thread.hpp"
#include "rendezvous/log/log.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <deque>
#include <map>
#include <set>
#include <system_error>
#include <utility>

namespace muster::agent {

namespace {

using Clock = std::chrono::steady_clock;

constexpr auto kRetryAfter = std::chrono::seconds(1);
constexpr const char* kTooSlow = "the log disk is too slow";

/// Returns strerror's text as part of a sentence.
std::string reason_text(int error) {
  if (error == EFBIG) return "the limit of file sizes is reached (ulimit -f)";
  std::string text = std::generic_category().message(error);
  if (!text.empty() && text[0] >= 'A' && text[0] <= 'Z') text[0] = static_cast<char>(text[0] - 'A' + 'a');
  return text;
}

std::string truncation_line(char last_byte, std::uint64_t lost, const std::string& reason) {
  return (last_byte == '\n' ? "[muster: output truncated here: " : "\n[muster: output truncated here: ") +
         std::to_string(lost) + " bytes lost, " + reason + "]\n";
}

}  // namespace

struct LogWriter::LogFile {
  std::string path;

  // The mutex guards what follows.
  std::string pending;
  bool queued = false;
  bool closing = false;
  bool dropping = false;
  std::uint64_t lost_in_queue = 0;
  char last_queued = '\n';

  // Only the writing thread uses what follows.
  std::uint64_t max_bytes = 0;
  std::uint64_t size = 0;
  UniqueFd fd;
  char last_written = '\n';
  std::uint64_t lost_on_disk = 0;
  std::string why_lost;
  Clock::time_point retry_at{};
};

struct LogWriter::State : HelperState {
  void run();
  void write(LogFile& file, std::string_view bytes, bool last);
  static bool open_file(LogFile& file);
  void rotate(LogFile& file);
  bool write_loss(LogFile& file);
  void lose(LogFile& file, std::size_t bytes, int error);
  void enqueue(const std::shared_ptr<LogFile>& file);
  void mark_loss_in_queue(LogFile& file);
  void take_note(const std::string& path, const std::string& reason);
  void say_once(const std::string& reason, const std::string& text);

  std::string host;
  std::shared_ptr<WakeUp> wake_up;

  std::map<File, std::shared_ptr<LogFile>> files;
  /// Files for which there is something to do, each once.
  std::deque<std::shared_ptr<LogFile>> queue;
  File next = 0;
  bool room_wanted = false;
  std::set<std::string> noted_reasons;
  std::vector<std::string> notes;
};

void LogWriter::State::run() {
  std::string writing;
  std::unique_lock lock(mutex);
  for (;;) {
    changed.wait(lock, [this] { return stopping || !queue.empty(); });
    if (queue.empty() || abandoned) break;
    const std::shared_ptr<LogFile> file = queue.front();
    queue.pop_front();
    file->queued = false;
    if (file->closing) mark_loss_in_queue(*file);
    const bool last = file->closing;
    std::swap(file->pending, writing);
    if (std::exchange(room_wanted, false)) wake_up->signal();
    lock.unlock();
    write(*file, writing, last);
    if (last) file->fd.reset();
    writing.clear();
    lock.lock();
  }
  ended = true;
  changed.notify_all();
  wake_up->signal();
}

void LogWriter::State::write(LogFile& file, std::string_view bytes, bool last) {
  if (Clock::now() < file.retry_at && !last) {
    file.lost_on_disk += bytes.size();
    return;
  }
  if (!file.fd && !open_file(file)) return lose(file, bytes.size(), errno);
  if (file.lost_on_disk > 0 && !write_loss(file)) {
    file.lost_on_disk += bytes.size();
    return;
  }
  while (!bytes.empty()) {
    const std::size_t piece = bytes_for_file(file.size, file.max_bytes, bytes, file.last_written == '\n');
    if (piece == 0) {
      rotate(file);
      if (!file.fd) return lose(file, bytes.size(), errno);
      continue;
    }
    const ssize_t written = ::write(file.fd.get(), bytes.data(), piece);
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return lose(file, bytes.size(), written < 0 ? errno : ENOSPC);
    file.last_written = bytes[static_cast<std::size_t>(written) - 1];
    file.size += static_cast<std::size_t>(written);
    bytes.remove_prefix(static_cast<std::size_t>(written));
  }
}

/// False, with errno, if it cannot be opened.
bool LogWriter::State::open_file(LogFile& file) {
  file.fd.reset(
      ::open(file.path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NOFOLLOW | O_NOCTTY, 0600));
  if (!file.fd) return false;

  struct stat status {};

  file.size = ::fstat(file.fd.get(), &status) == 0 ? static_cast<std::uint64_t>(status.st_size) : 0;
  return true;
}

/// Leaves the file without a descriptor, with errno, where the next one cannot be made. Where the old one
/// keeps its name it is written on for as long again: no line is lost for the sake of a bound.
void LogWriter::State::rotate(LogFile& file) {
  const std::string earlier = file.path + std::string(kRotatedSuffix);
  // One that somebody has taken away needs no other name.
  if (::rename(file.path.c_str(), earlier.c_str()) != 0 && errno != ENOENT) {
    const std::string reason = "--log-max-size is not kept on " + host + ": " + reason_text(errno);
    say_once(reason, reason + " (" + earlier + "); such log files grow beyond it until that name is free");
    file.size = 0;
    return;
  }
  file.last_written = '\n';
  open_file(file);
}

/// Writes the line about what was lost, whole or not at all. Returns whether it was written.
bool LogWriter::State::write_loss(LogFile& file) {
  const std::string line = truncation_line(file.last_written, file.lost_on_disk, file.why_lost);
  const ssize_t written = ::write(file.fd.get(), line.data(), line.size());
  if (written == static_cast<ssize_t>(line.size())) {
    file.lost_on_disk = 0;
    file.size += line.size();
    file.last_written = '\n';
    return true;
  }
  const int error = written < 0 ? errno : ENOSPC;
  if (written > 0) {
    const off_t end = ::lseek(file.fd.get(), 0, SEEK_END);
    if (end >= written) {
      [[maybe_unused]] const int cut = ::ftruncate(file.fd.get(), end - written);
    }
  }
  lose(file, 0, error);
  return false;
}

void LogWriter::State::lose(LogFile& file, std::size_t bytes, int error) {
  file.lost_on_disk += bytes;
  file.why_lost = reason_text(error);
  file.retry_at = Clock::now() + kRetryAfter;
  take_note(file.path, file.why_lost);
}

void LogWriter::State::enqueue(const std::shared_ptr<LogFile>& file) {
  if (file->queued) return;
  file->queued = true;
  queue.push_back(file);
  changed.notify_one();
}

void LogWriter::State::mark_loss_in_queue(LogFile& file) {
  file.dropping = false;
  if (file.lost_in_queue == 0) return;
  file.pending += truncation_line(file.last_queued, file.lost_in_queue, kTooSlow);
  file.lost_in_queue = 0;
  file.last_queued = '\n';
}

void LogWriter::State::take_note(const std::string& path, const std::string& reason) {
  say_once(reason, "log truncated on " + host + ": " + reason + " (" + path +
                       "); the workers go on, and the files say where output is missing");
}

void LogWriter::State::say_once(const std::string& reason, const std::string& text) {
  {
    const std::scoped_lock lock(mutex);
    if (!noted_reasons.insert(reason).second) return;
    notes.push_back(text);
  }
  log_warning(text);
}

LogWriter::LogWriter(std::string host, std::shared_ptr<WakeUp> wake_up) : state_(std::make_shared<State>()) {
  state_->host = std::move(host);
  state_->wake_up = std::move(wake_up);
}

LogWriter::~LogWriter() {
  abandon_helper_thread(thread_, *state_);
}

LogWriter::File LogWriter::open(std::string path, std::uint64_t max_bytes) {
  auto file = std::make_shared<LogFile>();
  file->path = std::move(path);
  file->max_bytes = max_bytes;
  File id = 0;
  {
    const std::scoped_lock lock(state_->mutex);
    id = state_->next++;
    state_->files[id] = file;
    state_->enqueue(file);
  }
  if (thread_.joinable()) return id;
  try {
    thread_ = start_helper_thread("muster-logs", [state = state_] { state->run(); });
  } catch (const std::system_error& error) {
    const std::string reason =
        std::string("cannot start a thread for it (") + error.what() + "; raise ulimit -u)";
    state_->take_note(file->path, reason);
    const std::scoped_lock lock(state_->mutex);
    state_->files.clear();
    state_->queue.clear();
  }
  return id;
}

void LogWriter::append(File id, std::string_view bytes) {
  if (bytes.empty()) return;
  const std::scoped_lock lock(state_->mutex);
  const auto found = state_->files.find(id);
  if (found == state_->files.end()) return;
  LogFile& file = *found->second;
  if (file.dropping && file.pending.size() <= kQueueBytes / 2) state_->mark_loss_in_queue(file);
  if (file.dropping) {
    file.lost_in_queue += bytes.size();
    return;
  }
  file.pending.append(bytes);
  file.last_queued = bytes.back();
  state_->enqueue(found->second);
}

bool LogWriter::full(File id) const {
  const std::scoped_lock lock(state_->mutex);
  const auto found = state_->files.find(id);
  if (found == state_->files.end() || found->second->dropping) return false;
  if (found->second->pending.size() < kQueueBytes) return false;
  state_->room_wanted = true;
  return true;
}

void LogWriter::drop_until_room(File id) {
  std::string path;
  {
    const std::scoped_lock lock(state_->mutex);
    const auto found = state_->files.find(id);
    if (found == state_->files.end()) return;
    found->second->dropping = true;
    path = found->second->path;
  }
  state_->take_note(path, kTooSlow);
}

void LogWriter::close(File id) {
  const std::scoped_lock lock(state_->mutex);
  const auto found = state_->files.find(id);
  if (found == state_->files.end()) return;
  found->second->closing = true;
  state_->enqueue(found->second);
  state_->files.erase(found);
}

void LogWriter::stop() {
  const std::scoped_lock lock(state_->mutex);
  for (auto& [id, file] : state_->files) {
    file->closing = true;
    state_->enqueue(file);
  }
  state_->files.clear();
  state_->stopping = true;
  state_->changed.notify_all();
}

bool LogWriter::ended() const {
  return helper_ended(thread_, *state_);
}

std::vector<std::string> LogWriter::notes() const {
  const std::scoped_lock lock(state_->mutex);
  return state_->notes;
}

}  // namespace muster::agent
