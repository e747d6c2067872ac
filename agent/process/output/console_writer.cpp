// SPDX-License-Identifier: Apache-2.0
#include "agent/process/output/console_writer.hpp"

#include "agent/process/output/helper_thread.hpp"
#include "rendezvous/log/log.hpp"

#include <poll.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>
#include <utility>

namespace muster::agent {

namespace {

/// Bytes of one write. A blocking write returns when all of it is taken, and who waits for room gets some
/// after each: larger writes would hide that somebody reads slowly.
constexpr std::size_t kWriteAtMost = std::size_t{32} << 10;

/// Whether the reader is gone for good, as against a condition that may pass (a full disk).
bool closed_for_good(int error) {
  return error == EPIPE || error == EIO || error == EBADF || error == ENXIO;
}

}  // namespace

struct ConsoleWriter::State : HelperState {
  State(int borrowed_fd, std::string stream_name, std::shared_ptr<WakeUp> signal)
      : fd(borrowed_fd), name(std::move(stream_name)), wake_up(std::move(signal)) {}

  void run();

  std::size_t waiting() const { return pending.size() - begin; }

  void take(std::string& writing);
  void write(std::string_view bytes);
  void left(std::size_t bytes);
  bool is_abandoned();
  void take_note(int error);

  const int fd;
  const std::string name;
  const std::shared_ptr<WakeUp> wake_up;

  std::string pending;
  /// Bytes of `pending` that have been taken for a write.
  std::size_t begin = 0;
  /// Bytes of the write that is under way.
  std::size_t writing_left = 0;
  /// Whether somebody has seen full() and waits for it to change.
  bool room_wanted = false;
  bool closed = false;
  std::vector<std::string> notes;
};

void ConsoleWriter::State::run() {
  std::string writing;
  std::unique_lock lock(mutex);
  for (;;) {
    changed.wait(lock, [this] { return stopping || waiting() > 0; });
    if (waiting() == 0 || abandoned) break;
    take(writing);
    writing_left = writing.size();
    if (waiting() < kQueueBytes && std::exchange(room_wanted, false)) wake_up->signal();
    lock.unlock();
    write(writing);
    lock.lock();
    writing_left = 0;
  }
  ended = true;
  changed.notify_all();
  wake_up->signal();
}

void ConsoleWriter::State::take(std::string& writing) {
  writing.assign(pending, begin, kWriteAtMost);
  begin += writing.size();
  // The beginning is not erased at each turn, because that moves what stays.
  if (begin < pending.size() / 2) return;
  pending.erase(0, begin);
  begin = 0;
}

void ConsoleWriter::State::write(std::string_view bytes) {
  static constexpr int kPollMs = 200;
  while (!bytes.empty()) {
    const ssize_t written = ::write(fd, bytes.data(), bytes.size());
    if (written > 0) {
      bytes.remove_prefix(static_cast<std::size_t>(written));
      left(bytes.size());
      continue;
    }
    const int error = written < 0 ? errno : ENOSPC;
    if (is_abandoned()) return;
    if (error == EINTR) continue;
    if (error == EAGAIN) {
      // Somebody made the stream non-blocking for all who share it.
      pollfd writable{fd, POLLOUT, 0};
      ::poll(&writable, 1, kPollMs);
      continue;
    }
    take_note(error);
    return;
  }
}

void ConsoleWriter::State::left(std::size_t bytes) {
  const std::scoped_lock lock(mutex);
  writing_left = bytes;
}

bool ConsoleWriter::State::is_abandoned() {
  const std::scoped_lock lock(mutex);
  return abandoned;
}

void ConsoleWriter::State::take_note(int error) {
  const std::string text = "cannot write to our " + name + " (" + std::generic_category().message(error) +
                           "): the workers go on, their output there is dropped";
  {
    const std::scoped_lock lock(mutex);
    if (closed_for_good(error)) closed = true;
    if (!notes.empty()) return;
    notes.push_back(text);
  }
  log_warning(text);
}

ConsoleWriter::ConsoleWriter(int fd, std::string name, std::shared_ptr<WakeUp> wake_up)
    : state_(std::make_shared<State>(fd, std::move(name), std::move(wake_up))) {}

ConsoleWriter::~ConsoleWriter() {
  abandon_helper_thread(thread_, *state_);
}

void ConsoleWriter::append(std::string_view bytes) {
  if (bytes.empty()) return;
  {
    const std::scoped_lock lock(state_->mutex);
    if (state_->closed || state_->stopping) return;
    state_->pending.append(bytes);
  }
  state_->changed.notify_one();
  if (thread_.joinable()) return;
  try {
    thread_ = start_helper_thread("muster-console", [state = state_] { state->run(); });
  } catch (const std::system_error& error) {
    const std::scoped_lock lock(state_->mutex);
    state_->closed = true;
    state_->pending.clear();
    state_->begin = 0;
    state_->notes.push_back(std::string("cannot start a thread for our ") + state_->name + " (" +
                            error.what() + "; raise ulimit -u): the workers' output there is dropped");
    log_warning(state_->notes.back());
  }
}

bool ConsoleWriter::full() const {
  const std::scoped_lock lock(state_->mutex);
  if (state_->closed || state_->waiting() < kQueueBytes) return false;
  state_->room_wanted = true;
  return true;
}

void ConsoleWriter::stop() {
  const std::scoped_lock lock(state_->mutex);
  state_->stopping = true;
  state_->changed.notify_all();
}

bool ConsoleWriter::ended() const {
  return helper_ended(thread_, *state_);
}

std::size_t ConsoleWriter::unwritten() const {
  const std::scoped_lock lock(state_->mutex);
  return state_->waiting() + state_->writing_left;
}

std::vector<std::string> ConsoleWriter::notes() const {
  const std::scoped_lock lock(state_->mutex);
  return state_->notes;
}

}  // namespace muster::agent
