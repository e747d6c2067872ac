// SPDX-License-Identifier: Apache-2.0
// The workers' stdin, stdout and stderr: gives each worker its descriptors, and carries what it prints to the
// console and to the log files. What a user sees of this is described in docs/output.md.
#pragma once

#include "agent/core/agent_spec.hpp"
#include "agent/core/output/last_lines.hpp"
#include "agent/core/output/line_filter.hpp"
#include "agent/core/output/line_prefix.hpp"
#include "agent/core/output/stream_route.hpp"
#include "agent/process/output/console.hpp"
#include "agent/process/output/log_writer.hpp"
#include "agent/process/output/stream_pump.hpp"
#include "agent/process/output/terminal.hpp"

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/steady_timer.hpp>
#include <sys/types.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace muster::agent {

/// Names of the role and of this host, for line prefixes and notes.
struct OutputNames {
  std::string role = "default";
  std::string host;
};

/// Our own three streams. Borrowed: never closed here.
struct StandardStreams {
  int in = 0;
  int out = 1;
  int err = 2;
  /// Makes the sink for stream 1 or 2 if the console is elsewhere. Workers then read the null device and have
  /// pipes.
  std::function<std::unique_ptr<ConsoleSink>(int stream, std::shared_ptr<WakeUp>)> remote{};
};

/// What a worker is started with. The descriptors are close-on-exec and belong to WorkerOutput (stdout and
/// stderr may be the same one): dup2 them onto 0, 1 and 2 in the child, close none of them. -1: leave that
/// stream of ours as it is (inherit).
struct WorkerStreams {
  int stdin_fd = -1;
  int stdout_fd = -1;
  int stderr_fd = -1;
  /// Log files of the worker's streams; empty where a stream is neither redirected nor teed.
  std::string stdout_log;
  std::string stderr_log;
  /// The path for TORCHELASTIC_ERROR_FILE, whose directory exists while the file does not. Empty without a
  /// log directory.
  std::string error_file;
};

/// Each agent has one, which is used from the executor's single thread only. Nothing here blocks that thread:
/// console and files are written by helper threads, which start with the first byte they have to write.
///
/// The calls for a worker, in this order: open, (spawn), started, exited. A worker that could not be spawned
/// needs started and exited too.
/// Create with std::make_shared.
class WorkerOutput : public std::enable_shared_from_this<WorkerOutput> {
 public:
  /// `workers`: how many workers this node has; a single one inherits each stream that nothing of `spec` asks
  /// for.
  WorkerOutput(const boost::asio::any_io_executor& executor, OutputSpec spec, OutputNames names, int workers,
               StandardStreams ours = StandardStreams{});
  /// Output that is still on its way is lost, unless finish() came before.
  ~WorkerOutput();
  WorkerOutput(const WorkerOutput&) = delete;
  WorkerOutput& operator=(const WorkerOutput&) = delete;

  /// Makes the streams of a worker of this round, and <log_dir>/attempt_<round>/<local rank>/ (0700).
  /// Throws std::system_error, with the resource that is short, if a pipe or pty cannot be had. A log
  /// directory that cannot be made is a note, not an error: the worker then runs without files.
  WorkerStreams open(int round, int local_rank, int rank);

  /// Closes the child's ends in this process, once the worker runs or could not be spawned.
  void started(int local_rank);

  /// Puts the rank before each line of the workers' stderr on the console from now on: they are told to end,
  /// and all of them may print how they were interrupted. Nothing changes for a single worker, for one whose
  /// lines have a prefix already, for streams that do not pass through us, and where stdout and stderr are
  /// one file.
  void name_ranks();

  /// Reads what a worker that has been reaped left in its pipes; after 1 s more a stream that somebody else
  /// (a grandchild) still holds open is given up.
  void exited(int local_rank);

  /// Calls `done` once every stream of the workers that have exited is closed, so that last_lines is
  /// complete; at most `at_most` later in any case. Use it before a report and before the next round. `done`
  /// runs on the executor, never inside this call.
  void drain(std::chrono::milliseconds at_most, std::function<void()> done);

  /// Drains, writes everything to console and files, and ends the helper threads. At most `at_most`: what a
  /// stuck terminal or disk has not taken by then is dropped. Call once, after the last exited(); nothing of
  /// this class stays pending on the executor afterwards.
  void finish(std::chrono::milliseconds at_most, std::function<void()> done);

  /// Returns the last 20 lines (without line ends, at most 2,000 bytes each, raw) that passed through us on
  /// the worker's stderr, or on stdout if stderr had none. They are kept until the next open() of this local
  /// rank.
  std::vector<std::string> last_lines(int local_rank) const;

  /// Returns the bytes that have passed through us on the worker's stdout and stderr in this round.
  std::uint64_t output_bytes(int local_rank) const {
    const auto found = workers_.find(local_rank);
    if (found == workers_.end()) return 0;
    const Worker& worker = found->second;
    return (worker.out ? worker.out->bytes : 0) + (worker.err ? worker.err->bytes : 0);
  }

