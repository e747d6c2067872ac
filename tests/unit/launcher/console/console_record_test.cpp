// SPDX-License-Identifier: Apache-2.0
#include "launcher/console/core/console_record.hpp"

#include "catch.hpp"

#include <string>

using namespace muster::launcher;
using Stream = ConsoleRecord::Stream;

namespace {

ConsoleRecord of_worker(std::string text, bool ends_line = true) {
  ConsoleRecord record;
  record.time_ms = 1764301954123;
  record.round = 2;
  record.rank = 11;
  record.stream = Stream::err;
  record.ends_line = ends_line;
  record.text = std::move(text);
  return record;
}

std::optional<ConsoleRecord> read_back(const ConsoleRecord& record) {
  std::string line = to_line(record);
  REQUIRE(line.back() == '\n');
  line.pop_back();
  REQUIRE(line.find('\n') == std::string::npos);
  return parse_record(line);
}

}  // namespace

TEST_CASE("A record is a line of five fields, and comes back byte for byte") {
  CHECK(to_line(of_worker("loss 0.5")) == "1764301954123\t2\t11\terr\tloss 0.5\n");
  CHECK(to_line(of_worker("dots...", false)) == "1764301954123\t2\t11\terr+\tdots...\n");
  for (const std::string& text : {std::string(), std::string("a\tb\t\r"), std::string("\0\xff\x1b[2J", 6)})
    for (const bool ends : {true, false}) CHECK(read_back(of_worker(text, ends)) == of_worker(text, ends));
  ConsoleRecord ours;
  ours.time_ms = 5;
  ours.text = "muster: note: x";
  CHECK(to_line(ours) == "5\t-\tmuster\tout\tmuster: note: x\n");
  CHECK(read_back(ours) == ours);
}

TEST_CASE("Lost lines and the end of a job are records of their own") {
  ConsoleRecord record;
  record.stream = Stream::lost;
  record.number = 12;
  CHECK(to_line(record) == "0\t-\tmuster\tlost\t12\n");
  CHECK(read_back(record) == record);
  record.stream = Stream::end;
  record.number = 143;
  CHECK(read_back(record) == record);
  record.number.reset();
  CHECK(to_line(record) == "0\t-\tmuster\tend\t-\n");
  CHECK(read_back(record) == record);
}

TEST_CASE("What is no record is not taken for one") {
  for (const char* line :
       {"", "x", "1\t0\t0\tout", "\t0\t0\tout\tx", "1\t0\t0\tin\tx", "1\t-1\t0\tout\tx",
        "1\t0\tmuster\tout\tx", "1\t-\t0\tout\tx", "1\t0\t0\tout++\tx", "1\t-\tmuster\tend\tx",
        "1\t-\tmuster\tlost+\t1", "1x\t0\t0\tout\tx", "1\t99999999999\t0\tout\tx"}) {
    CAPTURE(line);
    CHECK_FALSE(parse_record(line));
  }
}

TEST_CASE("Lines are counted, and those that a record of lost lines stands for") {
  CHECK(lines_in("") == 0);
  CHECK(lines_in("1\t0\t0\tout\tx\nrest of one\n") == 2);
  CHECK(lines_in("1\t-\tmuster\tlost\t40\n1\t0\t0\tout\tx\n") == 41);
}

TEST_CASE("A record is one JSON object a line, whatever its bytes") {
  CHECK(to_json(of_worker("a\"b\xff")) ==
        "{\"ends_line\":true,\"rank\":11,\"round\":2,\"stream\":\"err\",\"text\":\"a\\\"b\xef\xbf\xbd\","
        "\"time_ms\":1764301954123}\n");
  ConsoleRecord end;
  end.stream = Stream::end;
  CHECK(to_json(end) ==
        "{\"exit_code\":null,\"rank\":null,\"round\":null,\"stream\":\"end\",\"time_ms\":null}\n");
  end.stream = Stream::lost;
  end.number = 3;
  CHECK(to_json(end).find("\"lines\":3") != std::string::npos);
}
