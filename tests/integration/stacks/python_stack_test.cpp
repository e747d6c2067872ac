// SPDX-License-Identifier: Apache-2.0
// Real interpreters, each that is on this machine, and processes that may not be read.
#include "agent/stacks/python_stack.hpp"

#include "agent/stacks/core/folded_stacks.hpp"
#include "catch.hpp"
#include "tests/integration/stacks/program.hpp"
#include "tests/support/folder.hpp"
#include "tests/support/skip.hpp"

#include <sys/prctl.h>
#include <sys/wait.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <set>

using namespace muster::agent;
using muster::agent::test::ask_until;
using muster::agent::test::Program;
using muster::test::Folder;

namespace {

/// Threads that sleep, wait for a lock, loop, and wait inside a callback of C code inside a generator. The
/// numbers of the lines are found by their comments.
constexpr const char* kThreads = R"(import sys, threading, time

lock = threading.Lock()
lock.acquire()
time_to_go = []


class Work:
    def sleeping(self):
        time.sleep(600)  # sleeping

    def locked(self):
        lock.acquire()  # locked

    def looping(self):
        while not time_to_go:  # looping
            pass  # looping


def compare(item):
    print("ready", flush=True)
    lock.acquire()  # compare


def generate():
    yield from sorted([2], key=compare)  # generate


def main():
    work = Work()
    for target in (work.sleeping, work.locked, work.looping):
        threading.Thread(target=target, daemon=True).start()
    for item in generate():  # main
        print(item)


main()  # module
)";

/// The main thread holds the lock of the interpreter in one call of C that has no end.
constexpr const char* kInC = R"(import threading, time

def sleeping():
    time.sleep(600)  # sleeping


def count():
    return sum(range(10**18))  # count


thread = threading.Thread(target=sleeping, daemon=True)
thread.start()
print("ready", flush=True)
count()  # module
)";

std::set<int> lines_of(const std::string& script, const std::string& comment) {
  std::set<int> lines;
  int line = 1;
  std::size_t begin = 0;
  while (begin < script.size()) {
    const std::size_t end = script.find('\n', begin);
    if (script.substr(begin, end - begin).ends_with("# " + comment)) lines.insert(line);
    ++line;
    begin = end + 1;
  }
  return lines;
}

/// Python programs by the version that they say they have, "3.11.2". MUSTER_TEST_PYTHONS names more, as PATH
/// does folders.
std::map<std::string, std::string> interpreters() {
  std::vector<std::string> paths = {"/usr/bin/python3", "/usr/local/bin/python3"};
  for (const char* const name : {"MUSTER_TORCH_PYTHON", "MUSTER_TEST_PYTHONS"}) {
    std::string rest = std::getenv(name) != nullptr ? std::getenv(name) : "";
    while (!rest.empty()) {
      paths.push_back(rest.substr(0, rest.find(':')));
      rest.erase(0, paths.back().size() + 1);
    }
  }
  const char* const home = std::getenv("HOME");
  std::error_code none;
  const std::filesystem::path versions =
      std::filesystem::path(home != nullptr ? home : "/") / ".pyenv/versions";
  for (const auto& entry : std::filesystem::directory_iterator(versions, none))
    paths.push_back(entry.path() / "bin/python3");
  std::map<std::string, std::string> found;
  for (const std::string& path : paths) {
    if (!std::filesystem::exists(path, none)) continue;
    const std::string command =
        "'" + path + "' -c 'import platform; print(platform.python_version())' 2>/dev/null";
    FILE* const pipe = ::popen(command.c_str(), "r");
    char version[64] = {};
    const bool said = pipe != nullptr && std::fgets(version, sizeof version, pipe) != nullptr;
    if (pipe != nullptr) ::pclose(pipe);
    std::string text = version;
    text.erase(std::find(text.begin(), text.end(), '\n'), text.end());
    if (said) found.emplace(path == "/usr/bin/python3" ? text + " (system)" : text, path);
  }
  return found;
}

int minor_of(const std::string& version) {
  return std::atoi(version.c_str() + 2);
}

StackDeadline soon() {
  return StackDeadline::clock::now() + std::chrono::seconds(10);
}

std::string text_of(const ProcessStacks& stacks) {
  std::string text = stacks.python + " " + stacks.error;
  for (const ThreadStack& thread : stacks.threads) {
    text += "\n" + std::to_string(thread.tid) + (thread.is_main ? " main" : "") +
            (thread.holds_gil ? " GIL" : "") + (thread.approximate ? " approximate" : "");
    for (const Frame& frame : thread.frames)
      text += "\n  " + frame.file + ":" + std::to_string(frame.line) + " " + frame.function;
  }
  return text;
}

