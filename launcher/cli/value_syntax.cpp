// SPDX-License-Identifier: Apache-2.0
#include "launcher/cli/value_syntax.hpp"

#include "agent/core/exit_status.hpp"
#include "launcher/core/launch_error.hpp"
#include "launcher/hosts/host_list.hpp"
#include "rendezvous/base/host_port.hpp"
#include "rendezvous/base/nearest_name.hpp"
#include "rendezvous/base/text.hpp"
#include "rendezvous/base/time_unit.hpp"

#include <signal.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <limits>
#include <string_view>
#include <utility>

namespace muster::launcher {
namespace {

constexpr double kMaxSeconds = 1e8;
constexpr int kMaxRank = 1 << 20;
constexpr int kMaxNodes = 1 << 20;

std::optional<int> whole_number(std::string_view text) {
  if (!text.empty() && text[0] == '+') text.remove_prefix(1);
  if (text.empty() || text[0] == '+') return std::nullopt;
  return parse_number<int>(text);
}

std::string trimmed(const std::string& text) {
  const auto first = text.find_first_not_of(" \t\r\n");
  if (first == std::string::npos) return "";
  return text.substr(first, text.find_last_not_of(" \t\r\n") - first + 1);
}

std::optional<unsigned> stream_bits(const std::string& text) {
  const auto value = whole_number(text);
  if (!value || *value < 0 || *value > 3) return std::nullopt;
  return static_cast<unsigned>(*value);
}

/// Reads the words that torchrun takes for true and false in --rdzv-conf.
bool parse_truth(const GivenText& given) {
  const std::string word = lower_case(given.text);
  for (const char* yes : {"1", "true", "t", "yes", "y"})
    if (word == yes) return true;
  for (const char* no : {"0", "false", "f", "no", "n"})
    if (word == no) return false;
  throw UsageError(given.quoted() + " is neither true nor false; give 1 or 0");
}

/// Removes one pair of quotes: harnesses that start programs without a shell pass --rdzv-conf='a=b' with
/// them.
std::string without_quotes(const std::string& text) {
  const bool quoted = text.size() > 1 && (text[0] == '\'' || text[0] == '"') && text.back() == text[0];
  return quoted ? trimmed(text.substr(1, text.size() - 2)) : text;
}

constexpr auto kUsedKeys =
    std::to_array<std::string_view>({"join_timeout", "last_call_timeout", "timeout", "is_host"});

/// Keys of the rendezvous backends c10d (PyTorch 2.15 and before), static, etcd-v2 and etcd.
constexpr auto kKeysWithoutEffect = std::to_array<std::string_view>(
    {"cas_backoff_max_seconds", "close_timeout", "heartbeat_timeout", "keep_alive_interval",
     "keep_alive_max_attempt", "read_timeout", "store_type", "use_libuv", "rank", "protocol", "ssl_cert",
     "ssl_cert_key", "ca_cert", "etcd_prefix", "cert", "key", "cacert"});

/// Returns `key` if torchrun reads it and it makes no difference here; throws UsageError otherwise.
std::string ignored_key(const GivenText& given, const GivenText& part, const std::string& key) {
  if (key == "store_type" && lower_case(part.text) != "tcp")
    throw UsageError(
        part.quoted() +
        ": nodes meet over the network here, where the loss of one is seen at once, and not in a "
        "file; leave the key out and give --rdzv-endpoint HOST:PORT");
  if (std::find(kKeysWithoutEffect.begin(), kKeysWithoutEffect.end(), key) != kKeysWithoutEffect.end())
    return key;
  std::vector<std::string_view> known(kUsedKeys.begin(), kUsedKeys.end());
  known.insert(known.end(), kKeysWithoutEffect.begin(), kKeysWithoutEffect.end());
  const std::string meant = did_you_mean(key, known);
  throw UsageError(given.quoted() + ": '" + key + "' is no key of a rendezvous; " +
                   (meant.empty()
                        ? "those that are used are join_timeout, last_call_timeout, timeout and is_host"
                        : meant));
}

bool is_variable_name(const std::string& name) {
  if (name.empty() || (name[0] >= '0' && name[0] <= '9')) return false;
  return std::all_of(name.begin(), name.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
  });
}

std::string range_text(int low, int high) {
  return "a whole number from " + std::to_string(low) + " to " + std::to_string(high);
}

}  // namespace

