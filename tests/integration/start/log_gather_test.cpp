// SPDX-License-Identifier: Apache-2.0
#include "launcher/nodes/log_gather.hpp"

#include "catch.hpp"

#include <stdlib.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <sstream>
#include <stdexcept>

using muster::agent::FilePiece;
using muster::launcher::GatherLimits;
using muster::launcher::LogGather;
namespace fs = std::filesystem;

namespace {

class Folder {
 public:
  Folder() {
    std::string name = fs::temp_directory_path() / "muster_gather_test_XXXXXX";
    REQUIRE(::mkdtemp(name.data()) != nullptr);
    path = name;
  }

  ~Folder() { fs::remove_all(path); }

  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;

  fs::path path;
};

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

std::string text_of(const fs::path& path) {
  std::ostringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

}  // namespace

TEST_CASE("the files of a node are written below its name") {
  const Folder folder;
  LogGather logs(folder.path / "logs");
  send(logs, "n1/a/0/stdout.log", "one\n");
  send(logs, "n1/a/1/stdout.log", "two\n");
  CHECK(text_of(folder.path / "logs/n1/a/0/stdout.log") == "one\n");
  CHECK(text_of(folder.path / "logs/n1/a/1/stdout.log") == "two\n");
  CHECK(logs.notes().empty());
  logs.take(1, "n1", piece("n1/half", "x"));
  REQUIRE(logs.notes().size() == 1);
  CHECK(logs.notes()[0].find("n1/half came in part only") != std::string::npos);
}

TEST_CASE("a node writes neither below another's name nor two files at once") {
  const Folder folder;
  LogGather logs(folder.path / "logs");
  CHECK_THROWS_AS(send(logs, "n2/stdout.log", "x"), std::invalid_argument);
  CHECK_THROWS_AS(send(logs, "n1", "x"), std::invalid_argument);
  CHECK_THROWS_AS(send(logs, "n1/" + std::string(5000, 'a'), "x"), std::invalid_argument);
  logs.take(1, "n1", piece("n1/a", "x"));
  CHECK_THROWS_AS(logs.take(1, "n1", piece("n1/b", "x")), std::invalid_argument);
  CHECK(!fs::exists(folder.path / "logs/n2"));
}

TEST_CASE("no link is followed and no file that is there is written to") {
  const Folder folder;
  fs::create_directories(folder.path / "logs/n1");
  fs::create_directory(folder.path / "elsewhere");
  fs::create_directory_symlink(folder.path / "elsewhere", folder.path / "logs/n1/link");
  std::ofstream(folder.path / "logs/n1/there") << "kept";
  LogGather logs(folder.path / "logs");
  send(logs, "n1/link/file", "x");
  send(logs, "n1/there", "x");
  CHECK(fs::is_empty(folder.path / "elsewhere"));
  CHECK(text_of(folder.path / "logs/n1/there") == "kept");
  CHECK(logs.notes().size() == 2);
}

TEST_CASE("a node leaves no more than it may") {
  const Folder folder;
  LogGather few(folder.path / "few", GatherLimits{3, 1000});
  for (int i = 0; i < 50; ++i) send(few, "n1/" + std::to_string(i), "x");
  CHECK(std::distance(fs::directory_iterator(folder.path / "few/n1"), {}) == 3);
  CHECK(few.notes().size() == 1);
  LogGather small(folder.path / "small", GatherLimits{100, 10});
  for (int i = 0; i < 50; ++i) small.take(1, "n1", piece("n1/a", "1234"));
  CHECK(fs::file_size(folder.path / "small/n1/a") == 8);
  REQUIRE(small.notes().size() == 1);
  CHECK(small.notes()[0].find("sends more than") != std::string::npos);
}
