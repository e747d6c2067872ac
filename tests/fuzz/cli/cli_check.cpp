// SPDX-License-Identifier: Apache-2.0
#include "agent/core/worker_environment.hpp"
#include "agent/process/gpu_inventory.hpp"
#include "launcher/cli/flag_table.hpp"
#include "launcher/cli/normalize_arguments.hpp"
#include "launcher/cli/value_syntax.hpp"
#include "launcher/core/launch_error.hpp"
#include "launcher/job_spec/log_directory.hpp"
#include "rendezvous/log/terminal_text.hpp"
#include "tests/fuzz/checks.hpp"

#include <algorithm>

using namespace muster::launcher;
using muster::fuzz::require;

namespace {

GivenText given(const std::string& text) {
  return {text, "--flag"};
}

void check_values(const std::string& text) {
  switch (text[0]) {
    case 's': {
      const auto streams = parse_streams(given(text.substr(1)));
      require(streams.fallback <= 3, "stream bits are 0 to 3");
      for (const auto& [rank, bits] : streams.by_rank)
        require(rank >= 0 && bits <= 3, "ranks and bits in range");
      break;
    }
    case 'r': {
      const RdzvConf conf = parse_rdzv_conf(given(text.substr(1)));
      require(!conf.join_timeout || conf.join_timeout->count() > 0, "join_timeout is positive");
      require(!conf.last_call_timeout || conf.last_call_timeout->count() >= 0,
              "last_call_timeout is not negative");
      break;
    }
    case 'k': {
      const auto signals = parse_signals(given(text.substr(1)));
      require(!signals.empty() && std::is_sorted(signals.begin(), signals.end()), "signals are sorted");
      break;
    }
    case 'n': {
      const NodeRange nodes = parse_node_range(given(text.substr(1)));
      require(nodes.min >= 1 && nodes.max >= nodes.min, "node ranges are in order");
      break;
    }
    case 'e': {
      const Endpoint endpoint = parse_endpoint(given(text.substr(1)));
      require(!endpoint.host.empty() && endpoint.port.value_or(0) <= 65535,
              "endpoints have a host and a port");
      break;
    }
    case 'f':
      parse_filters(given(text.substr(1)));
      break;
    case 'l':
      parse_rank_filter(given(text.substr(1)));
      break;
    case 't':
      require(parse_seconds(given(text.substr(1)), true).count() > 0, "seconds are positive");
      break;
    default:
      break;
  }
}

void check_arguments(const std::string& text) {
  const std::vector<std::string> arguments = split(text, '\n');
  const NormalizedArguments normalized = normalize_arguments(flag_table(), arguments);
  require(normalized.program.size() <= arguments.size() &&
              std::equal(normalized.program.rbegin(), normalized.program.rend(), arguments.rbegin()),
          "the program is the end of the arguments");
}

void check_gpus(const std::string& text) {
  const muster::agent::GpuInventory four{{"GPU-aa1", "GPU-aa2", "GPU-b", "GPU-c"}, ""};
  const int count = muster::agent::visible_gpu_count(four, text);
  require(count >= 0 && (count <= 4 || text.starts_with("MIG-")), "no more GPUs than there are");
}

void check_terminal(const std::string& text) {
  const std::string safe = muster::for_terminal(text);
  require(
      std::none_of(safe.begin(), safe.end(),
                   [](char c) { return (static_cast<unsigned char>(c) < 0x20 && c != '\t') || c == 0x7f; }),
      "no control character passes");
  require(muster::for_terminal(safe) == safe, "escaped text needs no escaping");
}

void check_names(const std::string& text) {
  const std::string path = plan_log_directory("base", "", text).path;
  require(path.starts_with("base/") && path.find('/', 5) == std::string::npos &&
              path.find('\0') == std::string::npos,
          "a run id names one directory");
  const std::string once = muster::agent::substitute_local_rank(text, "0");
  require(once.size() <= text.size(), "a short value never lengthens the text");
}

}  // namespace

bool muster::fuzz::check_cli_input(std::string_view input) {
  if (input.empty()) return false;
  const std::string text(input.substr(1));
  try {
    switch (input[0]) {
      case 'A':
        check_arguments(text);
        break;
      case 'G':
        check_gpus(text);
        break;
      case 'T':
        check_terminal(text);
        break;
      case 'N':
        check_names(text);
        break;
      default:
        check_values(std::string(input));
        break;
    }
    return true;
  } catch (const UsageError&) {  // the only way to say no
    return false;
  }
}
