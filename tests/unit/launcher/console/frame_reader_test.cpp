// SPDX-License-Identifier: Apache-2.0
#include "launcher/console/core/frame_reader.hpp"

#include "agent/core/output/console_frame.hpp"
#include "catch.hpp"

#include <string>

using namespace muster::launcher;
using Stream = ConsoleRecord::Stream;

namespace {

std::string lines_of_records(const std::vector<ConsoleRecord>& records) {
  std::string text;
  for (const ConsoleRecord& record : records) text += to_line(record);
  return text;
}

std::string records_in(const std::string& bytes, std::size_t piece) {
  FrameReader reader(Stream::out);
  std::vector<ConsoleRecord> records;
  for (std::size_t i = 0; i < bytes.size(); i += piece) reader.feed(bytes.substr(i, piece), 7, records);
  reader.end(7, records);
  return lines_of_records(records);
}

}  // namespace

TEST_CASE("Frames become records of their ranks, and other lines are ours, however the bytes come") {
  const std::string bytes = muster::agent::frame_prefix(1, 3) + "=hello\x1b[0m\tx\n" + "muster: note: y\n" +
                            muster::agent::frame_prefix(1, 0) + "+dots\n" + "\x1fno frame\n\n";
  const std::string wanted =
      "7\t1\t3\tout\thello\x1b[0m\tx\n"
      "7\t-\tmuster\tout\tmuster: note: y\n"
      "7\t1\t0\tout+\tdots\n"
      "7\t-\tmuster\tout\t\x1fno frame\n"
      "7\t-\tmuster\tout\t\n";
  for (const std::size_t piece : {std::size_t{1}, std::size_t{5}, bytes.size()})
    CHECK(records_in(bytes, piece) == wanted);
}

TEST_CASE("The last word says how the job has ended, and nothing else does") {
  CHECK(records_in(end_frame(143), 100) == "7\t-\tmuster\tend\t143\n");
  CHECK(records_in("end 143\n", 100) == "7\t-\tmuster\tout\tend 143\n");
  // What a worker prints is behind the beginning of its frame.
  CHECK(records_in(muster::agent::frame_prefix(0, 0) + "=" + end_frame(0), 100) ==
        "7\t0\t0\tout\t\x1f"
        "end 0\n");
}

TEST_CASE("What is unfinished at the end is kept, and what is held has a bound") {
  CHECK(records_in("half", 100) == "7\t-\tmuster\tout+\thalf\n");
  const std::string endless(3 * FrameReader::kHeldMax, 'x');
  FrameReader reader(Stream::err);
  std::vector<ConsoleRecord> records;
  for (std::size_t i = 0; i < endless.size(); i += 4096) reader.feed(endless.substr(i, 4096), 0, records);
  REQUIRE(records.size() >= 2);
  CHECK_FALSE(records.front().ends_line);
}
