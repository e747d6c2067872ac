// SPDX-License-Identifier: Apache-2.0
// What reaches the console and the files, with well-behaved workers.
#include "catch.hpp"
#include "output_job.hpp"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <string>
#include <thread>

using namespace muster::agent;
using namespace muster::agent::test;

namespace {

OutputSpec logged(const Folder& directory) {
  OutputSpec spec;
  spec.log_dir = directory.path();
  return spec;
}

/// Stdout goes to a file that begins anew at 4 KiB.
OutputSpec bounded(const Folder& directory) {
  OutputSpec spec = logged(directory);
  spec.redirects.fallback = kStreamOut;
  spec.log_max_bytes = 4096;
  return spec;
}

}  // namespace

TEST_CASE("A single worker gets our own streams") {
  Collector out;
  OutputJob job(OutputSpec{}, 1, StandardStreams{0, out.fd(), out.fd()});
  const WorkerStreams streams = job.start(0, "true");
  CHECK(streams.stdout_fd == -1);
  CHECK(streams.stderr_fd == -1);
  CHECK(streams.error_file.empty());
  job.finish();
}

TEST_CASE("Lines of many workers, ranks above 9 among them, arrive whole and in each worker's order") {
  Collector out;
  Collector err;
  OutputJob job(OutputSpec{}, 12, StandardStreams{0, out.fd(), err.fd()});
  const std::string script =
      "i=0; while [ $i -lt 200 ]; do printf 'rank %s ' $0; printf 'line %s of many\\n' $i; i=$((i+1)); done; "
      "echo error of $0 >&2";
  for (int rank = 0; rank < 12; ++rank) job.start(rank, script);
  job.finish();
  std::vector<int> next(12, 0);
  for (const std::string& line : split_lines(out.finish())) {
    int rank = -1;
    int number = -1;
    int end = 0;
    REQUIRE(std::sscanf(line.c_str(), "rank %d line %d of many%n", &rank, &number, &end) == 2);
    REQUIRE(end == static_cast<int>(line.size()));
    CHECK(number == next.at(static_cast<std::size_t>(rank))++);
  }
  CHECK(std::all_of(next.begin(), next.end(), [](int count) { return count == 200; }));
  CHECK(split_lines(err.finish()).size() == 12);
  CHECK(job.output().last_lines(11) == std::vector<std::string>{"error of 11"});
  CHECK(job.output().notes().empty());
}

TEST_CASE("Teed streams go to files and, with a prefix, to the console") {
  const Folder directory;
  Collector out;
  OutputSpec spec = logged(directory);
  spec.tee.by_rank = {{1, kStreamBoth}, {11, kStreamOut}};
  spec.stdout_filters = {"apple"};
  spec.line_prefix_template = "${role_name}${local_rank}/${rank}@${hostname}>";
  OutputJob job(spec, 12, StandardStreams{0, out.fd(), out.fd()});
  job.start(0, "echo plain apple");
  const WorkerStreams one = job.start(1, "echo an apple; echo pear; printf err >&2");
  const WorkerStreams eleven = job.start(11, "echo apple $0; echo err11 >&2", 0);
  job.finish();

  std::vector<std::string> shown = split_lines(out.finish());
  std::sort(shown.begin(), shown.end());
  const std::vector<std::string> expected{"default1/101@n07>an apple",
                                          "default1/101@n07>err",
                                          "default1/101@n07>pear",
                                          "default11/111@n07>apple 11",
                                          "err11",
                                          "plain apple"};
  CHECK(shown == expected);
  CHECK(one.stdout_log == directory.path() + "/attempt_0/1/stdout.log");
  CHECK(bytes_of_file(one.stdout_log) == "an apple\npear\n");
  CHECK(bytes_of_file(one.stderr_log) == "err");
  CHECK(bytes_of_file(eleven.stdout_log) == "apple 11\n");
  CHECK(eleven.stderr_log.empty());
  CHECK(eleven.error_file == directory.path() + "/attempt_0/11/error.json");
  std::vector<std::string> picked =
      split_lines(bytes_of_file(directory.path() + "/attempt_0/filtered_stdout.log"));
  std::sort(picked.begin(), picked.end());
  CHECK(picked == std::vector<std::string>{expected[0], expected[3]});
  CHECK_FALSE(std::filesystem::exists(directory.path() + "/attempt_0/filtered_stderr.log"));
}