/// The innermost frame of the script, by the name of its function; the class is left out.
std::map<std::string, const ThreadStack*> by_function(const ProcessStacks& stacks) {
  std::map<std::string, const ThreadStack*> found;
  for (const ThreadStack& thread : stacks.threads) {
    const std::size_t own = own_frame(thread.frames);
    if (own == thread.frames.size()) continue;
    const std::string& name = thread.frames[own].function;
    found[name.substr(name.find('.') == std::string::npos ? 0 : name.find('.') + 1)] = &thread;
  }
  return found;
}

/// Waits until every thread has come to where it stays: the line that has the function's name as comment.
ProcessStacks stacks_when(const Program& program, PythonStackReader& reader, const std::string& script,
                          const std::vector<std::string>& functions) {
  return ask_until([&] { return reader.read(program.pid(), soon()); },
                   [&](const ProcessStacks& stacks) {
                     const auto found = by_function(stacks);
                     return std::all_of(functions.begin(), functions.end(), [&](const std::string& name) {
                       if (found.count(name) == 0 || found.at(name)->approximate) return false;
                       const std::vector<Frame>& frames = found.at(name)->frames;
                       return lines_of(script, name).count(frames[own_frame(frames)].line) != 0;
                     });
                   });
}

void check_frame(const Frame& frame, const std::string& file, const std::set<int>& lines,
                 const std::string& function) {
  CHECK(frame.file == file);
  CHECK(lines.count(frame.line) == 1);
  CHECK(frame.function == function);
}

}  // namespace

TEST_CASE("Every interpreter's threads are read with file, line and function, and the GIL's holder") {
  const Folder folder;
  const std::string script = folder.write("threads.py", kThreads);
  const auto found = interpreters();
  for (int minor = 9; minor <= 14; ++minor)
    if (std::none_of(found.begin(), found.end(),
                     [&](const auto& one) { return minor_of(one.first) == minor; }))
      WARN("not tried: there is no Python 3." << minor << " here");
  for (const auto& [version, python] : found) {
    const int minor = minor_of(version);
    if (minor < 9 || minor > 14) continue;
    WARN("tried: " << version << ", " << python);
    const Program program({python, script});
    PythonStackReader reader;
    const ProcessStacks stacks =
        stacks_when(program, reader, kThreads, {"sleeping", "locked", "looping", "compare"});
    INFO(text_of(stacks));
    CHECK(stacks.error.empty());
    CHECK(version.starts_with(stacks.python));
    REQUIRE(stacks.threads.size() == 4);
    const auto threads = by_function(stacks);
    const std::string prefix = minor >= 11 ? "Work." : "";
    for (const std::string name : {"sleeping", "locked", "looping"}) {
      REQUIRE(threads.count(name) == 1);
      const ThreadStack& thread = *threads.at(name);
      check_frame(thread.frames.at(0), script, lines_of(kThreads, name), prefix + name);
      CHECK(thread.frames.size() == 4);  // run, _bootstrap_inner, _bootstrap of threading.py
      CHECK(is_library_file(thread.frames.at(3).file));
      CHECK_FALSE(thread.is_main);
      CHECK(thread.tid != 0);
      CHECK(thread.tid != program.pid());
      CHECK_FALSE(thread.truncated);
    }
    const ThreadStack& main = *threads.at("compare");
    REQUIRE(main.frames.size() == 4);
    const char* const calls[] = {"compare", "generate", "main", "<module>"};
    for (std::size_t i = 0; i < 4; ++i)
      check_frame(main.frames[i], script, lines_of(kThreads, i == 3 ? "module" : calls[i]), calls[i]);
    CHECK(main.is_main);
    CHECK(main.tid == program.pid());
    CHECK_FALSE(main.holds_gil);
    // The only thread that runs has the lock, but for moments.
    const ProcessStacks held =
        ask_until([&] { return reader.read(program.pid(), soon()); },
                  [&](const ProcessStacks& now) {
                    const auto all = by_function(now);
                    return minor < 11 || (all.count("looping") != 0 && all.at("looping")->holds_gil);
                  });
    CHECK(by_function(held).at("looping")->holds_gil == (minor >= 11));
  }
}

