// SPDX-License-Identifier: Apache-2.0
#include "launcher/hosts/host_list.hpp"

#include <algorithm>
#include <numeric>
#include <set>

namespace muster::launcher {
namespace {

constexpr const char* kSlots = "a number of slots";
constexpr const char* kPort = "a port";
constexpr int kMaxPort = 65'535;
constexpr int kSshPort = 22;
/// Most entries of a list, which may be a line for each slot of a large job. Without a bound, ranges that are
/// listed again and again would keep us busy for hours.
constexpr std::size_t kMaxListed = 1U << 20;

bool is_blank(char c) {
  return c == ' ' || c == '\t';
}

Span trimmed(const SourceLine& line, Span span) {
  while (span.begin < span.end && is_blank(line.text[span.begin])) ++span.begin;
  while (span.end > span.begin && is_blank(line.text[span.end - 1])) --span.end;
  return span;
}

std::string text_of(const SourceLine& line, Span span) {
  return line.text.substr(span.begin, span.end - span.begin);
}

bool is_user_character(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' || c == '-' ||
         c == '_' || c == '+' || c == '\\';
}

/// Takes the user before '@' and moves `span` behind it.
std::string take_user(const SourceLine& line, Span& span) {
  const std::size_t at = line.text.find('@', span.begin);
  if (at >= span.end) return "";
  const std::string user = line.text.substr(span.begin, at - span.begin);
  if (user.empty()) throw line.wrong(span.begin, "the user is missing; write USER@HOST or leave '@' out");
  if (user[0] == '-')
    throw line.wrong(span.begin, "a user cannot begin with '-', since ssh would take it for an option");
  const auto wrong = std::find_if_not(user.begin(), user.end(), is_user_character);
  if (wrong != user.end())
    throw line.wrong(span.begin + static_cast<std::size_t>(wrong - user.begin()),
                     quote(std::string(1, *wrong)) + " cannot be part of a user name");
  const std::size_t second = line.text.find('@', at + 1);
  if (second < span.end) throw line.wrong(second, "a second '@'; hosts are separated by commas");
  span.begin = at + 1;
  return user;
}

/// Reads the number of HOST:NUMBER as slots, as everywhere; but USER@HOST:NUMBER is a port, as for every SSH
/// tool. A number that more likely means the other thing is refused, with both spellings.
void read_one_number(const SourceLine& line, Span host, Span number, Host& into) {
  const std::string given = text_of(line, number);
  const std::string name = text_of(line, host);
  if (into.user.empty()) {
    into.slots = number_at(line, number, 1, kMaxSlots, kSlots);
    if (into.slots > kMaxShortSlots)
      throw line.wrong(number.begin, given + " slots or port " + given + "? Write " + name + "::" + given +
                                         " for so many slots, " + name + ":" + given + ": for the port");
    return;
  }
  into.port = number_at(line, number, 1, kMaxPort, kPort);
  if (into.port < kMinShortPort && into.port != kSshPort) {
    const std::string full = into.user + "@" + name;
    throw line.wrong(number.begin, "port " + given + " or " + given + " slots? Write " + full + "::" + given +
                                       " for the slots, " + full + ":" + given + ": for the port");
  }
}

/// Refuses an IPv6 address without brackets, which reads like a host with port and slots.
void refuse_bare_address(const SourceLine& line, Span span) {
  if (!is_address(line, span)) return;
  const std::string text = text_of(line, span);
  throw line.wrong(span.begin, quote(text) + " may be an IPv6 address; write it in brackets, as in [" + text +
                                   "]:8 (8 slots)");
}

/// Reads what follows the host: nothing, ":NUMBER" or ":[PORT]:[SLOTS]".
void read_numbers(const SourceLine& line, const std::vector<Span>& parts, Host& into) {
  if (parts.size() == 2) read_one_number(line, parts[0], parts[1], into);
  if (parts.size() != 3) return;
  const auto empty = [](Span span) { return span.begin == span.end; };
  if (empty(parts[1]) && empty(parts[2]))
    throw line.wrong(parts[1].begin, "port and slots are missing; write HOST:PORT:SLOTS, or the host alone");
  if (!empty(parts[1])) into.port = number_at(line, parts[1], 1, kMaxPort, kPort);
  if (!empty(parts[2])) into.slots = number_at(line, parts[2], 1, kMaxSlots, kSlots);
}

/// Whether the slots of a host are said by a number, so that listing it again cannot mean one slot more.
bool is_counted(const Host& host) {
  return host.slots != 0 || host.max_slots != 0;
}

constexpr int kMaxGpu = kMaxSlots - 1;
constexpr const char* kGpu = "the number of a GPU";

struct Choice {
  std::size_t at = 0;
  /// GPUs that were named; empty: all of the host.
  std::set<int> gpus;
};

/// Reads "0,2,4-7".
std::set<int> parse_gpus(const SourceLine& line, Span span) {
  std::set<int> gpus;
  for (const Span item : split_outside_brackets(line, span, ',')) {
    const std::size_t dash = std::min(line.text.find('-', item.begin), item.end);
    const Span high_span{dash == item.end ? item.begin : dash + 1, item.end};
    const int low = number_at(line, {item.begin, dash}, 0, kMaxGpu, kGpu);
    const int high = number_at(line, high_span, 0, kMaxGpu, kGpu);
    if (high < low) throw line.wrong(high_span.begin, "the range ends before it begins; write LOW-HIGH");
    for (int gpu = low; gpu <= high; ++gpu)
      if (!gpus.insert(gpu).second)
        throw line.wrong(item.begin, "GPU " + std::to_string(gpu) + " is named twice");
  }
  return gpus;
}

class Filter {
 public:
  Filter(const std::vector<Host>& hosts, const GivenText& given) : line_(SourceLine::of(given)) {
    if (line_.text.size() > kMaxHostText)
      throw UsageError(line_.name + " is too long; use ranges such as n[00-15]");
    for (const Host& host : hosts) listed_.emplace(lower_case(host.name), &host);
    for (const Span item : split_outside_brackets(line_, {0, line_.text.size()}, '@')) read(item);
  }

