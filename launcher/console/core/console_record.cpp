// SPDX-License-Identifier: Apache-2.0
#include "launcher/console/core/console_record.hpp"

#include "rendezvous/base/text.hpp"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cstddef>

namespace muster::launcher {
namespace {

using Stream = ConsoleRecord::Stream;

constexpr std::string_view kOurs = "muster";
constexpr std::string_view kNothing = "-";

std::string_view name_of(Stream stream) {
  switch (stream) {
    case Stream::out:
      return "out";
    case Stream::err:
      return "err";
    case Stream::lost:
      return "lost";
    case Stream::end:
      break;
  }
  return "end";
}

bool is_counted(Stream stream) {
  return stream == Stream::lost || stream == Stream::end;
}

/// Takes what stands before the next tab off a line; nullopt if there is no tab.
std::optional<std::string_view> take_field(std::string_view& line) {
  const std::size_t tab = line.find('\t');
  if (tab == std::string_view::npos) return std::nullopt;
  const std::string_view field = line.substr(0, tab);
  line.remove_prefix(tab + 1);
  return field;
}

/// Reads the number of a field; `none` stands for -1.
std::optional<int> number_or(std::string_view field, std::string_view none) {
  if (field == none) return -1;
  const auto number = parse_number<int>(field);
  return number && *number >= 0 ? number : std::nullopt;
}

bool read_stream(std::string_view field, ConsoleRecord& record) {
  record.ends_line = !field.ends_with('+');
  if (!record.ends_line) field.remove_suffix(1);
  for (const Stream stream : {Stream::out, Stream::err, Stream::lost, Stream::end}) {
    if (field != name_of(stream)) continue;
    record.stream = stream;
    return record.ends_line || !is_counted(stream);
  }
  return false;
}

}  // namespace

std::string to_line(const ConsoleRecord& record) {
  std::string line = std::to_string(record.time_ms) + '\t';
  line += record.is_ours() ? std::string(kNothing) : std::to_string(record.round);
  line += '\t';
  line += record.is_ours() ? std::string(kOurs) : std::to_string(record.rank);
  line += '\t';
  line += name_of(record.stream);
  if (!record.ends_line) line += '+';
  line += '\t';
  if (is_counted(record.stream))
    line += record.number ? std::to_string(*record.number) : std::string(kNothing);
  else
    line += record.text;
  line += '\n';
  return line;
}

std::optional<ConsoleRecord> parse_record(std::string_view line) {
  const auto time = take_field(line);
  const auto round = time ? take_field(line) : std::nullopt;
  const auto rank = round ? take_field(line) : std::nullopt;
  const auto stream = rank ? take_field(line) : std::nullopt;
  if (!stream) return std::nullopt;
  ConsoleRecord record;
  const auto time_ms = parse_number<std::int64_t>(*time);
  const auto round_number = number_or(*round, kNothing);
  const auto rank_number = number_or(*rank, kOurs);
  if (!time_ms || !round_number || !rank_number || !read_stream(*stream, record)) return std::nullopt;
  if ((*rank_number < 0) != (*round_number < 0)) return std::nullopt;
  record.time_ms = *time_ms;
  record.round = *round_number;
  record.rank = *rank_number;
  if (!is_counted(record.stream)) {
    record.text = line;
    return record;
  }
  record.number = parse_number<std::int64_t>(line);
  return record.number || line == kNothing ? std::optional(record) : std::nullopt;
}

std::int64_t lines_in(std::string_view records) {
  std::int64_t count = 0;
  while (!records.empty()) {
    const std::string_view line = records.substr(0, records.find('\n'));
    records.remove_prefix(std::min(line.size() + 1, records.size()));
    const auto record = parse_record(line);
    const bool counts_others = record && record->stream == Stream::lost;
    count += counts_others ? record->number.value_or(1) : 1;
  }
  return count;
}

std::string to_json(const ConsoleRecord& record) {
  nlohmann::json json{{"time_ms", nullptr}, {"stream", name_of(record.stream)}};
  if (record.time_ms != 0) json["time_ms"] = record.time_ms;
  const auto number_of = [](const auto& number) {
    return number ? nlohmann::json(*number) : nlohmann::json(nullptr);
  };
  const auto or_null = [](int number) {
    return number < 0 ? nlohmann::json(nullptr) : nlohmann::json(number);
  };
  json["round"] = or_null(record.round);
  json["rank"] = or_null(record.rank);
  if (record.stream == Stream::lost) {
    json["lines"] = number_of(record.number);
  } else if (record.stream == Stream::end) {
    json["exit_code"] = number_of(record.number);
  } else {
    json["ends_line"] = record.ends_line;
    json["text"] = record.text;
  }
  return json.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
}

}  // namespace muster::launcher
