// SPDX-License-Identifier: Apache-2.0
#include "agent/process/output/worker_output.hpp"

#include "rendezvous/base/deadline.hpp"
#include "rendezvous/base/posix.hpp"
#include "rendezvous/base/while_alive.hpp"
#include "rendezvous/log/log.hpp"

#include <boost/asio/post.hpp>
#include <fcntl.h>

#include <algorithm>
#include <chrono>
#include <system_error>
#include <utility>

namespace muster::agent {

namespace asio = boost::asio;
using std::chrono::milliseconds;

namespace {

/// How long a worker may be held up by its log file before output is left out there instead.
constexpr auto kLongestStall = milliseconds(100);

}  // namespace

WorkerOutput::WorkerOutput(const asio::any_io_executor& executor, OutputSpec spec, OutputNames names,
                           int workers, StandardStreams ours)
    : executor_(executor),
      spec_(std::move(spec)),
      names_(std::move(names)),
      worker_count_(workers),
      ours_(std::move(ours)),
      wake_up_(std::make_shared<WakeUp>()),
      wake_stream_(executor) {
  if (!*wake_up_) throw_errno("eventfd for the workers' output");
}

WorkerOutput::~WorkerOutput() {
  abandon();
}

void WorkerOutput::started(int local_rank) {
  Worker& worker = workers_[local_rank];
  worker.child_out.reset();
  worker.child_err.reset();
}

void WorkerOutput::exited(int local_rank) {
  started(local_rank);
  Worker& worker = workers_[local_rank];
  worker.gone = true;
  for (const auto& stream : {worker.out, worker.err})
    if (stream) stream->pump->expect_end();
  check_drains();
}

void WorkerOutput::name_ranks() {
  if (worker_count_ == 1) return;
  for (auto& [local_rank, worker] : workers_) {
    if (!std::exchange(worker.nameless, false)) continue;
    const auto& stream = worker.err ? worker.err : worker.out;
    // A file that gets both streams may be read by a program, which expects its lines on stdout as they are.
    if (stream && stream->console != nullptr && (worker.err || stream->is_pty))
      stream->console->set_prefix(stream->source, "[" + std::to_string(worker.rank) + "]: ");
  }
}

void WorkerOutput::deliver(Stream& stream, std::string_view bytes) {
  stream.last_lines.feed(bytes);
  if (stream.log) logs_->append(*stream.log, bytes);
  if (stream.console != nullptr) stream.console->feed(stream.source, bytes);
  if (stream.filter) {
    std::string picked;
    stream.filter->feed(bytes, picked);
    // Ranks share this file, so it never slows one of them: rather, a line is left out.
    if (logs_->full(*stream.filtered_log)) logs_->drop_until_room(*stream.filtered_log);
    logs_->append(*stream.filtered_log, picked);
  }
}

bool WorkerOutput::blocked(const std::shared_ptr<Stream>& stream) {
  if (stream->log && logs_->full(*stream->log)) {
    stall(stream);
    return true;
  }
  if (stream->stalled) {
    stream->stalled = false;
    stream->stall_timer->cancel();
  }
  return stream->console != nullptr && stream->console->full();
}

void WorkerOutput::stall(const std::shared_ptr<Stream>& stream) {
  if (stream->stalled) return;
  stream->stalled = true;
  if (!stream->stall_timer) stream->stall_timer = std::make_unique<asio::steady_timer>(executor_);
  stream->stall_timer->expires_after(kLongestStall);
  stream->stall_timer->async_wait(
      while_alive(weak_from_this(), [stream](WorkerOutput& self, const boost::system::error_code& error) {
        if (error || !stream->stalled || !self.logs_ || !stream->log) return;
        stream->stalled = false;
        if (self.logs_->full(*stream->log)) self.logs_->drop_until_room(*stream->log);
        stream->pump->resume();
      }));
}

void WorkerOutput::closed(Stream& stream) {
  if (stream.stall_timer) stream.stall_timer->cancel();
  if (stream.console != nullptr) stream.console->close(stream.source);
  if (stream.filter && logs_) {
    std::string picked;
    stream.filter->end(picked);
    logs_->append(*stream.filtered_log, picked);
  }
  if (stream.log && logs_) logs_->close(*stream.log);
  stream.console = nullptr;
  stream.log.reset();
  stream.filter.reset();
  check_drains();
}

std::vector<std::string> WorkerOutput::last_lines(int local_rank) const {
  const auto found = workers_.find(local_rank);
  if (found == workers_.end()) return {};
  const Worker& worker = found->second;
  if (worker.err && !worker.err->last_lines.empty()) return worker.err->last_lines.lines();
  return worker.out ? worker.out->last_lines.lines() : std::vector<std::string>();
}

void WorkerOutput::resize() {
  const int terminal = is_terminal(ours_.out) ? ours_.out : ours_.err;
  for_each_stream([terminal](const std::shared_ptr<Stream>& stream) {
    if (stream->is_pty && !stream->pump->is_closed()) copy_window_size(terminal, stream->pump->fd());
  });
}

void WorkerOutput::note(const std::string& text) {
  if (std::find(notes_.begin(), notes_.end(), text) != notes_.end()) return;
  notes_.push_back(text);
  log_warning(text);
}

std::vector<std::string> WorkerOutput::notes() const {
  std::vector<std::string> all = notes_;
  const auto add = [&all](const std::vector<std::string>& more) {
    all.insert(all.end(), more.begin(), more.end());
  };
  if (out_console_) add(out_console_->notes());
  if (err_console_) add(err_console_->notes());
  if (logs_) add(logs_->notes());
  return all;
}

void WorkerOutput::watch() {
  if (watching_) return;
  if (!wake_stream_.is_open()) {
    const int copy = ::fcntl(wake_up_->fd(), F_DUPFD_CLOEXEC, 0);
    if (copy < 0) throw_errno("dup for the workers' output (ulimit -n)");
    wake_stream_.assign(copy);
  }
  watching_ = true;
  wake_stream_.async_wait(
      asio::posix::stream_descriptor::wait_read,
      while_alive(weak_from_this(), [](WorkerOutput& self, const boost::system::error_code& error) {
        self.watching_ = false;
        if (!error) self.on_wake();
      }));
}

void WorkerOutput::on_wake() {
  if (abandoned_) return;
  wake_up_->clear();
  std::vector<std::shared_ptr<Stream>> paused;
  for_each_stream([&paused](const std::shared_ptr<Stream>& stream) {
    if (stream->pump->is_paused()) paused.push_back(stream);
  });
  for (const auto& stream : paused) stream->pump->resume();
  if (finish_timer_ && writers_ended()) finish_timer_->cancel();
  watch();
}

bool WorkerOutput::drained(bool every_stream) const {
  bool result = true;
  for (const auto& [rank, worker] : workers_)
    for (const auto& stream : {worker.out, worker.err})
      if (stream && !stream->pump->is_closed() && (every_stream || worker.gone)) result = false;
  return result;
}

void WorkerOutput::check_drains() {
  for (const auto& waiting : drains_)
    if (drained(waiting->every_stream)) waiting->timer.cancel();
}

void WorkerOutput::drain(milliseconds at_most, std::function<void()> done) {
  start_drain(at_most, false, std::move(done));
}

void WorkerOutput::start_drain(milliseconds at_most, bool every_stream, std::function<void()> done) {
  const auto waiting = std::make_shared<Drain>(executor_);
  waiting->every_stream = every_stream;
  drains_.push_back(waiting);
  waiting->timer.expires_after(drained(every_stream) ? milliseconds(0) : at_most);
  // A cancelled timer means that the streams are drained.
  waiting->timer.async_wait(
      while_alive(weak_from_this(), [waiting, done = std::move(done)](WorkerOutput& self, const auto&) {
        std::erase(self.drains_, waiting);
        done();
      }));
}

void WorkerOutput::finish(milliseconds at_most, std::function<void()> done) {
  const auto deadline = std::chrono::steady_clock::now() + at_most;
  // What has been read by then still needs a moment to be written.
  const auto reserve = std::min(at_most / 4, milliseconds(250));
  const auto then = while_alive(weak_from_this(), [deadline, done = std::move(done)](WorkerOutput& self) {
    self.stop_writers(left_until(deadline), done);
  });
  start_drain(at_most - reserve, true, then);
}

void WorkerOutput::stop_writers(milliseconds at_most, std::function<void()> done) {
  for_each_stream([](const std::shared_ptr<Stream>& stream) { stream->pump->give_up(); });
  if (out_console_) out_console_->stop();
  if (err_console_) err_console_->stop();
  if (logs_) logs_->stop();
  finish_timer_ = std::make_unique<asio::steady_timer>(executor_);
  finish_timer_->expires_after(writers_ended() ? milliseconds(0) : at_most);
  finish_timer_->async_wait(
      while_alive(weak_from_this(), [done = std::move(done)](WorkerOutput& self, const auto&) {
        if (!self.writers_ended())
          self.note("some output was dropped at the end: console or log disk did not take it");
        self.notes_ = self.notes();
        self.abandon();
        done();
      }));
}

bool WorkerOutput::writers_ended() const {
  return (!out_console_ || out_console_->ended()) && (!err_console_ || err_console_->ended()) &&
         (!logs_ || logs_->ended());
}

void WorkerOutput::abandon() {
  abandoned_ = true;
  for_each_stream([](const std::shared_ptr<Stream>& stream) {
    stream->pump->abandon();
    if (stream->stall_timer) stream->stall_timer->cancel();
  });
  for (const auto& waiting : drains_) waiting->timer.cancel();
  out_console_.reset();
  err_console_.reset();
  logs_.reset();
  boost::system::error_code ignored;
  wake_stream_.close(ignored);
}

}  // namespace muster::agent