std::vector<std::string> split(const std::string& text, char separator) {
  std::vector<std::string> parts;
  std::size_t begin = 0;
  for (;;) {
    const std::size_t end = text.find(separator, begin);
    parts.push_back(text.substr(begin, end - begin));
    if (end == std::string::npos) return parts;
    begin = end + 1;
  }
}

int parse_whole_number(const GivenText& given, int low, int high) {
  const auto value = whole_number(trimmed(given.text));
  if (!value) throw UsageError(given.quoted() + " is not a number; give " + range_text(low, high));
  if (*value < low || *value > high)
    throw UsageError(given.quoted() + " is out of range; give " + range_text(low, high));
  return *value;
}

bool parse_switch(const GivenText& given) {
  const auto value = whole_number(trimmed(given.text));
  if (!value) throw UsageError(given.quoted() + " is not a switch; set it to 1 or 0, or unset it");
  return *value != 0;
}

std::chrono::milliseconds parse_seconds(const GivenText& given, bool positive) {
  const std::string text = trimmed(given.text);
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  const std::string_view unit(end, static_cast<std::size_t>(text.data() + text.size() - end));
  const auto unit_ms = milliseconds_of(unit.empty() ? "s" : unit);
  const std::string advice = std::string("; give seconds ") + (positive ? "above 0" : "from 0") +
                             " to 100000000, or with a unit (ms, s, m, h, d), for example 2.5 or 5m";
  if (error != std::errc() || !unit_ms || !std::isfinite(value))
    throw UsageError(given.quoted() + " is not a time" + advice);
  const double ms = value * static_cast<double>(*unit_ms);
  if (value < 0 || ms > kMaxSeconds * 1000 || (positive && value == 0))
    throw UsageError(given.quoted() + " is out of range" + advice);
  return std::chrono::milliseconds(static_cast<std::int64_t>(std::ceil(ms)));
}

std::uint64_t parse_size(const GivenText& given) {
  constexpr std::string_view kUnits = "KMGT";
  constexpr std::uint64_t kLeast = 4096;
  std::string text = trimmed(given.text);
  const std::size_t unit = text.empty() ? std::string_view::npos : kUnits.find(text.back());
  if (unit != std::string_view::npos) text.pop_back();
  const auto value = parse_number<std::uint64_t>(text);
  const std::string advice = "; give bytes, or a number with K, M, G or T, at least 4K, for example 10M";
  if (!value) throw UsageError(given.quoted() + " is not a size" + advice);
  const unsigned shift = unit == std::string_view::npos ? 0U : 10U * (static_cast<unsigned>(unit) + 1U);
  const std::uint64_t bytes = *value << shift;
  if (bytes >> shift != *value || bytes < kLeast || bytes > std::numeric_limits<std::int64_t>::max())
    throw UsageError(given.quoted() + " is out of range" + advice);
  return bytes;
}

NodeRange parse_node_range(const GivenText& given) {
  const std::vector<std::string> parts = split(given.text, ':');
  const auto low = whole_number(trimmed(parts.front()));
  const auto high = whole_number(trimmed(parts.back()));
  if (parts.size() > 2 || !low || !high)
    throw UsageError(given.quoted() + " is not a number of nodes; give N or MIN:MAX");
  if (*low < 1 || *high < *low || *high > kMaxNodes)
    throw UsageError(given.quoted() + " is out of range; MIN must be at least 1 and MAX at least MIN");
  return {*low, *high};
}

agent::StreamsByRank parse_streams(const GivenText& given) {
  const auto wrong = [&given] {
    return UsageError(given.quoted() +
                      " is not a stream choice; give 0 (none), 1 (stdout), 2 (stderr), 3 (both), " +
                      "or RANK:CHOICE,... as in 0:3,1:1");
  };
  agent::StreamsByRank streams;
  if (const auto bits = stream_bits(given.text)) {
    streams.fallback = *bits;
    return streams;
  }
  for (const std::string& item : split(given.text, ',')) {
    const std::vector<std::string> pair = split(item, ':');
    if (pair.size() != 2) throw wrong();
    const auto rank = whole_number(pair[0]);
    const auto bits = stream_bits(pair[1]);
    if (!rank || *rank < 0 || *rank > kMaxRank || !bits) throw wrong();
    streams.by_rank[*rank] = *bits;
  }
  return streams;
}

