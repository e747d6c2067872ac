// SPDX-License-Identifier: Apache-2.0
#include "launcher/metrics/metrics_socket.hpp"

#include "catch.hpp"
#include "folder.hpp"
#include "launcher/core/launch_error.hpp"

#include <sys/stat.h>

#include <filesystem>
#include <optional>
#include <string>
#include <utility>

namespace metrics_socket_test {

using namespace muster::launcher;
using muster::test::Folder;

namespace {

ListenPlace at_path(const std::string& path) {
  ListenPlace place;
  place.path = path;
  return place;
}

}  // namespace

TEST_CASE("Without a place there is no socket") {
  CHECK(MetricsSocket().fd() == -1);
  CHECK(MetricsSocket(ListenPlace{}).fd() == -1);
}

TEST_CASE("A place that is taken, or cannot be had, refuses the job") {
  ListenPlace place{"127.0.0.1", 0, ""};
  const MetricsSocket first(place);
  const std::string where = first.where();
  REQUIRE(where.starts_with("http://127.0.0.1:"));
  place.port = std::stoi(where.substr(where.rfind(':') + 1));
  try {
    const MetricsSocket second(place);
    FAIL("it listens twice");
  } catch (const UsageError& error) {
    CHECK(error.exit_code() == 2);
    CHECK_THAT(error.what(), Contains("--metrics-listen: no metrics can be served at 127.0.0.1 port"));
  }
  const Folder folder;
  muster::test::write_file(folder / "file", "kept");
  for (const std::string& path : {folder / "absent/socket", folder / "file", folder / std::string(200, 'x')})
    CHECK_THROWS_AS(MetricsSocket(at_path(path)), UsageError);
  CHECK(muster::test::bytes_of_file(folder / "file") == "kept");
}

TEST_CASE("A Unix socket is its user's alone, and goes with the last one who owns it") {
  const Folder folder;
  const std::string path = folder / "socket";
  {
    std::optional<MetricsSocket> first(std::in_place, at_path(path));
    const MetricsSocket second(std::move(*first));
    first.reset();

    struct stat status {};

    REQUIRE(::stat(path.c_str(), &status) == 0);
    CHECK((status.st_mode & 0777U) == 0600);
    CHECK(second.where() == "unix:" + path);
    CHECK_THROWS_AS(MetricsSocket(at_path(path)), UsageError);
    CHECK(std::filesystem::exists(path));
  }
  CHECK_FALSE(std::filesystem::exists(path));
}

}  // namespace metrics_socket_test
