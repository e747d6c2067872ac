// SPDX-License-Identifier: Apache-2.0
#include "agent/process/stop_file.hpp"

#include "catch.hpp"
#include "rendezvous/base/posix.hpp"
#include "tests/support/folder.hpp"

#include <sys/stat.h>

#include <filesystem>

using namespace muster;
using namespace muster::agent;

namespace {

namespace fs = std::filesystem;

unsigned permissions_of(const std::string& path) {
  struct stat status {};

  return ::lstat(path.c_str(), &status) == 0 ? status.st_mode & 07777U : 0U;
}

}  // namespace

TEST_CASE("The stop file appears whole, in a folder for this user alone, and goes with it") {
  const test::Folder top;
  const std::string folder = top / "node";
  {
    StopFile file;
    CHECK(file.path().empty());
    file.make(folder);
    CHECK(file.path() == folder + "/stop");
    CHECK(permissions_of(folder) == 0700);
    CHECK_FALSE(fs::exists(file.path()));
    file.appear("");
    CHECK_FALSE(fs::exists(file.path()));
    file.appear("first\n");
    CHECK(read_file(file.path(), 100) == "first\n");
    CHECK(permissions_of(file.path()) == 0600);
    file.appear("second\n");
    CHECK(read_file(file.path(), 100) == "first\n");
    file.vanish();
    CHECK_FALSE(fs::exists(file.path()));
    file.appear("third\n");
    CHECK(read_file(file.path(), 100) == "third\n");
    CHECK_FALSE(fs::exists(folder + "/stop.new"));
  }
  CHECK_FALSE(fs::exists(folder));
}

TEST_CASE("A folder that is there already is another's, and is left alone") {
  const test::Folder top;
  fs::create_directory(top / "node");
  top.write("node/stop", "of somebody");
  {
    StopFile file;
    file.make(top / "node");
    CHECK(file.path().empty());
    file.appear("text");
    file.vanish();
  }
  CHECK(read_file(top / "node/stop", 100) == "of somebody");
}

TEST_CASE("Nothing is written through what a worker has put in the way") {
  const test::Folder top;
  top.write("victim", "untouched");
  StopFile file;
  file.make(top / "node");
  fs::create_symlink(top / "victim", top / "node/stop.new");
  file.appear("text");
  CHECK(read_file(top / "victim", 100) == "untouched");
  CHECK_FALSE(fs::exists(file.path()));
}

TEST_CASE("Whoever is left of guardian and agent removes the folder") {
  const test::Folder top;
  fs::create_directory(top / "node");
  top.write("node/stop", "");
  top.write("node/stop.new", "");
  remove_stop_folder(top / "node");
  CHECK_FALSE(fs::exists(top / "node"));
  remove_stop_folder(top / "node");
  remove_stop_folder("");
  CHECK(new_stop_folder() != new_stop_folder());
}
