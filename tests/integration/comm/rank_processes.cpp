// SPDX-License-Identifier: Apache-2.0
#include "tests/integration/comm/rank_processes.hpp"

#include "rendezvous/server/store/store_server.hpp"
#include "worker_sdk/store/tcp_store.hpp"

#include <boost/asio/io_context.hpp>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <stdexcept>

namespace muster::test {
namespace {

/// In a rank: the pipe to the test.
int g_report_pipe = -1;

struct Report {
  double ended_at = 0;
  int code = 0;
  char text[2000] = {};
};

constexpr char kSignal = 'S';
constexpr char kReport = 'R';

void write_all(int fd, const void* data, std::size_t bytes) {
  if (write(fd, data, bytes) != static_cast<ssize_t>(bytes)) _exit(99);
}

bool read_all(int fd, void* data, std::size_t bytes) {
  auto* next = static_cast<char*>(data);
  while (bytes > 0) {
    const ssize_t got = read(fd, next, bytes);
    if (got <= 0) return false;
    next += got;
    bytes -= static_cast<std::size_t>(got);
  }
  return true;
}

[[noreturn]] void serve(int port_pipe) {
  boost::asio::io_context context;
  const rendezvous::StoreServer server(context.get_executor(), {});
  const int port = server.endpoint().port();
  write_all(port_pipe, &port, sizeof(port));
  context.run();
  _exit(0);
}

[[noreturn]] void run_rank(int rank, int port, const RankBody& body) {
  Report report;
  std::string text;
  try {
    const auto store = connect_store("127.0.0.1", port);
    text = body(rank, *store);
  } catch (const Error& error) {
    report.code = static_cast<int>(error.code());
    text = error.what();
  } catch (const std::exception& error) {
    report.code = static_cast<int>(ErrorCode::backend);
    text = std::string("unexpected: ") + error.what();
  }
  report.ended_at = monotonic_seconds();
  std::strncpy(report.text, text.c_str(), sizeof(report.text) - 1);
  write_all(g_report_pipe, &kReport, 1);
  write_all(g_report_pipe, &report, sizeof(report));
  _exit(0);
}

}  // namespace

double monotonic_seconds() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) * 1e-9;
}

StoreProcess::StoreProcess() {
  int ends[2];
  if (pipe(ends) != 0) throw std::runtime_error("pipe");
  pid_ = fork();
  if (pid_ == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    serve(ends[1]);
  }
  close(ends[1]);
  if (!read_all(ends[0], &port_, sizeof(port_))) throw std::runtime_error("the store server did not start");
  close(ends[0]);
}

StoreProcess::~StoreProcess() {
  kill(pid_, SIGKILL);
  waitpid(pid_, nullptr, 0);
}

void StoreProcess::stop() const {
  kill(pid_, SIGSTOP);
}

RankProcesses::RankProcesses(int size, int port, const RankBody& body) {
  for (int rank = 0; rank < size; ++rank) {
    int ends[2];
    if (pipe(ends) != 0) throw std::runtime_error("pipe");
    const pid_t pid = fork();
    if (pid == 0) {
      prctl(PR_SET_PDEATHSIG, SIGKILL);
      g_report_pipe = ends[1];
      run_rank(rank, port, body);
    }
    close(ends[1]);
    ranks_.push_back({pid, ends[0]});
  }
}

RankProcesses::~RankProcesses() {
  for (const Rank& rank : ranks_) {
    if (rank.pid > 0) {
      kill(rank.pid, SIGKILL);
      waitpid(rank.pid, nullptr, 0);
    }
    close(rank.pipe);
  }
}

void RankProcesses::wait_for_signal(int rank) const {
  char byte = 0;
  if (!read_all(ranks_[static_cast<std::size_t>(rank)].pipe, &byte, 1) || byte != kSignal)
    throw std::runtime_error("rank " + std::to_string(rank) + " ended before its signal");
}

void RankProcesses::kill_rank(int rank) const {
  kill(pid(rank), SIGKILL);
}

void RankProcesses::wait_for_end(int rank) const {
  siginfo_t info{};
  waitid(P_PID, static_cast<id_t>(pid(rank)), &info, WEXITED | WNOWAIT);
}

std::vector<RankResult> RankProcesses::wait() {
  return wait_but(-1);
}

std::vector<RankResult> RankProcesses::wait_but(int rank) {
  std::vector<RankResult> results(ranks_.size());
  for (std::size_t i = 0; i < ranks_.size(); ++i)
    if (static_cast<int>(i) != rank) results[i] = wait_for(ranks_[i]);
  if (rank < 0) return results;
  kill_rank(rank);
  results[static_cast<std::size_t>(rank)] = wait_for(ranks_[static_cast<std::size_t>(rank)]);
  return results;
}

RankResult RankProcesses::wait_for(Rank& rank) {
  RankResult result;
  char kind = 0;
  while (read_all(rank.pipe, &kind, 1) && kind == kSignal) {
  }
  Report report;
  if (kind == kReport && read_all(rank.pipe, &report, sizeof(report))) {
    result.text = report.text;
    result.ended_at = report.ended_at;
    if (report.code != 0) result.code = static_cast<ErrorCode>(report.code);
  }
  int status = 0;
  waitpid(rank.pid, &status, 0);
  rank.pid = -1;
  result.killed = WIFSIGNALED(status);
  if (result.killed && result.text.empty())
    result.text = "killed by signal " + std::to_string(WTERMSIG(status));
  return result;
}

void signal_parent() {
  write_all(g_report_pipe, &kSignal, 1);
}

std::vector<RankResult> run_processes(int size, int port, const RankBody& body) {
  return RankProcesses(size, port, body).wait();
}

}  // namespace muster::test