  const Choice* of(const Host& host) const {
    const auto found = choices_.find(lower_case(host.name));
    return found == choices_.end() ? nullptr : &found->second;
  }

  const SourceLine& line() const { return line_; }

 private:
  void read(Span item) {
    const std::vector<Span> parts = split_outside_brackets(line_, item, ':');
    if (parts.size() > 2)
      throw line_.wrong(parts[2].begin - 1, "a second colon; hosts are separated by '@', as in n0@n1:0,2");
    const std::vector<std::string> names = expand_hosts(line_, parts[0]);
    Choice choice;
    choice.at = item.begin;
    if (parts.size() == 2) choice.gpus = parse_gpus(line_, parts[1]);
    for (const std::string& name : names) add(name, choice, parts);
  }

  void add(const std::string& name, const Choice& choice, const std::vector<Span>& parts) {
    const auto host = listed_.find(lower_case(name));
    if (host == listed_.end())
      throw line_.wrong(choice.at,
                        "host " + quote(name) + " is not among the hosts of the job; check its spelling");
    const int slots = host->second->slots;
    if (!choice.gpus.empty() && slots > 0 && *choice.gpus.rbegin() >= slots)
      throw line_.wrong(parts[1].begin, "host " + quote(name) + " has no GPU " +
                                            std::to_string(*choice.gpus.rbegin()) + ", only 0 to " +
                                            std::to_string(slots - 1) + " (its slots)");
    if (!choices_.emplace(lower_case(name), choice).second)
      throw line_.wrong(choice.at,
                        "host " + quote(name) + " is named twice; name it once, with all its GPUs");
  }

  SourceLine line_;
  std::map<std::string, const Host*> listed_;
  std::map<std::string, Choice> choices_;
};

Host with_gpus(Host host, std::vector<int> gpus) {
  host.slots = static_cast<int>(gpus.size());
  host.gpus = std::move(gpus);
  return host;
}

constexpr std::size_t kMaxLine = 64U << 10;

bool is_space(char c) {
  return c == ' ' || c == '\t' || c == '\r' || c == '\v' || c == '\f';
}

/// Returns the place where the comment of a line begins: '#', or "//" that no word goes into.
std::size_t content_end(const std::string& text) {
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '#') return i;
    if (text.compare(i, 2, "//") == 0 && (i == 0 || is_space(text[i - 1]))) return i;
  }
  return text.size();
}

Span next_word(const SourceLine& line, std::size_t from, std::size_t end) {
  while (from < end && is_space(line.text[from])) ++from;
  Span word{from, from};
  while (word.end < end && !is_space(line.text[word.end])) ++word.end;
  return word;
}

/// A setting of a host: "slots=8", "slots = 8" or "max_slots=16".
struct HostSetting {
  std::string name;
  Span where;
  Span value;
};

