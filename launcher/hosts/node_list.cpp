// SPDX-License-Identifier: Apache-2.0
#include "launcher/hosts/node_list.hpp"

#include "launcher/hosts/host_list.hpp"

#include <set>

namespace muster::launcher {

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
