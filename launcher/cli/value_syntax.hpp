// SPDX-License-Identifier: Apache-2.0
// Reads the small languages of flag values. Each function is pure, accepts any bytes, and throws UsageError
// that quotes the value with its source and says what would be right.
#pragma once

#include "launcher/cli/cli_options.hpp"

#include <chrono>
#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <vector>

namespace muster::launcher {

/// Reads a decimal number, with an optional sign, within [low, high].
int parse_whole_number(const GivenText& given, int low, int high);

/// Reads 0 or 1 in any decimal spelling, as torchrun reads PET_ variables of switches (any other number is
/// true).
bool parse_switch(const GivenText& given);

/// Reads seconds, fractions allowed, or a number with a unit ("500ms", "90s", "5m", "2h", "1d"), from 0 (or
/// just above it: `positive`) to about three years.
std::chrono::milliseconds parse_seconds(const GivenText& given, bool positive);

/// Reads bytes, at least 4 KiB: a whole number with K, M, G or T behind it for powers of 1024 ("10M"), or
/// without.
std::uint64_t parse_size(const GivenText& given);

/// Reads "N" or "MIN:MAX" with 0 < MIN <= MAX.
NodeRange parse_node_range(const GivenText& given);

/// Reads "0".."3" for all ranks, or "RANK:0..3,..." for some (others none). A rank may have several digits.
agent::StreamsByRank parse_streams(const GivenText& given);

/// Reads "key=value,...", perhaps in one pair of quotes that no shell has taken away. A key without a value
/// is an error, as under torchrun; a key that no rendezvous of PyTorch reads is one, too.
RdzvConf parse_rdzv_conf(const GivenText& given);

/// Reads "SIGTERM,INT,..." into ascending numbers. Signals that cannot be handled sensibly are errors.
std::vector<int> parse_signals(const GivenText& given);

/// Reads SIGUSR1 and SIGUSR2, spelled as for parse_signals; "none" is an empty list.
std::vector<int> parse_forwarded_signals(const GivenText& given);

/// Reads "0,2,11"; empty text means no filter.
std::optional<std::set<int>> parse_rank_filter(const GivenText& given);

/// Reads comma-separated substrings, ",," being a comma inside one; empty items are dropped.
std::vector<std::string> parse_filters(const GivenText& given);

/// Reads "NAME,NAME=VALUE,NAME*": what --export adds to the workers' environment; ",," is a comma inside a
/// value.
std::vector<ExportItem> parse_exports(const GivenText& given);

/// Splits a command line at blanks; '...', "..." and a backslash keep them, nothing else is special.
std::vector<std::string> parse_words(const GivenText& given);

struct Endpoint {
  /// Host name or address, IPv6 without its brackets.
  std::string host;
  std::optional<int> port;
};

/// Reads "host", "host:port", "[ipv6]:port" or "[ipv6]".
Endpoint parse_endpoint(const GivenText& given);

/// Reads an address without a port, "[::1]" or "::1" or a name, as --master-addr and --local-addr take it.
/// Returns it without brackets, and perhaps empty.
std::string bare_host(const GivenText& given);

/// Reads a name for a job: at most 64 letters, digits, '.', '_' and '-', the first of them no '-', which
/// would make it a flag of the commands that take the name.
std::string parse_job_name(const GivenText& given);

/// GPUs as CUDA_VISIBLE_DEVICES names them, each once: numbers, UUIDs (GPU-...) or instances (MIG-...).
std::vector<std::string> parse_gpus(const GivenText& given);

/// Reads "127.0.0.1:PORT", "[::1]:PORT" or "unix:PATH": places that only this host reaches.
ListenPlace parse_listen_place(const GivenText& given);

/// Returns the value if it is one of `words`.
std::string parse_choice(const GivenText& given, const std::vector<std::string>& words);

/// Splits at `separator`; "a,,b" has an empty middle part, "" one empty part.
std::vector<std::string> split(const std::string& text, char separator);

}  // namespace muster::launcher
