// SPDX-License-Identifier: Apache-2.0
#include "launcher/job_spec/dry_run.hpp"

#include "agent/core/exit_status.hpp"
#include "agent/core/memory_end.hpp"
#include "launcher/hosts/placement.hpp"

#include <nlohmann/json.hpp>

#include <algorithm>

namespace muster::launcher {
namespace {

using Json = nlohmann::ordered_json;

constexpr int kSchemaVersion = 2;

Json names_of(const std::vector<int>& signals) {
  Json list = Json::array();
  for (const int number : signals) list.push_back(agent::signal_name(number));
  return list;
}

Json signals_of(const JobSpec& spec) {
  Json list = Json::array();
  for (const HandledSignal& signal : spec.signals)
    list.push_back({{"name", agent::signal_name(signal.number)}, {"named", signal.named}});
  return list;
}

const char* name_of(StartForm form) {
  switch (form) {
    case StartForm::local:
      return "local";
    case StartForm::ssh:
      return "ssh";
    case StartForm::slurm:
      return "slurm";
    case StartForm::peer:
      return "peer";
  }
  return "";
}

/// Returns the nodes of the job, also if no host was listed.
std::vector<NodePlan> nodes_of(const JobSpec& spec) {
  if (!spec.nodes.empty() || spec.form == StartForm::peer) return spec.nodes;
  NodePlan here;
  here.name = spec.agent.host;
  here.local = true;
  here.workers = spec.agent.workers;
  return {here};
}

Json placement_of(const JobSpec& spec) {
  Json nodes = Json::array();
  Json ranks = Json::array();
  for (const NodePlan& node : nodes_of(spec)) {
    nodes.push_back({{"name", node.name},
                     {"user", node.user},
                     {"ssh_target", node.ssh_target},
                     {"ssh_port", node.ssh_port},
                     {"local", node.local},
                     {"slots", node.slots},
                     {"workers", node.workers},
                     {"workers_by", node.workers_by},
                     {"first_rank", node.first_rank},
                     {"gpus", node.gpus}});
    for (int i = 0; i < node.workers && node.first_rank >= 0; ++i)
      ranks.push_back(
          {{"rank", node.first_rank + i}, {"host", node.name}, {"local_rank", i}, {"gpu", gpu_of(node, i)}});
  }
  return {{"nodes", nodes}, {"ranks", ranks}};
}

Json remote_of(const RemoteOptions& remote) {
  Json exported = Json::array();
  for (const auto& [name, value] : remote.environment) exported.push_back(name);
  return {{"ssh_command", remote.ssh_command},
          {"ssh_config", remote.ssh_config},
          {"ssh_port", remote.ssh_port},
          {"accept_new_host_keys", remote.accept_new_host_keys},
          {"remote_muster", remote.remote_muster},
          {"push", remote.push},
          {"working_directory", remote.working_directory},
          {"exported", exported}};
}

Json allowance_of(const Allowance& here) {
  return {{"processors", here.processors}, {"affinity", here.affinity},
          {"cpu_quota", here.quota},       {"cpu_quota_group", here.quota_group},
          {"memory", here.memory},         {"memory_group", here.memory_group}};
}

std::string padded(std::string text, std::size_t width) {
  text.resize(std::max(width, text.size()), ' ');
  return text;
}

std::string rank_range(int first, int count) {
  if (first < 0 || count == 0) return "?";
  return std::to_string(first) + (count > 1 ? "-" + std::to_string(first + count - 1) : "");
}

std::string text_of(const ListenPlace& place) {
  if (!place.path.empty()) return "unix:" + place.path;
  if (place.host.empty()) return "";
  const bool v6 = place.host.find(':') != std::string::npos;
  return (v6 ? "[" + place.host + "]:" : place.host + ":") + std::to_string(place.port);
}

}  // namespace

std::string placement_table(const JobSpec& spec) {
  constexpr std::size_t kRanksWidth = 14;
  std::size_t width = 4;
  for (const NodePlan& node : spec.nodes) width = std::max(width, node.name.size());
  std::string text;
  for (const NodePlan& node : spec.nodes) {
    std::string gpus;
    for (int i = 0; i < node.workers; ++i) gpus += (i == 0 ? "" : ",") + std::to_string(gpu_of(node, i));
    if (node.gpus.empty()) gpus = rank_range(0, node.workers);
    const std::string workers =
        node.workers > 0 ? std::to_string(node.workers) : "one for each " + node.workers_by;
    text += padded(rank_range(node.first_rank, node.workers), kRanksWidth) + padded(node.name, width + 2) +
            padded(workers, 9) + gpus + (node.local ? "  (this machine)" : "") + "\n";
  }
  if (text.empty()) return "";
  return padded("RANKS", kRanksWidth) + padded("HOST", width + 2) + padded("WORKERS", 9) + "LOCAL GPUS\n" +
         text;
}

std::string allowance_text(const Allowance& here) {
  std::string text;
  if (here.quota_decides())
    text = std::to_string(here.processors) + " of " + std::to_string(here.affinity) +
           " processors (quota of cgroup '" + here.quota_group + "')";
  if (!here.memory_group.empty())
    text += (text.empty() ? "" : ", ") + agent::memory_text(here.memory) + " of memory (limit of cgroup '" +
            here.memory_group + "')";
  return text.empty() ? "" : "this machine gives us " + text;
}

std::string to_json(const JobSpec& spec, const Allowance& here) {
  const Json job = {{"schema", "muster.job"},
                    {"version", kSchemaVersion},
                    {"name", spec.name},
                    {"rdzv_backend", spec.rdzv_backend},
                    {"rdzv_endpoint", spec.rdzv_endpoint},
                    {"standalone", spec.standalone},
                    {"form", name_of(spec.form)},
                    {"allowance", allowance_of(here)},
                    {"placement", placement_of(spec)},
                    {"remote", remote_of(spec.remote)},
                    {"gather_logs", spec.gather_logs},
                    {"secret_file", spec.peer.secret_file},
                    {"no_secret", spec.peer.no_secret},
                    {"signals", signals_of(spec)},
                    {"forwarded_signals", names_of(spec.forwarded_signals)},
                    {"deadline_ms", spec.deadline.count()},
                    {"stdin", spec.stdin_policy == StdinPolicy::inherit ? "inherit" : "null"},
                    {"report_file", spec.report_file},
                    {"event_file", spec.event_file},
                    {"metrics_listen", text_of(spec.metrics_listen)},
                    {"metrics_textfile", spec.metrics_textfile},
                    {"error_file_copy", spec.error_file_copy},
                    {"agent", Json::parse(agent::to_json(spec.agent))}};
  return job.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace muster::launcher
