// SPDX-License-Identifier: Apache-2.0
// Reads the hosts of a job as the user lists them: --host, --hostfile, --include and --exclude.
#pragma once

#include "launcher/core/launch_error.hpp"
#include "launcher/hosts/host_pattern.hpp"

#include <cstddef>
#include <map>
#include <string>
#include <utility>
#include <vector>

namespace muster::launcher {

constexpr int kMaxSlots = 65'536;
/// The largest number in "HOST:NUMBER" that is not taken for a port that was meant.
constexpr int kMaxShortSlots = 1024;
/// The smallest number in "USER@HOST:NUMBER", 22 apart, that is not taken for slots that were meant.
constexpr int kMinShortPort = 256;

struct Host {
  /// Name or address, IPv6 without its brackets.
  std::string name;
  std::string user;
  /// The SSH port; 0: not given.
  int port = 0;
  /// The number of slots; 0: not given.
  int slots = 0;
  /// Open MPI's max-slots: not even --oversubscribe goes beyond. 0: no limit.
  int max_slots = 0;
  /// The place where it was listed: "--host, position 4".
  std::string place;
  /// GPUs that --include or --exclude left, ascending; empty: all. Then `slots` is their number.
  std::vector<int> gpus;
};

/// Reads "[USER@]HOST[:...],...": HOST:SLOTS, USER@HOST:PORT, and for both [USER@]HOST:PORT:SLOTS, where
/// either may be empty. HOST may hold ranges (n[00-15]); IPv6 addresses stand in brackets. A host without
/// slots may be listed again, and has a slot for each time; then every other host without slots has one.
/// Throws UsageError with the place.
std::vector<Host> parse_host_list(const GivenText& given);

/// Reads Open MPI's and DeepSpeed's hostfile: one HOST a line, as in a host list, then slots=N and
/// max-slots=N; blank lines and what follows '#' or "//" are skipped. Also reads the file of a batch system
/// with a line for each slot (PBS, LSF). Throws UsageError with "<name>:LINE:COLUMN".
std::vector<Host> parse_hostfile(const std::string& content, const std::string& name);

/// One item of a list: what all the hosts of its pattern have in common, and their names.
struct ListedHosts {
  Host host;
  std::vector<std::string> names;
};

/// Reads `span`, "[USER@]HOST[:...]".
ListedHosts parse_hosts(const SourceLine& line, Span span);

/// Gathers the hosts of a list. A host that is listed again has a slot more, unless slots or another user
/// stand there, which is an error naming both places.
class HostCollector {
 public:
  /// Adds hosts; `at` is where in `line` they are listed.
  void add(const SourceLine& line, std::size_t at, const ListedHosts& listed);

  bool empty() const { return hosts_.empty(); }

  /// Returns the hosts, in the order in which each was listed first. Call it once, at the end.
  std::vector<Host> take();

 private:
  void add_one(const SourceLine& line, std::size_t at, const Host& host);

  std::vector<Host> hosts_;
  /// How often each host was listed.
  std::vector<int> times_;
  std::size_t listed_ = 0;
  /// Places in the list by lower-case name and port, as host names have no case.
  std::map<std::pair<std::string, int>, std::size_t> seen_;
};

/// Returns a name for each node that is unique in the list: "n0", or "n0:2222" for a host that is listed with
/// several ports.
std::vector<std::string> node_names(const std::vector<Host>& hosts);

/// Returns the text in lower case, because host names have no case.
std::string lower_case(const std::string& text);

/// Keeps the hosts and GPUs that `given` names, in the order of `hosts`. Host names may hold ranges, GPUs too
/// ("0-3"). Throws UsageError with the place: a host that is not listed, a GPU beyond its slots, twice the
/// same.
std::vector<Host> include_hosts(const std::vector<Host>& hosts, const GivenText& given);

/// Drops the hosts and GPUs that `given` names; a host without a GPU left goes.
std::vector<Host> exclude_hosts(const std::vector<Host>& hosts, const GivenText& given);

}  // namespace muster::launcher
