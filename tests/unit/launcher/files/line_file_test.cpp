// SPDX-License-Identifier: Apache-2.0
#include "launcher/files/line_file.hpp"

#include "catch.hpp"
#include "launcher/files/writer_thread.hpp"
#include "rendezvous/base/posix.hpp"
#include "tests/support/folder.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

namespace line_file_test {

using namespace muster::launcher;
using namespace std::chrono_literals;

namespace {

std::string text_of(const std::string& path) {
  return muster::read_file(path).value_or("(none)");
}

const std::atomic<bool> kStay{false};

}  // namespace

TEST_CASE("Lines are appended to what others have written, and a new file is its user's alone") {
  const muster::test::Folder folder;
  const std::string path = folder.path() + "/events";
  LineFile file(path);
  CHECK(file.append("one\n", kStay).empty());

  struct stat status {};

  REQUIRE(::stat(path.c_str(), &status) == 0);
  CHECK((status.st_mode & 0777U) == 0600U);
  const muster::UniqueFd other(::open(path.c_str(), O_WRONLY | O_APPEND | O_CLOEXEC));
  REQUIRE(muster::write_all(other.get(), "theirs\n"));
  CHECK(file.append("two\n", kStay).empty());
  CHECK(text_of(path) == "one\ntheirs\ntwo\n");
}

TEST_CASE("A link of the user's stays, and what cannot be written is told") {
  const muster::test::Folder folder;
  REQUIRE(::symlink("target", (folder.path() + "/link").c_str()) == 0);
  LineFile file(folder.path() + "/link");
  CHECK(file.append("one\n", kStay).empty());
  CHECK(text_of(folder.path() + "/target") == "one\n");
  CHECK_FALSE(LineFile(folder.path()).append("x\n", kStay).empty());
  CHECK_FALSE(LineFile(folder.path() + "/no/file").append("x\n", kStay).empty());
  CHECK(LineFile("/dev/full").append("x\n", kStay) == "No space left on device");
}

TEST_CASE("A pipe that nobody reads loses lines, and one that is full is waited for until the end") {
  const muster::test::Folder folder;
  const std::string path = folder.path() + "/pipe";
  REQUIRE(::mkfifo(path.c_str(), 0600) == 0);
  LineFile file(path);
  CHECK(file.append("lost\n", kStay) == "nobody reads it");
  const muster::UniqueFd reader(::open(path.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC));
  CHECK(file.append("seen\n", kStay).empty());
  char bytes[16] = {};
  CHECK(::read(reader.get(), bytes, sizeof bytes) == 5);
  const std::atomic<bool> leave{true};
  std::string why;
  for (int i = 0; i < 100 && why.empty(); ++i) why = file.append(std::string(4095, 'x') + "\n", leave);
  CHECK(why == "it takes nothing for a while");
}

TEST_CASE("A writer that is held up holds up nobody, and what is left is counted") {
  const auto hold = std::make_shared<std::mutex>();
  hold->lock();
  WriterThread writer(
      [hold](const std::string&, const std::atomic<bool>&) {
        const std::unique_lock lock(*hold);
        return std::string();
      },
      4, WriterThread::Full::drop_it);
  for (int i = 0; i < 10; ++i) writer.give("line");
  const auto begin = std::chrono::steady_clock::now();
  const WriterThread::Loss loss = writer.finish(50ms);
  // The lock is held for as long as the test likes.
  CHECK(std::chrono::steady_clock::now() - begin < 20s);
  // Four wait, one may be with the writer, and for the others there was no room.
  CHECK(loss.texts == 10);
  CHECK(loss.cause == "it takes nothing for a while");
  hold->unlock();
}

TEST_CASE("All that was given is written in order before the end, and failures are counted") {
  const auto written = std::make_shared<std::vector<std::string>>();
  WriterThread writer(
      [written](const std::string& text, const std::atomic<bool>&) {
        written->push_back(text);
        return text == "b" ? std::string("no") : std::string();
      },
      16, WriterThread::Full::drop_it);
  for (const char* text : {"a", "b", "c"}) writer.give(text);
  const WriterThread::Loss loss = writer.finish(20s);
  CHECK(*written == std::vector<std::string>{"a", "b", "c"});
  CHECK((loss.texts == 1 && loss.cause == "no"));
}

}  // namespace line_file_test
