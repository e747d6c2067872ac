// SPDX-License-Identifier: Apache-2.0
// The part of WorkerOutput that decides where a worker's streams go, and makes them.
#include "agent/core/output/line_prefix.hpp"
#include "agent/process/output/console_writer.hpp"
#include "agent/process/output/worker_output.hpp"

#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <system_error>
#include <utility>

namespace muster::agent {

namespace {

constexpr std::size_t kChunk = std::size_t{64} << 10;
/// Most bytes that one chunk may become by the prefixes of its lines.
constexpr std::size_t kPrefixedChunk = std::size_t{512} << 10;
constexpr std::size_t kSmallestChunk = std::size_t{2} << 10;

/// Makes one directory (0700) unless it is there. Returns errno, or 0.
int make_directory(const std::string& path) {
  if (::mkdir(path.c_str(), 0700) == 0) return 0;
  if (errno != EEXIST) return errno;

  struct stat status {};

  if (::stat(path.c_str(), &status) != 0) return errno;
  return S_ISDIR(status.st_mode) ? 0 : ENOTDIR;
}

}  // namespace

WorkerOutput::Route WorkerOutput::route(StreamBits stream, int local_rank) const {
  const bool files = !spec_.log_dir.empty();
  const bool redirected = files && (spec_.redirects.of(local_rank) & stream) != 0;
  const bool shown = !spec_.console_ranks || spec_.console_ranks->contains(local_rank);
  Route route;
  route.teed = (spec_.tee.of(local_rank) & stream) != 0;
  route.to_file = redirected || (files && route.teed);
  route.to_console = shown && (!redirected || route.teed);
  route.plain = route.to_console && !route.to_file && !route.teed;
  route.prefixed = route.to_console && (route.teed || spec_.rank_prefix);
  route.inherit = route.plain && worker_count_ == 1 && !spec_.rank_prefix && !ours_.remote;
  route.pty = route.plain && !route.inherit && !ours_.remote &&
              is_terminal(stream == kStreamOut ? ours_.out : ours_.err);
  return route;
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
  Route out = route(kStreamOut, local_rank);
  Route err = route(kStreamErr, local_rank);
  out.to_file = out.to_file && !directory.empty();
  err.to_file = err.to_file && !directory.empty();
  if (out.to_file) result.stdout_log = directory + "/stdout.log";
  if (err.to_file) result.stderr_log = directory + "/stderr.log";
  if (ours_.remote || !console_is_foreground(ours_.in)) {
    if (!null_device_) null_device_.reset(::open("/dev/null", O_RDWR | O_CLOEXEC));
    result.stdin_fd = null_device_.get();
  }

  const bool short_prefix = spec_.rank_prefix && spec_.line_prefix_template.empty();
  const std::string prefix = line_prefix(short_prefix ? "[${rank}]: " : spec_.line_prefix_template,
                                         PrefixFields{names_.role, names_.host, local_rank, rank});
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
  const std::string attempt = spec_.log_dir + "/attempt_" + std::to_string(round);
  const std::string directory = attempt + "/" + std::to_string(local_rank);
  for (const std::string& path : {spec_.log_dir, attempt, directory}) {
    const int error = make_directory(path);
    if (error == 0) continue;
    note("cannot make log directory " + path + " on " + names_.host + " (" +
         std::generic_category().message(error) + "): the workers of round " + std::to_string(round) +
         " run without log and error files");
    return {};
  }
  attempt_dir_ = attempt;
  return directory;
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
                                        spec_.raw_output);
  }
  return *console;
}

std::shared_ptr<WorkerOutput::Stream> WorkerOutput::open_stream(StreamBits bit, const Route& route,
                                                                const std::string& prefix,
                                                                const std::string& log_path,
                                                                UniqueFd& child_end) {
  watch();
  StreamEnds ends = open_ends(route, bit == kStreamOut ? ours_.out : ours_.err);
  child_end = std::move(ends.childs);
  const auto stream = std::make_shared<Stream>();
  stream->is_pty = is_terminal(ends.ours.get());
  if (route.to_console) {
    stream->console = &console_for(bit);
    const auto more_comes = [waiting = std::weak_ptr<Stream>(stream)] {
      const auto self = waiting.lock();
      return self && self->pump && self->pump->is_paused();
    };
    stream->source = stream->console->add(route.prefixed ? prefix : std::string(), more_comes);
  }
  if (route.to_file) {
    if (!logs_) logs_ = std::make_unique<LogWriter>(names_.host, wake_up_);
    stream->log = logs_->open(log_path);
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
  auto buffer = buffer_for(route.prefixed ? prefix.size() : 0);
  stream->pump =
      std::make_shared<StreamPump>(executor_, std::move(ends.ours), std::move(buffer), std::move(owner));
  stream->pump->start();
  return stream;
}

StreamEnds WorkerOutput::open_ends(const Route& route, int ours) {
  if (route.pty) {
    try {
      return open_pty(ours);
    } catch (const std::system_error& error) {
      note(std::string(error.what()) + ": on " + names_.host + " workers have pipes instead");
    }
  }
  return open_pipe();
}

void WorkerOutput::add_filter(Stream& stream, StreamBits bit, const std::string& prefix) {
  const bool out = bit == kStreamOut;
  const std::vector<std::string>& texts = out ? spec_.stdout_filters : spec_.stderr_filters;
  if (texts.empty()) return;
  auto& file = out ? filtered_out_ : filtered_err_;
  if (!file) file = logs_->open(attempt_dir_ + (out ? "/filtered_stdout.log" : "/filtered_stderr.log"));
  stream.filtered_log = file;
  stream.filter = std::make_unique<LineFilter>(texts, prefix);
}

std::shared_ptr<std::vector<char>> WorkerOutput::buffer_for(std::size_t prefix_size) {
  const std::size_t size = std::clamp(kPrefixedChunk / (prefix_size + 1), kSmallestChunk, kChunk);
  auto& buffer = buffers_[size];
  if (!buffer) buffer = std::make_shared<std::vector<char>>(size);
  return buffer;
}

}  // namespace muster::agent
