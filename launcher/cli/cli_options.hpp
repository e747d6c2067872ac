// SPDX-License-Identifier: Apache-2.0
// The command line of `muster run`, each value checked by itself. What needs the machine or other flags to be
// judged is decided afterwards, by resolve_job().
#pragma once

#include "agent/core/agent_spec.hpp"
#include "launcher/core/launch_error.hpp"
#include "launcher/core/listen_place.hpp"
#include "launcher/core/node_plan.hpp"

#include <chrono>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

namespace muster::launcher {

/// A typed value and the text it was read from; without `given` the value is the default.
template <typename T>
struct Setting {
  T value{};
  std::optional<GivenText> given;
};

struct NodeRange {
  int min = 1;
  int max = 1;
  bool operator==(const NodeRange&) const = default;
};

struct RdzvConf {
  std::optional<std::chrono::milliseconds> join_timeout;
  std::optional<std::chrono::milliseconds> last_call_timeout;
  /// The join timeout of the static rendezvous, which alone has this key and checks it.
  std::optional<GivenText> timeout;
  /// Whether the coordinator runs on this node.
  std::optional<bool> is_host;
  /// Keys that torchrun reads and that have no effect here, as given.
  std::vector<std::string> without_effect;
};

/// One item of --export: a variable of ours, all with a beginning (NAME*), or a value for every worker.
struct ExportItem {
  std::string name;
  std::optional<std::string> value;
  bool is_prefix = false;
  bool operator==(const ExportItem&) const = default;
};

struct CliOptions {
  // workers and nodes
  Setting<NodeRange> nnodes;
  Setting<std::string> nproc_per_node{"1", {}};
  Setting<int> node_rank;
  Setting<std::vector<std::string>> gpus;
  Setting<bool> virtual_local_rank;
  Setting<std::string> numa_binding;
  Setting<std::string> bind_to{"none", {}};
  // hosts
  Setting<std::string> host;
  Setting<std::string> hostfile;
  Setting<std::string> include;
  Setting<std::string> exclude;
  Setting<int> np;
  Setting<bool> oversubscribe;
  Setting<std::string> map_by{"slot", {}};
  Setting<std::string> slurm{"auto", {}};
  // what goes to the hosts
  Setting<std::string> wdir;
  Setting<std::vector<ExportItem>> exported;
  Setting<std::string> remote_muster;
  Setting<bool> push;
  Setting<std::vector<std::string>> ssh_command{{"ssh"}, {}};
  Setting<std::string> ssh_config;
  Setting<int> ssh_port;
  Setting<bool> ssh_accept_new;
  Setting<std::chrono::milliseconds> login_timeout{kLoginTimeout, {}};
  // security of the peer-started form
  Setting<std::string> secret_file;
  Setting<bool> insecure_no_secret;
  // rendezvous
  Setting<bool> standalone;
  Setting<std::string> rdzv_backend{"static", {}};
  Setting<std::string> rdzv_endpoint;
  Setting<std::string> rdzv_id{"none", {}};
  Setting<RdzvConf> rdzv_conf;
  Setting<std::string> master_addr{"127.0.0.1", {}};
  Setting<int> master_port{29500, {}};
  Setting<std::string> local_addr;
  Setting<std::string> interface_name;
  Setting<bool> store_admission{true, {}};
  Setting<bool> store_proxy;
  // program
  Setting<bool> module;
  Setting<bool> no_python;
  Setting<bool> run_path;
  Setting<std::string> start_method{"spawn", {}};
  Setting<bool> allow_singletons;
  Setting<std::string> role{"default", {}};
  // failure and end
  Setting<int> max_restarts;
  Setting<rendezvous::RestartRule> restart_policy;
  Setting<std::chrono::milliseconds> hang_timeout{rendezvous::kHangTimeout, {}};
  Setting<rendezvous::HangAction> on_hang;
  Setting<std::chrono::milliseconds> monitor_interval{std::chrono::milliseconds(100), {}};
  Setting<std::chrono::milliseconds> shutdown_timeout{agent::kShutdownTimeout, {}};
  Setting<std::chrono::milliseconds> timeout;
  /// The process that the job ends with; 0: none.
  Setting<int> end_with{0, {}};
  Setting<std::vector<int>> signals_to_handle;
  /// Who of a worker gets the stop signal: "process" or "group".
  Setting<std::string> stop_target{"process", {}};
  /// Notices that are passed on to workers; without `given` the default ones.
  Setting<std::vector<int>> forward_signals;
  // output
  Setting<std::string> log_dir;
  Setting<agent::StreamsByRank> redirects;
  Setting<agent::StreamsByRank> tee;
  Setting<std::string> log_line_prefix_template;
  /// Bytes; 0: no bound.
  Setting<std::uint64_t> log_max_size;
  Setting<std::optional<std::set<int>>> local_ranks_filter;
  Setting<std::vector<std::string>> duplicate_stdout_filters;
  Setting<std::vector<std::string>> duplicate_stderr_filters;
  Setting<bool> raw_output;
  Setting<std::string> gather_logs;
  /// The rank that reads our stdin; -1: none.
  Setting<int> stdin_rank{-1, {}};
  Setting<std::string> logs_specs;
  Setting<std::string> event_log_handler{"null", {}};
  // reports and help
  Setting<std::string> name;
  Setting<bool> detach;
  Setting<bool> dry_run;
  Setting<std::string> report;
  Setting<std::string> event_file;
  Setting<ListenPlace> metrics_listen;
  Setting<std::string> metrics_textfile;
  Setting<std::string> log_level;
  Setting<std::string> print_completion;
  bool help = false;
  /// The script or program, then its own arguments, untouched.
  std::vector<std::string> program;
  /// A note about a flag of ours behind the program; empty: there is none.
  std::string misplaced;
};

}  // namespace muster::launcher