RdzvConf parse_rdzv_conf(const GivenText& given) {
  RdzvConf conf;
  const std::string text = without_quotes(trimmed(given.text));
  if (text.empty()) return conf;
  for (const std::string& item : split(text, ',')) {
    const std::size_t equals = item.find('=');
    const std::string key = trimmed(item.substr(0, equals));
    const std::string value = equals == std::string::npos ? "" : trimmed(item.substr(equals + 1));
    if (key.empty() || value.empty())
      throw UsageError(given.quoted() + ": '" + trimmed(item) +
                       "' has no key or no value; give key=value,...");
    const GivenText part{value, given.source + " " + key};
    if (key == "join_timeout")
      conf.join_timeout = parse_seconds(part, true);
    else if (key == "last_call_timeout")
      conf.last_call_timeout = parse_seconds(part, false);
    else if (key == "timeout")
      conf.timeout = part;
    else if (key == "is_host")
      conf.is_host = parse_truth(part);
    else
      conf.without_effect.push_back(ignored_key(given, part, key));
  }
  return conf;
}

std::vector<ExportItem> parse_exports(const GivenText& given) {
  std::vector<ExportItem> items;
  for (const std::string& text : parse_filters(given)) {
    ExportItem item;
    const std::size_t equals = text.find('=');
    item.name = trimmed(text.substr(0, equals));
    if (equals != std::string::npos) item.value = text.substr(equals + 1);
    if (!item.value && item.name.ends_with('*')) {
      item.is_prefix = true;
      item.name.pop_back();
    }
    if (!is_variable_name(item.name))
      throw UsageError(given.quoted() + ": '" + item.name +
                       "' is not the name of a variable; give NAME, NAME=VALUE or NAME* (',,' is a comma " +
                       "inside a value)");
    items.push_back(std::move(item));
  }
  return items;
}

std::vector<std::string> parse_words(const GivenText& given) {
  std::vector<std::string> words;
  bool inside = false;
  char quote = 0;
  for (std::size_t i = 0; i < given.text.size(); ++i) {
    const char c = given.text[i];
    if (quote == 0 && (c == ' ' || c == '\t')) {
      inside = false;
      continue;
    }
    if (!std::exchange(inside, true)) words.emplace_back();
    if (c == '\\' && quote != '\'' && i + 1 < given.text.size())
      words.back() += given.text[++i];
    else if (quote == 0 && (c == '\'' || c == '"'))
      quote = c;
    else if (c == quote)
      quote = 0;
    else
      words.back() += c;
  }
  if (quote != 0) throw UsageError(given.quoted() + ": a quotation mark is not closed; add " + quote);
  if (words.empty() || words.front().empty())
    throw UsageError(given.source + " names no program; give one, as in 'ssh -v'");
  return words;
}

std::vector<int> parse_signals(const GivenText& given) {
  std::vector<int> signals;
  for (const std::string& item : split(given.text, ',')) {
    const std::string name = trimmed(item);
    const int number = agent::signal_number(name);
    if (number == 0)
      throw UsageError(given.quoted() + ": '" + name +
                       "' is not a signal; give names such as SIGTERM,SIGUSR1");
    if (number == SIGKILL || number == SIGSTOP)
      throw UsageError(given.quoted() + ": the system lets nobody handle " + name + "; leave it out");
    if (number == SIGCHLD || number == SIGSEGV || number == SIGBUS || number == SIGFPE || number == SIGILL)
      throw UsageError(given.quoted() + ": " + name + " is raised by the launcher's own work; leave it out");
    signals.push_back(number);
  }
  std::sort(signals.begin(), signals.end());
  signals.erase(std::unique(signals.begin(), signals.end()), signals.end());
  return signals;
}

std::vector<int> parse_forwarded_signals(const GivenText& given) {
  if (trimmed(given.text) == "none") return {};
  const std::vector<int> signals = parse_signals(given);
  for (const int number : signals)
    if (number != SIGUSR1 && number != SIGUSR2)
      throw UsageError(given.quoted() + ": " + agent::signal_name(number) +
                       " is no notice; give SIGUSR1, SIGUSR2, both, or none");
  return signals;
}

std::optional<std::set<int>> parse_rank_filter(const GivenText& given) {
  if (trimmed(given.text).empty()) return std::nullopt;
  std::set<int> ranks;
  for (const std::string& item : split(given.text, ',')) {
    const auto rank = whole_number(trimmed(item));
    if (!rank || *rank < 0 || *rank > kMaxRank)
      throw UsageError(given.quoted() + ": '" + item + "' is not a local rank; give a list such as 0,1,2");
    ranks.insert(*rank);
  }
  return ranks;
}