TEST_CASE("A thread inside a long call of C is read, and holds the GIL, in a file with any name") {
  const Folder folder;
  const std::string script = folder.write("in_\u8a9e.py", kInC);
  for (const auto& [version, python] : interpreters()) {
    const int minor = minor_of(version);
    if (minor < 9 || minor > 14) continue;
    const Program program({python, "-X", "utf8", script});
    PythonStackReader reader;
    stacks_when(program, reader, kInC, {"sleeping", "count"});
    // On a machine that is busy the thread may stand in the line of the call and wait for the lock yet.
    const ProcessStacks stacks =
        ask_until([&] { return reader.read(program.pid(), soon()); },
                  [&](const ProcessStacks& now) {
                    const auto all = by_function(now);
                    return all.count("count") != 0 && (minor < 11 || all.at("count")->holds_gil);
                  });
    INFO(version << " " << text_of(stacks));
    const auto threads = by_function(stacks);
    REQUIRE(threads.count("count") == 1);
    check_frame(threads.at("count")->frames.at(0), script, lines_of(kInC, "count"), "count");
    CHECK(threads.at("count")->is_main);
    CHECK(threads.at("count")->holds_gil == (minor >= 11));
    check_frame(threads.at("sleeping")->frames.at(0), script, lines_of(kInC, "sleeping"), "sleeping");
    CHECK_FALSE(threads.at("sleeping")->holds_gil);
  }
}

TEST_CASE("An interpreter whose file was replaced is read through what is left of it, or that is said") {
  const auto found = interpreters();
  const auto system = std::find_if(found.begin(), found.end(),
                                   [](const auto& one) { return one.second == "/usr/bin/python3"; });
  if (system == found.end()) return muster::test::skip("there is no /usr/bin/python3");
  const Folder folder;
  const std::string copy = folder / "python3";
  std::filesystem::copy_file(std::filesystem::canonical(system->second), copy);
  const std::string script = folder.write("threads.py", kThreads);
  const Program program({copy, script});
  std::filesystem::remove(copy);
  folder.write("python3", "not the program that runs");
  PythonStackReader reader;
  const ProcessStacks stacks = ask_until([&] { return reader.read(program.pid(), soon()); },
                                         [](const ProcessStacks& now) { return !now.threads.empty(); });
  INFO(text_of(stacks));
  CHECK(by_function(stacks).count("compare") == 1);
}

TEST_CASE("Programs without Python, and processes that have ended, are told apart") {
  PythonStackReader reader;
  const Program shell({"/bin/sh", "-c", "echo ready; sleep 600; true"});
  CHECK(reader.read(shell.pid(), soon()).error == kNoPython);
  const pid_t ended = ::fork();
  if (ended == 0) ::_exit(0);
  ::waitpid(ended, nullptr, 0);
  CHECK(reader.read(ended, soon()).error == "it has ended");
  CHECK(reader.read(ended, soon()).pid == ended);
}

TEST_CASE("A deadline that has passed ends it at once") {
  PythonStackReader reader;
  const auto found = interpreters();
  if (found.empty()) return muster::test::skip("there is no Python");
  const Folder folder;
  const Program program({found.begin()->second, folder.write("threads.py", kThreads)});
  CHECK(reader.read(program.pid(), StackDeadline::clock::now()).error == "the time for reading it was over");
}

namespace {

/// What a process without rights of its own is told of one that it may not read. `target` begins in it.
std::string refused(void (*target)()) {
  muster::test::Pipe answer;
  const pid_t reader = ::fork();
  if (reader == 0) {
    constexpr uid_t kNobody = 65534;
    if (::geteuid() == 0 &&
        (::setresgid(kNobody, kNobody, kNobody) != 0 || ::setresuid(kNobody, kNobody, kNobody) != 0))
      ::_exit(1);
    pid_t pid = ::getppid();
    muster::test::Pipe begun;
    if (target != nullptr) {
      pid = ::fork();
      if (pid == 0) {
        target();
        (void)!::write(begun.write.get(), "x", 1);
        for (;;) ::pause();
      }
      char byte = 0;
      (void)!::read(begun.read.get(), &byte, 1);
    }
    const std::string error = PythonStackReader().read(pid, soon()).error;
    (void)!::write(answer.write.get(), error.data(), error.size());
    if (target != nullptr) ::kill(pid, SIGKILL);
    ::_exit(0);
  }
  answer.write.reset();
  std::string text = muster::test::read_to_end(answer.read.get());
  ::waitpid(reader, nullptr, 0);
  return text;
}

}  // namespace

TEST_CASE("Another user's process is named as such") {
  if (::geteuid() != 0) return muster::test::skip("only root can be another user, too");
  CHECK(refused(nullptr) == "it belongs to another user (uid 0)");
}

TEST_CASE("A process that has made itself unreadable is named as such") {
  const std::string error = refused([] { ::prctl(PR_SET_DUMPABLE, 0); });
  CHECK(error.starts_with("it has made itself unreadable (not dumpable)"));
}
