// SPDX-License-Identifier: Apache-2.0
// The small languages of flag values. Each function is pure, accepts any bytes, and throws UsageError that
// quotes the value with its source and says what would be right.
#pragma once

#include "launcher/cli/cli_options.hpp"

#include <chrono>
#include <optional>
#include <set>
#include <string>
#include <vector>

namespace muster::launcher {

/// Decimal, with an optional sign, within [low, high].
int parse_whole_number(const GivenText& given, int low, int high);

/// 0 or 1 in any decimal spelling, as torchrun reads PET_ variables of switches (any other number is true).
bool parse_switch(const GivenText& given);

/// Seconds, fractions allowed, from `low` (0 or just above it: `positive`) to about three years.
std::chrono::milliseconds parse_seconds(const GivenText& given, bool positive);

/// "N" or "MIN:MAX" with 0 < MIN <= MAX.
NodeRange parse_node_range(const GivenText& given);

/// "0".."3" for all ranks, or "RANK:0..3,..." for some (others none). Ranks of any length.
agent::StreamsByRank parse_streams(const GivenText& given);

/// "key=value,...", perhaps in one pair of quotes that no shell has taken away. A key without a value is an
/// error, as under torchrun; one that no rendezvous of PyTorch reads is one, too.
RdzvConf parse_rdzv_conf(const GivenText& given);

/// "SIGTERM,INT,...": ascending numbers. Signals that cannot be handled sensibly are errors.
std::vector<int> parse_signals(const GivenText& given);

/// SIGUSR1 and SIGUSR2, spelled as for parse_signals; "none" is an empty list.
std::vector<int> parse_forwarded_signals(const GivenText& given);

/// "0,2,11"; empty text means no filter.
std::optional<std::set<int>> parse_rank_filter(const GivenText& given);

/// Comma-separated substrings, ",," being a comma inside one; empty items are dropped.
std::vector<std::string> parse_filters(const GivenText& given);

/// "NAME,NAME=VALUE,NAME*": what --export adds to the workers' environment; ",," is a comma inside a value.
std::vector<ExportItem> parse_exports(const GivenText& given);

/// A command line split at blanks; '...', "..." and a backslash keep them, nothing else is special.
std::vector<std::string> parse_words(const GivenText& given);

struct Endpoint {
  /// Host name or address, IPv6 without its brackets.
  std::string host;
  std::optional<int> port;
};

/// "host", "host:port", "[ipv6]:port" or "[ipv6]".
Endpoint parse_endpoint(const GivenText& given);

/// An address without a port, "[::1]" or "::1" or a name, as --master-addr and --local-addr take it: without
/// brackets, and perhaps empty.
std::string bare_host(const GivenText& given);

/// One of `words`, as given.
std::string parse_choice(const GivenText& given, const std::vector<std::string>& words);

/// Splits at `separator`; "a,,b" has an empty middle part, "" one empty part.
std::vector<std::string> split(const std::string& text, char separator);

}  // namespace muster::launcher
