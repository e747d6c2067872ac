// SPDX-License-Identifier: Apache-2.0
// The files of a console, written and read while they are written.
#include "launcher/console/core/console_files.hpp"

#include "catch.hpp"
#include "folder.hpp"
#include "launcher/console/console_follower.hpp"
#include "launcher/console/record_writer.hpp"
#include "launcher/core/launch_error.hpp"

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <string>

using namespace muster::launcher;
using muster::test::Folder;

namespace {

std::string line_at(int number, std::size_t size = 0) {
  ConsoleRecord record;
  record.time_ms = number;
  record.round = 0;
  record.rank = 0;
  record.text = std::to_string(number) + std::string(size, 'x');
  return to_line(record);
}

muster::UniqueFd open_folder(const Folder& folder) {
  return muster::UniqueFd(::open(folder.path().c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
}

/// Everything that is there now, as times; -1 where lines are missing.
std::vector<std::int64_t> times_read(ConsoleFollower& follower) {
  std::vector<ConsoleRecord> records;
  while (follower.read(records)) {
  }
  std::vector<std::int64_t> times;
  for (const ConsoleRecord& record : records)
    times.push_back(record.stream == ConsoleRecord::Stream::lost ? -1 : record.time_ms);
  return times;
}

using Ticks = std::vector<std::int64_t>;
/// Two of these fill a file.
constexpr std::size_t kHalfFile = kConsoleFileBytes / 2 - 100;

}  // namespace

TEST_CASE("A file has a number, and two files are kept") {
  CHECK(console_file_name(12) == "console.12.log");
  CHECK(console_file_number("console.12.log") == 12);
  for (const char* name : {"console.log", "console..log", "console.0.log", "console.01.log",
                           "console.1.log.1", "card", "console.x.log", "console.-1.log"}) {
    CAPTURE(name);
    CHECK_FALSE(console_file_number(name));
  }
  CHECK_FALSE(begins_next_file(0, kConsoleFileBytes + 1));
  CHECK_FALSE(begins_next_file(kConsoleFileBytes - 1, 1));
  CHECK(begins_next_file(kConsoleFileBytes, 1));
  CHECK_FALSE(dropped_file(2));
  CHECK(dropped_file(3) == 1);
}

TEST_CASE("A follower gets every line, also through rotation") {
  const Folder folder;
  const auto fd = open_folder(folder);
  RecordWriter writer(fd.get());
  ConsoleFollower follower(folder.path());
  CHECK(times_read(follower).empty());
  REQUIRE(writer.write(line_at(1)) == 0);
  CHECK(times_read(follower) == Ticks{1});
  REQUIRE(writer.write(line_at(2, kHalfFile)) == 0);
  REQUIRE(writer.write(line_at(3, kHalfFile)) == 0);
  REQUIRE(writer.write(line_at(4)) == 0);
  REQUIRE(writer.write(line_at(5, kHalfFile) + line_at(6)) == 0);

  struct stat status {};

  REQUIRE(::stat((folder / "console.2.log").c_str(), &status) == 0);
  CHECK((status.st_mode & 0777U) == 0600);
  // Lines that are longer than any of ours are passed over.
  CHECK(times_read(follower) == Ticks{4, 6});
}

TEST_CASE("A follower that is too slow is told that lines are missing") {
  const Folder folder;
  const auto fd = open_folder(folder);
  RecordWriter writer(fd.get());
  // With one more line it fills a file.
  std::string filler(kConsoleFileBytes - 400, 'x');
  for (std::size_t i = 65'535; i < filler.size(); i += 65'536) filler[i] = '\n';
  filler.back() = '\n';
  ConsoleFollower follower(folder.path());
  REQUIRE(writer.write(line_at(1)) == 0);
  CHECK(times_read(follower) == Ticks{1});
  for (int file = 1; file <= 4; ++file) {
    REQUIRE(writer.write(filler) == 0);
    REQUIRE(writer.write(line_at(10 * file, 300)) == 0);
  }
  CHECK(std::filesystem::exists(folder / "console.4.log"));
  CHECK(std::filesystem::exists(folder / "console.3.log"));
  CHECK_FALSE(std::filesystem::exists(folder / "console.2.log"));
  // The file that it holds is read to its end, though it was removed.
  CHECK(times_read(follower) == Ticks{10, -1, 30, 40});
}

TEST_CASE("The last lines are found, also where they lie in two files") {
  const Folder folder;
  const auto fd = open_folder(folder);
  RecordWriter writer(fd.get());
  const auto last = [&](std::size_t lines) {
    ConsoleFollower follower(folder.path());
    follower.go_to_last(lines);
    return times_read(follower);
  };
  CHECK(last(3).empty());
  REQUIRE(writer.write(line_at(1) + line_at(2) + line_at(3)) == 0);
  CHECK(last(2) == Ticks{2, 3});
  CHECK(last(3) == Ticks{1, 2, 3});
  CHECK(last(9) == Ticks{1, 2, 3});
  CHECK(last(0).empty());
  REQUIRE(writer.write(std::string(kConsoleFileBytes - 100, '\n')) == 0);
  REQUIRE(writer.write(line_at(4)) == 0);
  REQUIRE(writer.write(line_at(5, 300) + line_at(6)) == 0);
  REQUIRE(std::filesystem::exists(folder / "console.2.log"));
  CHECK(last(1) == Ticks{6});
  CHECK(last(3) == Ticks{4, 5, 6});
}

TEST_CASE(
    "A disk that takes no more loses whole lines, which are counted, and the next ones are whole again") {
  const Folder folder;
  const auto fd = open_folder(folder);
  RecordWriter writer(fd.get());
  REQUIRE(writer.write(line_at(1)) == 0);
  rlimit before{};
  REQUIRE(::getrlimit(RLIMIT_FSIZE, &before) == 0);
  ::signal(SIGXFSZ, SIG_IGN);
  rlimit small = before;
  small.rlim_cur = 40;
  REQUIRE(::setrlimit(RLIMIT_FSIZE, &small) == 0);
  const std::int64_t lost = writer.write(line_at(2) + line_at(3) + line_at(4) + line_at(5));
  REQUIRE(::setrlimit(RLIMIT_FSIZE, &before) == 0);
  CHECK(lost == 2);
  REQUIRE(writer.write(line_at(6)) == 0);
  ConsoleFollower follower(folder.path());
  CHECK(times_read(follower) == Ticks{1, 2, 3, 6});
}

TEST_CASE("A file that no other one can follow has a bound, too") {
  const Folder folder;
  const auto fd = open_folder(folder);
  RecordWriter writer(fd.get());
  REQUIRE(writer.write(line_at(1)) == 0);
  // In a folder that somebody has removed no file can be made.
  std::filesystem::remove_all(folder.path());
  const std::string piece = line_at(2, kConsoleFileBytes / 8);
  std::int64_t lost = 0;
  int written = 0;
  for (; lost == 0 && written < 64; ++written) lost = writer.write(piece);
  CHECK(lost == 1);
  CHECK(written <= 17);
}

TEST_CASE("Only a folder that is this user's alone is read, and no link in it") {
  const Folder folder;
  CHECK_THROWS_AS(ConsoleFollower(folder / "absent"), LaunchError);
  const auto fd = open_folder(folder);
  RecordWriter writer(fd.get());
  REQUIRE(writer.write(line_at(1)) == 0);
  std::filesystem::create_symlink(folder / "console.1.log", folder / "console.2.log");
  ConsoleFollower follower(folder.path());
  CHECK(times_read(follower) == Ticks{1});
  REQUIRE(::chmod(folder.path().c_str(), 0755) == 0);
  CHECK_THROWS_AS(ConsoleFollower(folder.path()), LaunchError);
}
