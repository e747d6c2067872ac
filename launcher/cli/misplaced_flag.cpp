// SPDX-License-Identifier: Apache-2.0
#include "launcher/cli/misplaced_flag.hpp"

#include <algorithm>
#include <array>
#include <cstddef>

namespace muster::launcher {
namespace {

/// Training programs have a --log-dir, --timeout, --name or --master-port of their own, but none of these.
constexpr auto kOnlyOurs = std::to_array<std::string_view>(
    {"nnodes", "nproc-per-node", "standalone", "rdzv-backend", "rdzv-endpoint", "rdzv-id", "rdzv-conf",
     "max-restarts", "restart-policy", "shutdown-timeout", "hang-timeout", "on-hang", "signals-to-handle",
     "hostfile", "bind-to", "local-ranks-filter"});

/// Whether a program is named by its file. What is found through PATH (torchrun, bash, env, muster) may take
/// flags for a launcher.
bool is_file(std::string_view program) {
  return program.ends_with(".py") || program.starts_with("./");
}

}  // namespace

std::string misplaced_flag(const std::vector<std::string>& program, const std::set<std::string_view>& given) {
  if (program.empty() || !is_file(program.front())) return "";
  for (std::size_t i = 1; i < program.size() && program[i] != "--"; ++i) {
    std::string name = program[i].substr(0, program[i].find('='));
    if (!name.starts_with("--")) continue;
    std::replace(name.begin() + 2, name.end(), '_', '-');
    const auto known = std::find(kOnlyOurs.begin(), kOnlyOurs.end(), name.substr(2));
    if (known == kOnlyOurs.end() || given.contains(*known)) continue;
    return name + " stands behind " + program.front() +
           " and is passed on to it: flags after the program belong to the program; write it before " +
           program.front() + " if muster run is meant";
  }
  return "";
}

}  // namespace muster::launcher