  /// Returns when something has passed through us last on the worker's stdout or stderr; nullopt if nothing
  /// has in this round.
  std::optional<std::chrono::steady_clock::time_point> last_output(int local_rank) const {
    const auto found = workers_.find(local_rank);
    if (found == workers_.end()) return std::nullopt;
    std::optional<std::chrono::steady_clock::time_point> last;
    for (const auto& stream : {found->second.out, found->second.err})
      if (stream && stream->bytes > 0 && (!last || *last < stream->last_at)) last = stream->last_at;
    return last;
  }

  /// Gives the new size of our terminal to the workers' ptys. The caller then sends SIGWINCH to the workers.
  void resize();

  /// Returns what the user should know for the report: truncated logs, dropped output. Each note is also
  /// logged when it happens.
  std::vector<std::string> notes() const;

 private:
  struct Stream {
    std::shared_ptr<StreamPump> pump;
    bool is_pty = false;
    Console* console = nullptr;
    Console::Source source = 0;
    std::optional<LogWriter::File> log;
    std::unique_ptr<LineFilter> filter;
    /// Set where a prefix tells the time, so that each chunk has a new one.
    std::optional<LinePrefix> console_prefix;
    std::optional<LinePrefix> filter_prefix;
    std::optional<LogWriter::File> filtered_log;
    LastLines last_lines;
    std::uint64_t bytes = 0;
    std::chrono::steady_clock::time_point last_at{};
    /// Runs while the stream waits for its log file.
    std::unique_ptr<boost::asio::steady_timer> stall_timer;
    bool stalled = false;
  };

  struct Worker {
    UniqueFd child_out;
    UniqueFd child_err;
    int rank = 0;
    /// Whether lines of the worker's stderr have no prefix on the console.
    bool nameless = false;
    /// The worker's streams; null where the worker has our own. `err` is null as well where both are one.
    std::shared_ptr<Stream> out;
    std::shared_ptr<Stream> err;
    bool gone = false;
  };

  /// A wait for streams to be closed.
  struct Drain {
    explicit Drain(const boost::asio::any_io_executor& executor) : timer(executor) {}

    boost::asio::steady_timer timer;
    bool every_stream = false;
  };

  /// Whether our stdout and stderr are one and the same.
  bool one_console() const;
  Console& console_for(StreamBits stream);
  std::string make_directories(int round, int local_rank);
  std::shared_ptr<Stream> open_stream(StreamBits bit, const StreamRoute& route, const LinePrefix& prefix,
                                      const std::string& log_path, UniqueFd& child_end);
  void add_filter(Stream& stream, StreamBits bit, const LinePrefix& prefix);
  PrefixTime prefix_time() const;
  void begin_round(int round);
  std::shared_ptr<std::vector<char>> buffer_for(std::size_t prefix_size);

  void deliver(Stream& stream, std::string_view bytes);
  bool blocked(const std::shared_ptr<Stream>& stream);
  void stall(const std::shared_ptr<Stream>& stream);
  void closed(Stream& stream);
  bool drained(bool every_stream) const;
  void check_drains();
  void start_drain(std::chrono::milliseconds at_most, bool every_stream, std::function<void()> done);

  void watch();
  void on_wake();
  void stop_writers(std::chrono::milliseconds at_most, std::function<void()> done);
  bool writers_ended() const;
  void note(const std::string& text);
  StreamEnds open_ends(const StreamRoute& route, int ours);

  template <typename Function>
  void for_each_stream(Function function) const {
    for (const auto& [rank, worker] : workers_)
      for (const auto& stream : {worker.out, worker.err})
        if (stream) function(stream);
  }

  /// Stops everything without waiting for it.
  void abandon();

  boost::asio::any_io_executor executor_;
  OutputSpec spec_;
  OutputNames names_;
  int worker_count_;
  const std::chrono::steady_clock::time_point began_ = std::chrono::steady_clock::now();
  StandardStreams ours_;

  /// Shared with the helper threads, so that a thread that is abandoned in a blocked write can still use it
  /// when it comes back, long after the executor is gone.
  std::shared_ptr<WakeUp> wake_up_;
  boost::asio::posix::stream_descriptor wake_stream_;
  bool watching_ = false;
  bool abandoned_ = false;
  std::unique_ptr<Console> out_console_;
  /// The console for stderr; null where stdout and stderr are one and the same, which out_console_ serves.
  std::unique_ptr<Console> err_console_;
  std::unique_ptr<LogWriter> logs_;
  UniqueFd null_device_;

  int round_ = -1;
  std::string attempt_dir_;
  /// Of the worker whose streams are being opened.
  std::string frame_prefix_;
  std::optional<LogWriter::File> filtered_out_;
  std::optional<LogWriter::File> filtered_err_;
  std::map<int, Worker> workers_;
  std::map<std::size_t, std::shared_ptr<std::vector<char>>> buffers_;
  std::vector<std::shared_ptr<Drain>> drains_;
  /// The timer of finish() while it waits for the writers.
  std::unique_ptr<boost::asio::steady_timer> finish_timer_;
  std::vector<std::string> notes_;
};

}  // namespace muster::agent
