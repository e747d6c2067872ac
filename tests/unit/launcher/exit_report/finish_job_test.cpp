// SPDX-License-Identifier: Apache-2.0
#include "launcher/exit_report/finish_job.hpp"

#include "catch.hpp"
#include "launcher/exit_report/text.hpp"
#include "rendezvous/base/posix.hpp"
#include "rendezvous/base/unique_fd.hpp"
#include "tests/support/folder.hpp"
#include "tests/unit/launcher/exit_report/reports.hpp"

#include <fcntl.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>
#include <iterator>

using namespace muster::launcher;
using muster::read_file;
using muster::UniqueFd;
using muster::agent::NodeOutcome;
using muster::agent::WorkerOutcome;
namespace fs = std::filesystem;

namespace {

/// A job with a temporary log directory, in a directory of its own.
class FinishedJob {
 public:
  FinishedJob() {
    fs::create_directories(root / "logs/attempt_0/0");
    spec = job();
    spec.agent.output.log_dir = root / "logs";
    spec.agent.output.log_dir_is_temporary = true;
    spec.report_file = root / "report.json";
    spec.error_file_copy = root / "copy.json";
  }

  int finish(WorkerOutcome outcome, int code) {
    const bool good = outcome == WorkerOutcome::succeeded;
    muster::agent::NodeReport report =
        node(good ? NodeOutcome::succeeded : NodeOutcome::failed, {worker(0, outcome, exited(code), 1)});
    report.workers[0].error_file = error_file;
    return finish_job(spec, {report}, {});
  }

  std::string text_of(const std::string& name) const { return read_file(root / name, 1 << 20).value_or(""); }

  const muster::test::Folder folder;
  const fs::path root = folder.path();
  JobSpec spec;
  std::string error_file;
};

}  // namespace

TEST_CASE("A temporary log directory is removed after success, files or not") {
  FinishedJob finished;
  std::ofstream(finished.root / "logs/attempt_0/0/stdout.log") << "x";
  CHECK(finished.finish(WorkerOutcome::succeeded, 0) == 0);
  CHECK_FALSE(fs::exists(finished.root / "logs"));
  CHECK(finished.text_of("report.json").find("\"succeeded\"") != std::string::npos);
  CHECK_FALSE(fs::exists(finished.root / "copy.json"));
}

TEST_CASE("After a failure a temporary log directory stays if it holds a file") {
  FinishedJob finished;
  CHECK(finished.finish(WorkerOutcome::failed_by_itself, 3) == 3);
  CHECK_FALSE(fs::exists(finished.root / "logs"));
  FinishedJob with_file;
  with_file.error_file = with_file.root / "logs/attempt_0/0/error.json";
  std::ofstream(with_file.error_file) << R"({"message":{"message":"E: x"}})";
  std::ofstream(with_file.root / "copy.json") << "old";
  CHECK(with_file.finish(WorkerOutcome::failed_by_itself, 3) == 3);
  CHECK(fs::exists(with_file.root / "logs"));
  CHECK(with_file.text_of("copy.json") == R"({"message":{"message":"E: x","errorCode":3}})");
}

TEST_CASE("The user's own log directory is never removed") {
  FinishedJob finished;
  finished.spec.agent.output.log_dir_is_temporary = false;
  CHECK(finished.finish(WorkerOutcome::succeeded, 0) == 0);
  CHECK(fs::exists(finished.root / "logs"));
}

TEST_CASE("A report that cannot be written changes no exit code") {
  FinishedJob finished;
  finished.spec.report_file = finished.root / "none/report.json";
  CHECK(finished.finish(WorkerOutcome::failed_by_itself, 3) == 3);
}

TEST_CASE("Files are replaced whole, with usual permissions, and nothing is left beside them") {
  FinishedJob finished;
  const std::string path = finished.root / "file";
  CHECK(write_file(path, "old").empty());
  CHECK(write_file(path, "new").empty());
  CHECK(read_file(path, 100) == "new");
  CHECK(read_file(path, 2) == "ne");
  CHECK(write_file("/dev/null", "x").empty());
  CHECK_FALSE(write_file(finished.root / "none/file", "x").empty());
  CHECK_FALSE(read_file(finished.root / "none", 10));
  CHECK(std::distance(fs::directory_iterator(finished.root), fs::directory_iterator()) == 2);
}

TEST_CASE("A file is written through symbolic links, and after what a process has open") {
  FinishedJob finished;
  const fs::path& root = finished.root;
  fs::create_symlink("real", root / "link");
  for (const char* text : {"new", "newer"}) {
    CHECK(write_file(root / "link", text).empty());
    CHECK(fs::is_symlink(root / "link"));
    CHECK(read_file(root / "real", 100) == text);
  }
  const UniqueFd open_file(::open((root / "real").c_str(), O_RDONLY | O_CLOEXEC));
  CHECK(write_file("/proc/self/fd/" + std::to_string(open_file.get()), "!").empty());
  CHECK(read_file(root / "real", 100) == "newer!");
  REQUIRE(::mkfifo((root / "pipe").c_str(), 0600) == 0);
  CHECK(write_file(root / "pipe", "x") == "nobody reads it");
}

TEST_CASE("A text is cut into lines without their ends") {
  using Lines = std::vector<std::string>;
  CHECK(lines_of("").empty());
  CHECK(lines_of("a\nb\r\n") == Lines{"a", "b"});
  CHECK(lines_of("\n\nx") == Lines{"", "", "x"});
}
