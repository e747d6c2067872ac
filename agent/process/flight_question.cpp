// SPDX-License-Identifier: Apache-2.0
#include "agent/process/flight_question.hpp"

#include "agent/core/flight_record.hpp"
#include "agent/core/http_answer.hpp"
#include "rendezvous/base/posix.hpp"
#include "rendezvous/base/unique_fd.hpp"

#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <optional>
#include <stdexcept>
#include <string_view>
#include <thread>
#include <tuple>

namespace muster::agent {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

constexpr std::string_view kQuestion =
    "POST /handler/fr_trace_json HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\nConnection: "
    "close\r\n\r\n";
/// After so long it is looked whether to go on, and whether a file has changed.
constexpr milliseconds kLookEach{50};
constexpr std::size_t kReadBytes = std::size_t{64} << 10U;

/// A connection to the control plane of one rank, with the question on its way.
UniqueFd ask_socket(const FlightSource& source) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (source.socket.empty() || source.socket.size() >= sizeof address.sun_path) return UniqueFd();
  std::memcpy(address.sun_path, source.socket.data(), source.socket.size());
  UniqueFd fd(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!fd || ::connect(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0)
    return UniqueFd();
  ucred peer{};
  socklen_t size = sizeof peer;
  if (::getsockopt(fd.get(), SOL_SOCKET, SO_PEERCRED, &peer, &size) != 0 || peer.uid != ::geteuid() ||
      std::find(source.pids.begin(), source.pids.end(), peer.pid) == source.pids.end())
    return UniqueFd();
  // A fresh connection takes some hundred bytes at once, or there is something wrong with it.
  const ssize_t sent = ::send(fd.get(), kQuestion.data(), kQuestion.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
  return sent == static_cast<ssize_t>(kQuestion.size()) ? std::move(fd) : UniqueFd();
}

struct Conversation {
  int rank = 0;
  UniqueFd fd;
  std::string answer{};
};

/// Takes what has come. The connection is closed when there is nothing more to read.
void read_some(Conversation& one, std::size_t& bytes_of_all) {
  std::array<char, kReadBytes> piece{};
  const ssize_t got = ::recv(one.fd.get(), piece.data(), piece.size(), MSG_DONTWAIT);
  if (got < 0 && (errno == EAGAIN || errno == EINTR)) return;
  const auto count = got > 0 ? static_cast<std::size_t>(got) : 0;
  bytes_of_all += count;
  if (one.answer.size() + count > kControlPlaneBytesMax || bytes_of_all > kControlPlaneBytesOfAllMax) {
    one.answer.clear();
    one.fd.reset();
    return;
  }
  one.answer.append(piece.data(), count);
  if (count == 0 || http_body(one.answer)) one.fd.reset();
}

void wait_for_answers(std::vector<Conversation>& conversations, const std::function<bool()>& go_on) {
  const auto deadline = Clock::now() + kControlPlaneAnswersWithin;
  std::size_t bytes_of_all = 0;
  while (Clock::now() < deadline && go_on()) {
    std::vector<pollfd> waits;
    std::vector<Conversation*> waiting;
    for (Conversation& one : conversations) {
      if (!one.fd) continue;
      waits.push_back({one.fd.get(), POLLIN, 0});
      waiting.push_back(&one);
    }
    if (waits.empty()) return;
    if (::poll(waits.data(), waits.size(), static_cast<int>(kLookEach.count())) <= 0) continue;
    for (std::size_t i = 0; i < waits.size(); ++i)
      if (waits[i].revents != 0) read_some(*waiting[i], bytes_of_all);
  }
}

/// Adds what `bytes` say, if that can be read: an older version, or half a file, is nothing.
bool add_answer(std::vector<FlightAnswer>& answers, std::string_view bytes, int rank, bool by_pipe,
                const std::function<bool()>& go_on) {
  try {
    const auto read = by_pipe ? read_flight_record : read_flight_json;
    answers.push_back({read(bytes, rank, go_on), by_pipe});
    return true;
  } catch (const std::invalid_argument&) {
    return false;
  }
}

/// What tells one content of a file from another.
using FileState = std::tuple<ino_t, off_t, time_t, long>;

FileState state_of(const std::string& path) {
  struct stat file {};

  if (::stat(path.c_str(), &file) != 0 || !S_ISREG(file.st_mode)) return {};
  return {file.st_ino, file.st_size, file.st_mtim.tv_sec, file.st_mtim.tv_nsec};
}

/// Writes a byte to the pipe. Returns false if nobody reads there.
bool ask_pipe(const std::string& path) {
  const UniqueFd fd(::open(path.c_str(), O_WRONLY | O_NONBLOCK | O_NOFOLLOW | O_CLOEXEC));

  struct stat pipe {};

  if (!fd || ::fstat(fd.get(), &pipe) != 0 || !S_ISFIFO(pipe.st_mode) || pipe.st_uid != ::geteuid())
    return false;
  return ::write(fd.get(), "d", 1) == 1;
}

struct AwaitedFile {
  const FlightSource* source = nullptr;
  FileState before{};
  bool has_come = false;
};

std::vector<AwaitedFile> ask_pipes(const std::vector<FlightSource>& sources) {
  std::vector<AwaitedFile> asked;
  for (const FlightSource& source : sources) {
    if (source.pipe.empty() || source.file.empty()) continue;
    const FileState before = state_of(source.file);
    if (ask_pipe(source.pipe)) asked.push_back({&source, before});
  }
  return asked;
}

void wait_for_files(std::vector<AwaitedFile> awaited, FlightAnswers& all,
                    const std::function<bool()>& go_on) {
  const auto deadline = Clock::now() + kFlightFilesWithin;
  while (!awaited.empty() && Clock::now() < deadline && go_on()) {
    for (AwaitedFile& one : awaited) {
      const FileState now = state_of(one.source->file);
      if (now == one.before || now == FileState{}) continue;
      one.before = now;
      const auto bytes = read_file(one.source->file, kFlightFileBytesMax);
      one.has_come = bytes && add_answer(all.answers, *bytes, one.source->rank, true, go_on);
    }
    std::erase_if(awaited, [](const AwaitedFile& one) { return one.has_come; });
    if (!awaited.empty()) std::this_thread::sleep_for(kLookEach);
  }
  for (const AwaitedFile& one : awaited) all.late.push_back(one.source->rank);
}

}  // namespace

FlightAnswers ask_flight_recorders(const std::vector<FlightSource>& sources,
                                   const std::function<bool()>& go_on) {
  FlightAnswers all;
  std::vector<AwaitedFile> files = ask_pipes(sources);
  std::vector<Conversation> conversations;
  for (const FlightSource& source : sources)
    if (UniqueFd fd = ask_socket(source)) conversations.push_back({source.rank, std::move(fd)});
  wait_for_answers(conversations, go_on);
  for (Conversation& one : conversations) {
    if (const auto body = http_body(one.answer))
      add_answer(all.answers, *body, one.rank, false, go_on);
    else
      all.late.push_back(one.rank);
    one.answer = {};
  }
  wait_for_files(std::move(files), all, go_on);
  return all;
}

}  // namespace muster::agent
