// SPDX-License-Identifier: Apache-2.0
#include "launcher/console/core/console_text.hpp"

#include "catch.hpp"

#include <string>
#include <vector>

using namespace muster::launcher;
using Stream = ConsoleRecord::Stream;

namespace {

ConsoleRecord record_of(int rank, std::string text, bool ends_line = true, Stream stream = Stream::out) {
  ConsoleRecord record;
  record.round = rank < 0 ? -1 : 0;
  record.rank = rank;
  record.text = std::move(text);
  record.ends_line = ends_line;
  record.stream = stream;
  return record;
}

std::string text_shown(const std::vector<ConsoleRecord>& records, ConsoleText::Options options = {}) {
  ConsoleText text(options);
  std::string out;
  for (const ConsoleRecord& record : records) text.show(record, out);
  text.end(out);
  return out;
}

}  // namespace

TEST_CASE("Lines look as on the console of a job that is not detached") {
  CHECK(text_shown({record_of(0, "a"), record_of(-1, "muster: note: b"), record_of(1, "")}) ==
        "[0]: a\nmuster: note: b\n[1]: \n");
  CHECK(text_shown({record_of(0, "a")}, {.ranks = false}) == "a\n");
  CHECK(text_shown({record_of(0, "a")}, {.times = true}) == "1970-01-01T00:00:00.000Z [0]: a\n");
}

TEST_CASE("A line in pieces is one line unless another one comes between") {
  CHECK(text_shown({record_of(0, "a", false), record_of(0, "b", false), record_of(0, "c")}) == "[0]: abc\n");
  CHECK(text_shown({record_of(0, "a", false), record_of(1, "x"), record_of(0, "b")}) ==
        "[0]: a\n[1]: x\n[0]: b\n");
  CHECK(text_shown({record_of(0, "a", false), record_of(0, "x", true, Stream::err)}) == "[0]: a\n[0]: x\n");
  CHECK(text_shown({record_of(0, "a", false)}) == "[0]: a\n");
}

TEST_CASE("What is missing is said, and the end shows nothing") {
  ConsoleRecord lost = record_of(-1, "", true, Stream::lost);
  lost.number = 3;
  CHECK(text_shown({record_of(0, "a", false), lost, record_of(0, "b")}) ==
        "[0]: a\nmuster: warning: 3 lines are missing here: the disk did not take them\n[0]: b\n");
  lost.number.reset();
  CHECK(text_shown({lost}).find("overwritten") != std::string::npos);
  CHECK(text_shown({record_of(-1, "", true, Stream::end)}).empty());
}

TEST_CASE("Workers do not steer a terminal") {
  const std::string title = "\x1b]0;title\x07";
  CHECK(text_shown({record_of(0, title)}).find('\x1b') != std::string::npos);
  const std::string safe =
      text_shown({record_of(0, title + "\x1b[31mred"), record_of(1, "x")}, {.terminal = true});
  CHECK(safe.find("\x1b]") == std::string::npos);
  CHECK(safe.find("\x1b[31mred\n") != std::string::npos);
  // A sequence that is cut in two is one all the same.
  CHECK(text_shown({record_of(0, "\x1b]0;ti", false), record_of(0, "tle\x07")}, {.terminal = true})
            .find("\x1b]") == std::string::npos);
}
