// SPDX-License-Identifier: Apache-2.0
#include "launcher/hosts/host_pattern.hpp"

#include "launcher/hosts/host_list.hpp"

#include <arpa/inet.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <set>
#include <string_view>

namespace muster::launcher {
namespace {

/// Bytes of the wrong text that are quoted before and after the place.
constexpr std::size_t kContext = 48;
constexpr std::size_t kQuoteLength = 40;

}  // namespace

std::string SourceLine::place(std::size_t at) const {
  const std::string number = std::to_string(at + 1);
  return in_file ? name + ":" + number : name + ", position " + number;
}

UsageError SourceLine::wrong(std::size_t at, const std::string& what) const {
  const std::size_t begin = at > kContext ? at - kContext : 0;
  const std::size_t end = std::min(text.size(), at + kContext);
  std::string excerpt = text.substr(begin, end - begin);
  for (char& c : excerpt)  // one column for each byte, or the caret would point elsewhere
    if (c < 0x20 || c > 0x7e) c = '?';
  std::size_t column = at - begin;
  if (begin > 0) {
    excerpt.insert(0, "...");
    column += 3;
  }
  if (end < text.size()) excerpt += "...";
  return UsageError(place(at) + ": " + what, {excerpt, std::string(column, ' ') + "^"});
}

std::string quote(const std::string& text) {
  return "'" + (text.size() > kQuoteLength ? text.substr(0, kQuoteLength) + "..." : text) + "'";
}

namespace {

/// Longest host name: a longer one cannot be resolved (RFC 1035).
constexpr std::size_t kMaxNameLength = 253;
/// Most digits of a number in a range.
constexpr std::size_t kMaxDigits = 9;
constexpr int kMaxNumber = 999'999'999;

bool is_digit(char c) {
  return c >= '0' && c <= '9';
}

bool is_name_character(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || is_digit(c) || c == '.' || c == '-' || c == '_';
}

/// Adds the numbers of one item "N" or "N-M" of a range, padded as its first number is.
void expand_item(const SourceLine& line, Span item, std::vector<std::string>& numbers) {
  const std::size_t dash = std::min(line.text.find('-', item.begin), item.end);
  const Span low_span{item.begin, dash};
  const Span high_span{dash == item.end ? item.begin : dash + 1, item.end};
  const int low = number_at(line, low_span, 0, kMaxNumber, "a number of a range such as [00-15,20]");
  const int high = number_at(line, high_span, 0, kMaxNumber, "a number of a range such as [00-15,20]");
  const std::size_t width = low_span.end - low_span.begin;
  if (high < low) throw line.wrong(high_span.begin, "the range ends before it begins; write [LOW-HIGH]");
  if (line.text[high_span.begin] == '0' && high > 0 && high_span.end - high_span.begin != width)
    throw line.wrong(high_span.begin,
                     "the two ends are padded differently; give both the same number of digits");
  if (static_cast<std::size_t>(high - low) >= kMaxHosts - std::min(kMaxHosts, numbers.size()))
    throw line.wrong(item.begin, "the range stands for more than " + std::to_string(kMaxHosts) + " hosts");
  const bool padded = line.text[low_span.begin] == '0';
  for (int n = low; n <= high; ++n) {
    std::string number = std::to_string(n);
    if (padded && number.size() < width) number.insert(0, width - number.size(), '0');
    numbers.push_back(std::move(number));
  }
}

/// Returns the numbers of a range; `range` is what stands between the brackets.
std::vector<std::string> expand_range(const SourceLine& line, Span range) {
  std::vector<std::string> numbers;
  for (const Span item : split_outside_brackets(line, range, ',')) expand_item(line, item, numbers);
  return numbers;
}

void check_name(const SourceLine& line, std::size_t at, const std::string& name) {
  if (name.size() > kMaxNameLength)
    throw line.wrong(at, "the name has " + std::to_string(name.size()) +
                             " characters; a host name has at most " + std::to_string(kMaxNameLength));
  if (name.starts_with('-'))
    throw line.wrong(at, "a host cannot begin with '-', since ssh would take it for an option");
  if (name.starts_with('.')) throw line.wrong(at, "a host cannot begin with '.'");
}

bool is_ipv6(const std::string& text) {
  std::array<unsigned char, 16> bytes{};
  const std::size_t zone = std::min(text.find('%'), text.size());
  const std::string_view name = std::string_view(text).substr(zone);
  const bool zone_is_good =
      name.empty() || (name.size() > 1 && std::all_of(name.begin() + 1, name.end(), is_name_character));
  return zone_is_good && text.find('\0') == std::string::npos &&
         inet_pton(AF_INET6, text.substr(0, zone).c_str(), bytes.data()) == 1;
}

std::string address_at(const SourceLine& line, Span span) {
  const std::string text = line.text.substr(span.begin + 1, span.end - span.begin - 2);
  if (!is_ipv6(text)) throw line.wrong(span.begin, quote(text) + " is not an IPv6 address");
  return text;
}

}  // namespace

std::vector<Span> split_outside_brackets(const SourceLine& line, Span whole, char separator) {
  std::vector<Span> parts{{whole.begin, whole.end}};
  std::size_t opened = whole.end;
  for (std::size_t i = whole.begin; i < whole.end; ++i) {
    const char c = line.text[i];
    if (c == '[') {
      if (opened != whole.end) throw line.wrong(i, "a bracket inside brackets; close the first one");
      opened = i;
    } else if (c == ']') {
      if (opened == whole.end) throw line.wrong(i, "this bracket was not opened");
      opened = whole.end;
    } else if (c == separator && opened == whole.end) {
      parts.back().end = i;
      parts.push_back({i + 1, whole.end});
    }
  }
  if (opened != whole.end)
    throw line.wrong(opened, "this bracket is not closed; write ] at the end of the range");
  return parts;
}

int number_at(const SourceLine& line, Span span, int low, int high, const std::string& what) {
  const std::string text = line.text.substr(span.begin, span.end - span.begin);
  const auto wrong = std::find_if_not(text.begin(), text.end(), is_digit);
  if (text.empty()) throw line.wrong(span.begin, what + " is missing");
  if (wrong != text.end())
    throw line.wrong(span.begin + static_cast<std::size_t>(wrong - text.begin()),
                     quote(text) + " is not " + what);
  int value = -1;
  if (text.size() <= kMaxDigits) std::from_chars(text.data(), text.data() + text.size(), value);
  if (value < low || value > high)
    throw line.wrong(span.begin, quote(text) + " is not " + what + "; give one from " + std::to_string(low) +
                                     " to " + std::to_string(high));
  return value;
}

bool is_bracketed_address(const SourceLine& line, Span span) {
  if (span.begin >= span.end || line.text[span.begin] != '[') return false;
  const std::size_t close = line.text.find(']', span.begin);
  return close < span.end && line.text.find(':', span.begin) < close;
}

bool is_address(const SourceLine& line, Span span) {
  return is_ipv6(line.text.substr(span.begin, span.end - span.begin));
}

std::vector<std::string> expand_hosts(const SourceLine& line, Span span) {
  if (span.begin >= span.end) throw line.wrong(span.begin, "a host is missing");
  if (is_bracketed_address(line, span)) return {address_at(line, span)};
  check_name(line, span.begin, line.text.substr(span.begin, 1));
  std::vector<std::string> names{""};
  for (std::size_t i = span.begin; i < span.end; ++i) {
    const char c = line.text[i];
    if (c == '[') {
      const std::size_t close = line.text.find(']', i);
      if (close >= span.end)
        throw line.wrong(i, "this bracket is not closed; write ] at the end of the range");
      const std::vector<std::string> numbers = expand_range(line, {i + 1, close});
      if (names.size() * numbers.size() > kMaxHosts)
        throw line.wrong(i, "the ranges stand for more than " + std::to_string(kMaxHosts) + " hosts");
      std::vector<std::string> longer;
      longer.reserve(names.size() * numbers.size());
      for (const std::string& name : names)
        for (const std::string& number : numbers) longer.push_back(name + number);
      names = std::move(longer);
      i = close;
    } else if (is_name_character(c)) {
      if (names.front().size() >= kMaxNameLength) check_name(line, span.begin, names.front() + c);
      for (std::string& name : names) name += c;
    } else {
      throw line.wrong(i, (c == ' ' || c == '\t' ? "a blank" : quote(std::string(1, c))) +
                              " cannot be part of a host name");
    }
  }
  for (const std::string& name : names) check_name(line, span.begin, name);
  return names;
}

std::vector<std::string> expand_node_list(const GivenText& given) {
  const SourceLine line = SourceLine::of(given);
  if (line.text.size() > kMaxHostText) throw UsageError(line.name + " is longer than any node list");
  std::vector<std::string> nodes;
  std::set<std::string> seen;
  for (const Span item : split_outside_brackets(line, {0, line.text.size()}, ','))
    for (std::string& name : expand_hosts(line, item)) {
      if (!seen.insert(lower_case(name)).second)
        throw line.wrong(item.begin, "node " + quote(name) + " is listed twice");
      if (nodes.size() >= kMaxHosts)
        throw line.wrong(item.begin, "more than " + std::to_string(kMaxHosts) + " nodes");
      nodes.push_back(std::move(name));
    }
  return nodes;
}

}  // namespace muster::launcher