TEST_CASE("A prefix that tells the time is that of when the line was read, on the console and in files") {
  const Folder directory;
  Collector out;
  OutputSpec spec = logged(directory);
  spec.tee.fallback = kStreamOut;
  spec.stdout_filters = {"late"};
  spec.line_prefix_template = "${elapsed} ";
  OutputJob job(spec, 2, StandardStreams{0, out.fd(), out.fd()});
  job.start(0, "sleep 0.05; echo late");
  job.finish();
  const std::string picked = bytes_of_file(directory.path() + "/attempt_0/filtered_stdout.log");
  for (const std::string& text : {out.finish(), picked}) {
    double elapsed = 0;
    int end = 0;
    REQUIRE(std::sscanf(text.c_str(), "%lf late\n%n", &elapsed, &end) == 1);
    CHECK(end == static_cast<int>(text.size()));
    CHECK(elapsed >= 0.05);
  }
}

TEST_CASE("A log file of a bounded size begins anew, and the one before it is kept") {
  const Folder directory;
  Collector out;
  OutputJob job(bounded(directory), 1, StandardStreams{0, out.fd(), out.fd()});
  const WorkerStreams streams =
      job.start(0, "i=1000; while [ $i -lt 3000 ]; do echo line $i; i=$((i + 1)); done");
  job.finish();
  const std::string last = bytes_of_file(streams.stdout_log);
  const std::string earlier = bytes_of_file(streams.stdout_log + ".1");
  CHECK(earlier.size() == 4090);  // 409 lines of 10 bytes
  CHECK(last.ends_with("line 2998\nline 2999\n"));
  CHECK(last.size() == 20000 % 4090);
  const std::vector<std::string> lines = split_lines(earlier + last);
  for (std::size_t i = 0; i < lines.size(); ++i)
    REQUIRE(lines[i] == "line " + std::to_string(3000 - lines.size() + i));
  CHECK_FALSE(std::filesystem::exists(streams.stdout_log + ".2"));
  CHECK(job.output().notes().empty());
}

TEST_CASE("A log file of a bounded size that is taken away begins anew under its name") {
  const Folder directory;
  Collector out;
  OutputJob job(bounded(directory), 1, StandardStreams{0, out.fd(), out.fd()});
  const WorkerStreams streams =
      job.start(0, "echo first; log=" + directory.path() +
                       "/attempt_0/0/stdout.log; until [ -s $log ]; do sleep 0.01; done; rm $log; i=1000; "
                       "while [ $i -lt 2000 ]; do echo line $i; "
                       "i=$((i + 1)); done");
  job.finish();
  CHECK(bytes_of_file(streams.stdout_log).ends_with("line 1999\n"));
  CHECK(bytes_of_file(streams.stdout_log + ".1").size() == 4090);
  CHECK(job.output().notes().empty());
}

TEST_CASE("A log file whose earlier part cannot be kept goes on beyond its bound, and a note says so") {
  const Folder directory;
  Collector out;
  OutputJob job(bounded(directory), 1, StandardStreams{0, out.fd(), out.fd()});
  std::filesystem::create_directories(directory.path() + "/attempt_0/0/stdout.log.1/x");
  const WorkerStreams streams =
      job.start(0, "i=1000; while [ $i -lt 2000 ]; do echo line $i; i=$((i + 1)); done");
  job.finish();
  CHECK(bytes_of_file(streams.stdout_log).size() == 10000);
  REQUIRE(job.output().notes().size() == 1);
  CHECK_THAT(job.output().notes()[0], Contains("--log-max-size is not kept on n07: "));
}

