// SPDX-License-Identifier: Apache-2.0
#include "launcher/console/core/frame_reader.hpp"

#include "agent/core/output/console_frame.hpp"
#include "rendezvous/base/text.hpp"

#include <optional>
#include <utility>

namespace muster::launcher {
namespace {

constexpr std::string_view kEnd =
    "\x1f"
    "end ";

std::optional<int> exit_code_in(std::string_view line) {
  return line.starts_with(kEnd) ? parse_number<int>(line.substr(kEnd.size())) : std::nullopt;
}

}  // namespace

std::string end_frame(int exit_code) {
  return std::string(kEnd) + std::to_string(exit_code) + "\n";
}

void FrameReader::feed(std::string_view bytes, std::int64_t now_ms, std::vector<ConsoleRecord>& records) {
  while (!bytes.empty()) {
    const std::size_t newline = bytes.find('\n');
    if (newline == std::string_view::npos) {
      held_.append(bytes);
      if (held_.size() <= kHeldMax) return;
      take_line(held_, false, now_ms, records);
      held_.clear();
      return;
    }
    if (held_.empty()) {
      take_line(bytes.substr(0, newline), true, now_ms, records);
    } else {
      held_.append(bytes.substr(0, newline));
      take_line(held_, true, now_ms, records);
      held_.clear();
    }
    bytes.remove_prefix(newline + 1);
  }
}

void FrameReader::end(std::int64_t now_ms, std::vector<ConsoleRecord>& records) {
  if (!held_.empty()) take_line(held_, false, now_ms, records);
  held_.clear();
}

void FrameReader::take_line(std::string_view line, bool ends_line, std::int64_t now_ms,
                            std::vector<ConsoleRecord>& records) const {
  ConsoleRecord record;
  record.time_ms = now_ms;
  record.stream = stream_;
  if (const auto code = exit_code_in(line)) {
    record.stream = ConsoleRecord::Stream::end;
    record.number = *code;
  } else if (const auto frame = agent::parse_frame(line)) {
    record.round = frame->round;
    record.rank = frame->rank;
    record.ends_line = frame->ends_line && ends_line;
    record.text = frame->text;
  } else {
    record.ends_line = ends_line;
    record.text = line;
  }
  records.push_back(std::move(record));
}

}  // namespace muster::launcher
