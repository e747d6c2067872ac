// SPDX-License-Identifier: Apache-2.0
#include "agent/core/proc_text.hpp"

#include "rendezvous/base/text.hpp"

#include <cstddef>
#include <utility>

namespace muster::agent {
namespace {

constexpr std::uint64_t kKiB = 1024;

/// Takes the next word, up to a blank or the end of a line; empty at the end.
std::string_view next_word(std::string_view& text) {
  constexpr std::string_view kBlanks = " \t\n";
  const std::size_t begin = text.find_first_not_of(kBlanks);
  if (begin == std::string_view::npos) return text = {};
  const std::size_t end = text.find_first_of(kBlanks, begin);
  const std::string_view word = text.substr(begin, end - begin);
  text.remove_prefix(end == std::string_view::npos ? text.size() : end);
  return word;
}

std::uint64_t number_of(std::string_view word) {
  return parse_number<std::uint64_t>(word).value_or(0);
}

/// The number behind `name` at the beginning of a line; 0 if there is none.
std::uint64_t number_behind(std::string_view text, std::string_view name) {
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = text.find('\n', at);
    std::string_view line = text.substr(at, end - at);
    if (line.starts_with(name)) {
      line.remove_prefix(name.size());
      return number_of(next_word(line));
    }
    if (end == std::string_view::npos) break;
    at = end + 1;
  }
  return 0;
}

}  // namespace

std::optional<StatCounters> parse_stat_counters(std::string_view text) {
  // The name of the program may hold any character, so its last parenthesis ends it.
  const std::size_t close = text.rfind(')');
  if (close == std::string_view::npos) return std::nullopt;
  text.remove_prefix(close + 1);
  StatCounters counters;
  const std::string_view state = next_word(text);
  if (state.size() != 1) return std::nullopt;
  counters.state = state.front();
  // The state is the third field of the manual's list.
  for (int field = 4; field <= 22; ++field) {
    const std::string_view word = next_word(text);
    if (field == 4) counters.parent = static_cast<int>(number_of(word));
    if (field == 14 || field == 15) counters.own_ticks += number_of(word);
    if (field == 16 || field == 17) counters.reaped_ticks += number_of(word);
    if (field == 22) counters.start_time = number_of(word);
  }
  return counters;
}

StatusCounters parse_status_counters(std::string_view text) {
  StatusCounters counters;
  counters.memory = number_behind(text, "VmRSS:") * kKiB;
  counters.memory_peak = number_behind(text, "VmHWM:") * kKiB;
  counters.voluntary_switches = number_behind(text, "voluntary_ctxt_switches:");
  counters.involuntary_switches = number_behind(text, "nonvoluntary_ctxt_switches:");
  counters.tracer = number_behind(text, "TracerPid:");
  return counters;
}

IoCounters parse_io_counters(std::string_view text) {
  IoCounters counters;
  counters.read = number_behind(text, "rchar:");
  counters.written = number_behind(text, "wchar:");
  counters.disk_read = number_behind(text, "read_bytes:");
  counters.disk_written = number_behind(text, "write_bytes:");
  return counters;
}

std::optional<WaitingCall> parse_waiting_call(std::string_view text) {
  WaitingCall call;
  const auto number = parse_number<long>(next_word(text));
  if (!number || *number < 0) return std::nullopt;
  call.number = *number;
  for (std::uint64_t& argument : call.arguments) {
    std::string_view word = next_word(text);
    if (word.starts_with("0x")) word.remove_prefix(2);
    argument = parse_number<std::uint64_t>(word, 16).value_or(0);
  }
  return call;
}

std::string kernel_function(std::string_view wait_channel, std::string_view stack) {
  if (const std::string_view word = next_word(wait_channel); !word.empty() && word != "0")
    return std::string(word);
  // A line is "[<0>] nfs_wait_bit_killable+0x12/0x30".
  next_word(stack);
  const std::string_view function = next_word(stack);
  return std::string(function.substr(0, function.find('+')));
}

std::vector<int> parse_children(std::string_view text, std::size_t most) {
  std::vector<int> children;
  while (children.size() < most) {
    const auto pid = parse_number<int>(next_word(text));
    if (!pid || *pid <= 0) break;
    children.push_back(*pid);
  }
  return children;
}

}  // namespace muster::agent
