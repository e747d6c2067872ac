// SPDX-License-Identifier: Apache-2.0
// What stands behind WorkerOutput. Included by its implementation only.
#pragma once

#include "agent/core/output/last_lines.hpp"
#include "agent/core/output/line_filter.hpp"
#include "agent/process/output/console.hpp"
#include "agent/process/output/log_writer.hpp"
#include "agent/process/output/stream_pump.hpp"
#include "agent/process/output/terminal.hpp"
#include "agent/process/output/worker_output.hpp"

#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/steady_timer.hpp>

#include <cstddef>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace muster::agent {

/// All streams of all workers of one agent. The functions of the same names are described at WorkerOutput.
class OutputRoom : public std::enable_shared_from_this<OutputRoom> {
 public:
  OutputRoom(const boost::asio::any_io_executor& executor, OutputSpec spec, OutputNames names, int workers,
             StandardStreams ours);

  WorkerStreams open(int round, int local_rank, int rank);
  void started(int local_rank);
  void exited(int local_rank);
  void drain(std::chrono::milliseconds at_most, std::function<void()> done);
  void finish(std::chrono::milliseconds at_most, std::function<void()> done);
  std::vector<std::string> last_lines(int local_rank) const;
  void resize();
  std::vector<std::string> notes() const;
  /// Stops everything without waiting for it.
  void abandon();

 private:
  /// Where one stream of a worker goes.
  struct Route {
    bool inherit = false;
    bool to_file = false;
    bool to_console = false;
    bool teed = false;
    /// Each line of it on the console has a prefix.
    bool prefixed = false;
    bool pty = false;
    /// Goes to the console and nowhere else, as it is.
    bool plain = false;
  };

  struct Stream {
    std::shared_ptr<StreamPump> pump;
    bool is_pty = false;
    Console* console = nullptr;
    Console::Source source = 0;
    std::optional<LogWriter::File> log;
    std::unique_ptr<LineFilter> filter;
    std::optional<LogWriter::File> filtered_log;
    LastLines last_lines;
    /// Runs while the stream waits for its log file.
    std::unique_ptr<boost::asio::steady_timer> stall_timer;
    bool stalled = false;
  };

  struct Worker {
    UniqueFd child_out;
    UniqueFd child_err;
    /// Null where the worker has our own stream; `err` is null as well where both are one.
    std::shared_ptr<Stream> out;
    std::shared_ptr<Stream> err;
    bool gone = false;
  };

  /// Somebody waits for streams to be closed.
  struct Drain {
    explicit Drain(const boost::asio::any_io_executor& executor) : timer(executor) {}

    boost::asio::steady_timer timer;
    bool every_stream = false;
  };

  Route route(StreamBits stream, int local_rank) const;
  /// Our stdout and stderr are one and the same.
  bool one_console() const;
  Console& console_for(StreamBits stream);
  std::string make_directories(int round, int local_rank);
  std::shared_ptr<Stream> open_stream(StreamBits bit, const Route& route, const std::string& prefix,
                                      const std::string& log_path, UniqueFd& child_end);
  void add_filter(Stream& stream, StreamBits bit, const std::string& prefix);
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
  StreamEnds open_ends(const Route& route, int ours);

  template <typename Function>
  void for_each_stream(Function function) const {
    for (const auto& [rank, worker] : workers_)
      for (const auto& stream : {worker.out, worker.err})
        if (stream) function(stream);
  }

  boost::asio::any_io_executor executor_;
  OutputSpec spec_;
  OutputNames names_;
  int worker_count_;
  StandardStreams ours_;

  /// The helper threads share it, so that one that is abandoned in a blocked write can still use it when it
  /// comes back, long after the executor is gone.
  std::shared_ptr<WakeUp> wake_up_;
  boost::asio::posix::stream_descriptor wake_stream_;
  bool watching_ = false;
  bool abandoned_ = false;
  std::unique_ptr<Console> out_console_;
  /// Null where stdout and stderr are one and the same: out_console_ serves both.
  std::unique_ptr<Console> err_console_;
  std::unique_ptr<LogWriter> logs_;
  UniqueFd null_device_;

  int round_ = -1;
  std::string attempt_dir_;
  std::optional<LogWriter::File> filtered_out_;
  std::optional<LogWriter::File> filtered_err_;
  std::map<int, Worker> workers_;
  std::map<std::size_t, std::shared_ptr<std::vector<char>>> buffers_;
  std::vector<std::shared_ptr<Drain>> drains_;
  /// Set while finish() waits for the writers.
  std::unique_ptr<boost::asio::steady_timer> finish_timer_;
  std::vector<std::string> notes_;
};

}  // namespace muster::agent