std::vector<std::string> parse_filters(const GivenText& given) {
  std::vector<std::string> filters(1);
  for (std::size_t i = 0; i < given.text.size(); ++i) {
    if (given.text[i] != ',') {
      filters.back() += given.text[i];
    } else if (i + 1 < given.text.size() && given.text[i + 1] == ',') {
      filters.back() += ',';
      ++i;
    } else {
      filters.emplace_back();
    }
  }
  std::erase(filters, "");
  return filters;
}

Endpoint parse_endpoint(const GivenText& given) {
  const auto parts = split_host_port(trimmed(given.text));
  const auto is_valid = [&](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' ||
           c == '-' || c == '_' || (parts->bracketed && (c == ':' || c == '%'));
  };
  if (!parts || parts->host[0] == '-' || !std::all_of(parts->host.begin(), parts->host.end(), is_valid))
    throw UsageError(given.quoted() +
                     " is not an endpoint; give HOST:PORT, with IPv6 addresses as [::1]:PORT");
  Endpoint endpoint{parts->host, {}};
  if (parts->port) {
    endpoint.port = whole_number(*parts->port);
    if (!endpoint.port || *endpoint.port < 0 || *endpoint.port > 65535)
      throw UsageError(given.quoted() + ": '" + *parts->port +
                       "' is not a port; give a number from 0 to 65535");
  }
  return endpoint;
}

std::string bare_host(const GivenText& given) {
  std::string host = given.text;
  if (host.size() > 2 && host.front() == '[' && host.back() == ']') host = host.substr(1, host.size() - 2);
  return host;
}

std::vector<std::string> parse_gpus(const GivenText& given) {
  const std::vector<std::string> gpus = split(given.text, ',');
  const auto is_gpu = [](const std::string& gpu) {
    if (gpu.starts_with("GPU-") || gpu.starts_with("MIG-")) return gpu.size() > 4;
    return parse_number<unsigned>(gpu).has_value();
  };
  for (std::size_t i = 0; i < gpus.size(); ++i) {
    if (!is_gpu(gpus[i]))
      throw UsageError(given.quoted() + ": '" + gpus[i] +
                       "' names no GPU; give numbers, as nvidia-smi lists them, UUIDs (GPU-...) or " +
                       "instances (MIG-...), with commas between them");
    if (std::find(gpus.begin(), gpus.begin() + static_cast<std::ptrdiff_t>(i), gpus[i]) !=
        gpus.begin() + static_cast<std::ptrdiff_t>(i))
      throw UsageError(given.quoted() + " names GPU " + gpus[i] + " twice");
  }
  return gpus;
}

std::string parse_job_name(const GivenText& given) {
  constexpr std::size_t kMost = 64;
  const auto is_valid = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' ||
           c == '_' || c == '-';
  };
  const std::string& text = given.text;
  if (!text.empty() && text.size() <= kMost && text[0] != '-' &&
      std::all_of(text.begin(), text.end(), is_valid))
    return text;
  throw UsageError(given.quoted() + " is no name of a job; give 1 to " + std::to_string(kMost) +
                   " letters, digits, '.', '_' and '-', not beginning with '-'");
}

ListenPlace parse_listen_place(const GivenText& given) {
  constexpr std::string_view kUnix = "unix:";
  constexpr std::size_t kPathMost = 107;  // sockaddr_un
  ListenPlace place;
  if (given.text.starts_with(kUnix)) {
    place.path = given.text.substr(kUnix.size());
    if (place.path.empty() || place.path.size() > kPathMost || place.path.find('\0') != std::string::npos)
      throw UsageError(given.quoted() + " has no usable path; give one of 1 to " + std::to_string(kPathMost) +
                       " bytes");
    return place;
  }
  const auto address = parse_host_port(given.text);
  if (!address || (address->host != "127.0.0.1" && address->host != "::1"))
    throw UsageError(given.quoted() +
                     " is no place that only this host reaches; give 127.0.0.1:PORT, [::1]:PORT or unix:PATH "
                     "(port 0: a free one)");
  place.host = address->host;
  place.port = address->port;
  return place;
}

std::string parse_choice(const GivenText& given, const std::vector<std::string>& words) {
  if (std::find(words.begin(), words.end(), given.text) != words.end()) return given.text;
  throw UsageError(given.quoted() + " is not known; give one of " + joined(words));
}

}  // namespace muster::launcher
