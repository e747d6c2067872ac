// SPDX-License-Identifier: Apache-2.0
#include "launcher/console/log_files.hpp"

#include "catch.hpp"
#include "folder.hpp"

#include <sys/stat.h>

#include <filesystem>
#include <string>
#include <vector>

namespace log_files_test {

using namespace muster::launcher;
using muster::test::Folder;
using muster::test::write_file;

namespace {

/// Makes the folder of a rank, and writes its stdout.
void print(const Folder& folder, const std::string& of_rank, const std::string& text) {
  std::filesystem::create_directories(folder / of_rank);
  write_file(folder / (of_rank + "/stdout.log"), text);
}

/// What is new, as "ROUND RANK TEXT", with "+" behind a line that goes on.
std::vector<std::string> news(LogFiles& files) {
  std::vector<std::string> lines;
  files.read([&lines](const std::vector<ConsoleRecord>& records) {
    for (const ConsoleRecord& record : records)
      lines.push_back(std::to_string(record.round) + " " + std::to_string(record.rank) + " " + record.text +
                      (record.ends_line ? "" : "+"));
  });
  return lines;
}

using Lines = std::vector<std::string>;

}  // namespace

TEST_CASE("Log files are read as they grow, and each line once") {
  const Folder folder;
  LogFiles files(folder.path(), {});
  CHECK(news(files).empty());
  CHECK_FALSE(files.found());
  print(folder, "attempt_0/0", "a\nb");
  CHECK(news(files) == Lines{"0 0 a", "0 0 b+"});
  CHECK(files.found());
  CHECK(news(files).empty());
  print(folder, "attempt_0/0", "a\nb and c\n");
  print(folder, "attempt_0/1", "one\n");
  CHECK(news(files) == Lines{"0 0  and c", "0 1 one"});
}

TEST_CASE("A round is read to its end when the next one has begun, and what was removed is read, too") {
  const Folder folder;
  LogFiles files(folder.path(), {});
  print(folder, "attempt_0/0", "a\n");
  CHECK(news(files) == Lines{"0 0 a"});
  print(folder, "attempt_0/0", "a\nlast\n");
  print(folder, "attempt_1/0", "again\n");
  CHECK(news(files) == Lines{"0 0 last", "1 0 again"});
  print(folder, "attempt_1/0", "again\nend\n");
  std::filesystem::remove_all(folder / "attempt_0");
  std::filesystem::rename(folder / "attempt_1", folder / "gone");
  CHECK(news(files) == Lines{"1 0 end"});
}

TEST_CASE("Only those ranks and rounds are read that are wanted, and of an old file what is written later") {
  const Folder folder;
  print(folder, "attempt_0/0", "0\n");
  print(folder, "attempt_0/1", "1\n");
  print(folder, "attempt_1/1", "2\n");
  LogFiles rank(folder.path(), {{1}, 0, {}});
  CHECK(news(rank) == Lines{"0 1 1"});

  struct stat status {};

  REQUIRE(::stat((folder / "attempt_1/1/stdout.log").c_str(), &status) == 0);
  const std::int64_t later = (std::int64_t{status.st_mtim.tv_sec} + 100) * 1000;
  LogFiles since(folder.path(), {{}, {}, later});
  CHECK(news(since).empty());
  CHECK(since.found());
  print(folder, "attempt_1/1", "2\nnew\n");
  CHECK(news(since) == Lines{"1 1 new"});
}

TEST_CASE("What is no file of a worker is not read") {
  const Folder folder;
  print(folder, "elsewhere", "secret\n");
  std::filesystem::create_directories(folder / "attempt_0/0");
  std::filesystem::create_symlink(folder / "elsewhere/stdout.log", folder / "attempt_0/0/stdout.log");
  REQUIRE(::mkfifo((folder / "attempt_0/0/stderr.log").c_str(), 0600) == 0);
  print(folder, "attempt_x/0", "x\n");
  LogFiles files(folder.path(), {});
  CHECK(news(files).empty());
  CHECK_FALSE(files.found());
}

TEST_CASE("A log file of a bounded size is read on where the next one begins, and the one before it first") {
  const Folder folder;
  const std::string path = folder / "attempt_0/0/stdout.log";
  print(folder, "attempt_0/0", "second\n");
  write_file(path + ".1", "first\n");
  LogFiles files(folder.path(), {});
  CHECK(news(files) == Lines{"0 0 first", "0 0 second"});
  print(folder, "attempt_0/0", "second\nthird\n");
  std::filesystem::rename(path, path + ".1");
  print(folder, "attempt_0/0", "fourth\n");
  CHECK(news(files) == Lines{"0 0 third", "0 0 fourth"});
  CHECK(news(files).empty());
  std::filesystem::rename(path, path + ".1");
  CHECK(news(files).empty());
  print(folder, "attempt_0/0", "fifth\n");
  CHECK(news(files) == Lines{"0 0 fifth"});
  // Two files follow one another between two looks.
  std::filesystem::rename(path, path + ".1");
  print(folder, "attempt_0/0", "sixth\n");
  std::filesystem::rename(path, path + ".1");
  print(folder, "attempt_0/0", "seventh\n");
  CHECK(news(files) == Lines{"0 0 sixth", "0 0 seventh"});
}

}  // namespace log_files_test
