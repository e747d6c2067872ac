// SPDX-License-Identifier: Apache-2.0
#include "launcher/core/launch_error.hpp"
#include "launcher/hosts/host_list.hpp"
#include "launcher/hosts/host_pattern.hpp"
#include "launcher/hosts/placement.hpp"
#include "launcher/slurm/slurm_place.hpp"
#include "tests/fuzz/checks.hpp"

#include <algorithm>
#include <set>

using namespace muster::launcher;
using muster::fuzz::require;

namespace {

/// ssh is given these as arguments.
bool is_harmless(const std::string& name) {
  return !name.empty() && name[0] != '-' && name.size() < 300 &&
         std::all_of(name.begin(), name.end(), [](char c) {
           return c > 0x20 && c < 0x7f &&
                  std::string("\"'`$&|;<>(){}[]*?~!#,/@").find(c) == std::string::npos;
         });
}

void check_placement(const std::vector<NodePlan>& nodes) {
  int next = 0;
  std::set<std::string> names;
  for (const NodePlan& node : nodes) {
    require(node.workers > 0 && node.first_rank == next, "ranks are contiguous and every node has a worker");
    require(names.insert(lower_case(node.name)).second, "names of nodes are unique");
    next += node.workers;
  }
}

void check_hosts(const std::vector<Host>& hosts) {
  require(!hosts.empty() && hosts.size() <= kMaxHosts, "some hosts, not too many");
  for (const Host& host : hosts) {
    require(is_harmless(host.name), "host names are harmless");
    require(host.user.empty() || is_harmless(host.user), "user names are harmless");
    require(host.port >= 0 && host.port <= 65'535 && host.slots >= 0 && host.slots <= kMaxSlots,
            "numbers in range");
    require(host.max_slots == 0 || host.slots <= host.max_slots, "slots are within max-slots");
  }
  check_placement(place_workers(hosts, {}));
  PlacementWishes wishes;
  wishes.total = 7;
  wishes.total_given = GivenText{"7", "--np"};
  wishes.map_by = MapBy::node;
  check_placement(place_workers(hosts, wishes));
}

void check_filter(const std::string& text) {
  static const std::vector<Host> hosts = parse_host_list({"n0:4,n1:4,n2:2,n3,r[0-3]:2", "--host"});
  const std::vector<Host> kept = include_hosts(hosts, {text, "--include"});
  require(!kept.empty() && kept.size() <= hosts.size(), "a filter keeps some hosts");
  std::size_t left = 0;
  try {
    left = exclude_hosts(hosts, {text, "--exclude"}).size();
  } catch (const UsageError&) {  // nothing left, or GPUs of a host whose slots are not known
    return;
  }
  require(left + kept.size() >= hosts.size(), "what is not kept is left");
}

void check_error(const UsageError& error) {
  require(error.excerpt().empty() || error.excerpt().size() == 2, "an excerpt is a line and a caret");
  if (error.excerpt().empty()) return;
  const std::string& caret = error.excerpt()[1];
  require(caret.find_first_not_of(' ') == caret.size() - 1 && caret.back() == '^', "a caret behind blanks");
  require(caret.size() <= error.excerpt()[0].size() + 1,
          "the caret stands under the line, or right behind it");
  for (const std::string& line : error.excerpt())
    require(std::all_of(line.begin(), line.end(), [](char c) { return c >= 0x20 && c < 0x7f; }),
            "printable ASCII");
}

}  // namespace

bool muster::fuzz::check_hosts_input(std::string_view input) {
  if (input.empty()) return false;
  const std::string text(input.substr(1));
  try {
    switch (input[0]) {
      case 'H':
        check_hosts(parse_host_list({text, "--host"}));
        break;
      case 'F':
        check_hosts(parse_hostfile(text, "hosts"));
        break;
      case 'S':
        for (const std::string& name : expand_node_list({text, "SLURM_JOB_NODELIST"}))
          require(is_harmless(name), "node names are harmless");
        break;
      case 'T':
        require(!expand_task_counts(text, "SLURM_TASKS_PER_NODE").empty(), "some tasks");
        break;
      default:
        check_filter(text);
        break;
    }
    return true;
  } catch (const UsageError& error) {  // the only way to say no
    check_error(error);
    return false;
  }
}
