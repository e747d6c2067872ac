// SPDX-License-Identifier: Apache-2.0
#include "launcher/doctor/core/all_reduce_check.hpp"

#include "rendezvous/base/text.hpp"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <array>
#include <cstdio>
#include <string_view>

namespace muster::launcher {
namespace {

constexpr const char* kWhat = "all_reduce";
/// The most of a line of somebody else's that a finding shows.
constexpr std::size_t kLineMax = 300;

/// One worker of the job: its rank 0 prints a line of JSON. A median of several calls, as the first one makes
/// the connections.
constexpr const char* kProgram = R"(
import sys
sys.path[:] = [place for place in sys.path if place]  # not from the current folder, as a script does not
import datetime, json, statistics, time
import torch, torch.distributed as dist
cuda = torch.cuda.is_available() and dist.is_nccl_available()
device = torch.device("cuda", 0) if cuda else torch.device("cpu")
dist.init_process_group("nccl" if cuda else "gloo", timeout=datetime.timedelta(seconds=30))
values = torch.empty(1 << 18, dtype=torch.float32, device=device)
took = []
for _ in range(6):
    values.fill_(dist.get_rank() + 1)
    begin = time.perf_counter()
    dist.all_reduce(values)
    right = float(values.min()) == float(values.max()) == dist.get_world_size() * (dist.get_world_size() + 1) / 2
    took.append(time.perf_counter() - begin)
    if not right:
        raise SystemExit("the sum that rank %d got is wrong" % dist.get_rank())
if dist.get_rank() == 0:
    print("\n" + json.dumps({"muster_all_reduce": dist.get_backend(), "seconds": statistics.median(took[1:])}), flush=True)
dist.destroy_process_group()
)";

std::string host_text(const NodePlan& host) {
  const bool is_ipv6 = host.ssh_target.find(':') != std::string::npos;
  std::string text = host.user.empty() ? "" : host.user + "@";
  text += is_ipv6 ? "[" + host.ssh_target + "]" : host.ssh_target;
  // The colon at the end says that the number is a port, not a number of slots.
  if (host.ssh_port != 0) text += ":" + std::to_string(host.ssh_port) + ":";
  return text;
}

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.find('\n', begin), text.size());
    if (end > begin) lines.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return lines;
}

/// The line that says most about a failure: the launcher's own error, else the report's root cause, else the
/// last exception of a worker, else the last line.
std::string telling_line(const std::string& errors) {
  const std::vector<std::string> lines = lines_of(errors);
  constexpr std::array<std::string_view, 3> kTelling = {"muster: error: ", "root cause", "Error: "};
  for (const std::string_view telling : kTelling)
    for (auto line = lines.rbegin(); line != lines.rend(); ++line)
      if (line->find(telling) != std::string::npos)
        return line->substr(line->find_first_not_of(' '), kLineMax);
  return lines.empty() ? "it said nothing" : lines.back().substr(0, kLineMax);
}

std::string milliseconds(double seconds) {
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), "%.1f ms", seconds * 1000);
  return text.data();
}

}  // namespace

std::string why_no_all_reduce(const std::vector<HostReport>& hosts) {
  if (hosts.size() < 2) return "one host only";
  for (const HostReport& host : hosts)
    if (!host.facts) return host.name + " was not reached";
  for (const HostReport& host : hosts)
    if (host.facts->python.torch.empty()) return "no torch on " + host.name;
  return {};
}

std::vector<std::string> all_reduce_command(const std::string& muster, const std::vector<NodePlan>& hosts,
                                            const std::vector<std::string>& run_flags,
                                            const std::string& python) {
  std::vector<std::string> names;
  for (const NodePlan& host : hosts) names.push_back(host_text(host));
  std::vector<std::string> command = {muster, "run", "--host", joined(names, ","), "--nproc-per-node", "1"};
  command.insert(command.end(), run_flags.begin(), run_flags.end());
  const std::string limit = std::to_string(kAllReduceAtMost.count());
  for (const std::string& word :
       {std::string("--timeout"), limit, std::string("--shutdown-timeout"), std::string("2"),
        std::string("--no-python"), python, std::string("-c"), std::string(kProgram)})
    command.push_back(word);
  return command;
}

Finding judge_all_reduce(const AllReduceEnd& end, std::size_t hosts) {
  const std::string of_hosts = std::to_string(hosts) + " hosts";
  constexpr std::string_view kBegin = "{\"muster_all_reduce\"";
  const std::size_t begin = end.out.find(kBegin);
  if (end.exit_code == 0 && !end.timed_out && begin != std::string::npos) {
    const std::string line = end.out.substr(begin, end.out.find('\n', begin) - begin);
    const auto said = nlohmann::json::parse(line, nullptr, false);
    if (said.is_object() && said.value("seconds", nlohmann::json()).is_number())
      return {kWhat,
              Verdict::ok,
              "1 MiB on " + of_hosts + " with " + said.value("muster_all_reduce", std::string("?")) + " in " +
                  milliseconds(said["seconds"].get<double>()),
              {}};
  }
  const std::string found = end.timed_out        ? "the job did not end in time"
                            : end.exit_code == 0 ? "the workers ended without an answer"
                                                 : telling_line(end.errors);
  return {kWhat, Verdict::problem, found,
          "let the hosts reach each other on any port (a firewall; the interface: --interface, "
          "GLOO_SOCKET_IFNAME, NCCL_SOCKET_IFNAME); by hand: muster run -H ... --nproc-per-node 1 SCRIPT"};
}

}  // namespace muster::launcher
