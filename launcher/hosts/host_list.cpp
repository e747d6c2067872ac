// SPDX-License-Identifier: Apache-2.0
#include "launcher/hosts/host_list.hpp"

#include <algorithm>

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
  Host host = listed.host;
  for (const std::string& name : listed.names) {
    host.name = name;
    add_one(line, at, host);
  }
}

void HostCollector::add_one(const SourceLine& line, std::size_t at, Host host) {
  if (++listed_ > kMaxListed)
    throw line.wrong(
        at, "more than " + std::to_string(kMaxListed) + " entries; list each host once, with all its slots");
  host.place = line.place(at);
  const auto [before, is_new] = seen_.emplace(std::pair(lower_case(host.name), host.port), hosts_.size());
  if (is_new) {
    if (hosts_.size() >= kMaxHosts)
      throw line.wrong(at, "more than " + std::to_string(kMaxHosts) + " hosts; list fewer");
    hosts_.push_back(std::move(host));
    times_.push_back(1);
    return;
  }
  const Host& first = hosts_[before->second];
  const std::string again = "host " + quote(host.name) + " is listed twice, first at " + first.place;
  if (is_counted(first) || is_counted(host))
    throw line.wrong(at, again + "; list it once, with all its slots, or each time without a number");
  if (first.user != host.user)
    throw line.wrong(at, again + ", with another user; give it the same one, or list it once");
  if (++times_[before->second] > kMaxSlots)
    throw line.wrong(at,
                     again + ", and more than " + std::to_string(kMaxSlots) + " times; list it less often");
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

}  // namespace muster::launcher
