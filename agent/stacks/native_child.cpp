// SPDX-License-Identifier: Apache-2.0
#include "agent/stacks/native_child.hpp"

#include "agent/stacks/core/stacks_json.hpp"
#include "rendezvous/base/deadline.hpp"
#include "rendezvous/base/own_child.hpp"
#include "rendezvous/base/posix.hpp"
#include "rendezvous/base/signal_name.hpp"
#include "rendezvous/base/text.hpp"
#include "rendezvous/base/unique_fd.hpp"
#include "rendezvous/log/terminal_text.hpp"

#include <fcntl.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <new>
#include <optional>
#include <stdexcept>
#include <system_error>
#include <utility>

namespace muster::agent {
namespace {

using Json = nlohmann::json;

constexpr const char* kLate = "the time for reading it was over";
/// Most bytes that a child is believed to have told.
constexpr std::size_t kToldBytesMax = std::size_t{64} << 20;
/// Exit code of a child that got no more memory, or that left by libdw's exit(), which has this cause only.
constexpr int kNoMemory = 3;

/// Memory that a child shares with us: the path of the file that it reads, which is known after its end.
class FileAtHand {
 public:
  FileAtHand() {
    void* const place = ::mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (place == MAP_FAILED) throw std::bad_alloc();
    text_ = static_cast<char*>(place);
  }

  ~FileAtHand() { ::munmap(text_, kBytes); }

  FileAtHand(const FileAtHand&) = delete;
  FileAtHand& operator=(const FileAtHand&) = delete;

  void tell(const char* path) {
    const std::size_t size = ::strnlen(path, kBytes - 1);
    std::memcpy(text_, path, size);
    text_[size] = '\0';
  }

  void forget() { text_[0] = '\0'; }

  /// " while it read /usr/lib/libc.so.6"; empty: it read none.
  std::string words() const {
    const std::size_t size = ::strnlen(text_, kBytes - 1);
    return size == 0 ? "" : " while it read " + for_terminal(std::string(text_, size));
  }

 private:
  static constexpr std::size_t kBytes = 4096;
  char* text_ = nullptr;
};

/// What a child is to read.
struct Task {
  const Libdw& libdw;
  const NativeProcess& process;
  const std::vector<ThreadCopy>& copies;
  /// The first thread; those before it are answered.
  std::size_t first = 0;
};

void bound_memory() {
  // Fields of /proc/self/statm: size resident shared text lib data.
  const std::string text = read_file("/proc/self/statm", 256).value_or("");
  unsigned long pages = 0;
  if (std::sscanf(text.c_str(), "%*u %*u %*u %*u %*u %lu", &pages) != 1) return;
  const rlim_t bytes = pages * static_cast<unsigned long>(::sysconf(_SC_PAGESIZE));
  rlimit limit{};
  if (::getrlimit(RLIMIT_DATA, &limit) != 0) return;
  limit.rlim_cur = std::min<rlim_t>(limit.rlim_max, bytes + kNativeChildBytesMax);
  ::setrlimit(RLIMIT_DATA, &limit);
}

void send(const Json& json) {
  const std::string line = json.dump(-1, ' ', true, Json::error_handler_t::replace) + "\n";
  if (!write_all(OwnChild::kKept, line)) ::_exit(1);
}

void send(std::size_t number, const NativeThread& thread) {
  send(Json{{"number", number}, {"thread", thread}});
}

/// The child: tells all calls, and then those of each thread again, with their lines.
int read_in_child(const Task& task, FileAtHand& file) {
  bound_memory();
  // libdw calls exit() where it gets no memory, and what the parent does at its exit is none of ours.
  std::atexit([] { ::_exit(kNoMemory); });
  std::set_new_handler([] { ::_exit(kNoMemory); });
  std::vector<std::pair<std::size_t, NativeThread>> threads;
  try {
    NativeUnwinder unwinder(task.libdw, task.process.pid, task.process.maps,
                            [&file](const char* path) { file.tell(path); });
    for (std::size_t i = task.first; i < task.copies.size(); ++i) {
      if (!task.copies[i].error.empty()) continue;
      threads.emplace_back(i, unwinder.unwind(task.copies[i]));
      send(i, threads.back().second);
    }
    for (auto& [number, thread] : threads) {
      if (thread.frames.empty()) continue;
      unwinder.add_lines(thread);
      send(number, thread);
    }
    // Not destroyed: what libdw frees may be what it has destroyed.
    ::_exit(0);
  } catch (const std::runtime_error& trouble) {
    send(Json{{"error", trouble.what()}});
  }
  return 0;
}

std::string end_words(int status) {
  std::string text = "the process that read machine code ";
  if (!WIFSIGNALED(status)) {
    const int code = WEXITSTATUS(status);
    if (code == kNoMemory)
      return text + "got no more memory (" + std::to_string(kNativeChildBytesMax >> 20) + " MiB at most)";
    return text + "ended with exit code " + std::to_string(code);
  }
  const int signal = WTERMSIG(status);
  const char* const name = signal_abbreviation(signal);
  return text + "was ended by " + (name != nullptr ? "SIG" + std::string(name) : std::to_string(signal));
}

/// What is known of the threads, while children read them.
class Answers {
 public:
  Answers(const std::vector<ThreadCopy>& copies, NativeStacks stacks) : stacks_(std::move(stacks)) {
    for (const ThreadCopy& copy : copies) {
      NativeThread& thread = stacks_.threads.emplace_back();
      thread.tid = copy.tid;
      thread.name = copy.name;
      thread.error = copy.error.empty() ? kLate : copy.error;
      answered_.push_back(!copy.error.empty());
    }
  }

