// SPDX-License-Identifier: Apache-2.0
#include "agent/process/output/worker_output.hpp"

#include "agent/core/output/console_frame.hpp"
#include "agent/process/output/attempt_directory.hpp"
#include "agent/process/output/console_writer.hpp"
#include "rendezvous/base/deadline.hpp"
#include "rendezvous/base/posix.hpp"
#include "rendezvous/base/while_alive.hpp"
#include "rendezvous/log/log.hpp"

#include <boost/asio/post.hpp>
#include <fcntl.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <system_error>
#include <utility>

namespace muster::agent {
namespace {

namespace asio = boost::asio;
using std::chrono::milliseconds;

/// How long a worker may be held up by its log file before output is left out there instead.
constexpr auto kLongestStall = milliseconds(100);

constexpr std::size_t kChunk = std::size_t{64} << 10;
/// Most bytes that one chunk may become by the prefixes of its lines.
constexpr std::size_t kPrefixedChunk = std::size_t{512} << 10;
constexpr std::size_t kSmallestChunk = std::size_t{2} << 10;

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

WorkerStreams WorkerOutput::open(int round, int local_rank, int rank) {
  begin_round(round);
  if (const auto old = workers_.find(local_rank); old != workers_.end()) {
    for (const auto& stream : {old->second.out, old->second.err}) {
      if (!stream) continue;
      if (!stream->pump->is_closed())
        note("the last output of local rank " + std::to_string(local_rank) + " before round " +
             std::to_string(round) + " is lost: the console or disk did not take it in time");
      stream->pump->give_up();
    }
    workers_.erase(old);
  }
  WorkerStreams result;
  const std::string directory = make_directories(round, local_rank);
  if (!directory.empty()) result.error_file = directory + "/error.json";
  const auto route = [&](StreamBits stream, int ours) {
    return route_of(spec_, stream, local_rank, worker_count_ == 1, !ours_.remote, is_terminal(ours));
  };
  StreamRoute out = route(kStreamOut, ours_.out);
  StreamRoute err = route(kStreamErr, ours_.err);
  out.to_file = out.to_file && !directory.empty();
  err.to_file = err.to_file && !directory.empty();
  if (out.to_file) result.stdout_log = directory + "/stdout.log";
  if (err.to_file) result.stderr_log = directory + "/stderr.log";
  if (ours_.remote || !console_is_foreground(ours_.in)) {
    if (!null_device_) null_device_.reset(::open("/dev/null", O_RDWR | O_CLOEXEC));
    result.stdin_fd = null_device_.get();
  }

  const bool short_prefix = spec_.rank_prefix && spec_.line_prefix_template.empty();
  const LinePrefix prefix(short_prefix ? "[${rank}]: " : spec_.line_prefix_template,
                          PrefixFields{names_.role, names_.host, local_rank, rank});
  frame_prefix_ = frame_prefix(round, rank);
  Worker worker;
  worker.rank = rank;
  worker.nameless = err.plain && !err.prefixed;
  if (!out.inherit) worker.out = open_stream(kStreamOut, out, prefix, result.stdout_log, worker.child_out);
  // If our stdout and stderr are one, so are the worker's: what it prints on both then keeps its order, as
  // without us.
  const bool share = !out.inherit && out.plain && err.plain && one_console();
  if (!err.inherit && !share)
    worker.err = open_stream(kStreamErr, err, prefix, result.stderr_log, worker.child_err);
  result.stdout_fd = worker.child_out.get();
  result.stderr_fd = share ? worker.child_out.get() : worker.child_err.get();
  workers_[local_rank] = std::move(worker);
  return result;
}

void WorkerOutput::begin_round(int round) {
  if (round == round_) return;
  round_ = round;
  for (auto* filtered : {&filtered_out_, &filtered_err_}) {
    if (*filtered) logs_->close(**filtered);
    filtered->reset();
  }
}

std::string WorkerOutput::make_directories(int round, int local_rank) {
  attempt_dir_.clear();
  if (spec_.log_dir.empty()) return {};
  const AttemptDirectory made = make_attempt_directory(spec_.log_dir, names_.host, round, local_rank);
  if (!made.trouble.empty())
    note("cannot make log directory " + made.trouble + ": the workers of round " + std::to_string(round) +
         " run without log and error files");
  attempt_dir_ = made.attempt;
  return made.worker;
}

bool WorkerOutput::one_console() const {
  return !ours_.remote && same_file(ours_.out, ours_.err);
}

Console& WorkerOutput::console_for(StreamBits stream) {
  const bool one = one_console();
  auto& console = stream == kStreamErr && !one ? err_console_ : out_console_;
  if (!console) {
    const bool is_err = &console == &err_console_;
    const char* name = one ? "stdout and stderr" : is_err ? "stderr" : "stdout";
    const int fd = is_err ? ours_.err : ours_.out;
    auto sink = ours_.remote ? ours_.remote(is_err ? 2 : 1, wake_up_)
                             : std::make_unique<ConsoleWriter>(fd, name, wake_up_);
    console = std::make_unique<Console>(executor_, std::move(sink), !ours_.remote && is_terminal(fd),
                                        spec_.raw_output,
                                        spec_.framed ? Console::Lines::framed : Console::Lines::shown);
  }
  return *console;
}

std::shared_ptr<WorkerOutput::Stream> WorkerOutput::open_stream(StreamBits bit, const StreamRoute& route,
                                                                const LinePrefix& prefix,
                                                                const std::string& log_path,
                                                                UniqueFd& child_end) {
  watch();
  StreamEnds ends = open_ends(route, bit == kStreamOut ? ours_.out : ours_.err);
  child_end = std::move(ends.childs);
  const auto stream = std::make_shared<Stream>();
  const std::string first_prefix = prefix.text(prefix_time());
  stream->is_pty = is_terminal(ends.ours.get());
  if (route.to_console) {
    stream->console = &console_for(bit);
    const auto more_comes = [waiting = std::weak_ptr<Stream>(stream)] {
      const auto self = waiting.lock();
      return self && self->pump && self->pump->is_paused();
    };
    const std::string& shown = spec_.framed ? frame_prefix_ : first_prefix;
    stream->source = stream->console->add(route.prefixed ? shown : std::string(), more_comes);
    if (route.prefixed && !spec_.framed && prefix.tells_time()) stream->console_prefix = prefix;
  }
  if (route.to_file) {
    if (!logs_) logs_ = std::make_unique<LogWriter>(names_.host, wake_up_);
    stream->log = logs_->open(log_path, spec_.log_max_bytes);
    if (route.teed && route.to_console) add_filter(*stream, bit, prefix);
  }
  const std::weak_ptr<Stream> weak = stream;
  StreamPump::Owner owner;
  // The pump's callbacks hold the stream weakly: when the worker's other stream cannot be opened, this one is
  // dropped while its pump still reads.
  owner.deliver = [this, weak](std::string_view bytes) {
    if (const auto self = weak.lock()) deliver(*self, bytes);
  };
  owner.blocked = [this, weak] {
    const auto self = weak.lock();
    return self && blocked(self);
  };
  owner.closed = [this, weak] {
    if (const auto self = weak.lock()) closed(*self);
  };
  auto buffer = buffer_for(route.prefixed ? first_prefix.size() : 0);
  stream->pump =
      std::make_shared<StreamPump>(executor_, std::move(ends.ours), std::move(buffer), std::move(owner));
  stream->pump->start();
  return stream;
}

StreamEnds WorkerOutput::open_ends(const StreamRoute& route, int ours) {
  if (route.pty) {
    try {
      return open_pty(ours);
    } catch (const std::system_error& error) {
      note(std::string(error.what()) + ": on " + names_.host + " workers have pipes instead");
    }
  }
  return open_pipe();
}

void WorkerOutput::add_filter(Stream& stream, StreamBits bit, const LinePrefix& prefix) {
  const bool out = bit == kStreamOut;
  const std::vector<std::string>& texts = out ? spec_.stdout_filters : spec_.stderr_filters;
  if (texts.empty()) return;
  auto& file = out ? filtered_out_ : filtered_err_;
  if (!file)
    file = logs_->open(attempt_dir_ + (out ? "/filtered_stdout.log" : "/filtered_stderr.log"),
                       spec_.log_max_bytes);
  stream.filtered_log = file;
  stream.filter = std::make_unique<LineFilter>(texts, prefix.text(prefix_time()));
  if (prefix.tells_time()) stream.filter_prefix = prefix;
}

std::shared_ptr<std::vector<char>> WorkerOutput::buffer_for(std::size_t prefix_size) {
  const std::size_t size = std::clamp(kPrefixedChunk / (prefix_size + 1), kSmallestChunk, kChunk);
  auto& buffer = buffers_[size];
  if (!buffer) buffer = std::make_shared<std::vector<char>>(size);
  return buffer;
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

PrefixTime WorkerOutput::prefix_time() const {
  return {std::chrono::system_clock::now(),
          std::chrono::duration_cast<milliseconds>(std::chrono::steady_clock::now() - began_)};
}

void WorkerOutput::deliver(Stream& stream, std::string_view bytes) {
  if (stream.console_prefix)
    stream.console->renew_prefix(stream.source, stream.console_prefix->text(prefix_time()));
  if (stream.filter_prefix) stream.filter->set_prefix(stream.filter_prefix->text(prefix_time()));
  stream.last_lines.feed(bytes);
  stream.bytes += bytes.size();
  stream.last_at = std::chrono::steady_clock::now();
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
