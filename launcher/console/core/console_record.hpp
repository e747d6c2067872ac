// SPDX-License-Identifier: Apache-2.0
// One line of the console of a detached job, as its files hold it. Pure.
//
// A record is one line of five fields with a tab between two:
//   TIME  ROUND  RANK  STREAM  TEXT
// TIME is in milliseconds since 1970. ROUND and RANK are those of the worker that printed TEXT, or "-" and
// "muster" for a message of ours. STREAM is "out" or "err", with a "+" behind it if the line goes on in the
// next record of this rank and stream. TEXT is what was printed, byte for byte, without the newline. Two
// records of ours have other streams: "lost", whose TEXT is how many lines are missing here, and "end", the
// last one, whose TEXT is the job's exit code, or "-" if its launcher was killed.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace muster::launcher {

struct ConsoleRecord {
  enum class Stream { out, err, lost, end };

  /// 0: not known, as of a line in a log file.
  std::int64_t time_ms = 0;
  Stream stream = Stream::out;
  /// -1: it is a message of ours.
  int round = -1;
  int rank = -1;
  /// Whether the line ends with this record.
  bool ends_line = true;
  std::string text;
  /// Of `lost` the number of lines, of `end` the exit code; nullopt: not known.
  std::optional<std::int64_t> number{};

  bool is_ours() const { return rank < 0; }

  bool operator==(const ConsoleRecord&) const = default;
};

/// Write a record as its line, newline included, and read a line without its newline. Reading returns nullopt
/// for anything else, as for a line that a full disk has cut off.
std::string to_line(const ConsoleRecord& record);
std::optional<ConsoleRecord> parse_record(std::string_view line);

/// Returns how many lines are in the text of some records: a record `lost` stands for those that it counts.
std::int64_t lines_in(std::string_view records);

/// Writes a record as one line of JSON, newline included: {"time_ms": ..., "round": ..., "rank": ...,
/// "stream": "out", "ends_line": true, "text": "..."}; a time that is not known is null. Bytes that are not
/// UTF-8 are U+FFFD there.
std::string to_json(const ConsoleRecord& record);

}  // namespace muster::launcher