/// Reads the setting that begins at `from`, and moves `from` behind it.
HostSetting next_setting(const SourceLine& line, std::size_t& from, std::size_t end) {
  const std::size_t equals = line.text.find('=', from);
  HostSetting setting;
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
    const HostSetting setting = next_setting(line, from, end);
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

std::string lower_case(const std::string& text) {
  std::string lower = text;
  for (char& c : lower) c = static_cast<char>(c >= 'A' && c <= 'Z' ? c - 'A' + 'a' : c);
  return lower;
}

ListedHosts parse_hosts(const SourceLine& line, Span span) {
  ListedHosts listed;
  listed.host.user = take_user(line, span);
  const std::vector<Span> parts = split_outside_brackets(line, span, ':');
  if (parts.size() > 3 && !is_address(line, span))
    throw line.wrong(parts[3].begin - 1,
                     "too many colons; write HOST:PORT:SLOTS, and IPv6 addresses in brackets: [::1]");
  refuse_bare_address(line, span);
  listed.names = expand_hosts(line, parts[0]);
  read_numbers(line, parts, listed.host);
  return listed;
}

void HostCollector::add(const SourceLine& line, std::size_t at, const ListedHosts& listed) {
  listed_ += listed.names.size();
  if (listed_ > kMaxListed)
    throw line.wrong(
        at, "more than " + std::to_string(kMaxListed) + " entries; list each host once, with all its slots");
  Host host = listed.host;
  host.place = line.place(at);
  for (const std::string& name : listed.names) {
    host.name = name;
    add_one(line, at, host);
  }
}

void HostCollector::add_one(const SourceLine& line, std::size_t at, const Host& host) {
  const auto [before, is_new] = seen_.try_emplace({lower_case(host.name), host.port}, hosts_.size());
  if (is_new) {
    if (hosts_.size() >= kMaxHosts)
      throw line.wrong(at, "more than " + std::to_string(kMaxHosts) + " hosts; list fewer");
    hosts_.push_back(host);
    times_.push_back(1);
    return;
  }
  const Host& first = hosts_[before->second];
  // A list may have a million entries, so that the sentence is made for a wrong one only.
  const auto wrong = [&](const std::string& why) {
    return line.wrong(at, "host " + quote(host.name) + " is listed twice, first at " + first.place + why);
  };
  if (is_counted(first) || is_counted(host))
    throw wrong("; list it once, with all its slots, or each time without a number");
  if (first.user != host.user) throw wrong(", with another user; give it the same one, or list it once");
  if (++times_[before->second] > kMaxSlots)
    throw wrong(", and more than " + std::to_string(kMaxSlots) + " times; list it less often");
}

std::vector<Host> HostCollector::take() {
  // Where a host is listed for each of its slots, the other hosts are, too.
  if (listed_ > hosts_.size())
    for (std::size_t i = 0; i < hosts_.size(); ++i)
      if (!is_counted(hosts_[i])) hosts_[i].slots = times_[i];
  return std::move(hosts_);
}

std::vector<Host> parse_host_list(const GivenText& given) {
  const SourceLine line = SourceLine::of(given);
  if (line.text.size() > kMaxHostText)
    throw UsageError(line.name + " has " + std::to_string(line.text.size()) + " bytes; give at most " +
                     std::to_string(kMaxHostText) + ", or use ranges such as n[000-999]");
  HostCollector collector;
  for (const Span item : split_outside_brackets(line, {0, line.text.size()}, ',')) {
    const Span span = trimmed(line, item);
    if (span.begin == span.end)
      throw line.wrong(item.begin, "a host is missing; write HOST or HOST:SLOTS,...");
    collector.add(line, span.begin, parse_hosts(line, span));
  }
  return collector.take();
}

std::vector<std::string> node_names(const std::vector<Host>& hosts) {
  std::map<std::string, int> times;
  for (const Host& host : hosts) ++times[lower_case(host.name)];
  std::vector<std::string> names;
  for (const Host& host : hosts) {
    const bool several = times[lower_case(host.name)] > 1;
    const bool is_ipv6 = host.name.find(':') != std::string::npos;
    std::string name = host.name;
    if (several && host.port != 0)
      name = (is_ipv6 ? "[" + host.name + "]" : host.name) + ":" + std::to_string(host.port);
    names.push_back(std::move(name));
  }
  return names;
}

std::vector<Host> include_hosts(const std::vector<Host>& hosts, const GivenText& given) {
  const Filter filter(hosts, given);
  std::vector<Host> kept;
  for (const Host& host : hosts) {
    const Choice* choice = filter.of(host);
    if (choice == nullptr) continue;
    kept.push_back(choice->gpus.empty() ? host : with_gpus(host, {choice->gpus.begin(), choice->gpus.end()}));
  }
  return kept;
}

std::vector<Host> exclude_hosts(const std::vector<Host>& hosts, const GivenText& given) {
  const Filter filter(hosts, given);
  std::vector<Host> kept;
  for (const Host& host : hosts) {
    const Choice* choice = filter.of(host);
    if (choice == nullptr) {
      kept.push_back(host);
      continue;
    }
    if (choice->gpus.empty()) continue;
    if (host.slots == 0)
      throw filter.line().wrong(choice->at, "GPUs of host " + quote(host.name) +
                                                " can be excluded only if its slots are given, as in " +
                                                host.name + ":8");
    std::vector<int> gpus(static_cast<std::size_t>(host.slots));
    std::iota(gpus.begin(), gpus.end(), 0);
    std::erase_if(gpus, [&](int gpu) { return choice->gpus.contains(gpu); });
    if (!gpus.empty()) kept.push_back(with_gpus(host, std::move(gpus)));
  }
  if (kept.empty()) throw filter.line().wrong(0, "no host is left; exclude fewer");
  return kept;
}

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
