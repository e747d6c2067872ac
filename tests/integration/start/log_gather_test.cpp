// SPDX-License-Identifier: Apache-2.0
#include "launcher/nodes/log_gather.hpp"

#include "catch.hpp"
#include "tests/support/folder.hpp"

#include <filesystem>
#include <iterator>
#include <stdexcept>

using muster::agent::FilePiece;
using muster::launcher::GatherLimits;
using muster::launcher::LogGather;
using muster::test::bytes_of_file;
using muster::test::Folder;
namespace fs = std::filesystem;

namespace {

FilePiece piece(const std::string& name, const std::string& bytes) {
  FilePiece made;
  made.name = name;
  made.bytes = bytes;
  made.last = bytes.empty();
  return made;
}

void send(LogGather& logs, const std::string& name, const std::string& bytes) {
  logs.take(1, "n1", piece(name, bytes));
  logs.take(1, "n1", piece(name, ""));
}

}  // namespace

TEST_CASE("the files of a node are written below its name") {
  const Folder folder;
  LogGather logs(folder / "logs");
  send(logs, "n1/a/0/stdout.log", "one\n");
  send(logs, "n1/a/1/stdout.log", "two\n");
  CHECK(bytes_of_file(folder / "logs/n1/a/0/stdout.log") == "one\n");
  CHECK(bytes_of_file(folder / "logs/n1/a/1/stdout.log") == "two\n");
  CHECK(logs.notes().empty());
  logs.take(1, "n1", piece("n1/half", "x"));
  REQUIRE(logs.notes().size() == 1);
  CHECK(logs.notes()[0].find("n1/half came in part only") != std::string::npos);
}

TEST_CASE("a node writes neither below another's name nor two files at once") {
  const Folder folder;
  LogGather logs(folder / "logs");
  CHECK_THROWS_AS(send(logs, "n2/stdout.log", "x"), std::invalid_argument);
  CHECK_THROWS_AS(send(logs, "n1", "x"), std::invalid_argument);
  CHECK_THROWS_AS(send(logs, "n1/" + std::string(5000, 'a'), "x"), std::invalid_argument);
  logs.take(1, "n1", piece("n1/a", "x"));
  CHECK_THROWS_AS(logs.take(1, "n1", piece("n1/b", "x")), std::invalid_argument);
  CHECK(!fs::exists(folder / "logs/n2"));
}

TEST_CASE("no link is followed and no file that is there is written to") {
  const Folder folder;
  fs::create_directories(folder / "logs/n1");
  fs::create_directory(folder / "elsewhere");
  fs::create_directory_symlink(folder / "elsewhere", folder / "logs/n1/link");
  folder.write("logs/n1/there", "kept");
  LogGather logs(folder / "logs");
  send(logs, "n1/link/file", "x");
  send(logs, "n1/there", "x");
  CHECK(fs::is_empty(folder / "elsewhere"));
  CHECK(bytes_of_file(folder / "logs/n1/there") == "kept");
  CHECK(logs.notes().size() == 2);
}

TEST_CASE("a node leaves no more than it may") {
  const Folder folder;
  LogGather few(folder / "few", GatherLimits{3, 1000});
  for (int i = 0; i < 50; ++i) send(few, "n1/" + std::to_string(i), "x");
  CHECK(std::distance(fs::directory_iterator(folder / "few/n1"), {}) == 3);
  CHECK(few.notes().size() == 1);
  LogGather small(folder / "small", GatherLimits{100, 10});
  for (int i = 0; i < 50; ++i) small.take(1, "n1", piece("n1/a", "1234"));
  CHECK(fs::file_size(folder / "small/n1/a") == 8);
  REQUIRE(small.notes().size() == 1);
  CHECK(small.notes()[0].find("sends more than") != std::string::npos);
}