TEST_CASE("Redirected streams go to files only, each round has its own, and the directories are private") {
  const Folder directory;
  Collector out;
  OutputSpec spec = logged(directory);
  spec.redirects.fallback = kStreamErr;
  OutputJob job(spec, 1, StandardStreams{0, out.fd(), out.fd()});
  const WorkerStreams first = job.start(0, "echo round 0 >&2");
  CHECK(first.stdout_fd == -1);
  job.run();
  CHECK(job.output().last_lines(0) == std::vector<std::string>{"round 0"});
  const WorkerStreams second = job.start(0, "echo round 1 >&2", 1);
  CHECK(job.output().last_lines(0).empty());
  job.finish();
  CHECK(out.finish().empty());
  CHECK(bytes_of_file(first.stderr_log) == "round 0\n");
  CHECK(bytes_of_file(second.stderr_log) == "round 1\n");

  struct stat status {};

  REQUIRE(::stat((directory.path() + "/attempt_1/0").c_str(), &status) == 0);
  CHECK((status.st_mode & 0777) == 0700);
  REQUIRE(::stat(second.stderr_log.c_str(), &status) == 0);
  CHECK((status.st_mode & 0777) == 0600);
}

TEST_CASE("Ranks that are filtered out do not reach the console, but their last lines are kept") {
  const Folder directory;
  Collector out;
  OutputSpec spec = logged(directory);
  spec.console_ranks = std::set<int>{1};
  spec.tee.by_rank = {{2, kStreamOut}};
  OutputJob job(spec, 3, StandardStreams{0, out.fd(), out.fd()});
  job.start(0, "echo hidden");
  job.start(1, "echo shown");
  const WorkerStreams two = job.start(2, "echo filed");
  job.finish();
  CHECK(out.finish() == "shown\n");
  CHECK(job.output().last_lines(0) == std::vector<std::string>{"hidden"});
  CHECK(bytes_of_file(two.stdout_log) == "filed\n");
}

TEST_CASE("An unfinished line is shown while its worker waits") {
  Collector out;
  OutputJob job(OutputSpec{}, 2, StandardStreams{0, out.fd(), out.fd()});
  const Folder directory;
  const std::string gate = directory.path() + "/gate";
  REQUIRE(::mkfifo(gate.c_str(), 0600) == 0);
  job.start(0, "printf 'name? '; read answer <" + gate + "; echo $answer");
  job.run_until([&out] { return out.so_far() == "name? "; });
  job.start(1, "echo yes >" + gate);
  job.finish();
  CHECK(out.finish() == "name? yes\n");
}

TEST_CASE("A log directory that cannot be made is said, and the workers run without it") {
  const Folder directory;
  Collector out;
  OutputSpec spec = logged(directory);
  spec.tee.fallback = kStreamOut;
  REQUIRE(::symlink("/nowhere", (directory.path() + "/attempt_0").c_str()) == 0);
  OutputJob job(spec, 2, StandardStreams{0, out.fd(), out.fd()});
  const WorkerStreams streams = job.start(0, "echo hello");
  CHECK(streams.stdout_log.empty());
  CHECK(streams.error_file.empty());
  job.finish();
  CHECK(out.finish() == "[default0]:hello\n");
  REQUIRE(job.output().notes().size() == 1);
  CHECK(job.output().notes()[0].find("attempt_0 on n07") != std::string::npos);
}

TEST_CASE("Where our stdout and stderr are one, a worker's order of both is kept") {
  Collector out;
  OutputJob job(OutputSpec{}, 2, StandardStreams{0, out.fd(), out.fd()});
  std::string expected;
  std::string script;
  for (int i = 0; i < 50; ++i) {
    script += "echo out; echo err >&2; ";
    expected += "out\nerr\n";
  }
  const Folder directory;
  const std::string written = directory.path() + "/written";
  job.start(0, script + ": >" + written);
  // The executor rests meanwhile, so that all is there before anything is read.
  while (!std::filesystem::exists(written)) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  job.finish();
  CHECK(out.finish() == expected);
}
