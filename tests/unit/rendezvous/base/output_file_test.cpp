// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/base/output_file.hpp"

#include "catch.hpp"
#include "rendezvous/base/unique_fd.hpp"
#include "tests/support/folder.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>

using namespace muster;
using muster::test::Folder;
namespace fs = std::filesystem;

TEST_CASE("An output file is put where its symbolic links lead") {
  const Folder folder;
  fs::create_directory(folder / "data");
  fs::create_symlink("data/file", folder / "inner");
  fs::create_symlink(folder / "inner", folder / "outer");
  const std::string target = folder / "data/file";
  for (const char* name : {"data/file", "inner", "outer"}) {
    INFO(name);
    CHECK(find_output_file(folder / name).path == target);  // nothing is there yet
  }
  folder.write("data/file", "old");
  for (const char* name : {"data/file", "inner", "outer"}) {
    INFO(name);
    const OutputPlace place = find_output_file(folder / name);
    CHECK(place.path == target);
    CHECK(place.is_file);
    CHECK(place.obstacle.empty());
  }
  CHECK(find_output("name in the current folder").path == "name in the current folder");
  fs::create_symlink("loop", folder / "loop");
  CHECK(find_output(folder / "loop").obstacle == "Too many levels of symbolic links");
  CHECK(find_output(folder / "data/file/x").obstacle == "Not a directory");
}

TEST_CASE("What is there and no regular file is never replaced") {
  const Folder folder;
  REQUIRE(::mkfifo((folder / "pipe").c_str(), 0600) == 0);
  fs::create_symlink("/dev/full", folder / "link");
  const UniqueFd open_file(::open(folder.write("file", "").c_str(), O_WRONLY | O_CLOEXEC));
  const std::string opened = "/proc/self/fd/" + std::to_string(open_file.get());
  for (const auto& [path, why] : {std::pair<std::string, const char*>{"/dev/null", "Is a device"},
                                  {folder / "link", "Is a device"},
                                  {folder / "pipe", "Is a pipe"},
                                  {opened, "Is a file that a process has open"}}) {
    INFO(path);
    CHECK(find_output_file(path).obstacle == why);
    CHECK(find_output(path).obstacle.empty());  // bytes may be written there
    CHECK_FALSE(find_output(path).is_file);
  }
  CHECK(find_output(folder.path()).obstacle == "Is a directory");
  CHECK(output_obstacle(S_IFBLK | 0600) == "Is a block device");
  CHECK(output_obstacle(S_IFSOCK | 0600) == "Is a socket");
  CHECK(output_obstacle(S_IFCHR | 0600).empty());
}
