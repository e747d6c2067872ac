// SPDX-License-Identifier: Apache-2.0
#include "launcher/hosts/host_list.hpp"

#include <algorithm>

namespace muster::launcher {
namespace {

constexpr std::size_t kMaxLine = 64U << 10;

bool is_blank(char c) {
  return c == ' ' || c == '\t' || c == '\r' || c == '\v' || c == '\f';
}

/// Returns the place where the comment of a line begins: '#', or "//" that no word goes into.
std::size_t content_end(const std::string& text) {
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '#') return i;
    if (text.compare(i, 2, "//") == 0 && (i == 0 || is_blank(text[i - 1]))) return i;
  }
  return text.size();
}

Span next_word(const SourceLine& line, std::size_t from, std::size_t end) {
  while (from < end && is_blank(line.text[from])) ++from;
  Span word{from, from};
  while (word.end < end && !is_blank(line.text[word.end])) ++word.end;
  return word;
}

/// A setting of a host: "slots=8", "slots = 8" or "max_slots=16".
struct Setting {
  std::string name;
  Span where;
  Span value;
};

/// Reads the setting that begins at `from`, and moves `from` behind it.
Setting next_setting(const SourceLine& line, std::size_t& from, std::size_t end) {
  const std::size_t equals = line.text.find('=', from);
  Setting setting;
  setting.where = next_word(line, from, equals < end ? equals : end);
  setting.name = line.text.substr(setting.where.begin, setting.where.end - setting.where.begin);
  for (char& c : setting.name)
    if (c == '_') c = '-';
  if (equals >= end || next_word(line, setting.where.end, equals).begin != equals)
    throw line.wrong(setting.where.begin,
                     quote(setting.name) + " is no setting; after the host comes slots=N or max-slots=N");
  setting.value = next_word(line, equals + 1, end);
  from = setting.value.end;
  return setting;
}

void read_settings(const SourceLine& line, std::size_t from, std::size_t end, Host& into) {
  while (next_word(line, from, end).begin < end) {
    const Setting setting = next_setting(line, from, end);
    if (setting.name != "slots" && setting.name != "max-slots")
      throw line.wrong(setting.where.begin,
                       quote(setting.name) + " is not known; give slots=N or max-slots=N");
    int& number = setting.name == "slots" ? into.slots : into.max_slots;
    if (number != 0) throw line.wrong(setting.where.begin, quote(setting.name) + " is given twice");
    number = number_at(line, setting.value, 1, kMaxSlots, "a number of slots");
    if (into.max_slots != 0 && into.slots > into.max_slots)
      throw line.wrong(setting.value.begin, "slots=" + std::to_string(into.slots) +
                                                " is above max-slots=" + std::to_string(into.max_slots));
  }
}

void read_line(const SourceLine& line, HostCollector& collector) {
  const std::size_t end = content_end(line.text);
  const Span word = next_word(line, 0, end);
  if (word.begin == word.end) return;
  ListedHosts listed = parse_hosts(line, word);
  read_settings(line, word.end, end, listed.host);
  collector.add(line, word.begin, listed);
}

}  // namespace

std::vector<Host> parse_hostfile(const std::string& content, const std::string& name) {
  if (content.size() > kMaxHostText)
    throw UsageError(name + " has " + std::to_string(content.size()) + " bytes; a hostfile has at most " +
                     std::to_string(kMaxHostText));
  HostCollector collector;
  std::size_t begin = content.starts_with("\xef\xbb\xbf") ? 3 : 0;
  for (int number = 1; begin < content.size(); ++number) {
    const std::size_t end = std::min(content.find('\n', begin), content.size());
    const SourceLine line{content.substr(begin, end - begin), name + ":" + std::to_string(number), true};
    if (line.text.size() > kMaxLine) throw line.wrong(kMaxLine, "the line is too long; is this a hostfile?");
    read_line(line, collector);
    begin = end + 1;
  }
  if (collector.empty()) throw UsageError(name + " lists no host; write one a line, as in 'n0 slots=8'");
  return collector.take();
}

}  // namespace muster::launcher