  /// Returns the first thread of which nothing is known; none: all are answered.
  std::optional<std::size_t> open() const {
    const auto found = std::find(answered_.begin(), answered_.end(), false);
    if (found == answered_.end()) return std::nullopt;
    return static_cast<std::size_t>(found - answered_.begin());
  }

  /// Takes a line of a child, whose word counts for what it was asked only. Returns whether it makes sense.
  bool take(std::string_view line) {
    try {
      const Json json = Json::parse(line);
      if (const auto error = json.find("error"); error != json.end()) {
        trouble_ = for_terminal(error->get<std::string>());
        return true;
      }
      const auto number = json.at("number").get<std::size_t>();
      auto thread = json.at("thread").get<NativeThread>();
      if (number >= answered_.size() || thread.tid != stacks_.threads[number].tid) return false;
      stacks_.threads[number] = std::move(thread);
      answered_[number] = true;
      return true;
    } catch (const Json::exception&) {
      return false;
    }
  }

  /// The child that read this thread has ended early.
  void fail(std::size_t number, const std::string& why) {
    stacks_.threads[number].error = why;
    answered_[number] = true;
  }

  void fail_all(const std::string& why) {
    while (const auto number = open()) fail(*number, why);
  }

  void add_error(const std::string& text) { stacks_.error += (stacks_.error.empty() ? "" : "; ") + text; }

  /// Why libdw can do nothing; empty: it can.
  const std::string& trouble() const { return trouble_; }

  /// If no thread could be read, for one reason, this is told once.
  NativeStacks folded() const {
    NativeStacks stacks = stacks_;
    if (stacks.threads.empty()) return stacks;
    const std::string first = stacks.threads.front().error;
    if (first.empty() || !std::all_of(stacks.threads.begin(), stacks.threads.end(),
                                      [&first](const NativeThread& one) { return one.error == first; }))
      return stacks;
    stacks.error = first + (stacks.error.empty() ? "" : "; " + stacks.error);
    stacks.threads.clear();
    return stacks;
  }

 private:
  NativeStacks stacks_;
  std::vector<bool> answered_;
  std::string trouble_;
};

/// Takes what a child tells until it closes the pipe, makes no sense, or the deadline passes. Returns whether
/// the child has closed it.
bool listen(int fd, StackDeadline deadline, Answers& answers, const std::function<void(NativeStacks)>& show) {
  std::string text;
  std::size_t told = 0;
  std::vector<char> piece(std::size_t{64} << 10);
  while (told < kToldBytesMax) {
    pollfd readable{fd, POLLIN, 0};
    const int ready = ::poll(&readable, 1, poll_time(deadline));
    if (ready < 0 && errno == EINTR) continue;
    if (ready <= 0) return false;
    const ssize_t count = ::read(fd, piece.data(), piece.size());
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return count == 0;
    told += static_cast<std::size_t>(count);
    text.append(piece.data(), static_cast<std::size_t>(count));
    std::size_t begin = 0;
    for (std::size_t end = 0; (end = text.find('\n', begin)) != std::string::npos; begin = end + 1)
      if (!answers.take(std::string_view(text).substr(begin, end - begin))) {
        answers.fail_all("the process that read machine code made no sense");
        return false;
      }
    text.erase(0, begin);
    show(answers.folded());
  }
  return false;
}

/// Lets one child read. Returns what it ended with if it ended by itself; nullopt: it was killed, as it was
/// late or made no sense.
std::optional<int> read_once(const Task& task, StackDeadline deadline, FileAtHand& file, Answers& answers,
                             const std::function<void(NativeStacks)>& show) {
  int ends[2] = {-1, -1};
  if (::pipe2(ends, O_CLOEXEC) != 0) throw_errno("pipe");
  const UniqueFd read_end(ends[0]);
  UniqueFd write_end(ends[1]);
  file.forget();
  OwnChild child(write_end.get(), [&] { return read_in_child(task, file); });
  write_end.reset();
  if (!listen(read_end.get(), deadline, answers, show)) return std::nullopt;
  return child.wait();
}

}  // namespace

void unwind_apart(const Libdw& libdw, const NativeProcess& process, const std::vector<ThreadCopy>& copies,
                  StackDeadline deadline, NativeStacks stacks,
                  const std::function<void(NativeStacks)>& show) {
  Answers answers(copies, std::move(stacks));
  FileAtHand file;
  try {
    std::string why;
    for (int tried = 0; const auto first = answers.open(); ++tried) {
      if (StackDeadline::clock::now() >= deadline) break;
      if (tried == kNativeChildrenMax) {
        answers.fail_all(why);
        break;
      }
      const auto status = read_once({libdw, process, copies, *first}, deadline, file, answers, show);
      if (!answers.trouble().empty()) answers.fail_all(answers.trouble());
      if (!status || *status == 0) break;
      why = end_words(*status) + file.words();
      if (const auto culprit = answers.open())
        answers.fail(*culprit, why);
      else
        answers.add_error("source lines are missing: " + why);
    }
  } catch (const std::system_error& error) {
    answers.fail_all(std::string("no process could be started to read machine code: ") + error.what());
  }
  show(answers.folded());
}

}  // namespace muster::agent
