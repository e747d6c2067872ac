// SPDX-License-Identifier: Apache-2.0
#include "launcher/nodes/log_gather.hpp"

#include "agent/core/link_message.hpp"
#include "catch.hpp"
#include "tests/support/fake_channel.hpp"
#include "tests/support/folder.hpp"

#include <filesystem>
#include <iterator>
#include <memory>
#include <stdexcept>
#include <string>

using muster::launcher::GatherLimits;
using muster::launcher::LogGather;
using muster::test::bytes_of_file;
using muster::test::FakeChannel;
using muster::test::Folder;
namespace fs = std::filesystem;

namespace {

std::shared_ptr<FakeChannel> begin(LogGather& logs, const std::string& name, const std::string& bytes) {
  auto channel = std::make_shared<FakeChannel>();
  logs.receive(1, "n1", name, channel);
  channel->told.data(bytes);
  return channel;
}

void send(LogGather& logs, const std::string& name, const std::string& bytes) {
  const auto channel = begin(logs, name, bytes);
  CHECK(channel->given_back == bytes.size());
  channel->told.closed(std::string(muster::agent::kAllWasSent));
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
  begin(logs, "n1/half", "x")->told.closed("the link ended here");
  REQUIRE(logs.notes().size() == 1);
  CHECK(logs.notes()[0].find("n1/half came in part only") != std::string::npos);
}

TEST_CASE("a node writes neither below another's name nor two files at once") {
  const Folder folder;
  LogGather logs(folder / "logs");
  CHECK_THROWS_AS(send(logs, "n2/stdout.log", "x"), std::invalid_argument);
  CHECK_THROWS_AS(send(logs, "n1", "x"), std::invalid_argument);
  CHECK_THROWS_AS(send(logs, "n1/" + std::string(5000, 'a'), "x"), std::invalid_argument);
  for (const char* name : {"", "/etc/passwd", "n1/../b", "..", "n1//b", "./n1", "n1/"})
    CHECK_THROWS_AS(send(logs, name, "x"), std::invalid_argument);
  begin(logs, "n1/a", "x");
  CHECK_THROWS_AS(begin(logs, "n1/b", "x"), std::invalid_argument);
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
  const auto channel = begin(small, "n1/a", "1234");
  for (int i = 1; i < 50; ++i) channel->told.data("1234");
  CHECK(fs::file_size(folder / "small/n1/a") == 8);
  REQUIRE(small.notes().size() == 1);
  CHECK(small.notes()[0].find("sends more than") != std::string::npos);
}
