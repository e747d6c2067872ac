// SPDX-License-Identifier: Apache-2.0
// What one agent is told to do: the launcher derives it from the validated job. To another host it travels
// as JSON.
#pragma once

#include "rendezvous/protocol/job_limits.hpp"

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <variant>
#include <vector>

namespace muster::agent {

/// Which of a worker's streams: a bit set, as in --redirects and --tee.
enum StreamBits : unsigned { kStreamNone = 0, kStreamOut = 1, kStreamErr = 2, kStreamBoth = 3 };

/// A StreamBits value for each local rank.
struct StreamsByRank {
  /// The bits of all ranks that `by_rank` does not name. Default: kStreamNone.
  unsigned fallback = kStreamNone;
  std::map<int, unsigned> by_rank;

  unsigned of(int local_rank) const {
    const auto found = by_rank.find(local_rank);
    return found == by_rank.end() ? fallback : found->second;
  }

  bool any() const {
    if (fallback != kStreamNone) return true;
    for (const auto& [rank, bits] : by_rank)
      if (bits != kStreamNone) return true;
    return false;
  }
};

/// Where the workers' output goes.
struct OutputSpec {
  /// The job's log directory, "<--log-dir or a temporary directory>/<run id>_<random>", made by the launcher
  /// (0700). Empty: no files at all (--log-dir /dev/null).
  std::string log_dir;
  /// Whether log_dir was made under the temporary directory: it is then removed after success, or if no file
  /// is in it.
  bool log_dir_is_temporary = false;
  /// --redirects: these streams go to files instead of the console.
  StreamsByRank redirects;
  /// --tee: these streams go to files and to the console, where each line carries a prefix.
  StreamsByRank tee;
  /// --log-line-prefix-template; ${role_name} ${local_rank} ${rank} ${hostname} ${time} ${elapsed}. Empty:
  /// "[<role><local rank>]:".
  std::string line_prefix_template;
  /// --log-max-size: bytes after which a log file begins anew, and the one before it is kept; 0: never.
  std::uint64_t log_max_bytes = 0;
  /// --local-ranks-filter: only these reach the console. Empty optional: all.
  std::optional<std::set<int>> console_ranks;
  /// --duplicate-std*-filters: teed lines that contain any of these are also written to filtered_std*.log.
  std::vector<std::string> stdout_filters;
  std::vector<std::string> stderr_filters;
  /// Whether several nodes share one console: then each line that goes there has a prefix, by default
  /// "[<rank>]: ".
  bool rank_prefix = false;
  /// --raw-output: nothing that workers print is escaped on a terminal.
  bool raw_output = false;
  /// Whether each line for the console says its round and rank, in the form of output/console_frame.hpp: it
  /// goes to the console process of a detached job, and no worker has our own streams.
  bool framed = false;
  /// --gather-logs: send the log files to the launcher at the end.
  bool gather_logs = false;
};

/// The only node of its job: no network, no keys.
struct AloneNode {};

/// A node that the launcher of another place (or of this host) started, and talks to over a link.
struct StartedNode {
  /// The port on which the coordinator listens; 0 for any free one.
  int listen_port = 0;
  /// Names or addresses of the other nodes. The coordinator listens on the interface that routes to them.
  std::vector<std::string> peers;
  /// Names of all nodes, by which the coordinator says who is missing. Empty: not known.
  std::vector<std::string> expected_nodes;
};

/// A node with a launcher of its own (torchrun's way). The coordinator listens on the port at which all meet.
struct PeerNode {
  /// The address on which the coordinator listens.
  std::string listen_host;
  /// Whether the user did not say that this node is the coordinator: then it is a client if our own job holds
  /// the port.
  bool hosting_inferred = false;
  /// What held the port when this node wanted it, for texts while nobody answers there.
  std::string port_trouble;
  /// Whether the user said how long to wait for the others, so that a name may appear late.
  bool waits_for_name = false;
  /// The file that the key came from, for messages. Empty: there is no key.
  std::string key_source;
  /// Whether the munge of the cluster says that a node is ours, where key files differ or are missing.
  bool munge = false;
  /// The flags that must be the same on all nodes, as people write them, with their values here.
  rendezvous::Settings settings;
};

using NodeForm = std::variant<AloneNode, StartedNode, PeerNode>;

/// The node's place in a job of several nodes. Holds no secret.
struct NodeSpec {
  NodeForm form;
  /// The node's name in the job, unique: the host as the user wrote it.
  std::string name;
  /// A number that differs for each start of a node; part of the identity that the node's key is made for. 0:
  /// the node draws one.
  std::uint64_t incarnation = 0;
  /// The place among the nodes that this one wants; -1: by arrival.
  int node_rank = -1;
  /// Whether this node of several runs the rendezvous daemon; the only node of a job does in any case.
  bool coordinator = false;
  /// --interface: the network interface on which the coordinator listens. Empty: the one that routes to the
  /// other nodes.
  std::string interface_name;
  /// Where the coordinator is. Empty: the launcher says so when the coordinator listens.
  std::string coordinator_host;
  int coordinator_port = 0;
  /// --local-addr: the address at which the other nodes reach this one (of nodes started from one place: the
  /// coordinator). Empty: that of the connection.
  std::string local_addr;
};

/// Time between the stop signal and KILL, unless the user says otherwise.
inline constexpr std::chrono::milliseconds kShutdownTimeout = std::chrono::seconds(30);

/// The job as one node's agent needs it.
struct AgentSpec {
  std::string run_id = "none";
  std::string role = "default";
  /// Name of this host in reports, environment and prefixes (short host name).
  std::string host;
  /// What the coordinator of the job is to know.
  rendezvous::JobLimits limits;
  /// Number of workers on this node.
  int workers = 1;
  /// Program and arguments; command[0] is looked up in PATH when it has no slash.
  std::vector<std::string> command;
  /// command[i] for i >= first_script_argument go through the ${local_rank} macro.
  std::size_t first_script_argument = 1;
  /// The directory in which workers start. Empty: the agent's.
  std::string working_directory;
  /// Variables that are set for every worker on top of what it inherits.
  std::vector<std::pair<std::string, std::string>> environment;
  /// Names of variables that are taken from what workers inherit, before `environment` is set.
  std::vector<std::string> unset_environment;
  /// --stdin: the global rank that reads the launcher's stdin. -1: none (with one node: all inherit it).
  int stdin_rank = -1;
  /// --bind-to: "none", "core", "numa" or "socket".
  std::string bind_to = "none";
  /// --numa-binding: "", "node", "socket", "exclusive" or "core-complex".
  std::string numa_binding;
  /// --virtual-local-rank: LOCAL_RANK=0 and one entry of CUDA_VISIBLE_DEVICES for each worker.
  bool virtual_local_rank = false;
  /// Time between the stop signal and KILL, whatever the cause of the stop (--shutdown-timeout).
  std::chrono::milliseconds shutdown_timeout = kShutdownTimeout;
  /// --stop-target group: the stop signal goes to a worker's whole process group, as torchrun sends it, and
  /// not to its own process (core/signal_route.hpp).
  bool stop_groups = false;
  /// Whether the launcher wants to learn the end of each worker at once (core/node_event.hpp).
  bool tell_worker_ends = false;
  /// Time after which a call that some ranks still wait in is reported (MUSTER_REPORT_AFTER; 0: never).
  /// Empty: as the program says, which is 15 s by default.
  std::optional<std::chrono::milliseconds> report_after;
  rendezvous::StoreSpec store;
  NodeSpec node;
  OutputSpec output;
};

/// Write a spec as JSON text, and read it. Field names are those of the struct; durations are whole
/// milliseconds named "<field>_ms". Reading throws std::invalid_argument naming the field that is missing or
/// of the wrong type. What a PeerNode finds out when it starts (listen_host, port_trouble, key_source, munge)
/// is left out.
std::string to_json(const AgentSpec& spec);
AgentSpec agent_spec_from_json(const std::string& text);

}  // namespace muster::agent
